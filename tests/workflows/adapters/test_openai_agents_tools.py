"""The adapter for the OpenAI Agents SDK: tools that are no function tools, and what tools leave elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    ApplyPatchTool,
    AsyncComputer,
    ComputerTool,
    CustomTool,
    LocalShellTool,
    Model,
    ModelResponse,
    RunHooks,
    Runner,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    Usage,
    function_tool,
)
from agents.editor import ApplyPatchResult
from agents.testing import assistant_message, function_call
from openai.types.responses import (
    Response,
    ResponseApplyPatchToolCall,
    ResponseCompletedEvent,
    ResponseComputerToolCall,
    ResponseCustomToolCall,
    ResponseFunctionShellToolCall,
    ResponseOutputItem,
)
from pydantic import TypeAdapter

from penstock import Processor
from penstock.engine import Answer
from penstock.engine.values.errors import StepFailedError, UsageError
from penstock.workflows.adapters.openai_agents import OutputBlockedError, as_runner
from tests.workflows.adapters.openai_agents_model import CLEAN, SECRET

if TYPE_CHECKING:
    from penstock import ToolCallContext, ToolResultContext

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


@pytest.fixture
def anyio_backend() -> str:
    """Return the only backend that the SDK has."""
    return "asyncio"


class Scripted(Model):
    """A model that gives these answers, of any items. The SDK's own one does not stream all of them.

    Attributes:
        inputs: what it was asked, call by call.
    """

    def __init__(self, answers: list[list[Any]]) -> None:
        self.inputs: list[Any] = []
        self._answers = iter(answers)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the next answer."""
        self.inputs.append(kwargs["input"] if "input" in kwargs else args[1])
        return ModelResponse(output=next(self._answers), usage=Usage(requests=1), response_id="resp_1")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the next answer, at once."""
        made = await self.get_response(*args, **kwargs)
        told: Any = {"created_at": 0, "model": "scripted", "object": "response", "tool_choice": "auto", "tools": []}
        whole = Response(id="resp_1", output=made.output, parallel_tool_calls=True, **told)
        yield ResponseCompletedEvent(response=whole, sequence_number=0, type="response.completed")


class Ran:
    """What the tools of a test did: the names of those that ran."""

    def __init__(self) -> None:
        self.names: list[str] = []


def _custom(ran: Ran, said: str, *, fails: bool = False) -> tuple[Any, Any]:
    async def look(_context: Any, _given: str) -> str:
        return _made(ran, "custom", said, fails=fails)

    call = ResponseCustomToolCall(call_id="c1", input="ask", name="look", type="custom_tool_call", id="ct_1")
    return CustomTool(name="look", description="Look.", on_invoke_tool=look), call


def _shell(ran: Ran, said: str, *, fails: bool = False) -> tuple[Any, Any]:
    def work(_request: Any) -> ShellResult:
        text = _made(ran, "shell", said, fails=fails)
        return ShellResult([ShellCommandOutput(stdout=text, command="ls")], provider_data={"host": text})

    action = {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    call = ResponseFunctionShellToolCall.model_validate(
        {"id": "sh_1", "call_id": "c1", "action": action, "status": "completed", "type": "shell_call"}
    )
    return ShellTool(executor=work), call


def _shell_text(ran: Ran, said: str, *, fails: bool = False) -> tuple[Any, Any]:
    tool, call = _shell(ran, said, fails=fails)

    def work(_request: Any) -> str:
        return _made(ran, "shell_text", said, fails=fails)

    tool.executor = work
    return tool, call


def _local_shell(ran: Ran, said: str, *, fails: bool = False) -> tuple[Any, Any]:
    action: Any = {"command": ["ls"], "env": {}, "type": "exec"}
    call: Any = TypeAdapter(ResponseOutputItem).validate_python(
        {"id": "ls_1", "call_id": "c1", "action": action, "status": "completed", "type": "local_shell_call"}
    )

    def work(_request: Any) -> str:
        return _made(ran, "local_shell", said, fails=fails)

    return LocalShellTool(executor=work), call


def _patch(ran: Ran, said: str, *, fails: bool = False) -> tuple[Any, Any]:
    class Editor:
        async def create_file(self, operation: Any) -> ApplyPatchResult:
            return ApplyPatchResult(output=_made(ran, "patch", said, fails=fails))

        def update_file(self, operation: Any) -> str:
            return _made(ran, "patch", said, fails=fails)

        def delete_file(self, operation: Any) -> None:
            return None

    operation = {"type": "create_file", "path": "a.txt", "diff": "+a"}
    call = ResponseApplyPatchToolCall.model_validate(
        {"id": "ap_1", "call_id": "c1", "operation": operation, "status": "completed", "type": "apply_patch_call"}
    )
    return ApplyPatchTool(editor=Editor()), call


def _made(ran: Ran, name: str, said: str, *, fails: bool) -> str:
    ran.names.append(name)
    if fails:
        raise ValueError(said)
    return said


KINDS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "custom": _custom,
    "shell": _shell,
    "shell_text": _shell_text,
    "local_shell": _local_shell,
    "patch": _patch,
}
TEXT_OF_ERRORS = sorted(set(KINDS) - {"local_shell"})
"""The kinds of tools whose errors the SDK gives to the model as a text."""


class Hears(RunHooks[Any]):
    """Notes what hooks get."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(result)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.heard.append(str(input_items))


