"""Vectors of an index in memory, searched one by one: with numpy if it is installed, else in plain Python."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.stores.matrices.fast import FastMatrix
    from penstock.stores.matrices.plain import PlainMatrix

DIGITS = 6
"""To how many decimals scores are rounded: 32-bit floats have seven digits. Scores that are then equal count as
equal."""


class VectorRow(NamedTuple):
    """A vector of an index: its number, which is never reused, its thread and resource, and its bytes."""

    seq: int
    thread_id: str
    resource_id: str
    vector: bytes


class MatrixQuery(NamedTuple):
    """A vector to search for, how many to return, of which thread and resource (None: any), and the lowest score."""

    vector: bytes
    limit: int
    thread_id: str | None = None
    resource_id: str | None = None
    threshold: float | None = None


def matrix(length: int) -> PlainMatrix | FastMatrix:
    """Return an empty matrix for vectors of a length. Vectors of zeros have no direction and are never found."""
    if find_spec("numpy") is None:
        from penstock.stores.matrices.plain import PlainMatrix

        return PlainMatrix()
    from penstock.stores.matrices.fast import FastMatrix

    return FastMatrix(length)
