"""1,000 streams at once through three hooks, against 1,000 hand-written loops: time and memory.

Each stream waits in its middle until all others have come as far, so that all of them are alive at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from harness import FLOOR, OURS, Contest, Effort, Row, Timed, Work
from scenarios.concurrent import REQUESTS, Meeting, Weighing, all_at_once, weight
from streaming import Keeps, called, hooks_of, pieces, row_of

from penstock import Chunk

LENGTH = 20
HOOKS = 3
TITLE = f"{REQUESTS:,} streams at once, {LENGTH} chunks through {HOOKS} hooks"
FLOOR_IS = "a task each; an async generator that calls each hook with a context made before"


def works(meeting: Meeting) -> tuple[Work, Work]:
    """Return our way and the hand-written one."""
    row = row_of(Keeps, HOOKS)
    chunks = pieces(LENGTH)
    hooks = hooks_of(row)

    async def source() -> AsyncIterator[Chunk]:
        for number, chunk in enumerate(chunks):
            if number == LENGTH // 2:
                await meeting.wait()
            yield chunk

    async def stream() -> int:
        length = 0
        async with row.start(records=False).process_output_stream(source()) as leaving:
            async for chunk in leaving:
                length += len(chunk.text)
        return length

    async def stream_by_hand() -> int:
        length = 0
        async for chunk in called(hooks, source()):
            length += len(chunk.text)
        return length

    return all_at_once(stream), all_at_once(stream_by_hand)


async def contests() -> list[Contest]:
    """Return the contest in time."""
    ours, floor = works(Meeting())
    return [Contest(f"{TITLE}, each", FLOOR_IS, ours, floor, per=REQUESTS)]


async def weighed() -> Row:
    """Return the memory that a stream holds while all are alive, the smallest of three."""
    scale = Weighing()
    ours, floor = works(scale)
    figures = {FLOOR: await weight(floor, scale), OURS: await weight(ours, scale)}
    return Row("streams_at_once", f"{TITLE}, memory of one", FLOOR_IS, figures, None, "B")


@dataclass(frozen=True, slots=True)
class AtOnce(Timed):
    """The scenario: time as in the others, and memory beside it."""

    def rows(self, effort: Effort) -> list[Row]:
        """Time and weigh."""
        return [*Timed.rows(self, effort), asyncio.run(weighed())]


SCENARIO = AtOnce("streams_at_once", contests)
