"""Read-only mappings (`FrozenDict`), and functions that freeze values deeply."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, cast

from penstock.engine.values.errors import MessageError

if TYPE_CHECKING:
    from typing_extensions import TypeIs


Value: TypeAlias = Any
"""A value of the users' that the engine only carries: a JSON value, a setting, a fact, the state of a step.

`Any`, because only its user knows its shape: with `object`, or a recursive union for JSON, each reader had to narrow
every layer of what it knows already. Signatures say `Value` for this and `Any` for what the engine itself cannot type.
"""

Values: TypeAlias = Mapping[str, Value]
"""Values by name."""

Layer: TypeAlias = "dict[Value, Value] | list[Value] | tuple[Value, ...] | str | float | None"
"""A JSON value whose outermost layer a type checker sees, so that ``isinstance`` narrows it: for what walks values."""

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed: compares, prints, pickles and dumps to JSON like one."""

    __slots__ = ()

    def _refuse(self: object, *_: object, **__: object) -> NoReturn:
        text = "this mapping is read-only: build a new one, {**old, 'key': value}"
        raise TypeError(text)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash by keys: equal mappings have equal ones, and values need not be hashable."""
        return hash(frozenset(self))

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        """Pickle as class and plain dict."""
        return (FrozenDict, (dict(self),))

    def __copy__(self) -> FrozenDict[K, V]:
        """Return itself: it cannot change."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> FrozenDict[K, V]:
        """Return itself: frozen values hold frozen values."""
        return self

    def __or__(self, other: Mapping[K, V]) -> FrozenDict[K, V]:  # type: ignore[override]
        """Return a new frozen mapping with the other's items laid over."""
        return FrozenDict({**self, **other})


EMPTY: FrozenDict[str, Value] = FrozenDict()
"""The empty mapping, shared."""


DEEPEST = 200
"""How many levels of lists and mappings a value may have: what walks values walks them by recursion."""


def freeze(value: Value) -> Value:
    """Return the value with every dict, list and set in it made read-only; other objects stay as they are.

    Raises:
        MessageError: it is nested deeper than `DEEPEST` levels.
    """
    return _frozen(value, 0)


def _frozen(value: Value, depth: int) -> Value:
    anything: object = value  # a checker knows the type of an object, but not of an `Any`
    kind = type(anything)
    if kind is str or kind is int or kind is FrozenDict:
        return value
    if depth > DEEPEST:
        raise MessageError("", f"a value is nested deeper than {DEEPEST} levels; flatten it")
    below = depth + 1
    if issubclass(kind, dict) or kind is MappingProxyType:
        return FrozenDict({key: _frozen(item, below) for key, item in value.items()})
    if kind is list or kind is tuple:
        return tuple([_frozen(item, below) for item in value])
    return frozenset(value) if kind is set else value


def thaw(value: Layer) -> Value:
    """Return the value with plain dicts and lists in place of the frozen ones (for JSON and for foreign code).

    Raises:
        MessageError: it is nested too deeply; what `freeze` has accepted is not.
    """
    try:
        return _thawed(value)
    except RecursionError:
        raise MessageError("", f"a value is nested deeper than {DEEPEST} levels; flatten it") from None


def _thawed(value: Layer) -> Value:
    if isinstance(value, dict):
        return {key: _thawed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_thawed(item) for item in value]
    return value


def equal(one: Value, other: Value) -> bool:
    """Tell whether two JSON values are equal, as ``==`` does, but layer by layer.

    To compare large values at once is one long step, in which no other thread runs.
    """
    if one is other:
        return True
    if is_mapping(one) and is_mapping(other):
        return len(one) == len(other) and all(key in other and equal(item, other[key]) for key, item in one.items())
    if is_items(one) and type(one) is type(other):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def is_mapping(value: object) -> TypeIs[dict[Value, Value]]:
    """Tell whether a value is a dict. After `isinstance`, a type checker would not know the types of its items."""
    return isinstance(value, dict)


def is_items(value: object) -> TypeIs[list[Value] | tuple[Value, ...]]:
    """Tell whether a value is a list or a tuple, with types for a type checker."""
    return isinstance(value, (list, tuple))


def json_value(value: Value, place: str) -> Value:
    """Return the value frozen; ``place`` says in an error where it stands, for example ``result``.

    A JSON value is None, a bool, int, float or str, a list or tuple of such, or a mapping from str to such.

    Raises:
        MessageError: it contains a value that JSON does not have, or is nested deeper than `DEEPEST` levels. The error
            names the place without keys, which may be secret: ``result.*[2]`` is index 2 under some key.
    """
    return _checked(value, place, 0)


def _checked(value: object, place: str, depth: int) -> Value:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if depth >= DEEPEST:
        outermost = place.split(".", 1)[0].split("[", 1)[0]
        raise MessageError(outermost, f"it is nested deeper than {DEEPEST} levels; flatten it")
    if is_items(value):
        return tuple(
            [
                item if type(item) in _SIMPLE else _checked(item, f"{place}[{index}]", depth + 1)
                for index, item in enumerate(value)
            ]
        )
    if not isinstance(value, Mapping):
        cure = "convert it first, or a guard could not read the text in it"
        raise MessageError(place, f"expected a JSON value, not {type(value).__name__}; {cure}")
    mapping = cast("Mapping[object, object]", value)
    odd = next((key for key in mapping if not isinstance(key, str)), "")
    if not isinstance(odd, str):
        raise MessageError(place, f"expected a mapping with str keys, but a key is of type {type(odd).__name__}")
    below = f"{place}.*"
    return FrozenDict(
        {key: item if type(item) in _SIMPLE else _checked(item, below, depth + 1) for key, item in mapping.items()}
    )


_SIMPLE = frozenset({type(None), str, bool, int, float})
