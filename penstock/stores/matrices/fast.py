"""`FastMatrix`: vectors searched with numpy, as one product of a matrix and a vector; it knows no store."""

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
"""By how much a product of floats of 32 bits may be off; what is nearer to the edge is calculated again with 64."""

LEAST = -2.0
"""Less than any cosine, more than what was not asked for."""

FEW = 4
"""Where at most one row in so many is asked for, they are copied out and multiplied alone; where at least one row in so
many is unwanted, the others are copied into a new matrix."""


class FastMatrix:
    """The vectors of one index, as rows of a matrix that grows by doubling.

    Each is scaled by a power of two, which changes none of its digits, to a length of 0.5 to 1: so no product is too
    large, and those of one direction have one score.
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
        """Take more vectors in."""
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
        """Let go of all but these. They stay where they are, unwanted, until there are many."""
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
        """Return the numbers and scores of the nearest; see `Matrix`."""
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
        """Return the places of those that may be among the nearest of the thread and resource asked for."""
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
        """Make room for that many rows."""
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

    Not by ``@``: that asks BLAS, whose threads wait for each other. On two busy cores 2,000 rows took it 34 ms instead
    of 0.4, while for as many rows as memory can bring in time it is no faster.
    """
    found: Floats = np.einsum("ij,j->i", rows, direction)
    return found


def _last_of_largest(scores: Exact, limit: int) -> float:
    """Return the least of so many of the largest."""
    if limit >= len(scores):
        return float(scores.min(initial=1.0))
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
