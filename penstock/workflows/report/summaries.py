"""What every report says, whatever its format: of a row (`ReportSource.summary`), and of a run (`run_facts`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import penstock
from penstock.workflows.rows.reading import COLUMNS, Columns
from penstock.workflows.rows.results import error_text
from penstock.workflows.rows.row_text import row_text

if TYPE_CHECKING:
    from penstock.workflows.rows.results import RowChecked, RunCounts

TEXT_CHARS = 300
"""How much of a text, a reason or an id a report shows in a list of rows."""


@dataclass(frozen=True, slots=True)
class ReportSource:
    """The run that a report is about.

    Attributes:
        workflow: the name of the workflow.
        input: the name of the input.
        stage: the stage that ran.
        texts: whether the report has the texts, including everything that was hidden.
        columns: which columns of a row are used.
        started: when the run started.
    """

    workflow: str
    input: str
    stage: str
    texts: bool = False
    columns: Columns = COLUMNS
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def summary(self, checked: RowChecked) -> dict[str, object]:
        """Return the summary of a row for lists, without empty fields. It has no text, unless ``texts``."""
        row, outcome = checked.item, checked.outcome
        id = self.columns.id_of(row.value)
        tripwire = None if outcome is None else outcome.tripwire
        reason = tripwire.reason if tripwire is not None else "" if checked.error is None else error_text(checked.error)
        acted = {record.step: record.status for record in checked.records if record.status not in ("passed", "skipped")}
        return without_empty(
            {
                "file": row.file,
                "line": row.line,
                "id": cut(id) if isinstance(id, str) else id,
                "status": checked.status,
                "seconds": round(checked.seconds, 6),
                "reason": cut(reason),
                "steps": acted,
                "flagged": [cut(name) for name in checked.flagged],
                "text": cut(row_text(row, self.columns)) if self.texts else None,
            }
        )


def without_empty(fields: dict[str, object]) -> dict[str, object]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def cut(text: str) -> str:
    """Return a text, cut to the length that lists of rows show."""
    return text if len(text) <= TEXT_CHARS else f"{text[: TEXT_CHARS - 1]}…"


def run_facts(source: ReportSource, counts: RunCounts, seconds: float, *, interrupted: bool) -> dict[str, object]:
    """Return the run and the counts of all rows, as JSON.

    Args:
        source: the workflow, stage and rows.
        counts: the counts of all rows.
        seconds: the time that all rows took.
        interrupted: whether the run was stopped before its end.
    """
    return {
        "name": source.workflow,
        "stage": source.stage,
        "source": {"input": source.input, "texts": source.texts, "interrupted": interrupted},
        "made": {"version": penstock.__version__, "at": source.started.isoformat(timespec="seconds")},
        "counts": {
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
        },
    }
