"""Google ADK: the ways around its models by which a text could reach somebody unread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from importlib.metadata import version
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionResult
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.planners import PlanReActPlanner
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from penstock import APIErrorContext, InputStepContext, PIIDetector, Retry, processor
from penstock.engine import Overrides
from penstock.workflows.adapters.google_adk import as_plugin, tripwire_of
from tests.hosts.cases import HIDES
from tests.workflows.adapters.test_google_adk import Answers, answering, events_of, runner_of

MAIL = "ada@example.com"
BLOCKS = PIIDetector(strategy="block")
IS_2_0 = version("google-adk").startswith("2.0.")

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")  # of ADK 2.0, at the first use of a feature


@pytest.fixture
def anyio_backend() -> str:
    """ADK runs on asyncio."""
    return "asyncio"


def call(name: str, **arguments: Any) -> types.Part:
    """Return a call to a tool."""
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments, id="c1"))


def content(text: str) -> types.Content:
    """Return what a callback answers."""
    return types.Content(role="model", parts=[types.Part(text=text)])


def response(text: str) -> LlmResponse:
    """Return what a callback answers in the model's place."""
    return LlmResponse(content=content(text))


def agent(*answers: types.Part | str, **options: Any) -> LlmAgent:
    """Return an agent with a model that gives these answers, the last one again and again."""
    script = iter(answers)

    def answer(_: LlmRequest) -> types.Part:
        said = next(script, answers[-1])
        return types.Part(text=said) if isinstance(said, str) else said

    return LlmAgent(name="agent", model=answering(answer), **options)


def noting(asked: list[LlmRequest]) -> Answers:
    """Return a model that notes what it is asked."""

    def answer(request: LlmRequest) -> types.Part:
        asked.append(request)
        return types.Part(text="Hello")

    return answering(answer)


def texts(event: Any) -> str:
    """Return the text of an event."""
    return "".join(part.text or "" for part in event.content.parts)


CALLBACKS: list[dict[str, Callable[..., Any]]] = [
    {"before_agent_callback": lambda **_: content(f"It is {MAIL}")},
    {"after_agent_callback": lambda **_: content(f"It is {MAIL}")},
    {"before_model_callback": lambda **_: response(f"It is {MAIL}")},
    {"after_model_callback": lambda llm_response, **_: llm_response.model_copy(update={"content": content(MAIL)})},
]


@pytest.mark.parametrize("callback", CALLBACKS)
async def test_what_callbacks_of_an_agent_say_is_read(callback: dict[str, Any]) -> None:
    """The events, the session and the state hold what the guards left, or the verdict."""
    events, session = await events_of(runner_of(agent("Hello", output_key="kept", **callback), HIDES), "Hi")
    assert MAIL not in repr(events) + repr(session)
    assert "[EMAIL]" in repr(events)
    events, session = await events_of(runner_of(agent("Hello", output_key="kept", **callback), BLOCKS), "Hi")
    assert MAIL not in repr(events) + repr(session)
    assert tripwire_of(events[-1]) is not None


class Own(BaseAgent):
    """An agent that is no LLM agent, such as a remote one."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        for piece in ("It is ada@ex", "ample.com"):
            yield Event(author=self.name, invocation_id=ctx.invocation_id, partial=True, content=content(piece))
        whole, raw = content(f"It is {MAIL}"), {"raw": MAIL}
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=whole, custom_metadata=raw)


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning")
async def test_what_an_agent_of_another_kind_says_is_read() -> None:
    """Whole: its pieces cannot be judged. After a verdict no other agent goes on."""
    events, session = await events_of(runner_of(Own(name="own"), HIDES), "Hi")
    assert [texts(event) for event in events] == ["", "", "It is [EMAIL]"]
    assert "example" not in repr(events) + repr(session)
    asked: list[LlmRequest] = []
    after = LlmAgent(name="after", model=noting(asked))
    both = SequentialAgent(name="both", sub_agents=[Own(name="own"), after])
    events, session = await events_of(runner_of(both, BLOCKS), "Hi")
    assert [tripwire_of(event) is not None for event in events if not event.partial] == [True, True]
    assert asked == []
    assert "example" not in repr(events) + repr(session)


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated:DeprecationWarning")
async def test_a_verdict_on_such_an_agent_leaves_the_ones_beside_it_alone() -> None:
    """As one on the answer of a model does, though events of one's own need not name their branch."""
    judged = asyncio.Event()

    async def wait(**_: Any) -> None:
        await judged.wait()

    own = Own(name="own", after_agent_callback=lambda **_: judged.set())
    both = ParallelAgent(name="both", sub_agents=[own, agent("I am fine", before_model_callback=wait)])
    events, session = await events_of(runner_of(both, BLOCKS), "Hi")
    whole = {event.author: event for event in events if not event.partial}
    assert tripwire_of(whole["own"]) is not None
    assert texts(whole["agent"]) == "I am fine"
    assert MAIL not in repr(events) + repr(session)


