"""The report of a run on the terminal: samples, the slowest rows, the steps, and the counts last."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from penstock.engine.tracing.display import visible
from penstock.workflows.cli.formatting import console_for, plain
from penstock.workflows.cli.table import NARROW, joined, status_text, step_lines, steps_table
from penstock.workflows.report.markdown import milliseconds, row_name, said_of
from penstock.workflows.report.short_report import ShortReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.workflows.report.summaries import ReportSource
    from penstock.workflows.rows.results import RunCounts


class PrintedReport(ShortReport):
    """A short report that is printed."""

    def __init__(self, source: ReportSource, out: IO[str], samples: int) -> None:
        super().__init__(source, samples)
        self._console = console_for(out)

    def write(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> None:
        """Print the report. Arguments as of `run_facts`."""
        report, console = self.as_json(counts, seconds, interrupted=interrupted), self._console
        for kind in report["samples"]:
            by = Text.assemble(" by ", plain(kind["step"])) if kind["step"] else Text()
            console.print(Text.assemble(status_text(kind["verdict"]), by))
            for row in kind["rows"]:
                console.print(_indented(_named(row), 2))
                for name, text in said_of(row):
                    console.print(_indented(Text.assemble((f"{name}: ", "dim"), visible(text)), 4))
            console.print()
        if report["slowest"]:
            console.print("slowest rows")
            for row in report["slowest"]:
                console.print(_indented(joined(milliseconds(row["seconds"]), _named(row)), 2))
            console.print()
        if counts.steps:
            console.print(step_lines(counts) if console.width < NARROW else steps_table(counts), "")
        console.print(counts.sentence(seconds))


def _named(row: Mapping[str, Any]) -> Text:
    return joined(plain(row_name(row)), plain(str(row.get("id", ""))), status_text(row["status"]))


def _indented(text: Text, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns), expand=False)
