"""Values made of the types of the `openai` package, so that a new field or type there is found here."""

from __future__ import annotations

import inspect
import types
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel
from typing_extensions import is_typeddict

if TYPE_CHECKING:
    from collections.abc import Iterable

WORD = "word"
_PLAIN: dict[Any, list[Any]] = {
    str: [WORD], int: [1], float: [1], bool: [True], object: [{"a": WORD}], Any: [WORD], type(None): [],
}  # fmt: skip


def values_of(kind: Any, depth: int = 9) -> list[Any]:
    """Return values of a type: one for each form of each field, with all fields filled in."""
    if isinstance(kind, str) or depth == 0:
        return []
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Annotated, Required, NotRequired):
        return values_of(inner[0], depth)
    if origin is Literal:
        return list(inner[:1])
    if origin in (Union, types.UnionType):
        return _without_repeats(value for one in inner for value in values_of(one, depth - 1))
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
        return _objects(fields, depth)
    if is_typeddict(kind):
        return _objects(get_type_hints(kind, include_extras=True), depth)
    if origin is dict:
        return [{WORD: value} for value in values_of(inner[1], depth - 1)] or [{}]
    if inner:  # some kind of list
        return [[value] for value in values_of(inner[0], depth - 1)] or [[]]
    return [WORD]


def _objects(fields: dict[str, Any], depth: int) -> list[dict[str, Any]]:
    forms = {name: values_of(kind, depth - 1) for name, kind in fields.items()}
    usual = {name: found[0] for name, found in forms.items() if found}
    return [usual, *({**usual, name: value} for name, found in forms.items() for value in found[1:])]


def _without_repeats(values: Iterable[Any]) -> list[Any]:
    made: list[Any] = []
    for value in values:
        if value not in made:
            made.append(value)
    return made
