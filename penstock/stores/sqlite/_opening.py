"""A connection to a file, opened and set up; it knows no task and no thread."""

from __future__ import annotations

import sqlite3

from penstock.stores.sqlite._schema import migrate

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
