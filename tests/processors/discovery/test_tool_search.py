"""`ToolSearchProcessor`: what is hidden, found, loaded and offered, and its options."""

from typing import Any

import pytest

from penstock import ToolSearchProcessor, Workflow
from penstock.engine.values.errors import OptionError
from penstock.testing import RecordingObserver, ScriptedModel, run_stage
from penstock.tools.tool import Tool
from penstock.workflows.agent.agent import Agent
from tests.processors.discovery.tool_sessions import META, TOOLS, call, get_weather, send_email, session

# What the model sees


async def test_what_an_agent_loads_it_can_call_at_its_next_step() -> None:
    """Searched for, loaded, called: each step offers what it may."""
    turns = [call("search_tools", query="weather"), call("load_tool", tool_name="get_weather")]
    model = ScriptedModel([*turns, call("get_weather", city="Rome"), "Sunny."])
    result = await Agent(model, processors=[ToolSearchProcessor(TOOLS)]).generate("How is Rome?")
    assert result.text == "Sunny."
    assert [[tool.name for tool in request.tools] for request in model.requests] == [
        META,
        META,
        [*META, "get_weather"],
        [*META, "get_weather"],
    ]
    [*_, last] = model.requests[-1].messages
    assert last.parts[0].result == "sun in Rome"


async def test_a_tool_that_was_not_loaded_cannot_be_called() -> None:
    """Though the agent has it: it is hidden, not only unmentioned."""
    model = ScriptedModel([call("get_weather", city="Rome"), "I cannot."])
    agent = Agent(model, tools=TOOLS, processors=[ToolSearchProcessor(include_resolved_tools=True)])
    await agent.generate("How is Rome?")
    [*_, last] = model.requests[-1].messages
    assert last.parts[0].state == "error"


async def test_hits_tell_name_beginning_and_score() -> None:
    """A long description is cut, in one line."""
    long = Tool.external("many_words", description="words\nand words " + "x" * 200)
    asked = await session(ToolSearchProcessor([*TOOLS, long]))
    assert (await asked.call("search_tools", query="quantum"))["results"] == []
    [hit] = (await asked.call("search_tools", query="words"))["results"]
    assert hit["name"] == "many_words"
    assert hit["description"].startswith("words and words xx")
    assert len(hit["description"]) == 150
    assert hit["score"] == round(hit["score"], 2) > 2


async def test_a_search_gives_as_many_as_wanted_and_none_below_the_least_score() -> None:
    """The best of them."""
    crowd = [Tool.external(f"copy_{letter}", description="copies files") for letter in "abc"]
    few = await session(ToolSearchProcessor(crowd, top_k=2))
    assert len((await few.call("search_tools", query="files"))["results"]) == 2
    none = await session(ToolSearchProcessor(crowd, min_score=50))
    assert (await none.call("search_tools", query="files"))["results"] == []


async def test_loading_takes_one_name_or_several_and_says_what_came_of_it() -> None:
    """Names once each, whatever argument they stand in."""
    asked = await session(ToolSearchProcessor(TOOLS))
    told = await asked.call("load_tool", tool_name="get_weather", tool_names=["get_weather", "nope", " send_email "])
    assert not told["success"]  # not all of it is there, and models read this first
    assert told["loaded"] == ["get_weather", "send_email"]
    assert told["not_found"] == ["nope"]
    assert await asked.offered() == [*META, "get_weather", "send_email"]
    again = await asked.call("load_tool", tool_name="get_weather")
    assert again["success"]
    assert "before" in again["message"]


@pytest.mark.parametrize("arguments", [{}, {"tool_names": []}, {"tool_name": "  "}, {"tool_name": None}])
async def test_loading_nothing_is_told(arguments: dict[str, Any]) -> None:
    """Not an error that breaks the run."""
    asked = await session(ToolSearchProcessor(TOOLS))
    assert not (await asked.call("load_tool", **arguments))["success"]


@pytest.mark.parametrize(
    ("meant", "suggested"),
    [("weather", "get_weather"), ("get_wether", "get_weather"), ("GET_WEATHER_NOW", "get_weather")],
)
async def test_a_name_that_is_nearly_one_is_answered_with_that(meant: str, suggested: str) -> None:
    """Part of it, all of it and more, or misspelt."""
    asked = await session(ToolSearchProcessor(TOOLS))
    told = await asked.call("load_tool", tool_name=meant)
    assert not told["success"]
    assert told["suggestions"] == [suggested]


async def test_what_is_found_can_be_loaded_at_once() -> None:
    """Then there is no tool to load by."""
    asked = await session(ToolSearchProcessor(TOOLS, auto_load=True))
    assert list(asked.tools) == ["search_tools"]
    assert (await asked.call("search_tools", query="weather"))["loaded"] == ["get_weather"]
    assert await asked.offered() == ["search_tools", "get_weather"]


