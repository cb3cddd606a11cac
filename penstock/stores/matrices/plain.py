"""`PlainMatrix`: vector search in plain Python, about 10 µs a vector."""

from __future__ import annotations

import struct
from heapq import nlargest
from math import hypot
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from penstock.stores.matrices import DIGITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.stores.matrices import MatrixQuery, VectorRow


class _PlainRow(NamedTuple):
    thread_id: str
    resource_id: str
    direction: tuple[float, ...]


class PlainMatrix:
    """The vectors of one index, by number, scaled to length 1."""

    def __init__(self) -> None:
        self._kept: dict[int, _PlainRow] = {}

    def append(self, rows: Sequence[VectorRow]) -> None:
        """Add vectors."""
        for row in rows:
            direction = _direction(row.vector)
            if direction:
                self._kept[row.seq] = _PlainRow(row.thread_id, row.resource_id, direction)

    def keep(self, seqs: Sequence[int]) -> None:
        """Drop all vectors except these."""
        stay = set(seqs)
        self._kept = {seq: kept for seq, kept in self._kept.items() if seq in stay}

    def nearest(self, search: MatrixQuery) -> list[tuple[int, float]]:
        """Return the numbers and scores of the nearest vectors, in no order.

        All vectors with the same score as the last one are returned, so there may be more than the limit: the caller
        decides which of equal ones come first.
        """
        direction = _direction(search.vector)
        scores = [
            (seq, max(-1.0, min(1.0, round(sum(map(mul, direction, kept.direction)), DIGITS))))
            for seq, kept in self._kept.items()
            if search.thread_id in {None, kept.thread_id} and search.resource_id in {None, kept.resource_id}
        ]
        if not direction or not scores:
            return []
        last = nlargest(search.limit, [score for _, score in scores])[-1]
        least = last if search.threshold is None else max(last, search.threshold)
        return [(seq, score) for seq, score in scores if score >= least]


def _direction(vector: bytes) -> tuple[float, ...]:
    """Return the vector scaled to length 1; a vector of zeros is empty."""
    numbers: tuple[float, ...] = struct.unpack(f"<{len(vector) // 4}f", vector)
    length = hypot(*numbers)
    return tuple([number / length for number in numbers]) if length else ()
