"""How a stream is read: its chunks, its texts, and what is known at its end. They know no loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from penstock.engine.values.chunks import Chunk

V = TypeVar("V")


class Field(Generic[V]):
    """Something that is known when the stream has ended: await it. What is left of the stream is read for it."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Awaitable[V]]) -> None:
        self._read = read

    def __await__(self) -> Generator[object, None, V]:
        """Wait for it."""
        return self._read().__await__()


class Chunks:
    """Reads a stream's chunks; no generator, which would have to be closed by whoever reads only some."""

    __slots__ = ("_next",)

    def __init__(self, following: Callable[[], Awaitable[Chunk | None]]) -> None:
        self._next = following

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk."""
        chunk = await self._next()
        if chunk is None:
            raise StopAsyncIteration
        return chunk


class Texts:
    """Reads a stream's pieces of text."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> str:
        """Return the next piece."""
        while True:
            chunk = await self._chunks.__anext__()
            if chunk.type == "text-delta":
                return chunk.text
