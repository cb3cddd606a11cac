"""The caches in memory."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st

from penstock.engine.tasks import run_without_loop
from penstock.engine.values import expiry
from penstock.engine.values.errors import OptionError
from penstock.engine.values.protocols import Cache, LRUCache
from penstock.stores.memory_cache import MemoryCache
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


class SetClock:
    """A clock that is set by hand, also back."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 2, tzinfo=UTC)

    def now(self) -> datetime:
        """Tell the time."""
        return self.at


@pytest.mark.parametrize("kind", [LRUCache, MemoryCache])
@given(st.lists(st.tuples(st.floats(0, 40), st.floats(-2_000, 2_000), st.booleans()), max_size=20))
def test_an_entry_never_lives_longer_than_its_time(kind: Any, steps: list[tuple[float, float, bool]]) -> None:
    """However the clock is set meanwhile, and whether or not it is looked at, by the machine's monotonic clock."""
    clock, passed = SetClock(), [0.0]
    with patch.object(expiry, "monotonic", lambda: passed[0]):
        cache = kind(clock=clock)
        run_without_loop(cache.set("k", "v", ttl=100), "test")
        for seconds, jump, looks in steps:
            passed[0] += seconds
            clock.at += timedelta(seconds=seconds + jump)
            if looks:
                found = run_without_loop(cache.get("k"), "test")
                assert found is None or passed[0] < 100


@pytest.mark.parametrize("kind", [LRUCache, MemoryCache])
async def test_a_clock_that_is_put_back_gives_no_time_back(kind: Any) -> None:
    """Neither by a little, again and again, nor to before the entry was stored."""
    clock = SetClock()
    cache = kind(clock=clock)
    await cache.set("a", "v", ttl=300)
    for _ in range(3):
        clock.at += timedelta(seconds=90)
        assert await cache.get("a") == "v"
        clock.at -= timedelta(seconds=80)
        assert await cache.get("a") == "v"
    clock.at += timedelta(seconds=90)
    assert await cache.get("a") is None
    await cache.set("b", "v", ttl=300)
    clock.at -= timedelta(seconds=1)
    assert await cache.get("b") is None


@pytest.mark.parametrize("kind", [LRUCache, MemoryCache])
def test_a_pickled_entry_has_as_long_to_live(kind: Any) -> None:
    """Where the machine has another monotonic clock; the time between counts by the clock of the day."""
    clock = SetClock()
    with patch.object(expiry, "monotonic", lambda: 50_000.0):
        cache = kind(clock=clock)
        run_without_loop(cache.set("k", "v", ttl=100), "test")
        kept = pickle.dumps(cache)
    for later, value in ((90, "v"), (110, None)):
        with patch.object(expiry, "monotonic", lambda: 7.0):
            again = pickle.loads(kept)  # noqa: S301 - our own
            again._timer._now.__self__.at += timedelta(seconds=later)
            assert run_without_loop(again.get("k"), "test") == value


async def test_a_cache_of_texts_is_limited_in_bytes() -> None:
    """A verdict may be long; one that is too long alone is not stored."""
    cache = LRUCache(100, max_bytes=10_000)
    for number in range(50):
        await cache.set(str(number), "x" * 1_000)
    assert len(cache) == 9
    await cache.set("49", "y" * 20_000)
    assert (len(cache), await cache.get("49"), await cache.get("48")) == (8, None, "x" * 1_000)