class Computes(BaseCodeExecutor):
    """Runs no code, and says what came of it."""

    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> CodeExecutionResult:
        """Say so."""
        return CodeExecutionResult(stdout=f"found {MAIL}")


async def test_what_code_prints_is_read() -> None:
    """The model read it before, the events and the session did not."""
    code = "```python\nprint(1)\n```"
    events, session = await events_of(runner_of(agent(code, "done", code_executor=Computes()), HIDES), "Hi")
    assert "found [EMAIL]" in repr(session)
    assert MAIL not in repr(events) + repr(session)
    assert texts(events[-1]) == "done"
    events, session = await events_of(runner_of(agent(code, "done", code_executor=Computes()), BLOCKS), "Hi")
    assert tripwire_of(events[-1]) is not None
    assert MAIL not in repr(events) + repr(session)


@pytest.mark.skipif(IS_2_0, reason="ADK 2.0 leaves the answer of a planner as it is")
async def test_a_plan_is_read_once() -> None:
    """A planner cuts the answer up; its pieces were released with it."""
    seen: list[str] = []

    @processor("process_output_result", role="guard")
    def notes(ctx: Any) -> None:
        seen.append(ctx.text)

    plan = f"/*PLANNING*/ ask {MAIL} /*FINAL_ANSWER*/ I asked {MAIL}"
    events, _ = await events_of(runner_of(agent(plan, planner=PlanReActPlanner()), HIDES, notes), "Hi")
    assert [part.text for part in events[-1].content.parts] == [" ask [EMAIL] ", " I asked [EMAIL]"]
    assert len(seen) == 1


class Fails(Answers):
    """Answers with an error until it is asked again."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT002
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next answer."""
        yield next(self._answer)


def failing(*responses: LlmResponse) -> LlmAgent:
    """Return an agent with such a model."""
    model = Fails()
    model._answer = iter(responses)
    return LlmAgent(name="agent", model=model)


OVERLOADED = LlmResponse(error_code="503", error_message=f"busy with {MAIL}")


async def test_an_answer_that_is_an_error_reaches_the_error_stage() -> None:
    """As an error that the model raises does."""
    codes: list[Any] = []

    @processor("process_api_error", role="guard")
    def again(ctx: APIErrorContext) -> Retry:
        codes.append((getattr(ctx.error, "status", None), getattr(ctx.error, "retryable", None)))
        return Retry()

    events, _ = await events_of(runner_of(failing(OVERLOADED, response("Hello")), again), "Hi")
    assert codes == [(503, True)]
    assert texts(events[-1]) == "Hello"


async def test_an_answer_that_is_an_error_is_told_as_one() -> None:
    """If nobody asks again; its message is read."""
    events, session = await events_of(runner_of(failing(OVERLOADED), HIDES), "Hi")
    assert (events[-1].error_code, events[-1].error_message) == ("503", "busy with [EMAIL]")
    assert MAIL not in repr(events) + repr(session)


@pytest.mark.skipif(not hasattr(BasePlugin, "on_run_error_callback"), reason="this ADK has no such callback")
async def test_the_event_of_a_failed_run_is_read() -> None:
    """ADK stores what a tool or a model has raised."""

    def look() -> str:
        """Look."""
        raise ValueError(f"no {MAIL}")

    stored: list[Any] = []

    class Notes(BasePlugin):
        async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
            stored.append(invocation_context.session)

    runner = runner_of(agent(call("look"), tools=[look]), HIDES)
    runner.plugin_manager.register_plugin(Notes(name="notes"))
    with pytest.raises(ValueError, match="no "):
        await events_of(runner, "Hi")
    assert stored
    assert MAIL not in repr([session.events for session in stored])


