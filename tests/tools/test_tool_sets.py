"""`as_tools`: what may be given as tools, and under which names they stand then."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import OptionError, Tool, tool
from penstock.engine import ToolSpec
from penstock.engine.values.frozen import FrozenDict
from penstock.tools.tool import as_tools
from tests.ids import without_address


def look(at: str) -> str:
    """Look at a thing."""
    return at


@tool
def listen() -> str:
    """Listen."""
    return "…"


ASK = ToolSpec("ask", description="Ask the user.", strict=False)


def test_functions_tools_and_specs_stand_under_their_names() -> None:
    """In the order given; a spec's tool is the caller's to run."""
    made = as_tools([look, listen, ASK])
    assert isinstance(made, FrozenDict)
    assert list(made) == ["look", "listen", "ask"]
    assert made["listen"] is listen
    assert (made["ask"].is_external, made["ask"].spec) == (True, ASK)


def test_the_names_of_a_mapping_are_the_tools_names() -> None:
    """A lambda, which has none, gets one that way."""
    made = as_tools({"see": look, "hear": listen, "ask": ASK, "one": lambda: 1, "listen": listen})
    assert [one.name for one in made.values()] == list(made) == ["see", "hear", "ask", "one", "listen"]
    assert made["hear"].function is listen.function
    assert made["listen"] is listen


def test_no_tools_are_fine() -> None:
    """None, or nothing in a list."""
    assert as_tools(None) == as_tools([]) == as_tools({}) == {}


@pytest.mark.parametrize("given", ["look", look, listen, ASK, 3, [3], {"a": None}], ids=without_address)
def test_what_is_no_tool_is_refused(given: Any) -> None:
    """The error says whose option it is, and what is allowed."""
    with pytest.raises(OptionError, match=r"^Team: option 'tools' .* a list of functions"):
        as_tools(given, "Team")


def test_a_name_stands_once() -> None:
    """Else nobody could tell which is called."""
    with pytest.raises(OptionError, match="tools with different names"):
        as_tools([look, Tool(look)])


@pytest.mark.parametrize(
    "given", [[lambda: 1], {"has space": look}, [ToolSpec("a.b")], {3: listen}], ids=without_address
)
def test_a_name_that_providers_refuse_is_refused(given: Any) -> None:
    """Before any of them is asked."""
    with pytest.raises(OptionError, match="option 'name'"):
        as_tools(given)
