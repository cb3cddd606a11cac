"""Read and write suspended runs on a PostgreSQL session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import StorageConflictError
from penstock.engine.values.stored import Page, StoredRun
from penstock.stores.checks import cursor, place
from penstock.stores.encoding import read_run_body, read_time, write_time, write_values
from penstock.stores.postgres._threads import cursor_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.engine.values.frozen import Value, Values
    from penstock.stores.postgres._connections import Session


_COLUMNS = "id, agent, status, body, thread_id, resource_id, due_at, created_at, updated_at, version"
_READ = "SELECT {columns} FROM {schema}.runs WHERE id = $1".replace("{columns}", _COLUMNS)
_CREATE = """
    INSERT INTO {schema}.runs ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, 1)
    ON CONFLICT (id) DO NOTHING RETURNING {columns}
""".replace("{columns}", _COLUMNS)
_REPLACE = """
    UPDATE {schema}.runs
    SET agent = $2, status = $3, body = $4, thread_id = $5, resource_id = $6, due_at = $7,
        updated_at = greatest(updated_at, $8), version = version + 1
    WHERE id = $1 AND version = $9 RETURNING {columns}
""".replace("{columns}", _COLUMNS)
"""A transaction that replaces the same run is waited for, and its version is looked at again."""

_PAGE = """
    SELECT {columns} FROM {schema}.runs WHERE {condition} ORDER BY {order} LIMIT $1
""".replace("{columns}", _COLUMNS)
_DELETE_OF = """
    DELETE FROM {schema}.runs WHERE id IN (
        SELECT id FROM {schema}.runs WHERE thread_id = ANY($1::text[]) OR resource_id = $2 ORDER BY id FOR UPDATE
    )
"""
"""In the order of ids, so that two transactions that delete the same runs cannot deadlock."""


def _run(row: Values, label: str) -> StoredRun:
    values: dict[str, Value] = {**row, "body": read_run_body(row["body"], label)}
    return StoredRun(**values)


async def read(session: Session, run_id: str, label: str) -> StoredRun | None:
    """Return a run, or None."""
    row = await session.row(_READ, run_id)
    return None if row is None else _run(row, label)


async def save(session: Session, run: StoredRun, now: datetime, label: str) -> StoredRun:
    """Store a run in place of the version that it was made from, and return it as stored.

    Raises:
        StorageConflictError: another version is stored, or none.
        MessageError: the body holds a value that is not a JSON value.
    """
    body = write_values(run.body, "run.body")
    due = None if run.due_at is None else read_time(write_time(run.due_at))
    values: list[Value] = [run.id, run.agent, run.status, body, run.thread_id, run.resource_id, due, now]
    row = await (session.row(_REPLACE, *values, run.version) if run.version else session.row(_CREATE, *values))
    if row is None:
        there = await session.value("SELECT version FROM {schema}.runs WHERE id = $1", run.id)
        raise StorageConflictError(label, "the run has changed or was deleted: read it again", there or 0)
    return _run(row, label)


async def page(
    session: Session,
    status: str | None,
    agent: str | None,
    limit: int,
    after: str | None,
    newest_first: bool,  # noqa: FBT001 - it comes by position through the database
    label: str,
) -> Page[StoredRun]:
    """Return runs in the order in which they were first stored."""
    values: list[Value] = [limit + 1]
    where: list[str] = ["true"]
    for name, value in (("status", status), ("agent", agent)):
        if value is not None:
            values.append(value)
            where.append(f"{name} = ${len(values)}")
    if after is not None:
        at, id = place("runs", after, str, str)
        values += [cursor_time(at), id]
        where.append(f"(created_at, id) {'<' if newest_first else '>'} (${len(values) - 1}, ${len(values)})")
    order = "created_at DESC, id DESC" if newest_first else "created_at, id"
    statement = _PAGE.replace("{condition}", " AND ".join(where)).replace("{order}", order)
    rows = await session.rows(statement, *values)
    items = tuple([_run(row, label) for row in rows[:limit]])
    if len(rows) <= limit:
        return Page(items)
    return Page(items, cursor("runs", write_time(rows[limit - 1]["created_at"]), items[-1].id))


async def delete(session: Session, run_id: str) -> bool:
    """Delete a run; return whether there was one."""
    return await session.value("DELETE FROM {schema}.runs WHERE id = $1 RETURNING 1", run_id) is not None


async def delete_of(session: Session, threads: Sequence[str], resource_id: str | None = None) -> None:
    """Delete the runs of threads, and those of a resource."""
    await session.run(_DELETE_OF, list(threads), resource_id)
