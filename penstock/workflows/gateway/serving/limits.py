"""Limits of a route: how many requests a client may send in a time, and how many run at once."""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from penstock.workflows.gateway.serving.refusals import NotServedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_MOST_CLIENTS = 100_000


class RateLimit:
    """A token bucket for each client: ``requests`` at once at most, refilled evenly within ``per`` seconds.

    Args:
        requests: how many requests.
        per: within how many seconds.
    """

    def __init__(self, requests: int, per: float) -> None:
        self._requests = requests
        self._rate = requests / per
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> None:
        """Count a request of a client.

        Args:
            client: names the client.
            now: a monotonic time in seconds.

        Raises:
            NotServedError: it has sent too many.
        """
        left, since = self._clients.get(client, (float(self._requests), now))
        left = min(self._requests, left + (now - since) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            raise NotServedError(429, "rate_limit_exceeded", "too many requests; try again later", retry_after=wait)
        self._clients[client] = (left - 1, now)
        self._clients.move_to_end(client)
        if len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)


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
