"""The log of released events: who reads what, what is dropped, and when a request that nobody reads ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import anyio
import pytest

from penstock.engine.values.errors import OptionError, UsageError
from penstock.workflows.web.released import (
    ReleasedLog,
    ReleasedReader,
    ReleasedStream,
    StreamCutError,
    StreamGoneError,
    StreamPosition,
)
from penstock.workflows.web.sse import HEADERS

pytestmark = pytest.mark.anyio
FRAME = b"data: 12345678\n\n"


async def frames(*pieces: bytes) -> AsyncGenerator[bytes]:
    """An answer that is there at once."""
    for piece in pieces:
        yield piece


class Answer:
    """An answer whose pieces the test hands over; it counts those that were taken, and tells when it is closed."""

    def __init__(self) -> None:
        self.taken, self.closed = 0, False
        self._send, self._receive = anyio.create_memory_object_stream[bytes](100)

    def say(self, *pieces: bytes) -> None:
        """Hand over pieces."""
        for piece in pieces:
            self._send.send_nowait(piece)

    def end(self) -> None:
        """End it."""
        self._send.close()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The pieces, as they are handed over."""
        try:
            async for piece in self._receive:
                self.taken += 1
                yield piece
        finally:
            self.closed = True
            self._send.close()
            self._receive.close()


