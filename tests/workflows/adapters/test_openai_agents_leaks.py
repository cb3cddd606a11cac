"""The adapter for the OpenAI Agents SDK: places where a text that guards hide could come out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    AgentHooks,
    MaxTurnsExceeded,
    Model,
    ModelRefusalError,
    ModelResponse,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunState,
    SQLiteSession,
    TracingProcessor,
    Usage,
    function_tool,
    handoff,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.mcp import MCPServer
from agents.testing import assistant_message, function_call
from mcp.types import CallToolResult, TextContent, Tool as MCPTool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputRefusal,
)
from pydantic import TypeAdapter

from penstock import PIIDetector, Processor
from penstock.engine.values.errors import UsageError
from penstock.engine.values.tripwire import BlockedError
from penstock.workflows.adapters.openai_agents import InputBlockedError, as_runner
from tests.workflows.adapters.openai_agents_model import CLEAN, SECRET, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock import InputContext

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


@pytest.fixture
def anyio_backend() -> str:
    """Return the only backend that the SDK has."""
    return "asyncio"


@function_tool
def look(q: str) -> str:
    """Look something up."""
    return f"{q}: {SECRET}"


def _failed(_context: Any, _error: Exception) -> str:
    return "it failed"


@function_tool(failure_error_function=_failed)
def fail(q: str) -> str:
    """Fail."""
    raise ValueError(f"{q}: {SECRET}")


async def ran(runner: Any, agent: Agent[Any], way: str, said: Any = "Hi", **options: Any) -> tuple[Any, list[Any]]:
    """Return the result of a run, and its events."""
    if way == "whole":
        return await runner.run(agent, said, **options), []
    result = runner.run_streamed(agent, said, **options)
    return result, [event async for event in result.stream_events()]


both = pytest.mark.parametrize("way", ["whole", "streamed"])


class Exports(TracingProcessor):
    """Notes what spans and traces export."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_trace_start(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...

    def on_trace_end(self, trace: Any) -> None:
        """Note the trace."""
        self.told.append(trace.export())

    def on_span_end(self, span: Any) -> None:
        """Note the span."""
        self.told.append(span.export())


@both
async def test_traces_of_the_sdk_hold_nothing_that_guards_have_hidden(way: str) -> None:
    """Neither of a model, nor of tools and their errors."""
    for runner, clean in ((as_runner(CLEAN), True), (Runner, False)):
        exports = Exports()
        set_trace_processors([exports])
        set_tracing_disabled(disabled=False)
        try:
            calls = [function_call(name, {"q": "x"}, call_id=name) for name in ("look", "fail")]
            inner = Agent[Any](name="inner", model=script(calls, assistant_message(SECRET)), tools=[look, fail])
            asks = function_call("ask", {"input": SECRET}, call_id="ask")
            model = script([*calls, asks], assistant_message(SECRET))
            agent = Agent[Any](name="a", model=model, tools=[look, fail, inner.as_tool("ask", "Ask")])
            await ran(runner, agent, way, SECRET)
        finally:
            set_tracing_disabled(disabled=True)
            set_trace_processors([])
        assert len(exports.told) > 8
        assert (SECRET not in repr(exports.told)) == clean


@both
async def test_a_stored_prompts_variables_are_read(way: str) -> None:
    """Texts, and parts; they stay in their places, at each call."""
    prompt: Any = {
        "id": "p1",
        "version": "2",
        "variables": {"b": f"ask {SECRET}", "a": {"type": "input_text", "text": SECRET}, "c": "plain", "d": ""},
    }
    model = script(function_call("look", {"q": "x"}, call_id="c1"), assistant_message("Fine."))
    agent = Agent[Any](name="a", model=model, prompt=prompt, tools=[look])
    result, _ = await ran(as_runner(CLEAN), agent, way)
    assert result.final_output == "Fine."
    for call in model.calls:
        asked: Any = call.prompt
        assert (asked["id"], asked["version"]) == ("p1", "2")
        left = asked["variables"]
        assert (left["b"], left["c"], left["d"]) == ("ask [EMAIL]", "plain", "")
        assert (left["a"]["type"], left["a"]["text"]) == ("input_text", "[EMAIL]")
    assert [item.get("role") for item in model.calls[0].input] == ["user"]
    with pytest.raises(InputBlockedError):
        await ran(as_runner(PIIDetector(strategy="block")), agent, way)


