"""Run one stage of a workflow on the rows of a file."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, cast

from penstock.engine.processor.stages import full_name
from penstock.workflows.batch import check_concurrently
from penstock.workflows.rows.reading import COLUMNS, call_of, parse_row
from penstock.workflows.rows.results import RunCounts, as_json, error_text, result_of
from penstock.workflows.rows.row_text import row_text
from penstock.workflows.studio.row_file import row_file
from penstock.workflows.studio.worker.running import check_served

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.reading import Source
    from penstock.workflows.rows.results import RowChecked
    from penstock.workflows.rows.sources import RowFiles
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.channel import Channel

_PAUSE = 0.1  # seconds for which rows are joined
_TEXT_CHARS = 500  # of the text of a row, in the table of all rows


class RowsLive:
    """Tells of the rows of one run, many at once, and writes their results. Lives as long as the run."""

    def __init__(self, channel: Channel, source: Source, results: IO[str]) -> None:
        self.counts = RunCounts()
        self._channel = channel
        self._source = source
        self._results = results
        self._rows: list[Json] = []
        self._sent = 0.0

    def add(self, checked: RowChecked) -> None:
        """Take one result."""
        self.counts.add(result_of(checked))
        self._results.write(as_json(checked) + "\n")
        self._rows.append(row_json(checked))
        if monotonic() - self._sent >= _PAUSE:
            self.flush()

    def flush(self) -> None:
        """Send the rows that wait."""
        rows, self._rows, self._sent = self._rows, [], monotonic()
        told: Json = {"rows": rows, "counts": dict(self.counts.statuses), "done": self.counts.rows}
        self._channel.event("rows", {**told, "bytes": self._source.taken, "steps": self.steps()})

    def steps(self) -> Json:
        """Return the counts of each step so far."""
        return {
            path: {
                "runs": step.ran,
                "seconds": step.seconds,
                "slowest": step.slowest,
                "edits": step.edits,
                "edited": step.statuses["edited"],
                "tripped": step.statuses["tripped"],
                "failed": step.statuses["failed"],
                "flagged": step.flagged,
                "shadow": step.shadow,
            }
            for path, step in self.counts.steps.items()
        }


def row_json(checked: RowChecked) -> Json:
    """Return what became of a row, and the beginning of its text as it came in."""
    tripwire = None if checked.outcome is None else checked.outcome.tripwire
    edits = {record.step: len(record.edits) for record in checked.records if record.edits and not record.shadow}
    tripped = [
        record.step for record in checked.records if record.status in ("tripped", "failed") and not record.shadow
    ]
    return {
        "line": checked.item.line,
        "id": COLUMNS.id_of(checked.item.value),
        "text": row_text(checked.item)[:_TEXT_CHARS],
        "status": checked.status,
        "seconds": checked.seconds,
        "reason": None if tripwire is None else tripwire.reason,
        "step": tripped[-1] if tripped else None,
        "flagged": list(checked.flagged),
        "error": None if checked.error is None else error_text(checked.error),
        "edits": edits,
    }


@contextmanager
def _opened(file: Path, results: Path, stage: str) -> Generator[tuple[RowFiles, IO[str]]]:
    with (
        row_file(file, stage).started() as source,
        results.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as out,
    ):
        yield source, out


async def run_file(workflow: Workflow, request: Json, channel: Channel) -> Json:
    """Run a stage on all rows of a file, and return the result as data.

    Raises:
        PenstockError: the graph has problems, the stage is not served, or the file cannot be read.
    """
    stage = full_name(str(request["stage"]))
    check_served(workflow, stage)
    context = cast("dict[str, object]", request.get("context") or {})

    with _opened(Path(str(request["file"])), Path(str(request["results"])), stage) as (source, out):
        live = RowsLive(channel, source, out)
        jobs = int(cast("int", request.get("jobs") or 8))
        await check_concurrently(
            workflow,
            map(parse_row, source.raw_rows()),
            live.add,
            stage=stage,
            jobs=jobs,
            as_call=partial(call_of, stage=stage, context=context),
        )
        live.flush()
    return {"status": "done", "output": None, "error": None, "trace": None}
