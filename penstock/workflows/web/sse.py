"""Send the chunks of an answer as bytes: server-sent events, from an async or a sync stream."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack, aclosing
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from penstock.engine.values.errors import without_text
from penstock.workflows.web.sent import review_chunks

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Generator, Iterable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.workflows.web.sent import SentAnswer

HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
"""The headers of an answer with server-sent events; the last one keeps nginx from buffering them."""

DONE = b"data: [DONE]\n\n"
"""The last event of chat completions, and of the AI SDK's streams."""

_LOG = logging.getLogger("penstock.web")

E = TypeVar("E")


class Encoder(Generic[E]):
    """The encoder of a format: turns the chunks of one answer into its events.

    Attributes:
        last: the bytes behind all events of a stream.
    """

    __slots__ = ("_refusal", "_sent", "_told")

    last = DONE

    def __init__(self, sent: SentAnswer, refusal: str) -> None:
        self._sent = sent
        self._refusal = refusal
        self._told = False

    @property
    def done(self) -> bool:
        """Whether no further chunk changes anything, so that only `end` is left to be called."""
        return not self._sent.goes_on

    def events(self, chunk: Chunk) -> Sequence[E]:
        """Return the events to send for a chunk."""
        if not self._sent.goes_on:
            return ()
        waits = chunk.type == "finish" and chunk.payload.get("suspended")
        return [*self._review_events(chunk), *self._events(chunk)] if waits else self._events(chunk)

    def fail(self) -> None:
        """Note that the request failed, so that `end` tells the client. Does nothing if the answer has ended."""
        self._sent.fail()

    def end(self) -> Sequence[E]:
        """Return the last events: how the answer ended, or a neutral error; the second time, nothing."""
        if self._told:
            return ()
        self._told = True
        return self._end()

    def _events(self, chunk: Chunk) -> Sequence[E]:
        raise NotImplementedError

    def _review_events(self, finish: Chunk) -> Sequence[E]:
        """Return the events to send if a person has to answer a question of a step: a text, unless the format has more.

        Args:
            finish: the last chunk, which belongs to the run that waits.
        """
        del finish
        return [event for chunk in review_chunks() for event in self._events(chunk)]

    def _end(self) -> Sequence[E]:
        raise NotImplementedError

    def frame(self, event: E) -> bytes:
        """Return an event as it is sent: without a name, unless the format says otherwise."""
        return b"data: %s\n\n" % dumped(event)


def dumped(event: object) -> bytes:
    """Return an event as JSON in UTF-8, without blanks. If half a surrogate pair is in it, it is written in ASCII."""
    try:
        return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(event, separators=(",", ":")).encode()


async def stream(chunks: AsyncIterable[Chunk], encoder: Encoder[E]) -> AsyncGenerator[bytes]:
    """Yield the answer as bytes, to be sent with the format's `HEADERS`, up to its end.

    An exception that ends the chunks is logged, and the client gets the format's neutral error. If the answer ends
    early, or the generator is closed, the request ends too.

    Args:
        chunks: the chunks that left the guards: ``agent.stream(...)``, entered or not, or any async iterable of chunks.
        encoder: a new encoder.
    """
    ending = _Ending(encoder)
    try:
        async with AsyncExitStack() as stack:
            async for chunk in await _entered(chunks, stack):
                for event in encoder.events(chunk):
                    yield encoder.frame(event)
                if ending.follows(chunk):
                    break
    except Exception as error:  # noqa: BLE001 - the client must not see it, whatever it is
        ending.failed(error)
    for event in encoder.end():
        yield encoder.frame(event)
    if encoder.last:
        yield encoder.last


def stream_sync(chunks: Iterable[Chunk], encoder: Encoder[E]) -> Generator[bytes]:
    """Yield the answer as bytes, as `stream` does, without ``await``.

    Args:
        chunks: ``agent.stream_sync(...)``, not entered yet, or any iterable of chunks.
        encoder: a new encoder.
    """
    ending = _Ending(encoder)
    try:
        with ExitStack() as stack:
            for chunk in _entered_sync(chunks, stack):
                for event in encoder.events(chunk):
                    yield encoder.frame(event)
                if ending.follows(chunk):
                    break
    except Exception as error:  # noqa: BLE001 - the client must not see it, whatever it is
        ending.failed(error)
    for event in encoder.end():
        yield encoder.frame(event)
    if encoder.last:
        yield encoder.last


class _Ending(Generic[E]):
    """How an answer ends: when no more chunks are needed, and what becomes of an exception."""

    def __init__(self, encoder: Encoder[E]) -> None:
        self._encoder = encoder
        self._is_error = False

    def follows(self, chunk: Chunk) -> bool:
        """Return whether the answer ends with a chunk. After an ``error`` the exception is still to come."""
        self._is_error = self._is_error or chunk.type == "error"
        return self._encoder.done and not self._is_error

    def failed(self, error: Exception) -> None:
        """Tell the encoder, and log where the exception was raised, without its text."""
        self._encoder.fail()
        _LOG.error("a streamed request failed with %s", without_text(error))


async def _entered(chunks: AsyncIterable[Chunk], stack: AsyncExitStack) -> AsyncIterable[Chunk]:
    """Return the chunks, and see that they are closed."""
    given = cast("object", chunks)
    if isinstance(given, AbstractAsyncContextManager):
        return await stack.enter_async_context(cast("AbstractAsyncContextManager[AsyncIterable[Chunk]]", given))
    if isinstance(given, AsyncGenerator):
        await stack.enter_async_context(aclosing(cast("AsyncGenerator[Chunk]", given)))
    return chunks


def _entered_sync(chunks: Iterable[Chunk], stack: ExitStack) -> Iterable[Chunk]:
    given = cast("object", chunks)
    if isinstance(given, AbstractContextManager):
        return stack.enter_context(cast("AbstractContextManager[Iterable[Chunk]]", given))
    return chunks