@both
async def test_a_stored_prompts_variables_are_no_memory(way: str) -> None:
    """They are new in each run, also where the session counts as checked."""
    session = SQLiteSession("s")
    runner = as_runner(CLEAN, history="memory")
    for number in range(2):
        model = script(function_call("look", {"q": "x"}, call_id=f"c{number}"), assistant_message("Fine."))
        prompt: Any = {"id": "p1", "variables": {"who": f"{number} {SECRET}"}}
        agent = Agent[Any](name="a", model=model, prompt=prompt, tools=[look])
        await ran(runner, agent, way, f"Hi {number}", session=session)
        asked: Any = [call.prompt for call in model.calls]
        assert [one["variables"]["who"] for one in asked] == [f"{number} [EMAIL]"] * 2
        assert f"{number} [EMAIL]" not in repr([call.input for call in model.calls])


async def test_a_processor_that_drops_a_variable_is_an_error() -> None:
    """Nothing says then which variable is which."""

    class Drops(Processor):
        id = "drops"

        def process_input(self, ctx: InputContext) -> Any:
            return [message for message in ctx.messages if "Hi" in message.text]

    agent = Agent[Any](name="a", model=script(assistant_message("x")), prompt={"id": "p", "variables": {"b": "x"}})
    with pytest.raises(UsageError, match="0 parts of the 1 variables"):
        await as_runner(Drops()).run(agent, "Hi")


@both
async def test_the_state_of_a_run_that_waits_holds_what_guards_left(way: str) -> None:
    """It may be stored as JSON."""
    tool = function_tool(lambda q: q, name_override="ask", description_override="Ask.", needs_approval=True)
    model = script(function_call("ask", {"q": SECRET}, call_id="c1"), assistant_message(SECRET))
    agent = Agent[Any](name="a", model=model, tools=[tool])
    result, _ = await ran(as_runner(CLEAN), agent, way, f"I am {SECRET}")
    state = result.to_state()
    assert SECRET not in json.dumps(state.to_json())
    again = await RunState.from_json(agent, state.to_json())
    again.reject(again.get_interruptions()[0], rejection_message=f"ask {SECRET}")
    session = SQLiteSession("s")
    result, shown = await ran(as_runner(CLEAN), agent, way, again, session=session)
    told = [result.to_input_list(), shown, await session.get_items(), model.calls[1].input]
    assert result.final_output == "[EMAIL]"
    assert all("ask [EMAIL]" in repr(place) for place in told if place)
    assert SECRET not in repr(told)


@both
async def test_a_blocked_text_of_a_rejection_ends_the_run(way: str) -> None:
    """It is read as the result that it stands for."""
    tool = function_tool(lambda q: q, name_override="ask", description_override="Ask.", needs_approval=True)
    model = script(function_call("ask", {"q": "x"}, call_id="c1"), assistant_message("Fine."))
    agent = Agent[Any](name="a", model=model, tools=[tool])
    runner = as_runner(PIIDetector(strategy="block"))
    waits, _ = await ran(runner, agent, way)
    state = waits.to_state()
    state.reject(state.get_interruptions()[0], rejection_message=f"ask {SECRET}")
    with pytest.raises(BlockedError) as said:
        await ran(runner, agent, way, state)
    assert SECRET not in repr(said.value)


