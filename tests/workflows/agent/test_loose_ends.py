"""What an agent makes of answers that are renamed, calls that are dropped, data that is written, and ends that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from penstock import (
    Agent,
    APIErrorContext,
    Chunk,
    InputStepContext,
    LLMRequestContext,
    MessageList,
    ModelError,
    OutputResultContext,
    OutputStepContext,
    OutputStreamContext,
    Retry,
    TextPart,
    processor,
)
from penstock.engine import DataPart, StepFailedError
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio

CALL = {"tool_calls": [{"id": "c1", "name": "lookup", "args": {"q": "x"}}]}


def lookup(q: str) -> str:
    """Look something up."""
    return q


async def test_an_answer_that_is_renamed_is_still_the_steps() -> None:
    """Its text stays the request's."""

    @processor
    def rename(ctx: OutputResultContext[Any]) -> Any:
        return [replace(message, id=f"new-{message.id}") for message in ctx.messages]

    result = await Agent(ScriptedModel(["hello"]), processors=[rename]).generate("Hi")
    assert (result.text, result.steps[0].text) == ("hello", "hello")
    assert result.messages[-1].id.startswith("new-")


async def test_a_model_whose_call_was_dropped_is_asked_again() -> None:
    """It wanted to go on; the call is neither made nor remembered."""

    @processor
    def drop(chunk: Chunk, ctx: OutputStreamContext[Any]) -> Any:
        return None if chunk.type == "tool-call" else chunk

    model = ScriptedModel([CALL, "done"])
    result = await Agent(model, tools=[lookup], processors=[drop]).generate("Hi")
    assert (result.text, len(model.requests)) == ("done", 2)
    assert [message.role for message in model.requests[1].messages] == ["user"]


async def test_a_model_that_only_says_that_it_calls_is_not_asked_again() -> None:
    """Without any call there is nothing to go on with."""
    model = ScriptedModel([{"text": "so", "finish_reason": "tool-calls"}])
    assert (await Agent(model).generate("Hi")).text == "so"
    assert len(model.requests) == 1


@pytest.mark.parametrize("held", [False, True])
async def test_data_is_kept_where_it_was_written(held: bool) -> None:
    """In its step's answer, whether or not that is held until the whole was judged."""

    def writing(name: str) -> Chunk:
        return Chunk("data-note", payload={"data": name})

    @processor
    def before(ctx: InputStepContext[Any]) -> None:
        ctx.writer.write(writing(f"before {ctx.step_number}"))

    @processor
    def behind(ctx: OutputStepContext[Any]) -> None:
        ctx.writer.write(writing(f"behind {ctx.step_number}"))

    @processor
    def judge(ctx: OutputResultContext[Any]) -> None:
        ctx.note(looked=True)

    agent = Agent(
        ScriptedModel([CALL, "done"]), tools=[lookup], processors=[before, behind, *([judge] if held else [])]
    )
    result = await agent.generate("Hi")
    kept = [[part.data for part in message.parts if isinstance(part, DataPart)] for message in result.messages[1:]]
    assert kept == [["before 0", "behind 0"], ["before 1", "behind 1"]]
    assert isinstance(result.messages[-1].parts[1], TextPart)


async def test_a_processor_that_breaks_ends_the_stream_with_its_error() -> None:
    """No finish follows: nothing has finished."""

    @processor
    def broken(ctx: InputStepContext[Any]) -> None:
        raise ValueError("bug")

    seen: list[str] = []

    async def read(chunks: AsyncIterator[Chunk]) -> None:
        async for chunk in chunks:
            seen.append(chunk.type)  # noqa: PERF401 - what came before the error counts

    async with Agent(ScriptedModel(["hello"]), processors=[broken]).stream("Hi") as stream:
        with pytest.raises(StepFailedError):
            await read(stream.full_stream)
        assert (seen, stream.status, await stream.text) == (["start", "error"], "failed", "")


async def test_a_failed_call_that_is_blocked_is_a_step_with_the_verdict() -> None:
    """As any other attempt."""

    @processor
    def give_up(ctx: APIErrorContext[Any]) -> None:
        ctx.abort("giving up")

    model = ScriptedModel([{"error": {"status": 500, "message": "down"}}])
    result = await Agent(model, processors=[give_up]).generate("Hi")
    assert (result.status, [step.finish_reason for step in result.steps]) == ("blocked", ["other"])
    assert result.steps[0].tripwire == result.tripwire


async def test_a_handler_that_breaks_does_not_hide_what_the_model_failed_with() -> None:
    """Its error carries a note."""

    @processor
    def broken(ctx: APIErrorContext[Any]) -> None:
        raise ValueError("bug")

    model = ScriptedModel([{"error": {"status": 500, "message": "down"}}])
    with pytest.raises(StepFailedError) as caught:
        await Agent(model, processors=[broken]).generate("Hi")
    assert "down" in caught.value.__notes__[0]
    assert not isinstance(caught.value, ModelError)


async def test_steps_are_told_as_their_answers_stand_by_now() -> None:
    """What was redacted since is read by no later stage, the one for failed calls included."""
    seen: list[list[str]] = []

    @processor(edits="spans")
    def redact(ctx: InputStepContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace("hunter2", "…"), ctx.messages)

    @processor(edits="nothing")
    def look(ctx: LLMRequestContext) -> None:
        seen.append([step.text for step in ctx.steps or ()])

    @processor(edits="nothing")
    def again(ctx: APIErrorContext) -> Retry:
        seen.append([step.text for step in ctx.steps or ()])
        return Retry()

    turns = [{"text": "hunter2", **CALL}, {"error": "down"}, "done"]
    agent = Agent(ScriptedModel(turns), tools=[lookup], processors=[redact, look], error_processors=[again])
    result = await agent.generate("Hi")
    assert seen == [[], ["…"], ["…"], ["…", ""]]
    assert [step.text for step in result.steps] == ["…", "", "done"]
