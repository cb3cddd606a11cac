"""OpenAI's responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.engine.values.errors import MessageError
from penstock.engine.values.model import ToolSpec
from penstock.engine.values.terms import is_code
from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.endpoints.chat import tokens_of, tool_spec
from penstock.workflows.gateway.endpoints.endpoint import Endpoint, Refusal, SentEvents, index_in
from penstock.workflows.gateway.endpoints.moderation import moderation_of
from penstock.workflows.gateway.endpoints.responses_sent import NO_USAGE, ResponseSent, new_response, refusing
from penstock.workflows.gateway.endpoints.responses_tables import ANSWER, EVENTS, REQUEST
from penstock.workflows.gateway.endpoints.tokens import spelled
from penstock.workflows.gateway.sections import MessagesSection, RequestSection, TextSection
from penstock.workflows.gateway.tables import alone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.tables import Path, Place

_KEPT = (
    "what the provider keeps of an answer is as it was before any guard; the gateway sends store: false, so that it "
    "keeps nothing. Keep answers yourself, and send them as `input`"
)

_SECTIONS = TextSection(("instructions",), "system"), MessagesSection(("input",), "openai-responses")
_CALL_KEYS = frozenset({"arguments", "input", "code", "diff", "name", "call_id"})
_OPERATIONS = frozenset({"action", "actions"})


class Responses(Endpoint):
    """OpenAI's responses."""

    name: ClassVar = "openai-responses"
    limits: ClassVar = ("max_output_tokens",)
    paths: ClassVar = ("/v1/responses", "/responses")
    request: ClassVar = REQUEST
    answer: ClassVar = ANSWER
    events: ClassVar = EVENTS
    forced: ClassVar[Mapping[str, Value]] = {"store": False}
    closed: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("/v1/responses/", "/responses/", "/v1/conversations", "/conversations"), _KEPT
    )

    def sections(self, body: Json) -> Sequence[RequestSection]:
        """Return the instructions, and the items of the conversation."""
        del body
        return _SECTIONS

    def tools(self, body: Json) -> Mapping[int, ToolSpec]:
        """Return the tools that the client runs: functions by their names, others by their types."""
        tools: Value = body.get("tools")
        if tools is None:
            return {}
        if not is_array(tools):
            raise MessageError("tools", f"is {type(tools).__name__}; send a list")
        return {index: _tool(tool, f"tools[{index}]") for index, tool in enumerate(tools) if is_object(tool)}

    def block(self, place: Place, data: Json) -> str:
        """Return the place of the item in the output, that of the part in it, and the key of the text."""
        path = place.path
        if path[0] == "response":
            return _in_item(path[3:], str(path[2]))
        if "type" not in data:  # a whole answer
            return _in_item(path[2:], str(path[1]))
        item = _item_of(data)
        return _in_item(path[1:], item) if path[0] == "item" else _in_event(path, item, data)

    def joined(self, block: str) -> str:
        """Return the name of the text: items and parts may come side by side, and each is read by itself."""
        return block

    def ended(self, data: Json) -> tuple[str, ...]:
        """Return the texts that an event ends: its own one, all of an item, or all."""
        kind = str(data.get("type"))
        if self.ends(data):
            return ("",)
        if not kind.endswith(".done"):
            return ()
        item = _item_of(data)
        if kind == "response.output_item.done":
            return (item,)
        if "shell_call_output_content" in kind:
            return (f"{item}.output.{index_in(data, 'command_index')}",)
        parts = [(group, index_in(data, key)) for group, key in _GROUPS.items()]
        return tuple(f"{item}.{group}.{index}" for group, index in parts if index is not None) or (f"{item}.call",)

    def opened(self, data: Json) -> str | None:
        """Return the item or the part that begins; or all, where the response begins."""
        kind = str(data.get("type"))
        if kind == "response.created":
            return ""
        if kind == "response.output_item.added":
            return _item_of(data)
        group = _OPENING.get(kind)
        return None if group is None else f"{_item_of(data)}.{group}.{index_in(data, _GROUPS[group])}"

    def ends(self, data: Json) -> bool:
        """Return whether an event is the last one of a response."""
        return data.get("type") in _LAST

    def usage(self, data: Json) -> tuple[int, int] | None:
        """Return the tokens that a usage reports."""
        response = _response_of(data)
        return tokens_of(response.get("usage"), "input_tokens", "output_tokens")

    def finish_reason(self, data: Json) -> str | None:
        """Return why a response ended."""
        response = _response_of(data)
        status = response.get("status")
        if status == "completed":
            output: Value = response.get("output")
            calls = [item for item in output if is_object(item) and _is_call(item)] if is_array(output) else []
            return "tool-calls" if calls else "stop"
        if status == "incomplete":
            details = response.get("incomplete_details")
            reason = details.get("reason") if is_object(details) else None
            return _REASONS.get(reason, "other") if isinstance(reason, str) else "other"
        return "error" if status == "failed" else None

    def tokens(self, value: Value) -> str | None:
        """Return the text that the tokens spell."""
        return spelled(value) if value else ""

    def added(self, kind: str, data: Json, path: Path, text: str) -> tuple[str, Json]:
        """Return a delta for text that was added to a text."""
        return kind, alone(data, path, text)

    def number(self, data: Json) -> int | None:
        """Return the number of an event."""
        number = data.get("sequence_number")
        return number if isinstance(number, int) else None

    def renumbered(self, number: int) -> Mapping[Path, Value]:
        """Return the number."""
        return {("sequence_number",): number}

    # Verdicts

    def begin(self, model: str) -> SentEvents:
        """Return the notes about a leaving response."""
        return ResponseSent(model=model)

    def refusal(self, refusal: Refusal, model: str) -> Json:
        """Return a response whose message is a refusal."""
        more = {"moderation": moderation_of(refusal)} if refusal.details else {}
        return {**new_response(model, "completed", [refusing(refusal.text)], usage=NO_USAGE), **more}

    def refusal_events(self, refusal: Refusal, sent: SentEvents) -> Sequence[bytes]:
        """Return the events that close open items, a message that refuses, and the end of the response."""
        if not isinstance(sent, ResponseSent):
            sent = ResponseSent(model=sent.model)
        return *sent.closing(), *sent.refused(refusal.text)

    def error_events(self, code: str, message: str, sent: SentEvents) -> Sequence[bytes]:
        """Return the events that close open items, and the end of a response that failed."""
        if not isinstance(sent, ResponseSent):
            sent = ResponseSent(model=sent.model)
        return *sent.closing(), *sent.failed(code, message)


