"""The vectors of `PrefillErrorHandler`: which errors it takes for a refused prefill, and what it says to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock import PrefillErrorHandler
from tests.conformance.builtin.errors_given import after_retries
from tests.conformance.builtin.frame import Family, Fields, Given, Row

PREFILL = "does not support assistant message prefill"


def run(given: Given) -> Fields:
    """Let the call fail as often as the row says; tell whether it is made again, and what was added."""
    outcome = after_retries(PrefillErrorHandler(), given.input["error"], given.input.get("retry_count", 0))
    retry = outcome.retry
    added = [] if retry is None or retry.messages is None else outcome.message_list.of("context")[-1:]
    return {
        "result": None if retry is None else {"retry": True},
        "signals": [{"contents": message.text} for message in added],
    }


def projection(fields: Fields) -> Fields:
    """The result, and of each signal the words, without case and full stop; attributes are the reference's protocol."""
    if "signals" in fields:
        fields["signals"] = [signal["contents"].lower().rstrip(".") for signal in fields["signals"]]
    return fields


# Rules


def described(given: Fields) -> Fields:
    """Return how the error is described; nothing of one that is a text."""
    return given["error"] if isinstance(given["error"], dict) else {}


def handled() -> Fields:
    """Return that the call is made again, with a word."""
    return {"result": {"retry": True}, "signals": [{"contents": "continue"}]}


def a_cause_counts_too(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """An error that was wrapped on its way is the same error."""
    cause = described(given).get("cause")
    if given.get("retry_count") or expected.get("result", True) or not isinstance(cause, dict):
        return None
    return handled() if PREFILL in cause.get("message", "").lower() else None


def other_providers_say_it_in_other_words(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Bedrock and Mistral refuse a conversation that ends with an answer, too."""
    message = str(described(given).get("message", "")).lower()
    if given.get("retry_count") or expected.get("result", True) or PREFILL in message:
        return None
    said = ("conversation must end with a user message", "expected last role user or tool")
    return handled() if any(words in message for words in said) else None


# Rows as they may have been recorded elsewhere


def row(name: str, error: Any, *, retry: bool, retry_count: int = 0) -> Row:
    """Return a row with what the reference does."""
    given = Given({}, {"method": "process_api_error", "error": error, "retry_count": retry_count})
    return Row("prefill_error_handler", name, given, handled() if retry else {"result": None, "signals": []})


def rows() -> Sequence[Row]:
    """Return the rows."""
    gemini = "Requests ending with a model turn are not supported."
    return [
        row("gemini", {"message": gemini}, retry=True),
        row("gemini in a body", {"message": "400", "responseBody": gemini, "api_call_error": True}, retry=True),
        row("another body", {"message": "400", "responseBody": "{}", "api_call_error": True}, retry=False),
        row("a text", PREFILL, retry=False),
        row("a text that is said to be plain", {"plain": PREFILL}, retry=False),
        row("a third attempt", {"message": PREFILL}, retry=False, retry_count=2),
        row("no message", {"message": ""}, retry=False),
        row("wrapped", {"message": "it failed", "cause": {"message": PREFILL}}, retry=False),
        row("wrapped, again", {"message": "it failed", "cause": {"message": PREFILL}}, retry=False, retry_count=1),
        row("another cause", {"message": "it failed", "cause": {"message": "no"}}, retry=False),
        row("mistral", {"message": "Expected last role User or Tool, but got assistant"}, retry=False),
        row("bedrock", {"message": "A conversation must end with a user message."}, retry=False),
    ]


FAMILY = Family(
    files=("prefill_error_handler",),
    run=run,
    projections={"process_api_error": projection},
    rules=(a_cause_counts_too, other_providers_say_it_in_other_words),
    invented=rows,
)
