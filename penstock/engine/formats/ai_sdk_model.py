"""AI-SDK model messages (what goes to a provider), both ways; it knows no other format.

Those of today and the older ones before version 5. Each message becomes one; nothing is merged. In writing, an
assistant's steps become messages of their own, each followed by one tool message with the results of its calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._model_parts import READERS, write_content
from penstock.engine.formats._model_tools import CALL, RESULTS, read_call, read_result, write_call, write_result
from penstock.engine.formats._notes import kept, notes_of, restored, unknown
from penstock.engine.formats.ai_sdk_notes import MODEL as FORMAT
from penstock.engine.formats.tool_parts import is_finished, steps
from penstock.engine.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_array,
    expect_object,
    expect_role,
    expect_text,
    is_object,
    maybe_text,
    named,
)
from penstock.engine.values.messages import (
    ROLES,
    DataPart,
    Message,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.messages import Part

__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_LEFT_OUT = (SourcePart, DataPart, StepStartPart)
_KEYS = frozenset({"role", "id", "content"})


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a prompt.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(_read_message(item, f"{place}[{index}]") for index, item in enumerate(items, start))


def _read_message(value: Value, place: str) -> Message:
    item = expect_object(value, place, "a model message")
    role = expect_role(item, place, ROLES)
    given = item.get("content")
    message_id = maybe_text(item, "id", place) or ""
    notes: Json = {
        "id": message_id or None,
        "content": _shape_of(item),
        "extra": unknown(item, _KEYS, {"role", *(() if given is None else ("content",))}),
    }
    parts = _read_content(given, role, f"{place}.content")
    return Message(role, parts, id=message_id, metadata=kept(FORMAT, notes))  # type: ignore[arg-type]


def _shape_of(item: Json) -> str:
    if "content" not in item:
        return "absent"
    return "str" if isinstance(item["content"], str) else "parts"


def _read_content(value: Value, role: str, place: str) -> tuple[Part, ...]:
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (TextPart(value),)
    items = expect_array(value, place, "a str or a list of content parts")
    return tuple(_read_part(item, role, f"{place}[{index}]") for index, item in enumerate(items))


def _read_part(value: Value, role: str, place: str) -> Part:
    item = expect_object(value, place, "an object with a type")
    kind = expect_text(item, "type", place)
    if kind == CALL:
        return read_call(item, place)
    if kind in RESULTS:
        return read_result(item, place, alone=role != "tool")
    reader = READERS.get(kind)
    return UnknownPart(item) if reader is None else reader(item, place)


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a prompt has them.

    Raises:
        MessageError: a tool's arguments or result are no JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


def _write_message(message: Message) -> list[Json]:
    notes = notes_of(message, FORMAT)
    made: list[Json] = []
    cut = steps(message.parts, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)), _is_answered)
    if message.role != "assistant":
        cut = [list(message.parts)]
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            made.append(_write_step(message.role, parts, notes))
            made += _write_answers(message.role, parts)
            notes = {}
    return made


def _is_alone(part: Part) -> bool:
    """Whether it is a result that stands by itself among an assistant's content, as a provider's own tools have it."""
    return isinstance(part, ToolPart) and bool(notes_of(part, FORMAT).get("alone"))


def _is_answered(part: Part) -> bool:
    """Whether it is a call whose result is written after it."""
    return is_finished(part) and not _is_alone(part)


def _write_answers(role: str, parts: Sequence[Part]) -> list[Json]:
    if role == "tool":
        return []
    results = [write_result(part) for part in parts if isinstance(part, ToolPart) and _is_answered(part)]
    return [{"role": "tool", "content": results}] if results else []


def _write_step(role: str, parts: Sequence[Part], notes: Json) -> Json:
    body: Json = {"role": role}
    if isinstance(notes.get("id"), str):
        body["id"] = notes["id"]
    body.update(_write_content(role, parts, notes))
    return restored(body, notes, _KEYS)


def _write_content(role: str, parts: Sequence[Part], notes: Json) -> Json:
    """Return the content: a str for a system message and for what came as one, else a list."""
    extra, shape = notes.get("extra"), notes.get("content", "str" if role == "system" else "parts")
    if not parts and (shape == "absent" or (is_object(extra) and "content" in extra)):
        return {}
    own = role == "system" and "content" not in notes
    texts = [part for part in parts if isinstance(part, TextPart) and (own or not part.metadata)]
    if shape == "str" and len(texts) == len(parts):
        return {"content": "\n".join(part.text for part in texts)}
    return {"content": [_write_part(part, role) for part in parts]}


def _write_part(part: Part, role: str) -> Json:
    if not isinstance(part, ToolPart):
        return write_content(part)
    is_result = is_finished(part) and (role == "tool" or _is_alone(part))
    return write_result(part) if is_result else write_call(part)
