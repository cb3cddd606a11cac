"""Rules of the user's that are searched together: they find what each finds alone, whole and in pieces."""

from __future__ import annotations

import pytest
import regex
from hypothesis import assume, given, settings, strategies as st

from penstock.detection.patterns.matching import Finder, Match
from penstock.detection.patterns.open_matches import required_literal
from penstock.detection.patterns.rules import UserRule, checked
from tests.laws import examples

ATOMS = [
    *("a", "b", "-", "@", "ab", "1", "[ab]", "[^a-]", ".", "^", "$", "(?=b)", "(?<!a)"),
    *(r"\.", r"\d", r"\w", r"\b", r"\x61", r"\-"),
]
SUFFIXES = ["", "", "", "?", "*", "+", "{2}", "{0,2}", "*?", "{1}"]
atoms = st.tuples(st.sampled_from(ATOMS), st.sampled_from(SUFFIXES)).map("".join)
patterns = st.recursive(
    st.lists(atoms, min_size=1, max_size=4).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(SUFFIXES)).map(lambda part: f"(?:{part[0]}){part[1]}"),
        st.tuples(inner, inner).map("".join),
        inner.map(lambda part: f"({part})"),
        inner.map(lambda part: f"(?i:{part})"),
        inner.map(lambda part: f"(?!{part})"),
    ),
    max_leaves=4,
)
texts = st.text("aAb-@.1 \n", max_size=24)


def rule(number: int, pattern: str) -> UserRule:
    """Return a rule for a pattern; one that is none is no example."""
    try:
        regex.compile(pattern)
    except regex.error:
        assume(condition=False)
    return checked("p", number, {"name": f"r{number}", "pattern": pattern}, 5.0)


def alone(of: UserRule, number: int, text: str) -> list[Match]:
    """Return the matches of one rule that hide anything, as the library finds them."""
    return [
        Match(*found.span(), number) for found in regex.finditer(of.shape.compiled.pattern, text) if found.group() != ""
    ]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(patterns, min_size=1, max_size=4), texts)
def test_rules_find_together_what_each_finds_alone(given: list[str], text: str) -> None:
    """In a whole text; and one that is quiet has none."""
    rules = [rule(number, pattern) for number, pattern in enumerate(given)]
    wanted = [match for number, each in enumerate(rules) for match in alone(each, number, text)]
    finder = Finder(rules)
    assert finder.find(text) == wanted
    if finder.quiet(text, 0, final=True) is not None:
        assert wanted == []


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(patterns, min_size=1, max_size=4), texts, st.lists(st.integers(1, 6), min_size=1, max_size=12))
def test_rules_find_in_pieces_what_they_find_in_the_whole(given: list[str], text: str, sizes: list[int]) -> None:
    """However the text is cut, with a look before each search as in a stream."""
    finder = Finder([rule(number, pattern) for number, pattern in enumerate(given)])
    state, found, start, end = finder.begun(), list[Match](), 0, 0
    for size in sizes:
        end += size
        piece = text[:end]
        quiet = finder.quiet(piece, start, final=False) if finder.is_begun(piece, 0, start, state) else None
        if quiet is not None:
            start = quiet
            continue
        matches, start = finder.scan(piece, start, state)
        found += matches
    found += finder.finish(text, start, state)
    assert sorted(found) == sorted(finder.find(text))


@settings(max_examples=examples(500), deadline=None)
@given(patterns, texts)
def test_each_match_has_the_literal_of_its_pattern(pattern: str, text: str) -> None:
    """A text without it needs no search."""
    compiled = rule(0, pattern).shape.compiled
    literal = required_literal(compiled.pattern, compiled.flags)
    assert all(literal in found.group() for found in compiled.finditer(text))


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"[\w.]+@[\w.]+\.[a-z]{2,}", "@"),
        (r"\bTICKET-\d{4,6}\b", "TICKET-"),
        (r"(?<!\d)\d{3}-\d{2}(?!\d)", "-"),
        (r"key=+\S", "key="),
        (r"colou?r", "colo"),
        (r"cat|dog", ""),
        (r"(?i)secret", ""),
        (r"\x41bc", ""),
        (r"(?:ab)*c{0,1}", ""),
    ],
)
def test_the_literal_of_a_pattern_is_its_longest_certain_text(pattern: str, literal: str) -> None:
    """Nothing where that cannot be told."""
    compiled = regex.compile(pattern)
    assert required_literal(compiled.pattern, compiled.flags) == literal
