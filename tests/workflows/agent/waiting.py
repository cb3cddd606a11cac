"""What the tests of requests that are given up share: hooks that wait, and the ways to give a request up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, get_args

import anyio

from penstock import Agent, Chunk, InputContext, Processor, Retry
from penstock.engine.processor.stages import StageName
from penstock.engine.processor.state import RunEnd
from penstock.workflows import AgentResult

STAGES = get_args(StageName)
GIVING_UP = ("task", "cancel", "pull")


class Waits(Processor[dict[str, Any]]):
    """Waits at one stage until it is cancelled.

    Attributes:
        reached: is set when it waits.
        cancelled: whether it was cancelled.
        told: how requests ended.
    """

    def __new__(cls, stage: str) -> Self:
        """Give it the one hook, and one that listens for the end."""
        if stage == "process_output_stream":
            hooks: dict[str, Any] = {stage: cls._chunk, "process_input": cls._listen}
        else:
            hooks = {"process_input": cls._listen, stage: cls._hook}
        return super().__new__(type("Waits", (cls,), hooks))

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.reached = anyio.Event()
        self.cancelled = False
        self.told: list[RunEnd] = []

    def _listen(self, ctx: InputContext) -> None:
        ctx.on_end(self.told.append)

    async def _hook(self, ctx: Any) -> Retry | None:
        if self.stage == "process_input":
            self._listen(ctx)
        await self._wait()
        return Retry() if self.stage == "process_api_error" else None

    async def _chunk(self, chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.type == "text-delta":
            await self._wait()
        return chunk

    async def _wait(self) -> None:
        self.reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled = True


async def given_up(agent: Agent, reached: anyio.Event, way: str, **options: Any) -> AgentResult[Any] | None:
    """Make a request, and give it up when something is reached; return its result, if there is one.

    Args:
        agent: who is asked.
        reached: is set when it is to be given up.
        way: ``task`` cancels the task in which `Agent.generate` runs, ``cancel`` is the stream's own, ``pull`` cancels
            one pull.
        options: what else is said for the request.
    """
    if way == "task":
        async with anyio.create_task_group() as group:
            group.start_soon(_when, reached, group.cancel_scope.cancel)
            await agent.generate("Hi", **options)
        return None
    async with agent.stream("Hi", **options) as stream, anyio.create_task_group() as group:
        kinds: list[str] = []
        chunks = stream.full_stream
        if way == "pull":
            with anyio.CancelScope() as scope:
                group.start_soon(_when, reached, scope.cancel)
                while True:
                    kinds.append((await anext(chunks)).type)
            kinds += [chunk.type async for chunk in chunks]
        else:
            group.start_soon(_when, reached, stream.cancel)
            kinds += [chunk.type async for chunk in chunks]
        assert kinds.count("abort") == 1
        assert kinds[-1] == "abort"
        return await stream.result
    return None


async def _when(reached: anyio.Event, do: Callable[[], None]) -> None:
    await reached.wait()
    do()
