"""How often a failed call is made again, after which waits, and what stops it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from penstock import ModelError, OptionError, Outcome, Run, StreamErrorRetryProcessor, Workflow
from penstock.engine import SyncRun
from penstock.processors.recovery import Backoff, CircuitBreaker, FailedCall, RetryMatcher, is_bad_request_error
from penstock.testing import VirtualClock, run_stage

FULL = ModelError("m", "no room", status=503, retryable=True)
LIMITED = ModelError("m", "slow down", status=429, retryable=True)
BAD = ModelError("m", "no", status=400)
CUT = ModelError("m", "it broke off", retryable=True)


def started(processor: StreamErrorRetryProcessor | None = None, **options: Any) -> SyncRun:
    """Return a run that has asked its model."""
    chosen = {"max_error_retries": 99, "records": True, **options}
    run = Workflow("w").then(processor or StreamErrorRetryProcessor()).start_sync(**chosen)
    asked(run)
    return run


def asked(run: SyncRun) -> None:
    """Begin a step."""
    run.process_input_step()
    run.process_llm_request(model="m")


def waits(run: SyncRun, errors: Sequence[BaseException], model: str = "m") -> list[float | None]:
    """Return after which wait each failed call is made again; None: it is not."""
    outcomes = [run.process_api_error(error, model=model) for error in errors]
    return [None if outcome.retry is None else outcome.retry.after for outcome in outcomes]


def told(outcome: Outcome) -> dict[str, Any]:
    """Return what the record of an outcome says."""
    return dict(outcome.records[-1].details)


# How often


def test_a_call_is_made_again_while_the_budget_lasts() -> None:
    """Twice, by default."""
    assert waits(started(StreamErrorRetryProcessor(delay=1)), [FULL] * 4) == [1, 1, None, None]
    assert waits(started(StreamErrorRetryProcessor(delay=1, max_retries=0)), [FULL]) == [None]


def test_budgets_begin_anew_with_an_accepted_answer() -> None:
    """The next step's call is another one."""
    run = started(StreamErrorRetryProcessor(delay=1, max_retries=1))
    assert waits(run, [FULL, FULL]) == [1, None]
    run.process_output_step("done")
    asked(run)
    assert waits(run, [FULL, FULL]) == [1, None]


def test_a_kind_with_a_budget_is_counted_by_itself() -> None:
    """All the others share one."""
    processor = StreamErrorRetryProcessor(delay=1, max_retries=1, budgets={"rate-limit": 2, "connection": 0})
    errors = [FULL, LIMITED, CUT, LIMITED, FULL, LIMITED]
    assert waits(started(processor), errors) == [1, 1, None, 1, None, None]
    assert processor.wants_retries == 3


def test_the_budget_of_the_run_bounds_them_all() -> None:
    """What the agent does not allow is asked for in vain."""
    run = started(StreamErrorRetryProcessor(delay=1, max_retries=9), max_error_retries=2)
    assert [run.process_api_error(FULL, model="m").retry_granted for _ in range(4)] == [True, True, False, False]


def test_requests_share_no_budget() -> None:
    """What belongs to one request lives in its state."""
    workflow = Workflow("w").then(StreamErrorRetryProcessor(delay=1, max_retries=1))
    one, other = workflow.start_sync(), workflow.start_sync()
    assert [waits(run, [FULL]) for run in (one, other, one, other)] == [[1], [1], [None], [None]]


# Which


def test_matchers_say_what_else_is_worth_another_try() -> None:
    """A function alone, or with values of its own; the first that matches counts, and goes before all else."""
    ours = RetryMatcher(is_bad_request_error, max_retries=2, delay=0.25)
    processor = StreamErrorRetryProcessor(matchers=[ours, lambda error: isinstance(error, KeyError)], delay=1)
    assert waits(started(processor), [BAD, BAD, KeyError(), BAD, ValueError()]) == [0.25, 0.25, 1, None, None]
    never = RetryMatcher(lambda error: getattr(error, "status", None) == 503, max_retries=0)
    assert waits(started(StreamErrorRetryProcessor(matchers=[never], delay=1)), [FULL, LIMITED]) == [None, 1]


def test_matchers_are_shown_causes() -> None:
    """An error that was wrapped on its way is the same error."""
    wrapped = RuntimeError("it failed")
    wrapped.__cause__ = KeyError()
    processor = StreamErrorRetryProcessor(matchers=[lambda error: isinstance(error, KeyError)], delay=1)
    assert waits(started(processor), [wrapped]) == [1]


def test_unknown_errors_are_tried_again_if_that_is_wanted() -> None:
    """All but those that are known to last."""
    refused = ModelError("m", "who are you", status=401)
    wrapped = RuntimeError("it failed")
    wrapped.__cause__ = refused
    processor = StreamErrorRetryProcessor(retry_unknown_errors=True, delay=1)
    assert waits(started(processor), [ValueError(), refused, wrapped, BAD]) == [1, None, None, 1]
    assert waits(started(), [ValueError()]) == [None]


# How long


