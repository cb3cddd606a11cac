"""Rows for retries as others may have been recorded; what the reference does is after its spec (builtins.md §10.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS: Fields = {
    "max_retries": 1,
    "matchers": [],
    "retry_unknown_errors": False,
    "delay_ms": 0,
    "max_retry_after_ms": 30000,
}
YES: Fields = {"result": {"retry": True}}
NO: Fields = {"result": None}


def row(name: str, error: Fields, expected: Fields, *, retry_count: int = 0, **options: Any) -> Row:
    """Return a row with what the reference does."""
    given = {"method": "process_api_error", "error": error, "retry_count": retry_count}
    return Row("stream_error_retry", name, Given({**DEFAULTS, **options}, given), expected)


def event(**error: Any) -> Fields:
    """Return an error event of OpenAI's stream."""
    return {"plain": {"type": "error", "error": error}}


def waits(milliseconds: float) -> Fields:
    """Return that the call is made again after a wait."""
    return {**YES, "delay_ms": milliseconds}


def limited(**headers: str) -> Fields:
    """Return an error that asks to wait."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"message": "x", "statusCode": 429, "responseHeaders": named}


def recorded() -> list[Row]:
    """Return rows of what is the same."""
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "no"}}}
    on_429: Any = {"matchers": [{"status_code": 429}]}
    return [
        row("a flag", {"message": "x", "isRetryable": True}, YES),
        row("an API call's error", {"message": "x", "statusCode": 503, "api_call_error": True}, YES),
        row("an API call's error that lasts", {"message": "x", "statusCode": 400, "api_call_error": True}, NO),
        row("a failed response", {"plain": failed}, YES),
        row("a code of the event itself", {"plain": {"type": "error", "code": "server_error"}}, YES),
        row("a type", event(type="overloaded_error"), YES),
        row("a time limit", event(code="request_timeout"), YES),
        row("an internal error", event(code="internal_error"), YES),
        row("an invitation", event(code="x", message="An error occurred. You can retry your request, or ask us."), YES),
        row("no invitation", event(code="x", message="An error occurred."), NO),
        row("an event that is none", {"plain": {"type": "text-delta", "error": {"message": "please retry"}}}, NO),
        row("an event in a cause", {"message": "x", "cause": event(code="server_error")}, YES),
        row("a cause of a cause", {"message": "x", "cause": {"message": "y", "cause": {"isRetryable": True}}}, YES),
        row("its own cause", {"message": "x", "cause": "itself"}, NO),
        row("nothing known", {"message": "boom"}, NO),
        row("two retries", {"message": "x", "isRetryable": True}, YES, retry_count=1, max_retries=2),
        row("unknown, 401", {"message": "x", "statusCode": 401}, NO, retry_unknown_errors=True),
        row("unknown, a code", {"message": "x", "code": "access_denied"}, NO, retry_unknown_errors=True),
        row(
            "unknown, a code in data",
            {"message": "x", "data": {"error": {"code": "forbidden"}}},
            NO,
            retry_unknown_errors=True,
        ),
        row("unknown, 400", {"message": "x", "statusCode": 400}, YES, retry_unknown_errors=True),
        row("unknown, used up", {"message": "x"}, NO, retry_unknown_errors=True, retry_count=1),
        row("milliseconds first", limited(retry_after_ms="1500", retry_after="9"), waits(1500), **on_429),
        row("the usual cap", limited(retry_after="120"), waits(30000), **on_429),
        row("a date that is over", limited(retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), waits(0), **on_429),
        row("a date far off", limited(retry_after="Wed, 21 Oct 2099 07:28:00 GMT"), waits(30000), **on_429),
        row("no date", limited(retry_after="soon"), waits(0), **on_429),
        row("the longer wait", limited(retry_after="1"), waits(5000), delay_ms=5000, **on_429),
        row("the longer wait asked for", limited(retry_after="2"), waits(2000), delay_ms=100, **on_429),
        row("a fixed delay is not capped", {"isRetryable": True}, waits(50000), delay_ms=50000),
        row(
            "a matcher's budget",
            {"message": "x", "statusCode": 400},
            YES,
            retry_count=2,
            matchers=[{"status_code": 400, "max_retries": 3}],
        ),
    ]


def different() -> list[Row]:
    """Return rows of what is better, by each rule."""
    quota = {"message": "x", "isRetryable": True, "code": "insufficient_quota"}
    refused = {"message": "x", "code": "unauthorized"}
    known = [{"status_code": 503, "delay_ms": 700, "max_retries": 0}]
    return [
        row("a status", {"message": "x", "statusCode": 503}, NO),
        row("a status by another name", {"message": "x", "status": 429}, NO),
        row("a status in a cause", {"message": "x", "cause": {"message": "y", "statusCode": 500}}, NO),
        row("a status that is said to last", {"message": "x", "statusCode": 500, "isRetryable": False}, NO),
        row("a status, too often", {"message": "x", "statusCode": 500}, NO, retry_count=1),
        row("a code", {"message": "x", "code": "rate_limit_exceeded"}, NO),
        row("a code of Google's", {"message": "x", "status": "x", "code": "RESOURCE_EXHAUSTED"}, NO),
        row("an event of another provider", event(type="throttling_error"), NO),
        row("an account used up", quota, YES),
        row("an account used up, unknown", {**quota, "isRetryable": None}, YES, retry_unknown_errors=True),
        row("a key in other words", refused, YES, retry_unknown_errors=True),
        row("a matcher first", {"message": "x", "statusCode": 503, "isRetryable": True}, YES, matchers=known),
        row(
            "a matcher first, its wait",
            {"message": "x", "statusCode": 503, "cause": {"isRetryable": True}},
            waits(0),
            matchers=[{"status_code": 400}, {"status_code": 503, "delay_ms": 700}],
        ),
        row("a fraction", limited(retry_after="1.5"), waits(0), matchers=[{"status_code": 429}]),
        row("a fraction of milliseconds", limited(retry_after_ms="0.5"), waits(0), matchers=[{"status_code": 429}]),
        row("a negative delay", {"isRetryable": True}, waits(0), delay_ms=-5),
        row("a negative number", {"isRetryable": True}, NO, max_retries=-1),
    ]


def rows() -> Sequence[Row]:
    """Return the rows."""
    return [*recorded(), *different()]
