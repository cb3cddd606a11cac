"""False alarms and misses a day at a given traffic, and how many rows it takes to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.evaluation.intervals import rows_needed
from penstock.workflows.evaluation.results import Daily, Traffic

if TYPE_CHECKING:
    from penstock.workflows.evaluation.intervals import Share
    from penstock.workflows.evaluation.results import Verdicts

KNOWN = 0.001
"""A share is known well if its interval is no wider than the share itself, or than this, if that is more."""


def traffic_of(verdicts: Verdicts, rows: int, base_rate: float, cost: float | None = None) -> Traffic:
    """Return the effects of a workflow in a day.

    Args:
        verdicts: how often it was right on labelled rows.
        rows: the number of rows a day.
        base_rate: the share of them with something to find.
        cost: the cost of judges for a row; None: it is not known.
    """
    bad = rows * base_rate
    false_alarms, misses = _daily(verdicts.false_alarms, rows - bad), _daily(verdicts.misses, bad)
    precision: float | None = None
    if false_alarms.value is not None and misses.value is not None:
        found = bad - misses.value
        precision = found / (found + false_alarms.value) if found + false_alarms.value else None
    return Traffic(rows, base_rate, false_alarms, misses, precision, None if cost is None else cost * rows)


def _daily(share: Share, a_day: float) -> Daily:
    """Return how many rows a day a share stands for."""
    if share.value is None or share.low is None or share.high is None:
        return Daily(None, None, None, _needed(0.0) if a_day else 0)
    needed = _needed(share.value) if a_day else 0
    ends = (share.value * a_day, share.low * a_day, share.high * a_day)
    return Daily(*ends, max(0, needed - share.of))


def _needed(rate: float) -> int:
    return rows_needed(rate, max(KNOWN, rate))
