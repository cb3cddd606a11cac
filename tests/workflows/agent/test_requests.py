"""A request to an agent: what comes of it, and what its options say."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import (
    Agent,
    BlockedError,
    Chunk,
    InputContext,
    InputStepContext,
    Key,
    LLMRequestContext,
    Message,
    ModelError,
    OptionError,
    OutputStepContext,
    Processor,
    ToolCallContext,
    ToolResultContext,
    Workflow,
    WorkflowError,
    processor,
)
from penstock.engine import Overrides, StepFailedError, Usage, UsageError
from penstock.testing import CountingIds, ScriptedModel
from penstock.tools import ToolContext
from penstock.workflows import AgentResult, StepResult

pytestmark = pytest.mark.anyio

CALL = {"text": "let me see", "tool_calls": [{"id": "c1", "name": "lookup", "args": {"q": "x"}}]}


def lookup(q: str) -> dict[str, int]:
    """Look something up."""
    return {"answer": 42 + len(q)}


async def test_an_answer_comes_with_all_that_is_known_of_it() -> None:
    """Text, steps, usage, messages, and what the provider says."""
    model = ScriptedModel([CALL, {"deltas": ["do", "ne"]}])
    result = await Agent(model, instructions="Be nice.", tools=[lookup]).generate("Hi")
    assert (result.text, result.status, result.finish_reason) == ("let me seedone", "success", "stop")
    assert [(step.number, step.text, step.finish_reason) for step in result.steps] == [
        (0, "let me see", "tool-calls"),
        (1, "done", "stop"),
    ]
    assert result.steps[0].tool_results[0].result == {"answer": 43}
    assert [message.role for message in result.messages] == ["user", "assistant", "assistant"]
    assert result.response.model == "scripted"
    assert result.response.messages == result.messages[1:]
    assert result.usage == (result.steps[0].usage or Usage()) + (result.steps[1].usage or Usage())
    assert [spend.model for spend in result.spent] == ["scripted", "scripted"]
    assert [message.role for message in model.requests[1].messages] == ["system", "user", "assistant"]


async def test_a_stream_agrees_with_what_it_leads_to() -> None:
    """Its pieces add up to its text; its fields are those of the whole result."""
    agent = Agent(ScriptedModel([CALL, {"deltas": ["do", "ne"]}]), tools=[lookup], ids=CountingIds())
    async with agent.stream("Hi") as stream:
        assert stream.status == "running"
        texts = [piece async for piece in stream.text_stream]
        result = await stream.result
        assert "".join(texts) == await stream.text == result.text
        assert (await stream.steps, await stream.finish_reason) == (result.steps, "stop")
        assert (await stream.usage, await stream.messages) == (result.usage, result.messages)
        assert (await stream.tripwire, await stream.object, await stream.response) == (None, None, result.response)
        assert stream.status == "success"


async def test_a_field_may_be_awaited_before_the_stream_is_read() -> None:
    """What is read for it stays for whoever iterates."""
    async with Agent(ScriptedModel(["hello"])).stream("Hi") as stream:
        assert await stream.text == "hello"
        assert [chunk.type async for chunk in stream][-1] == "finish"


async def test_a_field_may_be_awaited_while_the_stream_is_read() -> None:
    """Even in the midst of it."""
    async with Agent(ScriptedModel([{"deltas": ["a", "b"]}])).stream("Hi") as stream:
        seen = [(chunk.type, await stream.text) async for chunk in stream]
    assert seen[0] == ("start", "ab")
    assert seen[-1] == ("finish", "ab")


async def test_a_stream_is_entered_first_and_read_once() -> None:
    """What cannot be meant says the cure."""
    stream = Agent(ScriptedModel(["hello"])).stream("Hi")
    with pytest.raises(UsageError, match="enter the stream first"):
        await stream.text
    with pytest.raises(UsageError, match="enter the stream first"):
        _ = stream.full_stream
    async with stream:
        _ = stream.text_stream
        with pytest.raises(UsageError, match="read once"):
            _ = stream.full_stream
    with pytest.raises(UsageError, match="entered once"):
        async with stream:
            pass


def test_an_agent_works_without_an_event_loop() -> None:
    """It runs one of its own."""
    assert Agent(ScriptedModel(["hello"])).generate_sync("Hi").text == "hello"


async def test_inside_an_event_loop_the_sync_form_says_so() -> None:
    """It would block it."""
    with pytest.raises(UsageError, match=r"await agent\.generate"):
        Agent(ScriptedModel(["hello"])).generate_sync("Hi")


async def test_instructions_come_from_the_request_context_too() -> None:
    """Async or not; the call's own system messages come behind, older messages before the input."""
    model = ScriptedModel(["ok"], repeat_last=True)

    async def told(context: dict[str, Any]) -> str:
        return f"You serve {context['who']}."

    agent = Agent(model, instructions=told)
    await agent.generate("Hi", request_context={"who": "Ada"}, system="Be brief.", context="Long ago")
    assert [message.text for message in model.requests[0].messages] == ["You serve Ada.", "Be brief.", "Long ago", "Hi"]
    await agent.generate("Hi", instructions=[Message.user("Other")])
    first = model.requests[1].messages[0]
    assert (first.role, first.text) == ("system", "Other")


