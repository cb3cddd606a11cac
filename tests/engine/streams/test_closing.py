"""How a stream is closed, and what stops it from outside: whatever happens, its source does not stay open."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from penstock import (
    BatchPartsProcessor,
    Chunk,
    InputContext,
    ModelError,
    OutputStreamContext,
    Processor,
    Workflow,
)
from penstock.engine import StepFailedError, UsageError
from tests.engine.streams.toys import Rule, Toy
from tests.garbage import garbage_of


class Refuse(Processor):
    """Refuses every question."""

    edits = "nothing"

    def process_input(self, ctx: InputContext) -> None:
        """Refuse it."""
        ctx.abort("closed")


class Keep(Processor):
    """Gives every chunk back."""

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Return it."""
        return chunk


class Endless:
    """Gives one piece, and then nothing for ever; tells whether it was closed."""

    def __init__(self) -> None:
        self.closed = False
        self.given = False
        self.silent = anyio.Event()

    def __aiter__(self) -> Endless:
        """Return itself."""
        return self

    async def __anext__(self) -> str:
        """Give the piece, or wait."""
        if self.given:
            self.silent.set()
            await anyio.Event().wait()
        self.given = True
        return "a piece. "

    async def aclose(self) -> None:
        """Note it."""
        self.closed = True


GRAPHS = {
    "hooks": Workflow("w").then(Refuse()).then(Keep()),
    "guard": Workflow("w").then(Refuse()).then(Toy(Rule("secret", "redact"))),
}
graphs = pytest.mark.parametrize("graph", GRAPHS)


@graphs
async def test_a_source_is_closed_also_where_the_stream_cannot_be(graph: str) -> None:
    """A stream that another task still reads cannot be closed; its source is, and the mistake comes out."""
    source = Endless()

    async def read(chunks: Any) -> None:
        async for _ in chunks:
            pass

    async def leave(group: Any) -> None:
        async with GRAPHS[graph].start() as run, run.process_output_stream(source) as chunks:
            group.start_soon(read, chunks)
            with anyio.fail_after(60):
                await source.silent.wait()

    async with anyio.create_task_group() as group:
        with pytest.raises(RuntimeError, match="already running"):
            await leave(group)
        group.cancel_scope.cancel()

    assert source.closed


@graphs
async def test_a_stream_is_stopped_by_what_stops_its_run(graph: str) -> None:
    """Another call of the run that trips while the answer streams lets no more of it out."""
    source = Endless()
    async with GRAPHS[graph].start() as run, run.process_output_stream(source) as chunks:
        taken = chunks.__aiter__()
        first = await taken.__anext__()
        source.given = False  # it has another piece
        await run.process_input("a question")
        last = [chunk async for chunk in taken]

    assert "a piece. ".startswith(first.text)
    assert [chunk.type for chunk in last] == ["retract", "tripwire"]
    assert source.closed


class Beside(Processor):
    """A check beside the model that trips or breaks, if it is told to."""

    edits = "nothing"
    role = "guard"
    on_error = "raise"

    def __init__(self, does: str) -> None:
        self.does = does

    def process_input(self, ctx: InputContext) -> None:
        """Do it."""
        if self.does == "trip":
            ctx.abort("not this question")
        if self.does == "break":
            raise ValueError("broken")


@pytest.mark.parametrize(("does", "left"), [("pass", ["text-delta"]), ("trip", ["tripwire"])])
def test_checks_beside_the_model_judge_before_a_sync_stream_begins(does: str, left: list[str]) -> None:
    """Nothing runs beside a stream in sync form, so nothing of it is read before they have judged."""
    run = Workflow("w").then(Beside(does), overlap="model").start_sync(overlap=True)
    assert not run.process_input("a question").blocked
    read: list[str] = []

    def source() -> Any:
        read.append("it")
        yield "an answer"

    with run.process_output_stream(source()) as chunks:
        assert [chunk.type for chunk in chunks] == left
    assert read == (["it"] if does == "pass" else [])
    assert chunks.outcome is not None
    assert chunks.outcome.blocked == (does == "trip")


