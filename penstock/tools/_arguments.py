"""A tool's arguments: their JSON Schema, and reading them from what a model wrote. It knows no function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, NotRequired, Protocol, Required, cast

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from penstock.engine.values.errors import MessageError, OptionError
from penstock.engine.values.frozen import json_value
from penstock.tools._functions import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_core import ErrorDetails

    from penstock.engine.values.frozen import Value, Values
    from penstock.tools._functions import Parameter

_TOLD = 8
"""How many errors a model is told of at once."""


class UnfitError(Exception):
    """Arguments that do not fit; the text tells the model what is wrong, and may quote what it wrote."""


class Arguments(Protocol):
    """What a tool takes. Lives as long as its tool."""

    schema: Values

    def read(self, given: Value) -> dict[str, Value]:
        """Return arguments as the function takes them.

        Raises:
            UnfitError: they do not fit.
        """
        ...


class _Schemas(GenerateJsonSchema):
    """Schemas without the titles that pydantic makes of names, and without a warning for a default that is no JSON."""

    ignored_warning_kinds = frozenset({"skipped-choice", "non-serializable-default"})  # type: ignore[assignment]

    def field_title_should_be_set(self, schema: Value) -> bool:
        del schema
        return False


class HintedArguments:
    """Arguments by the types of a function's parameters, which pydantic reads.

    Raises:
        OptionError: pydantic can make no schema of a parameter's type; the error names it.
    """

    def __init__(self, function: str, parameters: Sequence[Parameter], texts: Mapping[str, str]) -> None:
        kind: Value = TypedDict  # a checker wants its fields to be written out
        try:
            fields = {item.name: _field(item, texts.get(item.name)) for item in parameters}
            holder = kind("Arguments", fields)
            holder.__pydantic_config__ = ConfigDict(extra="forbid")
            self._adapter: TypeAdapter[dict[str, Value]] = TypeAdapter(holder)
            schema = self._adapter.json_schema(schema_generator=_Schemas)
        except (PydanticUserError, TypeError, NameError) as error:
            raise _culprit(function, parameters) from error
        self.schema: Values = _finished(schema, parameters)
        self._optional = frozenset(schema["properties"]).difference(schema.get("required", ()))

    def read(self, given: Value) -> dict[str, Value]:
        """Return the arguments, of the parameters' types. A null where a default is, is as good as nothing.

        Raises:
            UnfitError: they do not fit.
        """
        plain = _plain(given)
        try:
            return self._adapter.validate_json(json.dumps(plain))
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False, include_context=False)
        wrong = {item["loc"][0] for item in errors if item["loc"]}
        nulls = {name for name in wrong & self._optional if name in plain and plain[name] is None}
        if nulls:
            return self.read({name: item for name, item in plain.items() if name not in nulls})
        raise UnfitError("; ".join(_told(item, self.schema) for item in errors[:_TOLD]))


class RawArguments:
    """Arguments by a JSON Schema of the user's. Of it, what is required and what is unknown is checked, no more."""

    def __init__(self, schema: Values) -> None:
        self.schema = schema

    def read(self, given: Value) -> dict[str, Value]:
        """Return the arguments as plain dicts and lists.

        Raises:
            UnfitError: one is missing, or unknown where the schema allows no further ones.
        """
        plain = _plain(given)
        known: Mapping[str, Value] = self.schema.get("properties", {})
        wrong = [f"{name}: it is required" for name in self.schema.get("required", ()) if name not in plain]
        if self.schema.get("additionalProperties") is False:
            wrong += [f"{name}: {_unknown(known)}" for name in plain if name not in known]
        if wrong:
            raise UnfitError("; ".join(wrong[:_TOLD]))
        return plain


def check_schema(schema: object) -> Values:
    """Return a JSON Schema of an object's.

    Raises:
        OptionError: it is none.
    """
    given: Value = schema
    told = "the JSON Schema of an object: {'type': 'object', 'properties': …}"
    if not isinstance(given, Mapping):
        raise OptionError("Tool", "parameters", schema, told)
    fields = cast("Values", given)
    if fields.get("type") != "object" or not isinstance(fields.get("properties", {}), Mapping):
        raise OptionError("Tool", "parameters", schema, told)
    return fields


def check_fits(schema: Values, own: Values) -> Values:
    """Return a schema that is to be shown in place of the function's own.

    Raises:
        OptionError: it has fields that the function does not take, or lacks some that it needs.
    """
    fields: Values = schema.get("properties", {})
    missing = [name for name in own.get("required", ()) if name not in fields]
    if missing or not {*fields} <= {*own["properties"]}:
        told = f"a schema with the function's parameters ({', '.join(own['properties']) or 'none'})"
        raise OptionError("Tool", "parameters", schema, told)
    return schema


def _field(parameter: Parameter, text: str | None) -> Value:
    """Return a parameter as the field of a `TypedDict`; what its own `Field` says of it goes before the docstring."""
    hint, default = parameter.hint, parameter.default
    if isinstance(default, FieldInfo):
        hint = cast("Value", Annotated[hint, default])
    told = FieldInfo.from_annotation(hint)
    if text and told.description is None:
        hint = Annotated[hint, Field(description=text)]
    open_ended = told.is_required() and (default is EMPTY or isinstance(default, FieldInfo))
    wanted: Value = Required if open_ended else NotRequired
    return wanted[hint]


def _finished(schema: dict[str, Value], parameters: Iterable[Parameter]) -> Values:
    """Return the schema with the defaults that the function itself fills in; they are told if they are JSON values."""
    schema.pop("title", None)
    for parameter in parameters:
        said = schema["properties"].get(parameter.name)
        if said is not None and parameter.default not in (EMPTY, None) and not isinstance(parameter.default, FieldInfo):
            said |= _default(parameter.default)
    return schema


def _default(value: Value) -> dict[str, Value]:
    try:
        return {"default": json.loads(json.dumps(to_jsonable_python(value), allow_nan=False))}
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return {}


def _culprit(function: str, parameters: Iterable[Parameter]) -> OptionError:
    """Return the error that names the parameter of which pydantic can make no schema."""
    told = "a type of which pydantic can make a JSON Schema"
    for parameter in parameters:
        try:
            TypeAdapter(parameter.hint).json_schema(schema_generator=_Schemas)
        except (PydanticUserError, TypeError, NameError):
            return OptionError("Tool", f"{function}({parameter.name})", parameter.hint, told)
    return OptionError("Tool", function, [parameter.name for parameter in parameters], f"parameters, each of {told}")


def _plain(given: Value) -> dict[str, Value]:
    """Return arguments as plain dicts and lists; none at all is an empty mapping.

    A text is refused even if it is JSON: what was escaped in it, no guard has read.
    """
    if given is None or given == "":
        return {}
    if not isinstance(given, Mapping):
        raise UnfitError("the arguments must be a JSON object")
    try:
        text = json.dumps(json_value(cast("Value", given), "arguments"), allow_nan=False)
    except MessageError as error:
        raise UnfitError(str(error)) from error
    except ValueError:
        raise UnfitError("a number in the arguments is no JSON number") from None
    plain: dict[str, Value] = json.loads(text)
    return plain


def _told(error: ErrorDetails, schema: Values) -> str:
    where = ".".join(map(str, error["loc"])) or "arguments"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return f"{where}: {_unknown(schema['properties'])}"
    return f"{where}: {'it is required' if error['type'] == 'missing' else error['msg']}"


def _unknown(known: Iterable[str]) -> str:
    names = ", ".join(known)
    return f"there is no such argument; there are {names}" if names else "there is no such argument; there are none"
