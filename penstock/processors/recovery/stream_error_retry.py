"""`StreamErrorRetryProcessor`: retries failed model calls if their error is temporary; the agent waits."""

from __future__ import annotations

import logging
import random as chance
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.processor.option_checks import check_count, check_function, check_number
from penstock.engine.processor.payload import Retry
from penstock.engine.processor.processor import Processor, flag, is_async
from penstock.engine.tasks import resolved, run_without_loop
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.protocols import SYSTEM_CLOCK, Clock
from penstock.engine.values.shared import Breaker
from penstock.processors.recovery.pacing import Backoff, is_number
from penstock.processors.recovery.provider_errors import (
    KINDS,
    LASTING,
    PASSING,
    causes,
    kind_along,
    kind_of,
    passes,
    read_error,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.engine.processor.context import APIErrorContext, LLMRequestContext, LLMResponseContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.processors.recovery.provider_errors import ErrorFacts, ErrorKind

_WHOLE = "a whole number from 0 on"
_SECONDS = "a number of seconds from 0 on"
_LOG = logging.getLogger("penstock")
_SHARED = ""  # the budget of all errors that have none of their own
_WITH_CALLS = ("process_llm_request", "process_api_error", "process_llm_response")


# What callbacks receive, and what they may set


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A failed model call that will be retried. Functions for delays and callbacks receive it.

    Attributes:
        error: the exception of the call. Its text may quote the prompt; mind this when you log it.
        kind: the kind of the error.
        status: the HTTP status; None if the error has none.
        model: the name of the model.
        retry: how many retries the budget of this error has spent, from 0.
        retry_after: how long the provider asks to wait, in seconds, before ``max_retry_after`` is applied; None if it
            does not ask.
        elapsed: the time since the call began, or since it first failed, in seconds.
        after: how long the agent is going to wait, in seconds; 0 while the delay is being computed.
    """

    error: BaseException = field(repr=False)
    kind: ErrorKind
    status: int | None
    model: str
    retry: int
    retry_after: float | None
    elapsed: float
    after: float = 0.0


Matches: TypeAlias = Callable[[BaseException], bool]
"""Returns whether an error is worth a retry. It is called with the error, then with each of its causes."""

Delay: TypeAlias = "float | Backoff | Callable[[FailedCall], float | Awaitable[float]]"
"""How long to wait: a number of seconds, a `Backoff`, or a function, async or not, that returns seconds.

A result below 0, or one that is not a finite number, counts as 0.
"""

OnRetry: TypeAlias = "Callable[[FailedCall], object]"
"""Called before each wait; may be async."""


@dataclass(frozen=True, slots=True)
class RetryMatcher:
    """Errors that are worth a retry, with a budget, a delay and a callback of their own.

    Attributes:
        match: returns whether an error belongs here. It is called with the error, then with each of its causes.
        max_retries: how many retries these errors may use, counted apart from others; 0 or more. None: they use the
            processor's budgets.
        delay: how long to wait: seconds (0 or more), a `Backoff`, or a function of the `FailedCall`. None: the
            processor's ``delay``.
        on_retry: called before each wait, in place of the processor's ``on_retry``. None: the processor's.

    Raises:
        OptionError: a value is of the wrong type, or below 0.
    """

    match: Matches
    max_retries: int | None = None
    delay: Delay | None = None
    on_retry: OnRetry | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        owner = type(self).__name__
        if not callable(cast("object", self.match)):
            raise OptionError(owner, "match", self.match, "a function from an error to True or False")
        if self.max_retries is not None:
            check_count(owner, "max_retries", self.max_retries, _WHOLE)
        if self.delay is not None:
            _check_delay(owner, self.delay)
        check_function(owner, "on_retry", self.on_retry)


# Which errors are worth a retry


@dataclass(frozen=True, slots=True)
class RetryReason:
    """Why a failed call is worth a retry.

    Attributes:
        kind: the kind of the error.
        status: the HTTP status, if one is named.
        wait: how long the provider asks to wait, in seconds, if it does.
        matcher: the index of the user's matcher that matched, if one did.
    """

    kind: ErrorKind
    status: int | None
    wait: float | None
    matcher: int | None = None


def retry_reason(
    error: object, matchers: Sequence[RetryMatcher], now: datetime, *, unknown: bool
) -> RetryReason | None:
    """Return why an error, or one of its causes, is worth a retry; None if it is not.

    Args:
        error: the exception of the call. Error events of streams may be mappings.
        matchers: the user's matchers. They are asked first, also about errors that would count as final.
        now: the current time.
        unknown: whether unknown errors are worth a retry, unless their kind is one that does not pass.
    """
    chain = list(causes(error))
    facts = [read_error(one, now) for one in chain]
    for place, one in enumerate(chain):
        for index, matcher in enumerate(matchers):
            if matcher.match(cast("BaseException", one)):  # or an event, as a mapping
                return _reason_at(facts, place, index)
    known = _first_retryable(facts)
    if known is not None:
        return _reason_at(facts, known)
    return _reason_at(facts, 0) if unknown and not any(kind_of(one) in LASTING for one in facts) else None


def _first_retryable(facts: Sequence[ErrorFacts]) -> int | None:
    """Return the index of the first error that says it is retryable, or is of a kind that passes.

    Once an error has said that it is not retryable, its causes count only if they say themselves that they are.
    """
    refused = False
    for place, one in enumerate(facts):
        if one.retryable is True and kind_of(one) != "quota":
            return place
        refused = refused or one.retryable is False
        if not refused and passes(one):
            return place
    return None


def _reason_at(facts: Sequence[ErrorFacts], place: int, matcher: int | None = None) -> RetryReason:
    """Return the reason for the error at an index. Missing facts are taken from its causes, then from before."""
    chain = [*facts[place:], *reversed(facts[:place])]
    status = next((one.status for one in chain if one.status is not None), None)
    wait = next((one.wait for one in chain if one.wait is not None), None)
    return RetryReason(kind_along(chain), status, wait, matcher)


# The processor


@dataclass(slots=True)
class RetryState:
    """The current model call of one request. An accepted answer starts a new one.

    Attributes:
        since: when the call began, or when it first failed.
        from_start: whether ``since`` is its beginning.
        retries: how many retries were made, by budget.
    """

    since: datetime | None = None
    from_start: bool = False
    retries: dict[str, int] = field(default_factory=dict[str, int])


class StreamErrorRetryProcessor(Processor[RetryState]):
    """Retries a failed model call after a wait, if the error is temporary.

    It looks at the exception of the call and at its causes: first with the user's matchers, then at what the error says
    itself, then at what providers are known to say (statuses, codes, events of streams). It returns `Retry`; the agent
    waits, and stops waiting if its caller is cancelled. The agent's ``max_error_retries`` limits all retries of a step
    together. Raise it if your budgets are larger (see `wants_retries`).

    With ``deadline`` or ``breaker``, place the processor with ``processors=``: it then also sees when a call begins and
    when it is answered.

    If the processor itself fails, the original error is raised (its ``on_error`` is ``allow``).

    Args:
        max_retries: how many retries one call may use, for all errors without a budget of their own; 0 or more. Default
            2.
        matchers: further errors that are worth a retry: functions from an exception to True or False, which are called
            with the error and each of its causes, or `RetryMatcher`. They are asked before everything else; the first
            match counts.
        budgets: how many retries one call may use for a kind of error, counted by itself. A mapping from `ErrorKind` to
            numbers of 0 or more.
        retry_unknown_errors: whether unknown errors are retried too, unless they are about the account or the key.
            Default False.
        delay: how long to wait: seconds (0 or more), a `Backoff`, or a function of the `FailedCall`, async or not.
            None: a `Backoff()`. If the provider asks for a longer wait, that counts.
        max_retry_after: the upper limit for waits that providers ask for, in seconds; 0 or more. Default 30.
        deadline: how long one call may be tried, waits included, in seconds; 0 or more. No wait begins that would end
            after it. None: no limit.
        breaker: a `CircuitBreaker`, which stops retries of a model that fails again and again; or
            `ValkeyState.breaker` and its like, which replicas share.
        on_retry: called with the `FailedCall` before each wait; may be async. If it raises, the error is logged and the
            call is retried all the same.
        clock: the time for the deadline, the breaker, and waits that are given as a date.
        random: returns numbers from 0 to 1 for the `Backoff`. None: `random.random`.
        id: the name in graphs and records. Default ``stream-error-retry``.

    Raises:
        OptionError: a number is out of its range, a kind of error is unknown, or an option is of the wrong type.
    """

    id = "stream-error-retry"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "nothing"
    stages: Iterable[str] | None = ("process_api_error",)

    def __init__(
        self,
        *,
        max_retries: int = 2,
        matchers: Iterable[Matches | RetryMatcher] = (),
        budgets: Mapping[ErrorKind, int] | None = None,
        retry_unknown_errors: bool = False,
        delay: Delay | None = None,
        max_retry_after: float = 30.0,
        deadline: float | None = None,
        breaker: Breaker | None = None,
        on_retry: OnRetry | None = None,
        clock: Clock = SYSTEM_CLOCK,
        random: Callable[[], float] | None = None,
        id: str | None = None,
    ) -> None:
        if id is not None:
            self.id = id
        name = type(self).__name__
        self.max_retries = check_count(name, "max_retries", max_retries, _WHOLE)
        self.matchers = _checked_matchers(name, matchers)
        self.budgets = _checked_budgets(name, budgets)
        self.retry_unknown_errors = flag(name, "retry_unknown_errors", retry_unknown_errors)
        self.delay: Delay = Backoff() if delay is None else delay
        _check_delay(name, self.delay)
        self.max_retry_after = check_number(name, "max_retry_after", max_retry_after, _SECONDS)
        self.deadline = None if deadline is None else check_number(name, "deadline", deadline, _SECONDS)
        if breaker is not None and not isinstance(cast("object", breaker), Breaker):
            raise OptionError(name, "breaker", breaker, "a CircuitBreaker, a breaker of a SharedState, or None")
        self.breaker = breaker
        check_function(name, "on_retry", on_retry)
        self.on_retry = on_retry
        if not isinstance(cast("object", clock), Clock):
            raise OptionError(name, "clock", clock, "a Clock: an object with now()")
        self._clock = clock
        check_function(name, "random", random)
        self._random = random or chance.random
        self._select_stages()

    def _select_stages(self) -> None:
        """Claim the stages that the options need, and be awaited if one of the functions is async."""
        if self.deadline is not None or self.breaker is not None:
            self.stages = _WITH_CALLS
        shared = [] if self.breaker is None else [self.breaker.failed, self.breaker.succeeded]
        own = [self.delay, self.on_retry, *shared, *(one for m in self.matchers for one in (m.delay, m.on_retry))]
        if any(is_async(one) for one in own):
            self.awaits = True

    def option(self, name: str) -> object:
        """Return an option; None for the usual delay."""
        return None if name == "delay" and self.delay == Backoff() else super().option(name)

    @property
    def wants_retries(self) -> int:
        """How many error retries of one step the agent must allow, so that all budgets can be used."""
        own = sum(matcher.max_retries or 0 for matcher in self.matchers)
        return self.max_retries + sum(self.budgets.values()) + own

    def new_state(self) -> RetryState:
        """Return the state of a new request."""
        return RetryState()

    # Stages

    def process_llm_request(self, ctx: LLMRequestContext[RetryState]) -> Awaitable[None] | None:
        """Note when the call begins. Its retries belong to the same call."""
        state = ctx.state
        if state.since is None:
            state.since, state.from_start = self._clock.now(), True
        return _return_none() if self.awaits else None

    def process_llm_response(self, ctx: LLMResponseContext[RetryState]) -> Awaitable[None] | None:
        """Note that the model answered, and close its circuit."""
        ctx.state.since = None
        closing = None if self.breaker is None or ctx.from_cache else self.breaker.succeeded(_model_name(ctx.model))
        if closing is not None:
            return closing
        return _return_none() if self.awaits else None

    def process_api_error(self, ctx: APIErrorContext[RetryState]) -> Awaitable[Retry | None] | Retry | None:
        """Return a `Retry` with the wait, or None to let the error be raised."""
        deciding = self._decide(ctx)
        return deciding if self.awaits else run_without_loop(deciding, self.id)

    # The decision

    async def _decide(self, ctx: APIErrorContext[RetryState]) -> Retry | None:
        now = self._clock.now()
        state = _call_state(ctx, now)
        found = retry_reason(ctx.error, self.matchers, now, unknown=self.retry_unknown_errors)
        if found is None:
            ctx.note(stopped="final")
            return None
        budget, most = self._budget(found)
        done = state.retries.get(budget, 0)
        call = self._call(ctx, found, state, now, done)
        stop = await self._stop(call, most)
        after = 0.0 if stop else await self._wait(call, found)
        if not stop and self.deadline is not None and call.elapsed + after > self.deadline:
            stop = "deadline"
        if stop:
            ctx.note(kind=call.kind, status=call.status, retry=done, stopped=stop)
            return None
        state.retries[budget] = done + 1
        await self._call_back(replace(call, after=after), found)
        ctx.note(kind=call.kind, status=call.status, retry=done + 1, after=round(after, 3))
        return Retry(after)

    def _call(
        self, ctx: APIErrorContext[RetryState], found: RetryReason, state: RetryState, now: datetime, done: int
    ) -> FailedCall:
        elapsed = 0.0 if state.since is None else max((now - state.since).total_seconds(), 0.0)
        return FailedCall(ctx.error, found.kind, found.status, _model_name(ctx.model), done, found.wait, elapsed)

    def _budget(self, found: RetryReason) -> tuple[str, int]:
        """Return the name and the size of the budget that an error uses."""
        own = None if found.matcher is None else self.matchers[found.matcher].max_retries
        if own is not None:
            return f"matcher {found.matcher}", own
        if found.kind in self.budgets:
            return found.kind, self.budgets[found.kind]
        return _SHARED, self.max_retries

    async def _stop(self, call: FailedCall, most: int) -> str | None:
        """Return why the call is not retried: ``breaker`` or ``budget``; None if it is retried.

        The breaker counts only errors that pass: an invalid request says nothing about the health of a model.
        """
        breaker = self.breaker if call.kind in PASSING else None
        if breaker is not None and not await resolved(breaker.failed(call.model)):
            return "breaker"
        return "budget" if call.retry >= most else None

    async def _wait(self, call: FailedCall, found: RetryReason) -> float:
        """Return the wait in seconds: the configured one, or the one that the provider asks for, if it is longer."""
        asked = min(found.wait or 0.0, self.max_retry_after)
        own = None if found.matcher is None else self.matchers[found.matcher].delay
        delay = self.delay if own is None else own
        if isinstance(delay, Backoff):
            wait = delay.seconds(call.retry, self._random)
            return max(wait, delay.spread(asked, self._random)) if asked else wait
        seconds: object = delay(call) if callable(delay) else delay
        if isawaitable(seconds):
            seconds = await seconds
        return max(seconds if is_number(seconds) else 0.0, asked, 0.0)

    async def _call_back(self, call: FailedCall, found: RetryReason) -> None:
        own = None if found.matcher is None else self.matchers[found.matcher].on_retry
        callback = self.on_retry if own is None else own
        try:
            returned = None if callback is None else callback(call)
            if isawaitable(returned):
                await returned
        except Exception as error:  # noqa: BLE001 - a failing callback does not stop the retry
            _LOG.warning("on_retry of %r failed: %s", self.id, type(error).__name__)


async def _return_none() -> None:
    """Return None to callers that await the hook."""


def _call_state(ctx: APIErrorContext[RetryState], now: datetime) -> RetryState:
    """Return the state of the current call. At its first failure, counting starts anew."""
    state = ctx.state
    if ctx.retry_count == 0:
        state.retries.clear()
        if not state.from_start:
            state.since = now
    if state.since is None:
        state.since = now
    return state


def _model_name(model: object) -> str:
    """Return the name of a model, which may be given as a str."""
    return str(getattr(model, "name", model) or "")


def _checked_matchers(owner: str, given: Iterable[Matches | RetryMatcher]) -> tuple[RetryMatcher, ...]:
    found: list[RetryMatcher] = []
    if not isinstance(cast("object", given), Iterable):
        raise OptionError(owner, "matchers", given, "a list")
    for one in given:
        if not isinstance(one, RetryMatcher) and not callable(one):
            raise OptionError(owner, "matchers", one, "functions from an error to True or False, or RetryMatcher(...)")
        found.append(one if isinstance(one, RetryMatcher) else RetryMatcher(one))
    return tuple(found)


def _checked_budgets(owner: str, given: Mapping[ErrorKind, int] | None) -> dict[str, int]:
    if given is None:
        return {}
    if not is_mapping(given):
        raise OptionError(owner, "budgets", given, "a dict from kinds of errors to numbers of retries")
    for kind in given:
        if kind not in KINDS:
            raise OptionError(owner, "budgets", kind, f"of the kinds {', '.join(map(repr, KINDS))}")
    return {str(kind): check_count(owner, f"budgets[{kind!r}]", most, _WHOLE) for kind, most in given.items()}


def _check_delay(owner: str, given: object) -> None:
    if not isinstance(given, Backoff) and not callable(given):
        check_number(owner, "delay", given, f"{_SECONDS}, a Backoff, or a function")
