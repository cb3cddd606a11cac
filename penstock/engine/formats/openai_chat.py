"""OpenAI chat messages, both ways; it knows no other format.

A tool message becomes a ``tool`` message with one `ToolPart`, named after the earlier call; nothing is merged. In
writing, an assistant's steps become messages of their own, each followed by the results of its calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._chat_calls import (
    is_function_call,
    read_calls,
    read_result,
    write_call,
    write_function,
    write_result as _write_result,
)
from penstock.engine.formats._chat_fields import (
    REASONING,
    field_of,
    read_reasoning,
    read_spoken,
    write_reasoning,
    write_spoken,
)
from penstock.engine.formats._chat_parts import FORMAT, read_content, write_part
from penstock.engine.formats._notes import kept, notes_of, restored, unknown
from penstock.engine.formats.tool_parts import is_finished, steps
from penstock.engine.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_object,
    expect_role,
    is_array,
    is_object,
    maybe_text,
    named,
)
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import DataPart, Message, SourcePart, StepStartPart, ToolPart, UnknownPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.messages import Part, Role

__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_LEFT_OUT = (SourcePart, DataPart, StepStartPart)
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_KEYS = frozenset(
    {"role", "id", "content", "refusal", "audio", "tool_calls", "function_call", "reasoning_details", *REASONING}
)


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a chat request or answer.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(_read_message(item, f"{place}[{index}]") for index, item in enumerate(items, start))


def _read_message(value: Value, place: str) -> Message:
    item = expect_object(value, place, "a chat message")
    role = _ROLES[expect_role(item, place, _ROLES)]
    if role == "tool":
        return read_result(item, place)
    reasoning, notes = read_reasoning(item, place)
    content = read_content(item.get("content"), f"{place}.content")
    parts = (*reasoning, *content, *read_spoken(item, place), *read_calls(item, place))
    message_id = maybe_text(item, "id", place) or ""
    notes["id"] = message_id or None
    notes["role"] = "developer" if item["role"] == "developer" else None
    notes["content"] = "absent" if "content" not in item else "parts" if content and is_array(item["content"]) else None
    notes["extra"] = unknown(item, _KEYS, {"role"})
    return Message(role, parts, id=message_id, metadata=kept(FORMAT, notes))


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a chat request has them.

    Raises:
        MessageError: a tool's arguments or result are no JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


def _write_message(message: Message) -> list[Json]:
    if message.role == "tool":
        return _write_tool_message(message)
    notes = notes_of(message, FORMAT)
    made: list[Json] = []
    cut = steps(message.parts, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)))
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            made.append(_write_step(message.role, parts, notes))
            made += [_write_result(part) for part in parts if isinstance(part, ToolPart) and is_finished(part)]
            notes = {}
    return made


def _write_tool_message(message: Message) -> list[Json]:
    made: list[Json] = []
    said = [part for part in message.parts if not isinstance(part, (ToolPart, *_LEFT_OUT))]
    if said:
        made.append({"role": "tool", **_write_content(said, {}, "")})
    made += [_write_result(part) for part in message.parts if isinstance(part, ToolPart)]
    return [_with_id(item, notes_of(message, FORMAT)) for item in made]


def _with_id(item: Json, notes: Json) -> Json:
    """Return the item with the id that the message came with, if it came in this format."""
    return {**item, "id": notes["id"]} if isinstance(notes.get("id"), str) else item


def _write_step(role: str, parts: Sequence[Part], notes: Json) -> Json:
    calls: Json = {}
    tools = [part for part in parts if isinstance(part, ToolPart)]
    listed = [write_call(part) for part in tools if not is_function_call(part)]
    listed += [thaw(part.raw) for part in parts if isinstance(part, UnknownPart) and field_of(part) == "tool_calls"]
    if listed:
        calls["tool_calls"] = listed
    for part in tools:
        if is_function_call(part):
            calls["function_call"] = write_function(part)
    spoken = {**write_spoken(parts), **calls}
    body = {**write_reasoning(parts, notes), **spoken}
    content = [part for part in parts if not isinstance(part, ToolPart) and field_of(part) == "content"]
    body.update(_write_content(content, notes, None if spoken else ""))
    body["role"] = "developer" if role == "system" and notes.get("role") == "developer" else role
    return _with_id(restored(body, notes, _KEYS), notes)


def _write_content(parts: Sequence[Part], notes: Json, nothing: str | None) -> Json:
    """Return the content: a str if that is enough, else a list; what stands for nothing, if nothing is said."""
    items = [write_part(part) for part in parts]
    if not items:
        extra = notes.get("extra")
        said = notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
        return {} if said else {"content": nothing}
    plain = len(items) == 1 and items[0].keys() == {"type", "text"} and items[0]["type"] == "text"
    return {"content": items[0]["text"] if plain and notes.get("content") != "parts" else items}
