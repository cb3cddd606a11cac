"""The JSON form of a verdict, and reading a verdict from a model's answer.

Every verdict is requested as a JSON object. A type that is not an object is put into one with the single field
``verdict``; verdicts about several contents are a list, each with the number of its content.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast, get_args

from pydantic import TypeAdapter, ValidationError, create_model
from pydantic_core.core_schema import ErrorType

from penstock.engine.values.frozen import Value, is_mapping
from penstock.models.judges.lenient_json import UnreadableError
from penstock.models.judges.schemas import SchemaPaths, is_strict, tightened
from penstock.models.judges.spoken import NOTHING, spoken_objects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails


V = TypeVar("V")

ROUNDS = 10
"""How often broken entries are removed from one answer. What is broken after that may be broken inside another
union."""

_TOLD = 5  # the errors that a model is told
_TELLING = frozenset({NOTHING, *get_args(ErrorType)}) - {
    "value_error",
    "assertion_error",
    "union_tag_invalid",
}  # whose messages may quote the answer


@dataclass(frozen=True, slots=True)
class VerdictData:
    """The data of a verdict: JSON values that fit the type, and the entries that were left out."""

    data: Value
    dropped: tuple[str, ...] = ()


class VerdictForm(Generic[V]):
    """How verdicts of a type are written, about one content or several. It lives as long as its judge.

    Attributes:
        type: the type of the whole answer, which is a JSON object.
        schema: the JSON Schema of the answer.
        strict: whether a provider can enforce the schema.
    """

    def __init__(self, verdict: type[V], *, several: bool) -> None:
        own = TypeAdapter(verdict)
        schema = own.json_schema()
        shape = SchemaPaths(schema)
        self._fields = shape.fields(schema)
        self._several = several
        self._bare = not several and shape.is_object(schema)
        self.type: type = verdict if self._bare else _holder(verdict, several=several)
        self._adapter: TypeAdapter[Value] = own if self._bare else TypeAdapter(self.type)
        whole = schema if self._bare else self._adapter.json_schema()
        self._shape = SchemaPaths(whole)
        self._keys = self._shape.fields(whole)
        self.schema = tightened(whole)
        self.strict = is_strict(self.schema)

    def read(self, text: str, count: int) -> VerdictData:
        """Return the verdict in an answer.

        Raises:
            UnreadableError: the answer does not end with a verdict, or there are several that differ. Its text tells
                the model the fault.
        """
        return self.read_object(_last(spoken_objects(text), self._keys), count)

    def read_object(self, data: Value, count: int) -> VerdictData:
        """Return the verdict that an object of an answer holds.

        Raises:
            UnreadableError: it holds none; see `read`.
        """
        if not is_mapping(data) or self._keys.isdisjoint(data):
            raise UnreadableError(f"it is no object with any of the fields {', '.join(sorted(self._keys))}")
        dropped: list[str] = []
        for _ in range(ROUNDS):
            errors = self._errors(data)
            if not errors:
                self._check(data, count)
                return VerdictData(data, tuple(dropped))
            left = self._shape.without(data, [error["loc"] for error in errors])
            dropped += [f"{self._shape.named(data, error['loc'])}: {error['type']}" for error in errors]
            data = left
        raise UnreadableError("it does not fit the schema in too many places")

    def verdicts(self, data: Value, count: int) -> list[V]:
        """Return the verdicts that the data hold, as new objects, in the order of the contents.

        Raises:
            UnreadableError: the data do not fit the type, or are about other contents.
        """
        try:
            whole = self._adapter.validate_json(json.dumps(data))
        except ValidationError:
            pass  # it quotes the answer, so it must not become the context of what is raised
        else:
            return self._parts(whole, count)
        raise UnreadableError("it does not fit the schema")

    def _parts(self, whole: Value, count: int) -> list[V]:
        if self._bare:
            return [cast("V", whole)]
        if not self._several:
            return [whole.verdict]
        numbers: dict[int, V] = {entry.content: entry.verdict for entry in whole.verdicts}
        if sorted(entry.content for entry in whole.verdicts) != list(range(1, count + 1)):
            raise UnreadableError(f"there must be exactly one verdict about each content, 1 to {count}")
        return [numbers[number] for number in range(1, count + 1)]

    def _errors(self, data: Value) -> list[ErrorDetails]:
        try:
            self._adapter.validate_json(json.dumps(data))
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False, include_context=False)
        else:
            return []
        return self._entries_only(data, errors)  # outside the handler: a context would quote the answer

    def _entries_only(self, data: Value, errors: list[ErrorDetails]) -> list[ErrorDetails]:
        """Return the errors if each of them is inside an entry that can be left out.

        Raises:
            UnreadableError: some are not.
        """
        fatal = [error for error in errors if self._shape.entry(data, error["loc"]) is None]
        if fatal:
            raise UnreadableError("; ".join(self._told(data, error) for error in fatal[:_TOLD]))
        return errors

    def _told(self, data: Value, error: ErrorDetails) -> str:
        what = error["msg"] if error["type"] in _TELLING else "it is not allowed"
        missing = f" {error['loc'][-1]!r}" if error["type"] == "missing" else ""
        return f"{self._shape.named(data, error['loc'])}: {what}{missing}"

    def _check(self, data: Value, count: int) -> None:
        """Refuse a verdict with none of its type's fields: with defaults alone, it would say that nothing was found."""
        self.verdicts(data, count)
        held = [entry["verdict"] for entry in data["verdicts"]] if self._several else [data]
        for verdict in held if self._several or self._bare else [data["verdict"]]:
            if is_mapping(verdict) and self._fields and self._fields.isdisjoint(verdict):
                raise UnreadableError(f"a verdict holds none of the fields {', '.join(sorted(self._fields))}")


