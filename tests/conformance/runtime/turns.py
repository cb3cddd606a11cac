"""A scripted model's turn as the chunks that a provider's adapter would send. It knows no run.

A turn has ``text`` or ``deltas``, ``tool_calls``, ``stream_tool_input``, ``error`` (the call fails) or ``stream_error``
(it fails behind its deltas).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from penstock import Chunk

Turn = Mapping[str, Any]
Mode = Literal["generate", "stream"]


class ModelError(Exception):
    """The scripted model's own failure; ``status`` as a provider's transport gives it."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


def reason_of(turn: Turn) -> str:
    """Return why the model stopped."""
    return "tool-calls" if turn.get("tool_calls") else "stop"


def chunks_of(turn: Turn, mode: Mode, id: str) -> Iterator[Chunk]:
    """Yield a turn's chunks, up to the model's own finish; an answer that was not streamed has its text in one piece.

    Raises:
        ModelError: the script says so.
    """
    yield Chunk("step-start")
    if "error" in turn:
        raise ModelError(turn["error"]["message"], turn["error"].get("status"))
    yield Chunk("response-metadata")
    yield from _text(turn, mode, id)
    if "stream_error" in turn:
        raise ModelError(turn["stream_error"])
    for call in turn.get("tool_calls", ()):
        yield from _call(call, streamed=mode == "generate" or turn.get("stream_tool_input", False))
    if not turn.get("tool_calls"):
        yield Chunk("finish", payload={"reason": "stop"})


def _text(turn: Turn, mode: Mode, id: str) -> Iterator[Chunk]:
    deltas = turn.get("deltas") or [turn.get("text", "")]
    if any(deltas):
        yield Chunk("text-start", id=id)
        for delta in ["".join(deltas)] if mode == "generate" else deltas:
            yield Chunk("text-delta", delta, id)
        if "stream_error" not in turn:
            yield Chunk("text-end", id=id)


def _call(call: Mapping[str, Any], *, streamed: bool) -> Iterator[Chunk]:
    """Yield a tool call; a call whose input streams is announced piece by piece."""
    id, name, arguments = call["id"], call["name"], call["args"]
    if streamed:
        yield Chunk("tool-input-start", id=id, payload={"call_id": id, "name": name})
        yield Chunk("tool-input-delta", json.dumps(arguments), id, {"call_id": id})
        yield Chunk("tool-input-end", id=id, payload={"call_id": id})
    yield Chunk("tool-call", id=id, payload={"call_id": id, "name": name, "arguments": arguments})
