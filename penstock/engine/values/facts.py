"""Facts: values that steps find out for other steps, under typed keys.

A step that puts a fact declares its key in ``provides``, one that needs it in ``requires``. Both are checked when the
graph is built.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, cast, final, get_args
from weakref import WeakValueDictionary

from typing_extensions import TypeVar

from penstock.engine.values.frozen import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import TypeIs

    from penstock.engine.values.frozen import Value

T = TypeVar("T", default=Any)


@final
class Key(Generic[T]):
    """The typed name of a fact: ``LANGUAGE = Key[str]("language")``. Keys with the same name are one object.

    Attributes:
        name: the name.
    """

    __slots__ = ("__weakref__", "_types", "name")

    name: str
    _types: tuple[object, ...]

    @property
    def __orig_class__(self) -> object:
        """The class; `typing` sets it with its type, ``Key[str]``, where a key is made."""
        return Key

    @__orig_class__.setter
    def __orig_class__(self, given: object) -> None:
        type = get_args(given)[0]
        if not isinstance(type, TypeVar) and type not in self._types:
            self._types = (*self._types, type)

    @property
    def value_type(self) -> object:
        """The type that was given in brackets, ``Key[str]("language")``; None if there was none, or several."""
        return self._types[0] if len(self._types) == 1 else None

    def __new__(cls, name: str) -> Self:
        """Return the key of that name."""
        if not name:
            text = "a fact's key needs a name"
            raise ValueError(text)
        with _keys_lock:
            known = _keys.get(name)
            if known is None:  # one object for each name, so that the facts are found without calling Python
                known = _keys[name] = super().__new__(cls)
                known.name, known._types = name, ()
        return cast("Self", known)

    def __reduce__(self) -> tuple[type[AnyKey], tuple[str]]:
        """Pickle the name."""
        return (Key, (self.name,))

    def __repr__(self) -> str:
        """Show the name."""
        return f"Key({self.name!r})"


AnyKey: TypeAlias = Key[Any]
"""A key of any type."""

_keys: WeakValueDictionary[str, AnyKey] = WeakValueDictionary()
_keys_lock = Lock()

Facts: TypeAlias = "Mapping[AnyKey, Value]"
"""Facts by key."""


def is_key(value: object) -> TypeIs[AnyKey]:
    """Tell whether an object is a key, to a type checker too."""
    return isinstance(value, Key)


def laid_over(now: Facts, before: Facts, after: Facts) -> Facts:
    """Return ``now`` with the facts that changed from ``before`` to ``after``."""
    if after is before:
        return now
    changed = {key: fact for key, fact in after.items() if key not in before or before[key] is not fact}
    return FrozenDict({**now, **changed})
