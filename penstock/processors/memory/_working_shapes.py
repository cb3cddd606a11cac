"""The shapes of working memories that are JSON objects: what fits them, and what an empty one is. They know no store.

A memory is filled bit by bit, so what is missing is never a problem; what is there has to fit.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Protocol, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core.core_schema import ErrorType

from penstock.engine.values.errors import MissingExtraError, OptionError
from penstock.engine.values.frozen import is_items, is_mapping, thaw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jsonschema.exceptions import ValidationError as SchemaProblem

    from penstock.engine.values.frozen import Value, Values

_EMPTY: Values = {"string": "", "number": 0, "integer": 0, "boolean": False}
_TELLING = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}  # those are a validator's own words
_DEEPEST = 20  # levels of an empty object; types may hold themselves
_LITERAL = ("enum", "const", "default", "examples")  # what these hold is no schema
_HIDDEN = ("$schema", "$defs", "definitions", "title")


class Shape(Protocol):
    """What a memory must fit. Lives as long as its template."""

    schema: dict[str, Value]

    def problems(self, document: Value) -> tuple[str, ...]:
        """Return what does not fit, each with its path, in words that quote no value of the document."""
        ...


class TypeShape:
    """The shape of a pydantic model, a dataclass or a TypedDict.

    Raises:
        OptionError: pydantic knows no JSON Schema of it, or it is no object.
    """

    def __init__(self, owner: str, given: Value) -> None:
        try:
            self._adapter: TypeAdapter[Value] = TypeAdapter(given)
            schema = _untitled(self._adapter.json_schema())
        except (PydanticUserError, NameError) as error:
            raise OptionError(owner, "template", given, "a type of which pydantic knows a JSON Schema") from error
        if resolved(schema, schema).get("type") != "object":
            raise OptionError(owner, "template", given, "a type of objects: a pydantic model, say")
        self.schema: dict[str, Value] = schema

    def problems(self, document: Value) -> tuple[str, ...]:
        """Return what does not fit; values must be of their type as JSON has it, and fields must be known."""
        found = [*_unknown(document, self.schema, self.schema, "")]
        try:
            self._adapter.validate_json(json.dumps(document), strict=True)
        except ValidationError as error:
            for each in error.errors(include_url=False, include_input=False, include_context=False):
                if each["type"] != "missing":
                    told = each["msg"] if each["type"] in _TELLING else "it is not allowed"
                    found.append(f"{_path(each['loc'])}: {told}")
        return tuple(found)


class SchemaShape:
    """The shape that a JSON Schema says, judged by the library ``jsonschema``.

    Raises:
        MissingExtraError: the extra ``json-schema`` is not installed.
        OptionError: it is no JSON Schema of an object, or it refers to another document.
    """

    def __init__(self, owner: str, given: Values) -> None:
        try:
            from jsonschema import Draft202012Validator, SchemaError
            from jsonschema.validators import validator_for
            from referencing import Registry
        except ImportError as error:
            raise MissingExtraError("a JSON Schema as template=", "json-schema") from error
        self._owner = owner
        self.schema: dict[str, Value] = thaw(dict(given))
        kind = validator_for(self.schema, default=Draft202012Validator)
        allowed = "the JSON Schema of an object, a pydantic model, or a text in Markdown"
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            raise OptionError(owner, "template", given, f"{allowed} ({error.json_path} is wrong)") from error
        if any(not reference.startswith("#") for reference in _references(self.schema)):
            raise OptionError(owner, "template", given, "a JSON Schema that holds all it refers to")
        if resolved(self.schema, self.schema).get("type") != "object":
            raise OptionError(owner, "template", given, allowed)
        self._validator = kind(partial(self.schema), registry=Registry(), format_checker=kind.FORMAT_CHECKER)

    def problems(self, document: Value) -> tuple[str, ...]:
        """Return what does not fit; nothing is required."""
        return tuple(map(_told, self._validator.iter_errors(document)))

    def __reduce__(self) -> tuple[type[SchemaShape], tuple[str, Values]]:
        """Pickle as its schema: validators cannot be pickled."""
        return (SchemaShape, (self._owner, self.schema))


def partial(schema: Value) -> Value:
    """Return a schema that requires nothing."""
    if is_items(schema):
        return [partial(item) for item in schema]
    if not is_mapping(schema):
        return schema
    return {
        name: item if name in _LITERAL else partial(item)
        for name, item in schema.items()
        if not (name == "required" and is_items(item))
    }


def _untitled(schema: Value) -> Value:
    """Return a schema without the titles that pydantic makes of names."""
    if is_items(schema):
        return [_untitled(item) for item in schema]
    if not is_mapping(schema):
        return schema
    return {
        name: item if name in _LITERAL else _untitled(item)
        for name, item in schema.items()
        if not (name == "title" and isinstance(item, str))
    }


def resolved(schema: Value, root: Values) -> Values:
    """Return what a schema refers to, or itself; of several kinds that are allowed, the first but null."""
    for _ in range(_DEEPEST):
        if not is_mapping(schema):
            return {}
        if isinstance(schema.get("$ref"), str):
            schema = _at(root, schema["$ref"])
        elif is_items(several := schema.get("anyOf", schema.get("oneOf"))):
            left = [one for one in several if is_mapping(one) and one.get("type") != "null"]
            schema = left[0] if left else {}
        else:
            return schema
    return {}


def empty(schema: Value, root: Values, depth: int = 0) -> Value:
    """Return what a field holds as long as nothing is known: its default, or the emptiest value of its type."""
    if is_mapping(schema) and "default" in schema:
        return copy.deepcopy(schema["default"])
    found = resolved(schema, root)
    if "default" in found:
        return copy.deepcopy(found["default"])
    kind = next((one for one in _kinds(found) if one != "null"), None)
    if kind == "object":
        fields: Values = found.get("properties", {}) if depth < _DEEPEST else {}
        return {name: empty(field, root, depth + 1) for name, field in fields.items()}
    return [] if kind == "array" else _EMPTY.get(str(kind))


def nested(schema: Values) -> tuple[dict[str, Value], dict[str, Value]]:
    """Return a schema as a part of another, and the definitions that go to the other's root."""
    kept = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {name: item for name, item in schema.items() if name not in _HIDDEN}, kept


