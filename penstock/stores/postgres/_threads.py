"""Read and write threads and working memories on a PostgreSQL session."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import NotStoredError, OwnershipError, StorageConflictError, UsageError
from penstock.engine.values.stored import MemoryRecord, Page, Thread
from penstock.stores.checks import cursor, place
from penstock.stores.encoding import read_time, read_values, write_time, write_values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.stored import MemoryScope
    from penstock.stores.postgres._connections import Session


_COLUMNS = "id, resource_id, title, metadata, created_at, updated_at, version"
_READ = "SELECT {columns} FROM {schema}.threads WHERE id = $1".replace("{columns}", _COLUMNS)
_LOCK = "SELECT {columns} FROM {schema}.threads WHERE id = $1 FOR UPDATE".replace("{columns}", _COLUMNS)
_CREATE = """
    INSERT INTO {schema}.threads (id, resource_id, title, metadata, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING
"""
_UPDATE = """
    UPDATE {schema}.threads
    SET title = $2, metadata = $3, version = version + 1, updated_at = greatest(updated_at, $4)
    WHERE id = $1 RETURNING {columns}
""".replace("{columns}", _COLUMNS)
_PAGE = """
    SELECT {columns} FROM {schema}.threads WHERE {condition} ORDER BY updated_at DESC, id LIMIT $1
""".replace("{columns}", _COLUMNS)
_DELETE_OF = """
    DELETE FROM {schema}.threads WHERE id IN (
        SELECT id FROM {schema}.threads WHERE resource_id = $1 ORDER BY id FOR UPDATE
    ) RETURNING id
"""
"""In the order of ids, in which they are locked when messages are stored in several of them."""
_CURSOR = "threads"


def _thread(row: Values) -> Thread:
    return Thread(
        row["id"],
        row["resource_id"],
        json.loads(row["title"]),
        read_values(row["metadata"]),
        row["created_at"],
        row["updated_at"],
        row["version"],
    )


async def read(session: Session, thread_id: str) -> Thread | None:
    """Return a thread, or None."""
    row = await session.row(_READ, thread_id)
    return None if row is None else _thread(row)


async def create(session: Session, thread: Thread, now: datetime, label: str) -> Thread:
    """Store the thread if there is none with its id; return the stored one."""
    title, metadata = json.dumps(thread.title), write_values(thread.metadata, "metadata")
    times = (thread.created_at or now, thread.updated_at or now)
    await session.run(_CREATE, thread.id, thread.resource_id, title, metadata, *times)
    kept = await read(session, thread.id)
    if kept is None:
        raise NotStoredError(label, "the thread was deleted while it was created")
    if kept.resource_id != thread.resource_id:
        raise OwnershipError(label, "there is a thread with that id, and it belongs to another resource")
    return kept


async def update(
    session: Session,
    thread_id: str,
    title: str | None,
    metadata: Values | None,
    expected: int | None,
    now: datetime,
    label: str,
) -> Thread:
    """Store a title and metadata (None: unchanged)."""
    row = await session.row(_LOCK, thread_id)
    if row is None:
        raise NotStoredError(label, "there is no thread with that id")
    if expected not in {None, row["version"]}:
        raise StorageConflictError(label, "the thread has changed: read it again", row["version"])
    if title is None and metadata is None:
        return _thread(row)
    said = row["title"] if title is None else json.dumps(title)
    values = row["metadata"] if metadata is None else write_values(metadata, "metadata")
    (found,) = await session.rows(_UPDATE, thread_id, said, values, now)
    return _thread(found)


async def page(session: Session, resource_id: str | None, limit: int, after: str | None) -> Page[Thread]:
    """Return threads, the last changed first."""
    values: list[Value] = [limit + 1]
    where: list[str] = ["true"]
    if resource_id is not None:
        values.append(resource_id)
        where.append("resource_id = $2")
    if after is not None:
        at, id = place(_CURSOR, after, str, str)
        values += [cursor_time(at), id]
        time, name = f"${len(values) - 1}", f"${len(values)}"
        where.append(f"updated_at <= {time} AND (updated_at < {time} OR id > {name})")
    rows = await session.rows(_PAGE.replace("{condition}", " AND ".join(where)), *values)
    threads = [_thread(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return Page(tuple(threads))
    last = threads[-1]
    return Page(tuple(threads), cursor(_CURSOR, write_time(last.updated_at) if last.updated_at else "", last.id))


def cursor_time(text: str) -> datetime:
    """Return the time of a cursor.

    Raises:
        UsageError: it is invalid: no page has returned such a cursor.
    """
    try:
        return read_time(text)
    except ValueError:
        raise UsageError("that is not a cursor of this list: pass the `following` of a page") from None


async def delete(session: Session, thread_id: str) -> bool:
    """Delete a thread with everything in it; return whether there was one."""
    found = await session.value("DELETE FROM {schema}.threads WHERE id = $1 RETURNING 1", thread_id)
    await session.run("DELETE FROM {schema}.working_memories WHERE scope = 'thread' AND key = $1", thread_id)
    return found is not None


async def delete_of(session: Session, resource_id: str) -> Sequence[str]:
    """Delete a resource's threads with everything in them; return their ids."""
    ids = [row["id"] for row in await session.rows(_DELETE_OF, resource_id)]
    gone = "DELETE FROM {schema}.working_memories WHERE scope = 'thread' AND key = ANY($1::text[])"
    await session.run(gone, ids)
    return ids


_VERSIONS = """
    SELECT body, version, updated_at, author FROM {schema}.working_memories
    WHERE scope = $1 AND key = $2 ORDER BY version DESC LIMIT $3
"""

_STORE = """
    INSERT INTO {schema}.working_memories (scope, key, version, body, author, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6)
"""

_PRUNE = "DELETE FROM {schema}.working_memories WHERE scope = $1 AND key = $2 AND version <= $3"

_DELETE_MEMORY = "DELETE FROM {schema}.working_memories WHERE scope = $1 AND key = $2 RETURNING 1"


class MemoryChange(NamedTuple):
    """A change of a working memory: its whole text, its author, the expected version, the time."""

    text: str
    author: str
    expected: int | None
    at: datetime


def _record(row: Values) -> MemoryRecord:
    return MemoryRecord(json.loads(row["body"]), row["version"], row["updated_at"], json.loads(row["author"]))


async def memory_versions(session: Session, scope: MemoryScope, key: str, limit: int) -> tuple[MemoryRecord, ...]:
    """Return the last versions, the newest first."""
    return tuple(_record(row) for row in await session.rows(_VERSIONS, scope, key, limit))


async def put_memory(
    session: Session, scope: MemoryScope, key: str, change: MemoryChange, kept: int, label: str
) -> MemoryRecord:
    """Store a version; ``kept`` versions remain, including this one."""
    await _lock_memory(session, scope, key)
    rows = await session.rows(_VERSIONS, scope, key, 1)
    there: int = rows[0]["version"] if rows else 0
    if change.expected not in {None, there}:
        raise StorageConflictError(label, "the working memory has changed: read it again", there)
    record = MemoryRecord(change.text, there + 1, change.at.astimezone(UTC), change.author)
    body, author = json.dumps(record.text), json.dumps(record.author)
    await session.run(_STORE, scope, key, record.version, body, author, record.updated_at)
    await session.run(_PRUNE, scope, key, record.version - kept)
    return record


async def delete_memory(session: Session, scope: MemoryScope, key: str) -> bool:
    """Delete all versions; return whether there were any.

    A transaction that is storing one commits before, or starts anew.
    """
    await _lock_memory(session, scope, key)
    return await session.value(_DELETE_MEMORY, scope, key) is not None


async def _lock_memory(session: Session, scope: MemoryScope, key: str) -> None:
    """Lock a working memory until the end of the transaction."""
    await session.run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"{session.schema}/{scope}/{key}")
