"""`CostReport`: the state of a budget of money, for callbacks and tripwires."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.frozen import EMPTY
from penstock.processors.budgets.prices import NOTHING, format_amount

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from penstock.engine.values.frozen import Value

_REACHED = "{usage} of {limit} {unit} are spent"
_TOO_NEAR = "{usage} of {limit} {unit} are spent, and the next call may cost {estimate}; {remaining} are left"


@dataclass(frozen=True, slots=True)
class CostReport:
    """The state of a budget of money. It does not quote the conversation.

    Attributes:
        processor_id: the id of the cost control.
        scope: the name of its scope.
        scope_key: the key in the ledger; None for the scope ``run``.
        window: the name of its window; None: no window.
        limit: the amount that may be spent.
        spent: the amount spent, including judges.
        held: the amount that other requests have reserved for calls under way.
        estimate: the estimated cost of the next call; 0 if there is no estimate.
        model: the model of the next call; None if it is not known.
        unit: the currency.
        threshold: ``hard``: the limit was reached; ``soft``: the share ``warn_at_percent`` of it was.
        strategy: the strategy of the control.
        message: the report as a sentence.
        breakdown: the amounts of the ten models that cost most, with ``include_breakdown=True``.
        run_id: the id of the run.
    """

    processor_id: str
    scope: str
    scope_key: str | None
    window: str | None
    limit: Decimal
    spent: Decimal
    held: Decimal = NOTHING
    estimate: Decimal = NOTHING
    model: str | None = None
    unit: str = "usd"
    threshold: Literal["hard", "soft"] = "hard"
    strategy: str = "block"
    message: str = ""
    breakdown: Mapping[str, Decimal] = EMPTY
    run_id: str = ""

    @property
    def remaining(self) -> Decimal:
        """The amount that is left, at least 0."""
        return max(NOTHING, self.limit - self.spent - self.held)

    def saying(self, template: str | None) -> CostReport:
        """Return the report with its message, made from a template or (None) from the built-in one."""
        if template is None:
            template = _REACHED if self.threshold == "soft" or self.spent >= self.limit else _TOO_NEAR
        return replace(self, message=self.sentence(template))

    def sentence(self, template: str) -> str:
        """Return a template with the report's figures in place of ``{usage}``, ``{limit}`` and the other names."""
        figures = {
            "usage": format_amount(self.spent),
            "limit": format_amount(self.limit),
            "estimate": format_amount(self.estimate),
            "remaining": format_amount(self.remaining),
            "unit": self.unit,
            "scope": self.scope,
            "window": self.window or "",
        }
        for name, figure in figures.items():
            template = template.replace(f"{{{name}}}", figure)
        return template

    def metadata(self) -> dict[str, Value]:
        """Return the report as JSON values; amounts become floats."""
        shown: dict[str, Value] = {
            "usage": {"estimated_cost": float(self.spent), "cost_unit": self.unit},
            "max_cost": float(self.limit),
            "scope": self.scope,
            "window": self.window,
            "threshold": self.threshold,
            "held": float(self.held),
            "next_call": {"estimated_cost": float(self.estimate), "model": self.model},
        }
        if self.scope_key is not None:
            shown["scope_key"] = self.scope_key
        if self.breakdown:
            shown["breakdown"] = {model: float(cost) for model, cost in self.breakdown.items()}
        return shown
