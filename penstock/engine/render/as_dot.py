"""Draw a scene as a graphviz graph, in the dot language; graphviz itself is not needed.

Labels are dot's HTML-like ones, so that a title can be bold; markup in names is escaped.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from penstock.engine.render.scene import notes_of, short, tone_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.render.scene import Arrow, Box, Group, Scene

_LOOKS = {
    "start": 'shape=box style="filled,rounded" fillcolor="#e3f4e8" color="#2f7d46"',
    "end": 'shape=box style="filled,rounded" fillcolor="#e3f4e8" color="#2f7d46"',
    "fork": 'shape=trapezium style=filled fillcolor="#4a5568" color="#2d3748" fontcolor=white',
    "join": 'shape=invtrapezium style=filled fillcolor="#4a5568" color="#2d3748" fontcolor=white',
    "branch": 'shape=diamond style=filled fillcolor="#fbf5d0" color="#9a8100"',
    "pass": 'shape=circle style=filled fillcolor=white color="#7a7a7a"',
    "missing": 'shape=cds style=filled fillcolor="#fde2e2" color="#b91c1c"',
    "guard": 'shape=octagon style=filled fillcolor="#fff1e0" color="#c2620c"',
    "transform": 'shape=box style=filled fillcolor="#e6f0fb" color="#2b6cb0"',
    "observer": 'shape=box style="filled,rounded" fillcolor="#f3f3f3" color="#7a7a7a"',
}


def as_dot(scene: Scene) -> str:
    """Return the dot text."""
    font = 'fontname="Helvetica" fontsize=11'
    return "\n".join(
        [
            "digraph penstock {",
            "  graph [rankdir=TB compound=true ranksep=0.35 nodesep=0.3 " + font + "]",
            "  node [margin=0.12 height=0.3 " + font + "]",
            '  edge [fontname="Helvetica" fontsize=9 color="#555555" arrowsize=0.7]',
            *_inside("", scene, "  "),
            *(f"  {_arrow(arrow)}" for arrow in scene.arrows),
            "}",
        ]
    )


def _inside(group: str, scene: Scene, indent: str) -> Iterator[str]:
    yield from (f"{indent}{_box(box, scene)}" for box in scene.boxes if box.group == group)
    for inner in scene.groups:
        if inner.parent == group:
            style = "rounded,dashed" if inner.shadow else "rounded,filled"
            yield f"{indent}subgraph cluster_{inner.id} {{"
            yield f'{indent}  label=<{_title(inner)}> labeljust=l style="{style}" color="#888888" fillcolor="#fafafa"'
            yield from _inside(inner.id, scene, f"{indent}  ")
            yield f"{indent}}}"


def _title(group: Group) -> str:
    return " · ".join([f"<b>{_text(short(group.title))}</b>", *map(_text, group.notes)])


def _box(box: Box, scene: Scene) -> str:
    notes = [f'<font point-size="9">{_text(note)}</font>' for note in notes_of(box, scene.stage)]
    label = "<br/>".join([f"<b>{_text(short(box.title))}</b>", *notes])
    look = _LOOKS[tone_of(box)]
    if box.shadow:
        look = look.replace("style=filled", 'style="filled,dashed"').replace(
            'style="filled,r', 'style="filled,dashed,r'
        )
    return f"{box.id} [label=<{label}> {look}]"


def _arrow(arrow: Arrow) -> str:
    label = f" label=<{_text(arrow.label)}>" if arrow.label else ""
    style = " style=dashed" if arrow.beside else ""
    return f"{arrow.source} -> {arrow.target} [{f'{label}{style}'.strip()}]"


def _text(text: str) -> str:
    r"""Escape markup, and split ``\N``, which dot replaces by the node's name even in an escaped label."""
    return html.escape(text).replace("\\", "\\&#8204;")
