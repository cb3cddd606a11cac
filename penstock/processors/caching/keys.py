"""Cache keys of model calls: hashes that are equal for calls that ask for the same.

A key does not reveal what was asked. A call that holds a value without a stable form has no key: it is not cached.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, cast

from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.model import ModelRequest


_FRAMEWORKS = frozenset({"mastra", "penstock"})
"""Keys under which frameworks store notes of their own in metadata and provider options; no model reads them."""

_LENGTH = 32
"""Hexadecimal digits of a key: 128 bits."""

_WAITING = frozenset({"timeout"})
"""Settings that decide how long the caller waits, not what the model answers."""


class NoHashError(Exception):
    """A call holds a value without a stable form. The text names its type only."""


def digest(value: object, length: int = _LENGTH) -> str:
    """Return a hash of a value as hexadecimal digits.

    Args:
        value: anything that has a stable form; equal values have the same hash in every process.
        length: the number of digits, up to 64.

    Raises:
        NoHashError: the value holds something without a stable form.
    """
    try:
        text = json.dumps(stable(value), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise NoHashError("value that contains itself") from None
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def model_identity(model: object) -> tuple[str, object] | None:
    """Return the name and the ``identity`` of a model; None if it has no name."""
    if isinstance(model, str):
        return model, None
    name: object = getattr(model, "name", None)
    return (name, getattr(model, "identity", None)) if isinstance(name, str) else None


def request_content(request: ModelRequest) -> Value:
    """Return the parts of a request on which the answer depends, as a JSON value.

    Ids, times and owners of messages are left out. Tool calls are numbered: providers give them new ids each time.

    Raises:
        NoHashError: the request holds something without a stable form.
    """
    calls: dict[str, int] = {}
    return {
        "messages": [_message(message, calls) for message in request.messages],
        "tools": [stable(tool) for tool in request.tools],
        "tool_choice": stable(request.tool_choice),
        "settings": stable({name: value for name, value in request.settings.items() if name not in _WAITING}),
        "response_format": stable(request.response_format),
        "provider_options": _without_notes(request.provider_options),
    }


def _message(message: Message, calls: dict[str, int]) -> Value:
    parts = [_part(part, calls) for part in message.parts]
    return {"role": message.role, "parts": parts, "metadata": _without_notes(message.metadata)}


def _part(part: Part, calls: dict[str, int]) -> Value:
    metadata = _without_notes(part.metadata)
    if type(part) is TextPart and not metadata:  # most are
        return part.text
    own = {name: stable(getattr(part, name)) for name in _names(part) if name not in ("call_id", "metadata")}
    if isinstance(part, ToolPart):
        own["call"] = calls.setdefault(part.call_id, len(calls))
    return {**own, "metadata": metadata}


def _without_notes(value: object) -> Value:
    """Return metadata or provider options without the notes of frameworks; mappings that this empties are left out."""
    if value is EMPTY:
        return {}
    if not isinstance(value, Mapping):
        return stable(value)
    kept: dict[str, Value] = {}
    for key, item in cast("Mapping[object, object]", value).items():
        cleaned = _without_notes(item)
        if key not in _FRAMEWORKS and not (cleaned == {} and item):
            kept[_key(key)] = cleaned
    return kept


def stable(value: object) -> Value:
    """Return a JSON value that is the same for equal values in every process.

    Raises:
        NoHashError: the value has no such form.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {_key(key): stable(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [stable(item) for item in cast("Iterable[object]", value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"~bytes": hashlib.sha256(bytes(cast("bytes", value))).hexdigest()}
    if isinstance(value, (set, frozenset)):
        return {"~set": sorted((stable(item) for item in cast("Iterable[object]", value)), key=json.dumps)}
    return {f"~{type(value).__qualname__}": _object(value)}


def _key(key: object) -> str:
    return key if isinstance(key, str) else f"~{type(key).__qualname__}:{key!r}"


def _object(value: object) -> Value:
    if is_dataclass(value) and not isinstance(value, type):
        return {name: stable(getattr(value, name)) for name in _names(value)}
    dump = getattr(value, "model_dump", None)  # a pydantic model, whose sets are sorted here, not there
    if callable(dump) and not isinstance(value, type):
        return stable(dump())
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # dates, URLs, decimals, UUIDs, paths …

    try:
        return stable(to_jsonable_python(value))
    except PydanticSerializationError:
        raise NoHashError(type(value).__qualname__) from None


def _names(value: Value) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    kind = cast("type[object]", type(value))
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(value))
    return names


_NAMES: dict[type[object], tuple[str, ...]] = {}
