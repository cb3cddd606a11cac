"""`Curve`: a rising line through given points, which turns margins into scores. Pure."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Curve:
    """A monotone, piecewise linear function; flat before its first point and after its last."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        """Take at least one point, as (x, y); both rise, x strictly."""
        self.points = tuple(points)
        self._xs = [x for x, _ in points]

    def __call__(self, x: float) -> float:
        at = bisect_right(self._xs, x)
        if at == 0:
            return self.points[0][1]
        if at == len(self.points):
            return self.points[-1][1]
        (left, low), (right, high) = self.points[at - 1 : at + 1]
        return low + (high - low) * ((x - left) / (right - left))
