"""Rows on choices of models as they may have been recorded; what the reference does is after its spec.

No processor is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

CHOICES = [{"model": "small", "criteria": "simple"}, {"model": "large", "criteria": "hard"}]
DEFAULTS = {"scope": "run", "min_probability": None}


def said(*texts: str, id: str = "u1", role: str = "user") -> Fields:
    """Return a stored message."""
    content = {"format": 2, "parts": [{"type": "text", "text": text} for text in texts]}
    return {"id": id, "role": role, "createdAt": "2026-01-01T00:00:00.000Z", "content": content}


def row(
    name: str,
    decision: Fields,
    applied: list[Any],
    *,
    messages: Sequence[Fields] = (said("what is 2+2?"),),
    verdict: Fields | None = None,
    steps: Sequence[str] = ("p",),
    evaluated: str | None = "what is 2+2?",
    **options: Any,
) -> Row:
    """Return a row on a request."""
    told = {"choice": "large", "probabilities": {"large": 0.7, "small": 0.3}} if verdict is None else verdict
    given = {"method": "select", "messages": list(messages), "verdict": told, "step_models": list(steps)}
    expected = {
        "decisions": [decision],
        "evaluated": [] if evaluated is None else [{"request": evaluated}],
        "applied_model_per_step": applied,
    }
    return Row("model_selection", name, Given({**DEFAULTS, "choices": CHOICES, **options}, given), expected)


def refused(name: str, **options: Any) -> Row:
    """Return a row on options that cannot be."""
    return Row("model_selection", name, Given({**DEFAULTS, **options}, {"method": "construct"}), {"raises": True})


def rows() -> Sequence[Row]:
    """Return the rows."""
    large = {"model": "large", "choice": "large", "probability": 0.7}
    unsure = {"choice": "large", "probability": 0.7, "abstained": "below-threshold"}
    three = ("p", "p", "p")
    return [
        row("first_step", large, ["large", None, None], steps=three, scope="first-step"),
        row("a_fallback_takes_over", large, ["large", None, None], steps=("p", "f", "p")),
        row("sure_enough", large, ["large"], min_probability=0.7),
        row("not_sure_enough", unsure, [None], min_probability=0.71),
        row("no_text", {"abstained": "no-text"}, [None], messages=[said(" ")], evaluated=None),
        row("no_user", {"abstained": "no-text"}, [None], messages=[said("a", role="assistant")], evaluated=None),
        row("latest", large, ["large"], messages=[said("a"), said("b", "c", id="u2")], evaluated="b c"),
        row(
            "unknown_choice",
            {"choice": "what is 2+2?", "abstained": "no-model-for-choice"},
            [None],
            verdict={"choice": "what is 2+2?"},
        ),
        refused("same_names", choices=[CHOICES[0], CHOICES[0]]),
        refused("no_choices"),
    ]