async def test_a_model_may_depend_on_the_request() -> None:
    """As a function of the request context, for the call, or for a step."""
    one, two = ScriptedModel(["one"], repeat_last=True, name="1"), ScriptedModel(["two"], repeat_last=True, name="2")

    @processor
    def switch(ctx: InputStepContext) -> Overrides | None:
        return Overrides(model=two) if ctx.text == "switch" else None

    agent = Agent(lambda context: two if context.get("big") else one, processors=[switch])
    assert (await agent.generate("Hi")).text == "one"
    assert (await agent.generate("Hi", request_context={"big": True})).text == "two"
    assert (await agent.generate("Hi", model=two)).text == "two"
    assert (await agent.generate("switch")).steps[0].model == "2"


async def test_what_is_no_model_is_refused_where_it_comes_from() -> None:
    """At once where it can be known."""
    with pytest.raises(OptionError, match="model"):
        Agent(3)

    @processor
    def wrong(ctx: InputStepContext) -> Overrides:
        return Overrides(model=3)

    with pytest.raises(OptionError, match="model"):
        await Agent(ScriptedModel(["ok"]), processors=[wrong]).generate("Hi")


async def test_settings_of_the_call_and_of_steps_reach_the_model() -> None:
    """The call's take the place of the agent's; a step's are laid over, and do not last."""
    model = ScriptedModel([CALL, "done"])

    @processor
    def cooler(ctx: InputStepContext) -> Overrides | None:
        return Overrides(model_settings={"temperature": 0}) if ctx.step_number == 0 else None

    agent = Agent(model, tools=[lookup], processors=[cooler], settings={"temperature": 2})
    await agent.generate("Hi", settings={"temperature": 1, "max_tokens": 9}, provider_options={"seed": 4})
    assert [dict(request.settings) for request in model.requests] == [
        {"temperature": 0, "max_tokens": 9},
        {"temperature": 1, "max_tokens": 9},
    ]
    assert dict(model.requests[0].provider_options) == {"seed": 4}


async def test_the_callers_functions_are_told() -> None:
    """Chunks, accepted steps, the end; one that raises changes nothing."""
    told: list[str] = []

    async def step(one: StepResult) -> None:
        told.append(f"step {one.text}")

    def end(result: AgentResult) -> None:
        told.append(f"end {result.status} {result.text}")
        raise ZeroDivisionError

    def chunk(one: Chunk) -> None:
        told.extend([one.type] if one.type == "text-delta" else [])

    await Agent(ScriptedModel(["hello"])).generate("Hi", on_chunk=chunk, on_step_finish=step, on_finish=end)
    assert told == ["text-delta", "step hello", "end success hello"]


async def test_a_blocked_request_is_a_result() -> None:
    """What was blocked is nowhere in it; who asks for an exception gets one."""

    @processor
    def guard(ctx: InputContext) -> None:
        ctx.abort("not this", metadata={"kind": "x"})

    told: list[str] = []
    model = ScriptedModel(["never"])
    result = await Agent(model, processors=[guard]).generate("Hi", on_finish=lambda end: told.append(end.status))
    assert (result.text, result.status, result.finish_reason, result.blocked) == ("", "blocked", "other", True)
    assert result.tripwire is not None
    assert (result.tripwire.reason, result.tripwire.processor_id) == ("not this", "guard")
    assert (model.requests, result.messages, told) == ([], (), ["blocked"])
    with pytest.raises(BlockedError, match="not this"):
        result.unwrap()


