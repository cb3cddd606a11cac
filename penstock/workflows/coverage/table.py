"""The table of a coverage as text: a line for each channel, a column for each step, conditions as footnotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.coverage.channels import CHANNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.workflows.coverage.readings import Cell, StepReading

    Gaps = Iterable[tuple[str, str, str]]

WIDTH = 118
"""The width, in characters, from which the columns of a table are written one block below another."""

LEGEND = (
    "hides: reads, and hides what it finds; stops: reads, and may stop the run; observes: only reports; -: not read."
)


class Notes:
    """The footnotes of a table: each text once, with its number."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        """Return the number of a footnote."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    def cell(self, cell: Cell) -> str:
        """Return the text of a cell."""
        if cell.reads == "unread":
            return "-"
        said = list(cell.conditions)
        if cell.own_code:
            said.append("own code: its stage shows it")
        if cell.held:
            said.append(f"the stream is held until its {cell.held} is judged")
        numbers = [str(self.number(text)) for text in said]
        return f"{cell.reads} [{','.join(numbers)}]" if numbers else cell.reads


def as_text(name: str, steps: Sequence[StepReading], gaps: Gaps) -> str:
    """Return a table for a terminal."""
    notes = Notes()
    lines = [f"coverage of {name!r}", ""]
    if not steps:
        lines += ["no step reads texts", ""]
    for block in _blocks(steps, notes):
        lines += [*_aligned(_rows(block, notes.cell)), ""]
    lines += [LEGEND] if steps else []
    lines += [f"[{number}] {text}" for number, text in enumerate(notes.texts, 1)]
    return "\n".join([*lines, *_gap_lines(gaps)])


def as_markdown(name: str, steps: Sequence[StepReading], gaps: Gaps) -> str:
    """Return a table in Markdown."""
    notes = Notes()
    rows = _rows(steps, notes.cell)
    lines = [f"# Coverage of {name}", ""]
    lines += [_marked(rows[0]), _marked(["---"] * len(rows[0])), *(_marked(row) for row in rows[1:]), "", LEGEND]
    lines += (
        ["", *(f"- [{number}] {_escaped(text)}" for number, text in enumerate(notes.texts, 1))] if notes.texts else []
    )
    listed = [f"- {kind}: `{channel}`: {_escaped(why)}" for kind, channel, why in gaps]
    return "\n".join([*lines, "", "## Not read on every path", "", *(listed or ["Nothing."])])


def _rows(steps: Sequence[StepReading], cell: Callable[[Cell], str]) -> list[list[str]]:
    head = ["channel", *(step.path for step in steps)]
    return [head, *([one.name, *(cell(step.cells[one.name]) for step in steps)] for one in CHANNELS)]


def _blocks(steps: Sequence[StepReading], notes: Notes) -> Iterable[Sequence[StepReading]]:
    """Yield as many steps as fit beside each other, block by block."""
    first = max(len(one.name) for one in CHANNELS)
    block: list[StepReading] = []
    width = first
    for step in steps:
        needed = 2 + max(len(step.path), *(len(notes.cell(cell)) for cell in step.cells.values()))
        if block and width + needed > WIDTH:
            yield block
            block, width = [], first
        block.append(step)
        width += needed
    if block:
        yield block


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _gap_lines(gaps: Gaps) -> list[str]:
    lines: dict[tuple[str, str], list[str]] = {}
    for kind, channel, why in gaps:
        lines.setdefault((kind, why), []).append(channel)
    if not lines:
        return []
    told = [f"  {kind}: {', '.join(channels)}: {why}" for (kind, why), channels in lines.items()]
    return ["", "not read on every path:", *told]


def _marked(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
