"""Other libraries' ways to pass a stream through functions, of those that are installed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from importlib.util import find_spec

from streaming import source

from penstock import Chunk

Streams = Callable[[Sequence[Chunk]], AsyncIterator[Chunk]]


def all_of(count: int) -> dict[str, Streams]:
    """Return by library what sends chunks through so many functions that give each back."""
    known = {
        "agent-framework-core": ("agent_framework", agent_framework),
        "langchain-core": ("langchain_core", langchain),
    }
    return {name: build(count) for name, (module, build) in known.items() if find_spec(module)}


def agent_framework(count: int) -> Streams:
    """Return a `ResponseStream` with transforms, which are called with each update."""
    from agent_framework import ResponseStream

    def keep(chunk: Chunk) -> Chunk:
        return chunk

    def stream(chunks: Sequence[Chunk]) -> AsyncIterator[Chunk]:
        made: ResponseStream[Chunk, None] = ResponseStream(source(chunks), update_transforms=[keep] * count)
        return made.__aiter__()

    return stream


def langchain(count: int) -> Streams:
    """Return a chain of `RunnableGenerator`, each an async generator over what the one before it yields."""
    from langchain_core.runnables import Runnable, RunnableGenerator

    async def keep(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        async for chunk in chunks:
            yield chunk

    chain: Runnable[Chunk, Chunk] = RunnableGenerator(keep)
    for _ in range(count - 1):
        chain = chain | RunnableGenerator(keep)

    def stream(chunks: Sequence[Chunk]) -> AsyncIterator[Chunk]:
        return chain.atransform(source(chunks))

    return stream
