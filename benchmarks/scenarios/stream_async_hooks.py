"""A stream of 10,000 chunks through async hooks, against a loop that awaits them. No target is set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from harness import Contest, Timed, Work
from streaming import CHUNKS, KeepsAsync, pieces, row_of, source, through

from penstock import Chunk, OutputStreamContext

Hook = Callable[[Chunk, OutputStreamContext], Awaitable[Chunk | None]]


async def contests() -> list[Contest]:
    """Return the contests, their workflows compiled."""
    chunks = pieces()
    return [
        Contest(
            f"stream, a chunk through {count} async hook{'s' * (count > 1)}, identity",
            "an async generator that awaits each hook; None drops",
            through(row_of(KeepsAsync, count), chunks),
            awaited(count, chunks),
            per=CHUNKS,
        )
        for count in (1, 5)
    ]


def awaited(count: int, chunks: Sequence[Chunk]) -> Work:
    """Return the hand-written way; the hooks do not read their context."""
    hooks: list[Hook] = [KeepsAsync().process_output_stream for _ in range(count)]
    ctx = object.__new__(OutputStreamContext)

    async def called() -> AsyncIterator[Chunk]:
        async for chunk in source(chunks):
            for hook in hooks:
                made = await hook(chunk, ctx)
                if made is None:
                    break
                chunk = made  # noqa: PLW2901
            else:
                yield chunk

    async def floor(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            texts = []
            async for chunk in called():
                texts.append(chunk.text)
        return "".join(texts)

    return floor


SCENARIO = Timed("stream_async_hooks", contests)
