"""A scripted model of the OpenAI Agents SDK, and the guard that hides addresses, for the tests of the runner."""

from __future__ import annotations

from typing import Any

from agents.testing import ModelStep, ScriptedModel

from penstock import PIIDetector

SECRET = "ada@example.com"
CLEAN = PIIDetector(redaction_method="placeholder")


def script(*answers: Any) -> ScriptedModel:
    """Return a model that gives these answers: items, or lists of them."""
    steps: list[Any] = [answer if isinstance(answer, (list, ModelStep)) else [answer] for answer in answers]
    return ScriptedModel(steps)
