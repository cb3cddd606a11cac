"""JSON values as providers send them: telling them apart, and putting streamed pieces together; it knows no field."""

from __future__ import annotations

import json
from binascii import crc_hqx
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.frozen import Value

    Json: TypeAlias = dict[str, Value]

FORMAT = "openai-chat"
"""The name under which parts keep what only this protocol says; `penstock.engine.formats.openai_chat` reads it."""


def parsed(text: str | bytes) -> Value:
    """Return a JSON value; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def object_of(value: Value) -> Json:
    """Return an object; an empty one for anything else."""
    return value if is_mapping(value) else {}


def objects_of(value: Value) -> list[Json]:
    """Return the objects in an array; none for anything else."""
    return [item for item in value if is_mapping(item)] if is_items(value) else []


def text_of(value: Value) -> str:
    """Return a text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def says(value: Value) -> bool:
    """Whether a value says something: an object does if one of its values does."""
    if is_mapping(value):
        return any(says(item) for item in value.values())
    return value is not None and value not in ("", [])


def checksum(text: str) -> str:
    """Return enough to see that a text was edited, and too little (its length and 16 bits) to guess it from."""
    return f"{len(text)}:{crc_hqx(text.encode('utf-8', 'surrogatepass'), 0):04x}"


def gather(kept: Json, item: Json, besides: Iterable[str]) -> None:
    """Lay what an item says under further keys over what was said before: arrays grow, objects are merged."""
    for key in item.keys() - besides:
        value = item[key]
        if not says(value):
            continue
        before = kept.get(key)
        if is_items(before) and is_items(value):
            kept[key] = [*before, *value]
        elif is_mapping(before) and is_mapping(value):
            merged = dict(before)
            gather(merged, value, ())
            kept[key] = merged
        else:
            kept[key] = value
