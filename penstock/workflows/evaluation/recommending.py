"""Which threshold to take: chosen on one half of the rows, reported on the other, and none of too few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.evaluation.curves import threshold_for
from penstock.workflows.evaluation.intervals import rows_needed, rows_until, wilson
from penstock.workflows.evaluation.results import Recommendation, RowsToCollect

if TYPE_CHECKING:
    from penstock.workflows.evaluation.curves import ScoreHeaps

RATE = 0.01
"""The rate of false alarms that a recommended threshold keeps, unless another is given."""

FACTOR = 5
"""How far above a rate its interval may end where a threshold is chosen by the rate alone."""

POSITIVES = 20
"""How many rows with something to find each half must have: of fewer, no recall can be told."""


def recommend(first: ScoreHeaps, second: ScoreHeaps, rate: float) -> Recommendation:
    """Return the lowest threshold that keeps a rate on the first half, with its figures on the second.

    With labels, the rate is that of false alarms, and each half must have so many rows with nothing to find that none
    flagged among them would show that the rate is kept. Without labels, the rate is that of flagged rows, and each half
    must be so large that the interval of this rate ends below `FACTOR` times the rate.
    """
    labelled = len(first.negatives) + len(first.positives) + len(second.negatives) + len(second.positives)
    if not labelled:
        return _by_rate(first, second, rate)
    needed = rows_needed(0.0, rate)
    negatives = min(len(first.negatives), len(second.negatives))
    positives = min(len(first.positives), len(second.positives))
    collect = RowsToCollect(_both_halves(needed - negatives), _both_halves(POSITIVES - positives))
    chosen_on = len(first.negatives)
    if collect:
        why = f"there are too few rows for a rate of false alarms of {rate:.4g}"
        return Recommendation("labels", rate, None, chosen_on, None, needed, why, collect)
    threshold = threshold_for(first.negatives, rate, first.positives)
    assert threshold is not None, "there are rows"  # noqa: S101
    return Recommendation("labels", rate, threshold, chosen_on, second.at(threshold), needed, "")


def _both_halves(lacking: int) -> int:
    """Return how many rows to collect if so many are lacking in the smaller half: half of them go to the other one."""
    return 2 * max(0, lacking)


def _by_rate(first: ScoreHeaps, second: ScoreHeaps, rate: float) -> Recommendation:
    needed = rows_until(lambda rows: wilson(rate * rows, rows)[1] <= FACTOR * rate)
    rows = min(len(first.unlabelled), len(second.unlabelled))
    if rows < needed:
        why = f"there are too few rows for a rate of {rate:.4g}"
        collect = RowsToCollect(unlabelled=_both_halves(needed - rows))
        return Recommendation("rate", rate, None, len(first.unlabelled), None, needed, why, collect)
    threshold = threshold_for(first.unlabelled, rate)
    assert threshold is not None, "there are rows"  # noqa: S101
    return Recommendation("rate", rate, threshold, len(first.unlabelled), second.at(threshold), needed, "")
