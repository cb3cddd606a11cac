"""`RunReport`: the results of a run over rows as one HTML file, with an overview, the rows, and their traces."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

import penstock
from penstock.engine.render.as_html import page_data
from penstock.engine.render.as_svg import as_svg
from penstock.engine.render.page_marks import PageMarks
from penstock.engine.render.self_contained import PageFile, data_block, json_block, modules_in, shared_modules
from penstock.workflows.report.kept_rows import KeptRows, Limits, SlowestRows, packed_json
from penstock.workflows.rows.reading import COLUMNS, Columns, is_object
from penstock.workflows.rows.results import error_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from penstock.engine.values.trace import Trace
    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.results import RowChecked, RunCounts

TEXT_CHARS = 300
"""How much of a text, a reason or an id the list of rows shows."""


@dataclass(frozen=True, slots=True)
class ReportSource:
    """What was run, as the report says it.

    Attributes:
        input: the name of the input.
        stage: the stage that ran.
        texts: whether the report has the texts, including everything that was hidden.
        columns: which columns of a row are used.
    """

    input: str
    stage: str
    texts: bool = False
    columns: Columns = COLUMNS


class ReportedRow(NamedTuple):
    """What the report says of a row.

    Attributes:
        summary: what the list of rows says of it.
        trace: the trace as JSON, with its marks of the picture; None: the row has none, or it would not be kept.
        quiet: whether nothing happened to the row.
    """

    summary: dict[str, Any]
    trace: str | None
    quiet: bool


@dataclass(frozen=True, slots=True)
class ReportRows:
    """Makes what the report says of each row.

    Attributes:
        stage: the stage that runs.
        columns: which columns of a row are used.
        texts: whether the list of rows shows texts.
        rows: of how many rows of a kind the report keeps traces.
    """

    stage: str
    columns: Columns = COLUMNS
    texts: bool = False
    rows: int = Limits().rows

    def maker(self, workflow: Workflow) -> Callable[[RowChecked], ReportedRow]:
        """Return what makes it.

        Each process keeps as many traces as the whole report does: no row that is kept there is missing here.
        """
        marks = PageMarks(workflow.root, self.stage)
        room = {True: self.rows, False: self.rows}
        slowest = SlowestRows()

        def make(checked: RowChecked) -> ReportedRow:
            summary = self._summary(checked)
            quiet = checked.status == "passed" and not checked.flagged
            place = summary["seconds"], summary["line"]
            kept = room[quiet] > 0 or slowest.keeps(*place)
            room[quiet] -= 1
            slowest.add(*place, {}, None)
            return ReportedRow(summary, _ran(checked.trace, marks) if kept else None, quiet)

        return make

    def _summary(self, checked: RowChecked) -> dict[str, Any]:
        """Return what the list of rows says of one; what is empty is left out."""
        row, outcome = checked.item, checked.outcome
        id = self.columns.id_of(row.value)
        tripwire = None if outcome is None else outcome.tripwire
        reason = tripwire.reason if tripwire is not None else "" if checked.error is None else error_text(checked.error)
        acted = {record.step: record.status for record in checked.records if record.status not in ("passed", "skipped")}
        found: dict[str, Any] = {
            "line": row.line,
            "id": _cut(id) if isinstance(id, str) else id,
            "status": checked.status,
            "seconds": round(checked.seconds, 6),
            "reason": _cut(reason),
            "steps": acted,
            "flagged": [_cut(name) for name in checked.flagged],
            "text": _cut(_text(row.value)) if self.texts else None,
        }
        return {name: value for name, value in found.items() if value not in (None, "", [], {})}


class RunReport:
    """Collects the results of a run, with bounded memory. Use it in a ``with`` block: it has temporary files.

    Args:
        workflow: the workflow that runs.
        source: what it runs on.
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
        self._started = datetime.now(UTC)
        self.form = ReportRows(source.stage, source.columns, source.texts, (limits or Limits()).rows)

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
        place = summary["seconds"], summary["line"]
        summary["listed"] = (self._quiet if made.quiet else self._eventful).add(summary, trace)
        self._slowest.add(*place, summary, trace)

    def write(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> None:
        """Write the file.

        Args:
            counts: the counts of all rows.
            seconds: the time that all rows took.
            interrupted: whether the run was stopped before its end.
        """
        name, root = self._workflow.name, self._workflow.root
        modules = shared_modules() | modules_in("penstock.workflows.report", "report")
        # Nobody whose text is in the file could know the nonce, for it is made afterwards.
        page = PageFile(
            f"Report: {name}",
            modules,
            "report/report.js",
            as_svg(name, root, self._source.stage),
            secrets.token_hex(16),
        )
        out = self._out
        out.write(page.start())
        rows, extra = self._rows()
        told = {
            **page_data(name, root, self._source.stage),
            "source": {"input": self._source.input, "texts": self._source.texts, "interrupted": interrupted},
            "made": {"version": penstock.__version__, "at": self._started.isoformat(timespec="seconds")},
            "counts": _counts(counts, seconds),
            "slowest": [summary["line"] for summary, _ in self._slowest.rows()],
            "rows": rows,
        }
        out.write(data_block("data", json_block(told)))
        for block, text in [*self._eventful.blocks(), *self._quiet.blocks(), ("traces-s0", extra)]:
            out.write(data_block(block, json.dumps(text)))
        out.write(f"{page.end()}\n")

    def _rows(self) -> tuple[list[dict[str, Any]], str]:
        """Return the listed rows in order, and the block of the traces of slow rows that are not kept otherwise."""
        traces: list[str] = []
        rows = [*self._eventful.summaries, *self._quiet.summaries]
        for summary, trace in self._slowest.rows():
            if not summary["listed"]:
                rows.append(summary)
            if trace is not None and "block" not in summary:
                summary |= {"block": "traces-s0", "index": len(traces)}
                traces.append(trace)
        rows = [{name: value for name, value in row.items() if name != "listed"} for row in rows]
        return sorted(rows, key=lambda row: row["line"]), packed_json(f"[{','.join(traces)}]")


def _ran(trace: Trace | None, marks: PageMarks) -> str | None:
    """Return what the page shows of a run, as JSON."""
    return None if trace is None else json_block({"trace": trace.to_json(), "marks": marks.of(trace)})


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    text: object = value.get("text") if is_object(value) else None
    return text if isinstance(text, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS else f"{text[: TEXT_CHARS - 1]}…"


def _counts(counts: RunCounts, seconds: float) -> dict[str, Any]:
    return {
        "rows": counts.rows,
        "seconds": seconds,
        "statuses": dict(counts.statuses),
        "broken": counts.broken,
        "flagged": counts.flagged,
        "steps": [
            {
                "path": path,
                "shadow": step.shadow,
                "ran": step.ran,
                "statuses": dict(step.statuses),
                "edits": step.edits,
                "flagged": step.flagged,
                "seconds": step.seconds,
                "slowest": step.slowest,
            }
            for path, step in counts.steps.items()
        ],
    }
