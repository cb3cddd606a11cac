"""The tools of an agent: who runs what, when, and what of it is seen."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import (
    Agent,
    Answer,
    Chunk,
    InputStepContext,
    Message,
    OutputStreamContext,
    Processor,
    Tool,
    ToolCallContext,
    ToolPart,
    ToolResultContext,
    processor,
)
from penstock.engine import Overrides, TextEdits, ToolSpec, UsageError
from penstock.engine.values.edits import Edit
from penstock.testing import ScriptedModel
from penstock.tools import ToolContext

pytestmark = pytest.mark.anyio


def calling(*calls: tuple[str, Any], text: str = "") -> dict[str, Any]:
    """Return a turn that calls tools."""
    made = [{"id": f"c{number}", "name": name, "args": args} for number, (name, args) in enumerate(calls, 1)]
    return {"tool_calls": made, **({"text": text} if text else {})}


def parts_of(message: Message) -> list[ToolPart]:
    """Return the calls in a message."""
    return [part for part in message.parts if isinstance(part, ToolPart)]


async def test_calls_run_beside_each_other_and_are_answered_in_order() -> None:
    """The first waits for the second, which comes behind it in the answer."""
    second = anyio.Event()

    async def waits() -> str:
        await second.wait()
        return "first"

    async def wakes() -> str:
        second.set()
        return "second"

    agent = Agent(ScriptedModel([calling(("waits", {}), ("wakes", {})), "done"]), tools=[waits, wakes])
    with anyio.fail_after(60):
        async with agent.stream("Hi") as stream:
            results = [chunk.payload["result"] async for chunk in stream if chunk.type == "tool-result"]
    assert results == ["first", "second"]


async def test_a_tool_that_may_not_runs_alone() -> None:
    """Those before it have ended, those behind it have not begun."""
    log: list[str] = []

    async def note(word: str) -> None:
        log.append(f"{word} begins")
        await anyio.lowlevel.checkpoint()
        log.append(f"{word} ends")

    tools = {"free": note, "alone": Tool(note, concurrent=False)}
    turn = calling(("free", {"word": "a"}), ("alone", {"word": "b"}), ("free", {"word": "c"}))
    await Agent(ScriptedModel([turn, "done"]), tools=tools).generate("Hi")
    assert log == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


async def test_all_calls_are_judged_before_the_first_runs() -> None:
    """A verdict about the second keeps the first from running, and takes the answer back."""
    ran: list[str] = []

    def use(word: str) -> None:
        ran.append(word)

    @processor
    def guard(ctx: ToolCallContext) -> None:
        if ctx.arguments["word"] == "b":
            ctx.abort("not this")

    turn = calling(("use", {"word": "a"}), ("use", {"word": "b"}), text="I will")
    result = await Agent(ScriptedModel([turn]), tools=[use], processors=[guard]).generate("Hi")
    assert (ran, result.status, result.text, len(result.messages)) == ([], "blocked", "", 1)


async def test_a_rejected_call_may_be_made_anew() -> None:
    """The model is told why, and the attempt leaves nothing behind."""

    @processor
    def guard(ctx: ToolCallContext) -> None:
        if ctx.arguments["word"] == "wrong":
            ctx.abort("not that word", retry=True)

    ran: list[str] = []

    def use(word: str) -> None:
        ran.append(word)

    model = ScriptedModel([calling(("use", {"word": "wrong"})), calling(("use", {"word": "good"})), "done"])
    result = await Agent(model, tools=[use], processors=[guard], max_processor_retries=1).generate("Hi")
    assert (ran, result.text) == (["good"], "done")
    assert [step.finish_reason for step in result.steps] == ["retry", "tool-calls", "stop"]
    assert "not that word" in model.requests[1].messages[0].text
    assert not any("not that word" in message.text for message in model.requests[2].messages)
    assert "wrong" not in repr(result.messages)


async def test_what_a_guard_makes_of_a_call_and_of_its_result_is_what_counts() -> None:
    """For the tool, the client, the history, and the next prompt."""

    class Redacts(Processor[dict[str, Any]]):
        def process_tool_call(self, ctx: ToolCallContext) -> dict[str, str]:
            return {"word": "[x]"}

        def process_tool_result(self, ctx: ToolResultContext) -> TextEdits:
            return TextEdits({("result",): [Edit(0, 6, "[y]")]})

    ran: list[str] = []

    def use(word: str) -> str:
        ran.append(word)
        return "secret!"

    model = ScriptedModel([calling(("use", {"word": "secret"})), "done"])
    async with Agent(model, tools=[use], processors=[Redacts()]).stream("Hi") as stream:
        sent = [chunk.payload["result"] async for chunk in stream if chunk.type == "tool-result"]
        messages = await stream.messages
    assert (ran, sent) == (["[x]"], ["[y]!"])
    [part] = parts_of(messages[1])
    assert (part.arguments, part.result) == ({"word": "[x]"}, "[y]!")
    assert parts_of(model.requests[1].messages[-1]) == [part]


async def test_a_processor_may_answer_in_the_tools_place() -> None:
    """It does not run; what stands in for it is judged like a result."""

    class Answers(Processor[dict[str, Any]]):
        def process_tool_call(self, ctx: ToolCallContext) -> Answer:
            return Answer(None)

        def process_tool_result(self, ctx: ToolResultContext) -> str:
            return f"judged {ctx.result}"

    def use() -> str:
        raise AssertionError

    result = await Agent(ScriptedModel([calling(("use", {})), "done"]), tools=[use], processors=[Answers()]).generate(
        "Hi"
    )
    assert parts_of(result.messages[1])[0].result == "judged None"


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (calling(("use", {"number": "x"})), "number"),
        (calling(("use", "{broken")), "arguments"),
        (calling(("other", {})), "there is no such tool; the tools are use"),
        (calling(("use", {"number": 13})), "ValueError"),
    ],
)
async def test_a_call_that_fails_is_told_to_the_model(turn: Any, told: str) -> None:
    """In the place of a result, and judged like one."""
    judged: list[tuple[str, bool | None]] = []

    @processor
    def look(ctx: ToolResultContext) -> None:
        judged.append((ctx.result, ctx.is_error))

    def use(number: int) -> int:
        if number == 13:
            raise ValueError("unlucky")
        return number

    agent = Agent(ScriptedModel([turn, "done"]), tools=[use], processors=[look])
    async with agent.stream("Hi") as stream:
        sent = [chunk.payload["error"] async for chunk in stream if chunk.type == "tool-error"]
        [part] = parts_of((await stream.messages)[1])
    assert part.error is not None
    assert (part.state, told in part.error, sent) == ("error", True, [part.error])
    assert judged == [(part.error, True)]


async def test_a_tool_that_was_not_on_offer_does_not_run() -> None:
    """Though the model calls it."""
    ran: list[str] = []

    def one() -> None:
        ran.append("one")

    def other() -> None:
        ran.append("other")

    model = ScriptedModel([calling(("one", {}), ("other", {})), "done"])
    result = await Agent(model, tools=[one, other], active_tools=["other"]).generate("Hi")
    assert (ran, [spec.name for spec in model.requests[0].tools]) == (["other"], ["other"])
    assert [part.state for part in parts_of(result.messages[1])] == ["error", "result"]


async def test_tools_of_a_step_take_the_place_of_the_agents() -> None:
    """What is offered is what is run."""

    def own() -> str:
        return "own"

    @processor
    def brings(ctx: InputStepContext) -> Overrides:
        return Overrides(tools={**(ctx.tools or {}), "own": own}, tool_choice="own" if ctx.step_number == 0 else "none")

    model = ScriptedModel([calling(("own", {})), "done"])
    result = await Agent(model, processors=[brings]).generate("Hi")
    assert [(len(request.tools), request.tool_choice) for request in model.requests] == [(1, ("own",)), (0, "auto")]
    assert parts_of(result.messages[1])[0].result == "own"


@pytest.mark.parametrize("options", [{"active_tools": ["nope"]}, {"tool_choice": "nope"}])
async def test_a_tool_that_is_not_there_cannot_be_chosen(options: Any) -> None:
    """The error names those that are."""
    with pytest.raises(UsageError, match="nope"):
        await Agent(ScriptedModel(["ok"])).generate("Hi", **options)


async def test_calls_to_tools_of_the_callers_side_end_the_run() -> None:
    """The others have run; the caller answers by what it sends next."""
    spec = ToolSpec("ask", {"type": "object", "properties": {}})
    model = ScriptedModel([calling(("use", {}), ("ask", {})), "done"])
    agent = Agent(model, tools=[spec, Tool(lambda: "used", name="use")])
    result = await agent.generate("Hi")
    assert (result.status, result.finish_reason, [call.name for call in result.pending]) == (
        "suspended",
        "tool-calls",
        ["ask"],
    )
    assert [part.state for part in parts_of(result.messages[1])] == ["result", "call"]
    answered = result.answered({"c2": {"city": "Bern"}})
    assert (await agent.generate(answered)).text == "done"
    assert [part.state for part in parts_of(model.requests[1].messages[-1])] == ["result", "result"]
    with pytest.raises(UsageError, match="c3"):
        result.answered({"c3": 1})


@pytest.mark.parametrize(
    ("verdict", "state", "status"),
    [(True, "result", "success"), ("too dear", "error", "success"), (None, "call", "suspended")],
)
async def test_a_call_that_wants_approval_is_asked_about(verdict: Any, state: str, status: str) -> None:
    """The model is told why it may not; without a word the caller is left to decide."""
    asked: list[Any] = []

    async def approve(call: ToolPart) -> Any:
        asked.append(call.arguments)
        return verdict

    def pay(amount: int) -> str:
        return "paid"

    tools = [Tool(pay, approval=lambda arguments: arguments["amount"] > 10)]
    turn = calling(("pay", {"amount": 50}), ("pay", {"amount": 5}))
    result = await Agent(ScriptedModel([turn, "done"]), tools=tools, approve=approve).generate("Hi")
    first, second = parts_of(result.messages[1])
    assert (first.state, second.state, result.status, asked) == (state, "result", status, [{"amount": 50}])
    assert first.error == ("too dear" if state == "error" else None)


async def test_what_a_tool_writes_passes_the_guards_of_the_stream() -> None:
    """As it comes, before the tool has ended; it is kept unless it is only to be shown."""
    written = anyio.Event()

    async def use(ctx: ToolContext) -> str:
        ctx.write(Chunk("data-progress", payload={"data": "half"}))
        ctx.write(Chunk("data-shown", payload={"data": 1}, transient=True))
        await written.wait()
        return ctx.tool_name

    class Passes(Processor[dict[str, Any]]):
        def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
            return chunk.with_payload({"data": "seen"}) if chunk.type == "data-progress" else chunk

    agent = Agent(ScriptedModel([calling(("use", {})), "done"]), tools=[use], output_processors=[Passes()])
    async with agent.stream("Hi") as stream:
        seen: list[str] = []
        async for chunk in stream:
            if chunk.is_data:
                seen.append(f"{chunk.type} {chunk.payload['data']}")
                written.set()
        parts = (await stream.messages)[1].parts
    assert seen == ["data-progress seen", "data-shown 1"]
    assert [getattr(part, "data", part.type) for part in parts] == ["tool", "seen"]


async def test_a_verdict_about_a_result_cancels_the_tools_that_still_run() -> None:
    """At once; nothing of the answer stays."""
    cancelled: list[str] = []

    async def hangs() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append("hangs")

    @processor
    def guard(ctx: ToolResultContext) -> None:
        ctx.abort("not this")

    turn = calling(("quick", {}), ("hangs", {}))
    tools = {"quick": lambda: "secret", "hangs": hangs}
    with anyio.fail_after(60):
        result = await Agent(ScriptedModel([turn]), tools=tools, processors=[guard]).generate("Hi")
    assert (result.status, cancelled, len(result.messages)) == ("blocked", ["hangs"], 1)


async def test_a_tool_that_hangs_ends_with_the_request() -> None:
    """When the caller gives it up."""
    started, ended = anyio.Event(), anyio.Event()

    async def hangs() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    agent = Agent(ScriptedModel([calling(("hangs", {}))]), tools=[hangs])
    async with anyio.create_task_group() as group:
        group.start_soon(agent.generate, "Hi")
        await started.wait()
        group.cancel_scope.cancel()
    assert ended.is_set()


CALLS_LOOKUP = [calling(("lookup", {"query": "who is ada@example.com"})), "done"]


def lookup(query: str) -> str:
    """Look something up."""
    return f"found {len(query)}"


@pytest.mark.parametrize("release", ["auto", "live", "step", "result"])
async def test_a_call_is_shown_as_the_guards_of_calls_left_it(release: Any) -> None:
    """They judge it behind the stream, so it waits for them; without one, its pieces leave as they come."""

    @processor("process_tool_call")
    def hide(ctx: ToolCallContext) -> Answer | dict[str, Any]:
        return {"query": "who is [EMAIL]"}

    async with Agent(ScriptedModel(CALLS_LOOKUP), tools=[lookup], processors=[hide], release=release).stream(
        "Hi"
    ) as stream:
        chunks = [chunk async for chunk in stream]
    assert "ada@" not in repr(chunks)
    [call] = [chunk for chunk in chunks if chunk.type == "tool-call"]
    assert call.payload["arguments"] == {"query": "who is [EMAIL]"}
    kinds = [chunk.type for chunk in chunks]
    assert kinds.index("tool-call") < kinds.index("tool-result")


async def test_a_blocked_call_is_not_shown() -> None:
    """Also none that stands before it."""

    @processor("process_tool_call", role="guard")
    def no_mail(ctx: ToolCallContext) -> None:
        if "@" in str(ctx.arguments):
            ctx.abort("no mail")

    turn = calling(("lookup", {"query": "fine"}), ("lookup", {"query": "ada@example.com"}))
    async with Agent(ScriptedModel([turn]), tools=[lookup], processors=[no_mail]).stream("Hi") as stream:
        chunks = [chunk async for chunk in stream]
    assert not [chunk for chunk in chunks if chunk.type.startswith("tool-")]
    assert chunks[-1].type == "tripwire"


async def test_calls_that_the_provider_has_run_are_shown() -> None:
    """No guard of calls is asked about them, and their results come with the answer."""
    seen: list[str] = []

    @processor("process_tool_call")
    def note(ctx: ToolCallContext) -> None:
        seen.append(str(ctx.arguments))

    class Searches:
        name = "searches"

        async def stream(self, request: object) -> Any:
            payload = {"call_id": "s1", "name": "search", "arguments": {"q": "x"}, "provider_executed": True}
            yield Chunk("tool-call", id="s1", payload=payload)
            yield Chunk("tool-result", id="s1", payload={"call_id": "s1", "name": "search", "result": "found"})
            yield Chunk("text-delta", "done", id="t1")
            yield Chunk("finish", payload={"reason": "stop"})

    async with Agent(Searches(), processors=[note]).stream("Hi") as stream:
        kinds = [chunk.type async for chunk in stream]
    assert "tool-call" in kinds
    assert "tool-result" in kinds
    assert seen == []