def _kinds(schema: Values) -> Iterable[Value]:
    kind = schema.get("type")
    return kind if is_items(kind) else (kind,)


def _unknown(value: Value, schema: Value, root: Values, path: str) -> Iterator[str]:
    """Tell of fields that a model's schema does not have: pydantic would pass over them."""
    found = resolved(schema, root)
    if is_items(value):
        for index, item in enumerate(value):
            yield from _unknown(item, found.get("items", {}), root, f"{path}/{index}")
    if not is_mapping(value) or not is_mapping(fields := found.get("properties")):
        return
    for name, item in value.items():
        if name in fields:
            yield from _unknown(item, fields[name], root, f"{path}/{name}")
        elif not found.get("additionalProperties"):
            # a name that is none of the schema's could be anything, so it is not told
            yield f"{path or 'the memory'}: it has a field that there is not; there are {', '.join(fields)}"


def _path(steps: Iterable[Value]) -> str:
    return "".join(f"/{step}" for step in steps) or "the memory"


def _told(error: SchemaProblem) -> str:
    if error.validator in ("additionalProperties", "unevaluatedProperties"):
        return f"{_path(error.absolute_path)}: it has fields that there are not"
    rule = json.dumps(error.validator_value, ensure_ascii=False, default=str)
    shown = f" {rule}" if len(rule) <= 200 else ""  # noqa: PLR2004 - a line or two
    return f"{_path(error.absolute_path)}: it must fit {error.validator}{shown}"


def _references(schema: Value) -> Iterator[str]:
    if is_items(schema):
        for item in schema:
            yield from _references(item)
    elif is_mapping(schema):
        told: object = schema.get("$ref")
        if isinstance(told, str):
            yield told
        for item in schema.values():
            yield from _references(item)


def _at(root: Values, reference: str) -> Value:
    found: Value = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if is_mapping(found) else None
    return found
