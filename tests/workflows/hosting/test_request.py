"""A request of a framework: what its model, its user, its tools and its history get to see."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest

from penstock import (
    BlockedError,
    InputContext,
    Message,
    PIIDetector,
    Processor,
    ToolCallContext,
    Workflow,
    processor,
)
from penstock.engine import Answer, ToolSpec, UsageError
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import ToolPart
from penstock.processors.tools import HumanReview, ToolPolicy
from penstock.testing import ScriptedModel
from penstock.workflows.hosting import Host, HostSupport, ModelCall
from penstock.workflows.hosting.answers import refuse_answered
from tests.workflows.hosting.loop import Loop

pytestmark = pytest.mark.anyio

SUPPORT = HostSupport("test_host")
PII = PIIDetector(redaction_method="placeholder")
CALL = {"tool_calls": [{"id": "c1", "name": "lookup", "args": {"q": "ada@example.com"}}]}


@pytest.fixture
def anyio_backend() -> str:
    """Frameworks run on asyncio."""
    return "asyncio"


def host(*steps: object, **options: object) -> Host:
    """Return a host with those processors."""
    return Host(SUPPORT, steps, **options)  # type: ignore[arg-type]


def texts(model: ScriptedModel, number: int = -1) -> list[str]:
    """Return the texts of a request to the model."""
    return [message.text for message in model.requests[number].messages]


async def test_the_model_the_history_and_the_answer_hold_what_the_guards_left() -> None:
    """Redacted on the way in and on the way out."""
    model = ScriptedModel([{"deltas": ["Mail bob@exa", "mple.com now"]}])
    loop = Loop(model, live=True, instructions="Be nice.")
    request = host(PII).open()
    assert await loop.ask(request, "I am ada@example.com") == "Mail [EMAIL] now"
    await request.close()
    assert texts(model) == ["Be nice.", "I am [EMAIL]"]
    assert loop.shown == "Mail [EMAIL] now"
    assert [message.text for message in loop.history] == ["I am [EMAIL]", "Mail [EMAIL] now"]


@pytest.mark.parametrize("hooks", [True, False])
async def test_arguments_and_results_of_tools_are_guarded(hooks: bool) -> None:
    """The model reads a redacted result, whether the framework calls us around its tools or not."""
    model = ScriptedModel([CALL, "done"])
    asked: list[str] = []

    def lookup(q: str) -> str:
        asked.append(q)
        return "bob@example.com"

    loop = Loop(model, {"lookup": lookup}, hooks=hooks)
    request = host(PII).open()
    assert await loop.ask(request, "Who?") == "done"
    await request.close()
    assert asked == ["[EMAIL]"]
    [call] = [part for message in model.requests[1].messages for part in message.parts if isinstance(part, ToolPart)]
    assert (call.arguments, call.result) == ({"q": "[EMAIL]"}, "[EMAIL]")
    assert [part.result for message in loop.history for part in message.parts if isinstance(part, ToolPart)][-1] == (
        "[EMAIL]"
    )


async def test_a_processor_answers_in_place_of_a_tool() -> None:
    """The tool does not run."""

    @processor("process_tool_call")
    def deny(ctx: ToolCallContext) -> object:
        return Answer("not today")

    model = ScriptedModel([CALL, "done"])
    loop = Loop(model, {"lookup": lambda q: pytest.fail("it ran")})
    request = host(deny).open()
    assert await loop.ask(request, "Who?") == "done"
    [call] = [part for message in model.requests[1].messages for part in message.parts if isinstance(part, ToolPart)]
    assert call.result == "not today"


class Reject(Processor):
    """Rejects answers with a word, and asks for another."""

    role = "guard"

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def process_output_step(self, ctx) -> None:
        self.seen.append((ctx.retry_count, ctx.step_number))
        if "bad" in ctx.messages[-1].text:
            ctx.abort("it says bad", retry=True)


async def test_a_rejected_answer_is_requested_again_with_the_reason() -> None:
    """The rejected one is nowhere."""
    model = ScriptedModel(["bad", "good"])
    loop, guard = Loop(model, live=True), Reject()
    request = host(guard).open()
    assert await loop.ask(request, "Hi") == "good"
    assert loop.shown == "good"
    assert "it says bad" in texts(model)[0]
    assert "bad" not in [message.text for message in model.requests[1].messages[1:]]
    assert guard.seen == [(0, 0), (1, 1)]


async def test_the_budget_of_retries_ends_in_a_verdict() -> None:
    """One retry by default."""
    loop = Loop(ScriptedModel(["bad", "bad", "good"]))
    request = host(Reject()).open()
    with pytest.raises(BlockedError, match="it says bad"):
        await loop.ask(request, "Hi")
    assert request.answer is None


async def test_a_blocked_input_calls_no_model() -> None:
    """And the request stays blocked."""
    model = ScriptedModel(["never"])
    request = host(PIIDetector(strategy="block")).open()
    for _ in range(2):
        with pytest.raises(BlockedError):
            await Loop(model).ask(request, "I am ada@example.com")
    assert not model.requests


async def test_the_errors_of_the_model_are_the_frameworks_own() -> None:
    """They reach the caller unchanged."""

    class BrokenError(Exception):
        pass

    class Model:
        name = "broken"

        async def stream(self, request):
            raise BrokenError
            yield

    with pytest.raises(BrokenError):
        await Loop(Model()).ask(host(PII).open(), "Hi")  # type: ignore[arg-type]


async def test_a_framework_that_drops_messages_is_followed() -> None:
    """What it leaves out is not sent; what processors have added stays."""

    @processor("process_input")
    def add(ctx):
        if len(ctx.messages) == 1:
            return ctx.message_list.add(Message.system("added"))
        return None

    model = ScriptedModel(["one", "two"])
    request = host(add).open()
    loop = Loop(model)
    await loop.ask(request, "first")
    loop.history.clear()
    await loop.ask(request, "second")
    assert texts(model) == ["added", "second"]


async def test_equal_messages_are_told_apart() -> None:
    """A user may say the same thing twice."""
    model = ScriptedModel(["yes?", "yes!"])
    request = host(PII).open()
    loop = Loop(model)
    await loop.ask(request, "ada@example.com")
    await loop.ask(request, "ada@example.com")
    assert texts(model) == ["[EMAIL]", "yes?", "[EMAIL]"]


async def test_shadow_steps_end_with_the_request() -> None:
    """Also if another task closes it."""
    done: list[str] = []

    @processor("process_input")
    async def slow(ctx) -> None:
        await anyio.lowlevel.checkpoint()
        done.append(ctx.text)

    request = Host(SUPPORT, [Workflow("w").then(slow, mode="shadow")]).open()
    async with anyio.create_task_group() as group:
        group.start_soon(Loop(ScriptedModel(["a"])).ask, request, "Hi")
    async with anyio.create_task_group() as group:
        group.start_soon(request.close)
    assert done == ["Hi"]


async def test_a_check_beside_the_model_holds_its_answer() -> None:
    """The overlapping check trips, and no text has left."""

    @processor("process_input", edits="nothing")
    async def slow(ctx) -> None:
        await anyio.sleep(0.01)
        ctx.abort("late")

    loop = Loop(ScriptedModel(["secret"]), live=True)
    request = Host(SUPPORT, [Workflow("w").then(slow, overlap="model")]).open()
    with pytest.raises(BlockedError, match="late"):
        await loop.ask(request, "Hi")
    await request.close()
    assert loop.shown == ""


def test_a_stage_that_the_framework_lacks_is_an_error_at_construction() -> None:
    """It names the stage, the processor, and the way on."""
    support = HostSupport("small_host", frozenset({"process_input"}))
    with pytest.raises(UsageError, match=r"small_host cannot run process_output_step of reject.*strict=False"):
        Host(support, [Reject()])
    assert Host(support, [Reject()], strict=False).serves("process_output_step")
    with pytest.raises(UsageError, match="no option 'stict'"):
        Host(support, [PII], stict=False)  # type: ignore[call-arg]


# A framework that calls the model itself


async def outside(request: object, given: Sequence[str], says: Sequence[str]) -> tuple[list[str], str]:
    """Return what the framework sent to its model, and what its user saw."""
    source = ScriptedModel([{"deltas": list(says)}])
    call = request.outside_call(ModelCall(source, [Message.user(text) for text in given]))  # type: ignore[attr-defined]
    try:
        prepared = await call.prepared()
        sent = [] if prepared is None else [message.text for message in prepared.messages]
        chunks = None if prepared is None else source.stream(prepared)
        return sent, "".join([chunk.text async for chunk in call.answers(chunks) if chunk.type == "text-delta"])
    finally:
        await call.close()


async def test_a_model_call_of_the_framework_is_guarded_on_both_sides() -> None:
    """Between two of its hooks."""
    request = host(PII).open()
    assert await outside(request, ["I am ada@example.com"], ["bob@exa", "mple.com!"]) == (["I am [EMAIL]"], "[EMAIL]!")
    blocked = host(PIIDetector(strategy="block")).open()
    assert await outside(blocked, ["I am ada@example.com"], ["x"]) == ([], "")
    assert blocked.tripwire is not None


async def test_instructions_that_come_late_are_read_by_guards_that_read_them() -> None:
    """Some frameworks show them with the model call only, after the input was checked."""
    model = ScriptedModel(["one", "two"])
    request = host(PIIDetector(redaction_method="placeholder", system="all")).open()
    assert await request.begin([Message.user("Hi")])
    for _ in range(2):
        await request.whole_answer(ModelCall(model, [Message.system("I am ada@example.com"), Message.user("Hi")]))
    assert [asked.messages[0].text for asked in model.requests] == ["I am [EMAIL]"] * 2


async def test_instructions_that_come_late_are_read_by_any_processor_that_says_so() -> None:
    """A processor that is no text guard declares ``system = "all"`` itself."""
    read: list[str] = []

    class Listener(Processor[None]):
        system = "all"

        def process_input(self, ctx: InputContext) -> None:
            read.append(" ".join(message.text for message in ctx.message_list.system))

    request = host(Listener()).open()
    await request.begin([Message.user("Hi")])
    await request.begin([Message.system("Be nice."), Message.user("Hi")])
    await request.close()
    assert read == ["", "Be nice."]


def test_a_stage_that_a_guard_gives_up_is_not_asked_of_the_framework() -> None:
    """A subclass of a guard switches a hook off with None."""

    class WithoutCalls(PIIDetector):
        process_tool_call = None  # type: ignore[assignment]

    held = host(WithoutCalls())
    assert not held.serves("process_tool_call")
    assert held.serves("process_tool_result")
    with pytest.raises(UsageError) as caught:
        Host(HostSupport("test_host", frozenset({"process_input"})), [WithoutCalls()])
    assert "process_tool_result" in str(caught.value)
    assert "process_tool_call" not in str(caught.value)


async def test_earlier_messages_that_come_after_the_input_count_as_checked_with_memory() -> None:
    """Some frameworks give the new input first, and load the earlier messages later."""
    read: list[list[str]] = []

    @processor("process_input")
    def notes(ctx: InputContext) -> None:
        read.append([message.text for message in ctx.messages])

    request = host(notes, history="memory").open()
    new, earlier = Message.user("new"), Message.user("earlier")
    assert await request.begin([new], whole=False)
    assert await request.begin([earlier, Message.assistant("said"), new])
    assert [entry.message.text for entry in request.run.message_list.entries] == ["earlier", "said", "new"]
    await request.close()
    assert all("earlier" not in texts for texts in read), read


async def test_tools_may_have_any_schema() -> None:
    """Frameworks have tools of providers, and tools without arguments; the stages see all of them."""
    schemas: list[dict[str, object]] = [{}, {"type": "OBJECT"}, {"type": "object", "properties": {"a": {}}}]
    tools = [ToolSpec(f"t{number}", schema, strict=True) for number, schema in enumerate(schemas)]  # type: ignore[arg-type]
    model = ScriptedModel(["one"])
    await host(PII).open().whole_answer(ModelCall(model, [Message.user("Hi")], tools))
    assert [tool.name for tool in model.requests[0].tools] == ["t0", "t1", "t2"]


async def test_instructions_that_are_read_as_input_can_be_changed_in_the_history() -> None:
    """Where a framework renders documents into its system messages; those of the application itself stay."""
    rendered = HostSupport("test_host", trusted_instructions=False)
    request = Host(rendered, [PII]).open()
    own = Message.system("Ask ops@example.com.")
    documents = Message.system("Ada: ada@example.com", from_client=True)
    question = Message.user("Who?")
    assert await request.begin([own, documents, question])
    left = [one.text for one in request.current([own, documents, question]) if one is not None]
    assert left == ["Ask ops@example.com.", "Ada: [EMAIL]", "Who?"]

    later = Message.system("Bob: bob@example.com", from_client=True)
    cleaned = Message.system("Ada: [EMAIL]", from_client=True)
    assert await request.begin([own, cleaned, question, later])
    left = [one.text for one in request.current([own, cleaned, question, later]) if one is not None]
    assert left == ["Ask ops@example.com.", "Ada: [EMAIL]", "Who?", "Bob: [EMAIL]"]
    await request.close()


async def test_instructions_as_the_guards_left_them_are_not_new() -> None:
    """So that input is not judged again because the framework has stored what was left."""
    judged: list[str] = []

    @processor("process_input", role="observer")
    def note(ctx: InputContext) -> None:
        judged.append(ctx.text)

    request = Host(HostSupport("test_host", trusted_instructions=False), [PII, note]).open()
    messages = [Message.system("Ada: ada@example.com", from_client=True), Message.user("Who?")]
    assert await request.begin(messages)
    left = [one for one in request.current(messages) if one is not None]
    assert await request.begin(left)
    assert judged == ["Who?"]
    await request.close()


async def test_requests_of_a_session_share_the_states_of_processors() -> None:
    """If they are given one mapping for all; a verdict ends its own request only."""
    seen: list[int] = []

    class Counts(Processor):
        role = "guard"

        def process_tool_call(self, ctx: ToolCallContext) -> None:
            """Count the calls, and stop the second."""
            count = ctx.state["count"] = ctx.state.get("count", 0) + 1
            seen.append(count)
            if count == 2:
                ctx.abort("the second")

    made = host(Counts())
    for states in ({}, {}, None):
        for number in range(3):
            request = made.open(states=states)
            if number == 1 and states is not None:
                with pytest.raises(BlockedError):
                    await request.tool_call("f", {}, "c")
            else:
                await request.tool_call("f", {}, "c")
            await request.close()
    assert seen == [1, 2, 3, 1, 2, 3, 1, 1, 1]


async def test_errors_of_tools_may_be_more_than_a_text() -> None:
    """They come back as what they are."""
    request = host(PII).open()
    said = {"content": [{"text": "ada@example.com"}]}
    left = await request.tool_result("f", said, "c1", is_error=True)
    assert left == {"content": ({"text": "[EMAIL]"},)}
    assert await request.tool_result("f", "no ada@example.com", "c2", is_error=True) == "no [EMAIL]"
    await request.close()


@pytest.mark.parametrize("asks", [ToolPolicy(ask=["lookup"]), HumanReview(at=["tool_call"])])
async def test_a_call_that_nobody_can_approve_does_not_run(asks: Processor) -> None:
    """The model is told so, and the framework that can ask is told that a step asks."""
    model = ScriptedModel([CALL, "done"])
    loop = Loop(model, {"lookup": lambda q: pytest.fail("it ran")})
    request = host(asks).open()
    assert await loop.ask(request, "Who?") == "done"
    [call] = [part for message in model.requests[1].messages for part in message.parts if isinstance(part, ToolPart)]
    assert call.result == "The call was not run: a person must approve it."
    assert (await host(asks).open().tool_call("lookup", {}, "c9")).asks


async def test_where_the_caller_runs_the_tools_a_question_is_an_error() -> None:
    """Nobody could keep it from running the tool, known here or not."""
    request = host(ToolPolicy(ask=["lookup"])).open()
    answer = await request.whole_answer(ModelCall(ScriptedModel([CALL]), [Message.user("Who?")]))
    with pytest.raises(UsageError, match="asks a person about a call of the tool 'lookup'"):
        refuse_answered(answer, ["lookup"], "use another")


async def test_a_processor_may_drop_earlier_messages_before_the_framework_gives_them() -> None:
    """They are in sight when the input is checked, and dropped again when they come."""

    @processor
    def newest(ctx: InputContext) -> MessageList:
        *older, _ = ctx.message_list.entries
        return ctx.message_list.remove(*[entry.message.id for entry in older])

    model, request = ScriptedModel(["done"]), host(newest).open()
    earlier, asked = [Message.user("One"), Message.assistant("Two")], Message.user("Three")
    assert await request.begin([asked], whole=False, earlier=earlier)
    await request.whole_answer(ModelCall(model, [*earlier, asked]))
    assert texts(model) == ["Three"]
