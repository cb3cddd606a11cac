"""What becomes of a call that a processor makes: the answer as a whole, or a refusal of its form. It knows no judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.answers import collected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.errors import ModelError
    from penstock.engine.values.model import ModelAnswer

_REJECTED = (400, 404, 415, 422, 501)
_FORMATS = ("response_format", "response format", "json_schema", "json schema", "structured output")


def rejects_format(error: ModelError) -> bool:
    """Tell whether a provider refuses to be told the form of the answer: some models and servers do."""
    said = f"{error.problem} {error.code} {error.body}".lower()
    return error.status in _REJECTED and any(name in said for name in _FORMATS)


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
