"""What the page is told of an agent: its tools, instructions and memory, and the calls of a run."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Agent, Memory, Tool, ToolCallContext, processor
from penstock.processors.guards import PIIDetector
from penstock.testing import InMemoryStorage, ScriptedModel
from penstock.workflows.studio.worker.agent_about import agent_about
from penstock.workflows.studio.worker.agents import run_agent
from penstock.workflows.studio.worker.constructor_arguments import note_arguments
from penstock.workflows.studio.worker.live import Live


class Silent:
    """A channel that nobody reads."""

    def event(self, name: str, data: Any) -> None: ...


def mail(to: str) -> str:
    """Mail somebody."""
    return f"sent to {to} and boss@example.com"


def clock() -> str:
    """Say the time."""
    return "noon"


def breaks() -> str:
    raise ValueError("broken")


@processor
def refuse(ctx: ToolCallContext) -> None:
    ctx.abort(f"{ctx.tool_name} is not allowed")


async def calls_of(*made: dict[str, Any], tools: Any = (mail, clock, breaks), processors: Any = ()) -> list[Any]:
    model = ScriptedModel([{"tool_calls": list(made)}, {"text": "done"}])
    agent = Agent(model, tools=tools, processors=processors)
    given = {"input": {"kind": "text", "text": "go"}}
    done: Any = await run_agent(agent, given, Live(Silent()))  # type: ignore[arg-type]
    return done["agent"]["tool_calls"]


GUARD = PIIDetector(redaction_method="placeholder")


async def test_a_call_has_its_arguments_and_result_before_and_after_the_guards():
    (call,) = await calls_of({"name": "mail", "args": {"to": "ann@example.com"}}, processors=[GUARD])
    assert (call["name"], call["state"], call["error"], call["stopped"]) == ("mail", "result", None, None)
    assert call["arguments_before"] == {"to": "ann@example.com"}
    assert call["arguments"] == {"to": "[EMAIL]"}
    assert call["result_before"] == "sent to [EMAIL] and boss@example.com"
    assert call["result"] == "sent to [EMAIL] and [EMAIL]"


async def test_without_a_guard_both_are_the_same():
    (call,) = await calls_of({"name": "mail", "args": {"to": "ann@example.com"}})
    assert call["arguments_before"] == call["arguments"] == {"to": "ann@example.com"}
    assert call["result_before"] == call["result"] == "sent to ann@example.com and boss@example.com"


async def test_calls_of_one_answer_are_told_apart_and_keep_their_order():
    made = [{"name": "mail", "args": {"to": f"{name}@example.com"}} for name in ("ann", "bob")]
    calls = await calls_of(*made, {"name": "clock", "args": {}}, processors=[GUARD])
    assert [call["name"] for call in calls] == ["mail", "mail", "clock"]
    assert [call["arguments_before"].get("to") for call in calls] == ["ann@example.com", "bob@example.com", None]
    assert calls[2]["result"] == "noon"


async def test_a_call_that_a_guard_stopped_shows_what_the_model_wanted():
    (call,) = await calls_of({"name": "mail", "args": {"to": "ann"}}, processors=[refuse])
    assert call["arguments_before"] == {"to": "ann"}
    assert (call["result_before"], call["result"]) == (None, None)
    assert call["stopped"] == "mail is not allowed"


async def test_a_call_that_failed_shows_the_error_that_the_model_got():
    (call,) = await calls_of({"name": "breaks", "args": {}})
    assert call["state"] == "error"
    assert "broken" in call["error"]


def about(**options: Any) -> Any:
    agent = Agent(ScriptedModel(["x"]), **options)
    note_arguments(agent, agent.model, **options)
    return agent_about(agent)


def test_an_agent_shows_its_tools_instructions_and_memory():
    told = about(tools=[Tool(mail, approval=True)], instructions="Be kind.", memory=Memory(InMemoryStorage()))
    assert told["instructions"] == [{"role": "system", "content": "Be kind."}]
    (tool,) = told["tools"]
    assert (tool["name"], tool["description"], tool["approval"]) == ("mail", "Mail somebody.", True)
    assert [*tool["parameters"]["properties"]] == ["to"]
    assert told["memory"]["storage"] == "InMemoryStorage"
    assert told["memory"]["after"] == ["message-history-saver"]


def test_what_an_agent_lacks_is_said_to_be_missing():
    told = about()
    assert (told["instructions"], told["tools"], told["memory"]) == (None, [], None)


@pytest.mark.parametrize("instructions", [lambda context: "secret", lambda context: None])
def test_instructions_that_depend_on_the_request_are_not_made_up(instructions):
    assert about(instructions=instructions)["instructions"] == "a function of the request"
