"""What an agent makes of answers that are renamed, calls that are dropped, data that is written, and ends that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
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
    RegexFilterProcessor,
    Retry,
    TextPart,
    Workflow,
    processor,
)
from penstock.engine import DataPart, ModelRequest, PenstockError, StepFailedError, UsageError
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


async def test_an_error_processor_that_breaks_is_logged_and_the_next_one_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the model's error is the one that is raised, whatever shape the processors stand in."""

    @processor(edits="nothing")
    def broken(ctx: APIErrorContext[Any]) -> None:
        raise ValueError("bug")

    @processor(edits="nothing")
    async def hangs(ctx: APIErrorContext[Any]) -> None:
        await anyio.sleep_forever()

    @processor
    def again(ctx: APIErrorContext[Any]) -> Retry | None:
        return Retry() if ctx.retry_count == 0 else None

    down = {"error": {"status": 500, "message": "down"}}
    late = Workflow("late").then(Workflow("inner").then(hangs), timeout=0.01)
    for first in (broken, Workflow("w").then(broken), late, Workflow("p").parallel(broken, hangs, timeout=0.01)):
        caplog.clear()
        with pytest.raises(ModelError, match="down"):
            await Agent(ScriptedModel([down]), processors=[first], max_error_retries=0).generate("Hi")
        assert "failed in process_api_error" in caplog.text
        agent = Agent(ScriptedModel([down, "ok"]), processors=[first], error_processors=[again])
        assert (await agent.generate("Hi")).text == "ok"


class Speaks:
    """A model that says two pieces, and then perhaps breaks."""

    name = "speaks"

    def __init__(self, *, breaks: bool = False) -> None:
        self._breaks = breaks

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield them."""
        yield Chunk("text-delta", "Hello. ", "t1")
        yield Chunk("text-delta", "BAD", "t1")
        if self._breaks:
            raise ValueError
        yield Chunk("finish", payload={"reason": "stop"})


async def test_what_had_left_before_a_verdict_is_retracted_once_whoever_gives_it() -> None:
    """A hook of the stream, a guard, a chunk behind the answer, a processor of errors, or a stage in live release."""

    @processor(edits="nothing")
    def hook(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        if "BAD" in chunk.text:
            ctx.abort("no")
        return chunk

    @processor(edits="nothing")
    def at_the_end(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        if chunk.type == "step-finish":
            ctx.abort("no")
        return chunk

    @processor(edits="nothing")
    def gives_up(ctx: APIErrorContext[Any]) -> None:
        ctx.abort("no")

    @processor(edits="nothing")
    def later(ctx: OutputStepContext) -> None:
        ctx.abort("no")

    guard = RegexFilterProcessor([{"name": "bad", "pattern": "BAD"}])
    for item in (hook, guard, at_the_end, gives_up, later):
        agent = Agent(Speaks(breaks=item is gives_up), processors=[item], release="live")
        async with agent.stream("Hi") as stream:
            chunks = [chunk async for chunk in stream]
        assert [chunk.type for chunk in chunks[-2:]] == ["retract", "tripwire"], item
        assert [chunk.payload["blocks"] for chunk in chunks if chunk.type == "retract"] == [("t1",)]
        assert await stream.text == ""


async def test_an_answer_that_is_held_is_never_retracted() -> None:
    """Nothing of it had left."""
    guard = RegexFilterProcessor([{"name": "bad", "pattern": "BAD"}])
    for release in ("step", "result"):
        async with Agent(Speaks(), processors=[guard], release=release).stream("Hi") as stream:
            kinds = [chunk.type async for chunk in stream]
        assert kinds in (["start", "tripwire"], ["start", "step-start", "tripwire"])


async def test_a_repeated_call_retracts_each_text_of_which_a_piece_had_left() -> None:
    """In the order in which they began; not one that was empty, held or dropped."""

    class BreaksOnce:
        name = "breaks once"

        def __init__(self) -> None:
            self.calls = 0

        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            self.calls += 1
            if self.calls == 1:
                yield Chunk("text-start", id="empty")
                yield Chunk("text-delta", "", id="empty")
                for kind, text, id in (("reasoning", "so", "r1"), ("text", "a", "t1"), ("text", "drop", "t2")):
                    yield Chunk(f"{kind}-start", id=id)
                    yield Chunk(f"{kind}-delta", text, id=id)
                yield Chunk("reasoning-delta", "so", id="r1")
                raise ModelError("m", "down", retryable=True)
            yield Chunk("text-delta", "fine", id="t1")
            yield Chunk("finish", payload={"reason": "stop"})

    @processor(edits="anything")
    def drop(chunk: Chunk, ctx: OutputStreamContext) -> Chunk | None:
        return None if chunk.text == "drop" else chunk

    @processor
    def again(ctx: APIErrorContext[Any]) -> Retry:
        return Retry()

    for release in ("live", "step", "result"):
        async with Agent(BreaksOnce(), processors=[drop, again], release=release).stream("Hi") as stream:
            chunks = [chunk async for chunk in stream]
        retracted = [chunk.payload["blocks"] for chunk in chunks if chunk.type == "retract"]
        assert (retracted, await stream.text) == ([("r1", "t1")] if release == "live" else [], "fine")


async def test_an_error_processor_that_blocks_if_it_breaks_still_blocks() -> None:
    """It was asked for."""

    @processor
    def broken(ctx: APIErrorContext[Any]) -> None:
        raise ValueError("bug")

    @processor
    async def hangs(ctx: APIErrorContext[Any]) -> None:
        await anyio.sleep_forever()

    down = {"error": {"status": 500, "message": "down"}}
    placed = Workflow("w").then(broken, on_error="block"), Workflow("w").then(hangs, on_error="block", timeout=0.01)
    for workflow in placed:
        assert (await Agent(ScriptedModel([down]), processors=[workflow]).generate("Hi")).status == "blocked"

    @processor
    def again(ctx: APIErrorContext[Any]) -> Retry:
        return Retry()

    workflow = Workflow("w").then(broken, on_error=again)
    assert (await Agent(ScriptedModel([down, "ok"]), processors=[workflow]).generate("Hi")).text == "ok"


SECRET = "joe.secret@example.com"


class CustomError(PenstockError):
    """An error of an application, made of ours."""


class Failing:
    """A model that fails with an error, after a piece of text."""

    name = "failing"

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield a piece, and raise."""
        yield Chunk("text-delta", "Hello", "t")
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        ModelError("m", f"invalid input: {SECRET}", status=400, code=SECRET, body=SECRET, headers={"x": SECRET}),
        ModelError("m", SECRET),
        UsageError(SECRET),
        CustomError(SECRET),
        ValueError(SECRET),
    ],
)
async def test_what_an_error_says_is_for_the_caller_and_not_for_the_client(error: Exception) -> None:
    """A provider's message often quotes the request, and no guard has read it."""
    chunks: list[Chunk] = []
    raised: list[Exception] = []
    with pytest.raises(type(error)) as caught:
        await Agent(Failing(error)).generate("Hi", on_chunk=chunks.append, on_error=raised.append)
    assert caught.value is error
    assert raised == [error]
    assert SECRET not in repr(chunks)
    told = next(chunk for chunk in chunks if chunk.type == "error").payload
    assert told["error"] == type(error).__name__
    assert "exception" in told["message"]
    assert told.get("status") == getattr(error, "status", None)


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
