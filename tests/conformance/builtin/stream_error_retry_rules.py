"""Where retries differ from the reference on purpose; the reasons are in docs/differences.md. It knows no processor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.builtin.frame import Fields

PASSING = frozenset({408, 409, 425, 429})
PASSING_WORDS = (
    "rate_limit",
    "too_many_requests",
    "throttl",
    "resource_exhausted",
    "overloaded",
    "unavailable",
    "capacity",
    "timeout",
    "timed_out",
    "deadline_exceeded",
    "server_error",
    "internal",
)
LASTING_WORDS = (
    "unauthorized",
    "unauthenticated",
    "permission_error",
    "insufficient_quota",
    "quota_exceeded",
    "billing",
)


def chain(error: Any) -> Iterator[Fields]:
    """Yield the description of an error and of its causes; of one that is a mapping, that; of a text, nothing."""
    seen: Any = error.get("plain", error) if isinstance(error, dict) else None
    while isinstance(seen, dict):
        yield seen
        seen = seen.get("cause")
        seen = seen.get("plain", seen) if isinstance(seen, dict) else None


def status(error: Any) -> int | None:
    """Return the status that an error is described with, by either name."""
    found = error.get("statusCode", error.get("status")) if isinstance(error, dict) else None
    return found if isinstance(found, int) else None


def codes(error: Fields) -> str:
    """Return an error's codes and types, those of an event in it too, in one text."""
    inner = error.get("error") or (error.get("response") or {}).get("error") or {}
    places = [error, inner if isinstance(inner, dict) else {}]
    return " ".join(str(place.get(name, "")) for place in places for name in ("code", "type")).lower()


def passes(error: Fields) -> bool:
    """Tell whether an error is known to pass: by its status or its codes."""
    found = status(error)
    if any(word in codes(error) for word in LASTING_WORDS):
        return False
    return any(word in codes(error) for word in PASSING_WORDS) or (
        found is not None and (found in PASSING or found >= 500)
    )


def matched(options: Fields, given: Fields) -> Fields | None:
    """Return the first of the user's matchers that matches the error or a cause."""
    for error in chain(given["error"]):
        for one in options["matchers"]:
            words = [value for name, value in one.items() if "message" in name and isinstance(value, str)]
            if status(error) == one.get("status_code", status(error)) and all(
                word in str(error.get("message", "")) for word in words
            ):
                return dict(one)
    return None


# Rules


def a_negative_number_is_refused(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """What cannot be meant is said when the processor is built."""
    names = {"max_retries": "max_retries", "delay_ms": "delay", "max_retry_after_ms": "max_retry_after"}
    for place in [*options.get("matchers", ()), options]:
        for name, ours in names.items():
            given = place.get(name)
            if isinstance(given, int | float) and given < 0:
                return {"error": ours}
    return None


def a_status_goes_by_either_name(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Some libraries call it ``status``, others ``status_code``; it is the same number."""
    return {"results": [status(error) == 400 for error in given["errors"]]} if "results" in expected else None


def what_passes_is_known_by_what_providers_say(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """No SDK of Python's marks its errors as retryable: their statuses and codes tell, wherever they stand."""
    if "result" not in expected or expected["result"] or given["retry_count"] >= options["max_retries"]:
        return None
    for error in chain(given["error"]):
        if error.get("isRetryable") is False:
            return None
        if passes(error):
            return {"result": {"retry": True}}
    return None


def what_lasts_is_not_asked_again(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """An account that is used up, or a key that is refused in other words, answers no second call."""
    if not expected.get("result") or "error" not in given or matched(options, given):
        return None
    lasting = [any(word in codes(one) for word in LASTING_WORDS) for one in chain(given["error"])]
    return {"result": None} if any(lasting) else None


def the_users_matchers_go_first(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Who says how a certain error is to be treated knows more of it than we do."""
    own = matched(options, given) if "result" in expected else None
    if own is None:
        return None
    most = own.get("max_retries", options["max_retries"])
    if given["retry_count"] >= most:
        return {"result": None}
    if "delay_ms" not in own or "delay_ms" not in expected:
        return None
    return {"result": {"retry": True}, "delay_ms": max(own["delay_ms"], expected["delay_ms"])}


def a_fraction_of_a_second_counts(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A provider that asks for a second and a half means it."""
    if "delay_ms" not in expected:
        return None
    own = (matched(options, given) or {}).get("delay_ms", options["delay_ms"])
    for error in chain(given["error"]):
        headers = {name.lower(): value for name, value in (error.get("responseHeaders") or {}).items()}
        for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
            whole, _, part = str(headers.get(name, "")).partition(".")
            if whole.isdigit() and part.isdigit():
                return {
                    **expected,
                    "delay_ms": max(own, min(float(f"{whole}.{part}") * unit, options["max_retry_after_ms"])),
                }
            if whole.isdigit():
                return None
    return None
