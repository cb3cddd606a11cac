"""A cache in a file: what it keeps and for how long, what of it can be read, and which files it refuses."""

import copy
import pickle
import sqlite3

import pytest

from penstock import OptionError, StorageError
from penstock.engine.values.protocols import Cache
from penstock.stores import SQLiteCache
from penstock.testing import VirtualClock


@pytest.fixture
def path(tmp_path):
    """Where the file is."""
    return tmp_path / "cache.db"


async def test_another_object_finds_what_was_stored(path) -> None:
    """The last value of a key, whatever its characters; a copy opens the same file."""
    cache = SQLiteCache(path)
    assert isinstance(cache, Cache)
    await cache.set("a", "1")
    await cache.set("a", "2 é \ud800")
    await cache.set("\ud800", "")
    for other in (SQLiteCache(str(path)), copy.copy(cache), pickle.loads(pickle.dumps(cache))):  # noqa: S301 - our own
        assert [await other.get(key) for key in ("a", "\ud800", "b")] == ["2 é \ud800", "", None]
        await other.close()
    await cache.close()
    assert await cache.get("a") == "2 é \ud800"
    await cache.close()


async def test_entries_end_with_their_time_and_none_come_from_the_future(path) -> None:
    """Those that are over are deleted with the next write."""
    clock = VirtualClock()
    cache = SQLiteCache(path, clock=clock)
    await cache.set("a", "1", ttl=10)
    await cache.set("b", "1")
    clock.advance(9.9)
    assert (await cache.get("a"), await cache.get("b")) == ("1", "1")
    clock.advance(0.1)
    assert (await cache.get("a"), await cache.get("b")) == (None, "1")
    await cache.set("c", "1")
    assert sqlite3.connect(path).execute("SELECT count(*) FROM penstock_cache").fetchone() == (2,)
    assert await SQLiteCache(path, clock=VirtualClock()).get("c") is None


async def test_neither_keys_nor_values_can_be_read_in_the_file(path) -> None:
    """Nor whether two values are equal; and another file has other hashes of the same keys."""
    other = path.with_name("other.db")
    names = []
    for file in (path, other):
        cache = SQLiteCache(file)
        await cache.set("key-ann@example.com", "value-ann@example.com")
        await cache.set("key-two", "value-ann@example.com")
        await cache.close()
        found = sqlite3.connect(file).execute("SELECT name, value FROM penstock_cache").fetchall()
        assert len({value for _, value in found}) == 2
        names += [name for name, _ in found]
        assert not any(b"example" in each.read_bytes() for each in path.parent.iterdir())
        assert "example" not in repr(cache)
    assert len(set(names)) == 4


async def test_a_file_that_is_no_database_is_an_error_and_stays(path) -> None:
    """And so is an option that is no path of a file."""
    path.write_text("a file of somebody\n" * 100)
    before = path.read_bytes()
    for call in (SQLiteCache(path).open(), SQLiteCache(path).get("a"), SQLiteCache(path).set("a", "1")):
        with pytest.raises(StorageError, match="not a SQLite database"):
            await call
    assert path.read_bytes() == before
    for given in ("", ":memory:", b"bytes", 7):
        with pytest.raises(OptionError, match="the path of a file"):
            SQLiteCache(given)
