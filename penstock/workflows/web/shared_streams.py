"""`SharedReleasedLog`: released streams in a `Cache`, so that every replica of a service can send the rest of them."""

from __future__ import annotations

import json
import logging
import secrets
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypedDict

import anyio

from penstock.engine.values.errors import without_text
from penstock.workflows.web.released import ReleasedLog, StreamCutError, StreamGoneError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Unpack

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Cache
    from penstock.workflows.web.released import Headers, ReleasedEvents, ReleasedStream, StreamPosition

_LOG = logging.getLogger("penstock.web")

_PAUSE = 0.1
"""Seconds between two writes, and between two looks for new events."""
_BEAT = 1.0
"""Seconds after which a replica shows again that it works on a stream, or reads it."""
_DEAD = 10.0
"""Seconds without such a sign after which the other side counts as gone."""
_MOST_SECONDS = 3600.0
"""How long the events of a stream that goes on are stored."""


class LogOptions(TypedDict, total=False):
    """The options of `ReleasedLog`."""

    grace: float
    keep: float
    stream_bytes: int
    total_bytes: int


class SharedReleasedLog(ReleasedLog):
    """A log of streams that replicas share: a client may come back to any of them.

    The replica that runs a request writes its events into a cache, ten times a second at most, and others read them
    there. While the cache fails, clients must come back to the same replica. It stores the text of answers, for an hour
    and ``keep`` at most; after ``keep`` nobody can read it any more.

    Args:
        cache: stores the events, such as the ``cache`` of a `ValkeyState` or a `PostgresState`.
        options: see `ReleasedLog`; its bounds hold for the memory of each replica.

    Raises:
        OptionError: an option is out of its range.
    """

    is_shared = True

    def __init__(self, cache: Cache, **options: Unpack[LogOptions]) -> None:
        super().__init__(**options)
        self._cache = cache

    @asynccontextmanager
    async def resuming(self, position: StreamPosition, owner: str = "") -> AsyncGenerator[ReleasedEvents]:
        """Read the events of a stream after a position, and those to come, whichever replica runs its request.

        Args:
            position: the last event that the client got.
            owner: who reads.

        Raises:
            StreamGoneError: there is no such stream for this owner, or its rest is not kept any more.
        """
        with ExitStack() as stack:
            reader: ReleasedEvents
            try:
                reader = stack.enter_context(self.reading(position, owner))
            except StreamGoneError as error:
                reader = await self._elsewhere(position, owner, error)
            yield reader

    async def _elsewhere(self, position: StreamPosition, owner: str, error: StreamGoneError) -> SharedReader:
        """Return a reader of the events in the cache.

        Raises:
            StreamGoneError: there are none for this owner, or the cache cannot be asked.
        """
        try:
            head = await self.head(position.stream_id)
        except Exception as failed:  # noqa: BLE001 - whatever the cache raises
            _LOG.error("streams cannot be looked up: %s", without_text(failed))
            raise StreamGoneError(503, "streams cannot be looked up now; try again") from None
        if head is None or head["owner"] not in ("", owner) or position.number > head["last"]:
            raise error
        return SharedReader(self, position, head)

    async def share(self, stream: ReleasedStream) -> None:
        """Write the events of a stream as they come, up to its end. If the cache fails, others cannot read them."""
        batches, beat, seen, seen_at = 0, 0, "", 0.0
        try:
            while True:
                ending, events = stream.ending, stream.after(stream.written)
                if events:
                    batch = {"first": stream.written + 1, "events": [event.decode("latin-1") for event in events]}
                    await self._set(f"{stream.id}:{batches}", batch, _MOST_SECONDS + self.keep)
                    batches += 1
                    stream.note_written(len(events))
                beat += 1
                head = {
                    "owner": stream.owner,
                    "headers": stream.headers,
                    "batches": batches,
                    "last": stream.written,
                    "ending": ending,
                    "beat": beat,
                }
                await self._set(stream.id, head, _MOST_SECONDS if ending == "open" else max(self.keep, _PAUSE))
                if ending != "open":
                    return
                token = await self._cache.get(f"penstock-stream:{stream.id}:reader") or ""
                if token != seen:
                    seen, seen_at = token, anyio.current_time()
                stream.note_readers_elsewhere(present=bool(seen) and anyio.current_time() - seen_at < _DEAD)
                await anyio.sleep(_PAUSE)
                with anyio.move_on_after(_BEAT):
                    await stream.beyond(stream.written)
        except Exception as error:  # noqa: BLE001 - whatever the cache raises, the own clients get their answer
            _LOG.error("a resumable stream is not shared: %s", without_text(error))
            stream.note_unshared()

    async def head(self, stream_id: str) -> dict[str, Value] | None:
        """Return the facts about a stream; None if there is none."""
        return await self._get(stream_id)

    async def batch(self, stream_id: str, number: int) -> tuple[int, list[str]]:
        """Return the number of the first event of a batch, and its events.

        Raises:
            StreamCutError: the cache has dropped it.
        """
        found = await self._get(f"{stream_id}:{number}")
        if found is None:
            raise StreamCutError
        return found["first"], found["events"]

    async def show_reader(self, stream_id: str) -> None:
        """Tell the replica that runs the request that somebody reads."""
        await self._cache.set(f"penstock-stream:{stream_id}:reader", secrets.token_hex(8), ttl=_DEAD)

    async def _get(self, key: str) -> dict[str, Value] | None:
        text = await self._cache.get(f"penstock-stream:{key}")
        return None if text is None else json.loads(text)

    async def _set(self, key: str, value: object, ttl: float) -> None:
        await self._cache.set(f"penstock-stream:{key}", json.dumps(value), ttl=ttl)


