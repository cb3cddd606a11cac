"""From margins that were not trained on to a curve and a threshold; and from a plane to bytes. It knows no text."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from penstock.processors.detectors.linear.packing import Head

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
    adjacent violators), and until each pool has at least ``least`` texts.
    """
    pools: list[tuple[int, int, float]] = []  # texts, positives among them, sum of the margins
    for value, positive in sorted(zip(margins, positives, strict=True)):
        pools.append((1, int(positive), value))
        while len(pools) > 1 and (pools[-2][0] < least or pools[-1][1] * pools[-2][0] <= pools[-2][1] * pools[-1][0]):
            (count, hits, total), (more, others, rest) = pools[-2:]
            pools[-2:] = [(count + more, hits + others, total + rest)]
    return [(round(total / count, 4), round((hits + 1) / (count + 2), 4)) for count, hits, total in pools]


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
