"""Draw a scene as a graphviz graph, in the dot language; graphviz itself is not needed.

Labels are dot's HTML-like ones, so that a title can be bold; markup in names is escaped.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from penstock.engine.tracing.display import short, whole
from penstock.pictures.chart import Box, chart_of
from penstock.pictures.wrapping import label_lines, note_lines, title_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pictures.chart import Arrow, Chart, Group, Side
    from penstock.pictures.scene import Scene

_LOOKS = {
    "start": 'shape=box style="filled,rounded" fillcolor="#e3f4e8" color="#2f7d46"',
    "end": 'shape=box style="filled,rounded" fillcolor="#e3f4e8" color="#2f7d46"',
    "fork": 'ordering=out shape=trapezium style=filled fillcolor="#4a5568" color="#2d3748" fontcolor=white',
    "join": 'shape=invtrapezium style=filled fillcolor="#4a5568" color="#2d3748" fontcolor=white',
    "branch": 'ordering=out shape=diamond style=filled fillcolor="#fbf5d0" color="#9a8100"',
    "pass": 'shape=circle style=filled fillcolor=white color="#7a7a7a"',
    "missing": 'shape=cds style=filled fillcolor="#fde2e2" color="#b91c1c"',
    "guard": 'shape=octagon style=filled fillcolor="#fff1e0" color="#c2620c"',
    "transform": 'shape=box style=filled fillcolor="#e6f0fb" color="#2b6cb0"',
    "observer": 'shape=box style="filled,rounded" fillcolor="#f3f3f3" color="#7a7a7a"',
    "undeclared": 'shape=box style=filled fillcolor=white color="#7a7a7a"',
    "model": 'shape=box3d style=filled fillcolor="#efe9fb" color="#6b46c1"',
    "tools": 'shape=component style=filled fillcolor="#e3f4f1" color="#0f766e"',
    "folded": 'shape=cylinder style=filled fillcolor="#e6f0fb" color="#2b6cb0"',
}


def as_dot(scene: Scene) -> str:
    """Return the dot text."""
    chart = chart_of(scene)
    font = 'fontname="Helvetica" fontsize=11'
    return "\n".join(
        [
            "digraph penstock {",
            "  graph [rankdir=TB compound=true ranksep=0.35 nodesep=0.3 " + font + "]",
            "  node [margin=0.12 height=0.3 " + font + "]",
            '  edge [fontname="Helvetica" fontsize=9 color="#555555" arrowsize=0.7]',
            *_inside("", chart, "  "),
            *(f"  {_arrow(arrow)}" for arrow in chart.arrows),
            "}",
        ]
    )


def _inside(group: str, chart: Chart, indent: str) -> Iterator[str]:
    sides = [side for side in chart.sides if side.group == group]
    yield from _placed(chart.inside(group), sides, chart, indent)


def _placed(items: list[tuple[int, Box | Group]], sides: list[Side], chart: Chart, indent: str) -> Iterator[str]:
    """Yield the boxes and clusters of a group; if one arm is a cluster, all are, which keeps them in their order."""
    while items:
        place, one = items[0]
        side = next((side for side in sides if side.start <= place < side.end), None)
        if side is not None:
            rest = [item for item in items if item[0] >= side.end]
            inner = [other for other in sides if side.start <= other.start and other.end <= side.end and other != side]
            yield f"{indent}subgraph cluster_arm_{chart.boxes[side.start].id} {{"
            yield f'{indent}  label="" peripheries=0 margin=0'
            yield from _placed(items[: len(items) - len(rest)], inner, chart, f"{indent}  ")
            yield f"{indent}}}"
            items = rest
            continue
        yield from [f"{indent}{_box(one)}"] if isinstance(one, Box) else _cluster(one, chart, indent)
        items = items[1:]


def _cluster(group: Group, chart: Chart, indent: str) -> Iterator[str]:
    style = "rounded,dashed" if group.shadow else "rounded,filled"
    yield f"{indent}subgraph cluster_{group.id} {{"
    look = f'style="{style}" color="#888888" fillcolor="#fafafa" peripheries=1 margin=8'
    title = " · ".join([f"<b>{_text(short(group.title))}</b>", *map(_text, group.notes)])
    yield f"{indent}  label=<{title}> labeljust=l {look}"
    yield from _inside(group.id, chart, f"{indent}  ")
    yield f"{indent}}}"


def _box(box: Box) -> str:
    title = "<br/>".join(map(_text, title_lines(whole(box.title))))
    notes = [f'<font point-size="9">{_text(note)}</font>' for note in note_lines(box.notes)]
    label = "<br/>".join([f"<b>{title}</b>", *notes])
    look = _LOOKS[box.tone]
    if box.shadow:
        look = look.replace("style=filled", 'style="filled,dashed"').replace(
            'style="filled,r', 'style="filled,dashed,r'
        )
    return f"{box.id} [label=<{label}> {look}]"


def _arrow(arrow: Arrow) -> str:
    lines = "<br/>".join(map(_text, label_lines(arrow.label)))
    label = f" label=<{lines}>" if arrow.label else ""
    style = " style=dashed" if arrow.beside else ""
    return f"{arrow.source} -> {arrow.target} [{f'{label}{style}'.strip()}]"


def _text(text: str) -> str:
    r"""Escape markup, and split ``\N``, which dot replaces by the node's name even in an escaped label."""
    return html.escape(text).replace("\\", "\\&#8204;")
