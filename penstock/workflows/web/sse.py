"""Send the chunks of an answer as bytes: server-sent events, from an async or a sync stream."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack, aclosing
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from penstock.engine.values.errors import without_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Generator, Iterable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.workflows.web.sent import Json

HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
"""The headers of an answer with server-sent events; the last one keeps nginx from buffering them."""

DONE = b"data: [DONE]\n\n"
"""The last event of chat completions, and of the AI SDK's streams."""

_LOG = logging.getLogger("penstock.web")

T_co = TypeVar("T_co", covariant=True)


class Encoder(Protocol[T_co]):
    """What encoders have in common: the encoder of a format turns chunks into its events."""

    @property
    def done(self) -> bool:
        """Whether no further chunk changes anything."""
        ...

    def events(self, chunk: Chunk) -> Sequence[T_co]:
        """Return the events for a chunk."""
        ...

    def fail(self) -> None:
        """Note that the request failed."""
        ...

    def end(self) -> Sequence[T_co]:
        """Return the last events."""
        ...


def data(event: Json) -> bytes:
    """Return an event without a name."""
    return f"data: {_dumped(event)}\n\n".encode()


def named(event: Json) -> bytes:
    """Return an event with its type as its name."""
    return f"event: {event['type']}\ndata: {_dumped(event)}\n\n".encode()


def _dumped(event: Json) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


async def framed(
    chunks: AsyncIterable[Chunk], encoder: Encoder[T_co], frame: Callable[[T_co], bytes], last: bytes = b""
) -> AsyncGenerator[bytes]:
    """Yield the events for the chunks of an answer as bytes, up to its end.

    An exception that ends the chunks is logged, and the client gets the format's neutral error. If the answer ends
    early, or the generator is closed, the request ends too.

    Args:
        chunks: the chunks that left the guards: ``agent.stream(...)``, entered or not, or any async iterable of chunks.
        encoder: a new encoder.
        frame: writes one event.
        last: the text behind all events.
    """
    ending = _Ending(encoder)
    try:
        async with AsyncExitStack() as stack:
            async for chunk in await _entered(chunks, stack):
                for event in encoder.events(chunk):
                    yield frame(event)
                if ending.follows(chunk):
                    break
    except Exception as error:  # noqa: BLE001 - the client must not see it, whatever it is
        ending.failed(error)
    for event in encoder.end():
        yield frame(event)
    if last:
        yield last


def framed_sync(
    chunks: Iterable[Chunk], encoder: Encoder[T_co], frame: Callable[[T_co], bytes], last: bytes = b""
) -> Generator[bytes]:
    """Yield the events for the chunks of an answer as bytes, as `framed` does, without ``await``.

    Args:
        chunks: ``agent.stream_sync(...)``, not entered yet, or any iterable of chunks.
        encoder: a new encoder.
        frame: writes one event.
        last: the text behind all events.
    """
    ending = _Ending(encoder)
    try:
        with ExitStack() as stack:
            for chunk in _entered_sync(chunks, stack):
                for event in encoder.events(chunk):
                    yield frame(event)
                if ending.follows(chunk):
                    break
    except Exception as error:  # noqa: BLE001 - the client must not see it, whatever it is
        ending.failed(error)
    for event in encoder.end():
        yield frame(event)
    if last:
        yield last


class _Ending:
    """How an answer ends: when no more chunks are needed, and what becomes of an exception."""

    def __init__(self, encoder: Encoder[object]) -> None:
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
