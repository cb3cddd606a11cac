"""Objects of a JSON Schema, by the library `jsonschema` (extra ``json-schema``). It knows no answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import MissingExtraError, OptionError
from penstock.engine.values.frozen import is_items, is_mapping, thaw
from penstock.processors.structure._form import HELD, OWNER, Form
from penstock.processors.structure._problems import Problem, UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.exceptions import ValidationError

    from penstock.engine.values.frozen import Value, Values
    from penstock.models.judges._shapes import Schema

_DEFINITIONS = ("$defs", "definitions", "$schema")
_MOST_QUOTED = 200  # characters of the schema in a sentence


class JSONSchemaForm(Form):
    """Objects of a JSON Schema; they are plain dicts, lists and scalars."""

    def __init__(self, given: Values) -> None:
        try:
            from jsonschema import Draft202012Validator, SchemaError
            from jsonschema.validators import validator_for
            from referencing import Registry
        except ImportError as error:
            raise MissingExtraError("a JSON Schema as schema=", "json-schema") from error
        own: Schema = thaw(dict(given))
        kind = validator_for(own, default=Draft202012Validator)
        try:
            kind.check_schema(own)
        except SchemaError as error:
            raise OptionError(OWNER, "schema", given, f"a JSON Schema ({error.json_path})") from error
        outside = next(_outside(own), None)
        if outside is not None:
            raise OptionError(OWNER, "schema", given, f"a JSON Schema that holds all it refers to, not {outside!r}")
        self._validator = kind(own, registry=Registry(), format_checker=kind.FORMAT_CHECKER)
        held = own.get("type") != "object"
        super().__init__(given, own, _holder(own) if held else own, held=held)

    def validated(self, written: str) -> Value:
        return self.own(json.loads(written))

    def own(self, value: Value) -> Value:
        found = sorted(
            self._validator.iter_errors(value), key=lambda error: [str(step) for step in error.absolute_path]
        )
        if found:
            raise UnfitError(*(self._problem(error, value) for error in found))
        return value

    def data(self, value: Value) -> Value:
        return value

    def _problem(self, error: ValidationError, value: Value) -> Problem:
        return Problem(self._shape.named(value, tuple(error.absolute_path)), str(error.validator), _told(error))


def _told(error: ValidationError) -> str:
    """Return what is wrong, in words that quote the schema alone."""
    rule: Value = error.validator_value
    if error.validator == "required":
        at: Value = error.instance
        return f"it lacks {', '.join(repr(name) for name in cast('list[str]', rule) if name not in at)}"
    if error.validator in ("additionalProperties", "unevaluatedProperties"):
        return "it has fields that are not allowed"
    quoted = json.dumps(rule, ensure_ascii=False)
    return f"it must fit {error.validator!r}" + (f": {quoted}" if len(quoted) <= _MOST_QUOTED else "")


def _holder(own: Schema) -> Schema:
    """Return the schema of an object that holds the value; what it refers to stays where it is found."""
    inner = {name: item for name, item in own.items() if name not in _DEFINITIONS}
    above = {name: own[name] for name in _DEFINITIONS if name in own}
    made = {"type": "object", "properties": {HELD: inner}, "required": [HELD], "additionalProperties": False}
    return {**made, **above}


def _outside(schema: Value) -> Iterator[str]:
    """Yield what a schema refers to that is not in it: nothing is fetched."""
    if is_items(schema):
        for item in schema:
            yield from _outside(item)
    elif is_mapping(schema):
        told: object = schema.get("$ref")
        if isinstance(told, str) and not told.startswith("#"):
            yield told
        for item in schema.values():
            yield from _outside(item)
