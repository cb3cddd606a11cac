"""The arithmetic of the figures: matches, precision and recall, ROC-AUC, average precision, intervals. Pure."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from math import fsum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.detection.spans import Span

T = TypeVar("T")

ROUNDS = 200
"""How often texts are drawn anew for an interval."""
OUTSIDE = 0.025
"""The part of the rounds that lies below an interval, and above it: 95 % lie within."""
ENOUGH = 0.5
"""How far two stretches must overlap to be one: what they share, by what they cover together."""


Interval = tuple[float, float]
"""The lower and the upper end."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How often a detector was right.

    Attributes:
        right: found, and labelled so.
        wrong: found, but not labelled.
        missed: labelled, but not found.
    """

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.right + other.right, self.wrong + other.wrong, self.missed + other.missed)

    @property
    def labelled(self) -> int:
        """How many there are to be found."""
        return self.right + self.missed

    @property
    def precision(self) -> float | None:
        """The part of the found spans that is labelled; None if nothing was found."""
        return share(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float | None:
        """The part of the labelled spans that was found; None if nothing is labelled."""
        return share(self.right, self.labelled)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both; None if nothing is labelled and nothing was found."""
        return share(2 * self.right, 2 * self.right + self.wrong + self.missed)


def share(part: float, whole: int) -> float | None:
    """Return a part by the whole; None of nothing."""
    return part / whole if whole else None


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None


def overlap(one: Span, other: Span) -> float:
    """Return what two stretches share, by what they cover together: 0 to 1."""
    common = min(one.end, other.end) - max(one.start, other.start)
    return max(common, 0) / (one.end - one.start + other.end - other.start - max(common, 0))


def matches(found: Iterable[Span], labelled: Iterable[Span], enough: float = ENOUGH) -> dict[str, Counts]:
    """Return how often each type was right in one text.

    Found and labelled match if they are of one type and overlap by ``enough``; each matches once, the closest first.
    """
    by_type: defaultdict[str, tuple[list[Span], list[Span]]] = defaultdict(lambda: ([], []))
    for span in found:
        by_type[span.type][0].append(span)
    for span in labelled:
        by_type[span.type][1].append(span)
    return {kind: _pairs(*both, enough) for kind, both in by_type.items()}


def _pairs(found: Sequence[Span], labelled: Sequence[Span], enough: float) -> Counts:
    near = [(overlap(one, other), i, j) for i, one in enumerate(found) for j, other in enumerate(labelled)]
    taken: tuple[set[int], set[int]] = (set(), set())
    for close, i, j in sorted(near, key=lambda each: (-each[0], each[1:])):
        if close >= enough and i not in taken[0] and j not in taken[1]:
            taken[0].add(i)
            taken[1].add(j)
    right = len(taken[0])
    return Counts(right, len(found) - right, len(labelled) - right)


def interval(figure: Callable[[Sequence[Sequence[T]]], float | None], *heaps: Sequence[T]) -> Interval | None:
    """Return between which values a figure lies in 95 of 100 samples of such texts (a percentile bootstrap).

    Texts are drawn with replacement, from each heap as many as it has. The generator is seeded, so that the same texts
    give the same interval.

    Args:
        figure: the figure of heaps of texts; None if it has none.
        heaps: the known facts of each text, in heaps that are drawn from apart, such as positives and negatives.
    """
    draw = random.Random(0)  # noqa: S311 - no secret
    drawn = (figure([draw.choices(heap, k=len(heap)) for heap in heaps]) for _ in range(ROUNDS) if all(heaps))
    known = sorted(value for value in drawn if value is not None)
    if not known:
        return None
    outside = int(OUTSIDE * len(known))
    return known[outside], known[-1 - outside]


def auc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """Return how often a positive scores above a negative, equal scores counting half; None without one of both."""
    if not positives or not negatives:
        return None
    ranked = sorted(negatives)
    twice = sum(bisect_left(ranked, score) + bisect_right(ranked, score) for score in positives)
    return twice / (2 * len(positives) * len(negatives))


def average_precision(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """Return the precision at each score that occurs, weighed by the recall it adds; None without positives."""
    if not positives:
        return None
    ranked, others = sorted(positives, reverse=True), sorted(negatives)

    def parts() -> Iterator[float]:
        right = 0
        for score, same in groupby(ranked):
            hits = sum(1 for _ in same)
            right += hits
            yield hits * right / (right + len(others) - bisect_left(others, score))

    return fsum(parts()) / len(positives)


def recall_at(positives: Sequence[float], negatives: Sequence[float], rate: float) -> float | None:
    """Return the part of the positives above the lowest threshold that flags at most that part of the negatives.

    What scores the threshold or more is flagged. None without one of both.
    """
    if not positives or not negatives:
        return None
    ranked = sorted(negatives, reverse=True)
    allowed = int(rate * len(ranked))
    if allowed >= len(ranked):
        return 1.0
    limit = ranked[allowed]  # the first negative that must not be flagged
    return sum(score > limit for score in positives) / len(positives)


def macro_accuracy(right: Mapping[str, Counts]) -> float | None:
    """Return the mean over the classes of the part of each that was recognised."""
    return mean(counts.recall for counts in right.values())
