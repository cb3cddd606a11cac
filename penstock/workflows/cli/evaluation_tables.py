"""An evaluation on the terminal: its tables, the most important first, each in the form that fits the width."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from penstock.engine.tracing.display import visible
from penstock.workflows.cli.formatting import console_for, plain
from penstock.workflows.evaluation.sections import sections_of

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.workflows.evaluation.results import Evaluation

GAPS = (3, 2)
"""How many columns lie between two cells of a table, the widest first."""

NO_INTERVALS = "The intervals need a wider terminal, or -o FILE.md."
"""The note below tables that were too wide with them."""

COLOURS = {"failed": "bold red", "ok": "green"}


def print_evaluation(made: Evaluation, out: IO[str]) -> None:
    """Print the tables of an evaluation.

    A table that is too wide with intervals is shown without them, and one that is still too wide is shown as a block
    of lines for each row.
    """
    console = console_for(out)
    shortened = False
    for section in sections_of(made):
        console.print(Text(plain(section.title), "bold"))
        if section.columns:
            rows = section.rows
            if _gap(console, section.columns, rows) is None:
                rows = tuple(map(_without_intervals, rows))
                shortened = shortened or rows != section.rows
            _print_rows(console, section.columns, rows)
        for note in section.notes:
            console.print(Text(visible(note)))
        console.print()
    if shortened:
        console.print(Text(NO_INTERVALS))


def _print_rows(console: Console, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> None:
    short, long = columns[:-1], columns[-1:]
    cut = tuple(row[:-1] for row in rows)
    gap = _gap(console, columns, rows)
    wrapped = gap is None and long and long[0] in WRAPPED
    if wrapped:
        gap = _gap(console, short, cut, LEAST)
    if gap is not None:
        console.print(_table(columns, rows, gap, console.width, wrapped=bool(wrapped)))
        return
    for number, row in enumerate(rows):
        if number:
            console.print()
        for name, cell in zip(columns, row, strict=True):
            console.print(Text(f"  {plain(name)}: {plain(cell)}"))


WRAPPED = ("because", "text")
"""The last columns with long texts, which are wrapped."""

LEAST = 20
"""The least width of a wrapped column."""


def _without_intervals(row: tuple[str, ...]) -> tuple[str, ...]:
    return (row[0], *(cell.partition(" (")[0] if "–" in cell else cell for cell in row[1:]))


def _gap(console: Console, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], room: int = 0) -> int | None:
    """Return the widest gap between cells at which a table fits and leaves some room; None: it does not fit."""
    widths = sum(_widths(columns, rows)) + room
    return next((gap for gap in GAPS if widths + gap * (len(columns) + bool(room)) <= console.width), None)


def _widths(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> list[int]:
    """Return the width of each column if no cell is wrapped; the names of columns may be, between words."""
    heads = (max(map(cell_len, plain(name).split() or [""])) for name in columns)
    cells = (max((cell_len(plain(row[at])) for row in rows), default=0) for at in range(len(columns)))
    return list(map(max, heads, cells))


def _table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], gap: int, room: int, *, wrapped: bool) -> Table:
    """Return a table; the names of its columns are wrapped between words if they do not fit into the room."""
    widths = _widths(columns, rows)
    roomy = sum(map(max, widths, map(cell_len, columns))) + gap * len(columns) <= room
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, gap - 2))
    for number, (name, width) in enumerate(zip(columns, widths, strict=True)):
        is_long = wrapped and number == len(columns) - 1
        table.add_column(Text(plain(name)), width=None if is_long else max(width, cell_len(name) if roomy else 0))
    for row in rows:
        table.add_row(*(Text(plain(cell), COLOURS.get(cell, "")) for cell in row))
    return table
