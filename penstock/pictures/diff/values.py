"""Values of options as leaves that can be shown and compared.

An object inside an option is compared by its public attributes, a function by its name and its code. Strings that may
be secrets are compared, but shown as ``***``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import pathlib
import re
import types
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.values.model import Usage
from penstock.engine.values.secret_names import HIDDEN, is_secret, without_password
from penstock.pictures.diff.fields import Leaf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from penstock.pictures.diff.fields import Json

_DEEPEST = 5
_WHOLE = (
    *(str, bytes, bool, int, float, list, tuple, set, frozenset, type),
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType),
    *(functools.partial, enum.Enum, re.Pattern),
)
"""The classes whose values have no parts with names."""

_PRINTED = (
    pathlib.PurePath,
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    range,
    type(...),
)
"""The classes whose values are shown as they print."""


def flat(name: str, value: object) -> dict[str, Leaf]:
    """Return a value as its leaves, by dotted name; those of mappings and of objects with public attributes."""
    return dict(_flat(name, value, secret=is_secret(name), above=()))


def _flat(name: str, value: object, *, secret: bool, above: tuple[int, ...]) -> Iterator[tuple[str, Leaf]]:
    here = id(value)
    parts = None if here in above or len(above) > _DEEPEST else _parts(value)
    if not parts:
        yield name, _leaf(value, secret=secret, above=above)
        return
    if not isinstance(value, Mapping):
        yield name, Leaf({"class": type(value).__qualname__}, _kind(type(value)))
    for key, part in parts.items():
        if not isinstance(part, Usage):  # what it has used so far is none of its options
            yield from _flat(f"{name}.{key}", part, secret=secret or is_secret(key), above=(*above, here))


def _parts(value: object) -> dict[str, object] | None:
    """Return the named parts of a mapping or an object; None where it has none."""
    if isinstance(value, Mapping):
        return {str(key): part for key, part in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (*_WHOLE, *_PRINTED)):
        return None
    return _attributes(value)


def _attributes(value: object) -> dict[str, object]:
    """Return the public attributes of an object, and its name."""
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value)]
    else:
        kinds = type(value).__mro__
        slots = [name for kind in kinds for name in _strings(vars(kind).get("__slots__", ()))]
        named = any(isinstance(vars(kind).get("name"), property) for kind in kinds)
        names = [*getattr(value, "__dict__", ()), *slots, *(["name"] if named else [])]
    return {name: getattr(value, name, None) for name in names if not name.startswith("_")}


def _strings(names: str | Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


def _leaf(value: object, *, secret: bool, above: tuple[int, ...]) -> Leaf:
    if isinstance(value, str):
        return Leaf(HIDDEN if secret else without_password(value), value)
    if value is None or isinstance(value, (bool, int, float)):
        return Leaf(value, (type(value) is bool, value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return _several(cast("Iterable[object]", value), secret=secret, above=above)
    if isinstance(value, enum.Enum):
        return Leaf(value.name, value)
    if isinstance(value, re.Pattern):
        pattern = cast("re.Pattern[str]", value)
        return Leaf(HIDDEN if secret else without_password(str(pattern.pattern)), (pattern.pattern, pattern.flags))
    if isinstance(value, _PRINTED):
        return Leaf(HIDDEN if secret else without_password(str(value)), value)
    if callable(value):
        return Leaf(HIDDEN if secret else condition_label(value), code_of(value, above))
    return Leaf({"class": type(value).__qualname__}, _compared(value))


def _several(values: Iterable[object], *, secret: bool, above: tuple[int, ...]) -> Leaf:
    """Return a list as one leaf; a set is sorted by the shown values of its items."""
    if id(values) in above or len(above) > _DEEPEST:
        return Leaf({"class": type(values).__qualname__}, None)
    leaves = [_item(one, secret=secret, above=(*above, id(values))) for one in values]
    if isinstance(values, (set, frozenset)):
        leaves.sort(key=lambda leaf: (repr(leaf.shown), repr(leaf.compared)))
    return Leaf([leaf.shown for leaf in leaves], [leaf.compared for leaf in leaves])


def _item(value: object, *, secret: bool, above: tuple[int, ...]) -> Leaf:
    """Return an item of a list; one with parts as a mapping of them."""
    leaves = dict(_flat("", value, secret=secret, above=above))
    if len(leaves) == 1 and "" in leaves:
        return leaves[""]
    shown: dict[str, Json] = {}
    for name, leaf in leaves.items():
        shown[name.removeprefix(".") or "class"] = _class_name(leaf.shown)
    return Leaf(shown, {name: leaf.compared for name, leaf in leaves.items()})


def _class_name(shown: Json) -> Json:
    return shown["class"] if isinstance(shown, dict) and list(shown) == ["class"] else shown


def _compared(value: object) -> object:
    """Return the object to compare for one without public parts: itself if its class defines ``==``, else its class."""
    return value if type(value).__eq__ is not object.__eq__ else _kind(type(value))


def _kind(kind: type[object]) -> object:
    return kind.__qualname__


# Code


def code_of(called: object, above: tuple[int, ...] = ()) -> object:
    """Return the object to compare for a function, a class or another callable.

    That is its code without line numbers, so that a file that was loaded twice, or has a line more, is the same.

    Args:
        called: the function or object.
        above: the ids of the objects that it was found in; in many, it is compared by its name.
    """
    here = (*above, id(called))
    if isinstance(called, type) or len(above) > _DEEPEST:
        return getattr(called, "__qualname__", type(called).__qualname__)
    if isinstance(called, functools.partial):
        filled = cast("functools.partial[object]", called)
        return (code_of(filled.func, here), [_value(one, here) for one in filled.args], _value(filled.keywords, here))
    if isinstance(called, types.MethodType):
        return (code_of(called.__func__, here), _value(called.__self__, here))
    if isinstance(called, types.FunctionType):
        cells = [cell.cell_contents for cell in called.__closure__ or () if _filled(cell)]
        return (_code(called.__code__), _value(called.__defaults__, here), [_value(one, here) for one in cells])
    return _value(called, above) if _parts(called) else _compared(called)


def class_code(kind: type[object]) -> object:
    """Return the code of a class and of the classes below it that are not part of Penstock."""
    own = [one for one in kind.__mro__ if one is not object and not one.__module__.startswith(("penstock.", "typing"))]
    return [(one.__qualname__, _members(one)) for one in own]


def _members(kind: type[object]) -> dict[str, object]:
    plain = {name: getattr(one, "__func__", one) for name, one in vars(kind).items()}
    return {name: _code(one.__code__) for name, one in plain.items() if isinstance(one, types.FunctionType)}


def _value(value: object, above: tuple[int, ...]) -> object:
    """Return the object to compare for a value that a function holds."""
    return [(name, leaf.compared) for name, leaf in _flat("", value, secret=False, above=above)]


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _code(code: CodeType) -> tuple[object, ...]:
    inner = [_code(one) if isinstance(one, types.CodeType) else (type(one).__name__, one) for one in code.co_consts]
    return (code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_flags, *inner)
