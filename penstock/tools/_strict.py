"""JSON Schemas that a provider can hold a model to, as OpenAI's strict mode wants them; it knows no function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import Value, is_items, is_mapping
from penstock.models.judges.schemas import is_strict, tightened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Values

_NULL = {"type": "null"}
_RULE = "a type whose schema is strict: no open mapping, no tuple, nothing without a type"


def strict_form(schema: Values, function: str) -> dict[str, Value]:
    """Return a schema with every field required and nothing else allowed; what had a default may be null instead.

    Raises:
        OptionError: a parameter of the function cannot be strict.
    """
    required = schema.get("required", ())
    fields: dict[str, Value] = dict(schema.get("properties", {}))
    for name, item in fields.items():
        if name not in required and not _takes_null(item):
            fields[name] = _or_null(item)
    made: dict[str, Value] = tightened({**schema, "properties": fields})
    made = _unreferenced(made, made.get("$defs", {}))
    for name, item in made["properties"].items():
        if not is_strict(item) or not is_strict(_reached(item, made)):
            raise OptionError("Tool", f"{function}({name})", item, f"of {_RULE}, where strict=True")
    return made


def check_strict(schema: Values, *, strict: bool | None) -> Values:
    """Return a schema that is given, as it is.

    Raises:
        OptionError: it is to be strict, but is not.
    """
    if strict and not (is_strict(schema) and {*schema.get("required", ())} == {*schema.get("properties", {})}):
        told = "in the strict form where strict=True: every field required, no others, each of a type"
        raise OptionError("Tool", "parameters", schema, told)
    return schema


def _takes_null(schema: Value) -> bool:
    """Tell whether a schema says of itself that null fits it."""
    kinds = schema.get("type")
    told = (kinds,) if isinstance(kinds, str) else tuple(kinds or ())
    either = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return "null" in told or None in schema.get("enum", ()) or any(_takes_null(item) for item in either)


def _or_null(schema: Value) -> Value:
    told = {"description": schema["description"]} if "description" in schema else {}
    rest = {name: item for name, item in schema.items() if name not in ("description", "default")}
    return {"anyOf": [rest, _NULL], **told}


def _unreferenced(schema: Value, definitions: Values, inside: tuple[str, ...] = ()) -> Value:
    """Return a schema in which nothing stands beside a ``$ref``, which OpenAI refuses: what it means stands there.

    Where a definition holds itself, the reference stays, and what stood beside it goes.
    """
    if is_items(schema):
        return [_unreferenced(item, definitions, inside) for item in schema]
    if not is_mapping(schema):
        return schema
    parts = schema.get("allOf")
    if is_items(parts) and len(parts) == 1:  # how older versions of pydantic say something beside a reference
        schema = {**parts[0], **_without(schema, "allOf")}
    target = schema.get("$ref")
    if isinstance(target, str) and len(schema) > 1:
        name = target.rpartition("/")[2]
        schema = {"$ref": target} if name in inside else {**definitions[name], **_without(schema, "$ref")}
        inside = (*inside, name)
    return {name: _unreferenced(item, definitions, inside) for name, item in schema.items()}


def _without(schema: Values, key: str) -> Values:
    return {name: item for name, item in schema.items() if name != key}


def _reached(schema: Value, whole: Values) -> list[Value]:
    """Return the definitions that a schema refers to, those included that they refer to."""
    definitions: Values = whole.get("$defs", {})
    found: dict[str, Value] = {}
    waiting = [*_references(schema)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definitions[name]
            waiting += _references(found[name])
    return list(found.values())


def _references(schema: Value) -> Iterator[str]:
    if is_items(schema):
        for item in schema:
            yield from _references(item)
    elif is_mapping(schema):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for item in schema.values():
            yield from _references(item)
