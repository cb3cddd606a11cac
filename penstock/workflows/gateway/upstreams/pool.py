"""`Pool`: several providers of the same models, chosen by weight, with retries, a circuit breaker and fallbacks."""

from __future__ import annotations

import random as chance
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.processors.recovery.pacing import Backoff, CircuitBreaker
from penstock.processors.recovery.stream_error_retry import retry_reason
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.gateway.upstreams.safe_breaker import SafeBreaker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from penstock.engine.values.protocols import Clock
    from penstock.engine.values.shared import Breaker
    from penstock.processors.recovery.stream_error_retry import RetryReason
    from penstock.workflows.gateway.http import HttpRequest, UpstreamReply
    from penstock.workflows.gateway.upstreams.client import Client, ProviderReply
    from penstock.workflows.gateway.upstreams.provider import UpstreamProvider

_FIRST_FAILURE = 400
_NEVER_AGAIN = frozenset({"malformed", "too_large"})  # the same request would end in the same way


@dataclass(slots=True)
class Trip:
    """The way of one request to the providers, for its record.

    Attributes:
        provider: the name of the provider that answered, or was tried last.
        attempts: how many times the request was sent.
        failures: the kind of each failed attempt, in order.
    """

    provider: str = ""
    attempts: int = 0
    failures: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider of a pool.

    Attributes:
        provider: the provider.
        weight: its share of the requests, in relation to the weights of the others; above 0.
    """

    provider: UpstreamProvider
    weight: float = 1.0


class _Refused(Exception):  # noqa: N818 - an answer, whose facts `retry_reason` reads
    """An error status of a provider, with its headers."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        super().__init__(f"HTTP {status}")


