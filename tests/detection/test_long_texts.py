"""Searches in long texts, stretch by stretch."""

import importlib
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.detection import long_texts
from penstock.detection.long_texts import WIDEST
from penstock.detection.patterns.matching import Finder
from penstock.detection.personal_data.birth_dates import _CUE
from penstock.detection.personal_data.detector import _tables
from penstock.detection.unicode import disguises
from penstock.processors.text.regex_filter import PRESETS, preset

TEXTS = st.text(alphabet="ab1 \u0301é\n", max_size=60)
TRIGGER = re.compile(r"(?<![ab])(?=a1)")
WORD = re.compile(r"(?<!b)a{1,3}1?b?")
RULES = tuple({id(rule): rule for rules in [*_tables().values(), *map(preset, PRESETS)] for rule in rules}.values())
SAMPLES = st.lists(
    st.sampled_from(
        [
            "joe@example.com",
            "4111 1111 1111 1111",
            "+49 170 1234567",
            "born on 12.03.1984",
            "api_key = " + "A1b2C3d4" * 4,
            "ghp_" + "a1B2" * 9,
            "https://a.b/c?d=e&",
            "e\u0301\u0323",
            "ｊｏｅ＠ｅｘａｍｐｌｅ．ｃｏｍ",
            "\\n4111111111111111",
            " ",
            "x",
        ]
    ),
    max_size=25,
).map("".join)


@pytest.fixture
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a stretch four characters long, and look no farther behind it than the patterns here read."""
    monkeypatch.setattr(long_texts, "PIECE", 4)
    monkeypatch.setattr(long_texts, "WIDEST", 5)


@pytest.mark.usefixtures("short_stretches")
@given(TEXTS, st.integers(0, 60))
def test_stretches_answer_what_one_search_answers(text: str, start: int) -> None:
    """Places and presence are those of a single call, wherever the stretches meet."""
    for pattern in (TRIGGER, WORD):
        found = [one.span() for one in long_texts.matches(pattern, text, start)]
        assert found == [one.span() for one in pattern.finditer(text, start)]
        end = (start + len(text)) // 2
        found = [one.span() for one in long_texts.matches(pattern, text, start, end)]
        assert found == [one.span() for one in pattern.finditer(text, start, end)]
    assert long_texts.matches_somewhere(TRIGGER, text, start) == bool(TRIGGER.search(text, start))


@pytest.mark.usefixtures("short_stretches")
@given(TEXTS, st.integers(0, 60))
def test_a_long_text_reads_as_its_characters_do(text: str, start: int) -> None:
    """A text is read in pieces as it is at once."""
    assert disguises.read(text).text == "".join(disguises.read(char).text for char in text)
    assert disguises.is_plain(text, start) == all(disguises.is_plain(char, 0) for char in text[start:])


@given(SAMPLES, st.integers(1, 40))
def test_rules_find_the_same_in_stretches_of_any_length(text: str, length: int) -> None:
    """Nothing is lost, or found too much, where two stretches meet."""
    finder = Finder(RULES)
    whole = finder.find(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(long_texts, "PIECE", length)
        assert finder.find(text) == whole


def test_no_trigger_reads_farther_than_the_stretches_overlap() -> None:
    """A trigger that did would be missed at the end of a stretch."""
    triggers = {rule.trigger for rule in RULES} | {re.escape(rule.prefix) for rule in RULES} | {_CUE.pattern}
    assert len(triggers) > 40
    assert {trigger for trigger in triggers if _width(_parsed(trigger)) > WIDEST} == set()


def _parsed(pattern: str) -> Any:
    return importlib.import_module("re._parser").parse(pattern)


def _width(parsed: Any) -> int:
    """Return how many characters a pattern reads at most, what it looks ahead at included."""
    return int(parsed.getwidth()[1]) + _ahead(parsed)


def _ahead(parsed: Any) -> int:
    widest = 0
    for operation, argument in parsed:
        name = str(operation)
        if name in ("ASSERT", "ASSERT_NOT") and argument[0] == 1:
            widest = max(widest, _width(argument[1]))
        elif name == "SUBPATTERN":
            widest = max(widest, _ahead(argument[3]))
        elif name == "BRANCH":
            widest = max(widest, *map(_ahead, argument[1]))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            widest = max(widest, _ahead(argument[2]))
    return widest
