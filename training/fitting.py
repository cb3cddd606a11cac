"""From margins that were not trained on to a curve and a threshold; and from a plane to bytes. It knows no text."""

from __future__ import annotations

from array import array
from math import ceil
from typing import TYPE_CHECKING

from penstock.detection.linear.model import Curve, Head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from training.svm import Plane

Point = tuple[float, float]


def quantised(plane: Plane, clip: float = 1.0) -> tuple[array[int], float]:
    """Return weights as signed bytes, and what 1 is worth; ``clip`` is the share of the largest that is kept."""
    largest = max(map(abs, plane.weights)) or 1.0
    scale = largest * clip / 127
    return array("b", [max(-127, min(127, round(weight / scale))) for weight in plane.weights]), scale


def head(name: str, plane: Plane, points: Sequence[Point], threshold: float, clip: float = 1.0) -> Head:
    """Return a head as it is packed; figures are rounded to what a reader can check."""
    weights, scale = quantised(plane, clip)
    return Head(name, weights, float(f"{scale:.9g}"), round(plane.bias, 9), list(points), threshold)


def curve(margins: Sequence[float], positives: Sequence[bool], least: int = 40) -> list[Point]:
    """Return the points of a rising curve from margin to the share of positives there.

    The margins are those of texts that the plane was not trained on. Neighbours are pooled until the shares rise (pool
    adjacent violators), and until each pool has at least ``least`` texts. The curve begins at 0 and ends at 1, and is
    flat nowhere in between, so that scores rank texts as margins do.
    """
    pools: list[tuple[int, int, float]] = []  # texts, positives among them, sum of the margins
    for value, positive in sorted(zip(margins, positives, strict=True)):
        pools.append((1, int(positive), value))
        while len(pools) > 1 and (pools[-2][0] < least or pools[-1][1] * pools[-2][0] <= pools[-2][1] * pools[-1][0]):
            (count, hits, total), (more, others, rest) = pools[-2:]
            pools[-2:] = [(count + more, hits + others, total + rest)]
    points = [(round(total / count, 4), round((hits + 0.5) / (count + 1), 4)) for count, hits, total in pools]
    ends = (round(min(margins) - 1, 4), 0.0), (round(max(margins) + 1, 4), 1.0)
    risen = [ends[0]]
    for point in points:
        if point[0] > risen[-1][0] and 1.0 > point[1] > risen[-1][1]:
            risen.append(point)
    return [*risen, ends[1]]


def placed(points: Sequence[Point], margin: float) -> float:
    """Return the score that a curve gives a margin, rounded up: what is above the margin is not below the score."""
    return ceil(Curve(points)(margin) * 10_000) / 10_000


def at_false_positive_rate(margins: Sequence[float], rate: float) -> float:
    """Return the margin above which lies at most this share of the given margins of negatives."""
    ordered = sorted(margins, reverse=True)
    return ordered[int(rate * len(ordered))]


def auc(margins: Sequence[float], positives: Sequence[bool]) -> float:
    """Return the area under the ROC curve; ties count half."""
    ranked = sorted(zip(margins, positives, strict=True))
    below = halves = at = 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        hits = sum(positive for _, positive in ranked[at:end])
        misses = end - at - hits
        halves += hits * (2 * below + misses)
        below, at = below + misses, end
    return halves / (2 * below * (len(ranked) - below))
