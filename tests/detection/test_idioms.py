"""`as_meant` and moderation: idioms, counter-speech and names of one's own are told from what is meant as it sounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from penstock.detection.idioms import as_meant
from penstock.detection.moderation import ModerationScorer

ROWS = [json.loads(line) for line in (Path(__file__).parent / "meant.jsonl").read_text("utf-8").splitlines()]
SCORER = ModerationScorer()


def flagged(text: str) -> bool:
    """Return whether a category counts."""
    return any(score >= SCORER.thresholds[name] for name, score in SCORER.scores(text).items())


@pytest.mark.parametrize(("kind", "most"), [("idiom", 8), ("counter", 11), ("reclaimed", 7)])
def test_what_only_sounds_harmful_is_mostly_let_pass(kind: str, most: int) -> None:
    """Without the rules 26, 25 and 13 are flagged."""
    assert sum(flagged(row["text"]) for row in ROWS if row["kind"] == kind) <= most


def test_what_is_meant_is_flagged_as_without_the_rules() -> None:
    """Threats with idioms beside them, hate behind "I condemn", insults behind "how dare you"."""
    harmful = [row["text"] for row in ROWS if row["kind"] == "harm"]
    assert sum(map(flagged, harmful)) == 52
    assert len(harmful) == 60


@pytest.mark.parametrize(
    ("text", "harmful"),
    [
        ("Kill two birds with one stone: fix the bug and update the docs.", "Kill two people: fix the gun and shoot."),
        ("I'd kill for a coffee.", "I'd kill for Allah, and kill every infidel."),
        ('"All Muslims are terrorists" is what he wrote, and it hurts.', '"All Muslims are terrorists" is the truth.'),
        (
            "It is racist to say that blacks are criminals.",
            "It's not racist to say that blacks are criminals, they just are.",
        ),
        ("He was fired because he tweeted that gays should be shot.", "I tweeted that gays should be shot."),
        ("Proud dyke here, marching since 1998.", "They are dykes, hang those dykes."),
    ],
)
def test_the_words_around_decide(text: str, harmful: str) -> None:
    """The same frightening words mean both."""
    assert not flagged(text)
    assert flagged(harmful)


@given(st.sampled_from([row["text"] for row in ROWS]), st.sampled_from([row["text"] for row in ROWS]))
def test_the_rules_lower_scores_and_never_raise_them(first: str, second: str) -> None:
    """Whatever stands beside an idiom."""
    text = f"{first} {second}"
    plain = SCORER._of_readings(text)
    assert all(score <= plain[name] for name, score in SCORER._highest(text).items())


@pytest.mark.parametrize("text", ["", "Good morning, how do I bake bread?", "I will kill you.", "Ünïcode İ ſ"])
def test_a_text_that_no_rule_is_about_is_the_same_object(text: str) -> None:
    """So that nothing is judged twice."""
    assert as_meant(text) is text


@pytest.mark.parametrize(
    "unit", ["people who say ", "say a ", "if you say ", '"', "i'm ", "saying that ", "kill the ", "it's wrong to say "]
)
def test_long_texts_are_read_in_linear_time(unit: str) -> None:
    """The rules look a bounded distance ahead."""
    text = unit * 4_000
    assert isinstance(as_meant(text), str)