@pytest.mark.rest
@both
async def test_a_waiting_agent_that_is_a_tool_goes_on_guarded(way: str) -> None:
    """In the same process, and from JSON."""
    for stored in (False, True):
        tool = function_tool(
            lambda q: f"{q}: {SECRET}", name_override="find", description_override="Find.", needs_approval=True
        )
        inner_model = script(function_call("find", {"q": SECRET}, call_id="i1"), assistant_message(SECRET))
        inner = Agent[Any](name="inner", model=inner_model, tools=[tool])
        model = script(function_call("ask", {"input": SECRET}, call_id="c1"), assistant_message(SECRET))
        agent = Agent[Any](name="a", model=model, tools=[inner.as_tool("ask", "Ask")])
        waits, _ = await ran(as_runner(CLEAN), agent, way, f"I am {SECRET}")
        state = waits.to_state()
        told = json.dumps(state.to_json())
        if stored:
            state = await RunState.from_json(agent, state.to_json())
        state.approve(state.get_interruptions()[0])
        result, shown = await ran(as_runner(CLEAN), agent, way, state)
        asked = [call.input for call in (*model.calls, *inner_model.calls)]
        assert result.final_output == "[EMAIL]"
        assert SECRET not in told + repr([result.to_input_list(), shown, asked])


