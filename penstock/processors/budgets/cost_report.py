"""`CostReport`: how a budget stands where it is reached, for callbacks and verdicts; it knows no processor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.frozen import EMPTY
from penstock.processors.budgets.money import NOTHING, told

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from penstock.engine.values.frozen import Value

_REACHED = "{usage} of {limit} {unit} are spent"
_TOO_NEAR = "{usage} of {limit} {unit} are spent, and the next call may cost {estimate}; {remaining} are left"


@dataclass(frozen=True, slots=True)
class CostReport:
    """How a budget stands. It quotes nothing of what was said.

    Attributes:
        processor_id: whose budget it is.
        scope: what is counted together.
        scope_key: the account; None for one run alone.
        window: since when, as the option says it; None: for ever.
        limit: how much may be spent.
        spent: what was spent, judges included.
        held: what other requests have set aside for calls under way.
        estimate: what the next call is estimated to cost; 0 where nobody says.
        model: the model of the next call; None where nobody says.
        unit: the currency.
        threshold: ``hard``: the limit; ``soft``: the share of it at which to warn.
        strategy: what is done about it.
        message: the same as a sentence.
        breakdown: what was spent by model, if that was asked for: the ten that spent most.
        run_id: the request.
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
        """What is left of the budget, at least 0."""
        return max(NOTHING, self.limit - self.spent - self.held)

    def saying(self, template: str | None) -> CostReport:
        """Return the report with a message: the template's, or a plain one."""
        if template is None:
            template = _REACHED if self.threshold == "soft" or self.spent >= self.limit else _TOO_NEAR
        return replace(self, message=self.sentence(template))

    def sentence(self, template: str) -> str:
        """Return a sentence with the report's figures in place of ``{usage}``, ``{limit}`` and the like."""
        figures = {
            "usage": told(self.spent),
            "limit": told(self.limit),
            "estimate": told(self.estimate),
            "remaining": told(self.remaining),
            "unit": self.unit,
            "scope": self.scope,
            "window": self.window or "",
        }
        for name, figure in figures.items():
            template = template.replace(f"{{{name}}}", figure)
        return template

    def metadata(self) -> dict[str, Value]:
        """Return the report as JSON values; amounts are numbers, no longer exact."""
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
