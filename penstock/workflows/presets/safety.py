"""The preset ``safety``: all guards in parallel on the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.workflow import Workflow
from penstock.processors.guards import (
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    SystemPromptScrubber,
)
from penstock.workflows.presets.hygiene import plain_letters
from penstock.workflows.presets.time_limits import JUDGE_TIMEOUT, time_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.text_guards.scope import SystemMessages, Unscanned
    from penstock.engine.values.protocols import JudgeSource, Model
    from penstock.processors.guards import LanguageDetector

Strategy = Literal["block", "warn", "filter"]
Hiding = Literal["redact", "block", "warn", "filter"]


def safety(
    model: Model | str | JudgeSource | None = None,
    *,
    personal: Hiding = "redact",
    harm: Strategy | None = None,
    attacks: Strategy = "block",
    leaks: Hiding = "redact",
    languages: Iterable[str] | None = None,
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Hide personal data, judge content, detect injected instructions, and keep the system prompt out of answers.

    All guards run in parallel. The first that blocks stops the others. What several of them hide is hidden once.

    Args:
        model: asked about what depends on context, and where the embedded detectors are not sure. None: the embedded
            detectors only.
        personal: what to do with personal data and keys: ``redact``, ``block``, ``warn`` or ``filter``.
        harm: what to do with harmful content: ``block``, ``warn`` or ``filter``. None: ``block`` with a model,
            ``warn`` without.
        attacks: what to do with injected instructions: ``block``, ``warn`` or ``filter``.
        leaks: what to do with passages of the system prompt in answers: ``redact``, ``block``, ``warn`` or ``filter``.
        languages: the languages in which users may write, as codes or names; others are blocked. None: any language,
            without a check.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed.
        MissingExtraError: ``languages`` is given, and the extra ``language`` is not installed.
    """
    guards = (
        PIIDetector(
            model,
            strategy=personal,
            redaction_method="placeholder",
            system=system,
            unscanned=unscanned,
            id="personal-data",
        ),
        ModerationProcessor(model, strategy=harm, system=system, unscanned=unscanned),
        PromptInjectionDetector(model, strategy=attacks, system=system, unscanned=unscanned),
        SystemPromptScrubber(strategy=leaks, redaction_method="placeholder", unscanned=unscanned),
    )
    limit = time_limit(model, timeout)
    return Workflow("safety").then(plain_letters(system)).parallel(*guards, *_language_guard(languages), **limit)


def _language_guard(languages: Iterable[str] | None) -> tuple[LanguageDetector, ...]:
    if languages is None:
        return ()
    from penstock.processors.guards import LanguageDetector  # its tables take time to load

    return (LanguageDetector(target_languages=languages, strategy="block"),)
