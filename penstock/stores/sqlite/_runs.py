"""Read and write suspended runs on a SQLite connection."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import StorageConflictError
from penstock.engine.values.stored import Page, StoredRun
from penstock.stores.checks import cursor, place
from penstock.stores.encoding import read_run_body, read_time, write_time, write_values

if TYPE_CHECKING:
    from datetime import datetime
    from sqlite3 import Connection

    from penstock.engine.values.frozen import Value


_COLUMNS = "id, agent, status, body, thread_id, resource_id, due_at, created_at, updated_at, version"
_READ = f"SELECT {_COLUMNS} FROM penstock_runs"  # noqa: S608
_STORE = f"""
    INSERT INTO penstock_runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        agent = excluded.agent, status = excluded.status, body = excluded.body, thread_id = excluded.thread_id,
        resource_id = excluded.resource_id, due_at = excluded.due_at, updated_at = excluded.updated_at,
        version = excluded.version
"""  # noqa: S608


def _run(row: tuple[Value, ...], store: str) -> StoredRun:
    name, agent, status, body, thread, resource, due, created, updated, version = row
    times = (None if due is None else read_time(due), read_time(created), read_time(updated))
    return StoredRun(name, agent, status, read_run_body(body, store), thread, resource, *times, version)


def found(connection: Connection, run_id: str, store: str) -> StoredRun | None:
    """Return a run, or None."""
    row = connection.execute(f"{_READ} WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else _run(row, store)


def saved(connection: Connection, run: StoredRun, now: datetime, store: str) -> StoredRun:
    """Store a run in place of the version that it was made from, and return it as stored.

    The transaction holds the lock of writers, so the version cannot change between reading and writing.

    Raises:
        StorageConflictError: another version is stored, or none.
        MessageError: the body holds a value that is not a JSON value.
    """
    at = write_time(now)
    query = "SELECT version, created_at, updated_at FROM penstock_runs WHERE id = ?"
    version, created, updated = connection.execute(query, (run.id,)).fetchone() or (0, at, at)
    if version != run.version:
        raise StorageConflictError(store, "the run has changed or was deleted: read it again", version)
    updated = max(updated, at)
    due = None if run.due_at is None else write_time(run.due_at)
    body = write_values(run.body, "run.body")
    owners = (run.thread_id, run.resource_id)
    connection.execute(_STORE, (run.id, run.agent, run.status, body, *owners, due, created, updated, version + 1))
    return replace(
        run,
        due_at=None if due is None else read_time(due),
        created_at=read_time(created),
        updated_at=read_time(updated),
        version=version + 1,
    )


def listed(
    connection: Connection,
    status: str | None,
    agent: str | None,
    limit: int,
    after: tuple[str, str] | None,
    newest_first: bool,  # noqa: FBT001 - it comes by position from another thread
    store: str,
) -> Page[StoredRun]:
    """Return a page of runs in the order in which they were first stored."""
    asked = {"status": status, "agent": agent}
    where = [f"{name} = ?" for name, value in asked.items() if value is not None]
    values: list[str | int] = [value for value in asked.values() if value is not None]
    if after is not None:
        where.append(f"(created_at, id) {'<' if newest_first else '>'} (?, ?)")
        values += after
    condition = f"WHERE {' AND '.join(where)} " if where else ""
    order = "created_at DESC, id DESC" if newest_first else "created_at, id"
    statement = f"{_READ} {condition}ORDER BY {order} LIMIT ?"
    rows = connection.execute(statement, (*values, limit + 1)).fetchall()
    items = tuple([_run(row, store) for row in rows[:limit]])
    return Page(items, _following(items[-1]) if len(rows) > limit else None)


def _following(last: StoredRun) -> str | None:
    return None if last.created_at is None else cursor("runs", write_time(last.created_at), last.id)


def place_after(text: str | None) -> tuple[str, str] | None:
    """Return where a page of runs continues.

    Raises:
        UsageError: the text is not a cursor of runs.
    """
    if text is None:
        return None
    at, name = place("runs", text, str, str)
    return at, name


def deleted(connection: Connection, run_id: str) -> bool:
    """Delete a run; return whether there was one."""
    return connection.execute("DELETE FROM penstock_runs WHERE id = ?", (run_id,)).rowcount > 0


def deleted_of(connection: Connection, thread_id: str) -> None:
    """Delete the runs of a thread."""
    connection.execute("DELETE FROM penstock_runs WHERE thread_id = ?", (thread_id,))


def deleted_of_resource(connection: Connection, resource_id: str) -> None:
    """Delete the runs of a resource."""
    connection.execute("DELETE FROM penstock_runs WHERE resource_id = ?", (resource_id,))
