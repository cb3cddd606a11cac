"""Read and write threads and working memories on a SQLite connection."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import NotStoredError, OwnershipError, StorageConflictError
from penstock.engine.values.stored import MemoryRecord, Page, Thread
from penstock.stores.checks import cursor, place
from penstock.stores.encoding import read_time, read_values, write_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from sqlite3 import Connection

    from penstock.engine.values.frozen import Value


_COLUMNS = "id, resource_id, title, metadata, created_at, updated_at, version"


def _thread(row: tuple[Value, ...]) -> Thread:
    name, resource, title, metadata, created, updated, version = row
    return Thread(name, resource, title, read_values(metadata), read_time(created), read_time(updated), version)


def found(connection: Connection, thread_id: str) -> Thread | None:
    """Return a thread, or None."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM penstock_threads WHERE id = ?", (thread_id,)).fetchone()  # noqa: S608
    return None if row is None else _thread(row)


def owner(connection: Connection, thread_id: str) -> str | None:
    """Return the resource of a thread; None if there is no such thread."""
    row = connection.execute("SELECT resource_id FROM penstock_threads WHERE id = ?", (thread_id,)).fetchone()
    return None if row is None else row[0]


def created(connection: Connection, thread: Thread, metadata: str, now: datetime, store: str) -> Thread:
    """Store a thread if there is none with its id, and return the stored one.

    Raises:
        OwnershipError: the stored one belongs to another resource.
    """
    at = thread.created_at or now
    values = (
        thread.id,
        thread.resource_id,
        thread.title,
        metadata,
        write_time(at),
        write_time(thread.updated_at or at),
    )
    connection.execute("INSERT INTO penstock_threads VALUES (?, ?, ?, ?, ?, ?, 1, 0) ON CONFLICT DO NOTHING", values)
    kept = found(connection, thread.id)
    if kept is None or kept.resource_id != thread.resource_id:
        raise OwnershipError(store, "there is a thread with that id, and it belongs to another resource")
    return kept


def updated(
    connection: Connection,
    thread_id: str,
    change: Mapping[str, str],
    expected: int | None,
    now: datetime,
    store: str,
) -> Thread:
    """Store columns of a thread, and return it.

    Raises:
        NotStoredError: there is no such thread.
        StorageConflictError: it has another version than expected.
    """
    kept = found(connection, thread_id)
    if kept is None:
        raise NotStoredError(store, "there is no thread with that id")
    if expected not in {None, kept.version}:
        raise StorageConflictError(store, "the thread has changed: read it again", kept.version)
    if not change:
        return kept
    columns = ", ".join(f"{name} = ?" for name in change)
    connection.execute(
        f"UPDATE penstock_threads SET {columns}, version = version + 1, updated_at = max(updated_at, ?) WHERE id = ?",  # noqa: S608
        (*change.values(), write_time(now), thread_id),
    )
    return found(connection, thread_id) or kept


def listed(connection: Connection, resource_id: str | None, limit: int, after: tuple[str, str] | None) -> Page[Thread]:
    """Return a page of threads, the last changed first."""
    asked = ["resource_id = ?"] if resource_id is not None else []
    values: list[str | int] = [resource_id] if resource_id is not None else []
    if after is not None:
        asked.append("(updated_at, id) < (?, ?)")
        values += after
    where = f"WHERE {' AND '.join(asked)} " if asked else ""
    statement = f"SELECT {_COLUMNS} FROM penstock_threads {where}ORDER BY updated_at DESC, id DESC LIMIT ?"  # noqa: S608
    rows = connection.execute(statement, (*values, limit + 1)).fetchall()
    items = tuple([_thread(row) for row in rows[:limit]])
    return Page(items, _following(items[-1]) if len(rows) > limit else None)


def _following(last: Thread) -> str | None:
    return None if last.updated_at is None else cursor("threads", write_time(last.updated_at), last.id)


