"""What an object must look like, whatever it is written in: how models are told, how it is validated. It knows no run.

Models are always asked for a JSON object: what is none stands in one, under ``value``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import Value, freeze, is_mapping
from penstock.engine.values.model import ResponseFormat
from penstock.models.judges._schemas import is_strict
from penstock.models.judges._shapes import Shape
from penstock.processors.structure._problems import UnfitError, unreadable

if TYPE_CHECKING:
    from penstock.models.judges._shapes import Schema

OWNER = "StructuredOutputProcessor"
HELD = "value"
"""The field in which a value stands that is no object."""

_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_NAME = 64  # characters, the providers' limit


class Form(ABC):
    """What an object must look like. Lives as long as its processor, and is never changed.

    Attributes:
        given: the schema as it was given.
        schema: the JSON Schema of what models are asked for.
        held: whether what they are asked for holds the value in a field, because it is no object itself.
        takes_text: whether a value may be a text, so that an answer without any JSON can be one.
    """

    def __init__(self, given: Value, own: Schema, asked: Schema, *, held: bool) -> None:
        self.given = given
        self.schema = asked
        self.held = held
        self.takes_text = held and (own.get("type") == "string" or "enum" in own or "const" in own)
        self._shape = Shape(own)
        self.response_format = ResponseFormat(asked, _name(own), strict=is_strict(asked) and _asks_for_all(asked))

    def value(self, data: Value) -> Value:
        """Return the value that data hold, made anew.

        Raises:
            UnfitError: they hold none.
        """
        if not (self.held and is_mapping(data) and data.keys() == {HELD}):
            return self._checked(data)
        try:
            return self._checked(data[HELD])
        except UnfitError as error:
            wrong = error
        try:
            return self._checked(data)  # a mapping of that one key may itself be the value
        except UnfitError:
            raise wrong from None

    def _checked(self, data: Value) -> Value:
        try:
            freeze(data)
            written = json.dumps(data, allow_nan=False, ensure_ascii=False)
            written.encode()  # nobody could be sent half a surrogate pair
        except UnicodeEncodeError:
            raise unreadable("half a surrogate pair stands in it, which is no character") from None
        except (MessageError, ValueError, RecursionError):
            raise unreadable("it is nested too deeply, or a number is none of JSON's") from None
        return self.validated(written)

    @abstractmethod
    def validated(self, written: str) -> Value:
        """Return the value that JSON holds.

        Raises:
            UnfitError: it is not as the schema says.
        """

    @abstractmethod
    def own(self, value: Value) -> Value:
        """Return a value that a program gives, validated.

        Raises:
            UnfitError: it is not as the schema says.
        """

    @abstractmethod
    def data(self, value: Value) -> Value:
        """Return a value as JSON values."""

    def __eq__(self, other: object) -> bool:
        """Tell whether both are of the same schema."""
        return isinstance(other, Form) and self.given == other.given

    __hash__ = None  # type: ignore[assignment]


def _name(schema: Schema) -> str:
    """Return what the schema is called, in the letters that providers take."""
    title = str(schema.get("title") or "")
    made = "".join(char if char in _NAMES else "_" for char in title)[:_LONGEST_NAME].strip("_")
    return made or "answer"


def _asks_for_all(schema: object) -> bool:
    """Tell whether every field of every object is required, as providers want it who hold models to a schema."""
    if isinstance(schema, (list, tuple)):
        return all(_asks_for_all(item) for item in cast("list[object]", schema))
    if not is_mapping(schema):
        return True
    fields = schema.get("properties")
    if is_mapping(fields) and not fields.keys() <= {*schema.get("required", ())}:
        return False
    return all(_asks_for_all(item) for item in schema.values())