async def test_a_failed_request_raises_to_whoever_reads() -> None:
    """The fields tell afterwards how it ended, and the caller's own function is told."""
    told: list[str] = []
    agent = Agent(ScriptedModel([{"error": {"status": 500, "message": "down"}}], repeat_last=True))
    with pytest.raises(ModelError, match="down"):
        await agent.generate("Hi", on_error=lambda error: told.append(type(error).__name__))
    async with agent.stream("Hi") as stream:
        seen = [await anext(chunks) for chunks in [stream.full_stream] for _ in range(5)]
        with pytest.raises(ModelError, match="down"):
            await stream.result
        result = await stream.result
    assert [chunk.type for chunk in seen] == ["start", "step-start", "error", "step-finish", "finish"]
    assert (result.status, result.finish_reason, result.text, told) == ("failed", "error", "", ["ModelError"])
    assert isinstance(result.error, ModelError)
    assert [step.finish_reason for step in result.steps] == ["error"]


async def test_nothing_to_answer_is_an_error_that_says_so() -> None:
    """Unless the caller means it."""
    model = ScriptedModel(["ok"])
    with pytest.raises(UsageError, match="allow_empty"):
        await Agent(model, instructions="Sys").generate([])
    assert (await Agent(model, instructions="Sys").generate([], allow_empty=True)).text == "ok"


@pytest.mark.parametrize(
    "nothing", ["", " \n", Message.user(""), [{"role": "user", "content": " "}], [Message("user")]]
)
async def test_an_empty_message_is_an_error_before_anything_runs(nothing: Any) -> None:
    """No hook is called, and no model; ``allow_empty`` asks for it."""
    model, seen = ScriptedModel(["ok"]), list[str]()

    @processor(edits="nothing")
    def look(ctx: InputContext) -> None:
        seen.append(ctx.text)

    agent = Agent(model, instructions="Sys", processors=[look])
    with pytest.raises(UsageError, match="allow_empty"):
        await agent.generate(nothing)
    assert (model.requests, seen) == ([], [])
    assert (await agent.generate(nothing, allow_empty=True)).text == "ok"


async def test_tools_and_their_stages_know_the_steps() -> None:
    """The last one is the answer with the call."""
    told: list[Any] = []

    @processor(edits="nothing")
    def before(ctx: ToolCallContext) -> None:
        told.append(("call", [step.text for step in ctx.steps or ()]))

    @processor(edits="nothing")
    def after(ctx: ToolResultContext) -> None:
        told.append(("result", [step.text for step in ctx.steps or ()]))

    def use(ctx: ToolContext) -> str:
        told.append(("tool", [step.text for step in ctx.steps]))
        return "used"

    turn = {"text": "let me see", "tool_calls": [{"id": "c", "name": "use", "args": {}}]}
    await Agent(ScriptedModel([turn, turn, "done"]), tools=[use], processors=[before, after]).generate("Hi")
    steps = [["let me see"], ["let me see", "let me see"]]
    assert told == [(what, said) for said in steps for what in ("call", "tool", "result")]


async def test_system_messages_of_a_prompt_stay_behind_others() -> None:
    """New ones, and ones that were in front; the conversation does not change."""

    @processor
    def remind(ctx: LLMRequestContext) -> list[Message]:
        first, *others = ctx.messages
        return [*others, first, Message.system("Be brief.")]

    @processor(edits="nothing")
    def look(ctx: LLMRequestContext) -> None:
        seen.extend(message.text for message in ctx.messages)

    seen: list[str] = []
    model = ScriptedModel(["ok"])
    result = await Agent(model, instructions="Sys", processors=[remind, look]).generate("Hi")
    assert [message.text for message in model.requests[0].messages] == seen == ["Hi", "Sys", "Be brief."]
    assert [message.text for message in result.messages] == ["Hi", "ok"]
    assert [message.text for message in result.message_list.system] == ["Sys"]


