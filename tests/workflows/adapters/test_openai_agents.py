"""The adapter for the OpenAI Agents SDK: what the suite of all frameworks does not ask."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    InputGuardrailTripwireTriggered,
    ModelProvider,
    ModelSettings,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_output_text import AnnotationURLCitation

from penstock import PIIDetector, Processor
from penstock.engine.values.errors import UsageError
from penstock.engine.values.messages import TextPart
from penstock.processors.guards import Restore
from penstock.workflows.adapters.openai_agents import InputBlockedError, OutputBlockedError, as_runner
from tests.workflows.adapters.openai_agents_model import CLEAN, SECRET, script

if TYPE_CHECKING:
    from penstock import InputContext, InputStepContext, LLMRequestContext, OutputResultContext, OutputStepContext
    from penstock.engine.values.messages import Message

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


@pytest.fixture
def anyio_backend() -> str:
    """Return the only backend that the SDK has."""
    return "asyncio"


class Asks(Processor):
    """Blocks what says "stop"."""

    id = "asks"

    def process_input(self, ctx: InputContext) -> None:
        for message in ctx.messages:
            if "stop" in message.text:
                ctx.abort("said stop")

    def process_output_result(self, ctx: OutputResultContext) -> None:
        if any("stop" in message.text for message in ctx.messages if message.role == "assistant"):
            ctx.abort("answered stop")


class Watches(Processor):
    """Notes each request's messages, by the id of the run."""

    id = "watches"

    def __init__(self) -> None:
        self.seen: dict[str, list[str]] = {}

    def process_llm_request(self, ctx: LLMRequestContext) -> None:
        self.seen.setdefault(ctx.run_id, []).append(" | ".join(_all_text(message) for message in ctx.messages))


def _all_text(message: Message) -> str:
    return str([getattr(part, "text", None) or getattr(part, "result", None) for part in message.parts])


