"""Open a SQLite file, with its tables and their migrations.

All names of tables begin with ``penstock_``, since an application may keep its own tables in the file. Versions are
only ever added: those that exist have been applied to users' files.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection


_FIRST = (
    """CREATE TABLE penstock_threads (
        id TEXT NOT NULL PRIMARY KEY,
        resource_id TEXT NOT NULL,
        title TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        version INTEGER NOT NULL,
        last_place INTEGER NOT NULL
    )""",
    "CREATE INDEX penstock_threads_by_change ON penstock_threads (updated_at, id)",
    "CREATE INDEX penstock_threads_of_resource ON penstock_threads (resource_id, updated_at, id)",
    """CREATE TABLE penstock_messages (
        id TEXT NOT NULL PRIMARY KEY,
        thread_id TEXT NOT NULL,
        place INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (thread_id, place)
    )""",
    """CREATE TABLE penstock_working_memory (
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        text TEXT NOT NULL,
        author TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        PRIMARY KEY (scope, key, version)
    )""",
    """CREATE TABLE penstock_vector_indexes (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        length INTEGER NOT NULL,
        changes INTEGER NOT NULL,
        removals INTEGER NOT NULL
    )""",
    """CREATE TABLE penstock_vectors (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        index_id INTEGER NOT NULL,
        id TEXT NOT NULL,
        message_id TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        resource_id TEXT NOT NULL,
        vector BLOB NOT NULL,
        UNIQUE (index_id, id)
    )""",
    "CREATE INDEX penstock_vectors_of_index ON penstock_vectors (index_id, seq)",
    "CREATE INDEX penstock_vectors_of_message ON penstock_vectors (message_id, index_id)",
    "CREATE INDEX penstock_vectors_of_thread ON penstock_vectors (thread_id, index_id)",
)

_RUNS = (
    """CREATE TABLE penstock_runs (
        id TEXT NOT NULL PRIMARY KEY,
        agent TEXT NOT NULL,
        status TEXT NOT NULL,
        thread_id TEXT,
        resource_id TEXT,
        due_at TEXT,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL
    )""",
    "CREATE INDEX penstock_runs_in_order ON penstock_runs (created_at, id)",
    "CREATE INDEX penstock_runs_by_status ON penstock_runs (status, created_at, id)",
    "CREATE INDEX penstock_runs_by_agent ON penstock_runs (agent, created_at, id)",
    "CREATE INDEX penstock_runs_by_both ON penstock_runs (status, agent, created_at, id)",
    "CREATE INDEX penstock_runs_of_thread ON penstock_runs (thread_id) WHERE thread_id IS NOT NULL",
    "CREATE INDEX penstock_runs_of_resource ON penstock_runs (resource_id) WHERE resource_id IS NOT NULL",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _RUNS)
"""The statements from version n to n + 1, by n."""

_VERSIONS = (
    "CREATE TABLE IF NOT EXISTS penstock_schema (version INTEGER NOT NULL PRIMARY KEY, applied_at TEXT NOT NULL)"
)


def migrate(connection: Connection, store: str) -> None:
    """Bring the tables to this version, in one transaction. If several processes try, one does it.

    Raises:
        StorageError: a newer version of Penstock has written the file.
    """
    if _version(connection, store) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_VERSIONS)
        for version in range(_version(connection, store), len(MIGRATIONS)):
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
            connection.execute("INSERT INTO penstock_schema VALUES (?, datetime('now'))", (version + 1,))
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _version(connection: Connection, store: str) -> int:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'penstock_schema'").fetchone()
    version: int = connection.execute("SELECT max(version) FROM penstock_schema").fetchone()[0] or 0 if known else 0
    if version > len(MIGRATIONS):
        problem = f"its tables have version {version}, but this Penstock supports {len(MIGRATIONS)}"
        raise StorageError(store, f"{problem}: a newer version wrote it; update Penstock")
    return version


IN_MEMORY = ":memory:"


def path_of(owner: str, path: str | os.PathLike[str], allowed: str) -> str:
    """Return the path of a file as a str.

    Args:
        owner: the class that has it as the option ``path``, for the error.
        path: what the user gave.
        allowed: what may be given, for the error.

    Raises:
        OptionError: it is no path.
    """
    try:
        given = os.fspath(path)
    except TypeError:
        given = None
    if not isinstance(given, str) or not given:
        raise OptionError(owner, "path", path, allowed)
    return given


WAITS = 0.1
"""Seconds that SQLite itself waits for a lock, in its thread. The rest of the wait can be cancelled."""

_LOG_BYTES = 64 * 1024 * 1024
"""The size, in bytes, to which the log beside the file is cut when it was larger."""


def opened(
    path: str, synchronous: str, store: str, prepare: Callable[[Connection, str], None] = migrate
) -> sqlite3.Connection:
    """Return a connection to the file, which is created if it is missing, with the tables that ``prepare`` makes.

    Transactions are explicit. Deleted content is overwritten. Any thread can use the connection, one at a time.

    Raises:
        sqlite3.Error: the file cannot be opened.
        StorageError: a newer version of Penstock has written the file.
    """
    connection = sqlite3.connect(path, timeout=WAITS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA secure_delete = ON").fetchone()
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchone()
        connection.execute("PRAGMA trusted_schema = OFF")
        prepare(connection, store)
    except BaseException:
        connection.close()
        raise
    return connection
