"""Write a picture as SVG, for pages and notebooks: light or dark as its reader prefers, with nothing to fetch.

Names stand in text and in titles only, as visible characters and with markup escaped. The ids are those of the paths.
"""

from __future__ import annotations

import html
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.engine.tracing.display import short, visible
from penstock.engine.values.frozen import EMPTY
from penstock.pictures.layout import NOTE, TITLE, picture_of
from penstock.pictures.marked_picture import ORDER, MarkedPicture, mark_style
from penstock.pictures.marks import GONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pictures.blocks import BlockWire, Point, Shape
    from penstock.pictures.marked_picture import Below
    from penstock.pictures.marks import Marks
    from penstock.pictures.scene import Scene

_TONES = {
    "start": ("#e3f4e8", "#2f7d46", "#163d24", "#7cc795"),
    "end": ("#e3f4e8", "#2f7d46", "#163d24", "#7cc795"),
    "guard": ("#fff1e0", "#c2620c", "#452a0c", "#eba35c"),
    "transform": ("#e6f0fb", "#2b6cb0", "#14304f", "#7fb2e8"),
    "observer": ("#f3f3f3", "#6b6b6b", "#2e2e2e", "#a8a8a8"),
    "undeclared": ("#ffffff", "#6b6b6b", "#1f1f1f", "#a8a8a8"),
    "model": ("#efe9fb", "#6b46c1", "#2a1a52", "#b39ae8"),
    "folded": ("#e6f0fb", "#2b6cb0", "#14304f", "#7fb2e8"),
    "tools": ("#e3f4f1", "#0f766e", "#06302c", "#5eb8ac"),
    "branch": ("#fbf5d0", "#8a7400", "#3b3408", "#d6c04a"),
    "pass": ("#ffffff", "#6b6b6b", "#1f1f1f", "#a8a8a8"),
    "missing": ("#fde2e2", "#b91c1c", "#4c1414", "#f29a9a"),
}
"""The colours of a box: its surface and its edge in light, and in dark."""

_LIGHT = ("#ffffff", "#1a1a1a", "#4a4a4a", "#5c5c5c", "#f7f7f8")
_DARK = ("#161616", "#f2f2f2", "#cfcfcf", "#b5b5b5", "#1f1f21")
_TIP = 7.0
_ROUND = 6.0
_LARGE = 1e5


def as_svg(scene: Scene, marks: Marks | None = None) -> str:
    """Return the SVG text.

    Args:
        scene: the scene.
        marks: the marks of a run, or of the differences to another workflow; None: no marks.
    """
    badges = {path: mark.words for path, mark in marks.marks.items()} if marks else EMPTY
    picture = picture_of(scene, badges=badges)
    marked = MarkedPicture(picture, marks)
    below = marked.below()
    width = max(picture.width, below.width)
    height = picture.height + below.height
    size = f'width="{_number(width)}" height="{_number(height)}"'
    box = f'viewBox="0 0 {_number(width)} {_number(height)}"'
    title = _text(short(scene.name))
    styles = [_style(_LIGHT, 0), _style(_DARK, 2)]
    if marks:
        styles = [f"{style}{mark_style(marks.about, dark=bool(dark))}" for dark, style in enumerate(styles)]
    boxes = [shape for shape in picture.shapes if shape.kind != "group"]
    steps = sum(1 for shape in boxes if shape.id.startswith("step:"))
    about = f"A workflow of {'1 step' if steps == 1 else f'{steps} steps'}" + (
        f", at {scene.stage}." if scene.stage else "."
    )
    shapes = sorted(boxes, key=lambda shape: shape.kind != "dot")  # a page's badges may cover dots
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock" {box} {size} role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            f"<desc>{' '.join(map(_text, [about, *(marks.lines if marks else ())]))}</desc>",
            f"<style>{styles[0]}@media (prefers-color-scheme: dark){{{styles[1]}}}</style>",
            f'<rect class="page" {size}/>',
            *(_group(shape, marked) for shape in picture.shapes if shape.kind == "group"),
            *_wires(picture.wires, marked),
            *(line for shape in shapes for line in _shape(shape, marked)),
            *_legend(below, picture.height),
            "</svg>",
        ]
    )