def test_waits_grow_and_are_spread() -> None:
    """By default from half a second on, up to half of each left to chance."""
    assert waits(started(StreamErrorRetryProcessor(random=lambda: 0.0)), [FULL] * 2) == [0.5, 1.0]
    assert waits(started(StreamErrorRetryProcessor(random=lambda: 1.0)), [FULL] * 2) == [0.25, 0.5]
    [first] = waits(started(), [FULL])
    assert first is not None
    assert 0.25 <= first <= 0.5


def test_the_provider_may_ask_for_more_up_to_a_cap() -> None:
    """Never for less; and where waits are spread, so is what many were told at once."""
    errors = [ModelError("m", "slow", status=429, retry_after=seconds, retryable=True) for seconds in (0.1, 7, 99)]
    fixed = StreamErrorRetryProcessor(delay=1, max_retries=9)
    assert waits(started(fixed), errors) == [1, 7, 30]
    spread = StreamErrorRetryProcessor(delay=Backoff(first=2), max_retry_after=8, max_retries=9, random=lambda: 0.5)
    assert waits(started(spread), errors) == [1.5, 7.5, 8.5]


def test_a_function_may_say_how_long() -> None:
    """It is told of the call; what is no wait counts as none."""
    calls: list[FailedCall] = []

    def delay(call: FailedCall) -> float:
        calls.append(call)
        return [2.0, -1.0, float("nan")][call.retry]

    run = started(StreamErrorRetryProcessor(delay=delay, max_retries=3))
    assert waits(run, [FULL] * 3) == [2.0, 0.0, 0.0]
    assert [(call.kind, call.status, call.model, call.retry, call.after) for call in calls] == [
        ("overloaded", 503, "m", retry, 0.0) for retry in range(3)
    ]
    assert "no room" not in repr(calls)


async def test_functions_may_be_async() -> None:
    """Both the one that says how long, and the one that is told."""
    seen: list[float] = []

    async def delay(call: FailedCall) -> float:
        await anyio.lowlevel.checkpoint()
        return 3.0 + call.retry

    async def on_retry(call: FailedCall) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(call.after)

    processor = StreamErrorRetryProcessor(delay=delay, on_retry=on_retry, deadline=60, breaker=CircuitBreaker())
    run: Run = Workflow("w").then(processor).start()
    async with run:
        await run.process_llm_request(model="m")
        outcomes = [await run.process_api_error(FULL, model="m") for _ in range(3)]
        await run.process_llm_response(model="m")
    assert [outcome.retry and outcome.retry.after for outcome in outcomes] == [3.0, 4.0, None]
    assert seen == [3.0, 4.0]


def test_whoever_wants_to_know_is_told_before_each_wait() -> None:
    """A matcher's own instead of the processor's; with all that is known."""
    calls: list[FailedCall] = []
    own: list[FailedCall] = []
    matcher = RetryMatcher(is_bad_request_error, on_retry=own.append)
    run = started(StreamErrorRetryProcessor(matchers=[matcher], on_retry=calls.append, delay=1))
    limited = ModelError("m", "slow", status=429, retry_after=99, retryable=True)
    waits(run, [limited, BAD, FULL])
    assert [(call.error, call.kind, call.retry, call.retry_after, call.after) for call in calls] == [
        (limited, "rate-limit", 0, 99, 30)
    ]
    assert [(call.kind, call.status, call.retry) for call in own] == [("other", 400, 1)]


