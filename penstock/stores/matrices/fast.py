"""`FastMatrix`: vector search with numpy, as one product of a matrix and a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.stores.matrices import DIGITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.stores.matrices import MatrixQuery, VectorRow

Floats: TypeAlias = NDArray[np.float32]
Exact: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

SLACK = 1e-4
"""The largest error of a product of 32-bit floats. Vectors nearer to the limit than that are calculated again with 64
bits."""

LEAST = -2.0
"""Below every cosine, and above the score of vectors that are excluded."""

FEW = 4
"""If at most one row in this many is searched, those rows are copied and multiplied alone. If at least one row in this
many is dropped, the others are copied into a new matrix."""


class FastMatrix:
    """The vectors of one index, as rows of a matrix that doubles when it is full.

    Each row is scaled by a power of two, which changes none of its digits, to a length of 0.5 to 1. So no product
    overflows, and vectors of one direction have one score.
    """

    def __init__(self, length: int) -> None:
        self._rows: Floats = np.empty((0, length), np.float32)
        self._lengths: Exact = np.empty(0, np.float64)
        self._seqs: NDArray[np.int64] = np.empty(0, np.int64)
        self._threads: NDArray[np.int32] = np.empty(0, np.int32)
        self._resources: NDArray[np.int32] = np.empty(0, np.int32)
        self._codes: dict[str, int] = {}
        self._live: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._count = 0

    def append(self, rows: Sequence[VectorRow]) -> None:
        """Add vectors."""
        joined = np.frombuffer(b"".join([row.vector for row in rows]), "<f4")
        given: Exact = joined.reshape(-1, self._rows.shape[1]).astype(np.float64)
        lengths: Exact = np.sqrt((given * given).sum(axis=1))
        some = np.flatnonzero(lengths)
        chosen = [rows[place] for place in some.tolist()]
        start, end = self._count, self._count + len(chosen)
        self._grow(end)
        self._lengths[start:end], scale = np.frexp(lengths[some])
        self._rows[start:end] = np.ldexp(given[some], -scale[:, None])
        self._live[start:end] = True
        self._seqs[start:end] = [row.seq for row in chosen]
        self._threads[start:end] = [self._code(row.thread_id) for row in chosen]
        self._resources[start:end] = [self._code(row.resource_id) for row in chosen]
        self._count = end

    def keep(self, seqs: Sequence[int]) -> None:
        """Drop all vectors except these, which are sorted. Dropped rows stay in the matrix until there are many."""
        stay = np.asarray(seqs, np.int64)
        own = self._seqs[: self._count]
        at = np.minimum(np.searchsorted(stay, own), max(len(stay) - 1, 0))
        self._live[: self._count] = stay[at] == own if len(stay) else False
        live = np.flatnonzero(self._live[: self._count])
        if len(live) * FEW <= self._count * (FEW - 1):
            self._compact(live)

    def _compact(self, live: Places) -> None:
        self._rows, self._lengths = self._rows[live], self._lengths[live]
        self._seqs, self._live = self._seqs[live], self._live[live]
        self._threads, self._resources = self._threads[live], self._resources[live]
        self._count = len(live)

    def nearest(self, search: MatrixQuery) -> list[tuple[int, float]]:
        """Return the numbers and scores of the nearest vectors; see `PlainMatrix.nearest`."""
        given: Exact = np.frombuffer(search.vector, "<f4").astype(np.float64)
        length = float(np.sqrt((given * given).sum()))
        if not length:
            return []
        direction = given / length
        places = self._candidates(direction.astype(np.float32), search)
        products: Exact = (self._rows[places] * direction).sum(axis=1)
        scores: Exact = np.clip(np.round(products / self._lengths[places], DIGITS), -1.0, 1.0)
        least = _last_of_largest(scores, search.limit)
        if search.threshold is not None:
            least = max(least, search.threshold)
        chosen = scores >= least
        return list(zip(self._seqs[places[chosen]].tolist(), scores[chosen].tolist(), strict=True))

    def _candidates(self, direction: Floats, search: MatrixQuery) -> Places:
        """Return the rows of the thread and resource that may be among the nearest."""
        asked = self._live[: self._count].copy()
        if search.thread_id is not None:
            asked &= self._threads[: self._count] == self._codes.get(search.thread_id, -1)
        if search.resource_id is not None:
            asked &= self._resources[: self._count] == self._codes.get(search.resource_id, -1)
        if np.count_nonzero(asked) * FEW <= self._count:
            places = np.flatnonzero(asked)
            few: Exact = _products(self._rows[places], direction) / self._lengths[places]
            return places[few >= _last_of_largest(few, search.limit) - SLACK]
        scores: Exact = _products(self._rows[: self._count], direction) / self._lengths[: self._count]
        scores[~asked] = -np.inf
        edge = max(_last_of_largest(scores, search.limit) - SLACK, LEAST)
        return np.flatnonzero(scores >= edge)

    def _grow(self, count: int) -> None:
        """Make room for a number of rows."""
        if count <= len(self._seqs):
            return
        room = max(count, 2 * self._count)
        self._rows = _with_room(self._rows, self._count, room)
        self._lengths = np.resize(self._lengths, room)
        self._live = np.resize(self._live, room)
        self._seqs = np.resize(self._seqs, room)
        self._threads = np.resize(self._threads, room)
        self._resources = np.resize(self._resources, room)

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))


def _with_room(rows: Floats, count: int, room: int) -> Floats:
    roomy: Floats = np.empty((room, rows.shape[1]), np.float32)
    roomy[:count] = rows[:count]
    return roomy


def _products(rows: Floats, direction: Floats) -> Floats:
    """Return the product of each row with a vector.

    It does not use ``@``: that calls BLAS, whose threads wait for each other. On two busy cores, 2,000 rows took 34 ms
    with it instead of 0.4 ms, while it is no faster for large matrices, where memory is the limit.
    """
    found: Floats = np.einsum("ij,j->i", rows, direction)
    return found


def _last_of_largest(scores: Exact, limit: int) -> float:
    """Return the smallest of the ``limit`` largest scores."""
    if limit >= len(scores):
        return float(scores.min(initial=1.0))
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
