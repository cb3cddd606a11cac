"""A generator of our own, so that no version of Python shuffles otherwise."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Chance:
    """A linear congruential generator (Knuth's MMIX constants, 64 bits, the upper half is used)."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        """Return a number from 0 up to ``limit``, which is left out; ``limit`` is at most 2**32."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 32) * limit >> 32

    def shuffle(self, items: list[T]) -> None:
        """Put a list into an order of chance, in place."""
        for at in range(len(items) - 1, 0, -1):
            other = self.below(at + 1)
            items[at], items[other] = items[other], items[at]
