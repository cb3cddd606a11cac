"""Single flight: requests that need an answer that another run is already asking for wait for that answer.

The first run to ask leads. Whether its answer counts is known only when its run has ended; until then the others wait,
each for a limited time. A run that leads one answer never waits for another: two runs cannot wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

if TYPE_CHECKING:
    from penstock.processors.caching.entries import CacheEntry


class PendingAnswer:
    """An answer that other runs may be waiting for. It belongs to the run that leads."""

    __slots__ = ("_done", "_key", "_pending", "_until", "entry", "wait_is_over")

    def __init__(self, pending: dict[str, PendingAnswer], key: str, until: float) -> None:
        self._pending = pending
        self._key = key
        self._until = until
        self._done = anyio.Event()
        self.entry: CacheEntry | None = None
        self.wait_is_over = False

    @property
    def is_late(self) -> bool:
        """Whether it has been pending for so long that no other run should wait for it."""
        return anyio.current_time() >= self._until

    async def finished(self, until: float) -> bool:
        """Wait until it is delivered or abandoned, or the time is up; tell whether it is."""
        with anyio.CancelScope(deadline=min(until, self._until)):
            await self._done.wait()
        return self._done.is_set()

    def deliver(self, entry: CacheEntry) -> None:
        """Give the answer to all runs that wait; runs that X get it too."""
        self.entry = entry
        self._done.set()

    def abandon(self, *, wait_is_over: bool) -> None:
        """Release the runs that wait: each asks the model itself (``wait_is_over``), or the next one leads."""
        self.wait_is_over = wait_is_over
        self.remove()
        self._done.set()

    def remove(self) -> None:
        """Make it invisible to other runs."""
        if self._pending.get(self._key) is self:
            del self._pending[self._key]


class PendingAnswers:
    """The answers that are pending, by key, in each event loop separately. Lives as long as its processor."""

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait

    async def join(self, key: str, *, waits: bool) -> PendingAnswer | CacheEntry | None:
        """Return the answer that another run asked for, or a pending answer to lead; None: ask for this run alone.

        Args:
            key: names the answer.
            waits: whether this run may wait for another one.
        """
        pending = self._of_this_loop()
        until = anyio.current_time() + self._max_wait
        while True:
            answer = pending.get(key)
            if answer is None or answer.is_late:
                answer = pending[key] = PendingAnswer(pending, key, anyio.current_time() + self._max_wait)
                return answer
            if not waits or not await answer.finished(until):
                return None
            if answer.entry is not None or answer.wait_is_over:
                return answer.entry

    def _of_this_loop(self) -> dict[str, PendingAnswer]:
        loops = _BY_LOOP.get(None)
        if loops is None:
            loops = WeakKeyDictionary[PendingAnswers, dict[str, PendingAnswer]]()
            _BY_LOOP.set(loops)
        return loops.setdefault(self, {})


_BY_LOOP: RunVar[WeakKeyDictionary[PendingAnswers, dict[str, PendingAnswer]] | None] = RunVar(
    "penstock_response_caches"
)
