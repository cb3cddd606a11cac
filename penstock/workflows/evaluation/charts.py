"""The charts of an evaluation as SVG: precision and recall, thresholds, and the spread of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.workflows.evaluation.curves import CurvePoint, ScoreBin, SweptThreshold

WIDTH, HEIGHT = 360, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 40
TICKS = 5


class Line(NamedTuple):
    """A line of a chart.

    Attributes:
        name: its name, for the legend; also its class.
        points: its points, each from 0 to 1; None: there is no figure, and the line has a gap.
    """

    name: str
    points: Sequence[tuple[float, float | None]]


def precision_recall(points: Iterable[CurvePoint]) -> str:
    """Return the curve of precision over recall."""
    line = Line("precision", [(each.recall, each.precision) for each in points if each.recall is not None])
    return _chart("Precision and recall at each threshold", "recall", [line])


def thresholds(swept: Sequence[SweptThreshold], recommended: float | None) -> str:
    """Return recall, precision and false alarms over the threshold; with a mark at the recommended one."""
    lines = [
        Line("recall", [(each.threshold, each.recall.value) for each in swept]),
        Line("precision", [(each.threshold, each.precision.value) for each in swept]),
        Line("false-alarms", [(each.threshold, each.false_alarms.value) for each in swept]),
        Line("flagged", [(each.threshold, each.flagged.value) for each in swept]),
    ]
    drawn = [line for line in lines if any(value is not None for _, value in line.points)]
    return _chart("What each threshold does", "threshold", drawn, recommended)


def spread(bins: Sequence[ScoreBin], link: str) -> str:
    """Return the spread of scores: a bar for each bin and kind of row, which links to its rows.

    Args:
        bins: the bins.
        link: the beginning of the id of each bin's rows; its number follows.
    """
    kinds = ("negatives", "positives", "unlabelled")
    shown = [kind for kind in kinds if any(getattr(each, kind) for each in bins)]
    most = max((getattr(each, kind) for each in bins for kind in shown), default=0) or 1
    parts: list[str] = []
    for number, each in enumerate(bins):
        left, right = _x(number / len(bins)), _x((number + 1) / len(bins))
        wide = (right - left - 2) / max(1, len(shown))
        counts = ", ".join(f"{getattr(each, kind):,} {kind}" for kind in shown)
        bars = "".join(
            f'<rect class="{kind}" x="{left + 1 + at * wide:.1f}" y="{_y(high):.1f}" width="{wide:.1f}" '
            f'height="{max(0.0, _y(0) - _y(high)):.1f}"/>'
            for at, kind in enumerate(shown)
            for high in [getattr(each, kind) / most]
        )
        title = f"<title>{each.low:g} to {each.high:g}: {counts}</title>"
        room = f'<rect class="room" x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{_y(0) - TOP:.1f}"/>'
        parts.append(f'<a href="#{link}{number}">{title}{room}{bars}</a>' if each.rows else "")
    return _framed("Spread of the scores", "score", "".join(parts), shown, most)


def _chart(title: str, below: str, lines: Sequence[Line], mark: float | None = None) -> str:
    parts = [f'<path class="line {line.name}" d="{_path(line.points)}"/>' for line in lines]
    if mark is not None and 0 <= mark <= 1:
        parts.append(f'<path class="mark" d="M{_x(mark):.1f} {TOP}V{_y(0):.1f}"><title>{mark:g}</title></path>')
    return _framed(title, below, "".join(parts), [line.name for line in lines], None)


def _path(points: Iterable[tuple[float, float | None]]) -> str:
    made: list[str] = []
    pen = "M"
    for across, up in points:
        if up is None:
            pen = "M"
            continue
        made.append(f"{pen}{_x(across):.1f} {_y(up):.1f}")
        pen = "L"
    return "".join(made)


def _framed(title: str, below: str, inner: str, names: Sequence[str], most: int | None) -> str:
    """Return a chart with axes, ticks and a legend."""
    marks: list[str] = []
    for number in range(TICKS + 1):
        part = number / TICKS
        up = f"{part:.1f}" if most is None else f"{part * most:,.0f}"
        marks.append(f'<path class="grid" d="M{LEFT} {_y(part):.1f}H{WIDTH - RIGHT}"/>')
        marks.append(f'<text x="{LEFT - 6}" y="{_y(part) + 4:.1f}" text-anchor="end">{up}</text>')
        marks.append(f'<text x="{_x(part):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{part:.1f}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    marks.append(f'<text x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{below}</text>')
    legend = "".join(f'<li class="{name}">{name.replace("-", " ")}</li>' for name in names)
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
        f'{"".join(marks)}{inner}</svg><ul class="legend">{legend}</ul></figure>'
    )


def _x(part: float) -> float:
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _y(part: float) -> float:
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
