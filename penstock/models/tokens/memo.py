"""`Memo`: remembers what was found, up to a bound; it knows nothing of what it remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")

MOST = 16_384
"""How many things a generation holds; a conversation of so many messages is remembered whole."""

HEAVIEST = 4_000_000
"""What all things of a generation may weigh together (characters)."""


class Memo(Generic[K, V]):
    """A mapping of two generations: what was not asked for while a whole new one filled up is forgotten.

    Safe to use from several threads: what one forgets another finds anew.
    """

    __slots__ = ("_new", "_old", "_weigh", "_weight")

    def __init__(self, weigh: Callable[[K], int]) -> None:
        self._weigh = weigh
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._weight = 0

    def get(self, key: K) -> V | None:
        """Return what is remembered, or None."""
        found = self._new.get(key)
        if found is None and self._old:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember; what would weigh too much alone is not."""
        weight = self._weigh(key) + 64
        if weight > HEAVIEST // 8:
            return
        if len(self._new) >= MOST or self._weight + weight > HEAVIEST:
            self._old, self._new, self._weight = self._new, {}, 0
        self._new[key] = value
        self._weight += weight

    def __len__(self) -> int:
        """Return how much is remembered."""
        return len(self._new) + len(self._old)
