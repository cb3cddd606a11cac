"""Schemas of Python types, by pydantic, which is loaded only with this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from pydantic import TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_jsonable_python
from pydantic_core.core_schema import ErrorType

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.models.judges.schemas import tightened
from penstock.processors.structure.schemas import OWNER, ObjectSchema, SchemaMismatchError, SchemaProblem, mismatch

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value


_SAFE_TO_QUOTE = frozenset(get_args(ErrorType)) - {
    "value_error",
    "assertion_error",
    "union_tag_invalid",
}  # these may quote the answer


class TypeSchema(ObjectSchema):
    """The schema of a type: a pydantic model, a dataclass, a TypedDict, or any other that pydantic can validate."""

    def __init__(self, given: Value) -> None:
        try:
            self._adapter: TypeAdapter[Value] = TypeAdapter(given)
            own = self._adapter.json_schema()
        except (PydanticUserError, NameError) as error:
            allowed = "a type that pydantic can validate and describe by a JSON Schema, or a JSON Schema"
            raise OptionError(OWNER, "schema", given, allowed) from error
        held = own.get("type") != "object"
        asked = create_model("Answer", value=(given, ...)).model_json_schema() if held else own
        super().__init__(given, own, _bare_references(tightened(asked)), held=held)

    def validate_json(self, written: str) -> Value:
        try:
            return self._adapter.validate_json(written)
        except ValidationError as error:
            found: Exception = (
                error  # quotes the answer, so it must not become the context of the error: raise that below
            )
        except Exception as error:  # noqa: BLE001 - validators are written by users, and may raise anything
            found = error
        if isinstance(found, ValidationError):
            raise self._mismatch(found, written)
        raise mismatch(f"it could not be validated ({type(found).__name__})", "validator")

    def validate_python(self, value: Value) -> Value:
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            found = error
        raise self._mismatch(found, "null")

    def to_json(self, value: Value) -> Value:
        try:
            return from_json(self._adapter.dump_json(value, by_alias=True))
        except PydanticSerializationError:
            return to_jsonable_python(value, by_alias=True, fallback=lambda part: type(part).__name__)

    def _mismatch(self, error: ValidationError, written: str) -> SchemaMismatchError:
        data: Value = from_json(written)
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return SchemaMismatchError(
            *(
                SchemaProblem(
                    self._shape.named(data, each["loc"]),
                    each["type"],
                    (each["msg"] if each["type"] in _SAFE_TO_QUOTE else "it is not allowed")
                    + (f" ({each['loc'][-1]})" if each["type"] == "missing" else ""),
                )
                for each in found
            )
        )


def _bare_references(schema: Value) -> Value:
    """Return the schema without keys next to a reference: providers refuse these."""
    if is_items(schema):
        return [_bare_references(item) for item in schema]
    if not is_mapping(schema):
        return schema
    if isinstance(schema.get("$ref"), str):
        schema = {name: item for name, item in schema.items() if name in ("$ref", "$defs")}
    return {name: _bare_references(item) for name, item in schema.items()}
