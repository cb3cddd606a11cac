"""Rules of one's own: what a rule may be, how it finds, what its replacement becomes."""

import re

import pytest
import regex

from penstock import OptionError
from penstock.detection.patterns.rules import RegexRule, checked


def rule(pattern: object, **fields: object) -> object:
    """Return a checked rule of that pattern."""
    return checked("P", 0, {"name": "r", "pattern": pattern, **fields}, 0.5)


def spans(text: str, pattern: object, **fields: object) -> list[tuple[int, int]]:
    """Return what a rule finds."""
    traces, _ = rule(pattern, **fields).scan(text, 0, final=True)
    return [(trace.low, trace.high) for trace in traces if trace.counts and trace.low < trace.high]


@pytest.mark.parametrize("pattern", ["A+", re.compile("A+"), regex.compile("A+")])
def test_a_pattern_may_be_written_or_compiled(pattern: object) -> None:
    """By either library."""
    assert spans("xAAxA", pattern) == [(1, 3), (4, 5)]


def test_a_compiled_pattern_keeps_its_flags() -> None:
    """And takes those of the rule besides."""
    assert spans("aA\nA", re.compile("^a", re.IGNORECASE)) == [(0, 1)]
    assert spans("aA\nA", re.compile("^a", re.IGNORECASE), flags="gm") == [(0, 1), (3, 4)]


def test_without_g_only_the_first_match_counts() -> None:
    """As in JavaScript."""
    assert spans("aXa", "a", flags="") == [(0, 1)]
    assert spans("AXa", "a", flags="i") == [(0, 1)]


def test_a_match_without_width_is_none() -> None:
    """It does not loop either."""
    assert spans("aqb", "q*") == [(1, 2)]


def test_a_validator_has_the_last_word() -> None:
    """A function, or the name of a built-in one; the first match that counts is the first."""
    assert spans("11 22", r"\d+", validator=lambda text: text == "22", flags="") == [(3, 5)]
    assert spans("4111111111111111 4111111111111112", r"\d+", validator="luhn") == [(0, 16)]


@pytest.mark.parametrize(
    ("pattern", "replacement", "matched", "expected"),
    [
        (r"(token)=(\w+)", "$1=***", "token=abc", "token=***"),
        ("cat", "[$&]", "cat", "[cat]"),
        ("cat", "$$5", "cat", "$5"),
        ("cat", "$`x$'", "cat", "x"),
        ("(c)at", "$1$2$11$0", "cat", "c$2c1$0"),
        ("(?<first>c)at", "$<first>$<none>", "cat", "c"),
        ("cat", "$<first>", "cat", "$<first>"),
        ("(c)(x)?at", "<$2>", "cat", "<>"),
        (r"(?<=key=)(\w+)", "<$1>", "abc", "<$1>"),
        (r"c(?=at)", "<$&>", "c", "<$&>"),
    ],
)
def test_groups_are_filled_in_where_the_pattern_finds_the_match_alone(
    pattern: str, replacement: str, matched: str, expected: str
) -> None:
    """Else the replacement stands as it was written."""
    assert rule(pattern, replacement=replacement).expand(matched) == expected


def test_a_rule_that_takes_too_long_is_stopped() -> None:
    """The error names the rule and the limit, not the text."""
    with pytest.raises(TimeoutError, match=r"rule 'r' took longer than 0\.02 s"):
        spans("a" * 60 + "b", "(a|aa)+$", timeout=0.02)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"name": "r", "pattern": "("}, r"rules[0] (r).pattern"),
        ({"name": "r", "pattern": b"x"}, r"rules[0] (r).pattern"),
        ({"name": "r", "pattern": re.compile(b"x")}, r"rules[0] (r).pattern"),
        ({"name": "", "pattern": "x"}, "rules[0].name"),
        ({"name": 1, "pattern": "x"}, "rules[0].name"),
        ({"name": "r", "pattern": "x", "flags": "y"}, "rules[0] (r).flags"),
        ({"name": "r", "pattern": "x", "flags": None}, "rules[0] (r).flags"),
        ({"name": "r", "pattern": "x", "replacement": None}, "rules[0] (r).replacement"),
        ({"name": "r", "pattern": "x", "validator": "lune"}, "rules[0] (r).validator"),
        ({"name": "r", "pattern": "x", "timeout": 0}, "rules[0] (r).timeout"),
        ({"name": "r", "pattern": "x", "regexp": "y"}, "rules[0]"),
        ({"name": "r"}, "rules[0]"),
        ("x", "rules[0]"),
    ],
)
def test_a_wrong_rule_is_named(given: object, named: str) -> None:
    """By its place and its name."""
    with pytest.raises(OptionError) as caught:
        checked("P", 0, given, 0.5)
    assert caught.value.option == named


def test_a_rule_may_be_a_value() -> None:
    """A `RegexRule` and a mapping are the same."""
    assert checked("P", 0, RegexRule("r", "x", timeout=2), 0.5) == rule("x", timeout=2)
