"""`ShortReport`: counts, slowest rows and samples of a run over rows, as JSON and Markdown. It keeps no traces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.workflows.report import SAMPLES
from penstock.workflows.report.kept_rows import SlowestRows
from penstock.workflows.report.samples import ReportSample, Samples, kinds_of, rank_of, sample_of
from penstock.workflows.report.summaries import ReportSource, run_facts
from penstock.workflows.rows.results import RowForm

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.results import RowChecked, RunCounts


class ShortRow(NamedTuple):
    """The part of a row that a short report needs: mostly nothing.

    Attributes:
        slow: its summary, if it is one of the slowest.
        samples: the groups that it is a sample of.
    """

    slow: dict[str, object] | None
    samples: tuple[ReportSample, ...]


@dataclass(frozen=True, slots=True)
class ShortRows(RowForm):
    """Makes the part of each row that a short report needs.

    Attributes:
        source: the workflow, stage and rows.
        samples: how many samples of each verdict and step are kept.
    """

    source: ReportSource
    samples: int = SAMPLES

    def maker(self, workflow: Workflow) -> Callable[[RowChecked], ShortRow]:  # noqa: ARG002 - as every form
        """Return what makes it.

        Each process keeps as many as the whole report does: no row that is kept there is missing here.
        """
        found = Collected(self.samples)

        def make(checked: RowChecked) -> ShortRow:
            line, file = checked.item.line, checked.item.file
            seconds = round(checked.seconds, 6)
            slow = self.source.summary(checked) if found.slowest.keeps(seconds, line) else None
            kinds = list(kinds_of(checked))
            rank = rank_of(file, line) if kinds else (b"", "", 0)
            samples = (
                ReportSample(kind, rank, sample_of(checked, record, kind, self.source))
                for kind, record in kinds
                if found.samples.keeps(kind, rank)
            )
            made = ShortRow(slow, tuple(samples))
            found.add(made)
            return made

        return make


class Collected:
    """The slowest rows and the samples so far."""

    def __init__(self, samples: int) -> None:
        self.slowest = SlowestRows()
        self.samples = Samples(samples)

    def add(self, made: ShortRow) -> None:
        """Add a row."""
        if made.slow is not None:
            self.slowest.add(made.slow, None)
        for sample in made.samples:
            self.samples.add(sample)


class Report(Protocol):
    """Collects what its form makes of each row, and writes a report at the end."""

    @property
    def form(self) -> RowForm:
        """The function that is called with each result."""
        ...

    def add(self, made: Any) -> None:
        """Add a row."""
        ...

    def write(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> None:
        """Write the report. Arguments as of `run_facts`."""
        ...


class ShortReport:
    """Collects the results of a run, with bounded memory.

    Args:
        source: the workflow, stage and rows.
        samples: how many samples of each verdict and step are kept.
    """

    def __init__(self, source: ReportSource, samples: int = SAMPLES) -> None:
        self.form = ShortRows(source, samples)
        self.collected = Collected(samples)
        self._source = source

    def add(self, made: ShortRow) -> None:
        """Add a row."""
        self.collected.add(made)

    def as_json(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> dict[str, Any]:
        """Return the report as JSON. Arguments as of `run_facts`."""
        return {
            **run_facts(self._source, counts, seconds, interrupted=interrupted),
            "slowest": [summary for summary, _ in self.collected.slowest.rows()],
            "samples": self.collected.samples.as_json(),
        }


class WrittenReport(ShortReport):
    """A short report that is written to a file, by `json_text` or `as_markdown`."""

    def __init__(
        self, source: ReportSource, out: IO[str], text_of: Callable[[dict[str, object]], str], samples: int = SAMPLES
    ) -> None:
        super().__init__(source, samples)
        self._out = out
        self._text_of = text_of

    def write(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> None:
        """Write the report. Arguments as of `run_facts`."""
        self._out.write(self._text_of(self.as_json(counts, seconds, interrupted=interrupted)) + "\n")


def json_text(report: dict[str, object]) -> str:
    """Return a report as JSON, in ASCII, so that it cannot control a terminal."""
    return json.dumps(report, indent=2)
