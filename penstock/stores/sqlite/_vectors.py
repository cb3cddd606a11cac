"""Read and write vectors on a SQLite connection, and search them in matrices that are kept in memory.

Each index counts its changes, so that a process knows whether its matrix is current, whatever other processes do. It
counts removals, too: without any, only new vectors have to be read.
"""

from __future__ import annotations

import json
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import StorageError
from penstock.engine.values.stored import VectorHit
from penstock.stores.encoding import blob
from penstock.stores.matrices import MatrixQuery, VectorRow, matrix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from sqlite3 import Connection

    from penstock.engine.values.stored import VectorEntry
    from penstock.stores.matrices.fast import FastMatrix
    from penstock.stores.matrices.plain import PlainMatrix


_BLOCK = 4096
"""How many vectors are read at a time."""

_OF_MESSAGES = "message_id IN (SELECT value FROM json_each(?))"


class IndexState(NamedTuple):
    """An index: its number, the length of its vectors, and how many changes and removals there were."""

    id: int
    length: int
    changes: int
    removals: int


def read_index(connection: Connection, name: str) -> IndexState | None:
    """Return an index, or None."""
    query = "SELECT id, length, changes, removals FROM penstock_vector_indexes WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    return None if row is None else IndexState(*row)


def upserted(connection: Connection, name: str, entries: Sequence[VectorEntry], store: str) -> None:
    """Store vectors; of several with one id, the last.

    Raises:
        StorageError: a vector is invalid, or of another length than the index's.
    """
    found = read_index(connection, name)
    length = len(entries[0].vector) if found is None else found.length
    blobs = {entry.id: (entry, blob(entry.vector, store, length)) for entry in entries}
    if found is None:
        made = connection.execute("INSERT INTO penstock_vector_indexes VALUES (NULL, ?, ?, 0, 0)", (name, length))
        if made.lastrowid is None:
            raise StorageError(store, "the index could not be created")
        found = IndexState(made.lastrowid, length, 0, 0)
    taken = connection.execute(
        "DELETE FROM penstock_vectors WHERE index_id = ? AND id IN (SELECT value FROM json_each(?))",
        (found.id, json.dumps(list(blobs))),
    ).rowcount
    connection.executemany(
        "INSERT INTO penstock_vectors VALUES (NULL, ?, ?, ?, ?, ?, ?)",
        [
            (found.id, entry.id, entry.message_id, entry.thread_id, entry.resource_id, written)
            for entry, written in blobs.values()
        ],
    )
    connection.execute(
        "UPDATE penstock_vector_indexes SET changes = changes + 1, removals = removals + ? WHERE id = ?",
        (taken, found.id),
    )


def live_seqs(connection: Connection, found: IndexState) -> list[int]:
    """Return the numbers of an index's vectors, sorted."""
    query = "SELECT seq FROM penstock_vectors WHERE index_id = ? ORDER BY seq"
    return [seq for (seq,) in connection.execute(query, (found.id,)).fetchall()]


def rows_after(connection: Connection, found: IndexState, last: int) -> Iterator[list[VectorRow]]:
    """Yield an index's vectors with numbers above ``last``, in blocks."""
    rows = connection.execute(
        "SELECT seq, thread_id, resource_id, vector FROM penstock_vectors WHERE index_id = ? AND seq > ? ORDER BY seq",
        (found.id, last),
    )
    while block := rows.fetchmany(_BLOCK):
        yield [VectorRow(*row) for row in block]


def read_hits(connection: Connection, scores: Sequence[tuple[int, float]], limit: int) -> tuple[VectorHit, ...]:
    """Return the hits, the nearest first, equal ones by id; at most ``limit``."""
    of = dict(scores)
    rows = connection.execute(
        "SELECT seq, id, message_id, thread_id, resource_id FROM penstock_vectors "
        "WHERE seq IN (SELECT value FROM json_each(?))",
        (json.dumps(list(of)),),
    )
    found = [VectorHit(name, message, thread, resource, of[seq]) for seq, name, message, thread, resource in rows]
    return tuple(sorted(found, key=lambda hit: (-hit.score, hit.id))[:limit])


