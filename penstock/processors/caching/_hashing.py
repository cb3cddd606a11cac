"""Hashes of model calls: equal for calls that ask for the same, and of nothing else. It knows values, no cache.

Nobody learns from a key what was asked. What has no stable form has no hash: the model is asked then.
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

FRAMEWORKS = frozenset({"mastra", "penstock"})
"""Names under which frameworks note things for themselves among what goes to a provider; no model reads them."""

_LENGTH = 32
"""Hexadecimal digits of a key: 128 bits."""

_OPEN = frozenset({"timeout"})
"""Settings that decide how long one waits, not what is answered."""


class NoHashError(Exception):
    """Something in it has no stable form. The text names its type only."""


def digest(value: object, length: int = _LENGTH) -> str:
    """Return so many hexadecimal digits of a hash of the value.

    Raises:
        NoHashError: something in it has no stable form.
    """
    try:
        told = json.dumps(stable(value), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise NoHashError("a value that holds itself") from None
    return hashlib.sha256(told.encode()).hexdigest()[:length]


def told_model(model: object) -> tuple[str, object] | None:
    """Return the name of a model and what else tells it apart; None if it has no name."""
    if isinstance(model, str):
        return model, None
    name: object = getattr(model, "name", None)
    return (name, getattr(model, "identity", None)) if isinstance(name, str) else None


def told_request(request: ModelRequest) -> Value:
    """Return all of a request on which the answer depends, as a JSON value.

    Ids, times and owners of messages are left out, and calls are numbered: a provider gives them other ids each time.

    Raises:
        NoHashError: something in it has no stable form.
    """
    calls: dict[str, int] = {}
    return {
        "messages": [_message(message, calls) for message in request.messages],
        "tools": [stable(tool) for tool in request.tools],
        "tool_choice": stable(request.tool_choice),
        "settings": stable({name: value for name, value in request.settings.items() if name not in _OPEN}),
        "response_format": stable(request.response_format),
        "provider_options": _noted(request.provider_options),
    }


def _message(message: Message, calls: dict[str, int]) -> Value:
    parts = [_part(part, calls) for part in message.parts]
    return {"role": message.role, "parts": parts, "metadata": _noted(message.metadata)}


def _part(part: Part, calls: dict[str, int]) -> Value:
    noted = _noted(part.metadata)
    if type(part) is TextPart and not noted:  # most are
        return part.text
    own = {name: stable(getattr(part, name)) for name in _names(part) if name not in ("call_id", "metadata")}
    if isinstance(part, ToolPart):
        own["call"] = calls.setdefault(part.call_id, len(calls))
    return {**own, "metadata": noted}


def _noted(value: object) -> Value:
    """Return what goes to a provider besides, without what frameworks note there; what then is empty goes, too."""
    if value is EMPTY:
        return {}
    if not isinstance(value, Mapping):
        return stable(value)
    kept: dict[str, Value] = {}
    for key, item in cast("Mapping[object, object]", value).items():
        told = _noted(item)
        if key not in FRAMEWORKS and not (told == {} and item):
            kept[_key(key)] = told
    return kept


def stable(value: object) -> Value:
    """Return a JSON value that equal values share, whatever the process.

    Raises:
        NoHashError: there is none.
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
    """Return the names of a dataclass's fields."""
    kind = cast("type[object]", type(value))
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(value))
    return names


_NAMES: dict[type[object], tuple[str, ...]] = {}
