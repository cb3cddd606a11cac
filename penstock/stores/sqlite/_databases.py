"""Databases that run pieces of work in transactions: in a file, by worker threads, or in memory, at once.

They know no table. A piece of work is a function of a connection; it runs whole or not at all: where it is cancelled,
killed or fails, nothing of it is kept, and what was awaited is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar, checkpoint

from penstock.engine.values.errors import StorageError
from penstock.stores.sqlite._connections import Connections
from penstock.stores.sqlite._failures import BusyError
from penstock.stores.sqlite._opening import IN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection

T = TypeVar("T")

MOST_READERS = 4
"""How many connections of an event loop read at the same time: Python decodes what they read one after another."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
"""Seconds between two tries for a file that another process writes to."""


class Database(Protocol):
    """Runs work in transactions."""

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Return what the work returns, once it is on the disk."""
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return what the work returns: all that it reads is of one moment."""
        ...

    async def close(self) -> None:
        """Close all connections; the next work opens new ones."""
        ...


class FileDatabase:
    """A file, which several processes, event loops and threads may use at once.

    Args:
        connections: to the file.
        patience: for how many seconds work waits for other processes.
        store: what errors call it.
    """

    def __init__(self, connections: Connections, patience: float, store: str) -> None:
        self._connections = connections
        self._patience = patience
        self._store = store

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run the work alone; see `Database`."""
        desk = _desk(self)
        async with desk.turn:
            return await self._patiently(partial(self._connections.write, work), desk.writer)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run the work beside others; see `Database`."""
        return await self._patiently(partial(self._connections.read, work), _desk(self).readers)

    async def close(self) -> None:
        """Close all connections, once the work that is running is done."""
        desk = _desk(self)
        async with desk.turn:
            await to_thread.run_sync(self._connections.close, limiter=desk.writer)

    async def _patiently(self, attempt: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
        """Try until no other process is at it. Between tries one may be cancelled; a try is never left half."""
        give_up = anyio.current_time() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return await to_thread.run_sync(attempt, limiter=limiter)
            except BusyError as busy:
                if anyio.current_time() >= give_up:
                    waited = f"others kept it locked for {self._patience:g} seconds"
                    raise StorageError(self._store, f"{waited}; nothing was stored or read") from busy.__cause__
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class MemoryDatabase:
    """A database in the process's own memory, for as long as this object is there. Its work is done at once.

    Args:
        store: what errors call it.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._connections = Connections(IN_MEMORY, "OFF", store, lambda: None)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run the work; see `Database`. Other tasks have their turn first, as they have where a file is written."""
        await checkpoint()
        return self._connections.write(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run the work; see `Database`."""
        return await self.write(work)

    async def close(self) -> None:
        """Do nothing: what is kept would be gone."""
        await checkpoint()


class _Desk:
    """What the tasks of one event loop share of a database: their turn to write, and threads."""

    __slots__ = ("readers", "turn", "writer")

    def __init__(self) -> None:
        self.turn = anyio.Lock()
        self.writer = anyio.CapacityLimiter(1)
        self.readers = anyio.CapacityLimiter(MOST_READERS)


_DESKS: RunVar[WeakKeyDictionary[FileDatabase, _Desk] | None] = RunVar("penstock_sqlite")


def _desk(database: FileDatabase) -> _Desk:
    desks = _DESKS.get(None)
    if desks is None:
        desks = WeakKeyDictionary[FileDatabase, _Desk]()
        _DESKS.set(desks)
    desk = desks.get(database)
    if desk is None:
        desk = desks[database] = _Desk()
    return desk
