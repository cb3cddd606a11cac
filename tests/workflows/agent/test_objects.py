"""An agent that answers with an object."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from penstock import Agent, MessageList, OutputResultContext, PIIDetector, StructuredOutputProcessor, processor
from penstock.engine import ResponseFormat
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class City(BaseModel):
    """A place."""

    name: str
    contact: str = ""


async def test_an_object_comes_beside_the_text() -> None:
    """The model is told the form; generate and stream agree."""
    model = ScriptedModel(['{"name": "Bern"}'], repeat_last=True)
    agent = Agent(model, output_type=City)
    result = await agent.generate("Where?")
    assert (result.object, result.text) == (City(name="Bern"), '{"name": "Bern"}')
    assert isinstance(model.requests[0].response_format, ResponseFormat)
    async with agent.stream("Where?") as stream:
        kinds = [chunk.type async for chunk in stream]
        assert await stream.object == City(name="Bern")
    assert "data-object" in kinds
    assert (await agent.generate("Where?", output_type=None)).object is None


async def test_an_answer_without_an_object_is_asked_for_anew() -> None:
    """The model is told what was wrong."""
    model = ScriptedModel(["no object here", '{"name": "Bern"}'])
    result = await Agent(model, output_type=City, max_processor_retries=1).generate("Where?")
    assert result.object == City(name="Bern")
    assert [step.finish_reason for step in result.steps] == ["retry", "stop"]
    blocked = await Agent(ScriptedModel(["nothing"]), output_type=City, max_processor_retries=0).generate("Where?")
    assert (blocked.status, blocked.object, blocked.text) == ("blocked", None, "")


@pytest.mark.parametrize("option", ["processors", "output_processors"])
async def test_guards_see_the_object(option: str) -> None:
    """What they take out of the text is not in it, however it was written."""
    answer = '{"name": "Bern", "contact": "joe\\u0040example.com"}'
    options: dict[str, Any] = {option: [PIIDetector(strategy="redact")]}
    result = await Agent(ScriptedModel([answer]), output_type=City, **options).generate("Where?")
    assert result.object is not None
    assert "example.com" not in result.object.contact


async def test_a_verdict_at_the_end_takes_the_object_too() -> None:
    """As everything else."""

    @processor
    def guard(ctx: OutputResultContext) -> None:
        ctx.abort("no")

    result = await Agent(ScriptedModel(['{"name": "Bern"}']), output_type=City, processors=[guard]).generate("Where?")
    assert (result.object, result.text, result.status) == (None, "", "blocked")


@pytest.mark.parametrize("option", ["processors", "output_processors"])
async def test_a_processor_of_objects_stands_around_the_others_wherever_it_was_placed(option: str) -> None:
    """A guard that judges the end only sees the object, and what it takes out is in neither result nor chunk."""

    @processor
    def guard(ctx: OutputResultContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace("Bern", "[x]"), ctx.messages)

    options: dict[str, Any] = {option: [guard, StructuredOutputProcessor(City)]}
    async with Agent(ScriptedModel(['{"name": "\\u0042ern"}']), **options).stream("Where?") as stream:
        sent = [chunk.payload["data"] async for chunk in stream if chunk.type == "data-object"]
        result = await stream.result
    assert result.object == City(name="[x]")
    assert sent == [{"name": "[x]", "contact": ""}]