class Pool:
    """Providers of the same models.

    A request goes to one of the choices, by weight; after a failure that passes by itself (see
    `StreamErrorRetryProcessor`) to the next one, then to the fallbacks in their order, then, after a wait, to the first
    again. Providers whose circuit is open are left out. Nothing is repeated once a reply was handed on.

    Args:
        client: sends the requests.
        choices: the providers, at least one.
        fallbacks: providers for the time when all choices fail, in order.
        attempts: how many times one request is sent at most; 1 or more.
        backoff: the waits before a provider is asked again.
        longest_wait: the longest wait that a provider may ask for, in seconds.
        breaker: counts failures of providers, by name.
        clock: the time for dates that providers send.
        random: returns numbers from 0 to 1.
    """

    def __init__(
        self,
        client: Client,
        choices: Sequence[Choice],
        fallbacks: Sequence[UpstreamProvider] = (),
        *,
        attempts: int = 3,
        backoff: Backoff | None = None,
        longest_wait: float = 10.0,
        breaker: Breaker | None = None,
        clock: Clock = SYSTEM_CLOCK,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self._client = client
        self._choices = tuple(choices)
        self._fallbacks = tuple(fallbacks)
        self._attempts = attempts
        self._backoff = backoff or Backoff()
        self._longest_wait = longest_wait
        self._breaker = SafeBreaker(breaker or CircuitBreaker(clock=clock))
        self._clock = clock
        self._random = random

    @property
    def providers(self) -> tuple[UpstreamProvider, ...]:
        """All providers, the choices first."""
        return (*(choice.provider for choice in self._choices), *self._fallbacks)

    def bound(self, trip: Trip) -> BoundPool:
        """Return the pool as the `Upstream` of one request."""
        return BoundPool(self, trip)

    def send(self, request: HttpRequest, trip: Trip) -> AbstractAsyncContextManager[ProviderReply]:
        """Send a request; leaving the block ends it.

        Args:
            request: the request.
            trip: takes what happens.

        Raises:
            UpstreamError: no provider can be reached, or all circuits are open.
        """
        return _Sending(self, request, trip)

    async def reply(self, request: HttpRequest, trip: Trip) -> ProviderReply:
        """Send a request, and return the reply, which the caller closes; see `send`."""
        order = await self._order()
        while True:
            provider = order[trip.attempts % len(order)]
            trip.provider, trip.attempts = provider.name, trip.attempts + 1
            last = trip.attempts >= self._attempts
            try:
                reply = await self._client.send(provider, request)
            except UpstreamError as error:
                trip.failures.append(error.kind)
                reason = await self._failed(provider, error)
                if reason is None or last or await self._no_other(order, trip):
                    raise
                wait = self._wait(reason, trip, order)
            else:
                reason = await self._reason(provider, reply)
                if reason is None:
                    await self._breaker.succeeded(provider.name)
                    return reply
                trip.failures.append(reason.kind)
                wait = self._wait(reason, trip, order)
                if last or wait > self._longest_wait or await self._no_other(order, trip):
                    return reply
                reply.close()
            if wait:
                await anyio.sleep(wait)

    async def _order(self) -> list[UpstreamProvider]:
        """Return the providers in the order in which to ask them, without those whose circuit is open.

        Raises:
            UpstreamError: the circuits of all are open.
        """
        left = list(self._choices)
        drawn: list[UpstreamProvider] = []
        while left:
            choice = left[0] if len(left) == 1 else self._draw(left)
            left.remove(choice)
            drawn.append(choice.provider)
        order: list[UpstreamProvider] = []
        for provider in (*drawn, *self._fallbacks):
            # The first one is asked for certain; that of a later one is not used up by asking whether it may be.
            ready = self._breaker.may_follow(provider.name) if order else self._breaker.admits(provider.name)
            if await ready:
                order.append(provider)
        if not order:
            names = ", ".join(provider.name for provider in self.providers)
            wait = self._breaker.pause
            raise UpstreamError("circuit_open", f"{names}: failed too often just now", status=503, retry_after=wait)
        return order

    def _draw(self, choices: list[Choice]) -> Choice:
        at = self._random() * sum(choice.weight for choice in choices)
        for choice in choices:
            at -= choice.weight
            if at < 0:
                return choice
        return choices[-1]

    async def _reason(self, provider: UpstreamProvider, reply: ProviderReply) -> RetryReason | None:
        """Return why a reply is worth a retry, and count it as a failure; None if it is handed on."""
        if reply.status < _FIRST_FAILURE:
            return None
        return await self._failed(provider, _Refused(reply.status, dict(reply.headers)))

    async def _failed(self, provider: UpstreamProvider, error: Exception) -> RetryReason | None:
        if isinstance(error, UpstreamError) and error.kind in _NEVER_AGAIN:
            return None
        reason = retry_reason(error, (), self._clock.now(), unknown=False)
        if reason is not None:
            await self._breaker.failed(provider.name)
        return reason

    async def _no_other(self, order: list[UpstreamProvider], trip: Trip) -> bool:
        """Return whether no provider is left whose circuit lets the request through."""
        following = order[trip.attempts % len(order)]
        return not await self._breaker.may_follow(following.name)

    def _wait(self, reason: RetryReason, trip: Trip, order: list[UpstreamProvider]) -> float:
        """Return how long to wait: not at all before a provider that was not asked yet."""
        if trip.attempts < len(order):
            return 0.0
        wait = self._backoff.seconds(trip.attempts - len(order), self._random)
        return max(wait, self._backoff.spread(reason.wait, self._random)) if reason.wait else wait


class _Sending:
    """One request to the providers of a pool."""

    __slots__ = ("_pool", "_reply", "_request", "_trip")

    def __init__(self, pool: Pool, request: HttpRequest, trip: Trip) -> None:
        self._pool = pool
        self._request = request
        self._trip = trip

    async def __aenter__(self) -> ProviderReply:
        """Send it."""
        reply = self._reply = await self._pool.reply(self._request, self._trip)
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the reply."""
        self._reply.close()


@dataclass(frozen=True, slots=True)
class BoundPool:
    """A pool as the `Upstream` of one request.

    Attributes:
        pool: the pool.
        trip: takes what happens.
    """

    pool: Pool
    trip: Trip

    def send(self, request: HttpRequest) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send a request; see `Upstream.send`."""
        return self.pool.send(request, self.trip)
