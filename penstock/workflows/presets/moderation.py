"""The preset ``moderation``: content that does harm is reported or stopped, in messages and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.workflow import Workflow
from penstock.processors.guards import ModerationProcessor
from penstock.workflows.presets.shaping import shaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.values.ports import Model

Strategy = Literal["block", "warn", "filter"]


def moderation(
    model: Model | None = None,
    *,
    strategy: Strategy | None = None,
    categories: Iterable[str] | None = None,
    threshold: float | Mapping[str, float] | None = None,
) -> Workflow:
    """Judge messages, answers, tools' arguments and results by the categories of moderation.

    Args:
        model: who judges; None: the embedded detector, which sorts and errs, so that it only warns by default.
        strategy: ``block``, ``warn`` or ``filter``; None: ``block`` with a model, ``warn`` without.
        categories: what is looked for; None: all that is known.
        threshold: the score from which on a category counts, 0 to 1; one for all, or by name.

    Raises:
        OptionError: an option that is not allowed.
    """
    judge = ModerationProcessor(model, strategy=strategy, categories=categories, threshold=threshold)
    return Workflow("moderation").then(shaped()).then(judge)
