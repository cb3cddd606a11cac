"""SQLite connections: transactions in a file, by worker threads, or in memory, at once; and SQLite's errors in words.

Work is a function of a connection. It runs completely or not at all: if it fails, or its process is killed, nothing is
stored; once it was awaited, it is on the disk.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary, WeakSet, finalize

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar, checkpoint

from penstock.engine.values.errors import StorageError
from penstock.stores.sqlite._schema import IN_MEMORY, migrate, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from sqlite3 import Connection


_PRIMARY = 0xFF
"""The bits of an error code that give its kind; the others are details."""

_OTHERS_ARE_AT_IT = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})

_IN_WORDS = {
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder exists and can be written to",
    sqlite3.SQLITE_READONLY: "it cannot be written to, or the file was moved or deleted while it was open",
    sqlite3.SQLITE_PERM: "there is no permission to open it",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: check it with `PRAGMA integrity_check`, or restore a copy",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_TOOBIG: "a value is too large for SQLite",
}


class BusyError(Exception):
    """Other connections use the file, and nothing has happened: try again."""


def _kind(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether others had locked the file, so that trying again may help."""
    return _kind(error) in _OTHERS_ARE_AT_IT


def in_words(error: Exception, store: str) -> StorageError:
    """Return the `StorageError` for an exception of SQLite, without stored content."""
    if isinstance(error, UnicodeEncodeError):
        return StorageError(store, "a text holds half of a surrogate pair, which SQLite cannot store")
    if not isinstance(error, sqlite3.Error):
        return StorageError(store, f"a value cannot be stored ({type(error).__name__})")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    said = _IN_WORDS.get(_kind(error), "SQLite failed")
    return StorageError(store, f"{said} ({name})")


T = TypeVar("T")
Args = TypeVarTuple("Args")