async def ran(runner: Any, agent: Agent[Any], way: str, said: Any = "Hi", **options: Any) -> tuple[Any, list[Any]]:
    """Return the result of a run, and its events."""
    if way == "whole":
        return await runner.run(agent, said, **options), []
    result = runner.run_streamed(agent, said, **options)
    return result, [event async for event in result.stream_events()]


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_result_of_a_tool_is_clean_everywhere(kind: str, way: str) -> None:
    """In the stream, the session, the result, the next call of the model, and in hooks."""
    tool, call = KINDS[kind](Ran(), f"x: {SECRET}")
    for runner, clean in ((as_runner(CLEAN), True), (Runner, False)):
        model = Scripted([[call], [assistant_message("Fine.")]])
        session, hears = SQLiteSession("s"), Hears()
        agent = Agent[Any](name="a", model=model, tools=[tool])
        result, shown = await ran(runner, agent, way, session=session, hooks=hears)
        items = await session.get_items()
        assert result.final_output == "Fine."
        for place in (result.to_input_list(), result.new_items, shown, items, model.inputs[1], hears.heard):
            if place or way == "streamed":
                assert (SECRET not in repr(place)) == clean
                assert not clean or "[EMAIL]" in repr(place)


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("kind", TEXT_OF_ERRORS)
async def test_the_error_of_a_tool_is_read(kind: str, way: str) -> None:
    """The SDK gives its text to the model."""
    for said, left in ((f"no {SECRET}", "no [EMAIL]"), ("no way", "no way")):
        tool, call = KINDS[kind](Ran(), said, fails=True)
        model = Scripted([[call], [assistant_message("Fine.")]])
        session = SQLiteSession("s")
        result, shown = await ran(
            as_runner(CLEAN), Agent[Any](name="a", model=model, tools=[tool]), way, session=session
        )
        told = repr([result.to_input_list(), shown, await session.get_items(), model.inputs[1]])
        assert SECRET not in told
        assert left in told


