"""Errors as the vectors describe them, made into what Python code raises, and given to a run; it knows no processor."""

from __future__ import annotations

import re
from typing import Any

from penstock import ModelError, Outcome, Processor, Workflow
from tests.conformance.builtin.frame import Fields

PASSING = frozenset({408, 409, 429})
"""With all from 500 on: the statuses with which the reference's API-call errors are retryable by default."""


class ForeignError(Exception):
    """An error of somebody else's, with the attributes that it is described by."""


def raised(described: Any) -> Any:
    """Return an error as it is described: our own if it is an API call's, or a stranger's.

    What no error is, is given as it is: a text, a number, or what is said to be plain.
    """
    if not isinstance(described, dict):
        return described
    if "plain" in described:
        return described["plain"]
    error: Exception = api_call_error(described) if described.get("api_call_error") else foreign(described)
    cause = described.get("cause")
    if isinstance(cause, dict):
        cause = raised(cause)
        if isinstance(cause, BaseException):
            error.__cause__ = cause
        else:
            error.cause = cause  # type: ignore[attr-defined]
    elif cause is not None:
        error.__cause__ = error  # it is said to be its own
    return error


def foreign(described: Fields) -> ForeignError:
    """Return a stranger's error; names are spelt as Python does."""
    error = ForeignError(described.get("message", ""))
    for name, value in described.items():
        if name not in ("cause", "message"):
            setattr(error, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(), value)
    return error


def api_call_error(described: Fields) -> ModelError:
    """Return one of ours; whether it may be tried again its status tells, as in the reference, unless it is said."""
    status = described.get("statusCode")
    passes = status is not None and (status in PASSING or status >= 500)
    return ModelError(
        "m",
        described.get("message", ""),
        status=status,
        headers=described.get("responseHeaders"),
        body=described.get("responseBody", ""),
        retryable=described.get("isRetryable", passes),
    )


def after_retries(processor: Processor[Any], described: Any, retries: int) -> Outcome:
    """Return the outcome for an error, after the same call has failed that way so many times before."""
    run = Workflow("w").then(processor).start_sync(max_error_retries=retries + 1)
    run.process_input("hi")
    error = raised(described)
    for _ in range(retries):
        run.process_api_error(error)
    return run.process_api_error(error)
