"""A long text is searched block by block: it finds what one look at the whole finds, wherever the blocks meet."""

from __future__ import annotations

import pytest
import regex
from hypothesis import HealthCheck, given, settings, strategies as st

from penstock.detection.patterns import scanner
from penstock.detection.patterns.kinds import DIGIT, LETTER, OTHER, in_words, kinds, most_digits
from penstock.detection.patterns.matching import Finder, FinderState
from penstock.detection.patterns.open_matches import open_match_patterns
from penstock.detection.personal_data.detector import _tables
from tests.detection.patterns.test_windows_known import EVERY, GLUE, PHRASES
from tests.detection.patterns.windows import cut, in_order, streamed
from tests.detection.personal_data.numbers import texts
from tests.laws import examples

ALL = Finder([rule for rules in _tables().values() for rule in rules])
NUMBERS = [*texts()]
PIECES = st.lists(
    st.one_of(st.sampled_from([*PHRASES, *GLUE]), st.sampled_from(NUMBERS), st.just("\\n"), st.just(" and … so ")),
    min_size=1,
    max_size=25,
)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a block as long as a line."""
    monkeypatch.setattr(scanner, "BLOCK", 60)
    monkeypatch.setattr(scanner, "_DENSE_BLOCK", 90)
    monkeypatch.setattr(scanner, "_LARGEST_BLOCK", 120)


@pytest.mark.parametrize("finder", [EVERY, ALL], ids=["presets", "personal data"])
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES)
def test_blocks_find_what_the_whole_finds(finder: Finder, pieces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With disguises, escapes, and matches that are longer than a block."""
    text = "".join(pieces)
    with monkeypatch.context() as large:
        large.setattr(scanner, "BLOCK", 10**6)
        whole = finder.find(text)
        value = finder.find(text, "note")
    with monkeypatch.context() as small:
        small.setattr(scanner, "BLOCK", 60)
        small.setattr(scanner, "_DENSE_BLOCK", 90)
        small.setattr(scanner, "_LARGEST_BLOCK", 120)
        assert finder.find(text) == whole
        assert finder.find(text, "note") == value


@pytest.mark.usefixtures("short_blocks")
@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, places=st.lists(st.integers(1, 600), max_size=4))
def test_long_pieces_of_a_stream_are_searched_in_blocks_too(pieces: list[str], places: list[int]) -> None:
    """They find what the whole finds."""
    text = "".join(pieces)
    inside = [place for place in places if place < len(text)]
    assert in_order(streamed(ALL, cut(text, *inside)).matches) == ALL.find(text)


@pytest.mark.usefixtures("short_blocks")
def test_a_match_as_long_as_several_blocks_is_found_whole() -> None:
    """What is open as far as two blocks is read with the rest of the text."""
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + "A1b2C3d4" * 60 + "\n-----END RSA PRIVATE KEY-----"
    text = f"{'x ' * 90}{block} {'y ' * 90}a@b.io"
    assert {text[one.start : one.end] for one in ALL.find(text)} == {block, "a@b.io"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a1 \n-", b"A0 \n!"),
        ("é２٣中", b" 00 "),
        ("中文" * 3, b" " * 6),
        ("", b""),
    ],
)
def test_each_character_has_one_kind(text: str, expected: bytes) -> None:
    """Digits of any script, ASCII letters and signs, line feeds, and all others."""
    assert kinds(text) == expected


@given(st.text(max_size=30), st.integers(0, 30))
def test_kinds_stand_where_their_characters_stand(text: str, start: int) -> None:
    """One byte per character, from any place on; digits are those of patterns."""
    found = kinds(text, start)
    assert len(found) == len(text[start:])
    assert [kind == DIGIT[0] for kind in found] == [char.isdecimal() for char in text[start:]]
    printable = ["!" <= char <= "~" or char.isdecimal() for char in text[start:]]
    assert [kind == LETTER[0] for kind in in_words(found)] == printable
    assert set(in_words(found)) <= {*LETTER, *OTHER}


@given(st.text(alphabet="ab1- \n中", max_size=60), st.integers(0, 20))
def test_long_words_are_runs_of_printable_characters(text: str, start: int) -> None:
    """From a place on, as a pattern finds them."""
    found = regex.finditer(rf"[!-~]{{{scanner.LEAST_WORD},}}", text, pos=start)
    assert [*scanner.long_words(text, start)] == [one.span() for one in found]


@given(st.text(alphabet="ab1२- \n中", max_size=60), st.integers(0, 20))
def test_digits_stand_together_with_up_to_three_characters_between_two(text: str, start: int) -> None:
    """From a place on, in one line: most_digits counts the largest group."""
    groups = regex.findall(r"\d(?:[^\n\d]{0,3}\d)*", text, pos=start)
    assert most_digits(text, start) == max([len(regex.findall(r"\d", group)) for group in groups], default=0)


def test_no_key_with_a_prefix_is_shorter_than_a_long_word() -> None:
    """Rules with prefixes are asked about long words only."""
    for rule in _tables()["api-key"]:
        for filler in ("a1", "A1", "1", "aZ_9-") if rule.prefix else ():
            word = (rule.prefix + filler * scanner.LEAST_WORD)[: scanner.LEAST_WORD - 1]
            assert not any(trace.counts for trace in rule.search(word, 0, final=True)[0]), word


@pytest.mark.parametrize(
    ("pattern", "spaced"),
    [
        (r"[\w-]{20,}\.(?=x)", False),
        (r"[^\s]+", False),
        (r"a\b", False),
        ("a b", True),
        ("a.b", True),
        (r"a\s", True),
        ("[^a]", True),
        ("[ -~]", True),
        (r"\W", True),
        ("a$", True),
        ("(?x)a b", True),
    ],
)
def test_a_pattern_says_whether_it_may_read_a_space(pattern: str, spaced: bool) -> None:
    """One that cannot is open in the last word only."""
    compiled = regex.compile(pattern)
    made = open_match_patterns(compiled.pattern, compiled.flags)
    assert made is not None
    assert made.spaced is spaced


def test_a_pattern_without_spaces_is_open_in_the_last_word() -> None:
    """Whatever stands before."""
    finder = EVERY
    _, hold = finder.scan("https://a.b/c and https://a.b/", 0, FinderState())
    assert hold == len("https://a.b/c and ")
