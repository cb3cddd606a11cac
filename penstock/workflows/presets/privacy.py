"""The preset ``privacy``: hide personal data and keys in both directions, or from the model only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.values.errors import OptionError
from penstock.engine.workflow import Workflow
from penstock.processors.guards import PIIDetector, Restore
from penstock.workflows.presets.hygiene import ExplainPlaceholders, SomethingHidden, plain_letters
from penstock.workflows.presets.time_limits import JUDGE_TIMEOUT, time_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.text_guards.scope import SystemMessages, Unscanned
    from penstock.engine.values.protocols import JudgeSource, Model

Strategy = Literal["redact", "block", "warn", "filter"]


def privacy(
    model: Model | str | JudgeSource | None = None,
    *,
    strategy: Strategy = "redact",
    types: Iterable[str] | None = None,
    restore: bool = False,
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Hide personal data and keys in messages, answers, and arguments and results of tools.

    If something was hidden in a message, a system message explains the placeholders to the model. With ``restore``, the
    model gets numbered tokens, and the client and the tools get the original values: the data is hidden from the
    model only.

    Args:
        model: asked for what has no fixed form: names, addresses, dates of birth. None: only what patterns and check
            digits find.
        strategy: ``redact``, ``block``, ``warn``, or ``filter``, which removes the whole message.
        types: the types to look for, with the names of `PIIDetector`. None: all that can be found, except links
            and UUIDs.
        restore: whether to put the values back in answers and in calls to tools; needs ``redact``.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed, a type needs a model and there is none, or ``restore`` is combined with
            a strategy other than ``redact``.
    """
    if restore and strategy != "redact":
        raise OptionError(
            "privacy", "strategy", strategy, "'redact' with restore=True, because other strategies keep no values"
        )
    detector = PIIDetector(
        model,
        detection_types=types,
        strategy=strategy,
        redaction_method="token" if restore else "placeholder",
        phase="input" if restore else "all",
        system=system,
        unscanned=unscanned,
        id="personal-data",
    )
    workflow = Workflow("privacy").then(plain_letters(system)).then(detector, **time_limit(model, timeout))
    if strategy == "redact":
        workflow = workflow.branch((SomethingHidden((detector.found,)), ExplainPlaceholders()))
    return workflow.then(Restore()) if restore else workflow
