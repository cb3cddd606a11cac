"""Results as a table: which rows were blocked or edited, by which step, why, in how many ms; and counts per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.engine.tracing.display import visible
from penstock.pictures.timeline import timeline
from penstock.workflows.cli.formatting import console_for, plain, why
from penstock.workflows.cli.terminal import readable
from penstock.workflows.rows.reading import COLUMNS, Columns
from penstock.workflows.rows.results import RowForm, error_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from rich.console import Console, RenderableType

    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.tripwire import Record, Status
    from penstock.pictures.timeline import Style
    from penstock.workflows.rows.results import RowChecked, RunCounts

COLOURS = {
    "passed": "green",
    "flagged": "yellow",
    "edited": "yellow",
    "blocked": "bold red",
    "tripped": "bold red",
    "failed": "magenta",
    "invalid": "magenta",
    "skipped": "dim",
}

_STYLES: dict[Style, str] = {
    "": "",
    "dim": "dim",
    "bold": "bold",
    "passed": "green",
    "edited": "yellow",
    "tripped": "bold red",
    "failed": "magenta",
    "skipped": "dim",
}

RECORDED: tuple[Status, ...] = ("passed", "edited", "tripped", "failed", "skipped")
"""The statuses of a record, in the order of their columns."""

NOTABLE: tuple[Status, ...] = ("edited", "tripped", "failed")
"""The statuses of the records that are shown for a row; flagged ones are shown, too."""


NARROW = 72
"""Below this width, in columns, a table would break its words; lines are printed instead."""


def print_timeline(console: Console, trace: Trace) -> None:
    """Print the timeline of a trace in colours, with each line in the width of the console.

    Signs and words say the same without colours.
    """
    for line in timeline(trace, console.width):
        text = Text.assemble(*((piece, _STYLES[style]) for piece, style in line))
        text.rstrip()
        console.print(text, no_wrap=True, overflow="ignore", crop=False)


class ShownRow(NamedTuple):
    """A row of the table, ready to be printed.

    Attributes:
        line: its line in the input.
        has_id: whether it has an id of its own.
        cells: its lines in the table, each with the cells line, id, status, step, why and ms.
        trace: the trace of the run, if timelines are shown.
    """

    line: int
    has_id: bool
    cells: list[tuple[Text, ...]]
    trace: Trace | None


@dataclass(frozen=True, slots=True)
class TableRows(RowForm):
    """Makes the rows of the table; None of a row that passed and is only counted."""

    columns: Columns = COLUMNS
    show_text: bool = False
    show_input: bool = False
    traced: bool = False

    def make(self, checked: RowChecked) -> ShownRow | None:
        """Return the output for a result."""
        shown = self.show_text or self.show_input or any(map(_is_notable, checked.records))
        if checked.status == "passed" and not shown:
            return None
        id = self.columns.id_of(checked.item.value)
        trace = checked.trace if self.traced else None
        return ShownRow(checked.item.line, id is not None, self._lines(checked, id), trace)

    def _lines(self, checked: RowChecked, id: str | int | None) -> list[tuple[Text, ...]]:
        found = [
            (
                Text(plain(record.step)),
                Text(f"{record.status_text}: {why(record)}" if record.shadow else why(record)),
                Text(_milliseconds(record.seconds)),
            )
            for record in checked.records
            if _is_notable(record)
        ]
        if checked.error is not None and not found:
            found = [(Text(), Text(plain(error_text(checked.error))), Text(_milliseconds(checked.seconds)))]
        shown = [("input", visible(str(checked.item.value)))] if self.show_input else []
        if self.show_text and checked.outcome is not None and not checked.outcome.blocked:
            shown.append(("text", visible(checked.outcome.text)))
        found += [(Text(label, "dim"), Text(text), Text()) for label, text in shown]
        head = (
            Text(str(checked.item.line)),
            Text("" if id is None else plain(str(id))),
            status_text(checked.status, _row_status(checked)),
        )
        rest = (Text(), Text(), Text())
        lines = found or [(Text(), Text(), Text(_milliseconds(checked.seconds)))]
        return [(*(head if number == 0 else rest), *cells) for number, cells in enumerate(lines)]


class RowsTable:
    """Collects the rows to show, and prints them at the end. Lives as long as one run over rows.

    Rows that passed are only counted, and no more than ``most`` of the others are kept, so memory use is bounded.
    """

    def __init__(self, out: IO[str], most: int, form: TableRows) -> None:
        self.form = form
        self._console = console_for(out)
        self._omitted = 0
        self._most = most
        self._shown: list[ShownRow] = []

    def add(self, made: ShownRow | None) -> None:
        """Keep a row if it is to be shown."""
        if made is None:
            return
        if len(self._shown) < self._most:
            self._shown.append(made)
        else:
            self._omitted += 1

    def end(self, counts: RunCounts, seconds: float) -> None:
        """Print the rows, the steps and the counts."""
        console = self._console
        narrow = console.width < NARROW
        if self._shown:
            console.print(self._row_lines() if narrow else self._rows(), "")
        for row in self._shown:
            if row.trace is not None:
                console.print(Text(f"line {row.line}", "bold"))
                print_timeline(console, row.trace)
                console.print()
        if self._omitted:
            console.print(
                f"… and {self._omitted:,} more: --rows {self._omitted + len(self._shown)}, or --format jsonl\n"
            )
        if counts.steps:
            console.print(step_lines(counts) if narrow else steps_table(counts), "")
        console.print(counts.sentence(seconds))

    def _row_lines(self) -> Group:
        """Return what `_rows` shows, for a narrow terminal: a line for each row, and indented ones for its steps."""
        lines: list[RenderableType] = []
        for row in self._shown:
            for head, id, status, *cells in row.cells:
                if head.plain:
                    lines.append(joined(Text("line"), head, id, status))
                lines.append(_indented(cells))
        return Group(*lines)

    def _rows(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
        table.add_column("line", justify="right")
        with_ids = any(row.has_id for row in self._shown)
        if with_ids:
            table.add_column("id", overflow="ellipsis", no_wrap=True, max_width=24)
        table.add_column("status")
        table.add_column("step", overflow="fold")
        table.add_column("why", overflow="fold", ratio=1)
        table.add_column("ms", justify="right")
        for row in self._shown:
            for cells in row.cells:
                table.add_row(*cells if with_ids else (cells[0], *cells[2:]))
        return table


class SingleText(RowForm):
    """Prints the result of one text: the effect of each step, how it ended, and the resulting text."""

    def __init__(self, out: IO[str], *, show_input: bool = False, traced: bool = False) -> None:
        self.form = self  # the text is checked in this process
        self._console = console_for(out)
        self._show_input = show_input
        self._traced = traced

    def make(self, checked: RowChecked) -> RowChecked:
        """Return the result itself."""
        return checked

    def add(self, made: RowChecked) -> None:
        """Print the result."""
        checked, console, outcome = made, self._console, made.outcome
        trace = checked.trace if self._traced else None
        if trace is not None:
            print_timeline(console, trace)
            if checked.error is not None or self._show_input or (outcome is not None and not outcome.blocked):
                console.print()
        elif checked.records and console.width < NARROW:
            console.print(Group(*(line for record in checked.records for line in _record_lines(record))), "")
        elif checked.records:
            console.print(_records(checked), "")
        if trace is None or checked.error is not None:  # else the timeline has said it
            console.print(_verdict(checked))
        if self._show_input:
            console.print(Text.assemble(("input: ", "dim"), readable(str(checked.item.value))))
        if outcome is not None and not outcome.blocked:
            console.print(Text.assemble(("text: ", "dim"), readable(outcome.text)))

    def end(self, counts: RunCounts, seconds: float) -> None:
        """Do nothing: one text needs no counts."""


def _records(checked: RowChecked) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in ("step", "status", "why", "ms"):
        table.add_column(name, overflow="fold", justify="right" if name == "ms" else "left")
    for record in checked.records:
        table.add_row(
            Text(plain(record.step)),
            status_text(record.status, record.status_text),
            why(record),
            _milliseconds(record.seconds),
        )
    return table


def _record_lines(record: Record) -> list[RenderableType]:
    """Return the row of `_records` for a narrow terminal."""
    time = f"{_milliseconds(record.seconds)} ms"
    head = joined(Text(plain(record.step)), status_text(record.status, record.status_text), time)
    reason = why(record)
    return [head, _indented([Text(reason)])] if reason else [head]


def _indented(cells: Sequence[Text]) -> RenderableType:
    """Return the cells of a table's row as one indented paragraph."""
    return Padding(joined(*cells), (0, 0, 0, 2))


