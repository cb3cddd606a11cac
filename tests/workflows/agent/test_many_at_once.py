"""Many streamed requests to one agent at once: each gets its own, and nothing of them stays."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from penstock import (
    Agent,
    Chunk,
    InputContext,
    Key,
    OutputStepContext,
    OutputStreamContext,
    PIIDetector,
    Processor,
    TokenLimiterProcessor,
    Tool,
    ToolPart,
)
from penstock.engine.values.model import ModelRequest
from penstock.tools import ToolContext
from tests.garbage import garbage_of

pytestmark = pytest.mark.anyio

WHO = Key[str]("who")
MARK = "mark-"
BYTES = 80_000
"""What a request in flight may hold, its task included; 50 kB were measured on CPython 3.11."""


class Echoes:
    """Says who asks, first in a way that is rejected, then with a call to a tool, then for good; all of them at once.

    Args:
        together: how many requests wait for each other in the midst of the last answer; 1: none.
    """

    name = "echoes"

    def __init__(self, together: int = 1) -> None:
        self.streaming = self.most = self.waiting = 0
        self.together = together
        self.all_there = anyio.Event()
        self.weight = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer."""
        self.streaming += 1
        self.most = max(self.most, self.streaming)
        try:
            who = next(message.text for message in request.messages if message.role == "user").split()[0]
            again = any("not accepted" in message.text for message in request.messages)
            called = any(isinstance(part, ToolPart) for message in request.messages for part in message.parts)
            await anyio.lowlevel.checkpoint()
            async for chunk in self._answer(who, again=again, called=called):
                yield chunk
        finally:
            self.streaming -= 1

    async def _answer(self, who: str, *, again: bool, called: bool) -> AsyncIterator[Chunk]:
        id = f"{who}-{again}-{called}"
        said = f"done {who} " if called else f"fine {who} " if again else f"bad {who} "
        yield Chunk("text-start", id=id)
        for piece in (f"{said}write to jo", "hn@example.com or wait"):
            yield Chunk("text-delta", piece, id)
            await anyio.lowlevel.checkpoint()
        if called:
            await self._meet()
        yield Chunk("text-end", id=id)
        if again and not called:
            payload = {"call_id": who, "name": "use", "arguments": {"who": who}}
            yield Chunk("tool-call", id=who, payload=payload)
        yield Chunk("finish", payload={"reason": "tool-calls" if again and not called else "stop"})

    async def _meet(self) -> None:
        self.waiting += 1
        if self.waiting == self.together:
            self.weight = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
            self.all_there.set()
        if self.together > 1:
            await self.all_there.wait()


class Watches(Processor[dict[str, Any]]):
    """Looks whether state, facts, request context and chunks are those of one request; rejects what is bad."""

    provides = (WHO,)

    def process_input(self, ctx: InputContext) -> None:
        """Note whose request it is."""
        ctx.state["who"] = ctx.text.split()[0]
        ctx.put(WHO, ctx.state["who"])
        ctx.request_context["own"] = ctx.state["who"]

    async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Look at each chunk."""
        self._look(ctx)
        assert MARK not in chunk.text or ctx.state["who"] in chunk.text
        return chunk

    async def process_output_step(self, ctx: OutputStepContext) -> None:
        """Reject the first answer."""
        self._look(ctx)
        assert ctx.state["who"] in ctx.text
        await anyio.lowlevel.checkpoint()
        if ctx.text.startswith("bad"):
            ctx.abort("it is bad", retry=True)

    @staticmethod
    def _look(ctx: Any) -> None:
        assert ctx.state["who"] == ctx.get(WHO) == ctx.request_context["own"] == ctx.request_context["given"]


async def use(who: str, ctx: ToolContext) -> str:
    """Use it."""
    assert ctx.request_context["own"] == who
    ctx.write(Chunk("data-who", payload={"data": who}))
    await anyio.lowlevel.checkpoint()
    return f"used {who}"


def agent(model: Echoes) -> Agent:
    """Return an agent with tools, retries, a guard and a limit."""
    guards = [
        PIIDetector(strategy="redact", detection_types=["email"], redaction_method="placeholder"),
        TokenLimiterProcessor(2_000),
        Watches(),
    ]
    return Agent(model, tools=[Tool(use)], processors=guards, max_processor_retries=1, release="live")


async def ask(asked: Agent, who: str, wrong: list[str]) -> None:
    """Make a request, and note what is not its own."""
    texts: dict[str, str] = {}
    others: list[str] = []
    async with asked.stream(f"{who} asks", request_context={"given": who}) as stream:
        async for chunk in stream:
            if chunk.type == "text-delta":
                texts[chunk.id] = texts.get(chunk.id, "") + chunk.text
            elif chunk.type == "retract":
                texts = {id: text for id, text in texts.items() if id not in chunk.payload["blocks"]}
            elif chunk.type in ("tool-result", "data-who"):
                others.append(str(chunk.payload.get("data", chunk.payload.get("result"))))
        result = await stream.result
    said = "".join(f"{word} {who} write to [EMAIL] or wait" for word in ("fine", "done"))
    seen = ("".join(texts.values()), result.text, others, result.facts[WHO], len(result.steps))
    if seen != (said, said, [who, f"used {who}"], who, 3) or "example.com" in repr(result.messages):
        wrong.append(f"{who}: {seen}")


async def asked_at_once(count: int, model: Echoes) -> list[str]:
    """Make so many requests at once; return what is wrong with them."""
    shared, wrong = agent(model), list[str]()
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(ask, shared, f"{MARK}{number:04}.", wrong)
    return wrong


@pytest.mark.parametrize(
    ("anyio_backend", "count"),
    [("asyncio", 100), ("trio", 100), pytest.param("asyncio", 1_000, marks=pytest.mark.rest)],
)
async def test_each_of_many_requests_gets_its_own(count: int) -> None:
    """State, facts, request context, chunks, retries, tools and results: all of them under way at the same moment."""
    model = Echoes(count)
    assert await asked_at_once(count, model) == []
    assert (model.most, model.streaming) == (count, 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.rest
async def test_a_request_holds_little_and_leaves_nothing() -> None:
    """Its bytes while all are in the midst of their last answers; afterwards they are gone."""
    count = 30
    assert await asked_at_once(2, Echoes()) == []  # what is made once is there
    gc.collect()
    tracemalloc.start()
    try:
        model = Echoes(count)
        assert await asked_at_once(count, model) == []
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert model.weight / count < BYTES
    assert left < 2 * BYTES, left


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("processors", [[], [PIIDetector(strategy="redact")], [PIIDetector(strategy="block")]])
@pytest.mark.parametrize("read", [1, 1_000])
@pytest.mark.rest
async def test_a_request_leaves_nothing_for_the_garbage_collector(processors: list[Processor], read: int) -> None:
    """It is freed when its stream is left, also early or by a verdict: what waits makes collections longer for all."""
    asked = Agent(Echoes(), processors=processors, tools=[Tool(use)])

    async def request() -> None:
        async with asked.stream("who asks", request_context={"own": "who"}) as stream:
            left = read
            async for _ in stream:
                left -= 1
                if not left:
                    return

    assert await garbage_of(request) == 0
