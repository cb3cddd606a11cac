"""Windows: texts are cut at sentences' ends, and a stream is cut as the whole text is."""

from __future__ import annotations

from hypothesis import given, strategies as st

from penstock.detection.windows import Windows

TEXTS = st.text(st.sampled_from('ab .!?…\n"”)。'), max_size=80)


def pieces(text: str, windows: Windows) -> list[str]:
    """Return the windows of a text, without what overlaps."""
    ends = windows.cuts(text)
    return [text[low:high] for low, high in zip([0, *ends], ends, strict=False)]


def test_a_text_is_cut_at_the_ends_of_its_sentences() -> None:
    """Quotes that close belong to the sentence; short ones go with the next."""
    assert pieces('He said "no." Then he left. Ok. All right then.', Windows(8, 100)) == [
        'He said "no." ',
        "Then he left. ",
        "Ok. All right then.",
    ]


def test_a_sentence_without_end_is_cut_at_a_space() -> None:
    """Where there is none, it is cut at its greatest length."""
    assert pieces("one two three", Windows(2, 10)) == ["one two ", "three"]
    assert pieces("abcdefghijklmno", Windows(2, 10)) == ["abcdefghij", "klmno"]


def test_a_window_is_shown_with_what_stands_before_it() -> None:
    """The overlap reaches back into the window before."""
    assert Windows(3, 100, overlap=4).views("One. Two. Three.") == ["One. ", "ne. Two. ", "wo. Three."]
    assert Windows(3, 100).views("") == [""]


@given(TEXTS, st.integers(1, 9), st.integers(0, 20))
def test_what_is_decided_of_a_beginning_stays(text: str, least: int, size: int) -> None:
    """However much of a text is there: the windows that have ended are those of the whole text."""
    windows = Windows(least, least + 7)
    early = windows.cuts(text[:size], final=False)
    assert windows.cuts(text)[: len(early)] == early


@given(TEXTS, st.integers(1, 9))
def test_the_windows_are_the_text(text: str, least: int) -> None:
    """Nothing is left out, nothing is there twice, and none is too long."""
    windows = Windows(least, least + 7)
    assert "".join(pieces(text, windows)) == text
    assert all(0 < len(piece) <= least + 7 for piece in pieces(text, windows))


@given(st.text("ab .\n", max_size=200), st.integers(0, 60))
def test_each_view_shows_as_many_characters_as_it_should(text: str, shown: int) -> None:
    """Also that of the last window, however short it is; as far as the text has so many before it."""
    plain, windows = Windows(5, 30, overlap=3), Windows(5, 30, overlap=3, shown=shown)
    for before, after, end in zip(plain.views(text), windows.views(text), windows.cuts(text), strict=False):
        assert len(after) == max(len(before), min(shown, end))
        assert after.endswith(before)
