"""Differences from the reference that docs/differences.md lists without a rule of the conformance run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Agent, Processor, ResponseCache, Tool, processor
from penstock.engine import Chunk, InputContext, Message, MessageList, StepFailedError
from penstock.testing import ScriptedModel
from penstock.tools import ToolContext

if TYPE_CHECKING:
    from penstock.engine.processor.context import APIErrorContext, LLMResponseContext, OutputStreamContext

pytestmark = pytest.mark.anyio

CALL: Any = {"text": "Let me.", "tool_calls": [{"id": "c", "name": "look", "args": {}}]}


class Watch(Processor):
    """Notes the chunks and the answers that it sees, and the errors of the model."""

    id = "watch"

    def __init__(self, *, fails: bool = False) -> None:
        self.seen: list[str] = []
        self.fails = fails

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Note the chunk."""
        self.seen.append(chunk.type)
        return chunk

    def process_llm_response(self, ctx: LLMResponseContext) -> None:
        """Note the answer."""
        self.seen.append(f"answer, cached: {ctx.from_cache}")
        if self.fails:
            raise ValueError

    def process_api_error(self, ctx: APIErrorContext) -> None:
        """Note the error."""
        self.seen.append("error")


async def look(ctx: ToolContext) -> str:
    """Look."""
    ctx.write(Chunk("data-look", payload={"at": 1}))
    return "seen"


async def test_each_step_answers_in_a_message_of_its_own() -> None:
    """A rejected step is taken back whole, and no other."""
    result = await Agent(ScriptedModel([CALL, "Done."]), tools=[look]).generate("Hi")
    assert [message.text for message in result.messages[-2:]] == ["Let me.", "Done."]


def test_messages_stand_in_the_order_in_which_they_were_added() -> None:
    """Times decide nothing, and two answers are two messages."""
    old = replace(Message.assistant("old"), created_at=datetime(2001, 1, 1, tzinfo=UTC))
    listed = MessageList().add([Message.assistant("new")], source="response").add([old], source="response")
    assert [message.text for message in listed.all] == ["new", "old"]


async def test_a_function_runs_at_the_stage_of_its_context() -> None:
    """And at no other, however many the request has."""
    stages: list[str] = []

    @processor(edits="nothing")
    def note(ctx: InputContext) -> None:
        stages.append(ctx.stage)

    await Agent(ScriptedModel([CALL, "Done."]), tools=[look], processors=[note]).generate("Hi")
    assert stages == ["process_input"]


async def test_an_exception_in_a_hook_of_the_answer_is_no_error_of_the_model() -> None:
    """Error hooks are not asked, since the model would only be asked again."""
    watch = Watch(fails=True)
    model = ScriptedModel(["One.", "Two."])
    with pytest.raises(StepFailedError):
        await Agent(model, processors=[watch]).generate("Hi")
    assert "error" not in watch.seen
    assert len(model.requests) == 1


async def test_a_cached_answer_passes_the_hooks_of_an_answer() -> None:
    """Those of the stream, and the one of the model's answer."""
    watch = Watch()
    agent = Agent(ScriptedModel(["One."]), input_processors=[ResponseCache()], processors=[watch])
    await agent.generate("Hi")
    watch.seen.clear()
    await agent.generate("Hi")
    assert {"text-delta", "answer, cached: True"} <= {*watch.seen}


async def test_tools_start_when_the_whole_answer_was_judged() -> None:
    """Whatever processors there are; data of tools is shown to every stream hook."""
    watch = Watch()
    started: list[list[str]] = []

    async def look_and_note(ctx: ToolContext) -> str:
        started.append([*watch.seen])
        return await look(ctx)

    tools = [Tool(look_and_note, name="look")]
    await Agent(ScriptedModel([CALL, "Done."]), tools=tools, processors=[watch]).generate("Hi")
    assert "answer, cached: False" in started[0]
    assert "data-look" in watch.seen