def place_after(text: str | None) -> tuple[str, str] | None:
    """Return where a page of threads continues.

    Raises:
        UsageError: the text is not a cursor of threads.
    """
    if text is None:
        return None
    at, name = place("threads", text, str, str)
    return at, name


def owned(connection: Connection, owners: Mapping[str, str | None], now: datetime, store: str) -> dict[str, int]:
    """Store threads that are missing, and return the last place in each thread.

    Raises:
        OwnershipError: a thread belongs to another resource than given.
    """
    statement = "SELECT id, resource_id, last_place FROM penstock_threads WHERE id IN (SELECT value FROM json_each(?))"
    rows = connection.execute(statement, (json.dumps(list(owners)),))
    kept = {name: (resource, last) for name, resource, last in rows}
    if any(owner not in {None, kept[name][0]} for name, owner in owners.items() if name in kept):
        raise OwnershipError(store, "a thread belongs to another resource; nothing was stored")
    missing = [(name, owner or name, *[write_time(now)] * 2) for name, owner in owners.items() if name not in kept]
    connection.executemany("INSERT INTO penstock_threads VALUES (?, ?, '', '{}', ?, ?, 1, 0)", missing)
    return {name: kept[name][1] if name in kept else 0 for name in owners}


def touch(connection: Connection, places: Mapping[str, int], now: datetime) -> None:
    """Store the last place in each thread, and that it was changed."""
    at = write_time(now)
    connection.executemany(
        "UPDATE penstock_threads SET last_place = ?, updated_at = max(updated_at, ?) WHERE id = ?",
        [(last, at, name) for name, last in places.items()],
    )


def deleted(connection: Connection, thread_id: str) -> bool:
    """Delete a thread without its messages; return whether there was one."""
    return connection.execute("DELETE FROM penstock_threads WHERE id = ?", (thread_id,)).rowcount > 0


def of_resource(connection: Connection, resource_id: str) -> list[str]:
    """Return the ids of a resource's threads."""
    rows = connection.execute("SELECT id FROM penstock_threads WHERE resource_id = ?", (resource_id,))
    return [name for (name,) in rows.fetchall()]


class MemoryKey(NamedTuple):
    """Identifies a working memory."""

    scope: str
    key: str


def memory_versions(connection: Connection, place: MemoryKey, limit: int) -> tuple[MemoryRecord, ...]:
    """Return the last versions of a working memory, the newest first."""
    rows = connection.execute(
        "SELECT text, version, updated_at, author FROM penstock_working_memory WHERE scope = ? AND key = ? "
        "ORDER BY version DESC LIMIT ?",
        (*place, limit),
    )
    return tuple([MemoryRecord(text, version, read_time(at), author) for text, version, at, author in rows])


def put_memory(
    connection: Connection,
    place: MemoryKey,
    text: str,
    author: str,
    *,
    expected: int | None,
    keep: int,
    now: datetime,
    store: str,
) -> MemoryRecord:
    """Store a version of a working memory, delete all but the last ``keep``, and return it.

    Raises:
        StorageConflictError: it has another version than expected.
    """
    query = "SELECT max(version) FROM penstock_working_memory WHERE scope = ? AND key = ?"
    version: int = connection.execute(query, place).fetchone()[0] or 0
    if expected not in {None, version}:
        raise StorageConflictError(store, "the working memory has changed: read it again", version)
    version += 1
    values = (*place, version, text, author, write_time(now))
    connection.execute("INSERT INTO penstock_working_memory VALUES (?, ?, ?, ?, ?, ?)", values)
    old = "DELETE FROM penstock_working_memory WHERE scope = ? AND key = ? AND version <= ?"
    connection.execute(old, (*place, version - keep))
    return MemoryRecord(text, version, read_time(write_time(now)), author)


def delete_memory(connection: Connection, place: MemoryKey) -> bool:
    """Delete a working memory with all its versions; return whether there was one."""
    return connection.execute("DELETE FROM penstock_working_memory WHERE scope = ? AND key = ?", place).rowcount > 0
