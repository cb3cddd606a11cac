"""A stream through guards over text, in a row and in parallel, in chunks of 1, 5 and 40 characters.

By hand each guard is a loop that keeps the last seven characters and looks for its word in what it has: guards that
redact nothing leave the same in a row and in parallel.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from harness import Contest, Timed, Work
from streaming import CHUNKS, FindsNothing, pieces, row_of, source, through

from penstock import Chunk, Workflow

WORD, HELD = "Bluebird", 7
FLOOR_IS = "an async generator for each, which holds 7 characters and looks for the word in the rest"


async def contests() -> list[Contest]:
    """Return the contests, their workflows compiled."""
    sizes = [_contest(row_of(FindsNothing, 1), 1, "1 TextGuard", size) for size in (1, 5, 40)]
    rows = [_contest(row_of(FindsNothing, 3), 3, "3 TextGuards in a row", 5)]
    forks = [_contest(_beside(count), count, f"{count} TextGuards in parallel", 5) for count in (2, 3)]
    return [*sizes, *rows, *forks]


def _beside(count: int) -> Workflow:
    return Workflow("beside").parallel(*[FindsNothing() for _ in range(count)])


def _contest(workflow: Workflow, count: int, what: str, size: int) -> Contest:
    chunks = pieces(size=size)
    name = f"stream, a chunk of {size} through {what}"
    return Contest(name, FLOOR_IS, through(workflow, chunks), held(count, chunks), per=CHUNKS)


def held(count: int, chunks: Sequence[Chunk]) -> Work:
    """Return the hand-written way."""

    async def guarded(items: AsyncIterator[str]) -> AsyncIterator[str]:
        kept = ""
        async for text in items:
            kept = (kept + text).replace(WORD, "[X]")
            if len(kept) > HELD:
                yield kept[:-HELD]
                kept = kept[-HELD:]
        yield kept

    async def texts_of() -> AsyncIterator[str]:
        async for chunk in source(chunks):
            yield chunk.text

    async def floor(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            stream = texts_of()
            for _ in range(count):
                stream = guarded(stream)
            texts = [text async for text in stream]
        return "".join(texts)

    return floor


SCENARIO = Timed("stream_guards", contests)