def test_a_callback_that_fails_stops_no_retry(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, without a word of the error."""

    def on_retry(call: FailedCall) -> None:
        raise ValueError(f"secret {call.error}")

    with caplog.at_level(logging.WARNING, "penstock"):
        assert waits(started(StreamErrorRetryProcessor(on_retry=on_retry, delay=1)), [FULL]) == [1]
    assert "on_retry of 'stream-error-retry' failed: ValueError" in caplog.text
    assert "secret" not in caplog.text


# What stops it


def test_no_wait_begins_that_would_end_behind_the_deadline() -> None:
    """Counted from the beginning of the call, over all of its retries."""
    clock = VirtualClock()
    run = started(StreamErrorRetryProcessor(delay=5, deadline=12, max_retries=9, clock=clock))
    clock.advance(2)
    assert waits(run, [FULL]) == [5]
    clock.advance(5)
    assert waits(run, [FULL]) == [5]
    clock.advance(0.1)
    assert waits(run, [FULL]) == [None]


def test_the_deadline_begins_anew_with_each_call() -> None:
    """An answer ends the one at hand, whether it is accepted or not."""
    clock = VirtualClock()
    run = started(StreamErrorRetryProcessor(delay=5, deadline=6, max_retries=9, clock=clock))
    for _ in range(2):
        clock.advance(1)
        assert waits(run, [FULL]) == [5]
        clock.advance(5)
        assert waits(run, [FULL]) == [None]
        run.process_llm_response(model="m")
        run.process_output_step("done")
        asked(run)


def test_where_no_beginning_is_heard_the_deadline_counts_from_the_first_failure() -> None:
    """As in an agent's `error_processors`, for each step anew."""
    clock = VirtualClock()
    workflow = Workflow("w").then(StreamErrorRetryProcessor(delay=5, deadline=6, max_retries=9, clock=clock))
    run = workflow.start_sync(max_error_retries=9)
    for _ in range(2):
        clock.advance(100)
        assert waits(run, [FULL]) == [5]
        clock.advance(5)
        assert waits(run, [FULL]) == [None]
        run.process_output_step("done")


def test_a_model_that_is_down_is_asked_less() -> None:
    """All requests share what the breaker knows; an answer closes it; a bad request says nothing of the model."""
    clock = VirtualClock()
    breaker = CircuitBreaker(failures=2, pause=30, clock=clock)
    processor = StreamErrorRetryProcessor(
        delay=1, breaker=breaker, clock=clock, matchers=[is_bad_request_error], max_retries=9
    )
    one, other = started(processor), started(processor)
    assert waits(one, [BAD, BAD, BAD, FULL]) == [1, 1, 1, 1]
    assert waits(other, [FULL]) == [None]
    assert waits(other, [FULL], model="another") == [1]
    clock.advance(30)
    assert waits(one, [FULL]) == [1]
    one.process_llm_response(model="m", from_cache=True)
    assert breaker.is_open("m")
    one.process_llm_response(model="m")
    assert not breaker.is_open("m")
    assert waits(other, [FULL]) == [1]


# What it tells and declares


def test_records_say_what_was_done_and_why_not() -> None:
    """Kinds, numbers and reasons; never a word of the error."""
    clock = VirtualClock()
    processor = StreamErrorRetryProcessor(
        delay=1, max_retries=1, deadline=5, clock=clock, breaker=CircuitBreaker(failures=4, clock=clock)
    )
    run = started(processor)
    outcomes = [run.process_api_error(error, model="m") for error in (FULL, FULL, ValueError("secret"))]
    slow = ModelError("m", "secret", retry_after=9, retryable=True, status=429)
    outcomes += [started(processor).process_api_error(slow, model="m"), run.process_api_error(CUT, model="m")]
    assert [told(outcome) for outcome in outcomes] == [
        {"kind": "overloaded", "status": 503, "retry": 1, "after": 1},
        {"kind": "overloaded", "status": 503, "retry": 1, "stopped": "budget"},
        {"stopped": "final"},
        {"kind": "rate-limit", "status": 429, "retry": 0, "stopped": "deadline"},
        {"kind": "connection", "status": None, "retry": 1, "stopped": "breaker"},
    ]
    assert "secret" not in repr(outcomes)


def test_its_own_failure_leaves_the_error_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """It protects nothing."""

    def broken(error: BaseException) -> bool:
        raise TypeError("secret")

    outcome = run_stage(StreamErrorRetryProcessor(matchers=[broken]), "process_api_error", FULL)
    assert outcome.retry is None
    assert not outcome.blocked
    assert "secret" not in caplog.text


def test_the_first_that_asks_for_a_retry_decides() -> None:
    """The others are not asked."""
    patient, hasty = StreamErrorRetryProcessor(delay=9, id="patient"), StreamErrorRetryProcessor(delay=1, id="hasty")
    run = Workflow("w").then(hasty).then(patient).start_sync(max_error_retries=99)
    assert waits(run, [FULL] * 5) == [1, 1, 9, 9, None]


def test_it_has_the_stages_that_it_needs() -> None:
    """Two more where it must hear of calls and answers."""
    plain = Workflow("w").then(StreamErrorRetryProcessor())
    hearing = Workflow("w").then(StreamErrorRetryProcessor(deadline=1))
    stages = ("process_llm_request", "process_api_error", "process_llm_response")
    assert [[flow.plans.stage(stage) is not None for stage in stages] for flow in (plain, hearing)] == [
        [False, True, False],
        [True, True, True],
    ]
    assert plain == Workflow("w").then(StreamErrorRetryProcessor())


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries": -1},
        {"max_retries": True},
        {"matchers": ["400"]},
        {"budgets": {"weather": 1}},
        {"budgets": {"timeout": -1}},
        {"budgets": ["timeout"]},
        {"retry_unknown_errors": "yes"},
        {"delay": -1},
        {"delay": "1"},
        {"delay": float("inf")},
        {"matchers": None},
        {"clock": None},
        {"random": 0.5},
        {"max_retry_after": -1},
        {"deadline": float("nan")},
        {"breaker": 5},
        {"on_retry": "log"},
    ],
    ids=str,
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    """The error names the option, and what is allowed."""
    with pytest.raises(OptionError, match=next(iter(options))):
        StreamErrorRetryProcessor(**options)


@pytest.mark.parametrize("options", [{"match": 1}, {"max_retries": -1}, {"delay": -1}, {"on_retry": 1}], ids=str)
def test_a_matcher_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    """Its own values, too."""
    with pytest.raises(OptionError, match=next(iter(options))):
        RetryMatcher(**{"match": is_bad_request_error, **options})
