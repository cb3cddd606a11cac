"""pydantic-ai: the ways around its model by which a text could reach somebody unread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    TextOutput,
    ToolFailed,
    ToolReturn,
    capture_run_messages,
)
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.exceptions import SkipModelRequest, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from penstock import PIIDetector
from penstock.engine import UsageError
from penstock.workflows.adapters.pydantic_ai import GuardBlockedError, as_capability

HIDES = PIIDetector(redaction_method="placeholder")
BLOCKS = PIIDetector(strategy="block")
MAIL = "ada@example.com"


@pytest.fixture
def anyio_backend() -> str:
    """As in the suite."""
    return "asyncio"


def says(*answers: str | ToolCallPart) -> FunctionModel:
    """Return a model that gives these answers, the last one again and again."""
    script = iter(answers)

    def following() -> str | ToolCallPart:
        return next(script, answers[-1])

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = following()
        return ModelResponse([TextPart(said) if isinstance(said, str) else said])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        said = following()
        if isinstance(said, str):
            yield said
        else:
            yield {0: DeltaToolCall(said.tool_name, said.args_as_json_str(), tool_call_id=said.tool_call_id)}

    return FunctionModel(answer, stream_function=stream)


async def events_of(agent: Agent[None, Any], text: str = "Hi") -> tuple[list[Any], Any]:
    """Return the events of a run, the last of which has its result, and that result."""
    events = []
    async with agent.run_stream_events(text) as stream:
        events = [event async for event in stream]
    return events, events[-1].result  # type: ignore[union-attr]


def returns_of(result: Any) -> list[Any]:
    """Return the results of tools in the history of a run."""
    return [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]


def chain(error: BaseException | None) -> Iterator[str]:
    """Yield what an error says, and what each error behind it says."""
    while error is not None:
        yield repr(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("streamed", [False, True])
async def test_blocked_input_stands_in_no_history(streamed: bool) -> None:
    """pydantic-ai's users read the messages of a failed run, too."""
    agent = Agent(says("never"), capabilities=[as_capability(BLOCKS)])
    run = events_of(agent, f"I am {MAIL}") if streamed else agent.run(f"I am {MAIL}")
    with capture_run_messages() as messages, pytest.raises(GuardBlockedError):
        await run
    assert len(messages) == 1
    assert MAIL not in repr(messages)


class Person(BaseModel):
    """A person."""

    name: str


def greet(text: str) -> str:
    """Add to the answer."""
    return f"{text}, write to {MAIL}"


def find(name: str) -> Person:
    """Make an object of the answer."""
    return Person(name=f"{name} <{MAIL}>")


def people(name: str) -> list[Any]:
    """Make several things of the answer."""
    return [Person(name="Bob"), f"{name} <{MAIL}>"]


CALL = ToolCallPart("final_result", {"name": "Ada"}, "c1")


@pytest.mark.parametrize(
    ("answer", "output_type", "left"),
    [
        ("Hello", TextOutput(greet), "Hello, write to [EMAIL]"),
        (CALL, find, Person(name="Ada <[EMAIL]>")),
        (CALL, people, [Person(name="Bob"), "Ada <[EMAIL]>"]),
    ],
)
async def test_what_an_output_function_makes_is_read(answer: Any, output_type: Any, left: Any) -> None:
    """It is redacted, and keeps its type; or it is blocked."""
    agent: Agent[None, Any] = Agent(says(answer), output_type=output_type, capabilities=[as_capability(HIDES)])
    events, result = await events_of(agent)
    assert result.output == left
    assert MAIL not in repr(events)
    async with agent.run_stream("Hi") as streamed:
        assert await streamed.get_output() == left
    agent = Agent(says(answer), output_type=output_type, capabilities=[as_capability(BLOCKS)])
    with pytest.raises(GuardBlockedError):
        await agent.run("Hi")


async def test_what_an_output_validator_makes_is_read() -> None:
    """It comes last."""
    agent = Agent(says("Hello"), capabilities=[as_capability(HIDES)])
    agent.output_validator(greet)
    assert (await agent.run("Hi")).output == "Hello, write to [EMAIL]"


