"""Shares with their intervals: Wilson's interval, that of an F1, the exact test of McNemar, and how many rows it takes.

An interval is one of 95 %: of a hundred samples of such rows, some 95 have an interval that covers the true share.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, exp, fsum, lgamma, log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Z = 1.959963984540054
"""How many standard deviations of a normal distribution lie on each side of 95 %."""

EXACT_ROWS = 2_000
"""Up to how many rows `mcnemar` counts in whole numbers; for more, in logarithms (ten digits are right)."""

_LOG_2 = log(2)

MOST_ROWS = 10**9
"""The most rows that `rows_needed` names."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of some rows, and between which values it lies.

    Attributes:
        count: how many rows are in the part.
        of: how many rows there are.
        value: the part, from 0 to 1; None of no rows.
        low: the lower end of its 95 % interval (Wilson); None of no rows.
        high: the upper end; None of no rows.
    """

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None

    @property
    def width(self) -> float | None:
        """How wide the interval is; None of no rows."""
        return None if self.low is None or self.high is None else self.high - self.low


def share_of(count: int, of: int) -> Share:
    """Return a part of some rows with its interval."""
    if of == 0:
        return Share(count, 0, None, None, None)
    low, high = wilson(count, of)
    return Share(count, of, count / of, low, high)


def wilson(count: float, of: int) -> tuple[float, float]:
    """Return the interval of Wilson for ``count`` of ``of`` rows, at 95 %.

    Raises:
        ValueError: there are no rows, or the count is not within them.
    """
    if of < 1 or not 0 <= count <= of:
        raise ValueError(f"{count} of {of} rows are no share")
    rate = count / of
    middle = (rate + Z * Z / (2 * of)) / (1 + Z * Z / of)
    half = Z / (1 + Z * Z / of) * sqrt(rate * (1 - rate) / of + Z * Z / (4 * of * of))
    # Rounding may lead past the ends, which the formula meets exactly.
    return 0.0 if count == 0 else max(0.0, middle - half), 1.0 if count == of else min(1.0, middle + half)


def f1_share(right: int, wrong: int, missed: int) -> Share:
    """Return an F1 with its interval.

    F1 is 2J / (1 + J), where J is the share of right ones among all that were found or are labelled: the interval is
    that of J, carried over. ``count`` and ``of`` are those of J.
    """
    jaccard = share_of(right, right + wrong + missed)
    if jaccard.value is None or jaccard.low is None or jaccard.high is None:
        return jaccard
    value = 2 * right / (2 * right + wrong + missed)
    low, high = (2 * end / (1 + end) for end in (jaccard.low, jaccard.high))
    return Share(jaccard.count, jaccard.of, value, low, high)


def mcnemar(one: int, other: int) -> float:
    """Return the exact two-sided p-value of McNemar.

    That is how likely it is that rows which differ at all are split at least this unevenly, if each of the two
    outcomes were as likely as the other. 1 if no row differs.

    Args:
        one: how many rows only the first workflow has right (or flags).
        other: how many rows only the second has right (or flags).
    """
    total, least = one + other, min(one, other)
    if total == 0:
        return 1.0
    if total > EXACT_ROWS:
        return min(1.0, 2 * fsum(_log_binomials(total, least)))
    # Whole numbers are added and divided exactly; floats would overflow from a thousand rows on.
    tail: int = 2 * sum(comb(total, count) for count in range(least + 1))
    whole: int = 2**total
    return min(1.0, tail / whole)


def _log_binomials(total: int, least: int) -> Iterator[float]:
    """Yield how likely each number of heads up to ``least`` is, from the most likely on, while it counts at all."""
    for count in range(least, -1, -1):
        power = lgamma(total + 1) - lgamma(count + 1) - lgamma(total - count + 1) - total * _LOG_2
        likely = exp(power)
        if likely == 0.0:
            return
        yield likely


def rows_needed(rate: float, width: float) -> int:
    """Return how many rows it takes until the interval of such a share is no wider than that.

    Args:
        rate: the share, from 0 to 1, as far as it is known.
        width: the width of the interval, above 0.

    Raises:
        ValueError: the share or the width is out of range.
    """
    if not 0 <= rate <= 1 or not width > 0:
        raise ValueError(f"a share of {rate} has no interval of the width {width}")
    return rows_until(lambda rows: _width(rate, rows) <= width)


def rows_until(holds: Callable[[int], bool]) -> int:
    """Return the least number of rows for which something holds that then goes on to hold; at most `MOST_ROWS`."""
    low, high = 0, 1
    while high < MOST_ROWS and not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return min(high, MOST_ROWS)


def _width(rate: float, rows: int) -> float:
    low, high = wilson(rate * rows, rows)
    return high - low