@asynccontextmanager
async def recording(stream: ReleasedStream, answer: Answer) -> AsyncIterator[None]:
    """Record an answer beside the block, and until it ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.record, answer.pieces())
        await anyio.wait_all_tasks_blocked()
        yield


async def numbers(reader: ReleasedReader, most: int = 1_000) -> list[int]:
    """The numbers of the events that a reader gets, up to a count of them."""
    got: list[int] = []
    while len(got) < most:
        try:
            event = await anext(reader)
        except StopAsyncIteration:
            break
        got.append(int(event.strip().rpartition(b"/")[2]))
    return got


def begun(log: ReleasedLog, owner: str = "") -> ReleasedStream:
    """A new stream."""
    return log.begin(HEADERS.items(), owner)


async def test_each_event_gets_its_id_behind_its_data():
    stream = begun(ReleasedLog())
    with stream.reading() as reader:
        await stream.record(frames(b"event: a\ndata: 1\n\n", b"data: 2\r\n\r\ndata: 3\n\n"))
        got = [event async for event in reader]
    ids = [f"{stream.id}/{number}".encode() for number in (1, 2, 3)]
    assert got == [
        b"event: a\ndata: 1\nid: " + ids[0] + b"\n\n",
        b"data: 2\nid: " + ids[1] + b"\n\n",
        b"data: 3\nid: " + ids[2] + b"\n\n",
    ]


async def test_a_comment_is_kept_without_an_id_and_an_empty_line():
    stream = begun(ReleasedLog())
    with stream.reading() as reader:
        await stream.record(frames(b": at work\n\n", b"data: 1\n\n"))
        assert [event async for event in reader] == [b": at work\n", f"data: 1\nid: {stream.id}/2\n\n".encode()]


async def test_several_readers_get_the_same_from_where_they_are():
    log, answer = ReleasedLog(), Answer()
    stream = begun(log)
    with stream.reading() as first, log.reading(StreamPosition(stream.id)) as second:
        async with recording(stream, answer):
            answer.say(FRAME, FRAME)
            assert await numbers(first, 2) == [1, 2]
            with log.reading(StreamPosition(stream.id, 1)) as third:
                answer.say(FRAME)
                answer.end()
                assert [await numbers(reader) for reader in (first, second, third)] == [[3], [1, 2, 3], [2, 3]]
                assert third.is_over


async def test_a_request_goes_on_without_a_reader_and_is_whole_for_the_next():
    log = ReleasedLog()
    stream = begun(log)
    assert await stream.record(frames(FRAME, FRAME))
    with log.reading(StreamPosition(stream.id, 1)) as reader:
        assert await numbers(reader) == [2]
    with log.reading(StreamPosition(stream.id, 2)) as reader:
        assert reader.is_over


async def test_a_request_is_cancelled_when_nobody_has_read_it_for_the_grace():
    log, answer = ReleasedLog(grace=0.01), Answer()
    stream = begun(log)
    answer.say(FRAME)
    with anyio.fail_after(60):
        assert not await stream.record(answer.pieces())
    assert (answer.closed, stream.ending, log.size) == (True, "cut", 0)
    with pytest.raises(StreamGoneError, match="over") as raised, log.reading(StreamPosition(stream.id, 1)):
        pass
    assert raised.value.status == 410


async def test_a_request_is_not_cancelled_while_one_of_its_readers_is_left():
    log, answer = ReleasedLog(grace=0), Answer()
    stream = begun(log)
    with ExitStack() as stack:
        reader = stack.enter_context(stream.reading())
        async with recording(stream, answer):
            with log.reading(StreamPosition(stream.id)):
                await anyio.wait_all_tasks_blocked()
            answer.say(FRAME)
            assert await numbers(reader, 1) == [1]
            assert not answer.closed
            stack.close()
    assert (answer.closed, stream.ending) == (True, "cut")


async def test_without_a_reader_the_request_waits_when_the_log_is_full_and_loses_nothing():
    log, answer = ReleasedLog(stream_bytes=200), Answer()
    stream = begun(log)
    answer.say(*[FRAME] * 20)
    answer.end()
    async with recording(stream, answer):
        assert answer.taken < 20
        assert log.size <= 200
        with log.reading(StreamPosition(stream.id)) as reader:
            assert await numbers(reader) == list(range(1, 21))
        assert stream.ending == "whole"
    assert log.size <= 200


async def test_a_full_log_drops_the_oldest_events_of_a_reader_that_got_them():
    log, answer = ReleasedLog(stream_bytes=200), Answer()
    stream = begun(log)
    with stream.reading() as reader:
        async with recording(stream, answer):
            answer.say(*[FRAME] * 20)
            answer.end()
            await numbers(reader)
        with (
            pytest.raises(StreamGoneError, match="after this one") as raised,
            log.reading(StreamPosition(stream.id, 1)),
        ):
            pass
        assert raised.value.status == 410
        with log.reading(StreamPosition(stream.id, 19)) as late:
            assert await numbers(late) == [20]


async def test_a_slow_reader_loses_nothing_to_a_fast_one():
    log, answer = ReleasedLog(stream_bytes=200), Answer()
    stream = begun(log)
    answer.say(*[FRAME] * 20)
    answer.end()
    with stream.reading() as slow:
        async with recording(stream, answer), anyio.create_task_group() as tasks:
            with log.reading(StreamPosition(stream.id)) as fast:
                tasks.start_soon(numbers, fast)
                await anyio.wait_all_tasks_blocked()
                assert answer.taken < 20
                assert await numbers(slow) == list(range(1, 21))


async def test_an_event_longer_than_the_log_still_passes():
    log = ReleasedLog(stream_bytes=10, total_bytes=10)
    stream = begun(log)
    with stream.reading() as reader:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.record, frames(FRAME, FRAME, FRAME))
            assert await numbers(reader) == [1, 2, 3]


async def test_streams_that_have_ended_make_room_for_others():
    log = ReleasedLog(total_bytes=200)
    old, new = begun(log), begun(log)
    await old.record(frames(FRAME, FRAME))
    await new.record(frames(FRAME, FRAME, FRAME))
    assert log.size <= 200
    with pytest.raises(StreamGoneError), log.reading(StreamPosition(old.id)):
        pass
    with log.reading(StreamPosition(new.id)) as reader:
        assert await numbers(reader) == [1, 2, 3]


async def test_a_stream_waits_for_the_room_that_another_frees():
    log, first, second = ReleasedLog(total_bytes=150), Answer(), Answer()
    one, other = begun(log), begun(log)
    async with recording(one, first), recording(other, second):
        first.say(FRAME, FRAME)
        await anyio.wait_all_tasks_blocked()
        second.say(FRAME, FRAME)
        second.end()
        await anyio.wait_all_tasks_blocked()
        assert (second.closed, other.waits_for_room) == (False, True)
        first.end()
    assert (one.ending, other.ending) == ("whole", "whole")


async def test_a_stream_expires_after_its_end(monkeypatch: pytest.MonkeyPatch):
    log = ReleasedLog(keep=60)
    stream = begun(log)
    await stream.record(frames(FRAME))
    with log.reading(StreamPosition(stream.id)) as reader:
        assert await numbers(reader) == [1]
    later = anyio.current_time() + 61
    monkeypatch.setattr(anyio, "current_time", lambda: later)
    with pytest.raises(StreamGoneError) as raised, log.reading(StreamPosition(stream.id)):
        pass
    assert (raised.value.status, log.size) == (410, 0)


async def test_only_the_owner_reads_a_stream():
    log = ReleasedLog(keep=0)
    stream = begun(log, "ada")
    for owner in ("", "bob"):
        with pytest.raises(StreamGoneError) as raised, log.reading(StreamPosition(stream.id), owner):
            pass
        assert raised.value.status == 404
    with log.reading(StreamPosition(stream.id), "ada"):
        await stream.record(frames())
    for owner, status in (("bob", 404), ("ada", 410)):
        with pytest.raises(StreamGoneError) as raised, log.reading(StreamPosition(stream.id), owner):
            pass
        assert raised.value.status == status


async def test_an_error_of_the_answer_cuts_its_readers():
    async def failing() -> AsyncGenerator[bytes]:
        yield FRAME
        raise OSError("gone")

    log = ReleasedLog()
    stream = begun(log)
    with stream.reading() as reader:
        with pytest.raises(OSError, match="gone"):
            await stream.record(failing())
        assert await numbers(reader, 1) == [1]
        with pytest.raises(StreamCutError):
            await anext(reader)


@pytest.mark.parametrize(
    ("event_id", "stream_id", "position"),
    [
        ("s/3", "", StreamPosition("s", 3)),
        ("s/3", "s", StreamPosition("s", 3)),
        ("3", "s", StreamPosition("s", 3)),
        ("", "s", StreamPosition("s", 0)),
    ],
)
def test_a_position_is_read_from_an_event_and_a_path(event_id: str, stream_id: str, position: StreamPosition):
    assert StreamPosition.read(event_id, stream_id) == position


@pytest.mark.parametrize(
    ("event_id", "stream_id"),
    [("", ""), ("3", ""), ("s/x", ""), ("s/-1", ""), ("s/²", ""), ("s/1", "t"), ("/3", ""), ("s/" + "9" * 99, "")],
)
def test_a_position_that_names_no_event_is_unknown(event_id: str, stream_id: str):
    with pytest.raises(StreamGoneError) as raised:
        StreamPosition.read(event_id, stream_id)
    assert raised.value.status == 404


async def test_a_position_behind_the_last_event_is_unknown():
    log = ReleasedLog()
    stream = begun(log)
    with pytest.raises(StreamGoneError) as raised, log.reading(StreamPosition(stream.id, 1)):
        pass
    assert raised.value.status == 404


async def test_plain_text_is_refused():
    with pytest.raises(UsageError, match="server-sent events"):
        ReleasedLog().begin([("Content-Type", "text/plain")])


@pytest.mark.parametrize("options", [{"grace": -1}, {"keep": -1}, {"stream_bytes": 0}, {"total_bytes": 0}])
def test_options_out_of_range_are_refused(options: dict[str, int]):
    with pytest.raises(OptionError, match=next(iter(options))):
        ReleasedLog(**options)  # type: ignore[arg-type]