async def test_the_thread_at_hand_is_told_to_processors_and_messages() -> None:
    """Under the names that are kept for it."""
    seen: list[Any] = []

    @processor
    def look(ctx: InputContext) -> None:
        seen.extend([ctx.thread_id, ctx.resource_id, ctx.messages[0].thread_id])

    agent = Agent(ScriptedModel(["ok"], repeat_last=True), processors=[look])
    await agent.generate("Hi", thread_id="t", request_context={"resource_id": "r"})
    assert seen == ["t", "r", "t"]
    with pytest.raises(OptionError, match="thread_id"):
        await agent.generate("Hi", thread_id="t", request_context={"thread_id": "other"})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_step": 3}, "did you mean 'max_steps'"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_processor_retries": -1}, "max_processor_retries"),
        ({"release": "later"}, "release"),
        ({"processors": "guard"}, "processors"),
        ({"approve": True}, "approve"),
        ({"settings": 3}, "settings"),
        ({"request_context": "x"}, "request_context"),
        ({"active_tools": "lookup"}, "active_tools"),
        ({"tool_choice": 3}, "tool_choice"),
        ({"stop_when": 3}, "stop_when"),
        ({"stop_when": [3]}, "stop_when"),
        ({"observers": print}, "observers"),
        ({"allow_empty": "no"}, "allow_empty"),
        ({"model": ScriptedModel}, "model"),
    ],
)
async def test_an_option_that_cannot_be_meant_is_refused(options: Any, told: str) -> None:
    """Before anything is asked."""
    with pytest.raises((OptionError, UsageError), match=told):
        await Agent(ScriptedModel(["ok"])).generate("Hi", **options)


async def test_steps_have_a_budget_that_rejected_attempts_do_not_use_up() -> None:
    """The tools of the last step have run; a caller's own word may end it earlier."""
    model = ScriptedModel([CALL], repeat_last=True)
    agent = Agent(model, tools=[lookup], max_steps=2)
    result = await agent.generate("Hi")
    assert (len(model.requests), result.finish_reason, result.status) == (2, "tool-calls", "success")
    assert result.steps[-1].tool_results
    assert len((await agent.generate("Hi", stop_when=lambda steps: len(steps) == 1)).steps) == 1

    @processor
    def picky(ctx: OutputStepContext) -> None:
        if ctx.retry_count < 2:
            ctx.abort("again", retry=True)

    result = await Agent(model, tools=[lookup], processors=[picky], max_steps=1, max_processor_retries=2).generate("Hi")
    assert [step.finish_reason for step in result.steps] == ["retry", "retry", "tool-calls"]


async def test_a_request_that_is_given_up_leaves_nothing_open() -> None:
    """By leaving the stream, by cancelling its task, or by saying so."""
    model = ScriptedModel([{"deltas": ["a", "b", "c"]}], repeat_last=True)
    agent = Agent(model)
    async with agent.stream("Hi") as stream:
        async for _ in stream.text_stream:
            break
    assert (model.streaming, stream.status, await stream.finish_reason) == (0, "cancelled", "aborted")
    async with agent.stream("Hi") as stream:
        seen: list[str] = []
        async for chunk in stream:
            seen.append(chunk.type)
            if chunk.type == "text-delta":
                stream.cancel()
    assert (seen[-2:], stream.status, await stream.text) == (["text-delta", "abort"], "cancelled", "a")

    reached = anyio.Event()

    async def never(_: object) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    hanging = ScriptedModel([never])
    async with anyio.create_task_group() as group:
        group.start_soon(Agent(hanging).generate, "Hi")
        await reached.wait()
        group.cancel_scope.cancel()
    assert hanging.streaming == 0


async def test_what_a_given_up_or_broken_answer_took_is_spent_all_the_same() -> None:
    """Whoever minds the cost is told, though nobody knows how much; a call that gave nothing cost nothing."""
    spent: list[Usage | None] = []

    @processor
    def minder(ctx: InputContext) -> None:
        ctx.on_spend(lambda spend: spent.append(spend.usage))

    turns = [{"deltas": ["a", "b"], "stream_error": "broke"}, {"deltas": ["a", "b"]}, {"error": "down"}]
    agent = Agent(ScriptedModel(turns), processors=[minder])
    with pytest.raises(ModelError, match="broke"):
        await agent.generate("Hi")
    async with agent.stream("Hi") as stream:
        async for _ in stream.text_stream:
            break
    with pytest.raises(ModelError, match="down"):
        await agent.generate("Hi")
    assert spent == [None, None, None]


