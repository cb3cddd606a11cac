"""`Searches`: the indexes that were searched, as matrices in memory, kept current; it knows no task."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from penstock.engine.values.errors import StorageError
from penstock.stores.matrices import Search, matrix
from penstock.stores.sqlite import _vectors

if TYPE_CHECKING:
    from sqlite3 import Connection

    from penstock.engine.values.stored import VectorHit
    from penstock.stores.matrices import Matrix
    from penstock.stores.sqlite._vectors import Index


class Searches:
    """The matrices of a store, by index. Any thread may search; those of one index do so one after another."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def forget(self) -> None:
        """Let go of all: the file may be another one."""
        self._held = {}

    def found(self, connection: Connection, name: str, search: Search, store: str) -> tuple[VectorHit, ...]:
        """Return what is near in an index as it stands in the connection's transaction, which must have read nothing.

        Raises:
            StorageError: the vector has another length than the index's.
        """
        held = self._held.setdefault(name, _Held())
        with held.lock:
            index = _vectors.index(connection, name)
            if index is None:
                return ()
            if len(search.vector) != index.length * 4:
                problem = (
                    f"the vector looked for has {len(search.vector) // 4} numbers, those of its index {index.length}"
                )
                raise StorageError(store, f"{problem}: use one index for each embedder")
            scores = held.current(connection, index).nearest(search)
        return _vectors.hits(connection, scores, search.limit)


class _Held:
    """One index in memory: what it was read up to."""

    __slots__ = ("_changes", "_last", "_matrix", "_removals", "lock")

    def __init__(self) -> None:
        self.lock = Lock()
        self._matrix: Matrix | None = None
        self._changes = self._removals = self._last = 0

    def current(self, connection: Connection, index: Index) -> Matrix:
        """Return the matrix as the index stands. The lock is held since before the transaction read anything."""
        if self._matrix is None:
            self._matrix = matrix(index.length)
            self._removals = index.removals
        if self._changes != index.changes:
            if self._removals != index.removals:
                self._matrix.keep(_vectors.alive(connection, index))
                self._removals = index.removals
            for rows in _vectors.later(connection, index, self._last):
                self._matrix.append(rows)
                self._last = rows[-1].seq
            self._changes = index.changes
        return self._matrix
