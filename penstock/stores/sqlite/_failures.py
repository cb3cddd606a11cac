"""What SQLite raises, told apart and put in words, without what is kept; it knows no table."""

from __future__ import annotations

import sqlite3

from penstock.engine.values.errors import StorageError

_PRIMARY = 0xFF
"""The bits of an error code that say the kind; the others say more."""

_OTHERS_ARE_AT_IT = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})

_IN_WORDS = {
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: is its folder there, and may it be written to?",
    sqlite3.SQLITE_READONLY: "it may not be written to, or the file was moved or deleted while it was open",
    sqlite3.SQLITE_PERM: "it may not be opened",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: look at it with `PRAGMA integrity_check`, restore a copy",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_TOOBIG: "what is to be kept is too large for SQLite",
}


class BusyError(Exception):
    """Other connections were at it, and nothing has happened: try again."""


def _kind(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether others held the file just then, so that trying again may help."""
    return _kind(error) in _OTHERS_ARE_AT_IT


def in_words(error: Exception, store: str) -> StorageError:
    """Return the error of ours for one of SQLite's."""
    if isinstance(error, UnicodeEncodeError):
        return StorageError(store, "a text holds half of a surrogate pair, which it has no place for")
    if not isinstance(error, sqlite3.Error):
        return StorageError(store, f"what is to be kept does not fit ({type(error).__name__})")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    said = _IN_WORDS.get(_kind(error), "SQLite failed")
    return StorageError(store, f"{said} ({name})")