async def test_a_verdict_on_a_tool_that_ends_the_turn_is_told() -> None:
    """Its error alone would not say it."""

    def look(tool_context: ToolContext) -> dict[str, str]:
        """Look."""
        tool_context.actions.skip_summarization = True
        return {"found": MAIL}

    events, session = await events_of(runner_of(agent(call("look"), tools=[look]), BLOCKS), "Hi")
    assert tripwire_of(events[-1]) is not None
    assert MAIL not in repr(events) + repr(session)


async def test_what_a_tool_asks_to_be_confirmed_is_read() -> None:
    """The user sees its hint and its payload."""

    def send(tool_context: ToolContext) -> dict[str, str]:
        """Send."""
        tool_context.request_confirmation(hint=f"Really to {MAIL}?", payload={"to": MAIL})
        return {"status": "waits"}

    events, session = await events_of(runner_of(agent(call("send"), "done", tools=[send]), HIDES), "Hi")
    assert "Really to [EMAIL]?" in repr(events)
    assert MAIL not in repr(events) + repr(session)
    events, session = await events_of(runner_of(agent(call("send"), "done", tools=[send]), BLOCKS), "Hi")
    assert tripwire_of(events[-1]) is not None
    assert MAIL not in repr(events) + repr(session)


def one() -> str:
    """Be one."""
    return "1"


def two() -> str:
    """Be two."""
    return "2"


async def test_a_processor_chooses_tools() -> None:
    """The model is offered these, and no others."""
    asked: list[LlmRequest] = []

    @processor("process_input_step")
    def choose(ctx: InputStepContext) -> Overrides:
        return Overrides(active_tools=["one"], tool_choice="required")

    config = types.GenerateContentConfig(temperature=0.5)
    chooser = LlmAgent(name="agent", model=noting(asked), tools=[one, two], generate_content_config=config)
    await events_of(runner_of(chooser, choose), "Hi")
    [request] = asked
    [offered] = request.config.tools or []
    assert isinstance(offered, types.Tool)
    assert [tool.name for tool in offered.function_declarations or ()] == ["one"]
    assert request.config.tool_config is not None
    assert request.config.tool_config.function_calling_config is not None
    assert request.config.tool_config.function_calling_config.mode == types.FunctionCallingConfigMode.ANY
    await events_of(runner_of(chooser, HIDES), "Hi")
    [offered] = asked[-1].config.tools or []
    assert isinstance(offered, types.Tool)
    assert [tool.name for tool in offered.function_declarations or ()] == ["one", "two"]


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # AgentTool's own
async def test_an_agent_as_a_tool_is_guarded_and_read() -> None:
    """In a run of its own, and as the result of a tool."""
    inner = LlmAgent(name="inner", model=answering(lambda _: types.Part(text=f"It is {MAIL}")))
    outer = agent(call("inner", request="x"), "done", tools=[AgentTool(inner, skip_summarization=True)])
    events, session = await events_of(runner_of(outer, HIDES), "Hi")
    assert "It is [EMAIL]" in repr(session)
    assert MAIL not in repr(events) + repr(session)


async def test_an_answer_of_another_plugin_is_read() -> None:
    """Such as one from a cache, or one that stops a run."""

    class Caches(BasePlugin):
        async def before_model_callback(self, **_: Any) -> LlmResponse:
            return response(f"It is {MAIL}")

    class Stops(BasePlugin):
        async def before_run_callback(self, **_: Any) -> types.Content:
            return content(f"It is {MAIL}")

    others = (
        (Caches(name="other"),) if IS_2_0 else (Caches(name="other"), Stops(name="other"))
    )  # 2.0 drops that content
    for other in others:
        runner = InMemoryRunner(app=App(name="app", root_agent=agent("Hello"), plugins=[other, as_plugin(HIDES)]))
        events, session = await events_of(runner, "Hi")
        assert texts(events[-1]) == "It is [EMAIL]"
        assert MAIL not in repr(events) + repr(session)
