"""Sources that are cancelled from within, hold a cancel scope across their chunks, or yield what is no chunk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import Agent, BatchPartsProcessor, Chunk, InputContext, ModelError, Tool, Workflow, processor
from penstock.engine import ModelRequest, UsageError
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@processor(edits="nothing")
async def look(ctx: InputContext) -> None:
    """Look at the input, beside the model."""
    await anyio.lowlevel.checkpoint()


SHAPES: dict[str, list[Any]] = {
    "plain": [],
    "timed": [BatchPartsProcessor(max_wait_time=30)],
    "overlap": [Workflow("o").then(look, overlap="model")],
}
each_shape = pytest.mark.parametrize("shape", SHAPES)


class From:
    """A model that streams what a function yields."""

    name = "from"

    def __init__(self, source: Callable[[], AsyncIterator[Any]]) -> None:
        self._source = source

    def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Return the chunks."""
        return self._source()


def this_task() -> asyncio.Task[Any]:
    """Return the current task."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def awaits_what_is_cancelled() -> AsyncIterator[Chunk]:
    """A pool that is closed, for example."""
    yield Chunk("text-delta", "never ", "t")
    connection = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(connection.cancel)
    await connection


async def raises_it() -> AsyncIterator[Chunk]:
    """Without an await."""
    yield Chunk("text-delta", "never ", "t")
    raise asyncio.CancelledError


async def raises_it_in_a_group() -> AsyncIterator[Chunk]:
    """As a task group does."""
    yield Chunk("text-delta", "never ", "t")
    raise BaseExceptionGroup("all", [asyncio.CancelledError()])


@on_asyncio
@each_shape
@pytest.mark.parametrize("source", [awaits_what_is_cancelled, raises_it, raises_it_in_a_group])
async def test_a_source_that_is_cancelled_from_within_has_failed(
    shape: str, source: Callable[[], AsyncIterator[Any]]
) -> None:
    """The request is no success with half a text, and the caller's task is not cancelled."""
    kinds: list[str] = []
    with anyio.fail_after(60), pytest.raises(ModelError, match="broke off"):
        await Agent(From(source), processors=SHAPES[shape]).generate("q", on_chunk=lambda c: kinds.append(c.type))
    assert kinds[-3:] == ["error", "step-finish", "finish"]
    assert this_task().cancelling() == 0


@on_asyncio
@each_shape
async def test_a_run_fails_with_such_a_source_too(shape: str) -> None:
    """What had come leaves before."""
    left: list[str] = []

    async def read() -> None:
        run = Workflow("w").then(*SHAPES[shape] or [look]).start()
        async with run, run.process_output_stream(raises_it()) as chunks:
            async for chunk in chunks:
                left.append(chunk.text)  # noqa: PERF401 - what came before the error counts

    with anyio.fail_after(60), pytest.raises(ModelError):
        await read()
    assert "".join(left) == "never "


@on_asyncio
async def test_a_source_that_cancels_its_own_task_gives_no_success() -> None:
    """Whatever the caller makes of the cancellation."""

    async def cancels() -> AsyncIterator[Chunk]:
        yield Chunk("text-delta", "never ", "t")
        this_task().cancel()
        await anyio.lowlevel.checkpoint()

    for processors in SHAPES.values():
        task = asyncio.ensure_future(Agent(From(cancels), processors=processors).generate("q"))
        with anyio.fail_after(60), pytest.raises((ModelError, asyncio.CancelledError)):
            await task


@on_asyncio
@each_shape
async def test_the_callers_own_cancellation_stays_one(shape: str) -> None:
    """Also where the source makes something else of it."""
    started = anyio.Event()

    async def waits() -> AsyncIterator[Chunk]:
        yield Chunk("text-delta", "half", "t")
        started.set()
        await anyio.sleep_forever()

    task = asyncio.ensure_future(Agent(From(waits), processors=SHAPES[shape]).generate("q"))
    with anyio.fail_after(60):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@on_asyncio
