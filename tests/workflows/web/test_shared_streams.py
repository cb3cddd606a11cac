"""Released streams that replicas share: two logs over one cache."""

from __future__ import annotations

from contextlib import ExitStack

import anyio
import pytest

from penstock.stores.memory_cache import MemoryCache
from penstock.workflows.web import shared_streams
from penstock.workflows.web.released import StreamCutError, StreamGoneError, StreamPosition
from penstock.workflows.web.shared_streams import SharedReleasedLog
from tests.workflows.web.test_released import FRAME, Answer, begun, frames, numbers, recording

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for news every few milliseconds."""
    monkeypatch.setattr(shared_streams, "_PAUSE", 0.002)
    monkeypatch.setattr(shared_streams, "_BEAT", 0.005)


async def test_another_replica_sends_the_rest_and_follows():
    cache, answer = MemoryCache(), Answer()
    here, there = SharedReleasedLog(cache), SharedReleasedLog(cache)
    stream = begun(here)
    with anyio.fail_after(60):
        async with recording(stream, answer):
            answer.say(FRAME, FRAME, FRAME)
            with here.reading(StreamPosition(stream.id)) as own:
                assert await numbers(own, 3) == [1, 2, 3]
            await _until(lambda: stream.written == 3)
            async with there.resuming(StreamPosition(stream.id, 1)) as reader:
                assert reader.headers == stream.headers
                assert await numbers(reader, 2) == [2, 3]
                answer.say(FRAME)
                assert await numbers(reader, 1) == [4]
                answer.end()
                assert await numbers(reader) == []
        async with there.resuming(StreamPosition(stream.id, 4)) as reader:
            assert reader.is_over


async def _until(holds):
    while not holds():  # noqa: ASYNC110 - of another task
        await anyio.sleep(0.001)


async def test_every_position_is_found_in_the_batches():
    cache, answer = MemoryCache(), Answer()
    here, there = SharedReleasedLog(cache), SharedReleasedLog(cache)
    stream = begun(here)
    with anyio.fail_after(60):
        async with recording(stream, answer):
            for number in range(1, 8):
                answer.say(FRAME)
                await _until(lambda number=number: stream.written == number)
            answer.end()
    for after in range(7):
        async with there.resuming(StreamPosition(stream.id, after)) as reader:
            assert await numbers(reader) == list(range(after + 1, 8))


async def test_a_reader_at_another_replica_keeps_the_request_alive(monkeypatch: pytest.MonkeyPatch):
    cache, answer = MemoryCache(), Answer()
    here, there = SharedReleasedLog(cache, grace=0), SharedReleasedLog(cache)
    stream = begun(here)
    with anyio.fail_after(60), ExitStack() as own:
        own.enter_context(stream.reading())
        async with recording(stream, answer):
            answer.say(FRAME)
            await _until(lambda: stream.written == 1)
            async with there.resuming(StreamPosition(stream.id, 1)) as reader:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(numbers, reader, 1)
                    await _until(lambda: stream.read_elsewhere)
                    own.close()
                    answer.say(FRAME)
                assert not answer.closed
            monkeypatch.setattr(shared_streams, "_DEAD", 0)
    assert (answer.closed, stream.ending) == (True, "cut")


async def test_a_stream_whose_replica_is_gone_is_cut(monkeypatch):
    monkeypatch.setattr(shared_streams, "_DEAD", 0.02)
    cache, answer = MemoryCache(), Answer()
    here, there = SharedReleasedLog(cache), SharedReleasedLog(cache)
    stream = begun(here)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as replica:
            replica.start_soon(stream.record, answer.pieces())
            answer.say(FRAME)
            await _until(lambda: stream.written == 1)
            replica.cancel_scope.cancel()
        async with there.resuming(StreamPosition(stream.id)) as reader:
            assert await numbers(reader, 1) == [1]
            with pytest.raises(StreamCutError):
                await anext(reader)


async def test_only_the_owner_reads_a_shared_stream():
    cache = MemoryCache()
    here, there = SharedReleasedLog(cache), SharedReleasedLog(cache)
    stream = begun(here, "ada")
    await stream.record(frames(FRAME))
    for position, owner in ((StreamPosition(stream.id), "bob"), (StreamPosition("unknown"), "ada")):
        with pytest.raises(StreamGoneError) as raised:
            async with there.resuming(position, owner):
                pass
        assert raised.value.status == 404
    async with there.resuming(StreamPosition(stream.id), "ada") as reader:
        assert await numbers(reader) == [1]


async def test_events_that_the_cache_dropped_cut_the_reader():
    cache = MemoryCache()
    here, there = SharedReleasedLog(cache), SharedReleasedLog(cache)
    stream = begun(here)
    await stream.record(frames(FRAME))
    async with there.resuming(StreamPosition(stream.id)) as reader:
        cache.clear()
        with pytest.raises(StreamCutError):
            await anext(reader)


async def test_events_that_are_not_in_memory_any_more_come_from_the_cache():
    cache = MemoryCache()
    here = SharedReleasedLog(cache, stream_bytes=200)
    stream = begun(here)
    with stream.reading() as reader:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.record, frames(*[FRAME] * 10))
            assert await numbers(reader) == list(range(1, 11))
    assert stream.first > 1
    async with here.resuming(StreamPosition(stream.id)) as again:
        assert await numbers(again) == list(range(1, 11))


class _Broken(MemoryCache):
    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        raise OSError("host db-7")

    async def get(self, key: str) -> str | None:
        raise OSError("host db-7")


async def test_a_broken_cache_leaves_the_own_clients_alone(caplog: pytest.LogCaptureFixture):
    here, there = SharedReleasedLog(_Broken(), stream_bytes=200), SharedReleasedLog(_Broken())
    stream = begun(here)
    with stream.reading() as reader:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.record, frames(*[FRAME] * 10))
            assert await numbers(reader) == list(range(1, 11))
    with pytest.raises(StreamGoneError) as raised:
        async with there.resuming(StreamPosition(stream.id)):
            pass
    assert raised.value.status == 503
    assert "is not shared" in caplog.text
    assert "db-7" not in caplog.text
