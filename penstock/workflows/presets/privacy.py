"""The preset ``privacy``: personal data and keys are hidden on both ways, or from the model alone, and put back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.values.errors import OptionError
from penstock.engine.workflow import Workflow
from penstock.processors.guards import PIIDetector, Restore
from penstock.workflows.presets.hygiene import ExplainPlaceholders, SomethingHidden
from penstock.workflows.presets.shaping import shaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.ports import Model

Strategy = Literal["redact", "block", "warn", "filter"]


def privacy(
    model: Model | None = None,
    *,
    strategy: Strategy = "redact",
    types: Iterable[str] | None = None,
    restore: bool = False,
) -> Workflow:
    """Hide personal data and keys in messages, answers, tools' arguments and results; tell the model what was hidden.

    With ``restore``, the model works on numbered tokens, and the client and the tools get the values back: data are
    hidden from the model, and from nobody else.

    Args:
        model: asked for what has no shape: names, addresses, dates of birth; None: what patterns and check sums find.
        strategy: ``redact``, ``block``, ``warn``, or ``filter``, which leaves out the whole message.
        types: what is looked for, as `PIIDetector` names it; None: all that can be found.
        restore: put the values back in answers and in calls to tools; only with ``redact``.

    Raises:
        OptionError: an option that is not allowed, a type that only a model can find where there is none, or another
            strategy where values are to be put back.
    """
    if restore and strategy != "redact":
        raise OptionError("privacy", "strategy", strategy, "'redact' with restore=True: nothing else can be put back")
    detector = PIIDetector(
        model,
        detection_types=types,
        strategy=strategy,
        redaction_method="token" if restore else "placeholder",
        phase="input" if restore else "all",
        id="personal-data",
    )
    workflow = Workflow("privacy").then(shaped()).then(detector)
    if strategy == "redact":
        workflow = workflow.branch((SomethingHidden((detector.found,)), ExplainPlaceholders()))
    return workflow.then(Restore()) if restore else workflow
