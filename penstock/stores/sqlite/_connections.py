"""`Connections`: the connections of one process to one file, for any of its threads; they know no task and no table."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet, finalize

from penstock.stores.sqlite._failures import BusyError, in_words, is_busy
from penstock.stores.sqlite._opening import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")


class Connections:
    """One connection that writes, and those that read.

    A connection that failed is closed: the next work has a new one. A process that was forked opens its own: SQLite's
    must not cross a fork, nor be closed there.

    Args:
        path: where the file is.
        synchronous: how SQLite writes to the disk: ``FULL`` or ``NORMAL``.
        store: what errors call it.
        forget: is called whenever the file may be another one afterwards: what is known of it may not hold any more.
    """

    def __init__(self, path: str, synchronous: str, store: str, forget: Callable[[], None]) -> None:
        self._path = path
        self._synchronous = synchronous
        self._store = store
        self._forget = forget
        self._open: set[sqlite3.Connection] = set()
        self._start_anew()
        _ALL.add(self)
        finalize(self, _close_all, self._open)

    def _start_anew(self) -> None:
        self._writing = Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what the work returns, once it is on the disk.

        Raises:
            BusyError: others are at it; nothing has happened.
            StorageError: the work failed in SQLite; nothing of it is kept.
        """
        with self._writing, self._explaining():
            connection = self._writer = self._writer or self._opened()
            try:
                return _transaction(connection, "BEGIN IMMEDIATE", work)
            except sqlite3.Error as error:
                if not is_busy(error):
                    self._writer = None
                    self._drop(connection)
                    self._forget()
                raise

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what the work returns; all that it reads is of one moment. See `write` for what is raised."""
        with self._explaining():
            idle = self._idle
            connection = _popped(idle) or self._opened()
            healthy = True
            try:
                return _transaction(connection, "BEGIN", work)
            except sqlite3.Error:
                healthy = False
                raise
            finally:
                if healthy and idle is self._idle:
                    idle.append(connection)
                else:
                    self._drop(connection)

    def close(self) -> None:
        """Close all; those that are read from just now are closed as soon as that is done."""
        with self._writing:
            connections = [*self._idle, *([self._writer] if self._writer else [])]
            self._idle, self._writer = [], None
            for connection in connections:
                self._drop(connection)
            self._forget()

    def leave(self) -> None:
        """Touch none of the connections again: they are those of the process that this one was forked from."""
        _LEFT.extend(self._open)
        self._open.clear()
        self._start_anew()
        self._forget()

    def _opened(self) -> sqlite3.Connection:
        connection = opened(self._path, self._synchronous, self._store)
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
            raise in_words(error, self._store) from None  # the first quotes what was to be stored


def _popped(idle: list[sqlite3.Connection]) -> sqlite3.Connection | None:
    """Return the last one; None if there is none, or another thread was faster."""
    try:
        return idle.pop()
    except IndexError:
        return None


def _transaction(connection: sqlite3.Connection, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run the work whole, or not at all."""
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.rollback()
        raise
    return done


def _close_all(connections: set[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


_ALL: WeakSet[Connections] = WeakSet()
_LEFT: list[sqlite3.Connection] = []
"""What a forked process must neither use nor close: closing would take the locks of its parent away."""


def _leave_all() -> None:
    for connections in list(_ALL):
        connections.leave()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_leave_all)
