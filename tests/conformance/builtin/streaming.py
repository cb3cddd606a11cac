"""Drives recorded chunks through our stream stage, with the waits between them, on a clock that jumps.

It knows the engine's stream interface; no processor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import trio.testing

from penstock import Chunk, Workflow
from tests.conformance.builtin.frame import Fields
from tests.conformance.builtin.shapes import chunk, joined, recorded

FLUSH = "flush"


def streamed_through(workflow: Workflow, events: Iterable[Mapping[str, Any]]) -> Fields:
    """Return what leaves the stream stage: ``emitted``, its ``text``, and a ``tripwire`` if there was one.

    An event is a chunk, ``{"wait_ms": n}``, or ``{"flush": true}``, for which the text's block ends.
    """
    given = list(events)
    if any("wait_ms" in event for event in given):
        options = {"clock": trio.testing.MockClock(autojump_threshold=0)}
        left = anyio.run(partial(_drive, workflow, given), backend="trio", backend_options=options)
    else:
        with workflow.start_sync().process_output_stream(_chunks(given)) as chunks:
            left = list(chunks)
    return told(left)


def told(left: Iterable[Chunk]) -> Fields:
    """Return chunks as the vectors tell them; the ends of blocks, which they do not have, are left out."""
    pieces = list(left)
    emitted = [recorded(piece) for piece in pieces if piece.type not in ("text-start", "text-end", "tripwire")]
    fields: Fields = {"emitted": emitted, "text": joined(emitted)}
    for piece in pieces:
        if piece.type == "tripwire":
            fields["tripwire"] = recorded(piece)["payload"]
    return fields


async def _drive(workflow: Workflow, events: list[Mapping[str, Any]]) -> list[Chunk]:
    async def source() -> AsyncIterator[Chunk]:
        for event in events:
            if "wait_ms" in event:
                await anyio.sleep(event["wait_ms"] / 1000)
            else:
                for piece in _chunks([event]):
                    yield piece

    async with workflow.start() as run, run.process_output_stream(source()) as chunks:
        return [piece async for piece in chunks]


def _chunks(events: Iterable[Mapping[str, Any]]) -> Iterator[Chunk]:
    """Yield the chunks of events; a flush is the end of the block that the last text was of."""
    block = ""
    for event in events:
        if FLUSH in event:
            yield Chunk("text-end", id=block)
            continue
        piece = chunk(event)
        block = piece.id if piece.type == "text-delta" else block
        yield piece
