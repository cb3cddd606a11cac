"""How guards read through a disguise: character by character, so a piece of a text reads as it does in the whole."""

import pytest
from hypothesis import given, strategies as st

from penstock.detection.unicode.disguises import _LETTERS, _MAY_BE_DISGUISED, PlainPlaces, is_plain, read

LETTERS = st.text("ab 1½ａ\u200b\u0301é谢а\u00adﬁ\n")


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("ａ＠ｂ．ｉｏ", "a@b.io"),
        ("p\u200ba\u00ads\ufe0fs", "pass"),
        ("jose\u0301, José", "jose, José"),
        ("рассw0rd", "paccw0rd"),
        ("½ ﬁ № …", "1⁄2 fi No ..."),
        ("a\x1b[1;31mb\x1b[0mc", "abc"),
        ("a\x1b]8;;x\x07b\x1b]8;;\x1b\\c", "abc"),
        ("a\x1b[31", "a[31"),
        ("a\x00b\tc\x1cd", "ab\tcd"),
        ("谢谢 👍", "谢谢 👍"),
    ],
)
def test_a_text_reads_as_it_looks(text: str, reads: str) -> None:
    """Styled and look-alike letters as plain ones, without accents that stand alone and what is not seen."""
    assert read(text).text == reads


@given(LETTERS, LETTERS)
def test_a_piece_reads_as_within_the_whole(one: str, two: str) -> None:
    """No character depends on its neighbours."""
    assert read(one).text + read(two).text == read(one + two).text


@given(LETTERS)
def test_places_lead_back_to_what_was_read(text: str) -> None:
    """To the character itself, at both its ends."""
    reading = read(text)
    places = PlainPlaces(reading)
    for at in range(len(reading.text)):
        start, end = places.start(at), places.end(at + 1)
        assert end == start + 1
        assert reading.text[at] in read(text[start:end]).text
    assert places.start(len(reading.text)) == len(text)
    ends = [len(read(text[: at + 1]).text) for at in range(len(text))]
    for at in range(len(reading.text) + 1):
        begun = sum(end <= at for end in ends)
        assert places.low(at) == (ends[begun - 1] if begun else 0)
        assert not at or places.high(at) == next(end for end in ends if end >= at)


@given(st.text(st.characters(max_codepoint=255)))
def test_what_is_plain_at_a_glance_reads_as_it_is_written(text: str) -> None:
    """The glance may err on the other side alone."""
    assert not is_plain(text, 0) or read(text).text == text


@pytest.mark.parametrize("end", ["\x1b", "\x1b[", "\x1b[31;", "\x1b]8;;x", "\x1b]8;;x\x1b"])
def test_an_escape_sequence_without_its_end_is_not_read_yet(end: str) -> None:
    """While more text may come."""
    assert read(f"ab{end}", final=False).text == "ab"


@pytest.mark.parametrize("count", [1, 5, 60])
def test_a_text_reads_as_its_characters_do_however_many_of_them_are_disguised(count: int) -> None:
    """Few are replaced one by one, many by a table."""
    disguised = "ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ½ﬁ№…\u200b\u00adАВЕКМНОРСТУХагеорсух"[:count]
    text = "".join(f"{char}x谢{char}é" for char in disguised) + "\x00 end"
    assert read(text).text == "".join(read(char).text for char in text)
    assert not is_plain(disguised, 0)


def test_no_character_that_is_known_as_plain_reads_otherwise() -> None:
    """Of all characters, by the tables of this version of Python."""
    chars = [char for char in map(chr, range(0x80, 0x110000)) if _MAY_BE_DISGUISED.match(char) is None]
    assert len(chars) > 30_000
    assert not [char for char in chars if _LETTERS[ord(char)] != char]