class Opaque:
    """What nobody can make of JSON."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def opaque(text: str) -> Any:
    """Make such an object of the answer."""
    return Opaque(f"{text} {MAIL}")


async def test_an_output_that_cannot_be_made_anew_is_an_error() -> None:
    """Else its type would be a lie, or its text would be unread."""
    agent = Agent(says("Hello"), output_type=TextOutput(opaque), capabilities=[as_capability(HIDES)])
    with pytest.raises(UsageError, match="no Opaque can be made of what is left"):
        await agent.run("Hi")


def rejects(text: str) -> str:
    """Ask for another answer, with a text of its own."""
    if "again" not in text:
        raise ModelRetry(f"not without {MAIL}")
    return text


def rejects_name(name: str) -> str:
    """Ask for another answer, with a text of its own."""
    return rejects(name)


@pytest.mark.parametrize(
    ("answers", "output_type"),
    [
        (("Hello", "Hello again"), TextOutput(rejects)),
        ((CALL, ToolCallPart("final_result", {"name": "Ada again"}, "c2")), rejects_name),
    ],
)
async def test_what_an_output_function_asks_for_is_read(answers: Any, output_type: Any) -> None:
    """Neither the model, nor the events, nor the error at the end get it."""
    agent: Agent[None, Any] = Agent(says(*answers), output_type=output_type, capabilities=[as_capability(HIDES)])
    events, result = await events_of(agent)
    assert "again" in result.output
    assert MAIL not in repr(events) + repr(result.all_messages())
    assert "not without [EMAIL]" in repr(result.all_messages())
    agent = Agent(says(answers[0]), output_type=output_type, capabilities=[as_capability(HIDES)])
    with pytest.raises(UnexpectedModelBehavior) as caught:
        await agent.run("Hi")
    assert MAIL not in "".join(chain(caught.value))


@pytest.mark.parametrize("kind", [ModelRetry, ToolFailed])
async def test_what_a_tool_raises_for_the_model_is_read_at_once(kind: Callable[[str], Exception]) -> None:
    """The events tell it before the next call of the model."""
    agent = Agent(says(ToolCallPart("look", {}, "c1"), "done"), capabilities=[as_capability(HIDES)])

    @agent.tool_plain
    def look() -> str:
        raise kind(f"ask {MAIL}")

    events, result = await events_of(agent)
    assert result.output == "done"
    assert MAIL not in repr(events) + repr(result.all_messages())
    [told] = returns_of(result)
    assert (told.content, told.outcome) == ("ask [EMAIL]", "retried" if kind is ModelRetry else "failed")


async def test_the_error_of_used_up_retries_says_what_the_guards_left() -> None:
    """In all errors behind it, too."""
    agent = Agent(says(ToolCallPart("look", {}, "c1")), capabilities=[as_capability(HIDES)])

    @agent.tool_plain
    def look() -> str:
        raise ModelRetry(f"ask {MAIL}")

    with pytest.raises(UnexpectedModelBehavior) as caught:
        await agent.run("Hi")
    assert MAIL not in "".join(chain(caught.value))
    assert "ask [EMAIL]" in "".join(chain(caught.value))


async def test_what_a_tool_says_beside_its_result_is_read() -> None:
    """The model reads the content; frontends get the metadata."""
    agent = Agent(says(ToolCallPart("look", {}, "c1"), "done"), capabilities=[as_capability(HIDES)])

    @agent.tool_plain
    def look() -> ToolReturn[str]:
        content = [f"see {MAIL}", "and this"]
        return ToolReturn("found", content=content, metadata={"from": MAIL, "kept": 1})

    events, result = await events_of(agent)
    assert MAIL not in repr(events) + repr(result.all_messages())
    [told] = returns_of(result)
    assert (told.content, told.metadata) == ("found", {"from": "[EMAIL]", "kept": 1})
    assert "see [EMAIL]" in repr(result.all_messages())


async def test_a_picture_beside_a_redacted_text_stays_a_picture() -> None:
    """Only what guards have changed becomes JSON."""
    picture = BinaryContent(b"\x89PNG\xff", media_type="image/png")
    agent = Agent(says(ToolCallPart("look", {}, "c1"), "done"), capabilities=[as_capability(HIDES)])

    @agent.tool_plain
    def look() -> list[Any]:
        return [f"see {MAIL}", picture]

    events, _ = await events_of(agent)
    [told] = [event.part for event in events if event.event_kind == "function_tool_result"]
    assert told.content == ["see [EMAIL]", picture]


async def test_what_a_deferred_call_is_told_with_is_read() -> None:
    """It is the output of the run."""
    agent: Agent[None, Any] = Agent(
        says(ToolCallPart("send", {}, "c1")),
        output_type=[str, DeferredToolRequests],
        capabilities=[as_capability(HIDES)],
    )

    @agent.tool
    def send(ctx: RunContext[Any]) -> str:
        raise ApprovalRequired(metadata={"to": MAIL})

    output: Any = (await agent.run("Hi")).output
    assert output.metadata == {"c1": {"to": "[EMAIL]"}}


class Skips(AbstractCapability[Any]):
    """Answers before the model is called."""

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Answer."""
        raise SkipModelRequest(ModelResponse([TextPart(f"From a cache: {MAIL}")]))


