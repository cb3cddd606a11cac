"""The preset ``safety``: every guard at once, side by side on the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.workflow import Workflow
from penstock.processors.guards import (
    LanguageDetector,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    SystemPromptScrubber,
)
from penstock.workflows.presets.shaping import shaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.ports import Model

Strategy = Literal["block", "warn", "filter"]
Hiding = Literal["redact", "block", "warn", "filter"]


def safety(
    model: Model | None = None,
    *,
    personal: Hiding = "redact",
    harm: Strategy | None = None,
    attacks: Strategy = "block",
    leaks: Hiding = "redact",
    languages: Iterable[str] | None = None,
) -> Workflow:
    """Hide personal data, judge content, stop injected orders and keep the system prompt back; all in one pass.

    The first guard that stops the run stops the others; what several of them hide is hidden once.

    Args:
        model: asked about what depends on the context and where the embedded detectors are in doubt; None: those alone.
        personal: what becomes of personal data and keys: ``redact``, ``block``, ``warn`` or ``filter``.
        harm: what becomes of content that does harm: ``block``, ``warn`` or ``filter``; None: ``block`` with a model,
            ``warn`` without.
        attacks: what becomes of injected orders.
        leaks: what becomes of stretches of the system prompt in answers.
        languages: the languages in which users may write, as codes or names; None: any, and nobody looks.

    Raises:
        OptionError: an option that is not allowed.
        MissingExtraError: languages are given, and the extra ``language`` is not installed.
    """
    guards = (
        PIIDetector(model, strategy=personal, redaction_method="placeholder", id="personal-data"),
        ModerationProcessor(model, strategy=harm),
        PromptInjectionDetector(model, strategy=attacks),
        SystemPromptScrubber(strategy=leaks, redaction_method="placeholder"),
    )
    tongue = () if languages is None else (LanguageDetector(target_languages=languages, strategy="block"),)
    return Workflow("safety").then(shaped()).parallel(*guards, *tongue)
