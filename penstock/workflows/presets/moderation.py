"""The preset ``moderation``: report or block harmful content in messages and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.workflow import Workflow
from penstock.processors.guards import ModerationProcessor
from penstock.workflows.presets.hygiene import plain_letters
from penstock.workflows.presets.time_limits import JUDGE_TIMEOUT, time_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.text_guards.scope import SystemMessages, Unscanned
    from penstock.engine.values.protocols import JudgeSource, Model

Strategy = Literal["block", "warn", "filter"]


def moderation(
    model: Model | str | JudgeSource | None = None,
    *,
    strategy: Strategy | None = None,
    categories: Iterable[str] | None = None,
    threshold: float | Mapping[str, float] | None = None,
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Judge messages, answers, and arguments and results of tools by categories of harmful content.

    Args:
        model: the judge. None: the embedded detector, which makes mistakes, so that it only warns by default.
        strategy: ``block``, ``warn`` or ``filter``. None: ``block`` with a model, ``warn`` without.
        categories: the categories to look for. None: all.
        threshold: the score from which a category counts, 0 to 1: one number, or a mapping by category. None: the
            default of `ModerationProcessor`.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed.
    """
    judge = ModerationProcessor(
        model, strategy=strategy, categories=categories, threshold=threshold, system=system, unscanned=unscanned
    )
    return Workflow("moderation").then(plain_letters(system)).then(judge, **time_limit(model, timeout))
