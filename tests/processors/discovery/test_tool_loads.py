"""Which requests share what was loaded: by thread, for how long, or as the conversation tells."""

import copy
from typing import Any

import anyio
import pytest

from penstock import Message, MessageList, ToolPart, ToolSearchProcessor
from penstock.processors.discovery import ToolAccess
from penstock.testing import ScriptedModel, VirtualClock, run_stage
from penstock.tools.tool import Tool
from penstock.workflows.agent.agent import Agent
from tests.processors.discovery.tool_sessions import META, TOOLS, call, session

# Who shares what


async def test_a_thread_keeps_what_it_has_loaded_for_its_next_request() -> None:
    """And no other thread has it: neither another of the same person, nor one of that id of another."""
    processor = ToolSearchProcessor(TOOLS)
    first = await session(processor, thread_id="t", resource_id="ann")
    await first.call("load_tool", tool_name="get_weather")
    assert "get_weather" in (await session(processor, thread_id="t", resource_id="ann")).tools
    assert "get_weather" not in (await session(processor, thread_id="u", resource_id="ann")).tools
    assert "get_weather" not in (await session(processor, thread_id="t", resource_id="bob")).tools


async def test_requests_without_a_thread_share_nothing() -> None:
    """Each keeps its own from step to step."""
    processor = ToolSearchProcessor(TOOLS)
    first = await session(processor)
    await first.call("load_tool", tool_name="get_weather")
    assert "get_weather" in await first.offered()
    assert "get_weather" not in (await session(processor)).tools


async def test_a_thread_that_nobody_asks_for_is_forgotten() -> None:
    """After the time to live; every request begins it anew."""
    clock = VirtualClock()
    processor = ToolSearchProcessor(TOOLS, ttl=60, clock=clock)
    await (await session(processor, thread_id="t")).call("load_tool", tool_name="get_weather")
    for seconds, kept in ((59, True), (59, True), (60, False)):
        clock.advance(seconds)
        assert ("get_weather" in (await session(processor, thread_id="t")).tools) is kept


@pytest.mark.parametrize("ttl", [None, 1e12, 1e15])
async def test_a_thread_may_be_remembered_for_ever(ttl: float | None) -> None:
    """With no time to live, or one beyond all calendars."""
    clock = VirtualClock()
    processor = ToolSearchProcessor(TOOLS, ttl=ttl, clock=clock)
    await (await session(processor, thread_id="t")).call("load_tool", tool_name="get_weather")
    clock.advance(10**9)
    assert "get_weather" in (await session(processor, thread_id="t")).tools


async def test_only_so_many_threads_are_remembered() -> None:
    """Those of late."""
    processor = ToolSearchProcessor(TOOLS, max_threads=2)
    for thread in "abc":
        await (await session(processor, thread_id=thread)).call("load_tool", tool_name="get_weather")
    kept = ["get_weather" in (await session(processor, thread_id=thread)).tools for thread in "cb"]
    assert kept == [True, True]
    assert "get_weather" not in (await session(processor, thread_id="a")).tools


async def test_a_copy_goes_its_own_way() -> None:
    """It knows what was loaded by then; copied or pickled, as workflows may be."""
    processor = ToolSearchProcessor([Tool.external("get_weather")])
    await (await session(processor, thread_id="t")).call("load_tool", tool_name="get_weather")
    twin: Any = copy.deepcopy(processor)
    assert "get_weather" in (await session(twin, thread_id="t")).tools
    await (await session(twin, thread_id="u")).call("load_tool", tool_name="get_weather")
    assert "get_weather" not in (await session(processor, thread_id="u")).tools


# In the conversation


def loading(name: str = "get_weather", result: Any = None) -> MessageList:
    """A conversation in which a tool was loaded."""
    told = {"success": True, "loaded": [name]} if result is None else result
    part = ToolPart("c1", "load_tool", {"tool_name": name}, "result", told)
    return MessageList([Message.user("hi"), Message.assistant([part])])


def offered_in(processor: ToolSearchProcessor, messages: MessageList) -> list[str]:
    """What a request that begins with a conversation is offered."""
    outcome = run_stage(processor, "process_input_step", messages, tools={})
    return list(outcome.overrides["tools"])


@pytest.mark.parametrize("result", [None, '{"loaded": ["get_weather"]}'])
def test_what_was_loaded_can_be_read_from_the_conversation(result: Any) -> None:
    """By any process, in JSON or in its text; where the conversation forgets it, it is gone."""
    processor = ToolSearchProcessor(TOOLS, storage="context")
    assert offered_in(processor, loading(result=result)) == [*META, "get_weather"]
    assert offered_in(processor, MessageList("hi")) == META


@pytest.mark.parametrize(
    "result", ["no JSON", "[" * 100_000, {"loaded": "get_weather"}, {"loaded": [3]}, ["get_weather"]]
)
def test_what_tells_of_no_loading_loads_nothing(result: Any) -> None:
    """Nor does it break the step."""
    assert offered_in(ToolSearchProcessor(TOOLS, storage="context"), loading(result=result)) == META


def test_a_conversation_cannot_load_what_may_not_be_loaded() -> None:
    """A client may have written it."""

    def no_loading(asked: ToolAccess) -> bool:
        return asked.phase != "load"

    assert offered_in(ToolSearchProcessor(TOOLS, storage="context", filter=no_loading), loading()) == META
    assert offered_in(ToolSearchProcessor(TOOLS, storage="context"), loading("nope")) == META


async def test_in_an_agent_what_is_loaded_stays_loaded_while_its_results_are_there() -> None:
    """Nothing is kept but the conversation."""
    model = ScriptedModel([call("load_tool", tool_name="get_weather"), call("get_weather", city="Rome"), "Sunny."])
    processor = ToolSearchProcessor(include_resolved_tools=True, storage="context")
    result = await Agent(model, tools=TOOLS, processors=[processor]).generate("How is Rome?")
    assert result.text == "Sunny."
    assert [tool.name for tool in model.requests[1].tools] == [*META, "get_weather"]


async def test_requests_of_a_thread_may_load_while_another_asks_the_filter() -> None:
    """What a thread has loaded changes while a filter is waited for; both requests go on."""
    asked, loaded = anyio.Event(), anyio.Event()

    async def slow(access: ToolAccess) -> bool:
        if access.phase == "active" and not asked.is_set():
            asked.set()
            await loaded.wait()
        return True

    processor = ToolSearchProcessor(TOOLS, filter=slow)
    first = await session(processor, thread_id="t")
    second = await session(processor, thread_id="t")
    await first.call("load_tool", tool_name="get_weather")

    async def load_more() -> None:
        await asked.wait()
        await second.call("load_tool", tool_name="send_email")
        loaded.set()

    async with anyio.create_task_group() as group:
        group.start_soon(load_more)
        assert await first.offered() == [*META, "get_weather"]
    assert await first.offered() == [*META, "get_weather", "send_email"]


async def test_for_names_without_end_only_the_first_are_looked_for() -> None:
    """A model that asks for a thousand tools that are not there waits for five searches."""
    first = await session(ToolSearchProcessor(TOOLS))
    wrong = [*(f"no such thing {number}" for number in range(5)), "get_wether"]
    assert "suggestions" not in await first.call("load_tool", tool_names=wrong)
    assert (await first.call("load_tool", tool_names=wrong[1:]))["suggestions"] == ["get_weather"]