class FileConnections:
    """The connections of one process to one file: one that writes, and those that read. Any thread can use them.

    A connection that failed is closed, and the next work opens a new one. A forked process opens its own: SQLite's
    connections must not be used, nor closed, across a fork.

    Args:
        path: the file.
        synchronous: how SQLite writes to the disk: ``FULL`` or ``NORMAL``.
        store: names the store in errors.
        forget: called when the file may be another one afterwards, so that nothing that was read from it is valid.
        prepare: makes the tables of a file that was opened; it gets the connection, and the name of the store.
    """

    def __init__(
        self,
        path: str,
        synchronous: str,
        store: str,
        forget: Callable[[], None],
        prepare: Callable[[Connection, str], None] = migrate,
    ) -> None:
        self._path = path
        self._synchronous = synchronous
        self._store = store
        self._forget = forget
        self._prepare = prepare
        self._open: set[sqlite3.Connection] = set()
        self._start_anew()
        _ALL.add(self)
        finalize(self, _close_all, self._open)

    def _start_anew(self) -> None:
        self._writing = Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []

    def write(self, work: Callable[[Connection, *Args], T], *args: *Args) -> T:
        """Return the result of the work, once its changes are on the disk.

        Raises:
            BusyError: others use the file; nothing has happened.
            StorageError: SQLite failed; nothing is stored.
        """
        with self._writing, self._explaining():
            connection = self._writer = self._writer or self._opened()
            try:
                return _transaction(connection, "BEGIN IMMEDIATE", work, *args)
            except sqlite3.Error as error:
                if not is_busy(error):
                    self._writer = None
                    self._drop(connection)
                    self._forget()
                raise

    def read(self, work: Callable[[Connection, *Args], T], *args: *Args) -> T:
        """Return the result of the work. It reads from one snapshot. See `write` for the exceptions."""
        with self._explaining():
            idle = self._idle
            connection = _popped(idle) or self._opened()
            healthy = True
            try:
                return _transaction(connection, "BEGIN", work, *args)
            except sqlite3.Error:
                healthy = False
                raise
            finally:
                if healthy and idle is self._idle:
                    idle.append(connection)
                else:
                    self._drop(connection)

    def close(self) -> None:
        """Close all connections; those in use for reading are closed when they are done."""
        with self._writing:
            connections = [*self._idle, *([self._writer] if self._writer else [])]
            self._idle, self._writer = [], None
            for connection in connections:
                self._drop(connection)
            self._forget()

    def leave(self) -> None:
        """Abandon all connections without closing them: they belong to the process that this one was forked from."""
        _LEFT.extend(self._open)
        self._open.clear()
        self._start_anew()
        self._forget()

    def _opened(self) -> sqlite3.Connection:
        connection = opened(self._path, self._synchronous, self._store, self._prepare)
        self._open.add(connection)
        return connection

    def _drop(self, connection: sqlite3.Connection) -> None:
        self._open.discard(connection)
        with suppress(sqlite3.Error):
            connection.close()

    @contextmanager
    def _explaining(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise (BusyError() if is_busy(error) else in_words(error, self._store)) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise in_words(error, self._store) from None  # UnicodeEncodeError quotes the content


def _popped(idle: list[sqlite3.Connection]) -> sqlite3.Connection | None:
    """Return the last connection; None if there is none, or another thread took it."""
    try:
        return idle.pop()
    except IndexError:
        return None


def _transaction(connection: Connection, begin: str, work: Callable[[Connection, *Args], T], *args: *Args) -> T:
    """Run work in a transaction."""
    connection.execute(begin)
    try:
        done = work(connection, *args)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.rollback()
        raise
    return done


def _close_all(connections: set[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


_ALL: WeakSet[FileConnections] = WeakSet()
_LEFT: list[sqlite3.Connection] = []
"""Connections that a forked process must neither use nor close: closing would release the locks of its parent."""


def _leave_all() -> None:
    for connections in list(_ALL):
        connections.leave()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_all)


MOST_READERS = 4
"""How many connections of an event loop read at the same time: Python decodes what they read one after the other."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
"""Seconds between two tries for a file that another process writes to."""


class FileDatabase:
    """A file that processes, event loops and threads can use at the same time.

    Args:
        connections: the connections to the file.
        patience: the seconds that work waits for other processes, above 0.
        store: names the store in errors.
    """

    def __init__(self, connections: FileConnections, patience: float, store: str) -> None:
        self._connections = connections
        self._patience = patience
        self._store = store

    async def write(self, work: Callable[[Connection, *Args], T], *args: *Args) -> T:
        """Return the result of the work, which runs alone, once its changes are on the disk."""
        lock = _loop_locks(self)
        async with lock.turn:
            return await self._patiently(lambda: self._connections.write(work, *args), lock.writer)

    async def read(self, work: Callable[[Connection, *Args], T], *args: *Args) -> T:
        """Return the result of the work, which runs beside other reads, and reads from one snapshot."""
        return await self._patiently(lambda: self._connections.read(work, *args), _loop_locks(self).readers)

    async def close(self) -> None:
        """Close all connections, after the work that is running; the next work opens new ones."""
        lock = _loop_locks(self)
        async with lock.turn:
            await to_thread.run_sync(self._connections.close, limiter=lock.writer)

    async def _patiently(self, attempt: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
        """Try until no other process uses the file. It can be cancelled between attempts, never within one."""
        give_up = anyio.current_time() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return await to_thread.run_sync(attempt, limiter=limiter)
            except BusyError as busy:
                if anyio.current_time() >= give_up:
                    waited = f"other processes kept it locked for {self._patience:g} seconds"
                    raise StorageError(self._store, f"{waited}; nothing was stored or read") from busy.__cause__
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class MemoryDatabase:
    """A database in the memory of the process, as long as this object exists. Work runs at once, without threads.

    Args:
        store: names the store in errors.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._connections = FileConnections(IN_MEMORY, "OFF", store, lambda: None)

    async def write(self, work: Callable[[Connection, *Args], T], *args: *Args) -> T:
        """Return the result of the work. Other tasks run first, as they do when a file is written."""
        await checkpoint()
        return self._connections.write(work, *args)

    read = write

    async def close(self) -> None:
        """Do nothing: closing would delete everything."""
        await checkpoint()


class _LoopLocks:
    """The objects that the tasks of one event loop share for a database: the lock of writers, and limits of threads."""

    __slots__ = ("readers", "turn", "writer")

    def __init__(self) -> None:
        self.turn = anyio.Lock()
        self.writer = anyio.CapacityLimiter(1)
        self.readers = anyio.CapacityLimiter(MOST_READERS)


_LOOP_LOCKS: RunVar[WeakKeyDictionary[FileDatabase, _LoopLocks] | None] = RunVar("penstock_sqlite")


def _loop_locks(database: FileDatabase) -> _LoopLocks:
    locks = _LOOP_LOCKS.get(None)
    if locks is None:
        locks = WeakKeyDictionary[FileDatabase, _LoopLocks]()
        _LOOP_LOCKS.set(locks)
    lock = locks.get(database)
    if lock is None:
        lock = locks[database] = _LoopLocks()
    return lock
