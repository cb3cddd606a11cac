"""What is right about budgets of money where the reference is not; of options, input and its expectation alone."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

from tests.conformance.builtin.frame import Fields
from tests.conformance.builtin.shapes import option_given

WINDOWS = {"1h": 1, "6h": 6, "24h": 24, "7d": 168, "30d": 720, "365d": 8760}
IDS = {
    "resource": ("mastra__resourceId", "resourceId"),
    "thread": ("mastra__threadId", "threadId"),
    "user": ("userId", "userId"),
    "organization": ("organizationId", "organizationId"),
    "session": ("sessionId", "sessionId"),
}
REGISTERED = ("register", "registered", "register_processor")
FAILED = {"tripwire": {"reason": "it failed", "retry": False, "metadata": {"failed": True}}}


def every_placeholder_is_filled(options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """A message of one's own has its figures wherever it names them."""
    if not options.get("message") or "steps" not in expected:
        return None
    new = copy.deepcopy(expected)
    for step in new["steps"]:
        if isinstance(step, dict) and "tripwire" in step:
            found = step["tripwire"]["metadata"]
            step["tripwire"]["reason"] = sentence(options["message"], found["usage"]["estimatedCost"], found["maxCost"])
    for violation in new.get("violations", []):
        detail = violation["detail"]
        violation["message"] = sentence(options["message"], figure(detail["usage"]), figure(detail["limit"]))
    return new


def requests_without_an_id_share_an_account(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Whose costs nobody can tell apart are counted together, not left uncounted."""
    if "steps" not in expected or options["scope"] == "run" or account(options, given) or given.get("storage_fails"):
        return None
    return counted(options, given, "")


def costs_are_counted_without_a_store(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """There always is a ledger: nothing need be registered for it."""
    if given["method"] in REGISTERED:
        return {"made": True}
    if "steps" not in expected or given.get("registered") is not False or not account(options, given):
        return None
    return counted(options, given, account(options, given))


def what_cannot_be_known_is_not_spent(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A ledger that cannot be asked, and a limit that is none, let no call through."""
    limit = limit_given(options, given)
    broken = bool(given.get("storage_fails")) or (callable(limit) and usable(limit) is None)
    if "steps" not in expected or not broken or options["strategy"] != "block":
        return None
    asked = expected["queries"][:1] if given.get("storage_fails") else []
    logs = [{"level": "warn", "text": "it failed"}]
    return {"steps": [FAILED] * len(expected["steps"]), "queries": asked, "violations": [], "logs": logs}


def a_limit_of_nothing_is_a_limit(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A function that allows nothing is meant: the reference takes its 0 for no limit."""
    limit = limit_given(options, given)
    if "steps" not in expected or not callable(limit) or usable(limit) != 0 or given.get("storage_fails"):
        return None
    return counted(options, given, account(options, given))


def a_verdict_ends_the_run(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """What follows a verdict is the same verdict, and nothing is asked for it."""
    steps: list[Any] = expected.get("steps", [])
    first = next((place for place, step in enumerate(steps) if isinstance(step, dict)), None)
    if first is None or first == len(steps) - 1:
        return None
    ended = steps[: first + 1] + [steps[first]] * (len(steps) - first - 1)
    return {**expected, "steps": ended, "queries": expected["queries"][: first + 1]}


RULES = (
    requests_without_an_id_share_an_account,
    costs_are_counted_without_a_store,
    what_cannot_be_known_is_not_spent,
    a_limit_of_nothing_is_a_limit,
    every_placeholder_is_filled,
    a_verdict_ends_the_run,
)


# What the rules share


def limit_given(options: Fields, given: Fields) -> Any:
    """Return the limit of a row: a number, or a function. What is made only is given what no function can be."""
    value = options.get("max_cost")
    return (
        value if given["method"] == "construct" and isinstance(value, str) else option_given("max_cost", options, given)
    )


def usable(limit: Any) -> Decimal | None:
    """Return what a limit is; None if it is none."""
    try:
        found = limit({}) if callable(limit) else limit
    except ArithmeticError:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < float("inf"):
        return None
    return Decimal(str(found))


def account(options: Fields, given: Fields) -> str:
    """Return the id of a request in its scope; nothing if the request does not say."""
    if options["scope"] == "run":
        return str(given.get("trace_id", "run"))
    context = given.get("context", {})
    memory = context.get("MastraMemory", {})
    own = {"resource": memory.get("resourceId"), "thread": memory.get("thread", {}).get("id")}.get(options["scope"])
    return str(context.get(IDS[options["scope"]][0]) or own or "")


def counted(options: Fields, given: Fields, id: str) -> Fields:
    """Return what comes of a row whose costs are counted under an id."""
    limit, scope = usable(limit_given(options, given)) or Decimal(0), options["scope"]
    percent, strategy = options.get("warn_at_percent"), options["strategy"]
    steps, violations = list[Any](), dict[str, Fields]()
    for cost in given["cost_per_step"]:
        spent = Decimal(str(cost or 0))
        soft = percent is not None and spent >= limit * Decimal(str(percent)) / 100
        threshold = "hard" if spent >= limit else "soft" if soft else ""
        blocks = threshold == "hard" and strategy == "block"
        steps.append(verdict(options, given, spent, limit, id) if blocks else "pass")
        if threshold and not blocks and threshold not in violations:
            found = {"usage": float(spent), "limit": float(limit), "scope": scope, "scopeKey": f"{scope}:{id}"}
            message = sentence(options.get("message") or "{usage}/{limit}", float(spent), float(limit))
            violations[threshold] = {"message": message, "detail": {**found, "threshold": threshold}}
    logs = [{"level": "warn", "text": one["message"]} for one in violations.values()]
    asked = [query(options, id)] * len(steps)
    return {"steps": steps, "queries": asked, "violations": list(violations.values()), "logs": logs}


def verdict(options: Fields, given: Fields, spent: Decimal, limit: Decimal, id: str) -> Fields:
    """Return the verdict about a budget that is reached."""
    scope = options["scope"]
    usage = {"estimatedCost": float(spent), "costUnit": given.get("cost_unit")}
    found = {"usage": usage, "maxCost": float(limit), "scope": scope, "threshold": "hard"}
    key = {} if scope == "run" else {"scopeKey": f"{scope}:{id}"}
    groups = given.get("breakdown") if options.get("include_breakdown") else None
    shown = [{"provider": one["provider"], "model": one["model"], "estimatedCost": one["cost"]} for one in groups or []]
    more = {"breakdown": shown} if shown else {}
    reason = sentence(options.get("message") or "{usage}/{limit}", float(spent), float(limit))
    return {"tripwire": {"reason": reason, "retry": False, "metadata": {**found, **key, **more}}}


def query(options: Fields, id: str) -> Fields:
    """Return what a ledger is asked for."""
    if options["scope"] == "run":
        return {"filters": {"traceId": id}}
    window = {"window_ms": WINDOWS[options["window"]] * 3_600_000}
    return {"filters": {IDS[options["scope"]][1]: id, "timestamp": window}}


def figure(value: Any) -> float:
    """Return the amount of a detail, which may stand with its unit."""
    return float(value["estimatedCost"] if isinstance(value, dict) else value)


def sentence(template: str, usage: float, limit: float) -> str:
    """Return a message with its figures."""
    for name, number in (("usage", usage), ("limit", limit)):
        shown = f"{round(Decimal(str(number)), 6):f}"
        template = template.replace(f"{{{name}}}", shown.rstrip("0").rstrip(".") if "." in shown else shown)
    return template