class Refuses(Processor):
    """Blocks the calls, or the results, of tools."""

    id = "refuses"

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        if self._stage == "call":
            ctx.abort("because of the call")

    def process_tool_result(self, ctx: ToolResultContext) -> None:
        if self._stage == "result":
            ctx.abort("because of the result")


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("stage", ["call", "result"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_blocked_tool_ends_the_run(kind: str, stage: str, way: str) -> None:
    """A blocked call does not run; nothing shows the reason, or what was blocked."""
    did = Ran()
    tool, call = KINDS[kind](did, f"x: {SECRET}")
    model = Scripted([[call], [assistant_message("Fine.")]])
    session, hears = SQLiteSession("s"), Hears()
    agent = Agent[Any](name="a", model=model, tools=[tool])
    with pytest.raises(OutputBlockedError, match=f"because of the {stage}") as said:
        await ran(as_runner(Refuses(stage)), agent, way, session=session, hooks=hears)
    assert len(model.inputs) == 1
    assert did.names == ([] if stage == "call" else [kind])
    told = repr([await session.get_items(), hears.heard, said.value.run_data])
    assert SECRET not in told
    assert "because" not in repr([await session.get_items(), hears.heard])


@pytest.mark.parametrize("way", ["whole", "streamed"])
async def test_a_blocked_tool_ends_a_run_that_stops_without_another_answer(way: str) -> None:
    """The SDK says that there were too many turns; the verdict is what counts."""
    tool, call = _custom(Ran(), "x")
    agent = Agent[Any](name="a", model=Scripted([[call]]), tools=[tool])
    with pytest.raises(OutputBlockedError, match="because of the result"):
        await ran(as_runner(Refuses("result")), agent, way, max_turns=1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_guard_that_breaks_at_a_tool_ends_the_run(kind: str) -> None:
    """The SDK would make a text of the error, and go on."""

    class Breaks(Processor):
        id = "breaks"

        def __init__(self, policy: Any) -> None:
            self.on_error = policy

        def process_tool_result(self, ctx: ToolResultContext) -> None:
            raise KeyError(ctx.tool_name)

    for policy, error in (("block", OutputBlockedError), ("raise", StepFailedError)):
        tool, call = KINDS[kind](Ran(), "x")
        model = Scripted([[call], [assistant_message("Fine.")]])
        with pytest.raises(error, match="breaks"):
            await as_runner(Breaks(policy)).run(Agent[Any](name="a", model=model, tools=[tool]), "Hi")
        assert len(model.inputs) == 1


class Answers(Processor):
    """Answers in the tool's place."""

    id = "answers"

    def process_tool_call(self, ctx: ToolCallContext) -> Answer:
        return Answer("instead")


class Changes(Processor):
    """Changes the arguments of each call."""

    id = "changes"

    def process_tool_call(self, ctx: ToolCallContext) -> Any:
        return {"commands": ["rm"]}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"custom"}))
async def test_changed_arguments_that_the_sdk_cannot_take_end_the_run(kind: str) -> None:
    """The tool does not run with those that a guard has rejected."""
    did = Ran()
    tool, call = KINDS[kind](did, "x")
    model = Scripted([[call], [assistant_message("Fine.")]])
    with pytest.raises(UsageError, match="cannot take changed arguments"):
        await as_runner(Changes()).run(Agent[Any](name="a", model=model, tools=[tool]), "Hi")
    assert did.names == []


