"""The properties of the parts of a workflow, which a diff compares, as leaves that can be shown.

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
from penstock.engine.processor.processor import CLAIMS, FunctionProcessor, is_processor, option_parameters
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.facts import is_key
from penstock.engine.values.model import Usage
from penstock.engine.values.secret_names import HIDDEN, is_secret, items_without_secrets, without_secrets
from penstock.pictures.diff.fields import Leaf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from penstock.engine.graph.nodes import DagEdge, Policy, Step
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.pictures.diff.fields import Json
    from penstock.pictures.scene import Part


def leaves_of(part: Part) -> dict[str, Leaf]:
    """Return the properties of a part, by dotted name."""
    found: dict[str, Leaf] = {}
    if part.kind == "arm":
        return {} if part.otherwise else {"condition": _condition(part.condition)}
    if part.step:
        found.update(_step(part.step))
    elif part.kind in ("workflow", "steps"):
        found.update(_policy(part.policy))
    elif part.kind != "root":
        found["merge"] = _merge(part.merge)
    if part.kind == "branch":
        found["match"] = Leaf(part.match, part.match)
        found["on_error"] = Leaf(part.on_error, part.on_error)
    if part.member:
        found["after"] = _edges(part.after)
    return found


def _condition(condition: object) -> Leaf:
    return Leaf(condition_label(condition), (condition_label(condition), code_of(condition)))


def _merge(merge: object) -> Leaf:
    if merge is None or isinstance(merge, str):
        return Leaf(merge, merge)
    branch = getattr(merge, "branch", None)
    return Leaf(f"pick {branch}", branch) if isinstance(branch, str) else _condition(merge)


def _edges(edges: tuple[DagEdge, ...]) -> Leaf:
    leaves = [(edge.source, None if edge.when is None else _condition(edge.when)) for edge in edges]
    return Leaf(
        [source if when is None else f"{source} if {when.shown}" for source, when in leaves],
        [(source, None if when is None else when.compared) for source, when in leaves],
    )


def _step(step: Step) -> dict[str, Leaf]:
    claims = step.claims
    shown: dict[str, list[str] | str | bool] = {
        "role": claims.role,
        "edits": claims.edits,
        "on_error": claims.on_error,
        "stages": [name.removeprefix("process_") for name in claims.hooks],
        "provides": sorted(key.name for key in claims.provides),
        "requires": sorted(key.name for key in claims.requires),
        "stores": claims.stores,
    }
    found = {"processor": _processor(step.processor)}
    for name, value in shown.items():
        found[name] = Leaf([*value] if isinstance(value, list) else value, value)
    return {**found, **_policy(step.policy), **_options(step.processor)}


def _processor(processor: AnyProcessor) -> Leaf:
    kind = type(processor)
    hook = getattr(processor, "_hook", None) if isinstance(processor, FunctionProcessor) else None
    if hook is not None:
        return Leaf(f"function {getattr(hook, '__name__', '?')}", code_of(hook))
    return Leaf(kind.__qualname__, (kind.__qualname__, class_code(kind)))


def _options(processor: AnyProcessor) -> dict[str, Leaf]:
    """Return the public options that its claims do not say already."""
    found: dict[str, Leaf] = {}
    public = {name: one for name, one in vars(processor).items() if not name.startswith("_") and name not in STAGES}
    if type(processor).__module__.startswith("penstock."):  # its other attributes are made from its options
        named = {name: public.get(name, processor.option(name)) for name in option_parameters(processor)}
        public = {name: value for name, value in named.items() if name in public or value is not None}
    for name, value in public.items():
        if name == "options" and isinstance(value, Mapping):  # what was given; other attributes say what holds
            given = cast("Mapping[str, object]", value)
            unsaid = [flat(key, one) for key, one in given.items() if key not in public and key not in CLAIMS]
            found.update({f"options.{key}": leaf for leaves in unsaid for key, leaf in leaves.items()})
        elif name not in CLAIMS and not is_key(value):  # its claims name the keys
            found.update({f"options.{key}": leaf for key, leaf in _shown(processor, name, value).items()})
    return found


def _shown(processor: AnyProcessor, name: str, value: object) -> dict[str, Leaf]:
    """Return an option as its leaves; one that its processor hides is shown as the processor shows it."""
    leaves = flat(name, value)
    if name not in option_parameters(processor) or (may := processor.option(name)) is value:
        return leaves
    compared = [(key, leaf.compared) for key, leaf in leaves.items()]
    return {key: Leaf(leaf.shown, (leaf.compared, compared)) for key, leaf in flat(name, may).items()}


def _policy(policy: Policy) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}
    for one in dataclasses.fields(policy):
        value: object = getattr(policy, one.name)
        if is_processor(value):
            leaves = {"": Leaf(value.id, value.id), **_options(value)}
            found.update({f"policy.{one.name}{'.' if name else ''}{name}": leaf for name, leaf in leaves.items()})
        else:
            found.update(flat(f"policy.{one.name}", value))
    return found


# Values


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
        yield name, Leaf({"class": type(value).__qualname__}, type(value).__qualname__)
    for key, part in parts.items():
        if not isinstance(part, Usage):  # what it has used so far is none of its options
            yield from _flat(
                f"{name}.{without_secrets(key)}", part, secret=secret or is_secret(key), above=(*above, here)
            )


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
        given: list[str | Iterable[str]] = [vars(kind).get("__slots__", ()) for kind in kinds]
        slots = [name for each in given for name in ((each,) if isinstance(each, str) else each)]
        named = any(isinstance(vars(kind).get("name"), property) for kind in kinds)
        names = [*getattr(value, "__dict__", ()), *slots, *(["name"] if named else [])]
    return {name: getattr(value, name, None) for name in names if not name.startswith("_")}


def _leaf(value: object, *, secret: bool, above: tuple[int, ...]) -> Leaf:
    if isinstance(value, str):
        return Leaf(HIDDEN if secret else without_secrets(value), value)
    if value is None or isinstance(value, (bool, int, float)):
        return Leaf(value, (type(value) is bool, value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return _several(cast("Iterable[object]", value), secret=secret, above=above)
    if isinstance(value, enum.Enum):
        return Leaf(value.name, value)
    if isinstance(value, re.Pattern):
        pattern = cast("re.Pattern[str]", value)
        return Leaf(HIDDEN if secret else without_secrets(str(pattern.pattern)), (pattern.pattern, pattern.flags))
    if isinstance(value, _PRINTED):
        return Leaf(HIDDEN if secret else without_secrets(str(value)), value)
    if callable(value):
        return Leaf(HIDDEN if secret else condition_label(value), code_of(value, above))
    return Leaf({"class": type(value).__qualname__}, _compared(value))


def _several(values: Iterable[object], *, secret: bool, above: tuple[int, ...]) -> Leaf:
    """Return a list as one leaf; a set is sorted by the shown values of its items."""
    if id(values) in above or len(above) > _DEEPEST:
        return Leaf({"class": type(values).__qualname__}, None)
    items = list(values)
    leaves = [_item(one, secret=secret, above=(*above, id(values))) for one in items]
    if not secret and isinstance(values, (list, tuple)):
        shown = items_without_secrets(items)
        leaves = [
            Leaf(text, leaf.compared) if isinstance(text, str) else leaf
            for text, leaf in zip(shown, leaves, strict=True)
        ]
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
        of_class = isinstance(leaf.shown, dict) and list(leaf.shown) == ["class"]
        shown[name.removeprefix(".") or "class"] = (
            cast("dict[str, Json]", leaf.shown)["class"] if of_class else leaf.shown
        )
    return Leaf(shown, {name: leaf.compared for name, leaf in leaves.items()})


def _compared(value: object) -> object:
    """Return the object to compare for one without public parts: itself if its class defines ``==``, else its class."""
    return value if type(value).__eq__ is not object.__eq__ else type(value).__qualname__


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
    found: list[object] = []
    for one in kind.__mro__:
        if one is not object and not one.__module__.startswith(("penstock.", "typing")):
            plain = [(name, getattr(member, "__func__", member)) for name, member in vars(one).items()]
            code = {name: _code(each.__code__) for name, each in plain if isinstance(each, types.FunctionType)}
            found.append((one.__qualname__, code))
    return found


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
