"""Answers that wait for the last stage, while a loop goes on: what follows them, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    Chunk,
    InputContext,
    InputStepContext,
    Message,
    OutputResultContext,
    Processor,
    ToolPart,
    Workflow,
)
from penstock.engine import RunEnd, Usage
from penstock.engine.run.run import Run

pytestmark = pytest.mark.anyio

END = Chunk("finish", payload={"reason": "stop", "usage": {"input_tokens": 1, "output_tokens": 2}})


class Last(Processor[dict[str, Any]]):
    """Judges at the very end; aborts before a model call if told so."""

    def __init__(self, *, stop_at: int | None = None, told: list[RunEnd] | None = None) -> None:
        self.stop_at = stop_at
        self.told = [] if told is None else told

    def process_input(self, ctx: InputContext) -> None:
        ctx.on_end(self.told.append)

    def process_input_step(self, ctx: InputStepContext) -> None:
        if ctx.step_number == self.stop_at:
            ctx.abort("no")

    def process_output_result(self, ctx: OutputResultContext) -> None:
        """Let everything pass."""


async def answered(run: Run, text: str) -> list[Chunk]:
    """Play a model step whose answer is no last one; return what leaves."""
    await run.process_input_step()
    async with run.process_output_stream([text, END], last=False) as stream:
        left = [chunk async for chunk in stream]
    assert stream.judged is not None
    assert stream.judged.details["usage"] == Usage(1, 2)
    return left


async def test_what_follows_a_held_answer_leaves_behind_it() -> None:
    """Results of tools leave with the answer that they belong to."""
    run = Workflow("w").then(Last()).start()
    await run.process_input("hi")
    assert await answered(run, "one") == []
    result = Chunk("tool-result", id="c", payload={"call_id": "c", "name": "t", "result": 1})
    assert run.releasable([result, Chunk("step-finish", payload={"reason": "tool-calls"})]) == ()
    assert await answered(run, "two") == []
    sent = (await run.process_output_result()).chunks
    assert [chunk.text or chunk.type for chunk in sent] == ["one", "finish", "step-finish", "two", "finish"]
    assert run.releasable([END]) == (END,)


async def test_a_verdict_before_the_end_takes_back_what_nobody_has_judged() -> None:
    """It is in no conversation that anybody is told of."""
    told: list[RunEnd] = []
    async with Workflow("w").then(Last(stop_at=1, told=told)).start() as run:
        await run.process_input("hi")
        await answered(run, "one")
        outcome = await run.process_input_step()
        assert outcome.blocked
        assert [message.text for message in outcome.message_list] == ["hi"]
    assert [message.text for message in told[0].message_list] == ["hi"]


@pytest.mark.parametrize("given_up", [True, False])
async def test_a_run_that_is_given_up_leaves_no_answer_that_waits(given_up: bool) -> None:
    """Whoever gives it up says so, and then it is not completed; or just leaves."""
    told: list[RunEnd] = []
    async with Workflow("w").then(Last(told=told)).start() as run:
        await run.process_input("hi")
        await answered(run, "one")
        if given_up:
            run.abandon()
    assert [message.text for message in told[0].message_list] == ["hi"]
    assert told[0].completed is not given_up


async def test_chunks_of_no_answer_pass_the_guards_of_the_stream_alone() -> None:
    """A later stage is not waited for."""

    class Marks(Processor[dict[str, Any]]):
        def process_output_stream(self, chunk: Chunk, ctx: object) -> Chunk:
            return chunk.with_payload({"data": "seen"})

    run = Workflow("w").then(Marks()).then(Last()).start()
    await run.process_input("hi")
    async with run.process_output_chunks([Chunk("data-x", payload={"data": 1})]) as stream:
        assert [chunk.payload["data"] async for chunk in stream] == ["seen"]
    assert run.serves("process_output_stream")
    assert not run.serves("process_tool_call")
    assert not run.runs_beside_model


async def test_the_tokens_of_an_answer_may_be_told_in_another_form() -> None:
    """They are then told as they stand."""
    run = Workflow("w").then(Last()).start()
    await run.process_input("hi")
    end = Chunk("finish", payload={"reason": "stop", "usage": {"inputTokens": 1}})
    async with run.process_output_stream(["one", end], last=False) as stream:
        _ = [chunk async for chunk in stream]
    assert stream.judged is not None
    assert stream.judged.details["usage"] == {"inputTokens": 1}


async def test_a_tool_that_failed_is_told_as_one() -> None:
    """Its error stands in the place of a result."""
    seen: list[Any] = []

    class Looks(Processor[dict[str, Any]]):
        def process_tool_result(self, ctx: Any) -> None:
            seen.append((ctx.result, ctx.is_error))

    run = Workflow("w").then(Looks()).start()
    await run.process_input("hi")
    run.message_list = run.message_list.add(Message.assistant([ToolPart("c", "t")]))
    await run.process_tool_result("t", "it broke", call_id="c", is_error=True)
    assert seen == [("it broke", True)]
