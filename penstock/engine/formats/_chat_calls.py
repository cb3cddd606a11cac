"""Tool calls and results of OpenAI chat messages; it knows no content but theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._chat_parts import FORMAT
from penstock.engine.formats._notes import kept, notes_of, restored, telling, unknown
from penstock.engine.formats.tool_parts import read_arguments, result_text, write_arguments
from penstock.engine.formats.wire import (
    Json,
    Value,
    expect_array,
    expect_object,
    expect_text,
    is_array,
    is_empty,
    is_object,
    maybe_text,
)
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import Message, ToolPart, UnknownPart

if TYPE_CHECKING:
    from penstock.engine.values.messages import Part

_CALL_KEYS = frozenset({"id", "type", "function"})
_CUSTOM_CALL_KEYS = frozenset({"id", "type", "custom"})
_FUNCTION_KEYS = frozenset({"name", "arguments"})
_CUSTOM_KEYS = frozenset({"name", "input"})
_RESULT_KEYS = frozenset({"role", "content", "tool_call_id", "id", "name"})


# Calls


def read_calls(item: Json, place: str) -> list[Part]:
    """Return the calls of ``tool_calls`` and of the older ``function_call``.

    Raises:
        MessageError: one is malformed.
    """
    calls = expect_array(item.get("tool_calls") or [], f"{place}.tool_calls", "a list of tool calls")
    parts = [_read_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls)]
    if not is_empty(item.get("function_call")):
        function = expect_object(item["function_call"], f"{place}.function_call")
        parts.append(_read_function(function, "", {"field": "function_call"}, f"{place}.function_call"))
    return parts


def _read_call(value: Value, place: str) -> Part:
    call = expect_object(value, place, "a tool call")
    call_id, kind = maybe_text(call, "id", place) or "", call.get("type")
    function, custom = call.get("function"), call.get("custom")
    if is_object(function):
        notes: Json = {"extra": unknown(call, _CALL_KEYS, {"function"})}
        notes["type"] = "absent" if "type" not in call else kind if kind != "function" else None
        return _read_function(function, call_id, notes, f"{place}.function")
    if is_object(custom):
        name, text = (expect_text(custom, key, f"{place}.custom") for key in ("name", "input"))
        extra, inner = unknown(call, _CUSTOM_CALL_KEYS, {"custom"}), unknown(custom, _CUSTOM_KEYS, _CUSTOM_KEYS)
        return ToolPart(call_id, name, text, metadata=kept(FORMAT, {"field": "custom", "extra": extra, "inner": inner}))
    return UnknownPart(call, kept(FORMAT, {"field": "tool_calls"}))


def _read_function(function: Json, call_id: str, notes: Json, place: str) -> ToolPart:
    name = expect_text(function, "name", place)
    arguments, style = read_arguments(function.get("arguments", ""))
    notes["arguments"] = style if "arguments" in function else "absent"
    notes["inner"] = unknown(function, _FUNCTION_KEYS, _FUNCTION_KEYS)
    return ToolPart(call_id, name, arguments, metadata=kept(FORMAT, notes))


def write_call(part: ToolPart) -> Json:
    """Return an entry of ``tool_calls``."""
    notes = notes_of(part, FORMAT)
    body: Json = {"id": part.call_id} if part.call_id else {}
    if notes.get("field") == "custom" and isinstance(part.arguments, str):
        custom = restored({"name": part.name, "input": part.arguments}, notes, _CUSTOM_KEYS, "inner")
        return restored({**body, "type": "custom", "custom": custom}, notes, _CUSTOM_CALL_KEYS)
    kind = notes.get("type", "function")
    if isinstance(kind, str) and kind != "absent":
        body["type"] = kind
    return restored({**body, "function": write_function(part)}, notes, _CALL_KEYS)


def write_function(part: ToolPart) -> Json:
    """Return name and arguments of a call."""
    notes = notes_of(part, FORMAT)
    body: Json = {"name": part.name}
    style = notes.get("arguments")
    if style != "absent" or part.arguments != {}:
        body["arguments"] = write_arguments(part.arguments, style)
    return restored(body, notes, _FUNCTION_KEYS, "inner")


def is_function_call(part: ToolPart) -> bool:
    """Whether the call stood in the older ``function_call``."""
    return notes_of(part, FORMAT).get("field") == "function_call"


# Results


def read_result(item: Json, place: str) -> Message:
    """Return a ``tool`` message with the result; content in parts is kept as a list.

    Raises:
        MessageError: it is malformed.
    """
    given = item.get("content")
    if given is not None and not isinstance(given, str):
        expect_array(given, f"{place}.content", "a str or a list of content parts")
    name, call_id = maybe_text(item, "name", place), maybe_text(item, "tool_call_id", place)
    notes: Json = {
        "role": "function" if item["role"] == "function" else None,
        "content": "parts" if is_array(given) else None if "content" in item else "absent",
        "name": True if name else None,
        "extra": unknown(item, _RESULT_KEYS, {"role"} if given is None else {"role", "content"}),
    }
    metadata = kept(FORMAT, {"result": telling(notes)})
    part = ToolPart(call_id or "", name or "", state="result", result=given, metadata=metadata)
    message_id = maybe_text(item, "id", place) or ""
    return Message("tool", (part,), id=message_id, metadata=kept(FORMAT, {"id": message_id or None}))


def write_result(part: ToolPart) -> Json:
    """Return the tool message for a result."""
    found = notes_of(part, FORMAT).get("result")
    notes: Json = found if is_object(found) else {}
    body: Json = {"role": "function" if notes.get("role") == "function" else "tool"}
    if part.call_id:
        body["tool_call_id"] = part.call_id
    if notes.get("name") and part.name:
        body["name"] = part.name
    if notes.get("content") == "parts" and is_array(part.result):
        body["content"] = thaw(part.result)
    elif part.state == "error" or part.result is not None or not _is_open(notes):
        body["content"] = result_text(part)
    return restored(body, notes, _RESULT_KEYS)


def _is_open(notes: Json) -> bool:
    """Whether the message said null, or nothing, for its content."""
    extra = notes.get("extra")
    return notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
