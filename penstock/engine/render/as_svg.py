"""Write a picture as SVG, for pages and notebooks: light or dark as its reader prefers, with nothing to fetch.

Names stand in text and in titles only, as visible characters and with markup escaped. The ids are those of the paths.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from penstock.engine.render.blocks import HEADLINE
from penstock.engine.render.layout import NOTE, TITLE, picture_of, text_width
from penstock.engine.render.scene import short, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.graph.nodes import Sequence
    from penstock.engine.render.blocks import Point, Shape, Wire
    from penstock.engine.render.layout import Picture

_TONES = {
    "start": ("#e3f4e8", "#2f7d46", "#163d24", "#7cc795"),
    "end": ("#e3f4e8", "#2f7d46", "#163d24", "#7cc795"),
    "guard": ("#fff1e0", "#c2620c", "#452a0c", "#eba35c"),
    "transform": ("#e6f0fb", "#2b6cb0", "#14304f", "#7fb2e8"),
    "observer": ("#f3f3f3", "#6b6b6b", "#2e2e2e", "#a8a8a8"),
    "undeclared": ("#ffffff", "#6b6b6b", "#1f1f1f", "#a8a8a8"),
    "branch": ("#fbf5d0", "#8a7400", "#3b3408", "#d6c04a"),
    "pass": ("#ffffff", "#6b6b6b", "#1f1f1f", "#a8a8a8"),
    "missing": ("#fde2e2", "#b91c1c", "#4c1414", "#f29a9a"),
}
"""The colours of a box: its surface and its edge in light, and in dark."""

_LIGHT = ("#ffffff", "#1a1a1a", "#4a4a4a", "#5c5c5c", "#f7f7f8")
_DARK = ("#161616", "#f2f2f2", "#cfcfcf", "#b5b5b5", "#1f1f21")
_TIP = 7.0
_LARGE = 1e5


def as_svg(name: str, root: Sequence, stage: str | None = None) -> str:
    """Return the SVG text."""
    picture = picture_of(name, root, stage)
    width, height = _number(picture.width), _number(picture.height)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    title = _text(short(name))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock" {size} role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            f"<desc>{_described(picture, stage)}</desc>",
            f"<style>{_style(_LIGHT, 0)}@media (prefers-color-scheme: dark){{{_style(_DARK, 2)}}}</style>",
            f'<rect class="page" width="{width}" height="{height}"/>',
            *(_group(shape) for shape in picture.shapes if shape.kind == "group"),
            *_wires(picture.wires),
            *(line for shape in picture.shapes if shape.kind != "group" for line in _shape(shape)),
            "</svg>",
        ]
    )


def _described(picture: Picture, stage: str | None) -> str:
    count = sum(1 for shape in picture.shapes if shape.id.startswith("step:"))
    steps = "1 step" if count == 1 else f"{count} steps"
    return f"A workflow of {steps}" + (f", at {_text(stage)}." if stage else ".")


def _style(page: tuple[str, ...], start: int) -> str:
    surface, title, note, line, frame = page
    rules = [
        f".penstock .page{{fill:{surface}}}",
        f".penstock text{{fill:{title};font:{TITLE:g}px Helvetica,Arial,sans-serif}}",
        f".penstock .title{{font-weight:bold}}.penstock .note{{fill:{note};font-size:{NOTE:g}px}}",
        f".penstock .label{{fill:{surface}}}.penstock .dot,.penstock .tip{{fill:{line}}}",
        f".penstock .wire{{fill:none;stroke:{line};stroke-width:1.3;stroke-linejoin:round}}",
        f".penstock .rule{{stroke:{line};stroke-opacity:.4}}",
        f".penstock .group{{fill:{frame};stroke:{line}}}.penstock .shadow{{stroke-dasharray:5 4}}",
        *(f".penstock .{tone}{{fill:{look[start]};stroke:{look[start + 1]}}}" for tone, look in _TONES.items()),
    ]
    return "".join(rules)


def _id(shape: Shape) -> str:
    """Return an id that only this shape has, of signs that are safe in an address."""
    return re.sub(r"[^\w:-]", lambda found: f".{ord(found.group()):x}.", shape.id, flags=re.ASCII)


def _rect(shape: Shape, radius: int) -> str:
    place = f'x="{_number(shape.x)}" y="{_number(shape.y)}"'
    size = f'width="{_number(shape.width)}" height="{_number(shape.height)}"'
    tones = f"{shape.kind} shadow" if shape.shadow else shape.kind
    return f'<rect class="{tones}" {place} {size} rx="{radius}"/>'


def _group(shape: Shape) -> str:
    x, y = shape.x + 12, shape.y + HEADLINE - 10
    words = _words("title", x, y, shape.title)
    for note in shape.notes:
        words += _words("note", x + text_width(shape.title, TITLE, bold=True) + 12, y, note)
    ends = ((shape.x, shape.y + HEADLINE), (shape.x + shape.width, shape.y + HEADLINE))
    rule = f'<path class="rule" d="{_line(ends)}"/>'
    return f'<g id="{_id(shape)}">{_tooltip(shape)}{_rect(shape, 8)}{rule}{words}</g>'


def _shape(shape: Shape) -> Iterator[str]:
    middle = shape.x + shape.width / 2
    if shape.kind == "dot":
        at = f'cx="{_number(middle)}" cy="{_number(shape.y + shape.height / 2)}"'
        yield f'<circle class="dot" {at} r="{_number(shape.width / 2)}"/>'
        return
    if shape.kind == "label":
        yield _rect(shape, 4) + _words("note", middle, shape.y + 13, shape.title, middle=True)
        return
    words = _words("title", middle, shape.y + 19.5, shape.title, middle=True)
    for number, note in enumerate(shape.notes):
        words += _words("note", middle, shape.y + 36 + 15 * number, note, middle=True)
    radius = {"start": 15, "end": 15, "observer": 10, "guard": 2}.get(shape.kind, 5)
    yield f'<g id="{_id(shape)}">{_tooltip(shape)}{_rect(shape, radius)}{words}</g>'


def _tooltip(shape: Shape) -> str:
    """Return the path of a step or workflow, which a browser shows under the pointer."""
    kind, _, path = shape.id.partition(":")
    return f"<title>{_text(visible(path))}</title>" if path and kind in ("step", "group") else ""


def _words(tone: str, x: float, y: float, words: str, *, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text class="{tone}" x="{_number(x)}" y="{_number(y)}"{anchor}>{_text(words)}</text>'


def _wires(wires: tuple[Wire, ...]) -> Iterator[str]:
    """Yield all lines as one path, so that those that share a way are not darker than others; then the tips."""
    for tones, dashed in (("wire", False), ("wire shadow", True)):
        lines = [_line(wire.points) for wire in wires if wire.dashed is dashed]
        if lines:
            yield f'<path class="{tones}" d="{" ".join(lines)}"/>'
    tips = [_tip(wire.points[-2], wire.points[-1]) for wire in wires if wire.head]
    if tips:
        yield f'<path class="tip" d="{" ".join(tips)}"/>'


def _line(points: tuple[Point, ...]) -> str:
    return "M" + " L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _tip(before: Point, end: Point) -> str:
    """Return the tip of an arrow, as a triangle that points where its line leads."""
    across, down = end[0] - before[0], end[1] - before[1]
    length = (across**2 + down**2) ** 0.5 or 1.0
    along, aside = (across / length * _TIP, down / length * _TIP), (-down / length * 3.5, across / length * 3.5)
    base = (end[0] - along[0], end[1] - along[1])
    corners = (end, (base[0] + aside[0], base[1] + aside[1]), (base[0] - aside[0], base[1] - aside[1]))
    return f"{_line(corners)}Z"


def _number(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}" if abs(value) < _LARGE else str(round(value))


def _text(text: str) -> str:
    return html.escape(visible(text))
