"""The preset ``injection``: orders that are smuggled in are stopped, and the system prompt does not leak out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.workflow import Workflow
from penstock.processors.guards import PromptInjectionDetector, SystemPromptScrubber
from penstock.workflows.presets.shaping import shaped

if TYPE_CHECKING:
    from penstock.engine.values.ports import Model

Strategy = Literal["block", "warn", "filter"]
LeakStrategy = Literal["redact", "block", "warn", "filter"]


def injection(model: Model | None = None, *, strategy: Strategy = "block", leaks: LeakStrategy = "redact") -> Workflow:
    """Look for injected orders in messages and tools' results, and for the system prompt in answers and calls to tools.

    The second is what most of the first are after, and what shows where one got through.

    Args:
        model: asked about what the embedded detector is not sure of; None: that detector alone.
        strategy: what becomes of an attack: ``block``, ``warn`` or ``filter``.
        leaks: what becomes of stretches of the system prompt: ``redact``, ``block``, ``warn`` or ``filter``.

    Raises:
        OptionError: an option that is not allowed.
    """
    detector = PromptInjectionDetector(model, strategy=strategy)
    scrubber = SystemPromptScrubber(strategy=leaks, redaction_method="placeholder")
    return Workflow("injection").then(shaped()).parallel(detector, scrubber)
