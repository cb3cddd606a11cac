"""`Feed`: the latest events of one source, for any number of readers, each of which may begin where it left off."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import anyio

from penstock.workflows.studio.protocol import dumps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

MOST_EVENTS = 5_000
MOST_CHARACTERS = 8 * 1024 * 1024
HEARTBEAT = 15.0
"""Seconds of silence after which a line is sent, so that nobody between takes the connection for dead."""


class Event(NamedTuple):
    """An event: its number from 1, its name, and its data as JSON on one line."""

    number: int
    name: str
    data: str

    def __str__(self) -> str:
        """Return it as a server-sent event."""
        number = f"id: {self.number}\n" if self.number else ""
        return f"{number}event: {self.name}\ndata: {self.data}\n\n"


class Feed:
    """Events in order. The oldest are dropped, so that its size is bounded however slow its readers are.

    Attributes:
        closed: whether no more events come.
    """

    def __init__(self, most_events: int = MOST_EVENTS, most_characters: int = MOST_CHARACTERS) -> None:
        self.closed = False
        self._most_events = most_events
        self._most_characters = most_characters
        self._events: deque[Event] = deque()
        self._size = 0
        self._last = 0
        self._changed = anyio.Event()

    @property
    def last(self) -> int:
        """The number of the newest event; 0 if there is none."""
        return self._last

    def add(self, name: str, data: object) -> None:
        """Add an event; dropped if the feed is closed."""
        if self.closed:
            return
        self._last += 1
        event = Event(self._last, name, dumps(data))
        self._events.append(event)
        self._size += len(event.data)
        while len(self._events) > self._most_events or (self._size > self._most_characters and len(self._events) > 1):
            self._size -= len(self._events.popleft().data)
        self._wake()

    def close(self) -> None:
        """Let the readers end after the last event."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def since(self, number: int) -> Iterator[Event]:
        """Yield the events after a number; first a ``gap`` if some of them were dropped."""
        if number > self._last:  # it was another studio's number
            number = 0
        if number + 1 < self._first:
            yield Event(0, "gap", dumps({"missed": self._first - number - 1}))
        yield from [event for event in self._events if event.number > number]

    async def read(self, after: int = 0, *, heartbeat: float = HEARTBEAT) -> AsyncGenerator[str]:
        """Yield the events after a number as server-sent events, until the feed is closed."""
        while True:
            changed = self._changed
            for event in self.since(after):
                after = event.number or self._first - 1
                yield str(event)
            if self._last > after:
                continue
            if self.closed:
                return
            with anyio.move_on_after(heartbeat) as silence:
                await changed.wait()
            if silence.cancelled_caught:
                yield ": still here\n\n"

    @property
    def _first(self) -> int:
        return self._events[0].number if self._events else self._last + 1
