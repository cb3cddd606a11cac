"""The cache in the process's own memory: what it keeps, for how long, and how much."""

import copy
import sys

import pytest

from penstock import OptionError
from penstock.engine.values.protocols import Cache
from penstock.stores import MemoryCache
from penstock.testing import VirtualClock


async def test_it_gives_back_what_it_was_given() -> None:
    """It is a `Cache`; what it was not given it does not have."""
    cache = MemoryCache()
    assert isinstance(cache, Cache)
    await cache.set("a", "1")
    await cache.set("a", "2")
    assert (await cache.get("a"), await cache.get("b"), len(cache)) == ("2", None, 1)


async def test_what_is_over_is_gone() -> None:
    """By the clock it was given; its bytes are free again."""
    clock = VirtualClock()
    cache = MemoryCache(clock=clock)
    await cache.set("a", "1", ttl=10)
    clock.advance(9.9)
    assert await cache.get("a") == "1"
    clock.advance(0.1)
    assert await cache.get("a") is None
    assert cache.size == 0


async def test_what_was_not_used_for_longest_makes_room() -> None:
    """Reading is using."""
    text = "x" * 10_000
    cache = MemoryCache(max_bytes=2 * (sys.getsizeof(text) + 1_000))
    for key in "ab":
        await cache.set(key, text)
    await cache.get("a")
    await cache.set("c", text)
    assert [key for key in "abc" if await cache.get(key)] == ["a", "c"]
    assert cache.size <= 2 * (sys.getsizeof(text) + 1_000)


async def test_what_is_too_large_alone_is_not_kept() -> None:
    """Nor is what it was to take the place of, which is no longer true."""
    cache = MemoryCache(max_bytes=2_000)
    await cache.set("a", "1")
    await cache.set("a", "x" * 5_000)
    assert (await cache.get("a"), cache.size, len(cache)) == (None, 0, 0)


async def test_it_forgets_everything_when_told_to() -> None:
    """Its repr shows how much there is, and nothing of it."""
    cache = MemoryCache()
    await cache.set("key-secret", "value-secret")
    assert "secret" not in repr(cache)
    cache.clear()
    assert (await cache.get("key-secret"), cache.size) == (None, 0)


@pytest.mark.parametrize("given", [0, -1, 1.5, True])
def test_a_limit_is_a_number_of_bytes(given: int) -> None:
    """1 or more."""
    with pytest.raises(OptionError):
        MemoryCache(max_bytes=given)


async def test_a_copy_goes_its_own_way() -> None:
    """As workflows may be copied: with what it held by then, within the same bytes."""
    cache = MemoryCache()
    await cache.set("a", "1")
    for twin in (copy.deepcopy(cache), copy.copy(cache)):
        assert (await twin.get("a"), twin.size) == ("1", cache.size)
        await twin.set("b", "2")
    assert await cache.get("b") is None


async def test_what_is_to_be_kept_beyond_all_calendars_is_kept() -> None:
    """A million years are as good as for ever."""
    cache = MemoryCache()
    await cache.set("a", "1", ttl=1e15)
    await cache.set("b", "2", ttl=1e12)
    assert (await cache.get("a"), await cache.get("b")) == ("1", "2")
