"""The schema of an object, from a Python type or a JSON Schema: what models are asked for, and how data are validated.

Models are always asked for a JSON object. A value that is not an object is wrapped in one, as its field ``value``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.engine.values.errors import MessageError, MissingExtraError, OptionError
from penstock.engine.values.frozen import Value, freeze, is_items, is_mapping
from penstock.engine.values.model import ResponseFormat
from penstock.models.judges.schemas import TOO_DEEP, SchemaPaths, is_strict, plain_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.exceptions import ValidationError

    from penstock.engine.values.frozen import Value, Values
    from penstock.models.judges.schemas import Schema


MOST_TOLD = 5
"""The most problems of one answer that are reported: the rest is reported once these are corrected."""

WHOLE = "the whole"


class SchemaProblem(NamedTuple):
    """One way in which an answer does not fit the schema. It never quotes the answer.

    Attributes:
        place: the path of the field, with ``*`` for keys that the schema does not name.
        kind: the name that pydantic or JSON Schema has for the problem; ``json`` if nothing could be parsed.
        text: a description, which quotes the schema at most.
    """

    place: str
    kind: str
    text: str


class SchemaMismatchError(ValueError):
    """An answer holds no object that fits the schema.

    Attributes:
        problems: at least one and at most `MOST_TOLD` problems.
    """

    def __init__(self, *problems: SchemaProblem) -> None:
        self.problems = problems[:MOST_TOLD]
        super().__init__("; ".join(f"{found.place}: {found.text}" for found in self.problems))


def mismatch(text: str, kind: str = "json") -> SchemaMismatchError:
    """Return the error for an answer as a whole, with one problem."""
    return SchemaMismatchError(SchemaProblem(WHOLE, kind, text))


OWNER = "StructuredOutputProcessor"
WRAPPER_FIELD = "value"
"""The field that holds a value that is not an object."""

_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_NAME = 64  # characters, the providers' limit


class ObjectSchema(ABC):
    """The schema of an object. Immutable; lives as long as its processor.

    Attributes:
        given: the schema as the user gave it.
        json_schema: the JSON Schema that models are asked to follow.
        is_wrapped: whether that schema wraps the value in a field, because it is not an object itself.
        takes_text: whether a value may be a text, so that an answer without JSON can be one.
        response_format: the format for `ModelRequest`.
    """

    def __init__(self, given: Value, own: Schema, asked: Schema, *, held: bool) -> None:
        self.given = given
        self.json_schema = asked
        self.is_wrapped = held
        self.takes_text = held and (own.get("type") == "string" or "enum" in own or "const" in own)
        self._shape = SchemaPaths(own)
        self.response_format = ResponseFormat(asked, _name(own), strict=is_strict(asked) and _asks_for_all(asked))

    def validate(self, data: Value) -> Value:
        """Return the validated value of parsed JSON.

        Raises:
            SchemaMismatchError: the data do not fit the schema.
        """
        if not (self.is_wrapped and is_mapping(data) and data.keys() == {WRAPPER_FIELD}):
            return self._checked(data)
        try:
            return self._checked(data[WRAPPER_FIELD])
        except SchemaMismatchError as error:
            wrong = error
        try:
            return self._checked(data)  # a mapping with that one key may be the value itself
        except SchemaMismatchError:
            raise wrong from None

    def _checked(self, data: Value) -> Value:
        try:
            freeze(data)
            written = json.dumps(data, allow_nan=False, ensure_ascii=False)
            written.encode()  # half a surrogate pair cannot be sent to anybody
        except UnicodeEncodeError:
            raise mismatch("it contains half a surrogate pair, which is not a character") from None
        except (MessageError, ValueError, RecursionError):
            raise mismatch("it is nested too deeply, or holds a number that JSON does not have") from None
        return self.validate_json(written)

    @abstractmethod
    def validate_json(self, written: str) -> Value:
        """Return the value of a JSON text.

        Raises:
            SchemaMismatchError: the value does not fit the schema.
        """

    @abstractmethod
    def validate_python(self, value: Value) -> Value:
        """Return a Python value, validated.

        Raises:
            SchemaMismatchError: the value does not fit the schema.
        """

    @abstractmethod
    def to_json(self, value: Value) -> Value:
        """Return a value as JSON data: dicts, lists and scalars."""

    def __eq__(self, other: object) -> bool:
        """Tell whether both were made from equal schemas."""
        return isinstance(other, ObjectSchema) and self.given == other.given

    __hash__ = None  # type: ignore[assignment]


def _name(schema: Schema) -> str:
    """Return the title of the schema, in the characters that providers accept."""
    title = str(schema.get("title") or "")
    made = "".join(char if char in _NAMES else "_" for char in title)[:_LONGEST_NAME].strip("_")
    return made or "answer"


def _asks_for_all(schema: object) -> bool:
    """Tell whether every field of every object is required: providers with strict schemas demand it."""
    if isinstance(schema, (list, tuple)):
        return all(_asks_for_all(item) for item in cast("list[object]", schema))
    if not is_mapping(schema):
        return True
    fields = schema.get("properties")
    if is_mapping(fields) and not fields.keys() <= {*schema.get("required", ())}:
        return False
    return all(_asks_for_all(item) for item in schema.values())


_DEFINITIONS = ("$defs", "definitions", "$schema")
_MOST_QUOTED = 200  # characters of the schema in a sentence


class JSONSchema(ObjectSchema):
    """A JSON Schema, read by the library `jsonschema`. Its objects are plain dicts, lists and scalars."""

    def __init__(self, given: Values) -> None:
        try:
            from jsonschema import Draft202012Validator, SchemaError
            from jsonschema.validators import validator_for
            from referencing import Registry
        except ImportError as error:
            raise MissingExtraError("a JSON Schema as schema=", "json-schema") from error
        own = plain_schema(OWNER, "schema", given)
        kind = validator_for(own, default=Draft202012Validator)
        try:
            kind.check_schema(own)
        except SchemaError as error:
            raise OptionError(OWNER, "schema", given, f"a JSON Schema ({error.json_path})") from error
        except RecursionError:
            raise OptionError(OWNER, "schema", type(given), TOO_DEEP) from None
        outside = next(_outside(own), None)
        if outside is not None:
            raise OptionError(
                OWNER, "schema", given, f"a JSON Schema without references to the outside, such as {outside!r}"
            )
        self._validator = kind(own, registry=Registry(), format_checker=kind.FORMAT_CHECKER)
        held = own.get("type") != "object"
        super().__init__(given, own, _wrapped(own) if held else own, held=held)

    def validate_json(self, written: str) -> Value:
        return self.validate_python(json.loads(written))

    def validate_python(self, value: Value) -> Value:
        try:
            found = sorted(
                self._validator.iter_errors(value), key=lambda error: [str(step) for step in error.absolute_path]
            )
        except RecursionError:
            raise mismatch("it is nested too deeply to be checked") from None
        if found:
            raise SchemaMismatchError(*(self._problem(error, value) for error in found))
        return value

    def to_json(self, value: Value) -> Value:
        return value

    def _problem(self, error: ValidationError, value: Value) -> SchemaProblem:
        return SchemaProblem(
            self._shape.named(value, tuple(error.absolute_path)), str(error.validator), _description(error)
        )


def _description(error: ValidationError) -> str:
    """Describe an error; the text quotes the schema only, never the answer."""
    rule: Value = error.validator_value
    if error.validator == "required":
        at: Value = error.instance
        return f"it lacks {', '.join(repr(name) for name in cast('list[str]', rule) if name not in at)}"
    if error.validator in ("additionalProperties", "unevaluatedProperties"):
        return "it has fields that are not allowed"
    quoted = json.dumps(rule, ensure_ascii=False)
    return f"it must fit {error.validator!r}" + (f": {quoted}" if len(quoted) <= _MOST_QUOTED else "")


def _wrapped(own: Schema) -> Schema:
    """Return the schema of an object that wraps the value; definitions stay at the top, where references find them."""
    inner = {name: item for name, item in own.items() if name not in _DEFINITIONS}
    above = {name: own[name] for name in _DEFINITIONS if name in own}
    made = {
        "type": "object",
        "properties": {WRAPPER_FIELD: inner},
        "required": [WRAPPER_FIELD],
        "additionalProperties": False,
    }
    return {**made, **above}


def _outside(schema: Value) -> Iterator[str]:
    """Yield the references of a schema that lead outside of it: nothing is fetched."""
    if is_items(schema):
        for item in schema:
            yield from _outside(item)
    elif is_mapping(schema):
        reference: object = schema.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#"):
            yield reference
        for item in schema.values():
            yield from _outside(item)
