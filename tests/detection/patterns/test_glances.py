"""One look for all rules of the user's: it is quiet only where no rule matches, and holds what any of them would."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from penstock.detection.patterns.matching import Finder
from penstock.detection.patterns.rules import UserRule, checked, glances

PATTERNS = (r"ab+c", r"\bcat\b", r"(?<=x)\d{2,}", r"a(?=b)", r"[bc]a$", r"b{2}|ca?t")


def rules(*patterns: str) -> list[UserRule]:
    """Return rules for patterns."""
    return [checked("p", at, {"name": f"r{at}", "pattern": pattern}, 1.0) for at, pattern in enumerate(patterns)]


@given(
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4, unique=True),
    st.text("abctx 12", max_size=12),
    st.lists(st.text("abctx 12", max_size=6), max_size=4),
)
def test_what_is_quiet_holds_no_match(patterns: list[str], text: str, endings: list[str]) -> None:
    """However the text goes on, nothing begins before the place that is held."""
    finder = Finder(rules(*patterns))
    if finder.quiet(text, 0, final=True) is not None:
        assert finder.find(text) == []
    held = finder.quiet(text, 0, final=False)
    if held is not None:
        for ending in ("", *endings):
            assert all(match.start >= held for match in finder.find(text + ending))


def test_rules_are_looked_for_together() -> None:
    """But not those that refer to themselves, or that have flags of their own."""
    assert len(glances(rules(r"\(?\d{3}", r"a\b", r"(?:b|c)(?=d)"))) == 1
    assert len(glances(rules(r"\d{3}", r"(a)\1", r"(?P<n>b)", r"(?i)c", r"\\(?P<m>b)"))) == 5


@pytest.mark.parametrize("text", ["x 12 and 34", "aab", "a cat sat"])
def test_a_match_is_not_quiet(text: str) -> None:
    """Each rule is heard."""
    assert Finder(rules(r"b\b", r"\b34", r"cat ")).quiet(text, 0, final=True) is None
