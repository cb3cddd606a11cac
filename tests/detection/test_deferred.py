"""Patterns that are compiled when they are first used."""

import re

from penstock.detection.deferred import deferred


def test_a_deferred_pattern_finds_what_a_compiled_one_finds():
    """With its flags, by any method, at the first use and later."""
    late, early = deferred(r"(b)c?", re.IGNORECASE), re.compile(r"(b)c?", re.IGNORECASE)
    for _ in range(2):
        assert late.findall("aBc b") == early.findall("aBc b") == ["B", "b"]
        assert late.sub("-", "aBc b") == early.sub("-", "aBc b")
        assert late.search("abc", 1) is not None
        assert late.pattern == early.pattern


def test_a_deferred_pattern_shows_its_pattern():
    """In a traceback, or at the prompt."""
    assert repr(deferred("a+")) == "deferred('a+')"
