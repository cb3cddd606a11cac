"""Requests that are given up: by leaving, by cancelling, by a timeout around one pull; and how they ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from penstock import (
    Agent,
    Chunk,
    InputContext,
    LLMResponseContext,
    MessageList,
    ModelError,
    OutputResultContext,
    OutputStepContext,
    Processor,
    Tool,
    ToolCallContext,
    Workflow,
    processor,
)
from penstock.engine.processor.state import RunEnd
from penstock.engine.values.model import ModelRequest
from penstock.testing import ScriptedModel
from penstock.workflows import AgentStream
from tests.waiting import cancelled_when_all_wait
from tests.workflows.agent.waiting import Waits

pytestmark = pytest.mark.anyio


class Stuck:
    """A model that begins an answer, and then says no more.

    Attributes:
        streaming: how many answers have begun, and not ended.
        silent: is set when one says no more.
    """

    name = "stuck"

    def __init__(self) -> None:
        self.streaming = 0
        self.silent = anyio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield a piece, and wait."""
        self.streaming += 1
        try:
            yield Chunk("text-start", id="t")
            yield Chunk("text-delta", "half", "t")
            self.silent.set()
            await anyio.sleep_forever()
        finally:
            self.streaming -= 1


class Listens(Processor[dict[str, Any]]):
    """Is told how requests ended."""

    edits = "nothing"

    def __init__(self) -> None:
        self.told: list[RunEnd] = []

    def process_input(self, ctx: InputContext) -> None:
        """Wait for the end."""
        ctx.on_end(self.told.append)


async def upto(stream: AgentStream[Any], kind: str) -> list[str]:
    """Read a stream up to a chunk of that kind, and return the kinds."""
    seen: list[str] = []
    async for chunk in stream:
        seen.append(chunk.type)
        if chunk.type == kind:
            break
    return seen


async def test_a_timeout_around_one_pull_gives_the_request_up() -> None:
    """It does not pass for its end: what is read afterwards is an abort, and nobody takes it for complete."""
    model, listens, told = Stuck(), Listens(), list[str]()
    agent = Agent(model, processors=[listens])
    async with agent.stream("Hi", on_finish=lambda result: told.append(result.status)) as stream:
        chunks = stream.full_stream
        for _ in range(4):
            await anext(chunks)
        with anyio.move_on_after(0):
            await anext(chunks)
        assert (model.streaming, [chunk.type async for chunk in chunks]) == (0, ["abort"])
        assert (stream.status, await stream.text, len(await stream.messages)) == ("cancelled", "half", 1)
    assert ([end.completed for end in listens.told], told) == ([False], [])


async def test_a_timeout_around_a_field_gives_the_request_up() -> None:
    """As one around a pull."""
    listens = Listens()
    async with Agent(Stuck(), processors=[listens]).stream("Hi") as stream:
        with anyio.move_on_after(0):
            await stream.text
        assert (await stream.result).status == "cancelled"
    assert [end.completed for end in listens.told] == [False]


async def test_a_chunk_survives_the_cancellation_of_who_was_told_of_it() -> None:
    """It is the next that is read."""

    async def slow(_: Chunk) -> None:
        await anyio.lowlevel.checkpoint()

    async with Agent(ScriptedModel(["hello"])).stream("Hi", on_chunk=slow) as stream:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(stream.full_stream)
    async with Agent(ScriptedModel(["hello"])).stream("Hi", on_chunk=slow) as stream:
        chunks = stream.full_stream
        assert (await anext(chunks)).type == "start"


@pytest.mark.parametrize("leaves", [True, False])
async def test_the_last_chunk_is_the_last(leaves: bool) -> None:
    """Behind it there is nothing left to cancel: the request has ended as it says, and the caller's function knows."""
    listens, told = Listens(), list[str]()
    agent = Agent(ScriptedModel(["hello"]), processors=[listens])
    async with agent.stream("Hi", on_finish=lambda result: told.append(result.text)) as stream:
        async for chunk in stream:
            if chunk.type == "finish":
                if leaves:
                    break
                stream.cancel()
    assert (stream.status, await stream.text, told) == ("success", "hello", ["hello"])
    assert [end.completed for end in listens.told] == [True]