def joined(*cells: Text | str) -> Text:
    """Return the cells that are not empty, in one line."""
    return Text("  ").join([text for cell in cells if (text := cell if isinstance(cell, Text) else Text(cell)).plain])


def _verdict(checked: RowChecked) -> Text:
    line = Text.assemble(status_text(checked.status, _row_status(checked)), f" in {_milliseconds(checked.seconds)} ms")
    if checked.outcome is not None and checked.outcome.tripwire is not None:
        tripwire = checked.outcome.tripwire
        line.append(f" by {tripwire.processor_id}: {plain(tripwire.reason)}")
    elif checked.error is not None:
        line.append(f": {plain(error_text(checked.error))}")
    return line


def _is_notable(record: Record) -> bool:
    return record.status in NOTABLE or bool(record.flagged)


def _row_status(checked: RowChecked) -> str:
    """Return the status of a row in words; that of one that passed says whether it is flagged."""
    return "flagged" if checked.status == "passed" and checked.flagged else checked.status


def status_text(status: str, words: str | None = None) -> Text:
    """Return a status in its colour."""
    return Text(words or status, COLOURS.get(words or "") or COLOURS.get(status, ""))


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def steps_table(counts: RunCounts) -> Table:
    """Return the table of the steps; a status that no step has gets no column."""
    statuses = [status for status in RECORDED if any(step.statuses[status] for step in counts.steps.values())]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("step", overflow="fold")
    flagged = any(step.flagged for step in counts.steps.values())
    for name in (*statuses, *(["flagged"] if flagged else []), "edits", "ms", "max"):
        table.add_column(name, justify="right", overflow="fold")
    for path, step in counts.steps.items():
        label = Text(plain(path) + (" (shadow)" if step.shadow else ""))
        found = [_count(step.flagged, "flagged")] if flagged else []
        times = [Text(_milliseconds(step.seconds / step.ran)), Text(_milliseconds(step.slowest))] if step.ran else []
        figures = [_count(step.edits), *(times or [_count(0), _count(0)])]
        table.add_row(label, *(_count(step.statuses[status], status) for status in statuses), *found, *figures)
    return table


def step_lines(counts: RunCounts) -> Group:
    """Return what `_steps` shows, for a narrow terminal."""
    lines: list[RenderableType] = []
    for path, step in counts.steps.items():
        found = [f"{step.statuses[status]:,} {status}" for status in RECORDED if step.statuses[status]]
        found += [f"{count:,} {what}" for count, what in ((step.flagged, "flagged"), (step.edits, "edits")) if count]
        slow = f"; {_milliseconds(step.seconds / step.ran)} ms, max {_milliseconds(step.slowest)}" if step.ran else ""
        lines += [Text(plain(path) + (" (shadow)" if step.shadow else "")), _indented([Text(", ".join(found) + slow)])]
    return Group(*lines)


def _count(count: int, status: str = "passed") -> Text:
    return Text(f"{count:,}", COLOURS[status]) if count else Text("·", "dim")
