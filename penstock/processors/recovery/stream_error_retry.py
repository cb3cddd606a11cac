"""`StreamErrorRetryProcessor`: has failed model calls made again where that may help. It waits for nothing itself."""

from __future__ import annotations

import logging
import random as chance
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, cast

from penstock.engine.processor.payload import Retry
from penstock.engine.processor.processor import Processor, flag, is_async
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.errors import OptionError
from penstock.engine.values.ports import SYSTEM_CLOCK, Clock
from penstock.processors.recovery import options
from penstock.processors.recovery.backoff import Backoff, is_number
from penstock.processors.recovery.circuit_breaker import CircuitBreaker
from penstock.processors.recovery.judging import judged
from penstock.processors.recovery.kinds import PASSING
from penstock.processors.recovery.matchers import FailedCall, RetryMatcher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from datetime import datetime

    from penstock.engine.processor.context import APIErrorContext, LLMRequestContext, LLMResponseContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.processors.recovery.judging import Finding
    from penstock.processors.recovery.kinds import ErrorKind
    from penstock.processors.recovery.matchers import Delay, Matches, OnRetry

_LOG = logging.getLogger("penstock")
_SHARED = ""  # the budget of all that have none of their own


@dataclass(slots=True)
class Tries:
    """What is known of the model call at hand. Lives as long as the request; begins anew with each accepted answer.

    Attributes:
        since: when it began, or first failed.
        from_start: whether that is its beginning.
        retries: how often it was made again, by budget.
    """

    since: datetime | None = None
    from_start: bool = False
    retries: dict[str, int] = field(default_factory=dict[str, int])


