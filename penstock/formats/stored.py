"""Read and write the stored messages of the reference system (``content.format`` 2).

Malformed rows that occur in practice are read too: ``content`` as a str, as a list of parts, or null. Penstock has no
role ``signal``: it is read as ``user`` (never as ``system``, since a signal may come from outside) and written back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.messages import Message, TextPart
from penstock.formats.ai_sdk_parts import (
    HEAD_KEYS,
    STORED as FORMAT,
    read_body,
    read_head,
    read_part,
    together,
    write_body,
    write_head,
    write_part,
)
from penstock.formats.blocks import with_unknown_keys
from penstock.formats.shape import notes_of
from penstock.formats.wire import (
    expect_object,
    expect_role,
    is_array,
    is_object,
    maybe_text,
    reader,
    type_error,
    unknown_keys,
    with_notes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

LEAVES_OUT: frozenset[str] = frozenset()

_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "signal": "user",
}
_KEYS = HEAD_KEYS | {"content"}
_VERSION = 2


def _read_message(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a stored message")
    role = expect_role(item, place, _ROLES)
    message_id, created_at, head = read_head(item, place)
    parts, notes, metadata = _read_content(item, f"{place}.content")
    notes["role"] = role if role in ("tool", "signal") else None
    notes["extra"] = unknown_keys(item, _KEYS, _KEYS)
    made = Message(
        _ROLES[role],
        tuple(parts),
        id=message_id,
        created_at=created_at,
        thread_id=maybe_text(item, "threadId", place) or None,
        resource_id=maybe_text(item, "resourceId", place) or None,
        metadata=with_notes(FORMAT, {**head, **notes}, metadata),
        name=maybe_text(item, "name", place) or None,
    )
    return [made]


read = reader(_read_message, names=False)


def _read_content(item: Json, place: str) -> tuple[list[Part], Json, Json]:
    content = item.get("content")
    if is_object(content):
        version = content.get("format")
        parts, notes, metadata = read_body(
            {key: value for key, value in content.items() if key != "format"}, place, FORMAT, "inner"
        )
        notes["format"] = ("absent" if "format" not in content else version) if version != _VERSION else None
        return parts, notes, metadata
    if isinstance(content, str):
        return ([TextPart(content)] if content else []), {"content": "str"}, {}
    if is_array(content):
        parts = [read_part(part, f"{place}[{index}]", FORMAT) for index, part in enumerate(content)]
        return parts, {"content": "list"}, {}
    if content is None:
        return [], {"content": "null" if "content" in item else "absent"}, {}
    raise type_error(content, place, "an object with parts, a str or a list of parts")


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as the reference stores them."""
    return [_write_message(message) for message in together(messages, FORMAT)]


def _write_message(message: Message) -> Json:
    notes = notes_of(message, FORMAT)
    is_signal = message.role == "user" and notes.get("role") == "signal"
    body = {
        **write_head(message, FORMAT, timed=True),
        **_write_content(message, notes),
        "role": "signal" if is_signal else message.role,
    }
    if message.thread_id is not None:
        body["threadId"] = message.thread_id
    if message.resource_id is not None:
        body["resourceId"] = message.resource_id
    return with_unknown_keys(body, notes, _KEYS)


def _write_content(message: Message, notes: WireShape) -> Json:
    """Return the content in the form in which it was read, as long as that still fits."""
    shape, parts = notes.get("content"), message.parts
    bare = message.metadata.keys() <= {FORMAT}
    if bare and not parts and shape in ("null", "absent"):
        return {"content": None} if shape == "null" else {}
    if bare and shape == "str" and all(isinstance(part, TextPart) and not part.metadata for part in parts):
        return {"content": message.text}
    if bare and shape == "list":
        return {"content": [write_part(part, FORMAT) for part in parts]}
    content = write_body(message, FORMAT, "inner")
    version = notes.get("format", _VERSION)
    return {"content": content if version == "absent" else {"format": version, **content}}
