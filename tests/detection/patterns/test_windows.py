"""A user's rules on a text that comes in pieces: they find what they find in the whole, however it is cut."""

import pytest
from hypothesis import given, settings, strategies as st

from penstock.detection.patterns.matching import Finder, FinderState
from penstock.detection.patterns.rules import checked
from tests.detection.patterns.windows import cut, in_order, streamed
from tests.laws import examples

PATTERNS = [
    *("a", "ab|abc", "abc|ab", "a+", "a++b", "a{2,3}", "a{2,3}?", "(?:ab){2,}", "[^b]+", r"[^\n]*"),
    *("a*?b", "a.*b", "a.*?b", ".+?c", "(?s).*?c", r"a\s+b", "(?>a|ab)c", "(?>a*)b", "a(?:b|c)*+a", "(?:a|b)*c"),
    *("", "|ab", "a|", "a?", "b*", "(?:|a|ab)", "(?:|ab)c?", "b??a?", "(?=a)", "(?=a)|ab"),
    *(r"\bab\b", r"\Bb", r"a\B", "^a", "a$", "(?m)^a", "(?m)a$", r"\Aab", r"ab\Z", "$", "(?m)^", r"\b", r"(?m)^\s*b$"),
    *("(?=ab)a", "a(?=b)", "a(?!b)", "a(?!bc)", "a(?=b+c)", "a(?!b*c)", "(?=(a+))b", "(?!a)b*c", "b(?=$)", "a(?:$|c)"),
    *("(?<=a)b", "(?<!a)b", "(?<=ab)c", "(?<!ab)c", "(?<=a{2})b", "(?<=^a)b", "(?<=(?:ab){2})c", r"(?<=\bab)c"),
    *("(?i)AB", "(?i:A)b", "(?i)ß|ss", "(?i)a+B*", r"(a|b)\1", "(?P<x>a+)b(?P=x)", "(a)?(?(1)b|c)", "(?|(a)|(b))c"),
    *("(?x) a b # $ [\n | c", "(?x)a#)", "a(?#note $ )b", "[[:alpha:]]+1", r"\p{L}+ ", "[]a]b", r"[\]$]a", r"\$a|b"),
]
HELD_WHOLE = [
    "(?<=a*)b",
    "(?r)ab",
    r"a\Kb",
    r"\Gab",
    "(?p)a|ab",
    "(?:ab){e<=1}",
    r"(?w)\bab",
    "(?f)(?i)ss",
    "(?V1)[a--b]c",
]
TEXTS = st.one_of(st.text("aabbcc1 \n", max_size=14), st.text("abcABsßS \n$]é\u0301", max_size=14))
OPTIONS = st.fixed_dictionaries(
    {
        "name": st.just("r"),
        "pattern": st.sampled_from(PATTERNS),
        "flags": st.sampled_from(["g", "", "gi", "gm", "gs", "m"]),
        "validator": st.sampled_from([None, lambda found: len(found) % 2 == 0, lambda found: "b" in found]),
    }
)


def agree(options: list[dict[str, object]], text: str) -> None:
    """Check every split in two, and every character alone."""
    finder = Finder([checked("P", index, option, 5) for index, option in enumerate(options)])
    whole = finder.find(text)
    for pieces in [list(text), *(cut(text, place) for place in range(len(text)))]:
        assert in_order(streamed(finder, pieces).matches) == whole, pieces


@pytest.mark.parametrize("pattern", [*PATTERNS, *HELD_WHOLE])
@settings(max_examples=examples(10))
@given(text=TEXTS, flags=st.sampled_from(["g", ""]))
def test_a_rule_finds_the_same_however_the_text_is_cut(pattern: str, text: str, flags: str) -> None:
    """Whether it counts every match or the first."""
    agree([{"name": "r", "pattern": pattern, "flags": flags}], text)


@settings(max_examples=examples(300))
@given(options=st.lists(OPTIONS, min_size=2, max_size=3), text=TEXTS)
def test_rules_together_find_the_same_however_the_text_is_cut(options: list[dict[str, object]], text: str) -> None:
    """With flags and validators; one rule's open match holds what another has found."""
    agree(options, text)


@pytest.mark.parametrize("pattern", HELD_WHOLE)
def test_a_rule_that_cannot_say_where_it_is_open_holds_all(pattern: str) -> None:
    """What it needs to see has no bound, or is not searched for from left to right."""
    finder = Finder([checked("P", 0, {"name": "r", "pattern": pattern}, 5)])
    assert finder.scan("ab ab ", 0, FinderState()) == ([], 0)


@pytest.mark.parametrize(
    ("pattern", "text", "held"),
    [
        ("a.*?b", "a b", ""),
        ("a.*b", "a b", "a b"),
        ("<[^>]*>", "x <a", "<a"),
        ("ab+c", "xabb", "abb"),
        (r"\d{3}(?!-\d)", "123-", "123-"),
        (r"\bab\b", "ab", "ab"),
        (r"\bab\b", "ab ", ""),
        ("b$", "ab", "b"),
        ("ab", "xyz", ""),
        ("(?i)AB", "xa", "a"),
    ],
)
def test_no_more_is_held_than_may_change(pattern: str, text: str, held: str) -> None:
    """From the first place at which a way through the pattern has come to the text's end."""
    finder = Finder([checked("P", 0, {"name": "r", "pattern": pattern}, 5)])
    _, hold = finder.scan(text, 0, FinderState())
    assert text[hold:] == held


@pytest.mark.parametrize(
    ("pattern", "lookback"),
    [("a", 1), ("(?<=ab)c", 3), ("(?<!ab){1}c", 3), (r"(?<=\d{1,3})c", 22), ("(?<=a(?=b))c", 7)],
)
def test_a_rule_says_how_far_back_it_looks_at_most(pattern: str, lookback: int) -> None:
    """Never less than it does; and one character more, for what tells a line's beginning."""
    assert Finder([checked("P", 0, {"name": "r", "pattern": pattern}, 5)]).lookback == lookback


def test_a_slow_rule_stops_a_scan_too() -> None:
    """As it stops a search of the whole text."""
    finder = Finder([checked("P", 0, {"name": "slow", "pattern": "(a|aa)+$", "timeout": 0.001}, 0.5)])
    with pytest.raises(TimeoutError, match="slow"):
        finder.scan("a" * 60 + "b" * 60, 0, FinderState())