class Hears(RunHooks[Any]):
    """Notes all that hooks of a run get."""

    def __init__(self) -> None:
        self.heard: dict[str, list[str]] = {}

    def _note(self, name: str, context: Any, *told: Any) -> None:
        self.heard.setdefault(name, []).append(repr([*told, context.turn_input]))

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self._note("llm_start", context, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self._note("llm_end", context, response)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self._note("agent_end", context, output)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self._note("tool_start", context, context.tool_arguments)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self._note("tool_end", context, result)


class HearsOne(AgentHooks[Any]):
    """Notes what hooks of an agent get before the model is called."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.heard.append(repr([input_items, context.turn_input]))


@both
async def test_hooks_get_what_guards_left(way: str) -> None:
    """Hooks of a run, and of an agent: the input, answers, calls and results, and the input in the context."""
    hears, one = Hears(), HearsOne()
    model = script(
        [assistant_message(SECRET), function_call("look", {"q": SECRET}, call_id="c1")], assistant_message(SECRET)
    )
    agent = Agent[Any](name="a", model=model, tools=[look], hooks=one)
    await ran(as_runner(CLEAN), agent, way, f"I am {SECRET}", hooks=hears)
    assert sorted(hears.heard) == ["agent_end", "llm_end", "llm_start", "tool_end", "tool_start"]
    assert SECRET not in repr(hears.heard) + repr(one.heard)
    assert "I am [EMAIL]" in hears.heard["llm_start"][0]
    assert "I am [EMAIL]" in one.heard[0]
    silent = Hears()
    with pytest.raises(InputBlockedError):
        await ran(as_runner(PIIDetector(strategy="block")), agent, way, f"I am {SECRET}", hooks=silent)
    assert silent.heard == {}


async def noted(agent: Agent[Any], shown: list[Any]) -> None:
    """Run an agent, and note its events, also those before an error."""
    async for event in as_runner(CLEAN).run_streamed(agent, "Hi").stream_events():
        shown.append(event)  # noqa: PERF401 - a comprehension would lose them


@both
async def test_a_refusal_is_read(way: str) -> None:
    """Its deltas, its part, and the item."""
    part = ResponseOutputRefusal(refusal=f"I do not write to {SECRET}", type="refusal")
    told = ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")
    shown: list[Any] = []
    agent = Agent[Any](name="a", model=script(told))
    with pytest.raises(ModelRefusalError, match=r"I do not write to \[EMAIL\]") as said:
        await (as_runner(CLEAN).run(agent, "Hi") if way == "whole" else noted(agent, shown))
    assert SECRET not in repr([shown, said.value, said.value.refusal, said.value.run_data])


@both
async def test_a_handoff_that_nests_the_history_tells_what_guards_left(way: str) -> None:
    """The SDK writes the conversation into one message."""
    second_model = script(assistant_message("Fine."))
    second = Agent[Any](name="second", model=second_model)
    first = Agent[Any](
        name="first",
        model=script([assistant_message(SECRET), function_call("transfer_to_second", {}, call_id="c1")]),
        handoffs=[handoff(second, nest_handoff_history=True)],
    )
    session = SQLiteSession("s")
    result, shown = await ran(as_runner(CLEAN), first, way, f"I am {SECRET}", session=session)
    told = [result.to_input_list(), shown, await session.get_items(), second_model.calls[0].input, result.input]
    assert SECRET not in repr(told)
    assert SECRET not in json.dumps(result.to_state().to_json())


@both
async def test_an_error_of_the_sdk_holds_what_guards_left(way: str) -> None:
    """Of too many turns."""
    agent = Agent[Any](name="a", model=script(function_call("look", {"q": SECRET}, call_id="c1")), tools=[look])
    with pytest.raises(MaxTurnsExceeded) as said:
        await ran(as_runner(CLEAN), agent, way, f"I am {SECRET}", max_turns=1)
    assert SECRET not in repr(said.value.run_data)


@both
async def test_a_run_inside_of_a_tool_is_apart(way: str) -> None:
    """By the SDK's own runner, or by a guarded one: the outer run stays guarded."""
    for inner_runner in (Runner, as_runner(CLEAN)):
        inner_model = script(assistant_message(f"inner {SECRET}"))
        inner = Agent[Any](name="inner", model=inner_model)

        @function_tool
        async def ask(q: str) -> str:
            """Ask."""
            return str((await inner_runner.run(inner, q)).final_output)  # noqa: B023 - runs in this turn

        model = script(function_call("ask", {"q": SECRET}, call_id="c1"), assistant_message(SECRET))
        result, shown = await ran(as_runner(CLEAN), Agent[Any](name="a", model=model, tools=[ask]), way)
        assert result.final_output == "[EMAIL]"
        assert SECRET not in repr([shown, result.to_input_list(), inner_model.calls[0].input, model.calls[1].input])


@both
async def test_a_verdict_in_an_agent_that_is_a_tool_does_not_say_why(way: str) -> None:
    """The SDK makes a text of the error for the model; that text may be shown."""
    inner = Agent[Any](name="inner", model=script(assistant_message(SECRET)))
    model = script(function_call("ask", {"input": "x"}, call_id="c1"), assistant_message("Fine."))
    agent = Agent[Any](name="a", model=model, tools=[inner.as_tool("ask", "Ask")])
    result, shown = await ran(as_runner(output_processors=[PIIDetector(strategy="block")]), agent, way)
    told = repr([shown, result.to_input_list(), model.calls[1].input])
    assert "An error occurred while running the tool" in told
    assert SECRET not in told
    assert "blocked" not in told


@both
async def test_a_tool_finds_what_guards_left_in_its_context(way: str) -> None:
    """The SDK keeps the input of the turn there."""
    seen: list[str] = []

    @function_tool
    def ask(context: RunContextWrapper[Any], q: str) -> str:
        """Ask."""
        seen.append(repr(context.turn_input))
        return q

    model = script(function_call("ask", {"q": "x"}, call_id="c1"), assistant_message("Fine."))
    result, _ = await ran(as_runner(CLEAN), Agent[Any](name="a", model=model, tools=[ask]), way, f"I am {SECRET}")
    assert "I am [EMAIL]" in seen[0]
    assert SECRET not in seen[0] + repr(result.context_wrapper.turn_input)


@both
async def test_a_handler_of_errors_gets_what_guards_left(way: str) -> None:
    """What it makes of that becomes the result."""

    def handle(given: Any) -> Any:
        return f"sorry: {given.run_data.input} {given.run_data.history}"

    agent = Agent[Any](name="a", model=script(function_call("look", {"q": SECRET}, call_id="c1")), tools=[look])
    result, shown = await ran(
        as_runner(CLEAN), agent, way, f"I am {SECRET}", max_turns=1, error_handlers={"max_turns": handle}
    )
    assert "sorry: I am [EMAIL]" in result.final_output
    assert SECRET not in repr([result.final_output, shown, result.to_input_list()])


@both
async def test_events_of_an_agent_that_is_a_tool_are_clean(way: str) -> None:
    """A function of the user gets them."""
    shown: list[Any] = []
    inner = Agent[Any](
        name="inner", model=script(function_call("look", {"q": "x"}, call_id="i1"), assistant_message(SECRET))
    )
    inner.tools = [look]
    hears, session = Hears(), SQLiteSession("inner")
    tool = inner.as_tool("ask", "Ask", on_stream=shown.append, hooks=hears, session=session)
    model = script(function_call("ask", {"input": f"I am {SECRET}"}, call_id="c1"), assistant_message("Fine."))
    await ran(as_runner(CLEAN), Agent[Any](name="a", model=model, tools=[tool]), way)
    assert len(shown) > 3
    assert SECRET not in repr([shown, hears.heard, await session.get_items()])


class Keeps:
    """A session of the user's own: it has what the protocol asks for, and takes the context of the run."""

    session_id = "own"

    def __init__(self, mode: str | None = None) -> None:
        self.items: list[Any] = []
        self.contexts: list[Any] = []
        if mode is not None:
            self.run_compaction = self._shorten
            self.compaction_mode = mode

    async def _shorten(self, *args: Any, **kwargs: Any) -> None: ...

    async def get_items(self, limit: int | None = None, *, wrapper: Any) -> list[Any]:
        self.contexts.append(wrapper)
        return self.items[-limit:] if limit else list(self.items)

    async def add_items(self, items: list[Any], *, wrapper: Any) -> None:
        self.contexts.append(wrapper)
        self.items += items

    async def pop_item(self, *, wrapper: Any) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self, *, wrapper: Any) -> None:
        self.items.clear()


