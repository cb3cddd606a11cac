"""The vectors of `TokenCostControl`: whose costs count since when, and what is done where the limit is reached.

The reference asks a store for sums; ours is told of what a run spends. So each row spends what the store is said to
have answered, in tokens that cost next to nothing each, and our ledger notes what it is asked.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from penstock import Run, Workflow
from penstock.engine import Usage
from penstock.engine.tasks import run_without_loop
from penstock.processors.budgets import (
    CostReport,
    InMemoryLedger,
    Price,
    PriceList,
    Reservation,
    TokenCostControl,
    Window,
    window_start,
)
from tests.conformance.builtin import token_cost_invented, token_cost_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.regex_filter import Logs
from tests.conformance.builtin.shapes import constructed, options_named, told
from tests.conformance.builtin.token_cost_rules import figure, limit_given

OPTIONS = ("max_cost", "scope", "window", "strategy", "message", "warn_at_percent", "include_breakdown")
KEYS = {
    "mastra__resourceId": "resource_id",
    "mastra__threadId": "thread_id",
    "userId": "user_id",
    "organizationId": "organization_id",
    "sessionId": "session_id",
}
FILTERS = ("resourceId", "threadId", "userId", "organizationId", "sessionId", "traceId")
TOKENS = 10**17  # for 1: the vectors' costs are floats, with as many digits
PRICES = PriceList({"*": Price("1e-11", "1e-11")})


class Noted(InMemoryLedger):
    """A ledger that notes which sums it is asked for, and fails where the row's store does."""

    def __init__(self, given: Fields) -> None:
        super().__init__()
        self.asked: list[Fields] = []
        self.given = given

    def reserve(self, key: str, holder: str, cost: Decimal, **how: Any) -> Reservation:
        """Note the question, but for those after a verdict."""
        if how["limit"] is not None:
            window = {"timestamp": {"window_ms": milliseconds(how["window"])}} if how["window"] else {}
            name, _, id = key.partition(":")
            self.asked.append({"filters": {f"{name}Id": id, **window}})
        if self.given.get("storage_fails"):
            raise ConnectionError
        return super().reserve(key, holder, cost, **how)

    def breakdown(self, key: str, window: Window = None) -> dict[str, Decimal]:
        """Fail where the row's store knows no groups."""
        if "breakdown" not in self.given:
            raise NotImplementedError
        return super().breakdown(key, window)


def milliseconds(window: Window) -> int:
    """Return how long a window is."""
    at = datetime.now(UTC)
    since = window_start(window, at) or at
    return round((at - since).total_seconds() * 1000)


def run(given: Given) -> Fields:
    """Make the control; or run as many steps as the row has, each with what was spent by then."""
    seen: list[CostReport] = []
    options = {name: value for name, value in given.options.items() if name in OPTIONS and value is not None}
    options["max_cost"] = limit_given(given.options, given.input)
    ledger = Noted(given.input)
    if given.input.get("cost_unit"):
        options["cost_unit"] = given.input["cost_unit"]

    def made() -> TokenCostControl:
        return TokenCostControl(**options, prices=PRICES, ledger=ledger, on_violation=seen.append)

    refused = constructed(made)
    if given.method in token_cost_rules.REGISTERED:
        return refused or {"made": True}
    if refused or given.method == "construct":
        return refused
    context = known(given.input.get("context") or {})
    with Logs() as logs:
        run = Workflow("w").then(made()).start(request_context=context, run_id=given.input.get("trace_id"))
        steps = [step(run, given.input, cost, seen) for cost in given.input["cost_per_step"]]
    asked = ledger.asked if given.options["scope"] != "run" else [{"filters": {"traceId": run.run_id}}] * len(steps)
    return {"steps": steps, "queries": asked, "violations": [reported(one) for one in seen], "logs": logs.rows}


def known(context: Fields) -> Fields:
    """Return the reference's request context as ours."""
    memory = context.get("MastraMemory", {})
    ids = {"resource_id": memory.get("resourceId"), "thread_id": memory.get("thread", {}).get("id")}
    ids |= {ours: context[theirs] for theirs, ours in KEYS.items() if theirs in context}
    return {name: id for name, id in ids.items() if id is not None}


def step(run: Run, given: Fields, cost: Any, seen: list[CostReport]) -> Any:
    """Spend what is new since the last step, and run one.

    Of verdicts the reference's runner tells the callback; the vectors drive the processor without it.
    """
    if cost is not None and not math.isnan(cost):
        groups = given.get("breakdown") or [{"provider": "p", "model": "m", "cost": cost}]
        before = dict[str, int]()
        for spend in run.spent:
            before[spend.model] = before.get(spend.model, 0) + ((spend.usage and spend.usage.input_tokens) or 0)
        for group in groups:
            name = f"{group['provider']}/{group['model']}"
            tokens = int(Decimal(str(group["cost"])) * TOKENS)
            run.spend(name, Usage(tokens - before.get(name, 0), 0))
    told_before = len(seen)
    outcome = run_without_loop(run.process_input_step("hi"), "a step")
    if not outcome.blocked:
        return "pass"
    del seen[told_before:]
    return verdict(told(outcome)["tripwire"], given)


