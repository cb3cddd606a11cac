"""What an open stream of an agent holds, in bytes, measured in a process that does nothing else: a list in JSON."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import TYPE_CHECKING

import anyio

from penstock import Agent, Chunk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.engine import ModelRequest

OPEN, PIECES = 20, 1_000


class Waits:
    """A model that sends a text in many pieces, and ends when it may."""

    name = "waits"

    def __init__(self, count: int) -> None:
        self._left = count
        self.all_sent, self.may_end = anyio.Event(), anyio.Event()

    async def stream(self, _request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the text."""
        yield Chunk("text-start", id="t")
        for piece in range(PIECES):
            yield Chunk("text-delta", f"{piece:04} ", id="t")
        self._left -= 1
        if not self._left:
            self.all_sent.set()
        await self.may_end.wait()
        yield Chunk("text-end", id="t")
        yield Chunk("finish", payload={"reason": "stop"})


async def read(agent: Agent) -> None:
    """Read a stream to its end, and look at what came."""
    async with agent.stream("Hi") as stream:
        length = 0
        async for text in stream.text_stream:
            length += len(text)
        result = await stream.result
    assert length == 5 * PIECES
    assert result.text == result.steps[0].text == "".join(f"{piece:04} " for piece in range(PIECES))


async def held() -> float:
    """The bytes that each of the open streams holds when all of its pieces have been read."""
    model = Waits(OPEN)
    agent = Agent(model)
    async with anyio.create_task_group() as group:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(OPEN):
            group.start_soon(read, agent)
        with anyio.fail_after(60):
            await model.all_sent.wait()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        model.may_end.set()
    return (after - before) / OPEN


async def main() -> None:
    """Measure twice: what the first streams of a process load is not what a stream holds."""
    tracemalloc.start()
    print(json.dumps([await held(), await held()]))  # noqa: T201


if __name__ == "__main__":
    anyio.run(main)
