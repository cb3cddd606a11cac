"""`ReleasedLog`: the events of streams as they were sent, for clients that lost their connection and come back.

Only bytes that left the guards get here. A stream has an id of its own that nobody can guess: the ids of runs and
requests stand in logs and traces, so they are no secret to those who read these.
"""

from __future__ import annotations

import re
import secrets
from collections import deque
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias
from urllib.parse import parse_qs

import anyio

from penstock.engine.values.errors import OptionError, PenstockError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, MutableMapping

    from penstock.engine.values.frozen import Value

Headers: TypeAlias = "tuple[tuple[str, str], ...]"

STREAM_HEADER = "x-penstock-stream"
"""The header of a resumable answer that holds the id of its stream."""

_MOST_ENDED = 10_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r|\r\n\n|\n\r\n")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamGoneError(PenstockError):
    """A stream cannot be resumed.

    Attributes:
        status: the HTTP status to answer with: 404 if there is no such stream for this client, 410 if there was one.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class StreamCutError(PenstockError):
    """The request behind a stream was cancelled, so that its end never comes."""

    def __init__(self) -> None:
        super().__init__("the request behind this stream was cancelled before its end")


def unknown_stream() -> StreamGoneError:
    """Return the error for a stream that is not there for a client."""
    return StreamGoneError(404, "there is no stream with this id for you; send the request again")


def new_stream_id() -> str:
    """Return an id for a stream, which nobody can guess."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The last event of a stream that a client got.

    Attributes:
        stream_id: the stream.
        number: the number of the event; 0 before the first one.
    """

    stream_id: str
    number: int = 0

    @classmethod
    def read(cls, last_event_id: str, stream_id: str = "") -> StreamPosition:
        """Return the position that a client names.

        Args:
            last_event_id: an event's id, ``STREAM/NUMBER``, or its number alone; empty: from the first event on.
            stream_id: the id of the stream from the path; empty: the event's id names it.

        Raises:
            StreamGoneError: it names no event, or one of another stream.
        """
        named, slash, number = last_event_id.rpartition("/")
        named = named if slash else stream_id
        if not _ID.fullmatch(named) or (stream_id and named != stream_id):
            raise unknown_stream()
        if number and not (number.isascii() and number.isdigit() and len(number) <= 12):  # noqa: PLR2004 - enough
            raise unknown_stream()
        return cls(named, int(number or 0))

    @classmethod
    def asked(cls, scope: MutableMapping[str, Value], stream_id: str = "") -> StreamPosition:
        """Return the position that a request of ASGI names, in its header ``Last-Event-ID`` or as ``?after=``.

        Args:
            scope: the request.
            stream_id: the id of the stream from the path; empty: the event's id names it.

        Raises:
            StreamGoneError: it names no event, or one of another stream.
        """
        header = next((value for name, value in scope["headers"] if name.lower() == b"last-event-id"), b"")
        after = parse_qs(scope["query_string"].decode("latin-1")).get("after", [""])
        return cls.read(header.decode("latin-1").strip() or after[0], stream_id)


class ReleasedEvents(Protocol):
    """Reads the events of a stream; an async iterator."""

    @property
    def headers(self) -> Headers:
        """The headers of the answer."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended, and the client has all of it."""
        ...

    def __aiter__(self) -> ReleasedEvents:
        """Return the reader itself."""
        ...

    async def __anext__(self) -> bytes:
        """Return the next event, with its id.

        Raises:
            StreamCutError: the rest never comes, or cannot be read.
        """
        ...


