"""Results as a table: which rows were blocked or edited, by which step, why, in how many ms; and counts per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from penstock.workflows.cli.formatting import console_for, plain, why
from penstock.workflows.cli.results import error_text
from penstock.workflows.cli.terminal import readable, visible

if TYPE_CHECKING:
    from typing import IO

    from penstock.engine.values.tripwire import Record
    from penstock.workflows.cli.results import RowChecked, RunCounts, StepCounts

COLOURS = {
    "passed": "green",
    "edited": "yellow",
    "blocked": "bold red",
    "tripped": "bold red",
    "failed": "magenta",
    "invalid": "magenta",
    "skipped": "dim",
}

RECORDED = ("passed", "edited", "tripped", "failed", "skipped")
"""The statuses of a record, in the order of their columns."""

NOTABLE = ("edited", "tripped", "failed")
"""The statuses of the records that are shown for a row."""


class RowsTable:
    """Collects the rows to show, and prints them at the end. Lives as long as one run over rows.

    Rows that passed are only counted, and no more than ``most`` of the others are kept, so memory use is bounded.
    """

    def __init__(self, out: IO[str], most: int, *, show_text: bool = False, show_input: bool = False) -> None:
        self._console = console_for(out)
        self._omitted = 0
        self._most = most
        self._show_text = show_text
        self._show_input = show_input
        self._shown: list[RowChecked] = []

    def add(self, checked: RowChecked) -> None:
        """Keep a result if it is to be shown."""
        if checked.status == "passed" and not (self._show_text or self._show_input or _has_shadow_findings(checked)):
            return
        if len(self._shown) < self._most:
            self._shown.append(checked)
        else:
            self._omitted += 1

    def end(self, counts: RunCounts, seconds: float) -> None:
        """Print the rows, the steps and the counts."""
        console = self._console
        if self._shown:
            console.print(self._rows(), "")
        if self._omitted:
            console.print(
                f"… and {self._omitted:,} more: --rows {self._omitted + len(self._shown)}, or --format jsonl\n"
            )
        if counts.steps:
            console.print(_steps(counts), "")
        console.print(counts.sentence(seconds))

    def _rows(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
        table.add_column("line", justify="right")
        with_ids = any(checked.item.id is not None for checked in self._shown)
        if with_ids:
            table.add_column("id", overflow="ellipsis", no_wrap=True, max_width=24)
        table.add_column("status")
        table.add_column("step", overflow="fold")
        table.add_column("why", overflow="fold", ratio=1)
        table.add_column("ms", justify="right")
        for checked in self._shown:
            for cells in self._lines(checked):
                table.add_row(*cells if with_ids else (cells[0], *cells[2:]))
        return table

    def _lines(self, checked: RowChecked) -> list[tuple[Text, ...]]:
        row = checked.item
        found = [_record_cells(record) for record in checked.records if record.status in NOTABLE]
        if checked.error is not None and not found:
            found = [(Text(), Text(plain(error_text(checked.error))), Text(_milliseconds(checked.seconds)))]
        found += [(Text(label, "dim"), Text(text), Text()) for label, text in self._texts(checked)]
        head = (Text(str(row.line)), Text("" if row.id is None else plain(str(row.id))), _status(checked.status))
        rest = (Text(), Text(), Text())
        lines = found or [(Text(), Text(), Text(_milliseconds(checked.seconds)))]
        return [(*(head if number == 0 else rest), *cells) for number, cells in enumerate(lines)]

    def _texts(self, checked: RowChecked) -> list[tuple[str, str]]:
        """Return the texts to show, with their labels."""
        shown = [("input", visible(str(checked.item.value)))] if self._show_input else []
        if self._show_text and checked.outcome is not None and not checked.outcome.blocked:
            shown.append(("text", visible(checked.outcome.text)))
        return shown


class SingleText:
    """Prints the result of one text: what each step did, how it ended, and the resulting text."""

    def __init__(self, out: IO[str], *, show_input: bool = False) -> None:
        self._console = console_for(out)
        self._show_input = show_input

    def add(self, checked: RowChecked) -> None:
        """Print the result."""
        console, outcome = self._console, checked.outcome
        if checked.records:
            console.print(_records(checked), "")
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
            _status(record.status, record.status_text),
            why(record),
            _milliseconds(record.seconds),
        )
    return table


def _verdict(checked: RowChecked) -> Text:
    line = Text.assemble(_status(checked.status), f" in {_milliseconds(checked.seconds)} ms")
    if checked.outcome is not None and checked.outcome.tripwire is not None:
        tripwire = checked.outcome.tripwire
        line.append(f" by {tripwire.processor_id}: {plain(tripwire.reason)}")
    elif checked.error is not None:
        line.append(f": {plain(error_text(checked.error))}")
    return line


def _has_shadow_findings(checked: RowChecked) -> bool:
    return any(record.shadow and record.status in NOTABLE for record in checked.records)


def _record_cells(record: Record) -> tuple[Text, Text, Text]:
    reason = why(record)
    if record.shadow:
        reason = f"{record.status_text}: {reason}"
    return Text(plain(record.step)), Text(reason), Text(_milliseconds(record.seconds))


def _status(status: str, words: str | None = None) -> Text:
    return Text(words or status, COLOURS.get(status, ""))


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def _steps(counts: RunCounts) -> Table:
    """Return the table of the steps; a status that no step has gets no column."""
    statuses = [status for status in RECORDED if any(step.statuses[status] for step in counts.steps.values())]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("step", overflow="fold")
    for name in (*statuses, "edits", "ms", "max"):
        table.add_column(name, justify="right", overflow="fold")
    for path, step in counts.steps.items():
        label = Text(plain(path) + (" (shadow)" if step.shadow else ""))
        table.add_row(label, *(_count(step.statuses[status], status) for status in statuses), *_figures(step))
    return table


def _figures(step: StepCounts) -> tuple[Text, Text, Text]:
    edits = _count(step.edits)
    if not step.ran:
        return (edits, _count(0), _count(0))
    return (edits, Text(_milliseconds(step.seconds / step.ran)), Text(_milliseconds(step.slowest)))


def _count(count: int, status: str = "passed") -> Text:
    return Text(f"{count:,}", COLOURS[status]) if count else Text("·", "dim")
