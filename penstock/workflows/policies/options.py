"""The options of processors and presets in a policy file: their names, and the form of the values that they take.

Both follow from the constructor: the schema that editors read and the check of a file are made of the same forms.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import typing_extensions

from penstock.engine.processor.processor import AnyProcessor, Processor
from penstock.engine.values.frozen import Value
from penstock.processors.guards.guard_options import GUARD_OPTIONS
from penstock.workflows.hints import Unknown, evaluated, hints_of, without_none

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from penstock.workflows.policies.registry import Maker

Json: TypeAlias = dict[str, Value]
"""A part of a JSON Schema."""

_LISTS: tuple[object, ...] = (list, tuple, set, frozenset, Iterable, Sequence, Collection, AbstractSet)
_MAPPINGS: tuple[object, ...] = (dict, Mapping)
_PLAIN: Mapping[object, Json] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string"},
    Decimal: {"type": ["number", "string"]},
    object: {},
    Any: {},
    Unknown: {},
}
VARIABLE: Json = {"$ref": "#/$defs/variable"}
"""The schema of a variable of the environment, which may stand in place of any value."""


def option_names(maker: Maker) -> frozenset[str] | None:
    """Return the names of the options; None if any is taken."""
    names: set[str] = set()
    for name, parameter in _parameters(maker).items():
        if parameter.kind is parameter.VAR_KEYWORD:
            if "GuardOptions" not in str(parameter.annotation):
                return None
            names |= GUARD_OPTIONS
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            names.add(name)
    return frozenset(names)


def required_names(maker: Maker) -> list[str]:
    """Return the names of the options without a default."""
    return [
        name
        for name, parameter in _parameters(maker).items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


@lru_cache(maxsize=1_000)
def _parameters(maker: Maker) -> dict[str, inspect.Parameter]:
    if isinstance(maker, type) and maker.__init__ is object.__init__:  # type: ignore[misc]
        return {}
    with suppress(TypeError, ValueError):  # what has no signature
        return dict(inspect.signature(maker).parameters)
    return {}


# The form of values


def is_class_of_processors(maker: object) -> TypeIs[type[AnyProcessor]]:
    """Return whether a maker is a class of processors, not a function."""
    return isinstance(maker, type) and issubclass(maker, Processor)


@lru_cache(maxsize=1_000)
def option_shapes(maker: Maker) -> Mapping[str, Json | None]:
    """Return the JSON Schema of each option by its type; None for one that only Python can give: a function, a store.

    Options whose type cannot be found take any value: ``{}``. So does every option where any is taken.
    """
    if is_class_of_processors(maker):
        hints: Mapping[str, object] = hints_of(maker)
    else:
        annotations = inspect.get_annotations(maker)
        hints = {name: evaluated(hint, maker.__module__) for name, hint in annotations.items()}
    return {name: _shape(hints.get(name, Unknown)) for name in option_names(maker) or ()}


def may_be_null(maker: Maker, option: str) -> bool:
    """Return whether an option takes null: it does where that is its default."""
    parameter = _parameters(maker).get(option)
    return parameter is None or parameter.default is None


def _shape(hint: object) -> Json | None:
    """Return the schema of a type; None if no value of a file is of it."""
    alternatives, nullable = without_none(hint)
    found = [shape for one in alternatives if (shape := _single(one)) is not None]
    if {} in found:
        return {}
    if not found:
        return None
    shapes = [*found, *([{"type": "null"}] if nullable else [])]
    if all(shape.get("type") != "string" or "enum" in shape for shape in shapes):
        shapes.append(VARIABLE)  # that of a text is a text anyway
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _single(hint: object) -> Json | None:
    origin, args = typing_extensions.get_origin(hint), typing_extensions.get_args(hint)
    if isinstance(hint, (str, typing.ForwardRef, typing.TypeVar)):
        return {}
    if origin in (Literal, typing_extensions.Literal):
        return {"enum": list(args)}
    if origin is not None and origin in _LISTS:
        items = _shape(args[0]) if args else {}
        return None if items is None else list_schema(items)
    if hint in _LISTS:
        return list_schema({})
    if (origin or hint) in _MAPPINGS:
        return _entries(args)
    if typing_extensions.is_typeddict(hint):
        return {"type": "object"}
    return dict(_PLAIN[hint]) if hint in _PLAIN else None


def _entries(args: tuple[object, ...]) -> Json | None:
    values = _shape(args[1]) if len(args) > 1 else {}
    keys = _single(args[0]) if args else {}
    names = {"propertyNames": keys} if keys and "enum" in keys else {}
    return None if values is None else {**mapping_schema(values), **names}


def list_schema(items: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def mapping_schema(values: Json) -> Json:
    """Return the schema of a mapping of any names."""
    return {"type": "object", "additionalProperties": values}
