"""The cache in memory."""

import pytest

from penstock.engine.values.errors import OptionError
from penstock.engine.values.protocols import Cache, LRUCache
from penstock.testing import VirtualClock


async def test_a_cache_forgets_what_was_not_used_for_longest() -> None:
    """Reading is using."""
    cache = LRUCache(2)
    await cache.set("a", "1")
    await cache.set("b", "2")
    assert await cache.get("a") == "1"
    await cache.set("c", "3")
    assert [await cache.get(key) for key in "abc"] == ["1", None, "3"]
    assert (len(cache), repr(cache)) == (2, "LRUCache(2 of 2)")


async def test_a_cache_keeps_a_text_for_as_long_as_it_was_given() -> None:
    """Its own clock says how long that is."""
    clock = VirtualClock()
    cache = LRUCache(clock=clock)
    await cache.set("a", "1", ttl=10)
    await cache.set("b", "2")
    clock.advance(9)
    assert await cache.get("a") == "1"
    clock.advance(1)
    assert [await cache.get("a"), await cache.get("b"), len(cache)] == [None, "2", 1]


async def test_a_new_value_takes_the_place_of_the_old_one() -> None:
    """Its time too."""
    clock = VirtualClock()
    cache: Cache = LRUCache(clock=clock)
    await cache.set("a", "1", ttl=1)
    await cache.set("a", "2")
    clock.advance(5)
    assert await cache.get("a") == "2"


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_a_cache_has_room_for_something(size: int) -> None:
    """A size of nothing is a mistake."""
    with pytest.raises(OptionError, match="1 or more"):
        LRUCache(size)
