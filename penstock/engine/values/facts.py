"""Facts: values that steps find out for other steps, under typed keys.

A step that puts a fact declares its key in ``provides``, one that needs it in ``requires``. Both are checked when the
graph is built.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, cast, final
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
    """The typed name of a fact: ``LANGUAGE = Key[str]("language")``. Keys with the same name are one object."""

    __slots__ = ("__weakref__", "name")

    name: str

    def __new__(cls, name: str) -> Self:
        """Return the key of that name."""
        if not name:
            text = "a fact's key needs a name"
            raise ValueError(text)
        with _keys_lock:
            known = _keys.get(name)
            if known is None:  # one object for each name, so that the facts are found without calling Python
                known = _keys[name] = super().__new__(cls)
                known.name = name
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
