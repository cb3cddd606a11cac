"""Read and write Penstock's own JSON form: the fields of the values under their own names, with a ``type`` for parts.

Pydantic validates what is read, and makes the JSON Schema. It is imported when it is first needed; its models are
derived from the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Union, get_type_hints

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import PART_TYPES, Message
from penstock.formats.wire import Json, Value, expect_object, read_time, reader, write_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel, TypeAdapter, ValidationError

    from penstock.engine.values.messages import Part

__all__ = ["FORMAT", "LEAVES_OUT", "PART_CLASSES", "adapter", "json_schema", "read", "write"]

FORMAT = "penstock"
LEAVES_OUT: frozenset[str] = frozenset()

PART_CLASSES: dict[str, type[Part]] = {
    str(next(field.default for field in fields(kind) if field.name == "type")): kind for kind in PART_TYPES
}
"""The class of each type of part."""


def _read_message(value: Value, place: str) -> Iterable[Message]:
    from pydantic import ValidationError

    item = expect_object(value, place, "a message")
    try:
        found = adapter().validate_python(item)
    except ValidationError as error:
        raise _explained(error, place) from None
    said = _said(found)
    said["parts"] = tuple(_read_part(part) for part in said.get("parts", ()))
    if "created_at" in said:
        said["created_at"] = read_time(said["created_at"])
    return [Message(**said)]


read = reader(_read_message, names=False)


def _read_part(found: BaseModel) -> Part:
    said = _said(found)
    return PART_CLASSES[said.pop("type")](**said)


def _said(found: BaseModel) -> Json:
    """Return the fields that were given."""
    return {name: getattr(found, name) for name in found.model_fields_set}


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as JSON objects; fields that hold their default are left out."""
    return [_write_message(message) for message in messages]


def _write_message(message: Message) -> Json:
    body = _write_fields(message)
    body["parts"] = [{"type": part.type, **_write_fields(part)} for part in message.parts]
    if message.created_at is not None:
        body["created_at"] = write_time(message.created_at)
    return body


def _write_fields(value: Message | Part) -> Json:
    found = ((field, getattr(value, field.name)) for field in fields(value) if field.name != "parts")
    return {field.name: thaw(item) for field, item in found if field.default is MISSING or item != field.default}


@cache
def adapter() -> TypeAdapter[BaseModel]:
    """Return the validator of one message in this form; built once."""
    from pydantic import Field as Described, TypeAdapter

    union: Value = Union[tuple(_model(kind) for kind in PART_TYPES)]  # noqa: UP007  # there is no | for a tuple
    parts: Value = list[Annotated[union, Described(discriminator="type")]]
    return TypeAdapter(_model(Message, parts=(parts, ())))


def _model(kind: type[Value], **given: Value) -> type[BaseModel]:
    """Return a model with the fields of one of the values; unknown fields are refused, so that none is lost."""
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(kind, localns={"Mapping": Mapping, "datetime": datetime})
    shape: Json = {}
    for field in fields(kind):
        default: Value = None if field.default is MISSING else field.default
        is_open = field.default is MISSING or field.name == "type"
        shape[field.name] = (hints[field.name], ... if is_open else thaw(default))
    config = ConfigDict(extra="forbid", title=kind.__name__)
    model: type[BaseModel] = create_model(kind.__name__, __config__=config, __doc__=kind.__doc__, **{**shape, **given})
    return model


def json_schema() -> Json:
    """Return the JSON Schema of one message."""
    return adapter().json_schema()


def _explained(error: ValidationError, place: str) -> MessageError:
    """Return our error for the first of pydantic's: where it is, and what is expected; never the value."""
    first = error.errors(include_url=False, include_context=False)[0]
    path = list(first["loc"])
    if path[:1] == ["parts"] and path[2:]:
        del path[2]  # the tag, which pydantic counts as a step
    if first["type"] == "extra_forbidden":
        path.pop()  # a name that the caller chose, which may be a secret like any value
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    found = type(first["input"]).__name__
    match first["type"]:
        case "missing":
            problem = "it is missing"
        case "extra_forbidden":
            problem = "it has a field that does not exist; what has no field belongs in metadata"
        case "model_type" | "model_attributes_type":
            problem = f"expected an object, not {found}"
        case "union_tag_not_found" | "union_tag_invalid":
            problem = (
                f"expected a type that is one of {', '.join(PART_CLASSES)}; other parts go into an unknown part's raw"
            )
        case _:
            problem = f"expected {first['msg'].removeprefix('Input should be ')}, not {found}"
    return MessageError(f"{place}{where}", problem)
