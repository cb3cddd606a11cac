"""The vectors of an index in memory, to be searched whole: with numpy where it is installed, else without."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGITS = 6
"""To how many digits scores are rounded: vectors are kept as floats of 32 bits, which know seven. Equal ones are so."""


class VectorRow(NamedTuple):
    """A vector of an index: its number, which is never given again, whose it is, and itself as bytes."""

    seq: int
    thread_id: str
    resource_id: str
    vector: bytes


class MatrixQuery(NamedTuple):
    """What is looked for: vectors near one, how many, of which thread and resource (None: any), the least score."""

    vector: bytes
    limit: int
    thread_id: str | None = None
    resource_id: str | None = None
    threshold: float | None = None


class Matrix(Protocol):
    """The vectors of one index. Those of zeros have no direction: they are never found."""

    def append(self, rows: Sequence[VectorRow]) -> None:
        """Take more vectors in."""
        ...

    def keep(self, seqs: Sequence[int]) -> None:
        """Let go of all but these, which are sorted."""
        ...

    def nearest(self, search: MatrixQuery) -> list[tuple[int, float]]:
        """Return the numbers and scores of the nearest, in no order; all of those that are equal to the last of them.

        So there may be more than were asked for: the caller knows which of equal ones come first.
        """
        ...


def matrix(length: int) -> Matrix:
    """Return an empty matrix for vectors of that many numbers."""
    if find_spec("numpy") is None:
        from penstock.stores.matrices.plain import PlainMatrix

        return PlainMatrix()
    from penstock.stores.matrices.fast import FastMatrix

    return FastMatrix(length)
