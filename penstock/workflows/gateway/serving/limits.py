"""Limits of a route: how many requests a client may send in a time, and how many run at once."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from penstock.engine.tasks import resolved
from penstock.workflows.gateway.serving.refusals import NotServedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from penstock.engine.values.shared import RateLimiter

_LOG = logging.getLogger("penstock.gateway")
_MOST_CLIENTS = 100_000


class LocalRateLimit:
    """A token bucket for each client: ``requests`` at once at most, refilled evenly within ``per`` seconds.

    Args:
        requests: how many requests.
        per: within how many seconds.
        now: returns a monotonic time in seconds.
    """

    def __init__(self, requests: int, per: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._requests = requests
        self._rate = requests / per
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Count a request of a client; return 0, or after how many seconds it may try again."""
        now = self._now()
        left, since = self._clients.get(client, (float(self._requests), now))
        left = min(self._requests, left + (now - since) * self._rate)
        if left < 1:
            return (1 - left) / self._rate
        self._clients[client] = (left - 1, now)
        self._clients.move_to_end(client)
        if len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        return 0.0


class RateLimit:
    """How many requests clients may send.

    Args:
        limiter: counts them.
        refuses: whether requests are refused while it cannot be asked.
    """

    def __init__(self, limiter: RateLimiter, *, refuses: bool = True) -> None:
        self._limiter = limiter
        self._refuses = refuses

    async def take(self, client: str) -> None:
        """Count a request of a client.

        Raises:
            NotServedError: it has sent too many, or nobody can count it.
        """
        try:
            wait = await resolved(self._limiter.take(client))
        except Exception as error:  # noqa: BLE001 - of a server
            _LOG.warning("the rate limit cannot be asked: %s", type(error).__name__)
            if self._refuses:
                told = "requests cannot be counted now; try again"
                raise NotServedError(503, "rate_limit_unavailable", told, retry_after=1) from None
            return
        if wait > 0:
            raise NotServedError(429, "rate_limit_exceeded", "too many requests; try again later", retry_after=wait)


class Slots:
    """How many requests run at once; further ones wait in order.

    Args:
        most: how many run at once.
        queue: how many more may wait.
        wait: how long they wait at most, in seconds.
    """

    def __init__(self, most: int, queue: int, wait: float) -> None:
        self._free = most
        self._queue = queue
        self._wait = wait
        self._waiting: deque[anyio.Event] = deque()

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Hold a slot within the block.

        Raises:
            NotServedError: the queue is full, or no slot became free in time.
        """
        await self._take()
        try:
            yield
        finally:
            self._give()

    async def _take(self) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        if len(self._waiting) >= self._queue:
            raise self._refused()
        mine = anyio.Event()
        self._waiting.append(mine)
        try:
            with anyio.move_on_after(self._wait):
                await mine.wait()
        except BaseException:
            self._leave(mine)
            raise
        if not mine.is_set():
            self._leave(mine)
            raise self._refused()

    def _leave(self, mine: anyio.Event) -> None:
        if mine.is_set():
            self._give()  # it was given a slot and ends at the same moment
        else:
            self._waiting.remove(mine)

    def _give(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1

    def _refused(self) -> NotServedError:
        return NotServedError(
            429, "too_many_at_once", "too many requests run at once; try again", retry_after=self._wait
        )
