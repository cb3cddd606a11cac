"""The feed of events: bounded, and read by any number of readers from where each left off."""

from __future__ import annotations

import json

import anyio

from penstock.workflows.studio.feed import Feed
from penstock.workflows.studio.protocol import decode, dumps, encode


def numbers(feed: Feed, after: int = 0) -> list[tuple[int, str]]:
    return [(event.number, event.name) for event in feed.since(after)]


def test_events_are_numbered_and_read_from_any_number():
    feed = Feed()
    for name in "abc":
        feed.add(name, {})
    assert numbers(feed) == [(1, "a"), (2, "b"), (3, "c")]
    assert numbers(feed, 2) == [(3, "c")]
    assert numbers(feed, 3) == []
    assert numbers(feed, 99) == numbers(feed)  # the number of a studio before this one


def test_the_oldest_events_go_and_the_gap_is_told():
    feed = Feed(most_events=2)
    for name in "abcd":
        feed.add(name, {})
    assert numbers(feed) == [(0, "gap"), (3, "c"), (4, "d")]
    assert json.loads(next(iter(feed.since(0))).data) == {"missed": 2}
    assert numbers(feed, 1) == [(0, "gap"), (3, "c"), (4, "d")]
    assert numbers(feed, 2) == [(3, "c"), (4, "d")]


def test_large_events_go_before_there_are_many():
    feed = Feed(most_characters=100)
    for _ in range(3):
        feed.add("x", "y" * 60)
    assert numbers(feed) == [(0, "gap"), (3, "x")]


async def test_readers_wait_for_events_and_end_with_the_feed():
    feed = Feed()
    seen: list[str] = []

    async def read() -> None:
        seen.extend([event async for event in feed.read()])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        feed.add("one", {"line": "a\nb"})
        await anyio.wait_all_tasks_blocked()
        feed.add("two", 2)
        feed.close()
    assert seen == ['id: 1\nevent: one\ndata: {"line":"a\\nb"}\n\n', "id: 2\nevent: two\ndata: 2\n\n"]
    feed.add("late", {})
    assert feed.last == 2


async def test_silence_is_broken_by_a_heartbeat():
    feed = Feed()
    reading = feed.read(heartbeat=0.01)
    assert await anext(reading) == ": still here\n\n"
    feed.add("x", {})
    assert (await anext(reading)).startswith("id: 1")
    await reading.aclose()


async def test_a_slow_reader_misses_events_and_is_told():
    feed = Feed(most_events=3)
    reading = feed.read()
    feed.add("0", {})
    await anext(reading)
    for number in range(10):
        feed.add(str(number), {})
    assert "event: gap" in await anext(reading)
    rest = [await anext(reading) for _ in range(3)]
    assert rest[-1].startswith("id: 11\n")
    await reading.aclose()


def test_any_value_becomes_a_line():
    class Odd: ...

    value = {"a": float("nan"), "b": {1: {Odd()}, "\ud800": "\u2028\n"}, "c": (1, 2), None: b"x"}
    line = encode(value)
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert decode(line) == {"a": None, "b": {"1": ["Odd"], "\ud800": "\u2028\n"}, "c": [1, 2], "None": "bytes"}
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "list" in dumps(deep)
