"""`open_storage`: the storage at an address that somebody wrote: a file of SQLite, or a server of PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from penstock.stores.postgres.storage import PostgresStorage
    from penstock.stores.sqlite.storage import SQLiteStorage

_SERVERS = ("postgresql://", "postgres://")
_FILE = "sqlite:"


def open_storage(address: str, *, creates: bool = False) -> SQLiteStorage | PostgresStorage:
    """Return the storage at an address. It connects at its first use.

    Args:
        address: the path of a file of `SQLiteStorage`, also as ``sqlite:PATH``, or ``postgresql://…``. No error shows
            the address of a server, which may hold a password.
        creates: whether a file is created if there is none.

    Raises:
        UsageError: there is no such file.
        MissingExtraError: the extra ``postgres`` is not installed.
    """
    if address.startswith(_SERVERS):
        from penstock.stores.postgres.storage import PostgresStorage  # a driver is imported where it is used

        return PostgresStorage(address)
    from penstock.stores.sqlite.storage import SQLiteStorage

    path = file_of(address)
    if not creates and not Path(path).is_file():
        raise UsageError(f"there is no file {path!r}; the URL of a server begins with postgresql://")
    return SQLiteStorage(path)


def shown_address(address: str) -> str:
    """Return an address for people: the path of a file, or the server without user, password and options."""
    if not address.startswith(_SERVERS):
        return file_of(address)
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def file_of(address: str) -> str:
    """Return the path of a file from its address; ``sqlite:///a`` is ``/a``, as other libraries write it."""
    path = address.removeprefix(_FILE)
    return path.removeprefix("//") if path != address else path