@both
async def test_a_session_of_the_users_own_keeps_what_guards_left(way: str) -> None:
    """It gets the context of the run, as from the SDK."""
    session = Keeps()
    for text in (SECRET, "again"):
        model = script(function_call("look", {"q": "x"}, call_id="c1"), assistant_message(SECRET))
        agent = Agent[Any](name="a", model=model, tools=[look])
        result, _ = await ran(as_runner(CLEAN), agent, way, text, session=session)
        assert SECRET not in repr([session.items, model.calls[-1].input, result.to_input_list()])
    assert len(session.items) == 8
    assert None not in session.contexts


@both
async def test_a_sealed_session_keeps_what_guards_left(way: str) -> None:
    """The SDK's own, around another one."""
    pytest.importorskip("cryptography", reason="the SDK's encrypt extra is not installed")
    from agents.extensions.memory import EncryptedSession

    session = EncryptedSession("s", SQLiteSession("s"), "a key")
    agent = Agent[Any](name="a", model=script(assistant_message(SECRET)))
    await ran(as_runner(CLEAN), agent, way, f"I am {SECRET}", session=session)
    kept = await session.get_items()
    assert "I am [EMAIL]" in repr(kept)
    assert SECRET not in repr(kept)


async def test_a_session_that_the_provider_shortens_is_refused() -> None:
    """Its copy of the answers holds what guards have removed; a copy of ours does not."""
    agent = Agent[Any](name="a", model=script(assistant_message("Fine.")))
    with pytest.raises(UsageError, match="unless its compaction_mode is 'input'"):
        await ran(as_runner(CLEAN), agent, "whole", session=Keeps("auto"))
    with pytest.raises(UsageError, match="unless its compaction_mode is 'input'"):
        await ran(as_runner(CLEAN), agent, "streamed", session=Keeps("auto"))
    result, _ = await ran(as_runner(CLEAN), agent, "whole", session=Keeps("input"))
    assert result.final_output == "Fine."


@both
async def test_a_blocked_input_is_in_no_session(way: str) -> None:
    """Nor is it in the error."""
    session = SQLiteSession("s")
    agent = Agent[Any](name="a", model=script(assistant_message("Fine.")))
    with pytest.raises(InputBlockedError) as said:
        await ran(as_runner(PIIDetector(strategy="block")), agent, way, f"I am {SECRET}", session=session)
    assert await session.get_items() == []
    assert SECRET not in repr(said.value) + repr(said.value.run_data)


