"""Facts: values that steps find out for other steps, under typed keys.

A step that puts a fact declares its key in ``provides``, one that needs it in ``requires``. Both are checked when the
graph is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from typing_extensions import TypeVar

from penstock.engine.values.frozen import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import TypeIs

    from penstock.engine.values.frozen import Value

T = TypeVar("T", default=Any)


class Key(Generic[T]):
    """The typed name of a fact: ``LANGUAGE = Key[str]("language")``. Keys with the same name are equal."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not name:
            text = "a fact's key needs a name"
            raise ValueError(text)
        self.name = name

    def __eq__(self, other: object) -> bool:
        """Tell whether both name the same fact."""
        return isinstance(other, Key) and self.name == other.name

    def __hash__(self) -> int:
        """Hash by name."""
        return hash(("fact", self.name))

    def __repr__(self) -> str:
        """Show the name."""
        return f"Key({self.name!r})"


AnyKey: TypeAlias = Key[Any]
"""A key of any type."""

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
