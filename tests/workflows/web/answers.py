"""Answers as chunks, which the tests of the formats share."""

from __future__ import annotations

from penstock import Agent, RegexFilterProcessor, Workflow
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.model import ToolSpec
from penstock.testing import ScriptedModel

CALL = {"call_id": "c1", "name": "weather"}
VERDICT = Chunk(
    "tripwire",
    payload={"reason": "has a codename", "processor_id": "codenames", "metadata": {"rule": "heron"}, "stage": "s"},
)
TOLD = ("has a codename", "codenames", "heron", "rule")


def text(*pieces: str, id: str = "t") -> list[Chunk]:
    """A text in pieces."""
    return [Chunk("text-start", id=id), *(Chunk("text-delta", piece, id) for piece in pieces), Chunk("text-end", id=id)]


def call(*pieces: str, arguments: object, **who: str) -> list[Chunk]:
    """A tool call in pieces."""
    named = CALL | who
    id = named["call_id"]
    return [
        Chunk("tool-input-start", id=id, payload=named),
        *(Chunk("tool-input-delta", piece, id) for piece in pieces),
        Chunk("tool-input-end", id=id),
        Chunk("tool-call", id=id, payload={**named, "arguments": arguments}),
    ]


def finish(reason: str = "stop", **usage: int) -> Chunk:
    """The end of an answer."""
    return Chunk("finish", payload={"reason": reason, **({"usage": usage} if usage else {})})


def guarded_agent() -> Agent:
    """An agent whose guard hides addresses; its model writes one, cut in two, and one into a call."""
    guard = Workflow("guard").then(RegexFilterProcessor(presets=["pii"], strategy="redact"))
    mail = {"name": "mail", "args": {"to": "ada@example.com"}}
    answer = {"deltas": ["Ask ada@exam", "ple.com"], "tool_calls": [mail], "stream_tool_input": True}
    return Agent(ScriptedModel([answer]), processors=[guard], tools=[ToolSpec("mail")])
