"""Stems are found as if each was looked for."""

from __future__ import annotations

from hypothesis import given, strategies as st

from penstock.detection.stems import Stems

STEMS = ("dob", "d.o", "né", "生", "born", "q", "add", "bad", "jg.", "b-day", "р.н")


@given(st.lists(st.sampled_from((*STEMS, "do", "b", " ", "é", "or")), max_size=8).map("".join))
def test_stems_are_found_as_if_each_was_looked_for(text: str) -> None:
    """In the order in which they are given, whichever letters they have."""
    each = [stem for stem in STEMS if stem in text]
    assert [*Stems(STEMS).standing_in(text)] == each
    assert Stems(STEMS).any_in(text) == bool(each)
