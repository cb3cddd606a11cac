"""Matches of several rules in one text: what unites, who owns it, and what a disguise does not hide."""

import pytest

from penstock.detection.patterns.matching import Finder, Match
from penstock.detection.patterns.rules import checked
from penstock.processors.text.regex_filter import preset


def finder(**patterns: str) -> Finder:
    """Return a finder of rules of one's own, by name; the replacement is the name."""
    rules = [{"name": name, "pattern": pattern, "replacement": name} for name, pattern in patterns.items()]
    return Finder([checked("P", index, rule, 0.5) for index, rule in enumerate(rules)])


def regions(text: str, **patterns: str) -> list[tuple[int, int, str, tuple[int, ...]]]:
    """Return the regions of a text: where, what stands there, who had a part in it."""
    found = finder(**patterns)
    return [(r.start, r.end, r.replacement, r.rules) for r in found.unite(text, found.find(text))]


def test_the_longest_match_owns_the_region() -> None:
    """Whatever the order of rules."""
    assert regions("xabcdefx", S="abc", L="abcdef") == [(1, 7, "L", (1, 0))]


def test_of_equally_long_matches_the_first_owns_a_chain() -> None:
    """One overlaps two, two overlaps three: one region."""
    assert regions("abcdefgh", one="abcd", two="cdef", three="efgh") == [(0, 8, "one", (0, 1, 2))]


def test_matches_that_only_touch_stay_apart() -> None:
    """Each with its own replacement."""
    assert regions("ab", A="a", B="b") == [(0, 1, "A", (0,)), (1, 2, "B", (1,))]


def test_a_united_region_takes_its_replacement_as_written() -> None:
    """A group would belong to one of several matches."""
    rules = [
        checked("P", 0, {"name": "a", "pattern": "(ab)c", "replacement": "<$1>"}, 0.5),
        checked("P", 1, {"name": "b", "pattern": "bcd"}, 0.5),
    ]
    found = Finder(rules)
    assert [r.replacement for r in found.unite("abcd", found.find("abcd"))] == ["<$1>"]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("x ａ＠ｂ．ｉｏ y", 2, 8),
        ("x a\u200b@b.i\u200bo y", 2, 10),
        ("x a\u00ad@b.io y", 2, 9),
        ("x а@b.io y", 2, 8),
    ],
)
def test_a_disguise_does_not_hide_a_match(text: str, start: int, end: int) -> None:
    """Full-width, zero-width, soft hyphens, Cyrillic; the place is that of the text as it was written."""
    assert [(match.start, match.end) for match in Finder(preset("pii")).find(text)] == [(start, end)]


def test_unfolding_cannot_hide_a_match_either() -> None:
    """½ becomes 1⁄2, which would glue a digit to the number: both readings count."""
    assert [(match.start, match.end) for match in Finder(preset("pii")).find("½123-45-6789")] == [(1, 12)]


def test_rules_of_ones_own_read_the_text_as_it_is() -> None:
    """What they do not say they do not find."""
    assert finder(A="abc").find("a\u200bbc") == []


def test_of_nested_built_in_matches_the_outer_one_counts() -> None:
    """A key behind a label is not two findings."""
    found = Finder(preset("secrets"))
    (match,) = found.find("api_key=abcdefghijklmnopqrst12345")
    assert (found.rules[match.rule].name, match.start, match.end) == ("api-key", 0, 33)


def test_a_key_explains_its_value() -> None:
    """A value that says nothing alone does under its name; the place is within the value."""
    found = Finder(preset("pii"))
    assert found.find("329 7730") == []
    assert [tuple(match[:2]) for match in found.find("329 7730", "phone")] == [(0, 8)]


def test_a_tail_is_replaced_by_nothing() -> None:
    """Its replacement stands where the match began."""
    found = finder(A="abc")
    assert [region.replacement for region in found.unite("bc", [Match(0, 2, 0, tail=True)])] == [""]
