"""Anthropic's Messages API: `/v1/messages`, and `/v1/messages/count_tokens`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from penstock.engine.values.errors import MessageError
from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.endpoints.chat import tool_spec
from penstock.workflows.gateway.endpoints.endpoint import Endpoint, Refusal, SentEvents, index_in
from penstock.workflows.gateway.endpoints.messages_sections import (
    EDITED,
    ConversationSection,
    SystemSection,
    blocks_of,
    without_edited,
    without_thinking,
)
from penstock.workflows.gateway.endpoints.messages_tables import ANSWER, COUNTED, EVENTS, NO_THREADS, REQUEST, TOOL
from penstock.workflows.gateway.frames import written
from penstock.workflows.gateway.json_text import write_json
from penstock.workflows.gateway.tables import COUNTS, TERM, Obj, Place, places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.engine.values.model import ToolSpec
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.sections import RequestSection
    from penstock.workflows.gateway.tables import Path

_CALL_KINDS = ("call_id", "call_name", "arguments")
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}
_ERRORS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Messages(Endpoint):
    """Anthropic's messages. A thought that was changed leaves with `EDITED` in the place of its signature."""

    name: ClassVar = "anthropic-messages"
    paths: ClassVar = ("/v1/messages",)
    request: ClassVar = REQUEST
    answer: ClassVar = ANSWER
    events: ClassVar = EVENTS
    names_come_whole: ClassVar = True
    broken_seal: ClassVar = EDITED

    # Requests

    def cleaned(self, body: Json) -> Json:
        """Return a request without thoughts that were changed on their way to the client."""
        made = without_edited(body)
        return body if made is body else without_thinking(made)

    def fitted(self, body: Json) -> Json:
        """Return a request without thoughts where its last calls have lost theirs."""
        return without_thinking(body)

    def sections(self, body: Json) -> Sequence[RequestSection]:
        """Return the system prompt and the messages."""
        del body
        return _SECTIONS

    def tools(self, body: Json) -> Mapping[int, ToolSpec]:
        """Return the tools that the client runs.

        Raises:
            MessageError: one is malformed, or a message adds one that the gateway refuses.
        """
        for place, tool in _added_tools(body):
            found = places(TOOL, tool)
            refused = next((one for one in found.known if one.field.kind == "refused"), None)
            if refused is not None or found.unknown:
                raise MessageError(place, refused.field.note if refused else "is no tool that the gateway knows")
        tools = body.get("tools")
        if tools is not None and not is_array(tools):
            raise MessageError("tools", f"is {type(tools).__name__}; send a list")
        named = [(index, tool) for index, tool in enumerate(tools or ()) if is_object(tool) and "name" in tool]
        return {index: tool_spec(tool, f"tools[{index}]", "input_schema") for index, tool in named}

    # Answers

    def block(self, place: Place, data: Json) -> str:
        """Return the name of a text, a thought or a call: the index of its block, and its kind."""
        path, kind = place.path, place.field.kind
        found = next((key for key in path if isinstance(key, int)), None)
        index = index_in(data, "index", 0) if found is None else found
        if kind == "text" and path[-1] == "text":
            return f"0.{index}.text"
        if kind in _CALL_KINDS:
            return f"0.{index}.call"
        holder: Value = data
        for key in path[:-1]:
            holder = holder[key]
        return f"0.{index}.{'summary' if str(holder.get('type')).startswith('compaction') else 'thinking'}"

    def part(self, block: str) -> str:
        """Return the content block with a text."""
        return block.rpartition(".")[0]

    def ended(self, data: Json) -> tuple[str, ...]:
        """Return the block that ends; or all, where the message ends."""
        kind = data.get("type")
        if kind == "content_block_stop":
            return (f"0.{index_in(data, 'index', 0)}",)
        return ("0",) if kind in ("message_delta", "message_stop") else ()

    def opened(self, data: Json) -> str | None:
        """Return the block that begins; or all, where the message begins."""
        kind = data.get("type")
        if kind == "content_block_start":
            return f"0.{index_in(data, 'index', 0)}"
        return "0" if kind == "message_start" else None

    def overtakes(self, data: Json) -> bool:
        """Return whether it is a ping."""
        return data == {"type": "ping"}

    def usage(self, data: Json) -> tuple[int, int] | None:
        """Return the tokens that a usage reports, those from the cache too."""
        usage: Value = _message(data).get("usage")
        if not is_object(usage):
            return None
        asked = sum(_count(usage.get(name)) for name in _INPUT)
        told = _count(usage.get("output_tokens"))
        return (asked, told) if asked or told else None

    def finish_reason(self, data: Json) -> str | None:
        """Return why the message ended."""
        delta: Value = data.get("delta")
        holder = delta if is_object(delta) else _message(data)
        reason: Value = holder.get("stop_reason")
        return _REASONS.get(reason, "other") if isinstance(reason, str) else None

    def left(self, sent: SentEvents, data: Json) -> None:
        """Note which blocks are open, and how far the message is."""
        kind, index = data.get("type"), data.get("index")
        if kind == "content_block_start" and isinstance(index, int) and is_object(data.get("content_block")):
            sent.marks[str(index)] = str(data["content_block"].get("type"))
            sent.marks["next"] = str(index + 1)
        elif kind == "content_block_stop":
            sent.marks.pop(str(index), None)
        elif isinstance(kind, str) and kind.startswith("message_"):
            sent.marks["message"] = kind

    def added(self, kind: str, data: Json, path: Path, text: str) -> tuple[str, Json]:
        """Return a delta for text that was added to a block."""
        is_thought, is_summary = path[-1] == "thinking", path[-1] == "content"
        delta = {"type": "thinking_delta", "thinking": text} if is_thought else {"type": "text_delta", "text": text}
        if is_summary:
            delta = {"type": "compaction_delta", "content": text}
        event = "content_block_delta"
        return event if kind else "", {"type": event, "index": data.get("index", 0), "delta": delta}

    # Verdicts and errors

    def error(self, status: int, code: str, message: str) -> Json:
        """Return the body of an error."""
        usual = "invalid_request_error" if status < 500 else "api_error"  # noqa: PLR2004 - of HTTP
        details = {"details": {"error_code": code}} if code == NO_THREADS else {}
        return {"type": "error", "error": {"type": _ERRORS.get(status, usual), "message": message, **details}}

    def refusal(self, refusal: Refusal, model: str) -> Json:
        """Return a message whose stop reason is a refusal."""
        said = [{"type": "text", "text": refusal.text}]
        return {**_head(model), "content": said, **_refused(refusal), "usage": dict.fromkeys(_COUNTS, 0)}

    def refusal_events(self, refusal: Refusal, sent: SentEvents) -> Sequence[bytes]:
        """Return the ends of the open blocks, a block with the refusal, and the end of the message."""
        begun = sent.marks.get("message")
        if begun in ("message_delta", "message_stop"):
            return ()  # the client has been told how it ended
        made: list[Json] = [] if begun else [_start(sent.model)]
        for index, kind in sent.marks.items():
            if index.isdigit():
                if kind == "thinking":
                    made.append(_delta(int(index), {"type": "signature_delta", "signature": EDITED}))
                made.append({"type": "content_block_stop", "index": int(index)})
        at = int(sent.marks.get("next", 0))
        block = {"type": "text", "text": ""}
        made += [
            {"type": "content_block_start", "index": at, "content_block": block},
            _delta(at, {"type": "text_delta", "text": refusal.text}),
            {"type": "content_block_stop", "index": at},
            {"type": "message_delta", "delta": _refused(refusal), "usage": {"output_tokens": 0}},
            {"type": "message_stop"},
        ]
        return tuple(written(str(event["type"]), write_json(event)) for event in made)

    def error_events(self, code: str, message: str, sent: SentEvents) -> Sequence[bytes]:
        """Return the event of an error: it ends a stream."""
        del sent
        return (written("error", write_json(self.error(502, code, message))),)


