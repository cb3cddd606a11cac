"""Messages and mappings as JSON text, times as ISO text, vectors as bytes: the forms in which stores keep them.

Messages have Penstock's own format (`penstock.formats.native`). A stored message is built without pydantic's
validation, in a fifth of the time; if it does not fit, the format's reader names the fault.
"""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError, StorageError
from penstock.engine.values.frozen import Value, Values, freeze, is_mapping, thaw
from penstock.engine.values.messages import Message
from penstock.formats import native

if TYPE_CHECKING:
    from collections.abc import Sequence


def write_message(message: Message, place: str = "message") -> str:
    """Return a message as JSON text.

    Args:
        message: the message.
        place: names the message in errors.

    Raises:
        MessageError: the message holds a value that is not a JSON value.
    """
    return _written(native.write([message])[0], place)


def write_values(values: Values, place: str) -> str:
    """Return a mapping as JSON text.

    Args:
        values: the mapping.
        place: names it in errors.

    Raises:
        MessageError: it holds a value that is not a JSON value, or is nested too deeply to be read again.
    """
    try:
        frozen: Values = freeze(values)
    except MessageError as error:
        raise MessageError(place, error.problem) from None
    return _written(thaw(dict(frozen)), place)


def _written(item: Value, place: str) -> str:
    """Return the JSON text; non-ASCII characters are escaped only if halves of surrogate pairs are among them."""
    try:
        text = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise MessageError(place, "it holds a value that cannot be written as JSON; convert it first") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(item, separators=(",", ":"))
    return text


LONGEST_HELD = 2_000
"""The longest stored message, in characters of its JSON text, that is cached after reading: a conversation is read
again at each of its turns, and messages are immutable. With `MOST_HELD`, this takes some megabytes at most."""

MOST_HELD = 2_048
"""How many messages are cached; the least recently read are dropped."""


def read_message(text: str) -> Message:
    """Return the message that `write_message` wrote.

    Raises:
        MessageError: the text is not a message, or holds something that this version does not know.
    """
    return held(text) if len(text) <= LONGEST_HELD else _read(text)


def _read(text: str) -> Message:
    try:
        return _built(json.loads(text))
    except _DOES_NOT_FIT:
        pass
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError("message", "it is not JSON, or nested too deeply") from None
    return native.read([item])[0]  # names the fault


held = lru_cache(MOST_HELD)(_read)
"""Reads a message, or returns it from the cache."""

_DOES_NOT_FIT = (TypeError, ValueError, KeyError, AttributeError, RecursionError, MessageError)


def _built(item: dict[str, Value]) -> Message:
    item["parts"] = tuple([native.PART_CLASSES[part.pop("type")](**part) for part in item["parts"]])
    if "created_at" in item:
        item["created_at"] = datetime.fromisoformat(item["created_at"])
    return Message(**item)


def read_values(text: str) -> Values:
    """Return the mapping that `write_values` wrote.

    Raises:
        MessageError: it is none: somebody else has written it.
    """
    try:
        found: Values = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError("metadata", "it is not JSON, or nested too deeply") from None
    return found


def read_run_body(text: str, store: str) -> Values:
    """Return the body of a run that `write_values` wrote.

    Raises:
        StorageError: it is none: somebody else has written it. The error does not quote it.
    """
    try:
        found = read_values(text)
    except MessageError:
        found = None
    if not is_mapping(found):
        raise StorageError(store, "the body of a run in it cannot be read: it is not a JSON object")
    return found


def write_time(time: datetime) -> str:
    """Return a time as ISO text in UTC, with microseconds and of a fixed length: texts sort as times do."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def read_time(text: str) -> datetime:
    """Return the time that `write_time` wrote."""
    return datetime.fromisoformat(text)


def blob(vector: Sequence[float], store: str, length: int | None = None) -> bytes:
    """Return a vector as little-endian 32-bit floats, four bytes a number.

    Args:
        vector: the numbers.
        store: names the store in errors.
        length: how many numbers it must have; None: any number above 0.

    Raises:
        StorageError: it is empty, of another length, or holds a value that is not a finite 32-bit number.
    """
    if not len(vector):
        raise StorageError(store, "a vector is empty; check the embedder")
    if length is not None and len(vector) != length:
        problem = f"a vector has {len(vector)} numbers, but those of its index have {length}"
        raise StorageError(store, f"{problem}: use one index for each embedder")
    try:
        written = struct.pack(f"<{len(vector)}f", *vector)
        finite = all(map(isfinite, vector))
    except (struct.error, OverflowError, TypeError):
        finite, written = False, b""
    if not finite:
        raise StorageError(store, "a vector holds a value that is not a finite 32-bit number")
    return written