def _style(page: tuple[str, ...], start: int) -> str:
    surface, title, note, line, frame = page
    rules = [
        f".penstock .page{{fill:{surface}}}",
        f".penstock text{{fill:{title};font:{TITLE:g}px Helvetica,Arial,sans-serif}}",
        f".penstock .title{{font-weight:bold}}.penstock .note{{fill:{note};font-size:{NOTE:g}px}}",
        f".penstock .label{{fill:none}}.penstock .dot,.penstock .tip{{fill:{line}}}",
        f".penstock .wire{{fill:none;stroke:{line};stroke-width:1.3;stroke-linejoin:round}}",
        f".penstock .rule{{stroke:{line};stroke-opacity:.4}}",
        f".penstock .group{{fill:{frame};stroke:{line};stroke-opacity:.5}}.penstock .shadow{{stroke-dasharray:5 4}}",
        *(f".penstock .{tone}{{fill:{look[start]};stroke:{look[start + 1]}}}" for tone, look in _TONES.items()),
    ]
    return "".join(rules)


def _rect(shape: Shape, radius: int, marked: MarkedPicture) -> str:
    place = f'x="{_number(shape.x)}" y="{_number(shape.y)}"'
    size = f'width="{_number(shape.width)}" height="{_number(shape.height)}"'
    tone = marked.tone(shape)
    tones = f"{tone} shadow" if shape.shadow else tone
    return f'<rect class="{tones}" {place} {size} rx="{radius}"/>'


def _group(shape: Shape, marked: MarkedPicture) -> str:
    ends = ((shape.x, shape.y + shape.head), (shape.x + shape.width, shape.y + shape.head))
    rule = f'<path class="rule" d="{_line(ends)}"/>'
    return f"{_open(shape, marked)}{_rect(shape, 8, marked)}{rule}{_words(shape)}</g>"


def _shape(shape: Shape, marked: MarkedPicture) -> Iterator[str]:
    if shape.kind == "dot":
        at = f'cx="{_number(shape.x + shape.width / 2)}" cy="{_number(shape.y + shape.height / 2)}"'
        tones = " ".join(["dot", *marked.tones(shape)])
        yield f'<circle class="{tones}" data-id="{_text(shape.id)}" {at} r="{_number(shape.width / 2)}"/>'
        return
    mark = marked.mark(shape)
    if mark and mark.stops:
        middle, low = _number(shape.x + shape.width / 2 - 16), _number(shape.y + shape.height + 6)
        yield f'<path class="stop" d="M{middle} {low} h32"/>'
    radius = {"start": 15, "end": 15, "observer": 10, "guard": 2}.get(shape.kind, 5)
    yield f"{_open(shape, marked)}{_rect(shape, radius, marked)}{_words(shape)}</g>"


def _open(shape: Shape, marked: MarkedPicture) -> str:
    """Return the start of a shape, with its path for programs, and its whole title for a pointer that rests on it."""
    shown = "".join(one.text for one in shape.words if one.tone == "title" or shape.kind == "label")
    cut = shape.title if shown.replace(" ", "") != shape.title.replace(" ", "") else ""
    path = shape.path.removeprefix(GONE)
    mark = marked.mark(shape)
    said = [visible(path), cut] if shape.kind != "label" else [cut]
    said += [visible(line) for line in mark.lines] if mark else []
    tooltip = "\n".join(dict.fromkeys(line for line in said if line))
    title = f"<title>{html.escape(tooltip)}</title>" if tooltip else ""
    tones = marked.tones(shape)
    look = f' class="{" ".join(tones)}"' if tones else ""
    place = f' data-path="{_text(path)}"' if path else ""
    ended = f' data-mark="{mark.kind}"' if mark else ""
    return f'<g{look} data-id="{_text(shape.id)}" data-kind="{shape.id.partition(":")[0]}"{place}{ended}>{title}'


