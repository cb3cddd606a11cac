"""The whole of an answer that a processor has asked for, up to a length; it knows no judge and no request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.streams.collect import collected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock.engine.chunks import Chunk
    from penstock.engine.model import ModelAnswer


async def whole(stream: AsyncIterator[Chunk], longest: int, too_long: Callable[[], Exception]) -> ModelAnswer:
    """Return an answer, and close its stream however that ends.

    Args:
        stream: what a model says.
        longest: how many characters of it are read at most: a model may never end.
        too_long: makes the error to raise where it says more.
    """
    try:
        return await collected(_bounded(stream, longest, too_long))
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _bounded(
    stream: AsyncIterator[Chunk], longest: int, too_long: Callable[[], Exception]
) -> AsyncIterator[Chunk]:
    size = 0
    async for chunk in stream:
        size += len(chunk.text)
        if size > longest:
            raise too_long()
        yield chunk