def test_a_check_that_breaks_before_a_sync_stream_raises() -> None:
    """Nothing of the answer is read."""
    run = Workflow("w").then(Beside("break"), overlap="model").start_sync(overlap=True)
    run.process_input("a question")
    with (
        run.process_output_stream(functools.partial(pytest.fail, "read")() for _ in [1]) as chunks,
        pytest.raises(StepFailedError, match="'beside'"),
    ):
        list(chunks)


async def test_a_run_that_was_not_entered_has_no_room_for_async_shadows() -> None:
    """It says how to make room."""

    class Waits(Keep):
        """Waits."""

        async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:  # type: ignore[override]
            """Return it."""
            return chunk

    workflow = Workflow("w").then(Waits(), mode="shadow")
    with pytest.raises(UsageError, match="async with workflow"):
        async with workflow.start().process_output_stream(["a"]) as chunks:
            _ = [chunk async for chunk in chunks]


@pytest.mark.parametrize("shield", [False, True])
async def test_a_source_that_was_cut_off_has_not_ended(*, shield: bool) -> None:
    """The task that reads it is cancelled before its reader: that raises the cancellation or, in a shield, an error."""
    closed = anyio.Event()

    async def source() -> AsyncIterator[str]:
        try:
            yield "a piece. "
            pytest.fail("read on")
        finally:
            closed.set()

    workflow = Workflow("w").then(BatchPartsProcessor(batch_characters=5, max_wait_time=60))
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        async with workflow.start() as run, run.process_output_stream(source()) as chunks:
            pieces = aiter(chunks)
            assert (await anext(pieces)).text == "a piece. "
            with anyio.CancelScope(shield=True):
                scope.cancel()
                await closed.wait()
                if shield:
                    with pytest.raises(ModelError, match="broke off"):
                        await anext(pieces)
            await anext(pieces, None)
    assert (scope.cancelled_caught, chunks.outcome) == (not shield, None)


@pytest.mark.parametrize("ends", [False, True])
async def test_what_waits_for_a_check_that_is_cancelled_does_not_leave(*, ends: bool) -> None:
    """There is no verdict, though the source ends, and though the one who reads has a shield."""
    begun, ended = anyio.Event(), anyio.Event()
    left: list[Chunk] = []

    class Hangs(Processor):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

    async def source() -> AsyncIterator[str]:
        yield "a secret"
        await begun.wait()
        with anyio.CancelScope(shield=ends):
            scope.cancel()
            await ended.wait()

    workflow = Workflow("w").then(Hangs(), overlap="model")
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        async with workflow.start(overlap=True) as run:
            await run.process_input("a question")
            async with run.process_output_stream(source()) as chunks:
                with anyio.CancelScope(shield=True), pytest.raises(UsageError if ends else ModelError, match="cancel"):
                    left += [chunk async for chunk in chunks]
            await anyio.lowlevel.checkpoint()
    assert (left, scope.cancelled_caught, chunks.outcome) == ([], True, None)


LEAVE_NOTHING = {
    "nothing": Workflow("w"),
    "a hook": Workflow("w").then(Keep()),
    "a guard": Workflow("w").then(Toy(Rule("secret", "redact"))),
    "a guard and a hook": Workflow("w").then(Toy(Rule("secret", "redact"))).then(Keep()),
    "guards beside one another": Workflow("w").parallel(Toy(Rule("secret", "redact")), Toy(Rule("word", "redact"))),
}


class Listens:
    """An observer of events, so that the stream measures what it holds."""

    def on_record(self, record: Any) -> None:
        """Do nothing."""

    def on_event(self, event: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("options", [{}, {"records": True, "texts": True}, {"observers": [Listens()]}])
@pytest.mark.parametrize("shape", LEAVE_NOTHING)
async def test_a_stream_leaves_nothing_for_the_garbage_collector(shape: str, options: dict[str, Any]) -> None:
    """It is freed when it is closed: what has to be collected makes each collection longer, for all streams."""

    async def stream() -> str:
        pieces = ["a ", "sec", "ret ", "word"]
        async with LEAVE_NOTHING[shape].start(**options) as run, run.process_output_stream(pieces) as chunks:
            return "".join([chunk.text async for chunk in chunks])

    assert (await stream()).startswith("a ")
    assert await garbage_of(stream) == 0
