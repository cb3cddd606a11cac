"""`FastMatrix`: vectors searched with numpy, as one product of a matrix and a vector; it knows no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.processors.storage.matrices import DIGITS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.processors.storage.matrices import Row, Search

Floats: TypeAlias = NDArray[np.float32]
Exact: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

SLACK = 1e-5
"""By how much a product of floats of 32 bits may be off; what is nearer to the edge is calculated again with 64."""

FEW = 4
"""Where at most one in so many rows is asked for, they are copied out and multiplied alone."""


class FastMatrix:
    """The vectors of one index, each of length 1, as rows of a matrix that grows by doubling."""

    def __init__(self, length: int) -> None:
        self._rows: Floats = np.empty((0, length), np.float32)
        self._seqs: NDArray[np.int64] = np.empty(0, np.int64)
        self._threads: NDArray[np.int32] = np.empty(0, np.int32)
        self._resources: NDArray[np.int32] = np.empty(0, np.int32)
        self._codes: dict[str, int] = {}
        self._count = 0

    def append(self, rows: Sequence[Row]) -> None:
        """Take more vectors in."""
        given = np.frombuffer(b"".join([row.vector for row in rows]), "<f4").reshape(len(rows), -1).astype(np.float64)
        lengths: Exact = np.sqrt((given * given).sum(axis=1))
        some = np.flatnonzero(lengths)
        chosen = [rows[place] for place in some.tolist()]
        start, end = self._count, self._count + len(chosen)
        self._grow(end)
        self._rows[start:end] = given[some] / lengths[some, None]
        self._seqs[start:end] = [row.seq for row in chosen]
        self._threads[start:end] = [self._code(row.thread_id) for row in chosen]
        self._resources[start:end] = [self._code(row.resource_id) for row in chosen]
        self._count = end

    def keep(self, seqs: Collection[int]) -> None:
        """Let go of all but these."""
        stay = np.isin(self._seqs[: self._count], np.fromiter(seqs, np.int64, len(seqs)))
        self._rows = self._rows[: self._count][stay]
        self._seqs = self._seqs[: self._count][stay]
        self._threads = self._threads[: self._count][stay]
        self._resources = self._resources[: self._count][stay]
        self._count = len(self._seqs)

    def nearest(self, search: Search) -> list[tuple[int, float]]:
        """Return the numbers and scores of the nearest; see `Matrix`."""
        given: Exact = np.frombuffer(search.vector, "<f4").astype(np.float64)
        length = float(np.sqrt((given * given).sum()))
        places = self._asked_for(search)
        if not length or not len(places):
            return []
        direction = given / length
        places = self._candidates(direction.astype(np.float32), places, search.limit)
        exact: Exact = (self._rows[places] * direction).sum(axis=1)  # each row in the same way, unlike a product's
        scores: Exact = np.clip(np.round(exact, DIGITS), -1.0, 1.0)
        least = float(_largest(scores, search.limit))
        if search.threshold is not None:
            least = max(least, search.threshold)
        chosen = scores >= least
        return list(zip(self._seqs[places[chosen]].tolist(), scores[chosen].tolist(), strict=True))

    def _asked_for(self, search: Search) -> Places:
        """Return the places of the rows of the thread and resource asked for."""
        asked = np.ones(self._count, np.bool_)
        if search.thread_id is not None:
            asked &= self._threads[: self._count] == self._codes.get(search.thread_id, -1)
        if search.resource_id is not None:
            asked &= self._resources[: self._count] == self._codes.get(search.resource_id, -1)
        return np.flatnonzero(asked)

    def _candidates(self, direction: Floats, places: Places, limit: int) -> Places:
        """Return the places of those that may be among the nearest."""
        if len(places) * FEW <= self._count:
            scores: Floats = self._rows[places] @ direction
        else:
            scores = (self._rows[: self._count] @ direction)[places]
        return places[scores >= _largest(scores, limit) - SLACK]

    def _grow(self, count: int) -> None:
        """Make room for that many rows."""
        if count <= len(self._seqs):
            return
        room = max(count, 2 * self._count)
        self._rows = _with_room(self._rows, self._count, room)
        self._seqs = np.resize(self._seqs, room)
        self._threads = np.resize(self._threads, room)
        self._resources = np.resize(self._resources, room)

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))


def _with_room(rows: Floats, count: int, room: int) -> Floats:
    roomy: Floats = np.empty((room, rows.shape[1]), np.float32)
    roomy[:count] = rows[:count]
    return roomy


def _largest(scores: Floats | Exact, limit: int) -> float:
    """Return the score of the last of the largest."""
    if limit >= len(scores):
        return float(scores.min())
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
