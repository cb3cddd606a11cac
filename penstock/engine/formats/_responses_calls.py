"""Calls, their outputs and reasoning among OpenAI responses items; it knows no messages with content.

Each such item becomes a message of its own: a call or reasoning the assistant's, an output the tool's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._notes import kept, notes_of, restored, telling, unknown
from penstock.engine.formats._responses_parts import FORMAT
from penstock.engine.formats.tool_parts import read_arguments, result_text, write_arguments
from penstock.engine.formats.wire import (
    Json,
    Value,
    expect_array,
    expect_object,
    expect_text,
    is_array,
    is_object,
    maybe_text,
    wrong,
)
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import Message, ReasoningPart, ToolPart, UnknownPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Part

_CALL_KEYS = frozenset({"type", "call_id", "name", "arguments", "id"})
_CUSTOM_KEYS = frozenset({"type", "call_id", "name", "input", "id"})
_OUTPUT_KEYS = frozenset({"type", "call_id", "output", "id"})
_REASONING_KEYS = frozenset({"type", "summary", "content", "id"})
_REASONING_FIELDS = {"summary": "summary_text", "content": "reasoning_text"}


def read_call(item: Json, place: str) -> Message:
    """Return the assistant's message for a ``function_call`` or ``custom_tool_call``.

    Raises:
        MessageError: it is malformed.
    """
    custom = item["type"] == "custom_tool_call"
    call_id, name = expect_text(item, "call_id", place), expect_text(item, "name", place)
    notes: Json = {"id": item.get("id") or None}
    if custom:
        arguments: Value = expect_text(item, "input", place)
        notes["extra"] = unknown(item, _CUSTOM_KEYS, _CUSTOM_KEYS - {"id"})
        notes["custom"] = True
    else:
        arguments, style = read_arguments(item.get("arguments", ""))
        notes["arguments"] = style if "arguments" in item else "absent"
        notes["extra"] = unknown(item, _CALL_KEYS, _CALL_KEYS - {"id"})
    part = ToolPart(call_id, name, arguments, metadata=kept(FORMAT, notes))
    return Message("assistant", (part,), id=maybe_text(item, "id", place) or "")


def write_call(part: ToolPart) -> Json:
    """Return the item of a call."""
    notes = notes_of(part, FORMAT)
    body: Json = {"call_id": part.call_id, "name": part.name, **item_id(notes)}
    if notes.get("custom") and isinstance(part.arguments, str):
        return restored({**body, "type": "custom_tool_call", "input": part.arguments}, notes, _CUSTOM_KEYS)
    style = notes.get("arguments")
    if style != "absent" or part.arguments != {}:
        body["arguments"] = write_arguments(part.arguments, style)
    return restored({**body, "type": "function_call"}, notes, _CALL_KEYS)


def item_id(notes: Json) -> Json:
    """Return the id that an item came with; ids of other origin mean nothing to the provider, who would refuse them."""
    return {"id": notes["id"]} if isinstance(notes.get("id"), str) else {}


def read_output(item: Json, place: str) -> Message:
    """Return the tool's message for a ``function_call_output`` or ``custom_tool_call_output``.

    Raises:
        MessageError: it is malformed.
    """
    output = item.get("output")
    if output is not None and not isinstance(output, str) and not is_array(output):
        raise wrong(output, f"{place}.output", "a str or a list of content parts")
    notes: Json = {
        "custom": True if item["type"] == "custom_tool_call_output" else None,
        "id": item.get("id") or None,
        "output": "parts" if is_array(output) else None if "output" in item else "absent",
        "extra": unknown(item, _OUTPUT_KEYS, {"type", "call_id"} if output is None else _OUTPUT_KEYS - {"id"}),
    }
    metadata = kept(FORMAT, {"result": telling(notes)})
    part = ToolPart(expect_text(item, "call_id", place), "", state="result", result=output, metadata=metadata)
    return Message("tool", (part,), id=maybe_text(item, "id", place) or "")


def write_output(part: ToolPart) -> Json:
    """Return the item of a call's output."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    custom = notes.get("custom") or own.get("custom")
    kind = "custom_tool_call_output" if custom else "function_call_output"
    body: Json = {"type": kind, "call_id": part.call_id, **item_id(notes)}
    if notes.get("output") == "parts" and is_array(part.result):
        body["output"] = thaw(part.result)
    elif part.state == "error" or part.result is not None or not _is_open(notes):
        body["output"] = result_text(part)
    return restored(body, notes, _OUTPUT_KEYS)


def _is_open(notes: Json) -> bool:
    """Whether the item said null, or nothing, for its output."""
    extra = notes.get("extra")
    return notes.get("output") == "absent" or (is_object(extra) and "output" in extra)


def read_reasoning(item: Json, place: str) -> Message:
    """Return the assistant's message for a ``reasoning`` item; what is encrypted stays in its metadata.

    Raises:
        MessageError: it is malformed.
    """
    parts: list[Part] = []
    for field, kind in _REASONING_FIELDS.items():
        for index, entry in enumerate(expect_array(item.get(field) or [], f"{place}.{field}")):
            parts.append(_read_thought(entry, field, kind, f"{place}.{field}[{index}]"))
    notes: Json = {
        "item": "reasoning",
        "id": item.get("id") or None,
        "summary": None if "summary" in item else "absent",
        "extra": unknown(item, _REASONING_KEYS, {"type"}),
    }
    return Message("assistant", tuple(parts), id=maybe_text(item, "id", place) or "", metadata=kept(FORMAT, notes))


def _read_thought(value: Value, field: str, kind: str, place: str) -> Part:
    entry = expect_object(value, place)
    notes: Json = {"reasoning": field}
    if entry.get("type") != kind:
        return UnknownPart(entry, kept(FORMAT, notes))
    notes["extra"] = unknown(entry, {"type", "text"}, {"type", "text"})
    return ReasoningPart(expect_text(entry, "text", place), kept(FORMAT, notes))


def write_reasoning(parts: Sequence[Part], notes: Json) -> Json:
    """Return the ``reasoning`` item for those thoughts."""
    body: Json = {"type": "reasoning", **item_id(notes)}
    for field, kind in _REASONING_FIELDS.items():
        entries = [_write_thought(part, kind) for part in parts if thought_field(part) == field]
        if entries:
            body[field] = entries
    extra = notes.get("extra")
    said = notes.get("summary") == "absent" or (is_object(extra) and "summary" in extra)
    if "summary" not in body and not said:
        body["summary"] = []
    return restored(body, notes, _REASONING_KEYS)


def _write_thought(part: Part, kind: str) -> Json:
    if isinstance(part, ReasoningPart):
        return restored({"type": kind, "text": part.text}, notes_of(part, FORMAT), {"type", "text"})
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def thought_field(part: Part) -> str:
    """Return the field of a ``reasoning`` item in which a part stands; empty if it stands in none."""
    field = notes_of(part, FORMAT).get("reasoning")
    if field in _REASONING_FIELDS and isinstance(part, (ReasoningPart, UnknownPart)):
        return str(field)
    return "summary" if isinstance(part, ReasoningPart) else ""
