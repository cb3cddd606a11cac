"""Draw a scene as a Mermaid flowchart.

The ids are those of the paths behind a word (``step_pii``), so that no name of a step is a keyword of Mermaid. Names
stand in quoted labels only, with every character that Mermaid, Markdown or HTML could interpret written as ``#35;``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.engine.tracing.display import short, whole
from penstock.pictures.chart import Box, chart_of
from penstock.pictures.wrapping import label_lines, note_lines, title_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pictures.chart import Arrow, Chart
    from penstock.pictures.scene import Scene

_SHAPES = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "fork": ("[/", "\\]"),
    "join": ("[\\", "/]"),
    "branch": ("{", "}"),
    "pass": ("((", "))"),
    "missing": (">", "]"),
    "guard": ("{{", "}}"),
    "transform": ("[", "]"),
    "observer": ("(", ")"),
    "undeclared": ("[", "]"),
    "model": ("[[", "]]"),
    "tools": ("[/", "/]"),
    "folded": ("[(", ")]"),
}

_CLASSES = {
    "guard": "fill:#fff1e0,stroke:#c2620c,color:#3d2000",
    "transform": "fill:#e6f0fb,stroke:#2b6cb0,color:#0d2a4a",
    "observer": "fill:#f3f3f3,stroke:#7a7a7a,color:#333",
    "undeclared": "fill:#fff,stroke:#7a7a7a,color:#222",
    "model": "fill:#efe9fb,stroke:#6b46c1,color:#2a1a52",
    "folded": "fill:#e6f0fb,stroke:#2b6cb0,color:#0d2a4a",
    "tools": "fill:#e3f4f1,stroke:#0f766e,color:#06302c",
    "branch": "fill:#fbf5d0,stroke:#9a8100,color:#3a3000",
    "fork": "fill:#4a5568,stroke:#2d3748,color:#fff",
    "join": "fill:#4a5568,stroke:#2d3748,color:#fff",
    "start": "fill:#e3f4e8,stroke:#2f7d46,color:#103a1d",
    "end": "fill:#e3f4e8,stroke:#2f7d46,color:#103a1d",
    "pass": "fill:#fff,stroke:#7a7a7a,color:#333",
    "missing": "fill:#fde2e2,stroke:#b91c1c,color:#5f0f0f",
    "workflow": "fill:#fafafa,stroke:#555,color:#222",
    "shadow": "stroke-dasharray:6 4,opacity:0.75",
}


def as_mermaid(scene: Scene) -> str:
    """Return the Mermaid text."""
    chart = chart_of(scene)
    lines = ["flowchart TB", *_inside("", chart, "  ")]
    lines += [f"  {_arrow(arrow)}" for arrow in chart.arrows]
    used: dict[str, list[str]] = {}
    for box in chart.boxes:
        used.setdefault(box.tone, []).append(box.id)
    used["workflow"] = [group.id for group in chart.groups]
    used["shadow"] = [box.id for box in chart.boxes if box.shadow] + [
        group.id for group in chart.groups if group.shadow
    ]
    tones = [tone for tone in _CLASSES if used.get(tone)]
    lines += [f"  classDef is-{tone} {_CLASSES[tone]}" for tone in tones]  # a class called `end` would end something
    lines += [f"  class {','.join(used[tone])} is-{tone}" for tone in tones]
    return "\n".join(lines)


def _inside(group: str, chart: Chart, indent: str) -> Iterator[str]:
    """Yield the boxes and groups of a group in declared order, which Mermaid keeps for boxes side by side."""
    for _, one in chart.inside(group):
        if isinstance(one, Box):
            opening, closing = _SHAPES[one.tone]
            title = _lines(title_lines(whole(one.title)))
            title = f"<b>{title}</b>" if one.kind in ("step", "model", "tools", "folded") else title
            label = "<br>".join([title, *map(escaped, note_lines(one.notes))])
            yield f'{indent}{one.id}{opening}"{label}"{closing}'
        else:
            yield f'{indent}subgraph {one.id}["{escaped(" · ".join([short(one.title), *one.notes]))}"]'
            yield f"{indent}  direction TB"
            yield from _inside(one.id, chart, f"{indent}  ")
            yield f"{indent}end"


def _arrow(arrow: Arrow) -> str:
    line = "-.->" if arrow.beside else "-->"
    label = f'|"{_lines(label_lines(arrow.label))}"|' if arrow.label else ""
    return f"{arrow.source} {line}{label} {arrow.target}"


def _lines(lines: tuple[str, ...]) -> str:
    return "<br>".join(map(escaped, lines))


_NOTHING = "\u200c"

_APART = re.compile(r"(?<=\\)n|(?<=\$)\$|(?<=:)fa-|(?<=styl)e|(?<=classDe)f")
"""What Mermaid reads even in an escaped label as a line break, a formula, an icon or a style, unless a character of no
width splits it."""

_RISKY = re.compile(
    r"^[^\w(]"  # what Markdown reads as a list, a heading or a quotation where a line begins
    r"|(?<=\d)[.)](?=\s)"  # a numbered list
    r"|\b_|_\b"  # emphasis; within a word it is none
    r"|[^\w\s,.:=?!/()+·–…∥→\'-]"  # everything else that is no letter, no digit and no plain sign
    r"|:(?=//)|(?<=www)\."  # links
)


def escaped(text: str) -> str:
    """Return a text escaped for a quoted Mermaid label, which shows it as it is."""
    return _RISKY.sub(lambda found: f"#{ord(found.group())};", _APART.sub(f"{_NOTHING}\\g<0>", text))
