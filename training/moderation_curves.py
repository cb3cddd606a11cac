"""From margins to scores and limits, for moderation; it knows no features.

A score for content is calibrated on the OpenAI set: a rising curve without flat stretches, which ranks texts as margins
do. The scores of the categories are joined with that of ``any``, and limits are set on what comes out. A machine for
requests speaks only above its limit, where its scores begin at the category's threshold.
"""

from __future__ import annotations

from math import fsum, sqrt
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.linear.model import Curve
from penstock.detection.moderation import CATEGORIES, joined
from training import moderation_rows as rows
from training.fitting import at_false_positive_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from training.rows import Row

Point = tuple[float, float]

HARMLESS, SAFE, NONE = 0.0015, 0.014, 0.05
"""The false positives a category may have: of harmless prompts, of XSTest's safe ones that look unsafe, and of the
texts of the OpenAI set that it does not apply to."""
ASKED_HARMLESS, ASKED_SAFE, ASKED_NONE = 0.002, 0.006, 0.005
"""The same for the machine that knows requests."""


class Limits(NamedTuple):
    """The score from which on a category counts, and the margin from which on a request for it does; 0 if unknown."""

    threshold: float
    request: float


def joined_scores(left: Mapping[str, Sequence[float]], curves: Mapping[str, Sequence[Point]]) -> dict[str, list[float]]:
    """Return the scores of each category, from margins of texts that were left out of training."""
    named = [(name, Curve(points)) for name, points in curves.items()]
    margins = zip(*(left[name] for name, _ in named), strict=True)
    scores = [joined({name: curve(one) for (name, curve), one in zip(named, each, strict=True)}) for each in margins]
    return {name: [each[name] for each in scores] for name in CATEGORIES}


def limits(scores: Sequence[float], asked: Sequence[float] | None, category: str, texts: Sequence[rows.Text]) -> Limits:
    """Return the limits of a category, from scores as content and margins as requests of texts that were left out."""
    content = _limit(scores, category, texts, (HARMLESS, SAFE, NONE))
    request = 0.0 if asked is None else _limit(asked, category, texts, (ASKED_HARMLESS, ASKED_SAFE, ASKED_NONE))
    return Limits(round(content + 0.0001, 4), request)


def _limit(
    values: Sequence[float], category: str, texts: Sequence[rows.Text], rates: tuple[float, float, float]
) -> float:
    """Return the score or margin at which none of three kinds of texts has more false positives than it may."""
    pools: list[list[float]] = [[], [], []]
    for value, text in zip(values, texts, strict=True):
        kinds = (text.row.set in rows.BENIGN, rows.trap(text.row), _known(text.row, category) is False)
        for pool, within in zip(pools, kinds, strict=True):
            pool.extend([value] * within)
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
