"""From margins to scores and limits, for moderation; it knows no features.

A score for content is calibrated on the OpenAI set: a rising curve without flat stretches, which ranks texts as margins
do. A machine for requests speaks only above its limit, where its scores begin at the category's threshold.
"""

from __future__ import annotations

from math import fsum, sqrt
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.linear.model import Curve
from penstock.detection.moderation import REQUEST
from training import moderation_rows as rows
from training.fitting import at_false_positive_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from training.rows import Row

Point = tuple[float, float]

HARMLESS, SAFE, NONE = 0.003, 0.012, 0.05
"""The false positives a category may have: of harmless prompts, of safe ones that look unsafe, and of the texts of the
OpenAI set that it does not apply to."""
ASKED_HARMLESS, ASKED_SAFE, ASKED_NONE = 0.002, 0.014, 0.005
"""The same for the machine that knows requests."""


class Limits(NamedTuple):
    """The margins from which on a category counts, and the score that stands for both."""

    content: float
    request: float
    threshold: float


def limits(category: str, left: Mapping[str, Sequence[float]], texts: Sequence[rows.Text]) -> Limits:
    """Return the limits of a category, from margins of texts that were left out of training."""
    content = _limit(left[category], category, texts, (HARMLESS, SAFE, NONE))
    asked = left.get(f"{category}{REQUEST}")
    request = content if asked is None else _limit(asked, category, texts, (ASKED_HARMLESS, ASKED_SAFE, ASKED_NONE))
    score = Curve(content_curve(left[category], category, texts))(content)
    return Limits(content, request, round(score + 0.0001, 4))


def _limit(
    margins: Sequence[float], category: str, texts: Sequence[rows.Text], rates: tuple[float, float, float]
) -> float:
    """Return the margin at which none of three kinds of texts has more false positives than it may."""
    pools: list[list[float]] = [[], [], []]
    for margin, text in zip(margins, texts, strict=True):
        kinds = (text.row.set in rows.BENIGN, rows.safe(text.row), _known(text.row, category) is False)
        for pool, within in zip(pools, kinds, strict=True):
            pool.extend([margin] * within)
    return max(at_false_positive_rate(pool, rate) for pool, rate in zip(pools, rates, strict=True))


def _known(row: Row, category: str) -> bool | None:
    return rows.content(row, category) if row.set == rows.OPENAI else None


def request_curve(left: Sequence[float], bounds: Limits) -> list[Point]:
    """Return nought below the limit, and from there on a score that rises from the threshold."""
    low = round(bounds.request, 4)
    points = [(low, 0.0), (round(low + 0.0001, 4), bounds.threshold)]
    return [*points, (round(max(*left, low + 1), 4), max(0.95, bounds.threshold))]


def content_curve(left: Sequence[float], category: str, texts: Sequence[rows.Text]) -> list[Point]:
    """Return a curve like a sigmoid that fits the shares of the positives best, by least squares over a grid."""
    said = [(margin, _known(text.row, category)) for margin, text in zip(left, texts, strict=True)]
    known = [(margin, positive) for margin, positive in said if positive is not None]
    grid = [(steep / 4, middle / 20) for steep in range(2, 41) for middle in range(-10, 41)]
    steep, middle = min(grid, key=lambda pair: _error(known, *pair))
    return [(at / 8, round(_sigmoid(steep * (at / 8 - middle)), 7)) for at in range(-32, 33)]


def _sigmoid(x: float) -> float:
    return (1 + x / sqrt(1 + x * x)) / 2


def _error(known: Sequence[tuple[float, bool]], steep: float, middle: float) -> float:
    return fsum((_sigmoid(steep * (margin - middle)) - positive) ** 2 for margin, positive in known)
