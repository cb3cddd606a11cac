"""Whether texts fit into columns of a terminal and cannot control it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from penstock.engine.tracing.display import at_difference, columns, shortened, visible, wrapped


def test_control_characters_become_signs() -> None:
    """Colours, line breaks, and characters that turn the direction of writing."""
    assert visible("a\x1b[31m\n\u202eb") == "a␛[31m␊⟨U+202E⟩b"
    for code in (0, 9, 0x7F, 0x9B, 0x61C, 0x180E, 0x200B, 0x2028, 0x2060, 0xFEFF, 0xD800, 0xE0041):
        assert visible(chr(code)).isprintable()


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("漢字", 4), ("é", 1), ("e\u0301", 1), ("━✓", 2)])
def test_columns_are_those_of_a_terminal(text: str, width: int) -> None:
    """Wide characters take two, accents none."""
    assert columns(text) == width


def test_a_text_is_cut_to_its_columns() -> None:
    """With a sign for the rest; half of a wide character is none."""
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("漢字漢字", 4) == "漢…"
    assert shortened("ab", 0) == ""


def test_a_text_is_broken_between_words_where_that_is_possible() -> None:
    """A word that is longer than the line is cut."""
    assert list(wrapped("one two three", 8)) == ["one two", "three"]
    assert list(wrapped("in abcdefghij x", 4)) == ["in", "abcd", "efgh", "ij x"]
    assert list(wrapped(" ", 4)) == []


@given(st.text(), st.integers(2, 20))
def test_no_line_is_wider_than_asked_and_nothing_is_lost(text: str, limit: int) -> None:
    """Whatever the text is."""
    lines = list(wrapped(visible(text), limit))
    assert all(columns(line) <= limit for line in lines)
    assert "".join("".join(lines).split()) == "".join(visible(text).split())


def test_two_texts_are_cut_around_what_differs() -> None:
    """Otherwise both could look the same."""
    before, after = at_difference("x" * 100 + "old" + "y" * 100, "x" * 100 + "new" + "y" * 100, 40)
    assert (before[:25], after[:25]) == ("…" + "x" * 20 + "oldy", "…" + "x" * 20 + "newy")
    assert columns(before) == columns(after) == 40
    assert at_difference("a b", "a c", 40) == ("a b", "a c")
    assert at_difference("x" * 60, "x" * 60, 10) == ("x" * 9 + "…",) * 2
