"""Checks a person's answer against a schema: a small part of JSON Schema, without a library.

The words are ``type`` (one or several), ``enum``, ``const``, ``properties``, ``required``, ``additionalProperties``
(True or False), ``items``, ``minLength``, ``maxLength``, ``minItems``, ``maxItems``, ``minimum``, ``maximum``, and the
notes ``title``, ``description`` and ``default``. A schema with another word is refused, so that none is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.engine.values.frozen import Value

_NOTES = frozenset({"title", "description", "default"})


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_TYPES: dict[str, Callable[[object], bool]] = {
    "object": is_mapping,
    "array": is_items,
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": _is_whole,
    "null": lambda value: value is None,
}


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _is_strings(given: object) -> bool:
    return is_items(given) and all(isinstance(one, str) for one in given)


def _is_type(given: object) -> bool:
    return bool(given) and all(one in _TYPES for one in (given if is_items(given) else (given,)))


_WORDS: dict[str, Callable[[object], bool]] = {
    "type": _is_type,
    "enum": is_items,
    "const": lambda _: True,
    "properties": is_mapping,
    "required": _is_strings,
    "additionalProperties": lambda given: isinstance(given, bool),
    "items": is_mapping,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "minimum": _is_number,
    "maximum": _is_number,
}


def check_schema(schema: Value, place: str = "schema") -> None:
    """Refuse a schema that `answer_problem` could not read whole.

    Raises:
        UsageError: it is no mapping, or it has a word or a value that is not supported; the message names the place.
    """
    if not is_mapping(schema):
        raise UsageError(f"{place} must be a JSON Schema as a mapping, not {type(schema).__name__}")
    for word, given in schema.items():
        if word in _NOTES:
            continue
        if word not in _WORDS:
            raise UsageError(f"{place} has the word {word!r}; a schema of an answer may have {', '.join(_WORDS)}")
        if not _WORDS[word](given):
            raise UsageError(f"{place}.{word} has a value that JSON Schema does not allow there")
    for name, inner in schema.get("properties", {}).items():
        check_schema(inner, f"{place}.properties.{name}")
    if "items" in schema:
        check_schema(schema["items"], f"{place}.items")


def answer_problem(schema: Value, value: Value) -> str | None:
    """Return the problem of an answer, without quoting it; None if it fits the schema."""
    return next(_problems(schema, value, "the answer"), None)


def _problems(schema: Value, value: Value, place: str) -> Iterator[str]:
    kinds = schema.get("type")
    if kinds is not None:
        allowed = kinds if is_items(kinds) else (kinds,)
        if not any(_TYPES[kind](value) for kind in allowed):
            yield f"{place} must be of type {' or '.join(allowed)}"
            return
    if "enum" in schema and not any(_equal(value, one) for one in schema["enum"]):
        yield f"{place} must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and not _equal(value, schema["const"]):
        yield f"{place} must be {schema['const']!r}"
    if isinstance(value, str):
        yield from _size_problems(schema, len(value), "Length", place, "characters")
    elif is_items(value):
        yield from _list_problems(schema, value, place)
    elif is_mapping(value):
        yield from _object_problems(schema, value, place)
    elif _is_number(value):
        yield from _range_problems(schema, value, place)


def _equal(one: Value, other: Value) -> bool:
    """Tell whether two values are equal in JSON, where true is not 1."""
    return bool(isinstance(one, bool) is isinstance(other, bool) and one == other)


def _size_problems(schema: Value, size: int, what: str, place: str, unit: str) -> Iterator[str]:
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}", size)
    if size < least:
        yield f"{place} must have {least} {unit} or more"
    if size > most:
        yield f"{place} must have {most} {unit} or fewer"


def _list_problems(schema: Value, value: Value, place: str) -> Iterator[str]:
    yield from _size_problems(schema, len(value), "Items", place, "items")
    if "items" in schema:
        for index, item in enumerate(value):
            yield from _problems(schema["items"], item, f"{place}[{index}]")


def _range_problems(schema: Value, value: Value, place: str) -> Iterator[str]:
    if value < schema.get("minimum", value):
        yield f"{place} must be {schema['minimum']} or more"
    if value > schema.get("maximum", value):
        yield f"{place} must be {schema['maximum']} or less"


def _object_problems(schema: Value, value: Value, place: str) -> Iterator[str]:
    fields = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place} has no field {name!r}"
    if schema.get("additionalProperties") is False and not value.keys() <= fields.keys():
        yield f"{place} has a field that the schema does not name; it names {', '.join(fields)}"
    for name, inner in fields.items():
        if name in value:
            yield from _problems(inner, value[name], f"{place}.{name}")
