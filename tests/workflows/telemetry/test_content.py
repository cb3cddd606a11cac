"""Texts in spans: none unless asked for, and then those after the guards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import Agent, InputContext, Message, OutputStepContext, PIIDetector, Processor, Workflow, processor, tool
from penstock.engine.values.messages import FilePart, ReasoningPart, TextPart, ToolPart
from penstock.testing import ScriptedModel
from penstock.workflows.telemetry import attributes, names
from tests.workflows.telemetry.collected import Collected

SECRET = "bob@example.com"


@tool
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def agent(collected: Collected) -> Agent:
    """Return an agent whose every text has an address, which a guard hides."""
    call = {"tool_calls": [{"name": "send", "args": {"to": SECRET}}]}
    return Agent(
        ScriptedModel([call, f"I wrote to {SECRET}."]),
        instructions="Be brief.",
        tools=[send],
        processors=[PIIDetector(strategy="redact")],
        observers=[collected.observer],
    )


def whole(collected: Collected) -> str:
    """Return everything that was sent."""
    return "".join(span.to_json() for span in collected.spans)


async def test_by_default_no_text_is_in_any_span() -> None:
    """Neither of the client nor of the model nor of a tool."""
    collected = Collected()
    await agent(collected).generate(f"Write to {SECRET}, quickly")
    for text in (SECRET, "quickly", "I wrote", "Be brief", "sent to"):
        assert text not in whole(collected)


async def test_asked_for_spans_have_the_texts_after_the_guards() -> None:
    """In the form of the conventions; what a guard has hidden stays hidden."""
    collected = Collected(content=True)
    await agent(collected).generate(f"Write to {SECRET}, quickly")
    assert SECRET not in whole(collected)
    chat = collected.named("chat scripted")[0]
    found: dict[str, Any] = dict(chat.attributes or {})
    assert json.loads(found[names.SYSTEM_INSTRUCTIONS]) == [{"type": "text", "content": "Be brief."}]
    (asked,) = json.loads(found[names.INPUT_MESSAGES])
    assert asked["role"] == "user"
    assert asked["parts"][0]["content"].startswith("Write to ")
    assert names.OUTPUT_MESSAGES not in found
    request: dict[str, Any] = dict(collected.span("invoke_agent agent").attributes or {})
    assert json.loads(request[names.INPUT_MESSAGES]) == [asked]
    kinds = [part["type"] for message in json.loads(request[names.OUTPUT_MESSAGES]) for part in message["parts"]]
    assert kinds == ["tool_call", "tool_call_response", "text"]
    arguments = (collected.span("execute_tool send").attributes or {})[names.TOOL_ARGUMENTS]
    assert list(json.loads(str(arguments))) == ["to"]


async def test_an_answer_that_was_blocked_is_in_no_span() -> None:
    """It never left."""

    class Stops(Processor):
        role = "guard"
        edits = "nothing"

        def process_output_step(self, ctx: OutputStepContext) -> None:
            ctx.abort("no")

    collected = Collected(content=True)
    bad = Agent(ScriptedModel(["something bad"]), processors=[Stops()], observers=[collected.observer])
    await bad.generate("Hi")
    assert "something bad" not in whole(collected)


async def test_a_judge_gets_texts_that_are_in_no_span() -> None:
    """A step sees texts before the guards behind it do."""
    collected = Collected(content=True)

    @processor("process_input", edits="nothing")
    async def judged(ctx: InputContext) -> None:
        from penstock.engine.tracing.enclosing import model_call

        with model_call("judge"):
            assert SECRET in ctx.text

    await Workflow("w").then(judged).then(PIIDetector(strategy="redact")).check(SECRET, observers=[collected.observer])
    assert collected.span("chat judge")
    assert SECRET not in whole(collected)


@pytest.mark.parametrize(
    ("variable", "option", "wanted"),
    [
        (None, None, False),
        ("true", None, True),
        (" SPAN_ONLY ", None, True),
        ("span_and_event", None, True),
        ("EVENT_ONLY", None, False),
        ("false", None, False),
        ("true", False, False),
        (None, True, True),
    ],
)
def test_the_environment_decides_unless_the_option_does(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, option: bool | None, wanted: bool
) -> None:
    """By the variable that OpenTelemetry's own instrumentations read."""
    monkeypatch.delenv(names.CONTENT_VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(names.CONTENT_VARIABLE, variable)
    assert names.is_wanted(option) is wanted


def test_half_a_surrogate_pair_is_escaped() -> None:
    """An exporter could not encode it, and would lose the whole batch."""
    made = attributes.messages_json([Message.user("a\ud800b")])
    assert json.loads(made.encode())[0]["parts"][0]["content"] == "a\ud800b"


def test_messages_are_written_as_the_conventions_say() -> None:
    """Calls and results apart; the data of files are left out."""
    message = Message(
        "assistant",
        (
            ReasoningPart("hm"),
            TextPart("ä"),
            ToolPart("c1", "look", {"at": [1]}, "result", {"seen": True}),
            ToolPart("c2", "look", {}, "error", error="no"),
            FilePart(data="c2VjcmV0", media_type="text/plain"),
        ),
    )
    assert json.loads(attributes.messages_json([message])) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "text", "content": "ä"},
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": [1]}},
                {"type": "tool_call", "id": "c2", "name": "look", "arguments": {}},
                {"type": "file"},
            ],
        },
        {
            "role": "tool",
            "parts": [
                {"type": "tool_call_response", "id": "c1", "response": {"seen": True}},
                {"type": "tool_call_response", "id": "c2", "response": "no"},
            ],
        },
    ]
