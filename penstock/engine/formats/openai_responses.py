"""OpenAI responses items, both ways; it knows no other format.

Each item becomes one message; nothing is merged. Items of types that are not known pass through as `UnknownPart`s. In
writing, an assistant's message becomes as many items as it takes, each step's outputs after its calls.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from penstock.engine.formats import _responses_calls as calls
from penstock.engine.formats._notes import kept, notes_of, restored, unknown
from penstock.engine.formats._responses_parts import FORMAT, read_content, write_part
from penstock.engine.formats.tool_parts import is_finished, steps
from penstock.engine.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_object,
    expect_role,
    expect_text,
    is_array,
    is_object,
    maybe_text,
    named,
)
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import DataPart, Message, SourcePart, StepStartPart, ToolPart, UnknownPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.values.messages import Part, Role

__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_LEFT_OUT = (SourcePart, DataPart, StepStartPart)
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_KEYS = frozenset({"type", "role", "id", "content"})

_READERS: dict[str, Callable[[Json, str], Message]] = {
    "function_call": calls.read_call,
    "custom_tool_call": calls.read_call,
    "function_call_output": calls.read_output,
    "custom_tool_call_output": calls.read_output,
    "reasoning": calls.read_reasoning,
}


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a responses request's input, or of an answer's output.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(_read_item(item, f"{place}[{index}]") for index, item in enumerate(items, start))


def _read_item(value: Value, place: str) -> Message:
    item = expect_object(value, place, "a responses item")
    if item.get("type", "message") == "message":
        if "role" not in item and "type" not in item:
            raise MessageError(place, "expected a type or a role; neither is there")
        return _read_message(item, place)
    kind = expect_text(item, "type", place)
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(item, place)
    role: Role = "tool" if kind.endswith(("_output", "_response")) else "assistant"
    given = item.get("id")
    part = UnknownPart(item, kept(FORMAT, {"item": True}))
    return Message(role, (part,), id=given if isinstance(given, str) else "")


def _read_message(item: Json, place: str) -> Message:
    role = _ROLES[expect_role(item, place, _ROLES)]
    given = item.get("content")
    content = read_content(given, role, f"{place}.content")
    notes: Json = {
        "type": None if "type" in item else "absent",
        "role": "developer" if item["role"] == "developer" else None,
        "id": item.get("id") or None,
        "content": "absent" if "content" not in item else "parts" if content and is_array(given) else None,
        "extra": unknown(item, _KEYS, {"role", "type"}),
    }
    return Message(role, tuple(content), id=maybe_text(item, "id", place) or "", metadata=kept(FORMAT, notes))


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a responses request's input.

    Raises:
        MessageError: a tool's arguments or result are no JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


def _write_message(message: Message) -> list[Json]:
    notes = notes_of(message, FORMAT)
    if not any(not isinstance(part, _LEFT_OUT) for part in message.parts):
        if notes.get("item") == "reasoning":
            return [calls.write_reasoning((), notes)]
        return [] if message.parts and not notes else [_write_content(message.role, (), notes)]
    made: list[Json] = []
    for step in steps(message.parts, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart))):
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        for kind, group in groupby(parts, _kind):
            # The notes are about one item of the message: the first of its kind.
            is_noted = kind == ("reasoning" if notes.get("item") == "reasoning" else "message")
            made += _write_group(message.role, kind, list(group), notes if is_noted else {})
            notes = {} if is_noted else notes
        made += [calls.write_output(part) for part in parts if isinstance(part, ToolPart) and is_finished(part)]
    return made


def _kind(part: Part) -> str:
    """Return the kind of item in which a part stands."""
    if isinstance(part, ToolPart):
        return "call"
    if calls.thought_field(part):
        return "reasoning"
    return "item" if isinstance(part, UnknownPart) and notes_of(part, FORMAT).get("item") else "message"


def _write_group(role: str, kind: str, parts: Sequence[Part], notes: Json) -> list[Json]:
    if kind == "call":
        return [calls.write_call(part) for part in parts if isinstance(part, ToolPart) and role != "tool"]
    if kind == "reasoning":
        return [calls.write_reasoning(parts, notes)]
    if kind == "item":
        return [thaw(part.raw) for part in parts if isinstance(part, UnknownPart)]
    return [_write_content("assistant" if role == "tool" else role, parts, notes)]


def _write_content(role: str, parts: Sequence[Part], notes: Json) -> Json:
    body: Json = {"role": "developer" if role == "system" and notes.get("role") == "developer" else role}
    if notes.get("type") != "absent":
        body["type"] = "message"
    body.update(calls.item_id(notes))
    items = [write_part(part, role) for part in parts]
    extra = notes.get("extra")
    said = notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
    plain = len(items) == 1 and items[0].keys() == {"type", "text"} and notes.get("content") != "parts"
    if items or not said:
        body["content"] = "" if not items else items[0]["text"] if plain else items
    return restored(body, notes, _KEYS)