async def test_a_callback_that_is_cancelled_from_within_ends_the_request_with_a_failure() -> None:
    """Also where the loop has a task of its own."""

    async def approve(call: object) -> bool:
        raise asyncio.CancelledError

    turn = {"tool_calls": [{"id": "c", "name": "pay", "args": {}}]}
    for processors in SHAPES.values():
        agent = Agent(
            ScriptedModel([turn, "done"]), tools=[Tool(pay, approval=True)], approve=approve, processors=processors
        )
        with anyio.fail_after(60), pytest.raises(UsageError, match="broke off"):
            await agent.generate("q")


def pay() -> str:
    """Pay."""
    return "paid"


class Limited:
    """A model that holds a time limit across its chunks, and has something to close within it."""

    name = "limited"

    def __init__(self, limit: Callable[[float], Any]) -> None:
        self._limit = limit
        self.open = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield an answer."""
        with self._limit(30):
            self.open += 1
            try:
                yield Chunk("text-start", id="t")
                yield Chunk("text-delta", "Hello ", "t")
                await anyio.lowlevel.checkpoint()
                yield Chunk("text-delta", "you.", "t")
                yield Chunk("text-end", id="t")
                yield Chunk("finish", payload={"reason": "stop"})
            finally:
                await anyio.lowlevel.checkpoint()
                self.open -= 1


@each_shape
@pytest.mark.parametrize("limit", [anyio.fail_after, anyio.move_on_after])
async def test_a_source_may_hold_a_scope_across_its_chunks(shape: str, limit: Callable[[float], Any]) -> None:
    """Read whole, left early, cancelled, or broken by another step."""
    agent = Agent(model := Limited(limit), processors=SHAPES[shape])
    with anyio.fail_after(60):
        assert (await agent.generate("q")).text == "Hello you."
        for leave in ("break", "cancel"):
            async with agent.stream("q") as stream:
                async for chunk in stream:
                    if chunk.type == "step-start" and leave == "cancel":
                        stream.cancel()
                    elif chunk.type in ("text-delta", "step-start"):
                        break
            await anyio.lowlevel.checkpoint()
    assert model.open == 0


@each_shape
async def test_a_scope_of_the_source_survives_a_cancellation_of_the_reader(shape: str) -> None:
    """The scope around the request is the one that ends."""
    agent = Agent(model := Limited(anyio.fail_after), processors=SHAPES[shape])
    with anyio.fail_after(60):
        with anyio.CancelScope() as scope:
            async with agent.stream("q") as stream:
                async for _ in stream:
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        await anyio.lowlevel.checkpoint()
    assert model.open == 0


async def test_a_run_by_itself_may_be_left_within_such_a_source() -> None:
    """Without an agent."""
    model = Limited(anyio.fail_after)
    with anyio.fail_after(60):
        for kinds in ([look], SHAPES["timed"]):
            async with Workflow("w").then(*kinds).start() as run:
                async with run.process_output_stream(model.stream(ModelRequest(()))) as chunks:
                    async for _ in chunks:
                        break
                await anyio.lowlevel.checkpoint()
    assert model.open == 0


@each_shape
@pytest.mark.parametrize("item", [None, 7, b"text", Chunk("finish", payload={"usage": {"tokens": 1}})])
async def test_a_source_is_closed_behind_what_is_no_chunk(shape: str, item: Any) -> None:
    """And behind a usage that cannot be read."""
    closed: list[bool] = []

    async def odd() -> AsyncIterator[Any]:
        try:
            yield Chunk("text-delta", "Hi", "t")
            yield item
            if not isinstance(item, Chunk):
                await anyio.sleep_forever()
        finally:
            closed.append(True)

    with anyio.fail_after(60):
        try:
            async with Agent(From(odd), processors=SHAPES[shape]).stream("q") as stream:
                async for _ in stream:
                    pass
        except (UsageError, TypeError):
            pass
    assert closed == [True]
