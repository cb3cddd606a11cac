"""`SQLiteCache`: a `Cache` in a SQLite file that outlives the process, and gives nothing away without the keys."""

from __future__ import annotations

from hashlib import blake2b, shake_256
from secrets import token_bytes
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.stores.sqlite._connections import FileConnections, FileDatabase
from penstock.stores.sqlite._schema import IN_MEMORY, path_of

if TYPE_CHECKING:
    import os
    from sqlite3 import Connection

    from penstock.engine.values.protocols import Clock

_TABLES = (
    "CREATE TABLE IF NOT EXISTS penstock_cache_salt (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), salt BLOB)",
    """CREATE TABLE IF NOT EXISTS penstock_cache (
        name BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL, written REAL NOT NULL, expires REAL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS penstock_cache_by_end ON penstock_cache (expires) WHERE expires IS NOT NULL",
)

_ALLOWED = "the path of a file; penstock.stores.MemoryCache keeps texts in memory"
_PATIENCE = 5.0  # seconds that work waits for other processes: a cache must not delay what it speeds up
_BYTES = 16  # of salts and nonces


class SQLiteCache:
    """Stores texts in a SQLite file. Tasks, threads and the processes of one machine can share it.

    The file holds salted hashes of the keys, and values that only their keys can unlock. Keys that are made of a text,
    as those of a judge are, therefore keep both the text and the verdict about it from whoever reads the file without
    knowing the text. The file is created at first use. Entries stay until their time is over, or the file is deleted.

    Args:
        path: the file, in a folder that exists.
        clock: tells when something was stored. An entry that seems to come from the future is not used.

    Raises:
        OptionError: the path is not that of a file.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = path_of("SQLiteCache", path, _ALLOWED)
        if self.path == IN_MEMORY:
            raise OptionError("SQLiteCache", "path", path, _ALLOWED)
        self._clock = clock
        name = f"SQLiteCache {self.path!r}"
        self._salt: bytes | None = None
        self._database = FileDatabase(
            FileConnections(self.path, "NORMAL", name, self._forget, _prepare), _PATIENCE, name
        )

    async def open(self) -> None:
        """Create the file if it is missing, and read its salt. `get` and `set` do it themselves at first use.

        Raises:
            StorageError: the file cannot be used.
        """
        if self._salt is None:
            self._salt = await self._database.write(_salt)

    async def get(self, key: str) -> str | None:
        """Return the value of a key; None if there is none, or it has expired.

        Raises:
            StorageError: the file cannot be read.
        """
        await self.open()
        found = await self._database.read(_found, self._hash(key), self._clock.now().timestamp())
        return None if found is None else _masked(found[_BYTES:], key, found[:_BYTES]).decode("utf-8", "surrogatepass")

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store a value, for ``ttl`` seconds if given.

        Raises:
            StorageError: the file cannot be written to; nothing is stored.
        """
        await self.open()
        now = self._clock.now().timestamp()
        nonce = token_bytes(_BYTES)
        masked = nonce + _masked(value.encode("utf-8", "surrogatepass"), key, nonce)
        expires = None if ttl is None else now + ttl
        await self._database.write(_stored, (self._hash(key), masked, now, expires))

    async def close(self) -> None:
        """Close the file; the next call opens it again."""
        await self._database.close()

    def _forget(self) -> None:
        self._salt = None

    def _hash(self, key: str) -> bytes:
        return blake2b(_bytes_of(key), digest_size=32, key=self._salt or b"").digest()

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle the path: a copy opens the same file."""
        return _again, (self.path, self._clock)

    def __repr__(self) -> str:
        """Show the path, and no content."""
        return f"SQLiteCache({self.path!r})"


def _again(path: str, clock: Clock) -> SQLiteCache:
    return SQLiteCache(path, clock=clock)


def _bytes_of(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _masked(value: bytes, key: str, nonce: bytes) -> bytes:
    """Return a value that only its key can unlock, or such a value unlocked.

    The mask is as long as the value, and no two values share one, since each has a nonce of its own.
    """
    mask = shake_256(nonce + _bytes_of(key)).digest(len(value))
    return (int.from_bytes(value) ^ int.from_bytes(mask)).to_bytes(len(value))


def _prepare(connection: Connection, _store: str) -> None:
    for statement in _TABLES:
        connection.execute(statement)


def _salt(connection: Connection) -> bytes:
    connection.execute("INSERT OR IGNORE INTO penstock_cache_salt VALUES (1, ?)", (token_bytes(_BYTES),))
    salt: bytes = connection.execute("SELECT salt FROM penstock_cache_salt").fetchone()[0]
    return salt


def _found(connection: Connection, name: bytes, now: float) -> bytes | None:
    row = connection.execute(
        "SELECT value FROM penstock_cache WHERE name = ? AND written <= ? AND (expires IS NULL OR expires > ?)",
        (name, now, now),
    ).fetchone()
    return None if row is None else row[0]


def _stored(connection: Connection, row: tuple[bytes, bytes, float, float | None]) -> None:
    connection.execute("DELETE FROM penstock_cache WHERE expires <= ?", (row[2],))
    connection.execute("INSERT OR REPLACE INTO penstock_cache VALUES (?, ?, ?, ?)", row)