class StreamErrorRetryProcessor(Processor[Tries]):
    """Has a failed model call made again, after a wait, where the error is one of those that pass.

    It judges what the call raised, and what that came of: by the user's matchers, by what the error says itself, by
    what providers are known to say (statuses, codes, events of streams). It returns `Retry`; the agent waits, and stops
    waiting when its caller does. The agent's ``max_error_retries`` bounds all retries of one step together, so a budget
    that is larger needs that to be raised too.

    With ``deadline`` or ``breaker``, place it with ``processors=``: it hears then when a call begins and is answered.

    It protects nothing, so its own failure leaves the error as it is.
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
        breaker: CircuitBreaker | None = None,
        on_retry: OnRetry | None = None,
        clock: Clock = SYSTEM_CLOCK,
        random: Callable[[], float] | None = None,
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            max_retries: how often one call may be made again, for all errors that have no budget of their own; 0 or
                more.
            matchers: further errors that are worth another try: functions from an exception to True or False, which are
                shown the error and each of its causes, or `RetryMatcher` with values of their own. They go before all
                else; the first that matches counts.
            budgets: how often one call may be made again for a kind of errors, counted by itself.
            retry_unknown_errors: also after errors that nobody knows, unless key or account are the reason.
            delay: how long to wait: seconds; a `Backoff`; a function of the `FailedCall`, async or not. None: a
                `Backoff()`. Where the provider asks for more, that counts.
            max_retry_after: how many seconds of what a provider asks to wait are waited at most.
            deadline: for how many seconds one call may be tried, waits included: no wait begins that would end later.
            breaker: stops retries of a model that fails again and again, whoever asks it.
            on_retry: is told before each wait.
            clock: tells the time, for the deadline, the breaker, and waits that are told as a date.
            random: gives numbers from 0 to 1, for the `Backoff`; None: Python's own.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        if id is not None:
            self.id = id
        name = type(self).__name__
        self.max_retries = options.count(name, "max_retries", max_retries)
        self.matchers = _matchers(name, matchers)
        self.budgets = options.budgets(name, "budgets", budgets)
        self.retry_unknown_errors = flag(name, "retry_unknown_errors", retry_unknown_errors)
        self.delay: Delay = Backoff() if delay is None else delay
        options.wait(name, "delay", self.delay)
        self.max_retry_after = options.seconds(name, "max_retry_after", max_retry_after)
        self.deadline = None if deadline is None else options.seconds(name, "deadline", deadline)
        options.instance(name, "breaker", breaker, CircuitBreaker)
        self.breaker = breaker
        options.callback(name, "on_retry", on_retry)
        self.on_retry = on_retry
        if not isinstance(cast("object", clock), Clock):
            raise OptionError(name, "clock", clock, "a Clock: an object with now()")
        self._clock = clock
        options.callback(name, "random", random)
        self._random = random or chance.random
        self._prepare()

    def _prepare(self) -> None:
        """Claim the stages that the options need, and to be awaited if one of the user's functions is."""
        if self.deadline is not None or self.breaker is not None:
            self.stages = _HEARING
        own = [self.delay, self.on_retry, *(one for m in self.matchers for one in (m.delay, m.on_retry))]
        if any(is_async(one) for one in own):
            self.awaits = True

    @property
    def wants_retries(self) -> int:
        """How many error retries of one step an agent must allow for all the budgets to be used."""
        own = sum(matcher.max_retries or 0 for matcher in self.matchers)
        return self.max_retries + sum(self.budgets.values()) + own

    def new_state(self) -> Tries:
        """Return what is known of a call that nobody made yet."""
        return Tries()

    # Stages

    def process_llm_request(self, ctx: LLMRequestContext[Tries]) -> Awaitable[None] | None:
        """Note when the call begins; its retries belong to it."""
        tries = ctx.state
        if tries.since is None:
            tries.since, tries.from_start = self._clock.now(), True
        return _nothing() if self.awaits else None

    def process_llm_response(self, ctx: LLMResponseContext[Tries]) -> Awaitable[None] | None:
        """Note that the model answered."""
        ctx.state.since = None
        if self.breaker is not None and not ctx.from_cache:
            self.breaker.succeeded(_name(ctx.model))
        return _nothing() if self.awaits else None

    def process_api_error(self, ctx: APIErrorContext[Tries]) -> Awaitable[Retry | None] | Retry | None:
        """Judge a failed call; return how long to wait before it is made again, or None to let the error be."""
        deciding = self._decided(ctx)
        return deciding if self.awaits else run_without_loop(deciding, self.id)

    # The decision

    async def _decided(self, ctx: APIErrorContext[Tries]) -> Retry | None:
        now = self._clock.now()
        tries = _begun(ctx, now)
        found = judged(ctx.error, self.matchers, now, unknown=self.retry_unknown_errors)
        if found is None:
            ctx.note(stopped="final")
            return None
        budget, most = self._budget(found)
        done = tries.retries.get(budget, 0)
        call = self._call(ctx, found, tries, now, done)
        stop = self._stop(call, most)
        after = 0.0 if stop else await self._wait(call, found)
        if not stop and self.deadline is not None and call.elapsed + after > self.deadline:
            stop = "deadline"
        if stop:
            ctx.note(kind=call.kind, status=call.status, retry=done, stopped=stop)
            return None
        tries.retries[budget] = done + 1
        await self._tell(replace(call, after=after), found)
        ctx.note(kind=call.kind, status=call.status, retry=done + 1, after=round(after, 3))
        return Retry(after)

    def _call(self, ctx: APIErrorContext[Tries], found: Finding, tries: Tries, now: datetime, done: int) -> FailedCall:
        elapsed = 0.0 if tries.since is None else max((now - tries.since).total_seconds(), 0.0)
        return FailedCall(ctx.error, found.kind, found.status, _name(ctx.model), done, found.wait, elapsed)

    def _budget(self, found: Finding) -> tuple[str, int]:
        """Return which budget an error counts on, and how large it is."""
        own = None if found.matcher is None else self.matchers[found.matcher].max_retries
        if own is not None:
            return f"matcher {found.matcher}", own
        if found.kind in self.budgets:
            return found.kind, self.budgets[found.kind]
        return _SHARED, self.max_retries

    def _stop(self, call: FailedCall, most: int) -> str | None:
        """Return what keeps the call from being made again, if anything does.

        The breaker is told of a model that is not well; what is wrong with a request is none of its business.
        """
        if self.breaker is not None and call.kind in PASSING and not self.breaker.failed(call.model, self._clock.now()):
            return "breaker"
        return "budget" if call.retry >= most else None

    async def _wait(self, call: FailedCall, found: Finding) -> float:
        """Return the wait: the configured one, or what the provider asks, up to its cap, if that is more."""
        asked = min(found.wait or 0.0, self.max_retry_after)
        own = None if found.matcher is None else self.matchers[found.matcher].delay
        delay = self.delay if own is None else own
        if isinstance(delay, Backoff):
            wait = delay.seconds(call.retry, self._random)
            return max(wait, delay.spread(asked, self._random)) if asked else wait
        told: object = delay(call) if callable(delay) else delay
        if isawaitable(told):
            told = await told
        return max(told if is_number(told) else 0.0, asked, 0.0)

    async def _tell(self, call: FailedCall, found: Finding) -> None:
        own = None if found.matcher is None else self.matchers[found.matcher].on_retry
        tell = self.on_retry if own is None else own
        try:
            told = None if tell is None else tell(call)
            if isawaitable(told):
                await told
        except Exception as error:  # noqa: BLE001 - whether the call is made again does not hang on it
            _LOG.warning("on_retry of %r failed: %s", self.id, type(error).__name__)


_HEARING = ("process_llm_request", "process_api_error", "process_llm_response")


async def _nothing() -> None:
    """Return nothing, to whoever awaits it."""


def _begun(ctx: APIErrorContext[Tries], now: datetime) -> Tries:
    """Return what is known of the call; where it failed for the first time, all is counted from here."""
    tries = ctx.state
    if ctx.retry_count == 0:
        tries.retries.clear()
        if not tries.from_start:
            tries.since = now
    if tries.since is None:
        tries.since = now
    return tries


def _name(model: object) -> str:
    """Return a model's name; it may be given as that, too."""
    return str(getattr(model, "name", model) or "")


def _matchers(owner: str, given: Iterable[Matches | RetryMatcher]) -> tuple[RetryMatcher, ...]:
    found: list[RetryMatcher] = []
    for one in options.listed(owner, "matchers", given):
        if not isinstance(one, RetryMatcher) and not callable(one):
            raise OptionError(owner, "matchers", one, "functions from an error to True or False, or RetryMatcher(...)")
        found.append(one if isinstance(one, RetryMatcher) else RetryMatcher(one))
    return tuple(found)