async def test_a_verdict_stands_though_the_caller_cancels_behind_it() -> None:
    """There is one end."""

    @processor
    def guard(ctx: OutputStepContext) -> None:
        ctx.abort("not this")

    async with Agent(ScriptedModel(["hello"]), processors=[guard]).stream("Hi", release="live") as stream:
        seen = [await upto(stream, "retract")]
        stream.cancel()
    assert (seen[0][-1], stream.status, (await stream.result).text) == ("retract", "blocked", "")


@pytest.mark.parametrize("last", ["retract", "step-finish"])
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("stage", ["process_output_stream", "process_output_step"])
async def test_a_rejected_attempt_says_nothing_though_the_caller_cancels_behind_it(
    stage: str, last: str, *, leaves: bool
) -> None:
    """Its text was sent and retracted: the cancelled request does not tell it again."""

    class Rejects(Processor[dict[str, Any]]):
        edits = "nothing"

    def rejects(_self: object, *given: Any) -> Any:
        if stage == "process_output_step" or given[0].type == "text-end":
            given[-1].abort("not this", retry=True)
        return given[0]

    setattr(Rejects, stage, rejects)
    agent = Agent(ScriptedModel(["secret", "fine"]), processors=[Rejects()], max_processor_retries=1)
    async with agent.stream("Hi", release="live") as stream:
        await upto(stream, last)
        if not leaves:
            stream.cancel()
    assert (stream.status, await stream.text, len(await stream.messages)) == ("cancelled", "", 1)


async def test_a_text_is_told_once_though_the_next_answer_is_held() -> None:
    """The start of the next step is held with it, so the end of the first one says that its text is told."""

    @processor
    def looks(ctx: OutputStepContext) -> None:
        """Judge, after the stream."""

    stuck = Stuck()

    class HangsLater(ScriptedModel):
        def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            return stuck.stream(request) if self.requests else super().stream(request)

    async def ask() -> str:
        return "told"

    async def cancels() -> None:
        while not stuck.streaming:
            await anyio.lowlevel.checkpoint()
        stream.cancel()

    turn = {"text": "first", "tool_calls": [{"name": "ask", "arguments": {}}]}
    agent = Agent(HangsLater([turn]), tools=[Tool(ask, name="ask")], processors=[looks])
    async with agent.stream("Hi", release="step") as stream, anyio.create_task_group() as group:
        group.start_soon(cancels)
        assert (await upto(stream, "never"))[-2:] == ["step-finish", "abort"]
    assert (stream.status, await stream.text) == ("cancelled", "first")


async def test_an_error_stands_though_the_caller_leaves_behind_it() -> None:
    """The field tells; whoever left is not told again."""
    agent = Agent(ScriptedModel([{"error": {"status": 400, "message": "no"}}]))
    async with agent.stream("Hi") as stream:
        await upto(stream, "error")
    result = await stream.result
    assert (result.status, type(result.error)) == ("failed", ModelError)


@pytest.mark.parametrize("release", ["live", "step"])
async def test_an_answer_that_broke_on_the_way_to_its_verdict_stays_nowhere(release: Any) -> None:
    """What no stage has accepted is not in the history, neither as the field nor as the end tells it."""

    class Breaks(Listens):
        edits = "anything"

        def process_llm_response(self, ctx: LLMResponseContext) -> None:
            """See it."""

        def process_output_step(self, ctx: OutputStepContext) -> None:
            raise ZeroDivisionError

    breaks = Breaks()
    breaks.on_error = "raise"
    agent = Agent(ScriptedModel(["secret"]), processors=[breaks])
    async with agent.stream("Hi", release=release) as stream:
        with pytest.raises(Exception, match="process_output_step"):
            await upto(stream, "never")
    assert [message.role for message in (await stream.result).messages] == ["user"]
    assert [message.role for message in breaks.told[0].message_list.conversation] == ["user"]


async def test_an_answer_that_is_left_while_it_is_sent_stays_nowhere() -> None:
    """Though a later stage has let it pass: nobody has got it."""

    @processor
    def looks(ctx: OutputStepContext) -> None:
        """Judge, after the stream."""

    async with Agent(ScriptedModel(["hello"]), processors=[looks]).stream("Hi") as stream:
        await upto(stream, "text-start")
    assert ((await stream.result).text, len((await stream.result).messages)) == ("", 1)