def _words(shape: Shape) -> str:
    lines: list[str] = []
    for one in shape.words:
        anchor = ' text-anchor="middle"' if one.middle else ""
        at = f'x="{_number(shape.x + one.x)}" y="{_number(shape.y + one.y)}"'
        lines.append(f'<text class="{one.tone}" {at}{anchor}>{_text(one.text)}</text>')
    return "".join(lines)


def _wires(wires: tuple[BlockWire, ...], marked: MarkedPicture) -> Iterator[str]:
    """Yield each line with its tip, and the ids of the shapes at its ends; strong lines come after pale ones."""
    for place, one in sorted(enumerate(wires), key=lambda each: ORDER.index(marked.wire(each[0]))):
        tones = " ".join(word for word in ("flow", marked.wire(place), "shadow" if one.dashed else "") if word)
        ends = f'data-source="{_text(one.source)}" data-target="{_text(one.target)}"'
        line = f'<path class="wire" d="{_curve(one.points) if one.curved else _bent(one.points)}"/>'
        tip = f'<path class="tip" d="{_tip(one)}"/>' if one.head else ""
        yield f'<g class="{tones}" {ends}>{line}{tip}</g>'


def _legend(below: Below, top: float) -> Iterator[str]:
    """Yield the words below the picture and the legend of its marks."""
    for text, x, y in below.lines:
        yield f'<text class="note" x="{_number(x)}" y="{_number(top + y)}">{_text(text)}</text>'
    for tone, x, y, is_wire in below.samples:
        if is_wire:
            wire = f'<path class="wire {tone}" d="M{_number(x)} {_number(top + y + 6)} h22"/>'
            yield f'<g class="flow {tone}">{wire}</g>'
        else:
            place = f'x="{_number(x)}" y="{_number(top + y)}" width="22" height="12" rx="3"'
            yield f'<g class="{tone}"><rect class="plain" {place}/></g>'


def _line(points: tuple[Point, ...]) -> str:
    return "M" + " L".join(map(_at, points))


def _bent(points: tuple[Point, ...]) -> str:
    """Return a line whose corners are round."""
    steps = [f"M{_at(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        steps.append(f"L{_at(_toward(corner, before))} Q{_at(corner)} {_at(_toward(corner, after))}")
    return " ".join([*steps, f"L{_at(points[-1])}"])


def _toward(corner: Point, other: Point) -> Point:
    """Return where a corner begins to be round, on the way to the next point."""
    across, down = other[0] - corner[0], other[1] - corner[1]
    length = (across**2 + down**2) ** 0.5 or 1.0
    share = min(_ROUND, length / 2) / length
    return corner[0] + across * share, corner[1] + down * share


def _at(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _curve(points: tuple[Point, ...]) -> str:
    """Return a line that leaves and reaches each height upright, and swings between them."""
    steps = [f"M{_at(points[0])}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        if x == to_x:
            steps.append(f"V{_number(to_y)}")
        else:
            half = _number((y + to_y) / 2)
            steps.append(f"C{_number(x)} {half} {_number(to_x)} {half} {_at((to_x, to_y))}")
    return " ".join(steps)


def _tip(wire: BlockWire) -> str:
    """Return the tip of an arrow, as a triangle that points where its line leads; a curve reaches its end upright."""
    (x, y), end = wire.points[-2:]
    across, down = 0.0 if wire.curved and y != end[1] else end[0] - x, end[1] - y
    length = (across**2 + down**2) ** 0.5 or 1.0
    along, aside = (across / length * _TIP, down / length * _TIP), (-down / length * 3.5, across / length * 3.5)
    base = (end[0] - along[0], end[1] - along[1])
    corners = (end, (base[0] + aside[0], base[1] + aside[1]), (base[0] - aside[0], base[1] - aside[1]))
    return f"{_line(corners)}Z"


def _number(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}" if abs(value) < _LARGE else str(round(value))


def _text(text: str) -> str:
    return html.escape(visible(text))
