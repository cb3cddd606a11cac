"""What is read and written of vectors, on a connection; it knows no task and no matrix.

Each index counts its changes, so that whoever has its vectors in memory can tell whether they are current, whatever
other processes do; and its removals, so that where there were none, only what is new has to be read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import StorageError
from penstock.engine.values.stored import VectorHit
from penstock.stores.blobs import blob
from penstock.stores.matrices import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from sqlite3 import Connection

    from penstock.engine.values.stored import VectorEntry

_BLOCK = 4096
"""How many vectors are read at a time."""

_OF_MESSAGES = "message_id IN (SELECT value FROM json_each(?))"


class Index(NamedTuple):
    """An index as it stands: its number, the length of its vectors, how often it was changed and taken from."""

    id: int
    length: int
    changes: int
    removals: int


def index(connection: Connection, name: str) -> Index | None:
    """Return an index, or None."""
    query = "SELECT id, length, changes, removals FROM penstock_vector_indexes WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    return None if row is None else Index(*row)


def upserted(connection: Connection, name: str, entries: Sequence[VectorEntry], store: str) -> None:
    """Store vectors; the last of one id counts.

    Raises:
        StorageError: one cannot be, or has another length than the index's.
    """
    found = index(connection, name)
    length = len(entries[0].vector) if found is None else found.length
    blobs = {entry.id: (entry, blob(entry.vector, store, length)) for entry in entries}
    if found is None:
        made = connection.execute("INSERT INTO penstock_vector_indexes VALUES (NULL, ?, ?, 0, 0)", (name, length))
        if made.lastrowid is None:
            raise StorageError(store, "an index could not be made")
        found = Index(made.lastrowid, length, 0, 0)
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


def alive(connection: Connection, found: Index) -> list[int]:
    """Return the numbers of an index's vectors, sorted."""
    query = "SELECT seq FROM penstock_vectors WHERE index_id = ? ORDER BY seq"
    return [seq for (seq,) in connection.execute(query, (found.id,)).fetchall()]


def later(connection: Connection, found: Index, last: int) -> Iterator[list[Row]]:
    """Give an index's vectors with a number beyond the last, in blocks."""
    rows = connection.execute(
        "SELECT seq, thread_id, resource_id, vector FROM penstock_vectors WHERE index_id = ? AND seq > ? ORDER BY seq",
        (found.id, last),
    )
    while block := rows.fetchmany(_BLOCK):
        yield [Row(*row) for row in block]


def hits(connection: Connection, scores: Sequence[tuple[int, float]], limit: int) -> tuple[VectorHit, ...]:
    """Return what was found, the nearest first, of equal ones by id; no more than the limit."""
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
    found = index(connection, name)
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
    """Delete the vectors of a resource from every index. It looks at all vectors: it is rarely asked."""
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
