"""A scripted model's turn as the chunks that a provider's adapter would send. It knows no run.

A turn has ``text`` or ``deltas``, ``tool_calls``, ``stream_tool_input``, ``error`` (the call fails), ``stream_error``
(it fails behind its deltas) or ``plain_error`` (it breaks down).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from penstock import Chunk, ModelError

Turn = Mapping[str, Any]
Mode = Literal["generate", "stream"]

USAGE = {"input_tokens": 10, "output_tokens": 5}
"""What the recorded model said that each call took."""


def reason_of(turn: Turn) -> str:
    """Return why the model stopped."""
    return str(turn.get("finish_reason") or ("tool-calls" if turn.get("tool_calls") else "stop"))


def chunks_of(turn: Turn, mode: Mode, id: str) -> Iterator[Chunk]:
    """Yield a turn's chunks; an answer that was not streamed has its text in one piece.

    Raises:
        ModelError: the script says so.
        RuntimeError: the script says that the model breaks down.
    """
    if "plain_error" in turn:
        raise RuntimeError(turn["plain_error"])
    if "error" in turn:
        raise ModelError("mock-1", turn["error"]["message"], status=turn["error"].get("status"))
    yield Chunk("response-metadata")
    yield from _text(turn, mode, id)
    if "stream_error" in turn:
        raise ModelError("mock-1", turn["stream_error"])
    for call in turn.get("tool_calls", ()):
        yield from _call(call, streamed=mode == "generate" or turn.get("stream_tool_input", False))
    yield Chunk("finish", payload={"reason": reason_of(turn), "usage": USAGE})


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
