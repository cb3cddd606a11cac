"""`AgentProvider`: a model on 127.0.0.1 for Claude Code and for Codex, which calls tools by a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Turn = str | tuple[str, dict[str, Any]]
"""An answer: a text, or a call of a tool with its arguments."""


class AgentProvider:
    """Answers each request that holds the conversation's tools with the next turn; other requests get ``ok``."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.requests: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def read(self) -> str:
        """Everything that the model was sent."""
        return "\n".join(json.dumps(request, ensure_ascii=False) for request in self.requests)

    def next_turn(self, request: dict[str, Any]) -> Turn:
        with self._lock:
            self.requests.append(request)
            if not request.get("tools"):
                return "ok"
            return self.turns.pop(0) if self.turns else "done"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base
                pass

            def do_HEAD(self) -> None:
                self._send(b"", "text/plain")

            def do_GET(self) -> None:
                self._send(b'{"data": [], "models": []}', "application/json")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                path = self.path.partition("?")[0]
                if path.endswith("/messages"):
                    events = messages_events(provider.next_turn(body), str(body.get("model")))
                elif path.endswith("/responses"):
                    events = responses_events(provider.next_turn(body))
                else:
                    self._send(b'{"input_tokens": 10}', "application/json")
                    return
                said = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
                self._send(said.encode(), "text/event-stream")

            def _send(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler


def messages_events(turn: Turn, model: str) -> Iterator[dict[str, Any]]:
    """Anthropic's stream for a turn."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "usage": usage,
    }
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
    block: dict[str, Any]
    if isinstance(turn, str):
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": turn}
    else:
        block = {"type": "tool_use", "id": f"toolu_{id(turn)}", "name": turn[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn[1])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "end_turn" if isinstance(turn, str) else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def responses_events(turn: Turn) -> Iterator[dict[str, Any]]:
    """OpenAI's stream of a response for a turn."""
    if isinstance(turn, str):
        content: list[dict[str, Any]] = [{"type": "output_text", "text": turn, "annotations": []}]
        item: dict[str, Any] = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    else:
        item = {"type": "function_call", "id": "fc_1", "call_id": f"call_{id(turn)}", "name": turn[0]}
        item |= {"arguments": json.dumps(turn[1]), "status": "completed"}
        if turn[0] == "apply_patch":
            item = {"type": "custom_tool_call", "id": "ct_1", "call_id": item["call_id"], "name": "apply_patch"}
            item |= {"input": turn[1]["input"], "status": "completed"}
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 10, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": {**usage, "total_tokens": 11}}}
