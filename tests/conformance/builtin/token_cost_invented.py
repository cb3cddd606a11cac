"""Rows for budgets of money as others may have been recorded; what the reference does is after its spec.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS = {
    "scope": "resource",
    "window": "7d",
    "strategy": "block",
    "message": None,
    "warn_at_percent": None,
    "include_breakdown": False,
}
RES = {"mastra__resourceId": "res-1"}
KEY = {"scope": "resource", "scopeKey": "resource:res-1"}
WEEK = {"filters": {"resourceId": "res-1", "entityType": "agent", "timestamp": {"window_ms": 604_800_000}}}


def blocked(cost: float, limit: float, reason: str, **more: Any) -> Fields:
    """Return a verdict of the reference's."""
    usage = {"estimatedCost": cost, "costUnit": "usd"}
    found = {"processorId": "token-cost-control", "usage": usage, "maxCost": limit, "threshold": "hard", **KEY, **more}
    return {"tripwire": {"reason": reason, "retry": False, "metadata": found}}


def warned(cost: float, limit: float, threshold: str, message: str = "") -> Fields:
    """Return a warning of the reference's."""
    usage = {"estimatedCost": cost, "costUnit": "usd"}
    detail = {"usage": cost, "limit": limit, "totalUsage": usage, "threshold": threshold, **KEY}
    return {"processorId": "token-cost-control", "message": message or f"limit ({cost}/{limit})", "detail": detail}


def row(name: str, options: Fields, costs: list[Any], steps: list[Any], *violations: Fields, **given: Any) -> Row:
    """Return a row: what a store says before each step, and what comes of it; a warning is logged."""
    asked = {"method": "process_input_step", "cost_per_step": costs, "cost_unit": "usd", "context": RES, **given}
    queries = [] if options.pop("unasked", False) else [WEEK] * len(costs)
    logs = [{"level": "warn", "text": violation["message"]} for violation in violations]
    if given.get("storage_fails"):
        logs.append({"level": "warn", "text": "the store failed"})
    expected = {"steps": steps, "queries": queries, "violations": list(violations), "logs": logs}
    return Row("token_cost_control", name, Given({**DEFAULTS, "max_cost": 1, **options}, asked), expected)


def refused(name: str, options: Fields, option: str) -> Row:
    """Return a row on options that the constructor refuses."""
    given = Given({**DEFAULTS, "max_cost": 1, **options}, {"method": "construct"})
    return Row("token_cost_control", name, given, {"error": f"TokenCostControl requires {option} to be otherwise"})


def rows() -> Sequence[Row]:
    """Return the rows."""
    warn, soft = {"strategy": "warn"}, {"warn_at_percent": 80}
    twice = {"strategy": "warn", "message": "{usage} of {limit}, {usage}"}
    both = {"strategy": "warn", "warn_at_percent": 50}
    return [
        row("below", {}, [0.5], ["pass"]),
        row("nothing", {}, [0], ["pass"]),
        row("absent", {}, [None], ["pass"]),
        row("reached", {}, [1], [blocked(1, 1, "(1/1)")]),
        row("in time", {}, [0.5, 0.9, 1.2], ["pass", "pass", blocked(1.2, 1, "(1.2/1)")]),
        row("and on", {}, [1, 1.5], [blocked(1, 1, "(1/1)"), blocked(1.5, 1, "(1.5/1)")]),
        row("warned once", warn, [2, 3], ["pass", "pass"], warned(2, 1, "hard")),
        row("warned not yet", warn, [0.2, 3], ["pass", "pass"], warned(3, 1, "hard")),
        row("softly", soft, [0.8, 0.9], ["pass", "pass"], warned(0.8, 1, "soft")),
        row("not yet softly", soft, [0.79], ["pass"]),
        row("softly, then no more", soft, [0.9, 1], ["pass", blocked(1, 1, "(1/1)")], warned(0.9, 1, "soft")),
        row("both ways", both, [0.6, 2], ["pass", "pass"], warned(0.6, 1, "soft"), warned(2, 1, "hard")),
        row("its own words", twice, [2], ["pass"], warned(2, 1, "hard", "2 of 1, {usage}")),
        row("nobody's", {"scope": "thread", "unasked": True}, [2, 3], ["pass", "pass"]),
        row("nobody's, warned", {"scope": "user", "unasked": True, **both}, [0.5, 2], ["pass", "pass"]),
        row("no store", {"unasked": True, "window": "24h"}, [0.5, 2], ["pass", "pass"], registered=False),
        row("a store that fails", warn, [2, 2], ["pass", "pass"], storage_fails=True),
        row("a store that fails, and blocks", {}, [2, 2], ["pass", "pass"], storage_fails=True),
        row("a limit that is none", {"unasked": True}, [2], ["pass"], max_cost_fn="raises"),
        row("a limit by function", {}, [2], [blocked(2, 2, "(2/2)")], max_cost_fn=2),
        row("a limit by a function in its place", {"max_cost": {"dynamic": 2}}, [2], [blocked(2, 2, "(2/2)")]),
        row("a limit by word", {"max_cost": "dynamic"}, [2], [blocked(2, 2, "(2/2)")], dynamic_limit=2),
        row("a limit of the context", {"max_cost": {"dynamic": "tier"}}, [2], ["pass"], context={**RES, "tier": 3}),
        row("a limit that raises", {"max_cost": {"dynamic": "throws"}, "unasked": True}, [5], ["pass"]),
        row("a limit that is no number", {"max_cost": {"dynamic": "NaN"}, "unasked": True}, [5], ["pass"]),
        row("a limit that is not there", {"max_cost": {"dynamic": None}, "unasked": True}, [5], ["pass"]),
        row("a limit below nothing", {"max_cost": {"dynamic": -1}, "unasked": True}, [5], ["pass"]),
        row("a limit of nothing", {"max_cost": {"dynamic": 0}, "unasked": True}, [5], ["pass"]),
        row(
            "a limit of nothing, of nobody",
            {"max_cost": {"dynamic": 0}, "scope": "user", "unasked": True},
            [5],
            ["pass"],
        ),
        Row(
            "token_cost_control",
            "registered without a store",
            Given({**DEFAULTS, "max_cost": 1}, {"method": "register"}),
            {"error": "TokenCostControl requires an observability store"},
        ),
        refused("percent 0", {"warn_at_percent": 0}, "warnAtPercent"),
        refused("percent 100", {"warn_at_percent": 100}, "warnAtPercent"),
        refused("no number", {"max_cost": "x"}, "maxCost"),
    ]
