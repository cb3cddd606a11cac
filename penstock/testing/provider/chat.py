"""A turn as the body of a chat completion, or as the events of one that is streamed; it knows no socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.testing.provider.reading import mapping
from penstock.testing.turns import arguments, call_id, failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engine.values.frozen import Value, Values
    from penstock.testing.provider.received import Received
    from penstock.testing.provider.wire import Wire
from penstock.testing.turns import Turn

CREATED = 1_767_225_600
"""When every answer was made: the first second of 2026, in UTC."""

_REASONS = {"tool-calls": "tool_calls", "content-filter": "content_filter"}


def completion(turn: Turn, request: Received, wire: Wire, id: str) -> Values:
    """Return the body of an answer that is not streamed."""
    message: dict[str, Value] = {"role": "assistant", "content": "".join(turn.pieces) or None, "refusal": turn.refusal}
    if turn.thoughts:
        message[wire.reasoning] = "".join(turn.thoughts)
    if turn.tool_calls:
        message["tool_calls"] = [_call(call, index) for index, call in enumerate(turn.tool_calls)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(turn)}
    return _frame("chat.completion", request, id) | {"choices": [choice], "usage": usage(turn, request)}


def events(turn: Turn, request: Received, wire: Wire, id: str) -> Iterator[Values]:
    """Yield the JSON of the events of an answer that is streamed, ``[DONE]`` left out."""
    frame = _frame("chat.completion.chunk", request, id)
    options = mapping(request.fields.get("stream_options"))
    counted = {"usage": None} if options.get("include_usage") else {}
    yield frame | {"choices": [_choice({"role": "assistant", "content": ""})]} | counted
    for delta in _deltas(turn, wire):
        yield frame | {"choices": [_choice(delta)]} | counted
    if turn.stream_error is not None:
        yield _broken(turn)
        return
    yield frame | {"choices": [_choice({}, _reason(turn))]} | counted
    if counted:
        yield frame | {"choices": [], "usage": usage(turn, request)}


def usage(turn: Turn, request: Received) -> Values:
    """Return what the answer took, as the provider counts: a token a word, unless the turn says otherwise."""
    told: Mapping[str, int] = turn.usage or {}
    asked, said = told.get("input_tokens", len(request.all_text.split())), told.get("output_tokens", turn.words)
    thought = told.get("reasoning_tokens", len("".join(turn.thoughts).split()))
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": told.get("cached_tokens", 0)},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _frame(kind: str, request: Received, id: str) -> dict[str, Value]:
    return {"id": id, "object": kind, "created": CREATED, "model": request.fields.get("model", "fake-1")}


def _choice(delta: Values, reason: str | None = None) -> Values:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _reason(turn: Turn) -> str:
    return _REASONS.get(turn.reason, turn.reason)


def _deltas(turn: Turn, wire: Wire) -> Iterator[Values]:
    yield from ({wire.reasoning: piece} for piece in turn.thoughts)
    yield from ({"content": piece} for piece in turn.pieces)
    if turn.refusal is not None:
        yield {"refusal": turn.refusal}
    for index, call in enumerate(turn.tool_calls):
        yield from _streamed_call(turn, call, index)


def _streamed_call(turn: Turn, call: Values, index: int) -> Iterator[Values]:
    """Yield a call's name, then its arguments: whole, or in pieces of four letters."""
    made = _call(call, index)
    written = made["function"]["arguments"]
    yield {"tool_calls": [{"index": index, **made, "function": {**made["function"], "arguments": ""}}]}
    length = 4 if turn.stream_tool_input else max(len(written), 1)
    for start in range(0, len(written), length):
        piece = {"arguments": written[start : start + length]}
        yield {"tool_calls": [{"index": index, "function": piece}]}


def _call(call: Values, index: int) -> dict[str, Value]:
    function = {"name": call["name"], "arguments": arguments(call)}
    return {"id": call_id(call, index), "type": "function", "function": function}


def _broken(turn: Turn) -> Values:
    told = failure(turn.stream_error)
    return {"error": {"message": told.message, "type": "server_error", "param": None, "code": told.code or told.status}}