async def test_a_request_context_that_is_used_again_carries_no_thread_into_the_next_request() -> None:
    """Else the next would load the memories of the one before."""
    seen: list[Any] = []

    @processor
    def look(ctx: InputContext) -> None:
        seen.append((ctx.thread_id, ctx.resource_id, ctx.request_context["plan"]))

    agent = Agent(ScriptedModel(["ok"], repeat_last=True), processors=[look])
    shared: dict[str, Any] = {"plan": "pro"}
    await agent.generate("Hi", request_context=shared, thread_id="1", resource_id="ada")
    await agent.generate("Hi", request_context=shared, thread_id="2")
    await agent.generate("Hi", request_context=shared)
    assert seen == [("1", "ada", "pro"), ("2", None, "pro"), (None, None, "pro")]
    assert shared == {"plan": "pro"}


@processor(requires=[Key[str]("given-by-a-function")])
def reads(ctx: InputContext) -> None:
    """Reads what only the function's processor finds out."""


def nothing(context: dict[str, Any]) -> list[Any]:
    """Place no processor."""
    return []


BESIDE: list[tuple[dict[str, Any], str]] = [
    ({"output_processors": [nothing, "guard"]}, r"output_processors\[1\]"),
    ({"output_processors": [reads]}, "place it in input_processors"),
    ({"processors": [nothing, 5]}, r"processors\[1\]"),
    ({"processors": [Workflow("w").then(reads, id="a").then(reads, id="a")]}, "have the id 'w/a'"),
]


@pytest.mark.parametrize(("wrong", "told"), BESIDE)
def test_what_stands_beside_a_function_is_checked_when_the_agent_is_made(wrong: dict[str, Any], told: str) -> None:
    """What can be known is known at once; facts may come from what the function will give."""
    with pytest.raises((OptionError, WorkflowError), match=told):
        Agent(ScriptedModel(["ok"]), input_processors=nothing, **wrong)
    Agent(ScriptedModel(["ok"]), input_processors=[nothing, reads])


class Setting(Processor):
    """Sets something for a call."""

    role = "transform"
    edits = "spans"

    def __init__(self, name: str, **overrides: Any) -> None:
        self.id = name
        self.overrides = overrides

    def process_input_step(self, ctx: InputStepContext) -> Overrides:
        """Set it."""
        return Overrides(**self.overrides)


async def test_steps_that_only_return_overrides_stand_in_a_parallel() -> None:
    """What they set is merged by key; values of one key that differ are a conflict."""
    model = ScriptedModel(["ok"])
    both = Workflow("w").parallel(
        Setting("a", model_settings={"a": 1}, tool_choice="none"),
        Setting("b", model_settings={"b": 2}, provider_options={"c": {"d": 3}}),
    )
    await Agent(model, input_processors=[both]).generate("Hi")
    assert dict(model.requests[0].settings) == {"a": 1, "b": 2}
    torn = Workflow("w").parallel(Setting("a", model_settings={"a": 1}), Setting("b", model_settings={"a": 2}))
    with pytest.raises(StepFailedError, match="disagree about"):
        await Agent(ScriptedModel(["ok"]), input_processors=[torn]).generate("Hi")


async def test_system_messages_have_the_instructions_and_those_of_the_call() -> None:
    """A processor that replaces the system messages without an owner replaces both."""
    seen: list[list[str]] = []

    @processor
    def trimmer(ctx: InputContext) -> Any:
        seen.append([message.text for message in ctx.system_messages])
        return ctx.message_list.replace_system([Message.system(message.text[:3]) for message in ctx.system_messages])

    model = ScriptedModel(["ok"])
    await Agent(model, instructions="abcdef", processors=[trimmer]).generate("Hi", system="ghijkl")
    assert seen == [["abcdef", "ghijkl"]]
    assert [message.text for message in model.requests[0].messages if message.role == "system"] == ["abc", "ghi"]
