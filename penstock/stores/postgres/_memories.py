"""The statements about working memories, on a session; they know neither pools nor retries."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import StorageConflictError
from penstock.engine.values.stored import MemoryRecord

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.stored import MemoryScope
    from penstock.stores.postgres._sessions import Session

_VERSIONS = """
    SELECT body, version, updated_at, author FROM {schema}.working_memories
    WHERE scope = $1 AND key = $2 ORDER BY version DESC LIMIT $3
"""

_MADE = """
    SELECT body, version, updated_at, author FROM {schema}.working_memories
    WHERE scope = $1 AND key = $2 AND change = $3
"""

_STORE = """
    INSERT INTO {schema}.working_memories (scope, key, version, body, author, updated_at, change)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
"""

_PRUNE = "DELETE FROM {schema}.working_memories WHERE scope = $1 AND key = $2 AND version <= $3"

_DELETE = "DELETE FROM {schema}.working_memories WHERE scope = $1 AND key = $2 RETURNING 1"


class Change(NamedTuple):
    """A change of a working memory: all its text, who makes it, the version it must have, its name, its time.

    By its name it is known if an attempt has made it before, of which nobody heard the end.
    """

    text: str
    author: str
    expected: int | None
    name: str
    at: datetime


def _record(row: Values) -> MemoryRecord:
    return MemoryRecord(json.loads(row["body"]), row["version"], row["updated_at"], json.loads(row["author"]))


async def versions(session: Session, scope: MemoryScope, key: str, limit: int) -> tuple[MemoryRecord, ...]:
    """Return the last versions, the newest first."""
    return tuple(_record(row) for row in await session.rows(_VERSIONS, scope, key, limit))


async def put(session: Session, scope: MemoryScope, key: str, change: Change, *, kept: int, label: str) -> MemoryRecord:
    """Store a version, unless it is stored; ``kept``: how many versions stay, with this one."""
    await _lock(session, scope, key)
    made = await session.row(_MADE, scope, key, change.name)
    if made is not None:
        return _record(made)
    rows = await session.rows(_VERSIONS, scope, key, 1)
    there: int = rows[0]["version"] if rows else 0
    if change.expected not in {None, there}:
        raise StorageConflictError(label, "the working memory has been changed by now: read it again", there)
    record = MemoryRecord(change.text, there + 1, change.at.astimezone(UTC), change.author)
    body, author = json.dumps(record.text), json.dumps(record.author)
    await session.run(_STORE, scope, key, record.version, body, author, record.updated_at, change.name)
    await session.run(_PRUNE, scope, key, record.version - kept)
    return record


async def delete(session: Session, scope: MemoryScope, key: str) -> bool:
    """Delete all versions; tell whether there were any. Who is storing one just then is done before, or begins anew."""
    await _lock(session, scope, key)
    return await session.value(_DELETE, scope, key) is not None


async def _lock(session: Session, scope: MemoryScope, key: str) -> None:
    """Wait for those who change that memory, and keep others waiting until the end of the transaction."""
    await session.run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"{session.schema}/{scope}/{key}")
