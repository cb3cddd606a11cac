"""The vectors of `StreamErrorRetryProcessor`: which errors are worth another try, how often, and after which wait."""

from __future__ import annotations

from collections.abc import Callable

from penstock import StreamErrorRetryProcessor
from penstock.engine.values.errors import OptionError
from penstock.processors.recovery import RetryMatcher, is_bad_request_error
from tests.conformance.builtin import stream_error_retry_rules as rules
from tests.conformance.builtin.errors_given import after_retries, raised
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import option_given, options_named
from tests.conformance.builtin.stream_error_retry_invented import DEFAULTS, rows

SECOND = 1000.0


def run(given: Given) -> Fields:
    """Let the call fail as often as the row says; tell whether it is made again, and after how many milliseconds."""
    if given.method == "is_bad_request_error":
        return {"results": [is_bad_request_error(raised(error)) for error in given.input["errors"]]}
    try:
        processor = made(given.options, given.input)
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {}
    retry = after_retries(processor, given.input["error"], given.input.get("retry_count", 0)).retry
    if retry is None:
        return {"result": None}
    return {"result": {"retry": True}, "delay_ms": round(retry.after * SECOND, 3)}


def made(options: Fields, given: Fields) -> StreamErrorRetryProcessor:
    """Return the processor; times are in seconds here, and a fixed delay leaves nothing to chance."""
    delay = option_given("delay_ms", options, given)
    return StreamErrorRetryProcessor(
        max_retries=options["max_retries"],
        matchers=[matcher(one) for one in options["matchers"]],
        retry_unknown_errors=options["retry_unknown_errors"],
        delay=(lambda _error, *_: delay() / SECOND) if callable(delay) else (delay or 0) / SECOND,
        max_retry_after=options["max_retry_after_ms"] / SECOND,
    )


def matcher(told: Fields) -> RetryMatcher:
    """Return the matcher that a row describes, and what else it sets."""
    delay = told.get("delay_ms")
    return RetryMatcher(
        fits(told),
        max_retries=told.get("max_retries"),
        delay=None if delay is None else delay / SECOND,
    )


def fits(told: Fields) -> Callable[[BaseException], bool]:
    """Return whether an error is as described: its status, by the name that matchers look it up by, and its words."""

    def fitting(error: BaseException) -> bool:
        status = getattr(error, "status_code", getattr(error, "status", None))
        words = [value for name, value in told.items() if "message" in name and isinstance(value, str)]
        return told.get("status_code", status) == status and all(word in str(error) for word in words)

    return fitting


def projection(fields: Fields) -> Fields:
    """As it is; of an error the options that it names."""
    if "error" in fields:
        fields["error"] = options_named(fields["error"], ("max_retries", "delay", "max_retry_after", "matchers"))
    return fields


FAMILY = Family(
    files=("stream_error_retry",),
    run=run,
    projections={"process_api_error": projection, "construct": projection, "is_bad_request_error": projection},
    rules=(
        rules.a_negative_number_is_refused,
        rules.a_status_goes_by_either_name,
        rules.what_passes_is_known_by_what_providers_say,
        rules.what_lasts_is_not_asked_again,
        rules.the_users_matchers_go_first,
        rules.a_fraction_of_a_second_counts,
    ),
    defaults=DEFAULTS,
    invented=rows,
)