def verdict(tripwire: Fields, given: Fields) -> Fields:
    """Return our verdict in the reference's shape."""
    found = tripwire["metadata"]
    if found.get("failed"):
        return {"tripwire": {**tripwire, "metadata": {"failed": True}}}
    usage = {"estimatedCost": found["usage"]["estimated_cost"], "costUnit": given.get("cost_unit")}
    shown = {"usage": usage, "maxCost": found["max_cost"], "scope": found["scope"], "threshold": found["threshold"]}
    if "scope_key" in found:
        shown["scopeKey"] = found["scope_key"]
    if "breakdown" in found:
        shown["breakdown"] = [group(name, cost) for name, cost in found["breakdown"].items()]
    return {"tripwire": {**tripwire, "metadata": shown}}


def group(name: str, cost: float) -> Fields:
    """Return what a model has spent in the reference's shape."""
    provider, _, model = name.partition("/")
    return {"provider": provider, "model": model, "estimatedCost": cost}


def reported(report: CostReport) -> Fields:
    """Return a report in the reference's shape."""
    detail = {"usage": float(report.spent), "limit": float(report.limit), "scope": report.scope}
    key = {} if report.scope_key is None else {"scopeKey": report.scope_key}
    groups = [group(name, float(cost)) for name, cost in report.breakdown.items()]
    more = {"breakdown": groups} if groups else {}
    return {"message": report.message, "detail": {**detail, **key, **more, "threshold": report.threshold}}


# What is compared


def projection(fields: Fields) -> Fields:
    """Of each step whether it passes, else the figures of its verdict, those of its sentence included.

    Of questions to the store whose costs since when; of warnings their figures; of log lines whether there was a
    warning; of errors the options that are named.
    """
    if "error" in fields:
        return {"error": options_named(fields["error"], OPTIONS)}
    shown: Fields = {"made": True} if "made" in fields else {}
    if "steps" in fields:
        shown["steps"] = [step if isinstance(step, str) else figures(step["tripwire"]) for step in fields["steps"]]
    if "queries" in fields:
        shown["queries"] = [filters(question) for question in fields["queries"]]
    if "violations" in fields:
        shown["violations"] = [warning(violation) for violation in fields["violations"]]
    if "logs" in fields:
        shown["logs"] = any(line["level"] == "warn" for line in fields["logs"])
    return shown


def figures(tripwire: Fields) -> Fields:
    """Return the figures of a verdict."""
    found = tripwire.get("metadata", {})
    usage = found.get("usage", {})
    return {
        "failed": bool(found.get("failed")),
        "retry": bool(tripwire.get("retry")),
        "numbers": [] if found.get("failed") else numbers(tripwire["reason"]),
        "spent": usage.get("estimatedCost"),
        "limit": found.get("maxCost"),
        **{name: found.get(name) for name in ("scope", "scopeKey", "threshold")},
        "breakdown": [(one["provider"], one["model"], one["estimatedCost"]) for one in found.get("breakdown", [])],
    }


def warning(violation: Fields) -> Fields:
    """Return the figures of a warning."""
    detail = violation.get("detail", {})
    groups = [(one["provider"], one["model"], one["estimatedCost"]) for one in detail.get("breakdown", [])]
    amounts = {name: figure(detail[name]) for name in ("usage", "limit") if name in detail}
    named = {name: detail.get(name) for name in ("scope", "scopeKey", "threshold")}
    return {**amounts, **named, "breakdown": groups, "numbers": numbers(violation.get("message", ""))}


def numbers(text: str) -> list[str]:
    """Return the numbers of a sentence, and what stands in braces: figures that were not put in."""
    return re.findall(r"\d+(?:\.\d+)?|\{\w+\}", text)


def filters(question: Fields) -> Fields:
    """Return whose costs since when a store is asked for."""
    asked = question["filters"]
    window = asked.get("timestamp", {}).get("window_ms")
    return {**{name: asked[name] for name in FILTERS if name in asked}, "window_ms": window}


FAMILY = Family(
    files=("token_cost_control",),
    run=run,
    projections=dict.fromkeys(("process_input_step", "construct", *token_cost_rules.REGISTERED), projection),
    rules=token_cost_rules.RULES,
    defaults=token_cost_invented.DEFAULTS,
    invented=token_cost_invented.rows,
)
