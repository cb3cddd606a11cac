"""Loaded tools and skills, which replicas share."""

from typing import Any

from penstock import Agent, ToolSearchProcessor
from penstock.processors.discovery import Skill, SkillSearchProcessor
from penstock.testing import ScriptedModel
from tests.stores.replicas.servers import Place

THREAD = {"thread_id": "t", "resource_id": "r"}


def weather(place: str) -> str:
    """Tell the weather of a place."""
    return f"sun in {place}"


def loading(tool: str, **arguments: Any) -> list[Any]:
    """What a model says that loads something, and answers."""
    return [{"tool_calls": [{"name": tool, "args": arguments}]}, "Done."]


async def test_a_tool_that_one_replica_loaded_another_offers(shared: Place) -> None:
    """Within the thread and its resource."""
    async with shared.state() as one, shared.state() as two:
        first = Agent(
            ScriptedModel(loading("load_tool", tool_name="weather")),
            processors=[ToolSearchProcessor([weather], storage=one.names)],
        )
        await first.generate("Load it.", request_context=THREAD)
        for context, offered in ((THREAD, True), ({**THREAD, "resource_id": "x"}, False)):
            model = ScriptedModel(["Hi."])
            second = Agent(model, processors=[ToolSearchProcessor([weather], storage=two.names)])
            await second.generate("What is there?", request_context=context)
            assert ("weather" in {tool.name for tool in model.requests[0].tools}) is offered


async def test_a_skill_that_one_replica_loaded_another_tells(shared: Place) -> None:
    """Its instructions are in the prompt."""
    skill = Skill("reports", "How reports are written.", "Begin with the figure.")
    async with shared.state() as one, shared.state() as two:
        first = Agent(
            ScriptedModel(loading("load_skill", skill_name="reports")),
            processors=[SkillSearchProcessor([skill], storage=one.names)],
        )
        await first.generate("Load it.", request_context=THREAD)
        model = ScriptedModel(["Hi."])
        second = Agent(model, processors=[SkillSearchProcessor([skill], storage=two.names)])
        await second.generate("Write.", request_context=THREAD)
        assert "Begin with the figure." in " ".join(message.text for message in model.requests[0].messages)
