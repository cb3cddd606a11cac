"""Messages and mappings as the JSON text that a store keeps, and times as ISO text; it knows no store.

Messages have Penstock's own form (`penstock.engine.formats.native`). What a store wrote itself is built without asking
pydantic, which takes a fifth of the time; whatever does not fit is left to the format, which says what is wrong.
"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.engine.formats import native
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import Value, Values, thaw
from penstock.engine.values.messages import PART_TYPES, Message

if TYPE_CHECKING:
    from penstock.engine.values.messages import Part

_KINDS: dict[str, type[Part]] = {
    str(next(field.default for field in fields(kind) if field.name == "type")): kind for kind in PART_TYPES
}


def write_message(message: Message, place: str = "message") -> str:
    """Return a message as JSON text.

    Raises:
        MessageError: it holds what is no JSON value; ``place`` says where the message stands.
    """
    return _written(native.write([message])[0], place)


def write_values(values: Values, place: str) -> str:
    """Return a mapping as JSON text.

    Raises:
        MessageError: it holds what is no JSON value.
    """
    return _written(thaw(dict(values)), place)


def _written(item: Value, place: str) -> str:
    """Return the JSON text; characters are themselves, unless halves of surrogates are among them."""
    try:
        text = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise MessageError(place, "it holds a value that JSON has no form for; convert it first") from error
    if text.isascii() or _encodes(text):
        return text
    return json.dumps(item, separators=(",", ":"))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


LONGEST_HELD = 2_000
"""Of how many characters a text may be whose message is held, in case it is read again: a conversation is read again at
each of its turns, and messages are values. With `MOST_HELD`, some megabytes at most."""

MOST_HELD = 2_048
"""How many messages are held; those that were not read for longest have to go."""


def read_message(text: str) -> Message:
    """Return the message that `write_message` wrote.

    Raises:
        MessageError: it is none, or has what this version does not know.
    """
    return held(text) if len(text) <= LONGEST_HELD else _read(text)


def _read(text: str) -> Message:
    try:
        return _built(json.loads(text))
    except _DOES_NOT_FIT:
        return _explained(text)


held = lru_cache(MOST_HELD)(_read)
"""Reads a message, or gives it again."""

_DOES_NOT_FIT = (TypeError, ValueError, KeyError, AttributeError, MessageError)


def _built(item: dict[str, Value]) -> Message:
    item["parts"] = tuple([_part(part) for part in item["parts"]])
    if "created_at" in item:
        item["created_at"] = datetime.fromisoformat(item["created_at"])
    return Message(**item)


def _part(item: dict[str, Value]) -> Part:
    return _KINDS[item.pop("type")](**item)


def _explained(text: str) -> Message:
    try:
        item = json.loads(text)
    except ValueError:
        raise MessageError("message", "it is no JSON") from None
    return native.read([item])[0]


def read_values(text: str) -> Values:
    """Return the mapping that `write_values` wrote."""
    found: Values = json.loads(text)
    return found


def write_time(time: datetime) -> str:
    """Return a time as ISO text in UTC, to the microsecond and of one length, so that texts sort as times do."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def read_time(text: str) -> datetime:
    """Return the time that `write_time` wrote."""
    return datetime.fromisoformat(text)
