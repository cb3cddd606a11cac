"""`HintedArguments`: a tool's arguments by the types of its function's parameters, as pydantic validates them.

It is imported with the first tool of a function: pydantic takes more time to import than an agent without tools.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, NotRequired, Required, cast

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from penstock.engine.values.errors import OptionError
from penstock.tools.arguments import MOST_TOLD, NO_DEFAULT, ArgumentsError, plain_arguments, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from penstock.engine.values.frozen import Value, Values
    from penstock.tools.arguments import Parameter


class _Schemas(GenerateJsonSchema):
    """Makes schemas without pydantic's titles, and without warnings about defaults that are not JSON values."""

    ignored_warning_kinds = frozenset({"skipped-choice", "non-serializable-default"})  # type: ignore[assignment]

    def field_title_should_be_set(self, schema: Value) -> bool:
        del schema
        return False


class HintedArguments:
    """Arguments by the types of a function's parameters, validated by pydantic.

    Raises:
        OptionError: pydantic cannot make a schema of a parameter's type; the error names the parameter.
    """

    def __init__(self, function: str, parameters: Sequence[Parameter], texts: Mapping[str, str]) -> None:
        kind: Value = TypedDict  # as a plain value: type checkers require literal fields
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
        """Return the arguments in the parameters' types. A null for a parameter with a default counts as missing.

        Raises:
            ArgumentsError: they do not fit.
        """
        plain = plain_arguments(given)
        try:
            return self._adapter.validate_json(json.dumps(plain))
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False, include_context=False)
        wrong = {item["loc"][0] for item in errors if item["loc"]}
        nulls = {name for name in wrong & self._optional if name in plain and plain[name] is None}
        if nulls:
            return self.read({name: item for name, item in plain.items() if name not in nulls})
        raise ArgumentsError("; ".join(_told(item, self.schema) for item in errors[:MOST_TOLD]))


def _field(parameter: Parameter, text: str | None) -> Value:
    """Return a parameter as the field of a `TypedDict`. A description in its `Field` wins over the docstring."""
    hint, default = parameter.hint, parameter.default
    if isinstance(default, FieldInfo):
        hint = cast("Value", Annotated[hint, default])
    field = FieldInfo.from_annotation(hint)
    if text and field.description is None:
        hint = Annotated[hint, Field(description=text)]
    open_ended = field.is_required() and (default is NO_DEFAULT or isinstance(default, FieldInfo))
    wanted: Value = Required if open_ended else NotRequired
    return wanted[hint]


def _finished(schema: dict[str, Value], parameters: Iterable[Parameter]) -> Values:
    """Return the schema with the function's defaults, if they are JSON values."""
    schema.pop("title", None)
    for parameter in parameters:
        said = schema["properties"].get(parameter.name)
        if (
            said is not None
            and parameter.default not in (NO_DEFAULT, None)
            and not isinstance(parameter.default, FieldInfo)
        ):
            said |= _default(parameter.default)
    return schema


def _default(value: Value) -> dict[str, Value]:
    try:
        return {"default": json.loads(json.dumps(to_jsonable_python(value), allow_nan=False))}
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return {}


def _culprit(function: str, parameters: Iterable[Parameter]) -> OptionError:
    """Return the error that names the parameter of which pydantic cannot make a schema."""
    allowed = "a type of which pydantic can make a JSON Schema"
    for parameter in parameters:
        try:
            TypeAdapter(parameter.hint).json_schema(schema_generator=_Schemas)
        except (PydanticUserError, TypeError, NameError):
            return OptionError("Tool", f"{function}({parameter.name})", parameter.hint, allowed)
    return OptionError("Tool", function, [parameter.name for parameter in parameters], f"parameters, each of {allowed}")


def _told(error: ErrorDetails, schema: Values) -> str:
    where = ".".join(map(str, error["loc"])) or "arguments"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return f"{where}: {unknown_name(schema['properties'])}"
    return f"{where}: {'it is required' if error['type'] == 'missing' else error['msg']}"
