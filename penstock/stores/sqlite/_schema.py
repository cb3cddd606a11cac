"""The tables, and how a file gets from one version of them to the next; it knows no message.

The tables' names begin with ``penstock_``: an application may keep its own in the same file. A version is only ever
added: what stands here has been applied to files out there.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from penstock.engine.values.errors import StorageError

if TYPE_CHECKING:
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

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST,)
"""The statements that lead from version n to n + 1, by n."""

_VERSIONS = (
    "CREATE TABLE IF NOT EXISTS penstock_schema (version INTEGER NOT NULL PRIMARY KEY, applied_at TEXT NOT NULL)"
)


def migrate(connection: Connection, store: str) -> None:
    """Bring the tables to this version, all or nothing; of several processes that try, one does it.

    Raises:
        StorageError: a newer version has written the file.
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
        problem = f"its tables have version {version}, this Penstock knows {len(MIGRATIONS)}"
        raise StorageError(store, f"{problem}: a newer one wrote it; update Penstock")
    return version


IN_MEMORY = ":memory:"

WAITS = 0.1
"""For how many seconds SQLite itself waits for others, in its thread; the rest is waited where it can be cancelled."""

_LOG_BYTES = 64 * 1024 * 1024
"""To what size the log beside the file is cut once it has been larger."""


def opened(path: str, synchronous: str, store: str) -> sqlite3.Connection:
    """Return a connection to the file, which is made if it is missing, with the tables of this version.

    Transactions begin and end where they are told to. What is deleted is overwritten. It may be used by any thread, one
    at a time.

    Raises:
        sqlite3.Error: it cannot be had.
        StorageError: a newer version has written the file.
    """
    connection = sqlite3.connect(path, timeout=WAITS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA secure_delete = ON").fetchone()
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchone()
        connection.execute("PRAGMA trusted_schema = OFF")
        migrate(connection, store)
    except BaseException:
        connection.close()
        raise
    return connection
