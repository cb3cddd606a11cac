"""What UI and stored messages have in common: a body of parts, copies and metadata; and a head with id and time.

In a UI message the body's keys stand beside the head's, in a stored one they stand in ``content``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats.ai_sdk_notes import copied, rule_of
from penstock.engine.formats.ai_sdk_parts import read_invocation, read_part, same_call, write_invocation, write_part
from penstock.engine.formats.tool_parts import folded
from penstock.engine.formats.wire import (
    Json,
    Value,
    expect_array,
    expect_object,
    foreign,
    is_array,
    is_empty,
    is_object,
    kept,
    maybe_text,
    notes_of,
    read_time,
    restored,
    unknown,
    write_time,
)
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from penstock.engine.values.messages import Message, Part


TEXT_COPIES: dict[str, type[TextPart | ReasoningPart]] = {"content": TextPart, "reasoning": ReasoningPart}
CALLS = "toolInvocations"
FLAG = "copy_in"
"""The note of a part that stands only in the flattened copy; its value names the field."""


def read_copies(body: Json, parts: Sequence[Part], place: str, fmt: str) -> tuple[list[Part], Json]:
    """Return the parts with what only the copies say, and notes on the copies; empty ones are not looked at.

    Raises:
        MessageError: a copied tool call is malformed.
    """
    made, notes = list(parts), Json()
    for key, kind in TEXT_COPIES.items():
        copy = body.get(key)
        if isinstance(copy, str) and copy:
            rule = rule_of([part.text for part in parts if isinstance(part, kind)], copy)
            notes[key] = rule or "own"
            if rule is None:
                made.append(kind(copy, kept(fmt, {FLAG: key})))
    calls = body.get(CALLS)
    if is_array(calls) and calls:
        notes[CALLS] = []
        for index, call in enumerate(calls):
            where = f"{place}.{CALLS}[{index}]"
            read = read_invocation(expect_object(call, where), where, fmt)
            if any(isinstance(part, ToolPart) and same_call(part, read) for part in parts):
                notes[CALLS].append(read.call_id)
            else:
                made.append(
                    ToolPart(
                        read.call_id,
                        read.name,
                        read.arguments,
                        read.state,
                        read.result,
                        read.error,
                        kept(fmt, {**notes_of(read, fmt), FLAG: CALLS}),
                    )
                )
    return made, notes


def is_flagged(part: Part, fmt: str, key: str | None = None) -> bool:
    """Whether the part stands only in a copy (in that one)."""
    flag = notes_of(part, fmt).get(FLAG)
    if isinstance(part, ToolPart):
        return flag == CALLS and key in (None, CALLS)
    kind = TEXT_COPIES.get(flag) if isinstance(flag, str) else None
    return kind is not None and isinstance(part, kind) and key in (None, flag)


def write_copies(parts: Sequence[Part], notes: Value, fmt: str) -> Json:
    """Return the copies that there were, made from the parts as they are now."""
    noted: Json = notes if is_object(notes) else {}
    body: Json = {}
    for key, kind in TEXT_COPIES.items():
        own = [part.text for part in parts if isinstance(part, kind) and is_flagged(part, fmt, key)]
        if own:
            body[key] = "\n".join(own)
        elif key in noted:
            said = [part.text for part in parts if isinstance(part, kind) and not is_flagged(part, fmt)]
            body[key] = copied(said, noted[key])
    calls = [part for part in parts if isinstance(part, ToolPart)]
    ids = noted.get(CALLS)
    listed = [
        write_invocation(part, fmt)
        for part in calls
        if is_flagged(part, fmt) or (is_array(ids) and part.call_id in ids)
    ]
    if listed or CALLS in noted:
        body[CALLS] = listed
    return body


BODY_KEYS = frozenset({"parts", "metadata", CALLS, *TEXT_COPIES})
HEAD_KEYS = frozenset({"id", "role", "createdAt", "threadId", "resourceId"})


def read_body(body: Json, place: str, fmt: str, extra: str) -> tuple[list[Part], Json, Json]:
    """Return the parts, the notes (unknown keys under the name ``extra`` gives) and the metadata of a body.

    Raises:
        MessageError: a part or a copied call is malformed.
    """
    given = body.get("parts")
    items = () if given is None else expect_array(given, f"{place}.parts", "a list of parts")
    parts = [read_part(item, f"{place}.parts[{index}]", fmt) for index, item in enumerate(items)]
    whole, copies = read_copies(body, parts, place, fmt)
    metadata = body.get("metadata")
    is_own = is_object(metadata) and fmt not in metadata
    notes: Json = {
        "parts": None if "parts" in body else "absent",
        "copies": copies,
        "metadata": None if is_own or is_empty(metadata) else metadata,
        "odd": {key: value for key in (CALLS, *TEXT_COPIES) if _is_odd(key, value := body.get(key))},
        extra: unknown(body, BODY_KEYS, {"parts"} if is_array(given) else ()),
    }
    return whole, notes, metadata if is_object(metadata) and is_own else {}


def _is_odd(key: str, value: Value) -> bool:
    """Whether a copy is of a type that is no copy at all."""
    return not is_empty(value) and not (is_array(value) if key == CALLS else isinstance(value, str))


def write_body(message: Message, fmt: str, extra: str) -> Json:
    """Return the body of a message."""
    notes = notes_of(message, fmt)
    body: Json = {}
    if is_object(notes.get("odd")):
        body = {key: value for key, value in notes["odd"].items() if key in BODY_KEYS and _is_odd(key, value)}
    body.update(write_copies(message.parts, notes.get("copies"), fmt))
    parts = [write_part(part, fmt) for part in message.parts if not is_flagged(part, fmt)]
    unknown_keys = notes.get(extra)
    is_null = is_object(unknown_keys) and "parts" in unknown_keys
    if parts or not (is_null or notes.get("parts") == "absent"):
        body["parts"] = parts
    metadata = foreign(message, fmt) or notes.get("metadata")
    if metadata is not None:
        body["metadata"] = metadata
    return restored(body, notes, BODY_KEYS, extra)


def read_head(item: Json, place: str) -> tuple[str, datetime | None, Json]:
    """Return id, time, and notes: on a time that is none, and on keys of the head that are there but say nothing.

    Raises:
        MessageError: the id is no str.
    """
    given = item.get("createdAt")
    created_at = read_time(given)
    notes: Json = {
        "odd_time": given if created_at is None else None,
        "head": {key: value for key, value in item.items() if key in HEAD_KEYS and is_empty(value)},
    }
    return maybe_text(item, "id", place) or "", created_at, notes


def write_head(message: Message, fmt: str, *, timed: bool) -> Json:
    """Return id and, if the format has one or it came with one, time."""
    notes = notes_of(message, fmt)
    empty = notes.get("head")
    head: Json = {}
    if is_object(empty):
        head = {key: value for key, value in empty.items() if key in HEAD_KEYS and is_empty(value)}
    if message.id:
        head["id"] = message.id
    if "odd_time" in notes:
        head["createdAt"] = notes["odd_time"]
    elif message.created_at is not None and (timed or notes.get("time") == "given"):
        head["createdAt"] = write_time(message.created_at)
    return head


def together(messages: Iterable[Message], fmt: str) -> list[Message]:
    """Return the messages with calls and results together, save for tool messages that the format itself had."""
    return folded(messages, lambda message: notes_of(message, fmt).get("role") == "tool")