def deleted_from(connection: Connection, name: str, messages: Iterable[str]) -> int:
    """Delete the vectors of messages from an index; return how many there were."""
    found = read_index(connection, name)
    return 0 if found is None else _deleted(connection, found.id, _OF_MESSAGES, json.dumps(list(messages)))


def deleted(connection: Connection, messages: Iterable[str]) -> None:
    """Delete the vectors of messages from every index."""
    _deleted_everywhere(connection, _OF_MESSAGES, json.dumps(list(messages)))


def deleted_of(connection: Connection, thread_id: str) -> None:
    """Delete the vectors of a thread, and of its messages, from every index."""
    _deleted_everywhere(connection, "thread_id = ?", thread_id)
    of_its_messages = "message_id IN (SELECT id FROM penstock_messages WHERE thread_id = ?)"
    _deleted_everywhere(connection, of_its_messages, thread_id)


def deleted_of_resource(connection: Connection, resource_id: str) -> None:
    """Delete the vectors of a resource from every index. It reads all vectors, since it is rarely called."""
    _deleted_everywhere(connection, "resource_id = ?", resource_id)


def _deleted_everywhere(connection: Connection, which: str, value: str) -> None:
    query = f"SELECT DISTINCT index_id FROM penstock_vectors WHERE {which}"  # noqa: S608
    for (number,) in connection.execute(query, (value,)).fetchall():
        _deleted(connection, number, which, value)


def _deleted(connection: Connection, number: int, which: str, value: str) -> int:
    statement = f"DELETE FROM penstock_vectors WHERE index_id = ? AND {which}"  # noqa: S608
    count = connection.execute(statement, (number, value)).rowcount
    if count:
        connection.execute(
            "UPDATE penstock_vector_indexes SET changes = changes + 1, removals = removals + ? WHERE id = ?",
            (count, number),
        )
    return count


class Searches:
    """The matrices of a store, by index. Any thread can search; searches in one index run one after the other."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def forget(self) -> None:
        """Drop all matrices: the file may be another one."""
        self._held = {}

    def found(self, connection: Connection, name: str, search: MatrixQuery, store: str) -> tuple[VectorHit, ...]:
        """Return the hits in an index, as of the connection's transaction, which must not have read anything yet.

        Raises:
            StorageError: the vector has another length than the index's.
        """
        held = self._held.setdefault(name, _Held())
        with held.lock:
            index = read_index(connection, name)
            if index is None:
                return ()
            if len(search.vector) != index.length * 4:
                length = len(search.vector) // 4
                problem = f"the query vector has {length} numbers, but those of its index have {index.length}"
                raise StorageError(store, f"{problem}: use one index for each embedder")
            scores = held.current(connection, index).nearest(search)
        return read_hits(connection, scores, search.limit)


class _Held:
    """One index in memory, and up to where it was read."""

    __slots__ = ("_changes", "_last", "_matrix", "_removals", "lock")

    def __init__(self) -> None:
        self.lock = Lock()
        self._matrix: PlainMatrix | FastMatrix | None = None
        self._changes = self._removals = self._last = 0

    def current(self, connection: Connection, index: IndexState) -> PlainMatrix | FastMatrix:
        """Return the matrix, brought up to date. The lock must be taken before the transaction reads anything."""
        if self._matrix is None:
            self._matrix = matrix(index.length)
            self._removals = index.removals
        if self._changes != index.changes:
            if self._removals != index.removals:
                self._matrix.keep(live_seqs(connection, index))
                self._removals = index.removals
            for rows in rows_after(connection, index, self._last):
                self._matrix.append(rows)
                self._last = rows[-1].seq
            self._changes = index.changes
        return self._matrix