class ReleasedLog:
    """The latest streams of a service. Its clients may come back for the events that they missed.

    One event loop uses it. While nobody reads a stream, its request goes on until ``grace`` is over or the log is full;
    then it waits for a reader. No event is dropped that nobody has read.

    Args:
        grace: for how many seconds a request goes on while nobody reads its stream; then it is cancelled.
        keep: for how many seconds after its end a stream can be read.
        stream_bytes: how much of one stream is kept, in bytes. While a client reads, older events that it has got make
            room for new ones.
        total_bytes: how much of all streams is kept, in bytes.

    Raises:
        OptionError: a number is negative, or a number of bytes is not positive.
    """

    is_shared = False

    def __init__(
        self,
        *,
        grace: float = 30.0,
        keep: float = 300.0,
        stream_bytes: int = 4 * 1024 * 1024,
        total_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        for option, seconds in (("grace", grace), ("keep", keep)):
            if seconds < 0:
                raise OptionError("ReleasedLog", option, seconds, "a number of seconds, 0 or more")
        for option, most in (("stream_bytes", stream_bytes), ("total_bytes", total_bytes)):
            if most < 1:
                raise OptionError("ReleasedLog", option, most, "a number of bytes, 1 or more")
        self.grace = grace
        self.keep = keep
        self._stream_bytes = stream_bytes
        self._total_bytes = total_bytes
        self._size = 0
        self._streams: dict[str, ReleasedStream] = {}
        self._ended: dict[str, float] = {}  # streams that have ended, the oldest first: when they expire
        self._gone: dict[str, str] = {}  # the owners of streams that were here

    @property
    def size(self) -> int:
        """How much is kept, in bytes."""
        return self._size

    def begin(self, headers: Iterable[tuple[str, str]], owner: str = "", stream_id: str = "") -> ReleasedStream:
        """Return a new stream, to be recorded.

        Args:
            headers: the headers of the answer; those who come back get them again.
            owner: the only one who may read it, such as the id of a user; empty: whoever knows its id.
            stream_id: the result of `new_stream_id`; default: a new one.

        Raises:
            UsageError: the answer is no stream of server-sent events, whose events alone have ids.
        """
        kept = tuple((name.lower(), value) for name, value in headers)
        if not any(name == "content-type" and value.startswith("text/event-stream") for name, value in kept):
            raise UsageError("only server-sent events can be resumed: events of other formats have no ids")
        self._expire()
        stream = ReleasedStream(self, stream_id or new_stream_id(), owner, kept)
        self._streams[stream.id] = stream
        return stream

    @asynccontextmanager
    async def resuming(self, position: StreamPosition, owner: str = "") -> AsyncGenerator[ReleasedEvents]:
        """Read the events of a stream after a position, and those to come, wherever they are kept.

        Args:
            position: the last event that the client got.
            owner: who reads.

        Raises:
            StreamGoneError: there is no such stream for this owner, or its rest is not kept any more.
        """
        with self.reading(position, owner) as reader:
            yield reader

    async def share(self, stream: ReleasedStream) -> None:
        """Do nothing: this log is of one process. It runs beside a stream, from its beginning on."""

    @contextmanager
    def reading(self, position: StreamPosition, owner: str = "") -> Generator[ReleasedReader]:
        """Read the events of a stream after a position, and those to come.

        Args:
            position: the last event that the client got.
            owner: who reads.

        Raises:
            StreamGoneError: there is no such stream for this owner, or its rest is not kept any more.
        """
        self._expire()
        stream = self._streams.get(position.stream_id)
        if stream is None and self._gone.get(position.stream_id) in ("", owner):
            raise StreamGoneError(410, "this stream is over, and not kept any more; send the request again")
        if stream is None or stream.owner not in ("", owner) or position.number > stream.last:
            raise unknown_stream()
        if position.number + 1 < stream.first:
            raise StreamGoneError(410, "the events after this one are not kept any more; send the request again")
        with stream.reading(position.number) as reader:
            yield reader

    # For its streams

    def make_room(self, stream: ReleasedStream, size: int) -> bool:
        """Drop what may be dropped until an event fits; return whether it does. A single event always does."""
        self._expire()
        while stream.first <= stream.last:
            if self._size + size > self._total_bytes and self._drop_ended():
                continue
            if max(stream.size + size - self._stream_bytes, self._size + size - self._total_bytes) <= 0:
                break
            if not stream.drop_oldest():
                return False
        return True

    def took(self, size: int) -> None:
        """Note that a stream keeps some bytes more, or fewer."""
        self._size += size
        if size < 0:
            self.look_again()

    def look_again(self) -> None:
        """Let streams that wait for room look whether there is some."""
        for stream in self._streams.values():
            if stream.waits_for_room:
                stream.wake()

    def ended(self, stream: ReleasedStream) -> None:
        """Keep a stream that is whole for a while, and forget one that was cut."""
        if stream.ending == "whole" and self.keep:
            self._ended[stream.id] = anyio.current_time() + self.keep
        else:
            self._forget(stream)
        self.look_again()

    def _drop_ended(self) -> bool:
        """Forget the oldest stream that has ended and that nobody reads; return whether there was one."""
        found = next((self._streams[id] for id in self._ended if not self._streams[id].has_readers), None)
        if found is not None:
            self._forget(found)
        return found is not None

    def _expire(self) -> None:
        now = anyio.current_time()
        while self._ended and next(iter(self._ended.values())) <= now:
            self._forget(self._streams[next(iter(self._ended))])

    def _forget(self, stream: ReleasedStream) -> None:
        del self._streams[stream.id]
        self._ended.pop(stream.id, None)
        self._gone[stream.id] = stream.owner
        if len(self._gone) > _MOST_ENDED:
            del self._gone[next(iter(self._gone))]
        self.took(-stream.size)


class ReleasedStream:
    """One stream of a `ReleasedLog`: its events as they are sent, numbered from 1.

    Attributes:
        id: its id.
        owner: who may read it; empty: whoever knows its id.
        headers: the headers of the answer.
        ending: how it ended; ``open`` as long as it goes on.
        first: the number of the oldest event that is kept.
        size: how much is kept, in bytes.
        waits_for_room: whether its request waits until an event fits into the log.
        written: how many events the replicas share.
        read_elsewhere: whether a client of another replica reads it.
    """

    def __init__(self, log: ReleasedLog, id: str, owner: str, headers: Headers) -> None:
        self.id = id
        self.owner = owner
        self.headers = headers
        self.ending: Literal["open", "whole", "cut"] = "open"
        self.first = 1
        self.size = 0
        self.waits_for_room = False
        self.written = 0
        self._is_shared = log.is_shared
        self.read_elsewhere = False
        self._log = log
        self._events: deque[bytes] = deque()
        self._readers: list[ReleasedReader] = []
        self._changed = anyio.Event()
        self._attended = anyio.Event()  # set when the first reader comes, or the last one leaves

    @property
    def last(self) -> int:
        """The number of the newest event; 0 if there is none."""
        return self.first + len(self._events) - 1

    @property
    def has_readers(self) -> bool:
        """Whether somebody reads it."""
        return bool(self._readers)

    async def record(self, pieces: AsyncGenerator[bytes]) -> bool:
        """Record an answer up to its end; return False if it was cancelled because nobody read it.

        Args:
            pieces: the answer, each piece made of whole events. They are closed in any case.

        Raises:
            Exception: what the pieces raised.
        """
        failed: Exception | None = None
        async with anyio.create_task_group() as writing:
            if self._is_shared:
                writing.start_soon(self._log.share, self)
            failed = await self._recorded(pieces)
        if failed is not None:
            raise failed
        return self.ending == "whole"

    async def _recorded(self, pieces: AsyncGenerator[bytes]) -> Exception | None:
        """Record an answer; return what the pieces raised."""
        failed: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_when_alone, tasks.cancel_scope)
                try:
                    async with aclosing(pieces):
                        async for piece in pieces:
                            await self._add(piece)
                    self.ending = "whole"
                except Exception as error:  # noqa: BLE001 - raised by `record`, outside of the groups, which would wrap it
                    failed = error
                tasks.cancel_scope.cancel()
        finally:
            if self.ending == "open":
                self.ending = "cut"
            self._log.ended(self)
            self.wake()
        return failed

    @contextmanager
    def reading(self, after: int = 0) -> Generator[ReleasedReader]:
        """Read its events after a number."""
        reader = ReleasedReader(self, after)
        self._readers.append(reader)
        self._attend()
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            self._attend()
            self._log.look_again()

    async def event(self, number: int) -> bytes | None:
        """Wait for an event; None: the stream has ended before it.

        Raises:
            StreamCutError: the stream ends before it, although the answer does not.
        """
        while number > self.last:
            if self.ending == "whole":
                return None
            if self.ending == "cut":
                raise StreamCutError
            await self._changed.wait()
        return self._events[number - self.first]

    def drop_oldest(self) -> bool:
        """Drop the oldest event if all who read have got it; return whether it was dropped."""
        if not self._is_attended or any(reader.got < self.first for reader in self._readers):
            return False
        if self._is_shared and self.written < self.first:
            return False
        dropped = len(self._events.popleft())
        self.first += 1
        self.size -= dropped
        self._log.took(-dropped)
        return True

    def after(self, number: int) -> list[bytes]:
        """Return the events behind a number."""
        return list(self._events)[max(number + 1 - self.first, 0) :]

    async def beyond(self, number: int) -> None:
        """Wait for an event behind a number, or for the end."""
        while number >= self.last and self.ending == "open":
            await self._changed.wait()

    def note_written(self, count: int) -> None:
        """Note that the replicas share some events more."""
        self.written += count
        self._log.look_again()

    def note_unshared(self) -> None:
        """Note that the replicas share no more of it."""
        self._is_shared = False
        self.note_readers_elsewhere(present=False)
        self._log.look_again()

    def note_readers_elsewhere(self, *, present: bool) -> None:
        """Note whether a client of another replica reads it."""
        if present != self.read_elsewhere:
            self.read_elsewhere = present
            self._attend()
            self._log.look_again()

    @property
    def _is_attended(self) -> bool:
        return bool(self._readers) or self.read_elsewhere

    def wake(self) -> None:
        """Let all look again who wait for this stream."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _attend(self) -> None:
        attended, self._attended = self._attended, anyio.Event()
        attended.set()

    async def _add(self, piece: bytes) -> None:
        for event in _events_in(piece):
            written = _numbered(event, f"{self.id}/{self.last + 1}")
            while not self._log.make_room(self, len(written)):
                self.waits_for_room = True
                await self._changed.wait()
            self.waits_for_room = False
            self._events.append(written)
            self.size += len(written)
            self._log.took(len(written))
            self.wake()

    async def _cancel_when_alone(self, scope: anyio.CancelScope) -> None:
        while not scope.cancel_called:
            while self._is_attended:
                await self._attended.wait()
            with anyio.move_on_after(self._log.grace):
                while not self._is_attended:
                    await self._attended.wait()
            if not self._is_attended:
                scope.cancel()


class ReleasedReader:
    """Reads the events of a stream, from a number on; an async iterator.

    Attributes:
        headers: the headers of the answer.
        got: the number of the last event that was sent to the client.
    """

    def __init__(self, stream: ReleasedStream, after: int) -> None:
        self.headers = stream.headers
        self.got = after
        self._stream = stream
        self._given = after

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended, and the client has all of it."""
        return self._stream.ending != "open" and self.got >= self._stream.last

    def __aiter__(self) -> ReleasedReader:
        """Return the reader itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next event, with its id; whoever asks for one has sent the one before.

        Raises:
            StreamCutError: the request was cancelled, so that the rest never comes.
        """
        if self.got < self._given:
            self.got = self._given
            if self._stream.waits_for_room:
                self._stream.wake()
        event = await self._stream.event(self._given + 1)
        if event is None:
            raise StopAsyncIteration
        self._given += 1
        return event


def _events_in(piece: bytes) -> Iterable[bytes]:
    """Return the events of a piece, without the empty lines that end them."""
    return [event for event in _BLANK_LINE.split(piece) if event.strip(b"\r\n")]


def _numbered(event: bytes, id: str) -> bytes:
    """Return an event with its id.

    A comment gets no id and no empty line of its own: the official client of OpenAI takes an empty line for an event
    without data once it has seen an id, and fails.
    """
    event = event.strip(b"\r\n")
    if all(line.startswith(b":") for line in _LINE.split(event)):
        return event + b"\n"
    return b"%s\nid: %s\n\n" % (event, id.encode())