@pytest.mark.parametrize("mode", ["overlap", "shadow"])
async def test_what_goes_on_beside_ends_with_the_request(mode: str) -> None:
    """A check or a shadow that hangs does not outlive it, nor make an error of its own."""
    ended: list[str] = []
    hangs, scope = anyio.Event(), anyio.CancelScope()

    class Hangs(Processor[dict[str, Any]]):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            hangs.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(mode)

    guard = Workflow("guard")
    guard = guard.then(Hangs(), overlap="model") if mode == "overlap" else guard.then(Hangs(), mode="shadow")
    model = Stuck()

    async def cancels() -> None:
        await hangs.wait()
        await model.silent.wait()
        scope.cancel()

    with anyio.fail_after(60):
        async with Agent(model, processors=[guard]).stream("Hi") as stream, anyio.create_task_group() as group:
            group.start_soon(cancels)
            chunks = stream.full_stream
            with scope:
                while True:
                    await anext(chunks)
            assert [chunk.type async for chunk in chunks] == ["abort"]
    assert (ended, model.streaming, stream.status) == ([mode], 0, "cancelled")


async def test_a_failure_before_the_model_is_not_hidden_by_checks_that_never_ran() -> None:
    """Whoever catches it within the stream leaves without another."""

    class Check(Processor[dict[str, Any]]):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            """Look."""

    class Breaks(Processor[dict[str, Any]]):
        def process_input_step(self, ctx: Any) -> None:
            raise ZeroDivisionError

    guard = Workflow("guard").then(Check(), overlap="model")
    async with Agent(ScriptedModel(["never"]), processors=[guard, Breaks()]).stream("Hi") as stream:
        with pytest.raises(Exception, match="process_input_step"):
            await upto(stream, "never")
    assert stream.status == "failed"


async def test_a_verdict_is_worth_more_than_an_error_beside_it() -> None:
    """A check beside the model rejects while a hook of the stream breaks: the request is blocked, and does not fail."""
    broke = anyio.Event()

    class Check(Processor[dict[str, Any]]):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            await broke.wait()
            ctx.abort("not this")

    class Breaks(Processor[dict[str, Any]]):
        on_error = "raise"

        async def process_output_stream(self, chunk: Chunk, ctx: Any) -> Chunk:
            broke.set()
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            raise ZeroDivisionError

    agent = Agent(ScriptedModel(["hello"]), processors=[Workflow("guard").then(Check(), overlap="model"), Breaks()])
    result = await agent.generate("Hi")
    assert (result.status, result.text, result.error) == ("blocked", "", None)


@pytest.mark.parametrize("ends", ["verdict", "cancel"])
async def test_a_hook_of_the_stream_that_hangs_holds_up_no_end(ends: str) -> None:
    """Neither the verdict of a check beside the model, nor a caller who gives the request up meanwhile."""
    goes, hook = anyio.Event(), Waits("process_output_stream")

    class Check(Processor[dict[str, Any]]):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            await goes.wait()
            ctx.abort("not this")

    async def end() -> None:
        await hook.reached.wait()
        if ends == "verdict":
            goes.set()
        else:
            stream.cancel()

    agent = Agent(ScriptedModel(["hello"]), processors=[Workflow("guard").then(Check(), overlap="model"), hook])
    with anyio.fail_after(60):
        async with agent.stream("Hi") as stream, anyio.create_task_group() as group:
            group.start_soon(end)
            seen = await upto(stream, "never")
    told = await stream.result
    assert seen == ["start", "tripwire" if ends == "verdict" else "abort"]
    assert (told.status, told.text) == ("blocked" if ends == "verdict" else "cancelled", "")
    assert (hook.cancelled, [one.completed for one in hook.told]) == (True, [False])


async def test_a_call_that_was_taken_out_at_the_end_waits_for_nobody() -> None:
    """What waits is what stands in the conversation."""
    ask = Tool.external("ask")
    turn = {"text": "well", "tool_calls": [{"id": "c1", "name": "ask", "args": {}}]}

    @processor
    def removes(ctx: OutputResultContext) -> MessageList:
        return ctx.message_list.remove(ctx.messages[-1].id)

    result = await Agent(ScriptedModel([turn]), tools=[ask], processors=[removes]).generate("Hi")
    assert (result.status, result.pending, result.text) == ("success", (), "")