class SharedReader:
    """Reads a stream whose request another replica runs; an async iterator.

    Attributes:
        headers: the headers of the answer.
    """

    def __init__(self, streams: SharedReleasedLog, position: StreamPosition, head: dict[str, Value]) -> None:
        self.headers: Headers = tuple((name, value) for name, value in head["headers"])
        self._streams = streams
        self._id = position.stream_id
        self._head = head
        self._given = position.number
        self._batch: int | None = None  # the batch to read next; None: it is still to be found
        self._events: list[str] = []
        self._changed_at = anyio.current_time()
        self._shown_at = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended, and the client has all of it."""
        over: bool = self._head["ending"] != "open" and self._given >= self._head["last"]
        return over

    def __aiter__(self) -> SharedReader:
        """Return the reader itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next event, with its id.

        Raises:
            StreamCutError: the rest never comes, or cannot be read.
        """
        try:
            while not self._events and self._given >= self._head["last"]:
                if self._head["ending"] == "whole":
                    raise StopAsyncIteration  # noqa: TRY301 - the end
                await self._look_again()
            if not self._events:
                await self._read_batch()
        except (StopAsyncIteration, StreamCutError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever the cache raises
            _LOG.error("a shared stream cannot be read: %s", without_text(error))
            raise StreamCutError from None
        self._given += 1
        return self._events.pop(0).encode("latin-1")

    async def _look_again(self) -> None:
        """Wait a moment, and read the facts about the stream again.

        Raises:
            StreamCutError: its request was cancelled, or its replica is gone.
        """
        if self._head["ending"] == "cut":
            raise StreamCutError
        now = anyio.current_time()
        if now - self._shown_at >= _BEAT:
            await self._streams.show_reader(self._id)
            self._shown_at = now
        await anyio.sleep(_PAUSE)
        head = await self._streams.head(self._id)
        if head is not None and head["beat"] != self._head["beat"]:
            self._changed_at = now
            self._head = head
        elif head is None or now - self._changed_at > _DEAD:
            raise StreamCutError

    async def _read_batch(self) -> None:
        if self._batch is None:
            self._batch = await self._found_batch()
        first, events = await self._streams.batch(self._id, self._batch)
        self._batch += 1
        self._events = events[self._given + 1 - first :]

    async def _found_batch(self) -> int:
        """Return the batch that holds the next event."""
        low, high = 0, self._head["batches"] - 1
        while low < high:
            middle = (low + high + 1) // 2
            first, _ = await self._streams.batch(self._id, middle)
            low, high = (middle, high) if first <= self._given + 1 else (low, middle - 1)
        return int(low)
