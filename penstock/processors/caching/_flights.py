"""Single flight: who asks for what somebody else is asking for already waits for that answer. It knows no cache.

Who asks first leads. What becomes of its answer is known when its run has ended; until then the others wait, each so
long at most, and nobody waits who leads elsewhere: so no two can wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

if TYPE_CHECKING:
    from penstock.processors.caching._entries import Entry


class Flight:
    """An answer that somebody is waiting for, or may be. Belongs to the run that leads."""

    __slots__ = ("_home", "_landed", "_place", "_until", "entry", "hopeless")

    def __init__(self, home: dict[str, Flight], place: str, until: float) -> None:
        self._home = home
        self._place = place
        self._until = until
        self._landed = anyio.Event()
        self.entry: Entry | None = None
        self.hopeless = False

    @property
    def is_late(self) -> bool:
        """Whether it has been under way for so long that nobody is to wait for it any more."""
        return anyio.current_time() >= self._until

    async def landed(self, until: float) -> bool:
        """Wait until it has landed, or nobody is to wait any more; tell whether it has."""
        with anyio.CancelScope(deadline=min(until, self._until)):
            await self._landed.wait()
        return self._landed.is_set()

    def land(self, entry: Entry) -> None:
        """Give the answer to all who wait; those who come before it is `closed` are given it too."""
        self.entry = entry
        self._landed.set()

    def give_up(self, *, hopeless: bool) -> None:
        """Let go all who wait: each asks for itself (``hopeless``), or the next one leads."""
        self.hopeless = hopeless
        self.close()
        self._landed.set()

    def close(self) -> None:
        """Let nobody else find it."""
        if self._home.get(self._place) is self:
            del self._home[self._place]


class Flights:
    """The answers that are under way, by key, in each event loop for itself. Lives as long as its processor."""

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait

    async def joined(self, place: str, *, waits: bool) -> Flight | Entry | None:
        """Return the answer that somebody else was looking for, or what to lead; None: to look for oneself alone.

        ``waits``: whether to wait for somebody else at all.
        """
        home = self._home()
        until = anyio.current_time() + self._max_wait
        while True:
            flight = home.get(place)
            if flight is None or flight.is_late:
                flight = home[place] = Flight(home, place, anyio.current_time() + self._max_wait)
                return flight
            if not waits or not await flight.landed(until):
                return None
            if flight.entry is not None or flight.hopeless:
                return flight.entry

    def _home(self) -> dict[str, Flight]:
        homes = _HOMES.get(None)
        if homes is None:
            homes = WeakKeyDictionary[Flights, dict[str, Flight]]()
            _HOMES.set(homes)
        return homes.setdefault(self, {})


_HOMES: RunVar[WeakKeyDictionary[Flights, dict[str, Flight]] | None] = RunVar("penstock_response_caches")
