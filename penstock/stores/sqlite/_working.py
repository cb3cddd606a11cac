"""What is read and written of working memories, on a connection; it knows no task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import StorageConflictError
from penstock.engine.values.stored import MemoryRecord
from penstock.stores.bodies import read_time, write_time

if TYPE_CHECKING:
    from datetime import datetime
    from sqlite3 import Connection


class Place(NamedTuple):
    """Whose working memory it is."""

    scope: str
    key: str


def history(connection: Connection, place: Place, limit: int) -> tuple[MemoryRecord, ...]:
    """Return the last versions, the newest first."""
    rows = connection.execute(
        "SELECT text, version, updated_at, author FROM penstock_working_memory WHERE scope = ? AND key = ? "
        "ORDER BY version DESC LIMIT ?",
        (*place, limit),
    )
    return tuple([MemoryRecord(text, version, read_time(at), author) for text, version, at, author in rows])


def put(
    connection: Connection,
    place: Place,
    text: str,
    author: str,
    *,
    expected: int | None,
    keep: int,
    now: datetime,
    store: str,
) -> MemoryRecord:
    """Store a version, let go of all but the last, and return it.

    Raises:
        StorageConflictError: it has another version than was expected.
    """
    query = "SELECT max(version) FROM penstock_working_memory WHERE scope = ? AND key = ?"
    version: int = connection.execute(query, place).fetchone()[0] or 0
    if expected not in {None, version}:
        raise StorageConflictError(store, "the working memory was changed meanwhile: read it again", version)
    version += 1
    values = (*place, version, text, author, write_time(now))
    connection.execute("INSERT INTO penstock_working_memory VALUES (?, ?, ?, ?, ?, ?)", values)
    old = "DELETE FROM penstock_working_memory WHERE scope = ? AND key = ? AND version <= ?"
    connection.execute(old, (*place, version - keep))
    return MemoryRecord(text, version, read_time(write_time(now)), author)


def deleted(connection: Connection, place: Place) -> bool:
    """Delete a working memory with all its versions; tell whether there was one."""
    return connection.execute("DELETE FROM penstock_working_memory WHERE scope = ? AND key = ?", place).rowcount > 0
