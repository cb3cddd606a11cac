"""A stream of 10,000 chunks through functions that give each back: in Penstock, by hand, in whichever peers there are.

Each stream starts from nothing; what can be built once was built before.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness import Contest, Timed, Work
from peers.stream_hooks import Streams, all_of
from streaming import CHUNKS, Keeps, by_hand, pieces, row_of, through

from penstock import Chunk


async def contests() -> list[Contest]:
    """Return the contests."""
    chunks = pieces()
    return [_contest(count, chunks) for count in (1, 3, 5)]


def _contest(count: int, chunks: Sequence[Chunk]) -> Contest:
    row = row_of(Keeps, count)
    peers = {name: streamed(streams, chunks) for name, streams in all_of(count).items()}
    name = f"a chunk through {count} function{'s' * (count > 1)}"
    return Contest(name, "calls", through(row, chunks), by_hand(row, chunks), None, peers, CHUNKS)


def streamed(streams: Streams, chunks: Sequence[Chunk]) -> Work:
    """Return a contestant that gives the text."""

    async def work(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            texts = [chunk.text async for chunk in streams(chunks)]
        return "".join(texts)

    return work


SCENARIO = Timed("stream_peers", contests)
