"""`RunReport`: the results of a run over rows as one HTML file, with an overview, the rows, and their traces."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple, Self

from penstock.pictures.as_html import page_data
from penstock.pictures.as_svg import as_svg
from penstock.pictures.page_marks import PageMarks
from penstock.pictures.scene import scene_of
from penstock.pictures.self_contained import PageFile, data_block, json_block, modules_in, shared_modules
from penstock.workflows.report.kept_rows import KeptRows, Limits, SlowestRows, packed_json
from penstock.workflows.report.summaries import ReportSource, run_facts
from penstock.workflows.rows.results import RowForm

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.results import RowChecked, RunCounts


class ReportedRow(NamedTuple):
    """The part of a row that the report shows.

    Attributes:
        summary: its summary for the list of rows.
        trace: the trace as JSON, with its marks of the picture; None: the row has none, or it would not be kept.
        quiet: whether nothing happened to the row.
    """

    summary: dict[str, object]
    trace: str | None
    quiet: bool


@dataclass(frozen=True, slots=True)
class ReportRows(RowForm):
    """Makes the part of each row that the report shows.

    Attributes:
        source: the workflow, stage and rows.
        rows: of how many rows of a kind the report keeps traces.
    """

    source: ReportSource
    rows: int = Limits().rows

    def maker(self, workflow: Workflow) -> Callable[[RowChecked], ReportedRow]:
        """Return what makes it.

        Each process keeps as many traces as the whole report does: no row that is kept there is missing here.
        """
        marks = PageMarks(scene_of(workflow.name, workflow.root, self.source.stage))
        room = {True: self.rows, False: self.rows}
        slowest = SlowestRows()

        def make(checked: RowChecked) -> ReportedRow:
            summary = self.source.summary(checked)
            quiet = checked.status == "passed" and not checked.flagged
            kept = room[quiet] > 0 or slowest.keeps(round(checked.seconds, 6), checked.item.line)
            room[quiet] -= 1
            slowest.add(summary, None)
            trace = checked.trace if kept else None
            ran = None if trace is None else json_block({"trace": trace.to_json(), "marks": marks.of(trace)})
            return ReportedRow(summary, ran, quiet)

        return make


class RunReport:
    """Collects the results of a run, with bounded memory. Use it in a ``with`` block: it has temporary files.

    Args:
        workflow: the workflow that runs.
        source: the workflow, stage and rows.
        out: where `write` writes to.
        limits: how much is kept; counts are of all rows.
    """

    def __init__(self, workflow: Workflow, source: ReportSource, out: IO[str], limits: Limits | None = None) -> None:
        self._workflow = workflow
        self._source = source
        self._out = out
        self._eventful = KeptRows("traces-e", limits or Limits())
        self._quiet = KeptRows("traces-q", limits or Limits())
        self._slowest = SlowestRows()
        self.form = ReportRows(source, (limits or Limits()).rows)

    def __enter__(self) -> Self:
        """Start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the temporary files."""
        self._eventful.close()
        self._quiet.close()

    def add(self, made: ReportedRow) -> None:
        """Add a row."""
        summary, trace = made.summary, made.trace
        summary["listed"] = (self._quiet if made.quiet else self._eventful).add(summary, trace)
        self._slowest.add(summary, trace)

    def write(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> None:
        """Write the file.

        Args:
            counts: the counts of all rows.
            seconds: the time that all rows took.
            interrupted: whether the run was stopped before its end.
        """
        name = self._workflow.name
        scene = scene_of(name, self._workflow.root, self._source.stage)
        modules = shared_modules() | modules_in("penstock.workflows.report", "report")
        # Nobody whose text is in the file could know the nonce, for it is made afterwards.
        page = PageFile(f"Report: {name}", modules, "report/report.js", as_svg(scene), secrets.token_hex(16))
        out = self._out
        out.write(page.start())
        rows, slowest, extra = self._rows()
        told = {
            **page_data(scene),
            **run_facts(self._source, counts, seconds, interrupted=interrupted),
            "slowest": slowest,
            "rows": rows,
        }
        out.write(data_block("data", json_block(told)))
        for block, text in [*self._eventful.blocks(), *self._quiet.blocks(), ("traces-s0", extra)]:
            out.write(data_block(block, json.dumps(text)))
        out.write(f"{page.end()}\n")

    def _rows(self) -> tuple[list[dict[str, object]], list[int], str]:
        """Return the rows in order, the places of the slowest, and the block of their traces that is nowhere else."""
        traces: list[str] = []
        rows = [*self._eventful.summaries, *self._quiet.summaries]
        slowest = self._slowest.rows()
        for summary, trace in slowest:
            if not summary["listed"]:
                rows.append(summary)
            if trace is not None and "block" not in summary:
                summary |= {"block": "traces-s0", "index": len(traces)}
                traces.append(trace)
        rows.sort(key=lambda row: (row.get("file", ""), row["line"]))
        at = {id(row): number for number, row in enumerate(rows)}
        shown = [{name: value for name, value in row.items() if name != "listed"} for row in rows]
        return shown, [at[id(summary)] for summary, _ in slowest], packed_json(f"[{','.join(traces)}]")
