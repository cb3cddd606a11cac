"""What a filter of `ToolSearchProcessor` may deny, and what happens when it breaks."""

from typing import Any

import pytest

from penstock import ToolSearchProcessor
from penstock.processors.discovery import ToolAccess
from penstock.tools.tool import Tool
from tests.processors.discovery.tool_sessions import META, TOOLS, get_weather, session

# The filter


def denying(*phases: str) -> Any:
    """A filter that denies the weather in some phases; async, as it may be."""

    async def allows(asked: ToolAccess) -> bool:
        return asked.tool_name != "get_weather" or asked.phase not in phases

    return allows


async def test_what_may_not_be_found_is_neither_found_nor_listed_nor_suggested() -> None:
    """But whoever knows its name may load it."""
    asked = await session(ToolSearchProcessor(TOOLS, filter=denying("search"), inject_catalog=True))
    assert "get_weather" not in asked.system[1]
    assert (await asked.call("search_tools", query="weather"))["results"] == []
    assert "suggestions" not in await asked.call("load_tool", tool_name="get_wether")
    assert (await asked.call("load_tool", tool_name="get_weather"))["success"]


async def test_what_may_not_be_loaded_is_not_there() -> None:
    """Neither when it is asked for, nor when hits are loaded at once."""
    asked = await session(ToolSearchProcessor(TOOLS, filter=denying("load")))
    assert (await asked.call("load_tool", tool_name="get_weather"))["not_found"] == ["get_weather"]
    at_once = await session(ToolSearchProcessor(TOOLS, filter=denying("load"), auto_load=True))
    assert (await at_once.call("search_tools", query="weather"))["loaded"] == []
    assert await at_once.offered() == ["search_tools"]


async def test_what_may_not_be_used_is_not_offered_though_it_was_loaded() -> None:
    """The filter has the last word, at every step."""
    asked = await session(ToolSearchProcessor(TOOLS, filter=denying("active")))
    assert (await asked.call("load_tool", tool_name="get_weather"))["success"]
    assert await asked.offered() == META


async def test_a_denied_hit_does_not_take_the_place_of_another() -> None:
    """As many as wanted are found, if there are."""
    tools = [get_weather, Tool.external("weather_forecast", description="Seven days of weather")]
    asked = await session(ToolSearchProcessor(tools, top_k=1, filter=denying("search")))
    assert [hit["name"] for hit in (await asked.call("search_tools", query="weather"))["results"]] == [
        "weather_forecast"
    ]


@pytest.mark.parametrize("answer", [None, 1, "yes"])
async def test_only_true_allows(answer: Any) -> None:
    """Who forgot to answer has not allowed."""
    asked = await session(ToolSearchProcessor(TOOLS, filter=lambda _: answer))
    assert (await asked.call("search_tools", query="weather"))["results"] == []


async def test_a_filter_that_breaks_denies_and_the_log_quotes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Only the type of the error is told."""

    def breaks(asked: ToolAccess) -> bool:
        raise RuntimeError(str(asked.request_context))

    asked = await session(ToolSearchProcessor(TOOLS, filter=breaks), city="s3cret")
    assert (await asked.call("search_tools", query="weather"))["results"] == []
    assert "RuntimeError" in caplog.text
    assert "s3cret" not in caplog.text


async def test_a_filter_sees_the_request() -> None:
    """Who asks, for what, to do what."""
    seen: list[ToolAccess] = []
    asked = await session(ToolSearchProcessor(TOOLS, filter=lambda a: bool(seen.append(a))), tier="free")
    await asked.call("search_tools", query="weather")
    [question] = seen
    assert (question.tool_name, question.phase, question.request_context["tier"]) == ("get_weather", "search", "free")
    assert question.tool.name == "get_weather"


def test_it_fails_closed_only_where_a_filter_would_be_passed_by() -> None:
    """Hidden tools of the request would be shown, were it left out."""
    assert ToolSearchProcessor(TOOLS).on_error == "allow"
    assert ToolSearchProcessor(TOOLS, filter=lambda _: True).on_error == "allow"
    assert ToolSearchProcessor(include_resolved_tools=True, filter=lambda _: True).on_error == "block"
