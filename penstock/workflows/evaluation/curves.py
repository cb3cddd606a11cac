"""Figures of scores: curves, sweeps of a threshold, recall at fixed rates of false alarms, histograms.

A row whose score reaches the threshold is flagged.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.workflows.evaluation.figures import auc, average_precision, recall_at, share
from penstock.workflows.evaluation.intervals import Share, f1_share, share_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RATES = (0.001, 0.01, 0.05)
"""The rates of false alarms for which the recall is told."""

SWEPT = 101
"""How many thresholds a sweep has at most."""

POINTS = 200
"""How many points a drawn curve has at most."""

BINS = 20
"""How many bins a histogram of scores has, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The figures at one threshold.

    Attributes:
        threshold: the score from which a row is flagged.
        recall: the part of the positives that is flagged.
        false_alarms: the part of the negatives that is flagged; None without negatives.
        precision: the part of the flagged rows that is positive; None if nothing is.
    """

    threshold: float
    recall: float | None
    false_alarms: float | None
    precision: float | None


@dataclass(frozen=True, slots=True)
class SweptThreshold:
    """The effects of a threshold.

    Attributes:
        threshold: the score from which a row is flagged.
        flagged: the share of all rows that is flagged.
        precision: the share of the flagged rows that is positive.
        recall: the share of the positives that is flagged.
        false_alarms: the share of the negatives that is flagged.
        f1: the harmonic mean of precision and recall.
    """

    threshold: float
    flagged: Share
    precision: Share
    recall: Share
    false_alarms: Share
    f1: Share


@dataclass(frozen=True, slots=True)
class ScoreBin:
    """How many scores lie in a part of the range.

    Attributes:
        low: where it begins.
        high: where it ends; a score of exactly this belongs to the next bin, except in the last one.
        positives: how many positives score so.
        negatives: how many negatives.
        unlabelled: how many rows without a label.
    """

    low: float
    high: float
    positives: int
    negatives: int
    unlabelled: int

    @property
    def rows(self) -> int:
        """How many rows score so."""
        return self.positives + self.negatives + self.unlabelled


class Scores:
    """Scores of rows of one kind, sorted when they are first asked for. Eight bytes a score."""

    def __init__(self, given: Iterable[float] = ()) -> None:
        self._values = array("d", given)
        self._is_sorted = False

    def __len__(self) -> int:
        return len(self._values)

    def add(self, score: float, count: int = 1) -> None:
        """Add a score, once or several times."""
        if count == 1:
            self._values.append(score)
        else:
            self._values.extend([score] * count)
        self._is_sorted = False

    def joined(self, other: Scores) -> Scores:
        """Return the scores of both."""
        return Scores(self._values + other._values)

    @property
    def ordered(self) -> array[float]:
        """All scores, the lowest first."""
        if not self._is_sorted:
            self._values = array("d", sorted(self._values))
            self._is_sorted = True
        return self._values

    def reaching(self, threshold: float) -> int:
        """Return how many scores reach a threshold."""
        return len(self) - bisect_left(self.ordered, threshold)

    def next_above(self, score: float) -> float | None:
        """Return the lowest score that is higher than that; None if none is."""
        at = bisect_right(self.ordered, score)
        return self.ordered[at] if at < len(self) else None


@dataclass(frozen=True, slots=True)
class ScoreHeaps:
    """The scores of one step.

    Attributes:
        positives: those of rows with something to find.
        negatives: those of rows without.
        unlabelled: those of rows that do not say.
    """

    positives: Scores
    negatives: Scores
    unlabelled: Scores

    def of(self, truth: bool | None) -> Scores:  # noqa: FBT001 - the label of a row
        """Return the scores of the rows with a label."""
        return self.unlabelled if truth is None else self.positives if truth else self.negatives

    def joined(self, other: ScoreHeaps) -> ScoreHeaps:
        """Return the scores of both halves of the rows."""
        return ScoreHeaps(
            self.positives.joined(other.positives),
            self.negatives.joined(other.negatives),
            self.unlabelled.joined(other.unlabelled),
        )

    @property
    def all(self) -> Scores:
        """The scores of all rows."""
        return self.positives.joined(self.negatives).joined(self.unlabelled)

    def at(self, threshold: float) -> SweptThreshold:
        """Return the effects of a threshold on these rows."""
        right, wrong = self.positives.reaching(threshold), self.negatives.reaching(threshold)
        others = self.unlabelled.reaching(threshold)
        rows = len(self.positives) + len(self.negatives) + len(self.unlabelled)
        return SweptThreshold(
            threshold,
            share_of(right + wrong + others, rows),
            share_of(right, right + wrong),
            share_of(right, len(self.positives)),
            share_of(wrong, len(self.negatives)),
            f1_share(right, wrong, len(self.positives) - right),
        )

    @property
    def auc(self) -> float | None:
        """How often a positive scores above a negative; None without one of both."""
        return auc(self.positives.ordered, self.negatives.ordered)

    @property
    def average_precision(self) -> float | None:
        """The precision at each score that occurs, weighed by the recall it adds; None without one of both."""
        return average_precision(self.positives.ordered, self.negatives.ordered) if len(self.negatives) else None

    def recall_at(self, rate: float) -> Share | None:
        """Return the share of positives above the lowest threshold that flags at most that part of the negatives."""
        found = recall_at(self.positives.ordered, self.negatives.ordered, rate)
        return None if found is None else share_of(round(found * len(self.positives)), len(self.positives))


def curve(heaps: ScoreHeaps, most: int | None = None) -> list[CurvePoint]:
    """Return a point for each score that occurs, the highest threshold first.

    Args:
        heaps: the scores.
        most: at most so many points, evenly chosen; the first and the last are always among them. None: all.
    """
    positives, negatives = heaps.positives.ordered, heaps.negatives.ordered
    distinct = array("d", (score for score, _ in groupby(merge(positives, negatives))))
    distinct.reverse()
    thresholds: Sequence[float] = distinct
    if most is not None and len(distinct) > most:
        step = (len(distinct) - 1) / (most - 1)
        thresholds = [distinct[round(number * step)] for number in range(most)]
    points: list[CurvePoint] = []
    for threshold in thresholds:
        right, wrong = heaps.positives.reaching(threshold), heaps.negatives.reaching(threshold)
        points.append(
            CurvePoint(
                threshold, share(right, len(positives)), share(wrong, len(negatives)), share(right, right + wrong)
            )
        )
    return points


def sweep(heaps: ScoreHeaps, most: int = SWEPT) -> tuple[SweptThreshold, ...]:
    """Return the effects of thresholds, from the lowest to the highest: evenly spaced ones between 0 and 1."""
    last = most - 1
    return tuple(heaps.at(number / last) for number in range(most))


def histogram(heaps: ScoreHeaps, bins: int = BINS) -> tuple[ScoreBin, ...]:
    """Return how many scores lie in each of some equal parts of 0 to 1; what lies outside is in the first or last."""
    made: list[ScoreBin] = []
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        counts = [
            (len(scores) if number == 0 else scores.reaching(low))
            - (0 if number == bins - 1 else scores.reaching(high))
            for scores in (heaps.positives, heaps.negatives, heaps.unlabelled)
        ]
        made.append(ScoreBin(low, high, *counts))
    return tuple(made)


def bin_of(score: float, bins: int = BINS) -> int:
    """Return the number of the bin of `histogram` in which a score lies."""
    number = max(0, min(bins - 1, int(score * bins)))
    while number + 1 < bins and score >= (number + 1) / bins:
        number += 1
    while number > 0 and score < number / bins:
        number -= 1
    return number


def threshold_for(scores: Scores, rate: float, others: Scores | None = None) -> float | None:
    """Return a threshold that flags at most a part of the rows, and is as low as the scores allow; None without rows.

    It lies between two scores, about in the middle, with as few digits as that takes.

    Args:
        scores: the scores of the rows of which so many may be flagged.
        rate: the part of them.
        others: further scores, which are not counted, but which the threshold lies between, too.
    """
    ranked: Sequence[float] = scores.ordered
    if not ranked:
        return None
    allowed = int(rate * len(ranked))
    if allowed >= len(ranked):
        return ranked[0]
    limit = ranked[len(ranked) - 1 - allowed]  # the highest score that must not be flagged
    above = [heap.next_above(limit) for heap in (scores, others or Scores())]
    return number_between(limit, min((score for score in above if score is not None), default=max(1.0, limit + ABOVE)))


ABOVE = 0.01
"""How far above the highest score a threshold may lie that no row reaches."""


def number_between(low: float, high: float) -> float:
    """Return a number above ``low`` and not above ``high``, near their middle, with as few digits as possible."""
    for digits in range(1, 17):
        made = round((low + high) / 2, digits)
        if low < made <= high:
            return made
    return high
