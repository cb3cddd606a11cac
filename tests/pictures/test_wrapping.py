"""Words as lines of a label: nothing is lost before the last line is full, and no line is too wide."""

from __future__ import annotations

from hypothesis import given, strategies as st

from penstock.engine.tracing.display import columns
from penstock.pictures.wrapping import text_width, wrapped

words = st.text(st.characters(categories=("L", "N", "P", "S", "M", "Zs"), exclude_characters="\xa0"), max_size=120)


@given(words.map(lambda it: " ".join(it.split())), st.integers(4, 30), st.integers(1, 5))
def test_lines_hold_the_text_and_are_narrow(text: str, wide: int, lines: int) -> None:
    """All of it; or as much as there is room for, and a sign that there is more."""
    made = wrapped(text, wide, lines)
    assert 1 <= len(made) <= lines
    assert all(columns(line) <= wide and line == line.strip() for line in made)
    joined, whole = "".join("".join(made).split()), "".join(text.split())
    assert joined == whole or (joined.endswith("…") and whole.startswith(joined[:-1]))


def test_lines_break_at_spaces_and_long_words_after_a_sign() -> None:
    """A word that is too long for any line is parted where it has to be."""
    assert wrapped("len(ctx.text) > 100 and is_new", 16, 4) == ("len(ctx.text) >", "100 and is_new")
    assert wrapped("some-very-long-id-of-a-step", 12, 4) == ("some-very-", "long-id-of-", "a-step")
    assert wrapped("x" * 30, 12, 2) == ("x" * 12, f"{'x' * 11}…")
    assert wrapped("", 12, 2) == ("",)


def test_marks_stay_with_their_letter_and_wide_letters_count_twice() -> None:
    """As a reader sees them."""
    assert wrapped("e\u0301" * 6, 4, 3) == ("e\u0301" * 4, "e\u0301" * 2)
    assert wrapped("日本語日本語", 4, 3) == ("日本", "語日", "本語")
    assert text_width("e\u0301", 10) == text_width("e", 10) < text_width("日", 10)
    assert text_width("e", 10, bold=True) > text_width("e", 10)