_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_REASONS = {"max_output_tokens": "length", "content_filter": "content-filter"}
_GROUPS = {
    "content": "content_index",
    "summary": "summary_index",
    "command": "command_index",
}
"""By the list of an item, the key of an event that says which entry of it the event is about."""

_OPENING = {
    "response.content_part.added": "content",
    "response.reasoning_part.added": "content",
    "response.reasoning_summary_part.added": "summary",
    "response.shell_call_command.added": "command",
}
"""By the event with which an entry begins, the list."""


def _response_of(data: Json) -> Json:
    """Return the response of an event, or the whole answer."""
    response = data.get("response")
    return response if is_object(response) else {} if "type" in data else data


def _is_call(item: Json) -> bool:
    return item.get("type") in ("function_call", "custom_tool_call")


def _item_of(data: Json) -> str:
    """Return the place of an event's item in the output; its id, or its call's, if the event does not say the place."""
    place = index_in(data, "output_index")
    if place is not None:
        return str(place)
    item = data.get("item")
    name = data.get("item_id") or (item.get("id") or item.get("call_id") if is_object(item) else None)
    return f"?{name.replace('.', '_')}" if isinstance(name, str) and is_code(name) else "?"


def _in_item(path: Path, item: str) -> str:
    """Return the name of a leaf of an item."""
    first, last = path[0], path[-1]
    if first in ("content", "summary") and len(path) > 2:  # noqa: PLR2004 - the list, the entry, its text
        return f"{item}.{first}.{path[1]}.{'refusal' if path[2] == 'refusal' else 'text'}"
    if first == "output" and len(path) > 2:  # noqa: PLR2004
        return f"{item}.output.{path[1]}.{last}"
    if first == "action" and "commands" in path[1:2]:
        return f"{item}.command.{last}"
    return f"{item}.call.{first}" if first in _OPERATIONS else f"{item}.call"


def _in_event(path: Path, item: str, data: Json) -> str:
    """Return the name of a leaf of an event that is about a part of an item."""
    kind = str(data.get("type"))
    if "shell_call_output_content" in kind:
        more = f"+{path[1]}" if path[0] == "output" and path[1] else ""
        return f"{item}.output.{index_in(data, 'command_index')}{more}.{path[-1]}"
    for group, key in _GROUPS.items():
        index = index_in(data, key)
        if index is not None:
            own = "refusal" if "refusal" in (*path, *kind.split(".")) else "text"
            return f"{item}.{group}.{index}" if group == "command" else f"{item}.{group}.{index}.{own}"
    return f"{item}.call" if path[-1] in _CALL_KEYS or "call" in kind else f"{item}.{kind.removesuffix('.delta')}"


def _tool(tool: Json, place: str) -> ToolSpec:
    kind = tool.get("type")
    if kind == "function":
        return tool_spec(tool, place, "parameters")
    name, description = tool.get("name"), tool.get("description")
    named = name if isinstance(name, str) and name else str(kind)
    return ToolSpec(named, description=description if isinstance(description, str) else "")