class SharedForm:
    """How the answer to several questions about the same contents is written: an object with a field for each.

    Attributes:
        schema: the JSON Schema of the answer.
        strict: whether a provider can enforce the schema.
    """

    def __init__(self, forms: Mapping[str, VerdictForm[Value]]) -> None:
        fields: Value = {name: (form.type, ...) for name, form in forms.items()}
        self._forms = forms
        self.schema = tightened(TypeAdapter(create_model("Answers", **fields)).json_schema())
        self.strict = is_strict(self.schema)

    def read(self, text: str, count: int) -> VerdictData:
        """Return the answers as they were given, if one of them at least can be read.

        Raises:
            UnreadableError: none can be read. Its text tells the model the fault.
        """
        data = _last(spoken_objects(text), frozenset(self._forms))
        read = {name: self.part(name, data, count) for name in self._forms}
        problems = [f"{name}: {each}" for name, each in read.items() if isinstance(each, UnreadableError)]
        if len(problems) == len(read):
            raise UnreadableError("; ".join(problems))
        return VerdictData(data)

    def part(self, name: str, data: Value, count: int) -> VerdictData | UnreadableError:
        """Return the answer to one question, or its fault."""
        if name not in data:
            return UnreadableError("the field is missing")
        try:
            return self._forms[name].read_object(data[name], count)
        except UnreadableError as error:
            return error


def _holder(verdict: type[object], *, several: bool) -> type:
    kind: Value = verdict
    if not several:
        return create_model("Answer", verdict=(kind, ...))
    entry = create_model("Entry", content=(int, ...), verdict=(kind, ...))
    return create_model("Answer", verdicts=(list[entry], ...))  # type: ignore[valid-type]


def _last(found: list[dict[str, Value]], keys: frozenset[str]) -> dict[str, Value]:
    """Return the last object, which is the verdict.

    Raises:
        UnreadableError: there is none, or it is no verdict; or another one differs: one may be quoted from the content.
    """
    if not found:
        raise UnreadableError("there is no JSON object in it")
    if keys.isdisjoint(found[-1]):
        raise UnreadableError(f"its last object holds none of the fields {', '.join(sorted(keys))}")
    if any(item != found[-1] for item in found if not keys.isdisjoint(item)):
        raise UnreadableError("there are several verdicts in it, and they differ")
    return found[-1]