class Wraps(AbstractCapability[Any]):
    """Answers in the model's place."""

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> ModelResponse:
        """Answer."""
        return ModelResponse([TextPart(f"From a cache: {MAIL}")])


class Adds(AbstractCapability[Any]):
    """Adds to the model's answer."""

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> ModelResponse:
        """Add."""
        made: ModelResponse = replace(response, parts=[*response.parts, TextPart(f"From a cache: {MAIL}")])
        return made


class Ends(AbstractCapability[Any]):
    """Changes the output of the run."""

    async def after_run(self, ctx: Any, *, result: Any) -> Any:
        """Change it."""
        return replace(result, output=f"From a cache: {MAIL}")


@pytest.mark.parametrize("other", [Skips(), Wraps(), Adds(), Ends()])
@pytest.mark.parametrize("first", [False, True])
async def test_what_other_capabilities_answer_is_read(other: Any, first: bool) -> None:
    """Wherever they stand."""
    for streamed in (False, True):
        guard = as_capability(HIDES)
        agent = Agent(says("Hello. "), capabilities=[other, guard] if first else [guard, other])
        events, result = await events_of(agent) if streamed else ([], await agent.run("Hi"))
        assert "From a cache: [EMAIL]" in result.output
        assert MAIL not in repr(events) + repr(result.all_messages())
        agent = Agent(says("Hello. "), capabilities=[other, as_capability(BLOCKS)])
        with pytest.raises(GuardBlockedError):
            await (events_of(agent) if streamed else agent.run("Hi"))


def look(who: str) -> str:
    """Look somebody up."""
    return f"{who} <{MAIL}>"


@pytest.mark.parametrize("guard", [HIDES, BLOCKS])
async def test_traces_hold_what_the_guards_left(guard: PIIDetector) -> None:
    """Of the input, the answer, the tool and the output."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traced = Instrumentation(InstrumentationSettings(tracer_provider=provider))
    for text, answers in (
        (f"I am {MAIL}", ["done"]),
        ("Hi", [f"It is {MAIL}"]),
        ("Hi", [ToolCallPart("look", {"who": MAIL}, "c1"), "done"]),
        ("Hi", [ToolCallPart("look", {"who": "Bob"}, "c1"), "done"]),
    ):
        agent = Agent(says(*answers), output_type=TextOutput(greet), capabilities=[traced, as_capability(guard)])
        agent.tool_plain(look)
        if guard is BLOCKS:
            with pytest.raises(GuardBlockedError):
                await agent.run(text)
        else:
            await agent.run(text)
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert len(spans) > 4
    assert MAIL not in "".join(spans)


async def test_a_realtime_session_is_refused() -> None:
    """It calls no model that could be wrapped."""
    [half, *_] = as_capability(HIDES).capabilities
    with pytest.raises(UsageError, match="realtime"):
        await half.for_run(Realtime())  # type: ignore[arg-type]


class Realtime:
    """The context of a realtime session, as far as it is asked."""

    realtime = True
    run_id = "r1"