class Server(MCPServer):
    """An MCP server with one tool."""

    @property
    def name(self) -> str:
        return "server"

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        told: Any = {"name": "find", "description": "Find.", "inputSchema": {"type": "object", "properties": {}}}
        return [MCPTool.model_validate(told)]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        return CallToolResult(content=[TextContent(type="text", text=f"found {SECRET}")])

    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


@both
async def test_tools_of_mcp_servers_are_guarded(way: str) -> None:
    """The SDK makes them anew at each turn."""
    model = script(*[function_call("find", {}, call_id=f"c{number}") for number in (1, 2)], assistant_message("Fine."))
    agent = Agent[Any](name="a", model=model, mcp_servers=[Server()])
    hears, session = Hears(), SQLiteSession("s")
    result, shown = await ran(as_runner(CLEAN), agent, way, session=session, hooks=hears)
    told = repr([result.to_input_list(), shown, await session.get_items(), hears.heard, model.calls[2].input])
    assert "found [EMAIL]" in told
    assert SECRET not in told


@both
async def test_items_of_the_providers_tools_are_read_in_all_places(way: str) -> None:
    """Code and its output, calls of hosted MCP servers, file searches."""
    items: list[Any] = [
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": f"mail('{SECRET}')",
            "container_id": "k",
            "status": "completed",
            "outputs": [{"type": "logs", "logs": f"sent to {SECRET}"}],
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "find",
            "server_label": "s",
            "arguments": json.dumps({"q": SECRET}),
            "output": f"found {SECRET}",
        },
        {
            "type": "file_search_call",
            "id": "fs_1",
            "queries": [SECRET],
            "status": "completed",
            "results": [{"text": f"written by {SECRET}", "filename": "a.txt"}],
        },
    ]
    output = [TypeAdapter[Any](ResponseOutputItem).validate_python(item) for item in items]
    model = Says([*output, assistant_message("Fine.")])
    session = SQLiteSession("s")
    result, shown = await ran(as_runner(CLEAN), Agent[Any](name="a", model=model), way, session=session)
    told = repr([result.to_input_list(), result.new_items, shown, await session.get_items()])
    assert "sent to [EMAIL]" in told
    assert "written by [EMAIL]" in told
    assert SECRET not in told


class Says(Model):
    """A model with one answer of any items; the SDK's own one does not stream all of them."""

    def __init__(self, output: list[Any]) -> None:
        self._output = output

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(output=self._output, usage=Usage(requests=1), response_id="resp_1")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        told: Any = {"created_at": 0, "model": "says", "object": "response", "tool_choice": "auto", "tools": []}
        whole = Response(id="resp_1", output=self._output, parallel_tool_calls=True, **told)
        yield ResponseCompletedEvent(response=whole, sequence_number=0, type="response.completed")


async def test_a_voice_workflow_that_uses_the_runner_is_guarded() -> None:
    """It speaks what the guards released."""
    pytest.importorskip("numpy", reason="the SDK's voice extra is not installed")
    from agents.voice import VoiceWorkflowBase, VoiceWorkflowHelper

    model = script(assistant_message(f"Write to {SECRET}"))
    runner, agent = as_runner(CLEAN), Agent[Any](name="a", model=model)

    class Speaks(VoiceWorkflowBase):
        async def run(self, transcription: str) -> AsyncIterator[str]:
            async for text in VoiceWorkflowHelper.stream_text_from(runner.run_streamed(agent, transcription)):
                yield text

    spoken = "".join([text async for text in Speaks().run(f"I am {SECRET}")])
    assert spoken == "Write to [EMAIL]"
    assert SECRET not in repr(model.calls[0].input)


@pytest.mark.rest
async def test_agents_of_other_kinds_are_refused() -> None:
    """A realtime agent runs in a session of its own, which no runner guards."""
    from agents.realtime import RealtimeAgent

    with pytest.raises(UsageError, match="cannot guard RealtimeAgent"):
        await as_runner(CLEAN).run(RealtimeAgent(name="r"), "Hi")  # type: ignore[arg-type]
