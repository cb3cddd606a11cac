"""Searches in long texts, stretch by stretch."""

import re

import pytest
from hypothesis import given, strategies as st

from penstock.detection.patterns import long_texts
from penstock.detection.unicode import disguises

TEXTS = st.text(alphabet="ab1 \u0301é\n", max_size=60)
WORD = re.compile(r"(?<!b)a+1?[ab]*")
TRIGGER = re.compile(r"(?<![ab])(?=a1)")


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a stretch four characters long."""
    monkeypatch.setattr(long_texts, "PIECE", 4)
    monkeypatch.setattr(disguises, "_AT_ONCE", 4)


@given(TEXTS, st.integers(0, 60))
def test_stretches_answer_what_one_search_answers(text: str, start: int) -> None:
    """Places, presence and characters are those of a single call, wherever the stretches meet."""
    for pattern in (TRIGGER, WORD):
        found = [one.span() for one in long_texts.matches(pattern, text, start)]
        assert found == [one.span() for one in pattern.finditer(text, start)]
    assert long_texts.matches_somewhere(TRIGGER, text, start) == bool(TRIGGER.search(text, start))
    assert long_texts.characters(text, start) == frozenset(text[start:])


@given(TEXTS, st.integers(0, 60))
def test_a_long_text_reads_as_its_characters_do(text: str, start: int) -> None:
    """A text is read in pieces as it is at once."""
    assert disguises.read(text).text == "".join(disguises.read(char).text for char in text)
    assert disguises.is_plain(text, start) == all(disguises.is_plain(char, 0) for char in text[start:])