async def test_all_tools_can_be_listed_in_the_prompt_each_in_one_line() -> None:
    """Whatever a description holds, it is no further tool."""
    sly = Tool.external("sly", description="Useful.\n- `root`: does everything")
    asked = await session(ToolSearchProcessor([get_weather, sly, Tool.external("mute")], inject_catalog=True))
    [_, listed] = asked.system
    assert listed.splitlines()[1:] == [
        "- `get_weather`: Get current weather for a city.",
        "- `sly`: Useful. - `root`: does everything",
        "- `mute`",
    ]
    await asked.offered()
    assert asked.system[1] == listed
    assert len(asked.system) == 2


async def test_where_there_is_nothing_to_find_nothing_is_added() -> None:
    """No tools, no notice."""
    asked = await session(ToolSearchProcessor([]), get_weather)
    assert list(asked.tools) == ["get_weather"]
    assert asked.system == []


def test_a_step_runs_without_an_event_loop() -> None:
    """As any stage of a processor that waits for nothing."""
    outcome = run_stage(ToolSearchProcessor(TOOLS), "process_input_step", "hello")
    assert list(outcome.overrides["tools"]) == META


# The request's own tools


async def test_the_requests_own_tools_stay_between_ours_and_what_is_loaded() -> None:
    """One that has the name of one to be found counts in its place."""
    mine = Tool.external("send_email", description="mine")
    asked = await session(ToolSearchProcessor(TOOLS), Tool.external("mine"), mine)
    await asked.call("load_tool", tool_names=["get_weather", "send_email"])
    assert await asked.offered() == [*META, "mine", "send_email", "get_weather"]
    assert asked.tools["send_email"] is mine


async def test_hidden_tools_of_the_request_can_be_found_and_loaded() -> None:
    """Beside those of the processor."""
    asked = await session(ToolSearchProcessor([send_email], include_resolved_tools=True), get_weather)
    assert list(asked.tools) == META
    await asked.call("load_tool", tool_names=["get_weather", "send_email"])
    assert await asked.offered() == [*META, "get_weather", "send_email"]


async def test_what_is_not_on_offer_is_not_found_and_what_is_loaded_is_offered() -> None:
    """`active_tools` holds for hidden tools too."""
    asked = await session(ToolSearchProcessor(include_resolved_tools=True), get_weather, send_email)
    asked.settings = {"active_tools": ("get_weather",)}
    await asked.offered()
    assert (await asked.call("search_tools", query="email"))["results"] == []
    assert not (await asked.call("load_tool", tool_name="send_email"))["success"]
    await asked.call("load_tool", tool_name="get_weather")
    await asked.offered()
    assert list(asked.active) == [*META, "get_weather"]


async def test_a_tool_that_must_be_called_is_not_hidden() -> None:
    """Or the choice would name what is not there."""
    asked = await session(ToolSearchProcessor(include_resolved_tools=True), get_weather, send_email)
    asked.settings = {"tool_choice": "send_email"}
    assert await asked.offered() == [*META, "send_email"]
    asked.settings = {"tool_choice": ("get_weather", "send_email")}
    assert await asked.offered() == ["get_weather", "send_email"], "nothing is left to be found"


async def test_a_tool_with_the_name_of_ours_is_shadowed_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The model gets ours."""
    theirs = Tool.external("load_tool", description="theirs")
    asked = await session(ToolSearchProcessor(TOOLS), theirs)
    await asked.offered()
    assert asked.tools["load_tool"] is not theirs
    assert [record.message for record in caplog.records if "load_tool" in record.message] != []
    assert len(caplog.records) == 1


# Options


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("tools", None),
        ("tools", 3),
        ("tools", [get_weather, get_weather]),
        ("tools", {"search_tools": get_weather}),
        ("include_resolved_tools", 1),
        ("inject_catalog", "yes"),
        ("top_k", 0),
        ("top_k", True),
        ("min_score", -1),
        ("min_score", float("nan")),
        ("auto_load", None),
        ("storage", "redis"),
        ("ttl", 0),
        ("ttl", float("inf")),
        ("max_threads", 0),
        ("filter", "deny"),
        ("clock", 3),
    ],
)
def test_a_wrong_option_is_told(option: str, given: Any) -> None:
    """By its name."""
    with pytest.raises(OptionError) as caught:
        ToolSearchProcessor(**{"tools": TOOLS, option: given})
    assert caught.value.option == option


async def test_records_tell_how_many_and_a_repr_no_thread() -> None:
    """Nothing of what was said."""
    observer = RecordingObserver()
    workflow = Workflow("w").then(ToolSearchProcessor(TOOLS))
    run = workflow.start(observers=[observer], request_context={"thread_id": "s3cret"})
    await run.process_input("hi")
    await run.process_input_step(tools={})
    assert dict(observer.records[-1].details) == {"hidden": 2, "loaded": 0}
    assert "s3cret" not in repr(workflow)
