"""The preset ``injection``: detect injected instructions, and keep the system prompt out of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.workflow import Workflow
from penstock.processors.guards import PromptInjectionDetector, SystemPromptScrubber
from penstock.workflows.presets.hygiene import plain_letters
from penstock.workflows.presets.time_limits import JUDGE_TIMEOUT, time_limit

if TYPE_CHECKING:
    from penstock.engine.text_guards.scope import SystemMessages, Unscanned
    from penstock.engine.values.protocols import JudgeSource, Model

Strategy = Literal["block", "warn", "filter"]
LeakStrategy = Literal["redact", "block", "warn", "filter"]


def injection(
    model: Model | str | JudgeSource | None = None,
    *,
    strategy: Strategy = "block",
    leaks: LeakStrategy = "redact",
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Detect injected instructions in messages and tool results, and the system prompt in answers and tool calls.

    Most attacks want the system prompt, so finding it in an answer also shows that an attack was missed.

    Args:
        model: asked where the embedded detector is not sure. None: the embedded detector only.
        strategy: what to do with an attack: ``block``, ``warn`` or ``filter``.
        leaks: what to do with passages of the system prompt: ``redact``, ``block``, ``warn`` or ``filter``.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed.
    """
    detector = PromptInjectionDetector(model, strategy=strategy, system=system, unscanned=unscanned)
    scrubber = SystemPromptScrubber(strategy=leaks, redaction_method="placeholder", unscanned=unscanned)
    return Workflow("injection").then(plain_letters(system)).parallel(detector, scrubber, **time_limit(model, timeout))
