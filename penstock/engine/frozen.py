"""Read-only mappings and deep freezing; it knows nothing of messages.

Values that parallel steps share must not change under their feet, so whatever enters a value is frozen on the way in.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed: compares, prints, pickles and dumps to JSON like one."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
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

    def __or__(self, other: Any) -> FrozenDict[K, V]:  # type: ignore[override]
        """Return a new frozen mapping with the other's items laid over."""
        return FrozenDict({**self, **other})


EMPTY: FrozenDict[str, Any] = FrozenDict()
"""The empty mapping, shared."""


def freeze(value: Any) -> Any:
    """Return the value with every dict, list and set in it made read-only; other objects are taken as they are."""
    kind = type(value)
    if kind is str or kind is int or kind is FrozenDict:
        return value
    if isinstance(value, dict):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if kind is list or kind is tuple:
        return tuple(freeze(item) for item in value)
    if kind is set:
        return frozenset(value)
    return value


def thaw(value: Any) -> Any:
    """Return the value with plain dicts and lists in place of the frozen ones (for JSON and for foreign code)."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value
