"""The table of a coverage as a picture (SVG): a row for each channel, a column for each step, and the gaps in red."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from penstock.engine.tracing.display import visible
from penstock.workflows.coverage.channels import CHANNELS
from penstock.workflows.coverage.table import LEGEND, Notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.workflows.coverage.readings import StepReading
    from penstock.workflows.coverage.table import Gaps

ROW = 24
"""The height of a row, in pixels."""

CHARACTER = 7.3
"""The width of a character, in pixels."""

PAD = 10
"""The space beside the text of a cell, in pixels."""

GAP = "not covered"
"""The title of the column of gaps."""

MARK = "\u26a0 "
"""The sign before a gap, which shows without colours, too."""

_STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1b1f24 }
.title { font-weight: bold }
.page { fill: #ffffff }
.stops { fill: #cfe8d5 } .hides { fill: #d3e4fa } .observes { fill: #fbf0c4 } .unread { fill: #f2f3f5 }
.gap { fill: #f8d3d0 }
@media (prefers-color-scheme: dark) {
text { fill: #e8eaed }
.page { fill: #16181c }
.stops { fill: #1d4d2b } .hides { fill: #1d3d66 } .observes { fill: #57490f } .unread { fill: #24272c }
.gap { fill: #6b2320 }
}
"""


def as_svg(name: str, steps: Sequence[StepReading], gaps: Gaps) -> str:
    """Return a coverage as a picture.

    Args:
        name: the name of the workflow or the agent.
        steps: the steps that read texts.
        gaps: what is not read on every path: kind of content, channel and reason.
    """
    notes = Notes()
    missing: dict[str, list[str]] = {}
    for kind, channel, why in gaps:
        missing.setdefault(channel, []).append(f"{kind} [{notes.number(f'{kind}: {why}')}]")
    heads = ["channel", *(step.path for step in steps), GAP]
    rows: list[list[tuple[str, str]]] = []
    for one in CHANNELS:
        read = [(step.cells[one.name].reads, notes.cell(step.cells[one.name])) for step in steps]
        gone = ("gap", MARK + ", ".join(missing[one.name])) if one.name in missing else ("", "")
        rows.append([("", one.name), *read, gone])
    shown = [[("title", head) for head in heads], *rows]
    widths = [_width(max((text for _, text in column), key=len)) for column in zip(*shown, strict=True)]
    below = [LEGEND, *(f"[{number}] {text}" for number, text in enumerate(notes.texts, 1))]
    width = max(sum(widths), *map(_width, (*below, name)))
    height = ROW * (len(shown) + len(below) + 3)
    title = f"Coverage of {name}"
    size = f'width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" role="img">',
        f"<title>{_escaped(title)}</title><style>{_STYLE}</style>",
        f'<rect class="page" {size}/>',
        _words(title, 0, 0, "title"),
        *_table(shown, widths),
        *(_words(text, 0, ROW * (len(shown) + 2 + at)) for at, text in enumerate(below)),
        "</svg>",
    ]
    return "\n".join(parts)


def _table(rows: Sequence[Sequence[tuple[str, str]]], widths: Sequence[int]) -> Iterator[str]:
    """Yield the cells of all rows: a rectangle in the colour of its kind, and its words."""
    for at, row in enumerate(rows, 1):
        left, top = 0, at * ROW
        for (kind, text), width in zip(row, widths, strict=True):
            if kind not in ("", "title"):
                size = f'width="{width - 2}" height="{ROW - 2}"'
                yield f'<rect class="{kind}" x="{left + 1}" y="{top + 1}" {size} rx="3"/>'
            if text:
                yield _words(text, left, top, "title" if kind == "title" else "")
            left += width


def _words(text: str, left: int, top: int, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{left + PAD}" y="{top + 16}">{_escaped(text)}</text>'


def _width(text: str) -> int:
    return round(len(visible(text)) * CHARACTER) + 2 * PAD


def _escaped(text: str) -> str:
    return escape(visible(text))