async def test_changed_input_of_a_custom_tool_reaches_it() -> None:
    """Its call is checked with the answer."""
    heard: list[str] = []

    async def look(_context: Any, given: str) -> str:
        heard.append(given)
        return given

    tool = CustomTool(name="look", description="Look.", on_invoke_tool=look)
    _, call = _custom(Ran(), "x")
    call.input = f"ask {SECRET}"
    model = Scripted([[call], [assistant_message("Fine.")]])
    await as_runner(CLEAN).run(Agent[Any](name="a", model=model, tools=[tool]), "Hi")
    assert heard == ["ask [EMAIL]"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_processor_can_answer_in_the_tools_place(kind: str) -> None:
    """The tool does not run."""
    did = Ran()
    tool, call = KINDS[kind](did, "x")
    model = Scripted([[call], [assistant_message("Fine.")]])
    await as_runner(Answers()).run(Agent[Any](name="a", model=model, tools=[tool]), "Hi")
    assert did.names == []
    assert "instead" in repr(model.inputs[1])


class Screen(AsyncComputer):
    """A computer with one picture."""

    def __init__(self) -> None:
        self.shots = 0
        self.done: list[str] = []

    @property
    def environment(self) -> Any:
        return "browser"

    @property
    def dimensions(self) -> tuple[int, int]:
        return 1, 1

    async def screenshot(self) -> str:
        self.shots += 1
        return "c2VjcmV0"

    async def click(self, x: int, y: int, button: Any) -> None:
        self.done.append("click")

    async def double_click(self, x: int, y: int) -> None: ...
    async def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None: ...
    async def type(self, text: str) -> None:
        self.done.append("type")

    async def wait(self) -> None: ...
    async def move(self, x: int, y: int) -> None: ...
    async def keypress(self, keys: list[str]) -> None: ...
    async def drag(self, path: list[tuple[int, int]]) -> None: ...


class Covers(Processor):
    """Replaces each screenshot."""

    id = "covers"

    def process_tool_result(self, ctx: ToolResultContext) -> Any:
        return {"type": "computer_screenshot", "image_url": "data:image/png;base64,Y292ZXI="}


def _clicks(*actions: Any) -> ResponseComputerToolCall:
    return ResponseComputerToolCall.model_validate(
        {
            "id": "cu_1",
            "call_id": "c1",
            "actions": list(actions or [{"type": "screenshot"}]),
            "pending_safety_checks": [],
            "status": "completed",
            "type": "computer_call",
        }
    )


@pytest.mark.parametrize("made", ["once", "for each run"])
async def test_screenshots_pass_the_guards(made: str) -> None:
    """Of a computer, and of one that is made for each run."""

    def make(*, run_context: Any) -> Screen:
        return Screen()

    computer: Any = Screen() if made == "once" else make
    for _ in range(2):  # it is guarded once
        model = Scripted([[_clicks()], [assistant_message("Fine.")]])
        agent = Agent[Any](name="a", model=model, tools=[ComputerTool(computer=computer)])
        result, shown = await ran(as_runner(Covers()), agent, "streamed")
        told = repr([result.to_input_list(), shown, model.inputs[1]])
        assert "c2VjcmV0" not in told
        assert "Y292ZXI=" in told
        blocked = Agent[Any](name="a", model=Scripted([[_clicks()]]), tools=[ComputerTool(computer=computer)])
        with pytest.raises(OutputBlockedError, match="because of the result"):
            await as_runner(Refuses("result")).run(blocked, "Hi")


async def test_actions_of_a_computer_pass_the_guards() -> None:
    """A guard that knows the tool's name, or its arguments, stops them before they are done."""
    seen: list[Any] = []

    class Watches(Processor):
        id = "watches"

        def process_tool_call(self, ctx: ToolCallContext) -> None:
            seen.append(dict(ctx.arguments))
            if ctx.arguments["type"] == "type":
                ctx.abort("no typing")

    clicks = _clicks(
        {"type": "click", "x": 1, "y": 2, "button": "left", "keys": ["ctrl"]}, {"type": "type", "text": "rm"}
    )
    screen = Screen()
    agent = Agent[Any](name="a", model=Scripted([[clicks]]), tools=[ComputerTool(computer=screen)])
    with pytest.raises(OutputBlockedError, match="no typing"):
        await as_runner(Watches()).run(agent, "Hi")
    assert seen == [{"type": "click", "x": 1, "y": 2, "button": "left"}, {"type": "type", "text": "rm"}]
    assert screen.done == ["click"]


async def test_a_screenshot_that_is_no_image_any_more_is_refused() -> None:
    """The SDK would send it as an image."""

    class Spoils(Processor):
        id = "spoils"

        def process_tool_result(self, ctx: ToolResultContext) -> Any:
            return "no image"

    agent = Agent[Any](name="a", model=Scripted([[_clicks()]]), tools=[ComputerTool(computer=Screen())])
    with pytest.raises(UsageError, match="takes images only"):
        await as_runner(Spoils()).run(agent, "Hi")


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("kind", ["before", "after"])
async def test_what_a_guardrail_of_the_user_puts_in_the_place_of_a_result_is_read(kind: str, way: str) -> None:
    """The SDK asks no other guardrail then."""

    @function_tool
    def look(q: str) -> str:
        """Look something up."""
        return q

    def rejects(_data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content(f"not for {SECRET}")

    if kind == "before":
        look.tool_input_guardrails = [ToolInputGuardrail[Any](rejects)]
    else:
        look.tool_output_guardrails = [ToolOutputGuardrail[Any](rejects)]
    model = Scripted([[function_call("look", {"q": "x"}, call_id="c1")], [assistant_message("Fine.")]])
    session = SQLiteSession("s")
    agent = Agent[Any](name="a", model=model, tools=[look])
    result, shown = await ran(as_runner(CLEAN), agent, way, session=session)
    told = repr([result.to_input_list(), shown, await session.get_items(), model.inputs[1]])
    assert SECRET not in told
    assert "not for [EMAIL]" in told
    names = [
        one.guardrail.get_name()
        for one in (*result.tool_input_guardrail_results, *result.tool_output_guardrail_results)
    ]
    assert "rejects" in names
