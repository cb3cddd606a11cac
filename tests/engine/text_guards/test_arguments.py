"""Arguments of tool calls that decide what runs: a guard stops the call rather than letting it run altered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import Agent, Chunk, Message, PIIDetector, RegexFilterProcessor, Workflow
from penstock.engine.text_guards.arguments import decides_what_runs
from penstock.engine.values.messages import ToolPart
from penstock.testing import ScriptedModel

MAIL = "bob@example.org"


@pytest.mark.parametrize(
    ("key", "text", "decides"),
    [
        ("command", "anything", True),
        ("filePath", "two words", True),
        ("target_URL", "x", True),
        ("SQL", "x", True),
        ("code", "print(1)", True),
        ("postal_code", "12345", False),
        ("query", "who is bob@example.org", False),
        ("query", "SELECT a FROM b WHERE mail = 'bob@example.org'", True),
        ("to", MAIL, False),
        ("text", "git clone git@example.org:a/b.git", True),
        ("", "ssh -i key bob@example.org", True),
        ("note", "find bob@example.org and call 404-555-0171", False),
        ("body", "https://example.org/?mail=bob@example.org", True),
        ("body", "See https://example.org/?mail=bob@example.org", False),
        ("x", "/home/bob@example.org/a.txt", True),
        ("subject", "Re: a/b tests", False),
    ],
)
def test_a_key_or_a_form_says_that_an_argument_decides_what_runs(key: str, text: str, decides: bool) -> None:
    """Commands, code, paths and addresses."""
    assert decides_what_runs(key, text) == decides


@pytest.mark.parametrize(
    "guard", [PIIDetector, lambda **options: RegexFilterProcessor(presets=["pii"], strategy="redact", **options)]
)
def test_such_an_argument_blocks_and_others_are_redacted(guard: Any) -> None:
    """Unless the option says otherwise."""
    command = {"command": f"finger {MAIL}", "n": 1}
    call = Workflow("w").then(guard()).start_sync().process_tool_call
    outcome = call("run", command)
    assert outcome.blocked
    assert "arguments.command" in outcome.tripwire.reason
    assert MAIL not in repr(outcome.tripwire)
    assert MAIL not in repr(Workflow("w").then(guard()).start_sync().process_tool_call("send", {"to": MAIL}).arguments)
    altered = Workflow("w").then(guard(arguments="redact")).start_sync().process_tool_call("run", command)
    assert not altered.blocked
    assert MAIL not in repr(altered.arguments)


async def test_no_altered_command_runs_behind_an_agent() -> None:
    """Neither from a call that comes whole, nor from one that is written piece by piece."""
    ran: list[str] = []

    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "done"

    model = ScriptedModel([{"tool_calls": [{"name": "shell", "args": {"command": f"finger {MAIL}"}}]}, "Fine."])
    result = await Agent(model, tools=[shell], processors=[PIIDetector()]).generate("Go on.")
    assert result.blocked
    assert ran == []


def test_a_call_that_is_streamed_or_in_a_message_is_stopped_too() -> None:
    """A call that was made already is redacted, since it runs no more."""
    arguments = {"command": f"finger {MAIL}"}
    pieces = [
        Chunk("tool-input-start", id="c"),
        Chunk("tool-input-delta", json.dumps(arguments), "c"),
        Chunk("tool-input-end", id="c"),
    ]
    workflow = Workflow("w").then(PIIDetector())
    with workflow.start_sync().process_output_stream(pieces) as chunks:
        out = list(chunks)
    assert out[-1].type == "tripwire"
    called = Message("assistant", (ToolPart("c", "shell", arguments),))
    assert workflow.start_sync().process_output_step([called]).blocked
    answered = Message("assistant", (ToolPart("c", "shell", arguments, "result", "ok"),))
    outcome = workflow.start_sync().process_output_step([answered])
    assert not outcome.blocked
    assert MAIL not in repr(outcome.messages)
