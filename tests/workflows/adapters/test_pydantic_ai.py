"""What the suite of all frameworks does not ask of pydantic-ai's capability."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, FunctionModel
from pydantic_ai.models.test import TestModel

from penstock import BlockedError, InputStepContext, OutputResultContext, PIIDetector, Processor, processor
from penstock.engine import Overrides, UsageError
from penstock.workflows.adapters.pydantic_ai import GuardBlockedError, as_capability

HIDES = PIIDetector(redaction_method="placeholder")
MAIL = "ada@example.com"


@pytest.fixture
def anyio_backend() -> str:
    """As in the suite."""
    return "asyncio"


def thinks(thought: str) -> FunctionModel:
    """Return a model that signs its thoughts."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        thinking = ThinkingPart(thought, signature="sealed", provider_name="function")
        return ModelResponse([thinking, TextPart("Hello")])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaThinkingPart(content=thought[:5])}
        yield {0: DeltaThinkingPart(content=thought[5:], signature="sealed")}
        yield "Hello"

    return FunctionModel(answer, stream_function=stream)


async def thinking_of(agent: Agent[None, str], *, streamed: bool, history: Any = None) -> list[ThinkingPart]:
    """Return the thoughts in the history of a run."""
    if streamed:
        async with agent.run_stream("Hi", message_history=history) as result:
            assert await result.get_output() == "Hello"
        messages = result.all_messages()
    else:
        messages = (await agent.run("Hi", message_history=history)).all_messages()
    return [part for message in messages for part in message.parts if isinstance(part, ThinkingPart)]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_signature_stays_with_what_was_signed(streamed: bool) -> None:
    """In both ways; providers want it back."""
    agent = Agent(thinks("all is well"), capabilities=[as_capability(HIDES)])
    [thinking] = await thinking_of(agent, streamed=streamed)
    assert (thinking.content, thinking.signature) == ("all is well", "sealed")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_signature_goes_with_what_was_changed(streamed: bool) -> None:
    """A provider may have its own copy of what it has signed."""
    agent = Agent(thinks(f"it is {MAIL}"), capabilities=[as_capability(HIDES)])
    [thinking] = await thinking_of(agent, streamed=streamed)
    assert MAIL not in thinking.content
    assert thinking.signature is None


async def test_a_signature_in_an_old_history_goes_too() -> None:
    """What was stored without us is read, and redacted."""
    bare: Agent[None, str] = Agent(thinks(f"it is {MAIL}"))
    history = (await bare.run("Hi")).all_messages()
    sent: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(messages)
        return ModelResponse([TextPart("Hello")])

    agent = Agent(FunctionModel(answer), capabilities=[as_capability(HIDES)])
    await agent.run("And now?", message_history=history)
    assert MAIL not in repr(sent)
    assert "sealed" not in repr(sent)


async def test_the_verdict_is_pydantic_ais_error_and_can_be_pickled() -> None:
    """It can be sent between processes."""
    agent = Agent(TestModel(), capabilities=[as_capability(PIIDetector(strategy="block"))])
    with pytest.raises(GuardBlockedError) as caught:
        await agent.run(f"I am {MAIL}")
    assert isinstance(caught.value, ContentFilterError)
    assert isinstance(caught.value, BlockedError)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (str(copy), copy.tripwire) == (str(caught.value), caught.value.tripwire)


class Person(BaseModel):
    """A person."""

    name: str


async def test_an_edit_that_comes_too_late_for_an_object_is_an_error() -> None:
    """The object would hold what was redacted."""

    class Late(Processor):
        role, edits = "guard", "anything"

        def process_output_result(self, ctx: OutputResultContext) -> object:
            return ctx.message_list.clear("response")

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart(info.output_tools[0].name, {"name": "Ada"})])

    agent = Agent(FunctionModel(answer), output_type=Person, capabilities=[as_capability(Late())])
    with pytest.raises(UsageError, match="after pydantic-ai had made its object"):
        await agent.run("Who?")


async def test_what_a_tool_gives_back_as_a_retry_is_guarded() -> None:
    """Neither the model nor the history gets it."""
    sent: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(messages)
        return ModelResponse([ToolCallPart("find", {}, "c1")] if len(sent) == 1 else [TextPart("done")])

    agent = Agent(FunctionModel(answer), capabilities=[as_capability(HIDES)])

    @agent.tool_plain
    def find() -> str:
        raise ModelRetry(f"ask {MAIL}")

    result = await agent.run("Go")
    assert result.output == "done"
    assert MAIL not in repr(sent[1])
    [retry] = [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    assert (retry.content, retry.outcome) == ("ask [EMAIL]", "retried")


async def test_a_processor_chooses_tools_settings_and_tool_choice() -> None:
    """They reach the model by pydantic-ai's names."""
    seen: list[AgentInfo] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse([TextPart("done")])

    @processor("process_input_step")
    def choose(ctx: InputStepContext) -> Overrides:
        return Overrides(active_tools=["one"], tool_choice="required", model_settings={"temperature": 0.1})

    agent = Agent(FunctionModel(answer), capabilities=[as_capability(choose)])
    agent.tool_plain(name="one")(lambda: "1")
    agent.tool_plain(name="two")(lambda: "2")
    await agent.run("Go")
    [info] = seen
    assert [tool.name for tool in info.function_tools] == ["one"]
    assert info.model_settings is not None
    assert info.model_settings.get("temperature") == 0.1
    assert info.model_settings.get("tool_choice") == "required"


async def test_the_callers_old_messages_are_not_changed() -> None:
    """The history of the new run is redacted, and the objects that were passed in are as they were."""
    bare: Agent[None, str] = Agent(TestModel(custom_output_text="Hello"))
    history = (await bare.run(f"I am {MAIL}")).all_messages()
    before = repr(history)
    agent = Agent(TestModel(custom_output_text="Hello"), capabilities=[as_capability(HIDES)])
    result = await agent.run("Again", message_history=history)
    assert repr(history) == before
    assert MAIL not in repr(result.all_messages())


def test_outside_of_a_run_it_refuses() -> None:
    """Runs would share one state."""
    with pytest.raises(UsageError, match="outside of a run"):
        as_capability(HIDES).get_wrapper_model(TestModel())


async def test_guards_of_system_messages_read_the_instructions() -> None:
    """Before the first call; what they made of them stays for the next ones."""
    seen: list[str | None] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.instructions)
        return ModelResponse([ToolCallPart("one", {}) if len(seen) == 1 else TextPart("done")])

    guard = PIIDetector(redaction_method="placeholder", system="all")
    agent = Agent(FunctionModel(answer), instructions=f"Mails go to {MAIL}", capabilities=[as_capability(guard)])
    agent.tool_plain(name="one")(lambda: "1")
    await agent.run("Go")
    assert seen == ["Mails go to [EMAIL]"] * 2
    agent = Agent(FunctionModel(answer), instructions=f"Mails go to {MAIL}", capabilities=[as_capability(HIDES)])
    await agent.run("Go")
    assert seen[-1] == f"Mails go to {MAIL}"
