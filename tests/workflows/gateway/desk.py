"""Requests with a call that is asked about, in each protocol, and a store with one client's way to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock import InMemoryStorage, PIIDetector
from penstock.processors.tools import ToolPolicy
from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.gateway.reviewing import RouteReviews
from penstock.workflows.review import Reviews
from tests.workflows.gateway.exchanges import Scripted, event, run_exchange
from tests.workflows.gateway.responses_stream import response, stream_of

if TYPE_CHECKING:
    from tests.workflows.gateway.exchanges import Got

SECRET = "ann@example.com"
ARGUMENTS = {"order": 7, "note": f"for {SECRET}"}
ASK = {"role": "user", "content": "Refund order 7"}


def chat(*, streams: bool) -> tuple[str, Any, list[bytes]]:
    """Return path, request and what the provider sends."""
    tool = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}
    function = {"name": "refund", "arguments": json.dumps(ARGUMENTS)}
    call = {"id": "c1", "type": "function", "function": function}
    frame = {"id": "x", "created": 1, "model": "m"}
    body = {"model": "m", "messages": [ASK], "tools": [tool], "stream": streams}
    if not streams:
        message = {"role": "assistant", "content": "I will refund it.", "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        whole = {**frame, "object": "chat.completion", "choices": [choice]}
        return "/v1/chat/completions", body, [json.dumps(whole).encode()]
    deltas: list[tuple[Any, str | None]] = [
        ({"role": "assistant", "content": "I will "}, None),
        ({"content": "refund it."}, None),
        ({"tool_calls": [{"index": 0, **call}]}, None),
        ({}, "tool_calls"),
    ]
    sent = [{**frame, "object": "chat.completion.chunk", "choices": [_choice(*one)]} for one in deltas]
    return "/v1/chat/completions", body, [*(event(one) for one in sent), b"data: [DONE]\n\n"]


def _choice(delta: Any, end: str | None) -> Any:
    return {"index": 0, "delta": delta, "finish_reason": end}


def messages(*, streams: bool) -> tuple[str, Any, list[bytes]]:
    """Return the same of Anthropic's messages."""
    tool = {"name": "refund", "input_schema": {"type": "object"}}
    body = {"model": "m", "max_tokens": 100, "messages": [ASK], "tools": [tool], "stream": streams}
    usage = {"input_tokens": 3, "output_tokens": 5}
    frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    said = {"type": "text", "text": "I will refund it."}
    if not streams:
        use = {"type": "tool_use", "id": "c1", "name": "refund", "input": ARGUMENTS}
        whole = {**frame, "content": [said, use], "stop_reason": "tool_use", "stop_sequence": None}
        return "/v1/messages", body, [json.dumps(whole).encode()]
    begun = {**frame, "content": [], "stop_reason": None, "stop_sequence": None}
    use = {"type": "tool_use", "id": "c1", "name": "refund", "input": {}}
    written = {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    sent: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I will refund it."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": use},
        {"type": "content_block_delta", "index": 1, "delta": written},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return "/v1/messages", body, [event(one, str(one["type"])) for one in sent]


def responses(*, streams: bool) -> tuple[str, Any, list[bytes]]:
    """Return the same of OpenAI's responses."""
    tool = {"type": "function", "name": "refund", "parameters": {"type": "object"}}
    body = {"model": "m", "input": [ASK], "tools": [tool], "stream": streams}
    call = {
        "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "refund",
        "arguments": json.dumps(ARGUMENTS), "status": "completed",
    }  # fmt: skip
    part = {"type": "output_text", "text": "I will refund it.", "annotations": [], "logprobs": []}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    whole = response([said, call])
    if not streams:
        return "/v1/responses", body, [json.dumps(whole).encode()]
    return "/v1/responses", body, [event(data, kind) for kind, data in stream_of(whole)]


class Desk:
    """A store, and the way of one client to it."""

    def __init__(self) -> None:
        self.reviews = Reviews(InMemoryStorage())
        self.got: Any = None  # the last request that the provider got

    async def send(self, path: str, body: Any, sends: list[bytes], *steps: Any, asked: int = 1) -> Got:
        """Send a request; the provider must be asked so many times."""
        upstream = Scripted(sends, "text/event-stream" if body["stream"] else "application/json")
        guards = RouteReviews(self.reviews, "all", "p1")
        steps = steps or (PIIDetector(redaction_method="placeholder"), ToolPolicy(ask=["refund"]))
        got = await run_exchange(ENDPOINTS[path], body, upstream, *steps, reviews=guards)
        assert len(upstream.asked) == asked
        self.got = upstream.got if asked else None
        return got

    async def waits(self) -> Any:
        """Return what waits, as JSON."""
        (run,) = (await self.reviews.runs()).items
        return run.to_json()
