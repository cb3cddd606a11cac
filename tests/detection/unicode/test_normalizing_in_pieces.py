"""Long texts are normalized in pieces, with the result of the whole."""

import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from penstock.detection.unicode import normalizing
from penstock.detection.unicode.normalizing import Profile, normalize, pieces

PROFILE = Profile(form="NFKC")
TEXTS = st.lists(
    st.sampled_from(
        ["a", "e\u0301", "\u200b", "한", "\u1112\u1161", "ｶﾞ", "\ufdfa", "漢", "\x1b[31m", "\x1b]8;;a b\x07", " ", "7"]
    ),
    max_size=40,
).map("".join)


def test_a_letter_behind_a_cut_never_joins_what_stands_before() -> None:
    """No character that may follow a cut composes with, or is reordered before, an earlier one, in all of Unicode."""
    seconds = {
        chr(int(parts[1], 16))
        for code in range(0x110000)
        if len(parts := unicodedata.decomposition(chr(code)).split()) == 2 and not parts[0].startswith("<")
    }
    firsts = [chr(code) for code in range(0x110000) if re.match(normalizing._LETTER, chr(code))]
    assert len(firsts) > 100_000
    for char in firsts:
        first = unicodedata.normalize("NFKD", char)[0]
        assert first not in seconds
        assert not unicodedata.combining(first)


@given(TEXTS)
def test_pieces_give_the_result_of_the_whole(text: str) -> None:
    """A text in small pieces has the normal form of the whole text, unless a piece had to be cut anywhere."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(normalizing, "PIECE", 30)
        cut = list(pieces(text, PROFILE))
    assert "".join(piece for _, piece in cut) == text
    assert [start for start, _ in cut] == [sum(len(piece) for _, piece in cut[:at]) for at in range(len(cut))]
    if any(len(piece) == 60 for _, piece in cut[:-1]):  # no place to cut it was found
        return
    assert "".join(normalize(piece, PROFILE, prose=False).text for _, piece in cut) == (
        normalize(text, PROFILE, prose=False).text
    )


def test_a_run_without_a_place_to_cut_it_is_cut_anywhere() -> None:
    """Accents without end on one letter are normalized in pieces of a bounded length."""
    text = "e" + "\u0301\u0323" * 100_000
    lengths = [len(piece) for _, piece in pieces(text, PROFILE)]
    assert sum(lengths) == len(text)
    assert max(lengths) <= 2 * normalizing.PIECE