async def streamed(runner: Any, agent: Agent[Any], said: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Return the result of a streamed run, and its events."""
    result = runner.run_streamed(agent, said, **options)
    return result, [event async for event in result.stream_events()]


def cited(text: str) -> ResponseOutputMessage:
    """Return an answer with a citation."""
    citation = AnnotationURLCitation(
        start_index=0, end_index=4, title=f"by {SECRET}", url="https://example.org", type="url_citation"
    )
    return ResponseOutputMessage(
        id="msg_9",
        content=[ResponseOutputText(text=text, annotations=[citation], type="output_text")],
        role="assistant",
        status="completed",
        type="message",
    )


async def test_citations_beside_a_text_are_read() -> None:
    """A guard that looks at texts alone would let the title pass."""
    for way in ("whole", "streamed"):
        agent = Agent[Any](name="a", model=script(cited("Fine.")))
        runner = as_runner(CLEAN)
        shown: list[Any] = []
        if way == "whole":
            result: Any = await runner.run(agent, "Hi")
        else:
            result, shown = await streamed(runner, agent, "Hi")
        [message] = result.raw_responses[0].output
        assert message.content[0].text == "Fine."
        assert message.content[0].annotations[0].title == "by [EMAIL]"
        assert message.id == "msg_9"
        assert SECRET not in repr(result.to_input_list()) + repr(shown)


async def test_items_of_the_providers_own_tools_are_read() -> None:
    """They have no text part; their queries may hold anything."""
    action = ActionSearch(query=f"who is {SECRET}", type="search")
    search = ResponseFunctionWebSearch(id="ws_1", action=action, status="completed", type="web_search_call")
    agent = Agent[Any](name="a", model=script([search, assistant_message("Found.")]))
    result = await as_runner(CLEAN).run(agent, "Hi")
    assert SECRET not in repr(result.raw_responses)
    kept: Any = result.raw_responses[0].output[0]
    assert (kept.id, kept.action.query) == ("ws_1", "who is [EMAIL]")


async def test_what_guards_do_not_change_stays_as_it_is() -> None:
    """Signatures, ids and fields that nobody knows come back as they are."""
    thought = ResponseReasoningItem(id="rs_1", summary=[], encrypted_content="sealed", type="reasoning")
    answer = cited("Fine.")
    answer.content[0].annotations = []  # type: ignore[union-attr]
    call = function_call("look", {"q": "a"}, call_id="c1")
    model = script([thought, call], [answer])
    agent = Agent[Any](name="a", model=model, tools=[look])
    result = await as_runner(CLEAN).run(agent, "Hi")
    assert result.raw_responses[0].output[0] == thought
    assert result.raw_responses[1].output[0] == answer
    again = json.loads(json.dumps(model.calls[1].input, default=str))
    assert [item.get("type") for item in again][1:] == ["reasoning", "function_call", "function_call_output"]
    assert again[1]["encrypted_content"] == "sealed"


async def test_what_stands_beside_a_call_is_read() -> None:
    """A field that nobody knows, too; the arguments of the call stay."""
    made: Any = function_call("look", {"q": "x"}, call_id="c1")
    call: Any = ResponseFunctionToolCall.model_validate(
        {**made.model_dump(exclude_unset=True), "note": f"ask {SECRET}"}
    )
    model = script(call, assistant_message("Fine."))
    result = await as_runner(CLEAN).run(Agent[Any](name="a", model=model, tools=[look]), "Hi")
    kept: Any = result.raw_responses[0].output[0]
    assert (kept.note, kept.arguments) == ("ask [EMAIL]", call.arguments)
    assert SECRET not in repr(result.to_input_list()) + repr(model.calls[1].input)


async def test_words_that_the_model_did_not_say_are_dropped() -> None:
    """The probabilities of an answer name other words beside its own."""
    answer = cited("Fine.")
    other: Any = {"token": SECRET, "bytes": [], "logprob": -2.0}
    told: Any = answer.model_dump()
    told["content"][0]["logprobs"] = [{"token": "Fine", "bytes": [], "logprob": -1.0, "top_logprobs": [other]}]
    answer = ResponseOutputMessage.model_validate(told)
    result = await as_runner(CLEAN).run(Agent[Any](name="a", model=script(answer)), "Hi")
    assert SECRET not in repr(result.raw_responses)
    assert result.final_output == "Fine."


async def test_an_error_does_not_hold_what_guards_have_removed() -> None:
    """The SDK puts the input of a run into its errors."""

    class Judges(Processor):
        id = "judges"

        def process_output_result(self, ctx: OutputResultContext) -> None:
            ctx.abort("no result")

    for runner in (as_runner(CLEAN, Judges()), as_runner(PIIDetector(strategy="block"))):
        for session in (None, SQLiteSession("s")):
            for way in ("whole", "streamed"):
                agent = Agent[Any](name="a", model=script(assistant_message("Fine.")))
                asked: Any = runner.run(agent, f"I am {SECRET}", session=session) if way == "whole" else None
                with pytest.raises((InputBlockedError, OutputBlockedError)) as said:
                    await (asked or streamed(runner, agent, f"I am {SECRET}", session=session))
                assert SECRET not in repr(said.value) + repr(said.value.run_data)  # type: ignore[attr-defined]


async def test_changed_reasoning_loses_its_seal() -> None:
    """The sealed text is what the guard has removed."""
    summary: Any = [{"text": f"Ask {SECRET}", "type": "summary_text"}]
    thought = ResponseReasoningItem(id="rs_1", summary=summary, encrypted_content="sealed", type="reasoning")
    agent = Agent[Any](name="a", model=script([thought, assistant_message("Fine.")]))
    result = await as_runner(CLEAN).run(agent, "Hi")
    kept: Any = result.raw_responses[0].output[0]
    assert kept.summary[0].text == "Ask [EMAIL]"
    assert kept.encrypted_content is None


def copied(agent: Agent[Any]) -> Agent[Any]:
    """Return the agent itself, which the SDK makes a handoff of."""
    return agent


@function_tool
def look(q: str) -> str:
    """Look something up."""
    return f"{q}: {SECRET}"


async def test_an_agent_that_is_handed_over_to_is_guarded() -> None:
    """By a handoff of the list, and by one that was made by hand."""
    made: Any
    for made in (copied, handoff):
        second = Agent[Any](
            name="second", model=script(function_call("look", {"q": "x"}, call_id="c1"), assistant_message(SECRET))
        )
        second.tools = [look]
        first = Agent[Any](
            name="first", model=script(function_call("transfer_to_second", {}, call_id="c1")), handoffs=[made(second)]
        )
        result = await as_runner(CLEAN).run(first, "Hi")
        assert result.last_agent is second
        assert result.final_output == "[EMAIL]"
        assert SECRET not in repr(result.to_input_list())


async def test_an_agent_that_is_a_tool_has_a_request_of_its_own() -> None:
    """Its model's conversation is another one, and its tools are guarded."""
    for way in ("whole", "streamed"):
        inner_model = script(function_call("look", {"q": "x"}, call_id="c1"), assistant_message("inner done"))
        inner = Agent[Any](name="inner", model=inner_model, tools=[look])
        outer_model = script(
            function_call("ask_inner", {"input": "please"}, call_id="c1"), assistant_message("outer done")
        )
        outer = Agent[Any](name="outer", model=outer_model, tools=[inner.as_tool("ask_inner", "Ask it")])
        watches = Watches()
        runner = as_runner(CLEAN, watches)
        if way == "whole":
            result: Any = await runner.run(outer, "Hi")
        else:
            result, _ = await streamed(runner, outer, "Hi")
        assert result.final_output == "outer done"
        assert SECRET not in repr([call.input for call in (*inner_model.calls, *outer_model.calls)])
        assert sorted(map(len, watches.seen.values())) == [2, 2]


async def test_a_model_that_is_named_is_guarded() -> None:
    """The name is looked up in the provider of the run, also for an agent that is a tool."""

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Any:
            return {"one": outer_model, "two": inner_model}[model_name or ""]

    outer_model = script(function_call("ask", {"input": "x"}, call_id="c1"), assistant_message(SECRET))
    inner_model = script(assistant_message(f"I say {SECRET}"))
    inner = Agent[Any](name="inner", model="two")
    agent = Agent[Any](
        name="a", model="one", tools=[inner.as_tool("ask", "Ask", run_config=RunConfig(model_provider=Provider()))]
    )
    result = await as_runner(CLEAN).run(agent, "Hi", run_config=RunConfig(model_provider=Provider()))
    assert result.final_output == "[EMAIL]"
    assert SECRET not in repr(outer_model.calls[1].input)


async def test_with_the_own_runner_an_agent_behaves_as_before() -> None:
    """The agent is changed in place, but only guarded runs guard."""
    model = script(*[assistant_message(SECRET)] * 3)
    agent = Agent[Any](name="a", model=model, model_settings=ModelSettings(temperature=1))
    assert (await as_runner(CLEAN).run(agent, "Hi")).final_output == "[EMAIL]"
    assert (await Runner.run(agent, "Hi")).final_output == SECRET
    assert agent.model is model
    assert (await as_runner(CLEAN).run(agent.clone(name="b"), "Hi")).final_output == "[EMAIL]"


async def test_verdicts_are_the_errors_of_the_sdk() -> None:
    """Handlers for guardrails catch them, and find the verdict."""
    session = SQLiteSession("s")
    agent = Agent[Any](name="a", model=script(assistant_message("stop it")))
    with pytest.raises(InputGuardrailTripwireTriggered) as given:
        await as_runner(Asks()).run(agent, "please stop", session=session)
    assert isinstance(given.value, InputBlockedError)
    assert given.value.guardrail_result.output.output_info is given.value.tripwire
    assert await session.get_items() == []
    with pytest.raises(OutputGuardrailTripwireTriggered) as said:
        await as_runner(Asks()).run(agent, "go on", session=session)
    assert isinstance(said.value, OutputBlockedError)
    assert said.value.tripwire.reason == "answered stop"
    assert "stop it" not in repr(await session.get_items()) + repr(said.value.guardrail_result)


async def test_a_tool_that_ends_the_run_is_judged() -> None:
    """The model does not answer, so the last stage runs behind the tool."""

    class Judges(Processor):
        id = "judges"

        def process_output_result(self, ctx: OutputResultContext) -> None:
            ctx.abort("no result")

    for way in ("whole", "streamed"):
        model = script(function_call("look", {"q": "x"}, call_id="c1"))
        agent = Agent[Any](name="a", model=model, tools=[look], tool_use_behavior="stop_on_first_tool")
        session = SQLiteSession("s")
        runner: Any = as_runner(CLEAN, Judges())
        asked = runner.run(agent, "Hi", session=session) if way == "whole" else None
        with pytest.raises(OutputGuardrailTripwireTriggered) as said:
            await (asked or streamed(runner, agent, "Hi", session=session))
        assert isinstance(said.value, OutputBlockedError)
        assert said.value.tripwire.reason == "no result"
        assert SECRET not in repr(said.value.run_data)
        assert "x: " not in repr(await session.get_items())
        answers = script(function_call("look", {"q": "x"}, call_id="c1"))
        result = await as_runner(CLEAN).run(agent, "Hi", run_config=RunConfig(model=answers))
        assert result.final_output == "x: [EMAIL]"


async def test_a_run_that_waits_for_approval_goes_on_guarded() -> None:
    """In the same process, and from JSON."""
    for stored in (False, True):
        model = script(function_call("ask", {"q": "x"}, call_id="c1"), assistant_message(f"done {SECRET}"))
        tool = function_tool(_looked, name_override="ask", needs_approval=True)
        agent = Agent[Any](name="a", model=model, tools=[tool])
        runner = as_runner(CLEAN)
        first = await runner.run(agent, f"Hi {SECRET}")
        state = first.to_state()
        if stored:
            state = await RunState.from_json(agent, state.to_json())
        state.approve(state.get_interruptions()[0])
        result = await runner.run(agent, state)
        assert result.final_output == "done [EMAIL]"
        assert SECRET not in repr(result.to_input_list()) + repr([call.input for call in model.calls])


def _looked(q: str) -> str:
    """Look something up."""
    return f"{q}: {SECRET}"


async def test_the_result_holds_the_input_as_the_guards_left_it() -> None:
    """Whole and streamed, text and items, with and without a session."""
    for given in (f"I am {SECRET}", [{"role": "user", "content": f"I am {SECRET}"}]):
        for session in (None, SQLiteSession("s")):
            model = script(assistant_message("Fine."), assistant_message("Fine."))
            agent = Agent[Any](name="a", model=model)
            result: Any = await as_runner(CLEAN).run(agent, given, session=session)  # type: ignore[arg-type]
            assert SECRET not in repr(result.to_input_list())
            other, _ = await streamed(as_runner(CLEAN), agent, given, session=session)
            assert SECRET not in repr(other.to_input_list()) + repr(model.calls)
            if session is not None:
                assert SECRET not in repr(await session.get_items())


async def test_conversations_that_the_provider_keeps_are_refused() -> None:
    """It would keep what guards have removed."""
    agent = Agent[Any](name="a", model=script(assistant_message("Fine.")))
    with pytest.raises(UsageError, match="conversation_id: the provider would keep"):
        await as_runner(CLEAN).run(agent, "Hi", conversation_id="c")
    with pytest.raises(UsageError, match="previous_response_id"):
        as_runner(CLEAN).run_streamed(agent, "Hi", previous_response_id="r")


def test_it_runs_without_a_loop() -> None:
    """As the SDK's ``run_sync`` does."""
    agent = Agent[Any](name="a", model=script(assistant_message(SECRET)))
    assert as_runner(CLEAN).run_sync(agent, "Hi").final_output == "[EMAIL]"


async def test_it_runs_in_a_cell_of_a_notebook() -> None:
    """A loop runs in the thread there; the SDK's own ``run_sync`` refuses that."""
    agent = Agent[Any](name="a", model=script(assistant_message(SECRET)))
    assert as_runner(CLEAN).run_sync(agent, "Hi").final_output == "[EMAIL]"


def test_sync_runs_share_an_event_loop() -> None:
    """Connections that a client keeps open belong to the loop that opened them."""
    loops: list[Any] = []

    async def noted_loop(context: Any, agent: Any) -> str:
        loops.append(asyncio.get_running_loop())
        return "Be brief."

    runner = as_runner(CLEAN)
    for _ in range(2):
        runner.run_sync(Agent[Any](name="a", instructions=noted_loop, model=script(assistant_message("Hi."))), "Hi")
    assert len(loops) == 2
    assert loops[0] is loops[1]


async def test_the_usage_of_rejected_attempts_counts() -> None:
    """They were paid for."""
    from agents import Usage

    class Rejects(Processor):
        id = "rejects"

        def process_output_step(self, ctx: OutputStepContext) -> None:
            if ctx.retry_count == 0:
                ctx.abort("again", retry=True)

    used = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
    steps = [ModelStep(output=[assistant_message(text)], usage=used) for text in ("bad", "good")]
    agent = Agent[Any](name="a", model=ScriptedModel(steps))
    result = await as_runner(Rejects()).run(agent, "Hi")
    assert result.final_output == "good"
    assert (result.context_wrapper.usage.requests, result.context_wrapper.usage.total_tokens) == (2, 30)


async def test_what_a_processor_makes_of_an_earlier_answer_is_sent() -> None:
    """And the results of its calls stay."""

    def shortened(message: Message) -> Message:
        return message.with_parts([TextPart("short") if part.type == "text" else part for part in message.parts])

    class Shortens(Processor):
        id = "shortens"

        def process_input_step(self, ctx: InputStepContext) -> list[Message] | None:
            if ctx.step_number == 0:
                return None
            return [shortened(message) if message.role == "assistant" else message for message in ctx.messages]

    model = script(
        [assistant_message("a long text"), function_call("look", {"q": "x"}, call_id="c1")], assistant_message("Fine.")
    )
    agent = Agent[Any](name="a", model=model, tools=[look])
    result = await as_runner(CLEAN, Shortens()).run(agent, "Hi")
    assert result.final_output == "Fine."
    sent = repr(model.calls[1].input)
    assert "short" in sent
    assert "a long text" not in sent
    assert "x: [EMAIL]" in sent


async def test_requests_of_one_agent_at_the_same_time_stay_apart() -> None:
    """They share the agent, its tools and the runner."""
    runner = as_runner(CLEAN)

    async def ask(number: int) -> str:
        answers = script(
            function_call("look", {"q": str(number)}, call_id="c1"), assistant_message(f"{number} {SECRET}")
        )
        config = RunConfig(model=answers)
        return str((await runner.run(agent, f"Hi {number}", run_config=config)).final_output)

    agent = Agent[Any](name="a", tools=[look])
    assert await asyncio.gather(*map(ask, range(8))) == [f"{number} [EMAIL]" for number in range(8)]


async def test_items_that_share_an_id_have_places_of_their_own() -> None:
    """The SDK's models for chat completions give all items the same one."""
    same = "__fake_id__"
    calls = [function_call("look", {"q": str(number)}, call_id=f"c{number}") for number in range(2)]
    for call in calls:
        call.id = same
    model = script([assistant_message("I look.", item_id=same), *calls], assistant_message("Fine."))
    _, shown = await streamed(as_runner(CLEAN), Agent[Any](name="a", model=model, tools=[look]), "Hi")
    events = [event.data for event in shown if event.type == "raw_response_event"]
    places = [event.output_index for event in events if event.type == "response.output_item.added"]
    assert places[:3] == [0, 1, 2]
    told = {event.output_index: event.item_id for event in events if event.type.endswith("arguments.done")}
    assert told == {1: same, 2: same}


async def test_a_token_in_a_session_keeps_its_meaning() -> None:
    """Values of a later run get other numbers, though the session keeps them before the model is called."""
    runner = as_runner(PIIDetector(redaction_method="token", phase="input"), Restore())
    model = script(assistant_message("Hello."), assistant_message("Hello."))
    agent, session = Agent[Any](name="a", model=model), SQLiteSession("s")
    for name in ("ann", "bob"):
        await runner.run(agent, f"I am {name}@example.com", session=session)
    kept: Any = await session.get_items()
    assert [item["content"] for item in kept if item["role"] == "user"] == ["I am [EMAIL_1]", "I am [EMAIL_2]"]
    assert str(model.calls[1].input).count("[EMAIL_2]") == 1