async def test_what_the_last_stage_could_not_judge_stays_nowhere() -> None:
    """Though its text was sent already: one processor has taken words out of it, and the next one broke."""

    class Hides(Processor[dict[str, Any]]):
        def process_output_result(self, ctx: OutputResultContext) -> MessageList:
            return ctx.message_list.map_text(lambda text: text.replace("secret", "[x]"))

    class Breaks(Processor[dict[str, Any]]):
        on_error = "raise"

        def process_output_result(self, ctx: OutputResultContext) -> None:
            raise ZeroDivisionError

    agent = Agent(ScriptedModel(["a secret"]), processors=[Hides(), Breaks()], release="live")
    async with agent.stream("Hi") as stream:
        with pytest.raises(Exception, match="process_output_result"):
            await stream.result
    result = await stream.result
    assert (result.status, result.text, len(result.messages)) == ("failed", "", 1)


async def _ask() -> str:
    return "told"


def _two_answers(**options: Any) -> Agent:
    """Return an agent that answers in two steps."""
    turns = [{"text": "first", "tool_calls": [{"name": "ask", "args": {}}]}, {"deltas": ["sec", "ond"]}]
    return Agent(ScriptedModel(turns), tools=[Tool(_ask, name="ask")], **options)


@pytest.mark.parametrize("release", ["live", "step", "result"])
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize(("texts", "text", "answers"), [(1, "first", 0), (2, "firstsec", 1), (3, "firstsecond", 1)])
async def test_a_cancelled_request_tells_what_was_sent(
    release: Any, texts: int, text: str, answers: int, *, leaves: bool
) -> None:
    """However long its answers were held: an answer is in the history when it was sent whole."""
    async with _two_answers().stream("Hi", release=release) as stream:
        chunks = stream.full_stream
        while texts:
            texts -= (await anext(chunks)).type == "text-delta"
        if not leaves:
            stream.cancel()
    result = await stream.result
    assert (result.status, result.text) == ("cancelled", text)
    assert len(result.response.messages) == len(result.messages) - 1 == answers


class JudgesCalls(Processor[dict[str, Any]]):
    """Takes the arguments out of calls; waits for ever before, if it is told so."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.hangs = hangs

    async def process_tool_call(self, ctx: ToolCallContext) -> dict[str, Any]:
        """Judge a call."""
        if self.hangs:
            await anyio.sleep_forever()
        return {"word": "[x]"}


def _calling(guard: JudgesCalls, **options: Any) -> Agent:
    def say(word: str) -> str:
        return word

    calls = [{"id": f"c{number}", "name": "say", "args": {"word": "secret"}} for number in range(2)]
    return Agent(
        ScriptedModel([{"text": "well", "tool_calls": calls}]),
        tools=[Tool(say, name="say", approval="approve" in options)],
        processors=[guard],
        **options,
    )


@pytest.mark.parametrize("release", ["live", "step", "result"])
async def test_a_call_that_nothing_has_judged_is_told_to_nobody(release: Any) -> None:
    """Its answer is not accepted while `process_tool_call` waits; what was sent of the text is told."""
    async with _calling(JudgesCalls(hangs=True)).stream("Hi", release=release) as stream, cancelled_when_all_wait():
        await upto(stream, "never")
    result = await stream.result
    assert (result.status, result.steps, len(result.messages)) == ("cancelled", (), 1)
    assert result.text == ("" if release == "result" else "well")


@pytest.mark.parametrize(("at", "told"), [("tool-call", 0), ("approval", 2)])
async def test_calls_are_told_as_their_guards_left_them(at: str, told: int) -> None:
    """From the moment at which all of them were judged and sent."""

    async def approve(_: object) -> bool:
        await anyio.sleep_forever()
        return True

    options: dict[str, Any] = {"approve": approve} if at == "approval" else {}
    async with _calling(JudgesCalls(), **options).stream("Hi") as stream, cancelled_when_all_wait():
        await upto(stream, at)
    result = await stream.result
    assert (result.status, result.text) == ("cancelled", "well")
    assert [call.arguments for step in result.steps for call in step.tool_calls] == [{"word": "[x]"}] * told
    assert "secret" not in repr(result.messages)