class CountTokens(Messages):
    """Anthropic's count of tokens. The request is guarded as that of a message, and the guarded one is counted."""

    name: ClassVar = "anthropic-count-tokens"
    paths: ClassVar = ("/v1/messages/count_tokens",)
    request: ClassVar = Obj(COUNTED)
    answer: ClassVar = Obj({"input_tokens": TERM, "context_management": Obj({}, COUNTS)})
    events: ClassVar = {}
    has_answer: ClassVar = False

    def usage(self, data: Json) -> None:
        """Return nothing: no model is asked."""
        del data


_COUNTS = ("input_tokens", "output_tokens")
_SECTIONS = SystemSection(), ConversationSection()


def _added_tools(body: Json) -> Iterator[tuple[str, Value]]:
    """Yield the tools that blocks of messages and of the system prompt add to the conversation."""
    for name in ("system", "messages"):
        value = body.get(name)
        found = blocks_of(value) if name == "messages" else (value if is_array(value) else ())
        for block in found:
            yield from _defined(block, name)


def _defined(block: Value, place: str) -> Iterator[tuple[str, Value]]:
    changes: Value = block.get("tool_changes") if is_object(block) else None
    for change in (block, *(changes if is_array(changes) else ())):
        tool: Value = change.get("tool") if is_object(change) else None
        if is_object(tool):
            kind = str(tool.get("type"))
            if kind == "tool_definition":
                yield f"{place}: the added tool", tool.get("definition")
            elif kind.startswith("mcp_"):
                yield f"{place}: the added tool", {"type": "mcp_toolset"}


def _message(data: Json) -> Json:
    """Return the message of a ``message_start``, or the event or answer itself."""
    message: Value = data.get("message")
    return message if is_object(message) else data


def _count(value: Value) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _head(model: str) -> Json:
    return {"id": f"msg_{uuid4().hex[:24]}", "type": "message", "role": "assistant", "model": model}


def _refused(refusal: Refusal) -> Json:
    details = {"type": "refusal", "category": None, "explanation": refusal.text}
    return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}


def _start(model: str) -> Json:
    message: Json = {**_head(model), "content": [], "stop_reason": None, "stop_sequence": None}
    return {"type": "message_start", "message": {**message, "usage": dict.fromkeys(_COUNTS, 0)}}


def _delta(index: int, delta: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}
