"""The last runs, in a SQLite file: bounded in number and size, shared by studios that use the same file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from threading import Lock
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import UsageError
from penstock.workflows.studio.protocol import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.workflows.studio.protocol import Json

SCHEMA = 1
MOST_BYTES = 256 * 1024 * 1024
MOST_BYTES_A_RUN = 32 * 1024 * 1024
_WAIT = 10.0  # seconds for another studio that writes

_CREATE = """
CREATE TABLE IF NOT EXISTS studio_runs (
    id TEXT PRIMARY KEY, created REAL NOT NULL, short TEXT NOT NULL, whole TEXT NOT NULL, bytes INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS studio_runs_created ON studio_runs (created);
"""


class RunHistory:
    """The runs that ended. Its methods block, and may be called from any thread.

    Args:
        path: the file; None for a store in memory, which ends with the object.
        keep: how many runs are kept.
        most_bytes: how large all of them together may be.

    Raises:
        UsageError: the file cannot be used.
    """

    def __init__(self, path: Path | None, keep: int, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._keep = keep
        self._most_bytes = most_bytes
        self._lock = Lock()  # a connection is used by one thread at a time
        self._memory = None if path is not None else sqlite3.connect(":memory:", check_same_thread=False)
        try:
            if path is not None:
                _make_file(path)
            self._set_up()
        except (OSError, sqlite3.Error) as error:
            hint = "name another file with --history, or keep none with --no-history"
            raise UsageError(f"the history {path} cannot be used: {error}; {hint}") from error

    def close(self) -> None:
        """Give up the store in memory."""
        if self._memory is not None:
            self._memory.close()

    def _set_up(self) -> None:
        for connection in self._connections():
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, SCHEMA):
                raise sqlite3.DatabaseError(f"it was written by another version of penstock (schema {found})")
            if self._path is not None:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_CREATE)
            connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def _connections(self) -> Iterator[sqlite3.Connection]:
        """Yield one connection; everything done with it is one transaction."""
        if self._memory is not None:
            with self._lock, self._memory:
                yield self._memory
            return
        with closing(sqlite3.connect(cast("Path", self._path), timeout=_WAIT)) as connection:
            connection.execute("PRAGMA secure_delete = ON").fetchone()  # not every SQLite is built so
            with connection:
                yield connection

    def add(self, id: str, created: float, short: Json, whole: Json) -> int:
        """Keep a run, and return how many bytes it takes; the oldest ones may have to go."""
        text = dumps(whole)
        if len(text) > MOST_BYTES_A_RUN:
            left_out = {"trace": None, "marks": None, "output": None}
            text = dumps({**whole, **left_out, "cut": "the run is too large to be kept whole"})
        row = (id, created, dumps(short), text, len(text))
        for connection in self._connections():
            connection.execute("INSERT OR REPLACE INTO studio_runs VALUES (?, ?, ?, ?, ?)", row)
            connection.execute(
                "DELETE FROM studio_runs WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER newest AS place, "
                "sum(bytes) OVER newest AS total FROM studio_runs WINDOW newest AS (ORDER BY created DESC, id)) "
                "WHERE place > ? OR (total > ? AND place > 1))",
                (self._keep, self._most_bytes),
            )
        return row[-1]

    def get(self, id: str) -> Json | None:
        """Return a run; None if it is not kept."""
        found: Json | None = None
        for connection in self._connections():
            row = connection.execute("SELECT whole FROM studio_runs WHERE id = ?", (id,)).fetchone()
            found = None if row is None else cast("Json", json.loads(row[0]))
        return found

    def latest(self, limit: int, before: float | None = None) -> list[Json]:
        """Return the newest runs in short form, the newest first."""
        made: list[Json] = []
        for connection in self._connections():
            rows = connection.execute(
                "SELECT short FROM studio_runs WHERE created < ? ORDER BY created DESC, id LIMIT ?",
                (float("inf") if before is None else before, limit),
            )
            made = [cast("Json", json.loads(row[0])) for row in rows]
        return made

    def delete(self, id: str | None) -> bool:
        """Delete a run, or all; return whether there was one."""
        deleted = 0
        for connection in self._connections():
            where, values = ("", ()) if id is None else (" WHERE id = ?", (id,))
            deleted = connection.execute(f"DELETE FROM studio_runs{where}", values).rowcount  # noqa: S608 - two constants
        if self._path is not None:
            with closing(sqlite3.connect(self._path, timeout=_WAIT)) as connection:
                if id is None:
                    connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # the log holds what was deleted
        return deleted > 0


def _make_file(path: Path) -> None:
    """Make the file for its owner alone: the texts of all runs are in it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        path.touch(mode=0o600)
