"""`ShortReport`: counts, slowest rows and samples of a run over rows, as JSON and Markdown. It keeps no traces.

Samples are a few rows of each verdict and step, without hidden text. Which rows are chosen depends on their files and
lines only, by a hash. So the choice is the same by one process, by many, and in whatever order the rows end; it is
spread over the whole input; and its size does not grow with the rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from penstock.workflows.report import SAMPLES
from penstock.workflows.report.kept_rows import SlowestRows
from penstock.workflows.report.summaries import TEXT_CHARS, ReportSource, cut, run_facts, without_empty
from penstock.workflows.rows.results import RowForm, Sink, edit_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Record
    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.results import RowChecked, RunCounts

MOST_EDITS = 5
"""How many edits of a step a sample lists."""

BEFORE = 60
"""How many characters of the resulting text a sample shows before an edit."""

_FOUND = ("edited", "tripped", "failed")

Rank: TypeAlias = tuple[bytes, str, int]
"""The place of a row in the order in which rows are chosen: a hash of its file and line, then both."""


class Kind(NamedTuple):
    """The verdict and step that the samples of a group have in common.

    Attributes:
        verdict: ``edited``, ``flagged``, ``blocked``, ``failed`` or ``invalid``; for a step in shadow mode the
            verdict that it would have given.
        step: the path of the step; empty if the row failed without one.
    """

    verdict: str
    step: str


VERDICTS = ("blocked", "failed", "invalid", "flagged", "edited")
"""The verdicts of kinds in the order of a report; those of steps in shadow mode follow."""


class ReportSample(NamedTuple):
    """A row as a sample of a kind."""

    kind: Kind
    rank: Rank
    row: dict[str, object]


@dataclass(slots=True)
class Samples:
    """Keeps the first rows of each kind by rank.

    Attributes:
        most: how many of each kind.
    """

    most: int
    _kinds: dict[Kind, list[ReportSample]] = field(default_factory=dict[Kind, list[ReportSample]])

    def keeps(self, kind: Kind, rank: Rank) -> bool:
        """Return whether a row is one of the first so far."""
        kept = self._kinds.get(kind, [])
        return self.most > 0 and (len(kept) < self.most or rank < kept[-1].rank)

    def add(self, sample: ReportSample) -> None:
        """Keep a row if it is one of the first so far."""
        if self.keeps(sample.kind, sample.rank):
            kept = self._kinds.setdefault(sample.kind, [])
            kept.append(sample)
            kept.sort(key=lambda one: one.rank)
            del kept[self.most :]

    def as_json(self) -> list[dict[str, object]]:
        """Return each kind with its rows, in the order of the input."""
        return [
            {**kind._asdict(), "rows": [one.row for one in sorted(self._kinds[kind], key=lambda one: one.rank[1:])]}
            for kind in sorted(self._kinds, key=lambda kind: ((*VERDICTS, kind.verdict).index(kind.verdict), kind))
        ]


def rank_of(file: str | None, line: int) -> Rank:
    """Return the rank of a row."""
    name = file or ""
    return blake2b(f"{name}\0{line}".encode("utf-8", "surrogatepass"), digest_size=8).digest(), name, line


def kinds_of(checked: RowChecked) -> Iterator[tuple[Kind, Record | None]]:
    """Yield the kinds that a row is a sample of, each with the record that makes it one.

    A row that passed without a finding is none, and edits of a row that was refused are not: nothing is left of them.
    """
    refused = _result(checked) is None
    failed = False
    for record in checked.records:
        failed = failed or (record.status == "failed" and not record.shadow)
        verdict = "blocked" if record.status == "tripped" else record.status
        if verdict in VERDICTS and not (verdict == "edited" and refused):
            yield Kind(record.status_text if record.shadow else verdict, record.step), record
        if record.flagged:
            yield Kind("would flag" if record.shadow else "flagged", record.step), record
    if checked.error is not None and not failed:
        yield Kind(checked.status, ""), None


def sample_of(checked: RowChecked, record: Record | None, kind: Kind, source: ReportSource) -> dict[str, object]:
    """Return a sample as data: the summary of the row, and the result of the step."""
    row = source.summary(checked)
    if record is None or record.error is not None:
        return row if record is None or "reason" in row else {**row, "reason": f"{record.error} was raised"}
    if record.flagged and kind.verdict in ("flagged", "would flag"):
        return {**row, "flagged": [cut(name) for name in record.flagged]}
    if record.tripwire is not None:
        return {**row, "reason": cut(record.tripwire.reason)}
    outcome = _result(checked)
    if outcome is None:
        return row
    edits = [edit_fields(place, edit) for place, edit in record.edits[:MOST_EDITS]]
    found: dict[str, object] = {"edits": edits, "edit_count": len(record.edits) or None, "result": None}
    # A report shows no text in which something that a step found is still there.
    let_pass = any(each.flagged or (each.shadow and each.status in _FOUND) for each in checked.records)
    if not record.shadow and record.edits and (source.texts or not let_pass):
        found["result"] = _around(outcome, *record.edits[0])
    return without_empty({**row, **found})


def _result(checked: RowChecked) -> Outcome | None:
    """Return the outcome if the row has a result."""
    return None if checked.outcome is None or checked.outcome.blocked else checked.outcome


def _around(outcome: Outcome, place: TextPlace, edit: Edit) -> str:
    """Return the resulting text around an edit, cut.

    Later edits may have moved the inserted text: the nearest place with this text is taken.
    """
    text = dict(outcome.message_list.texts(outcome.messages)).get(place, outcome.text)
    at = min(edit.start, len(text))
    if edit.kind == "redact" and edit.text:
        places = (text.find(edit.text, at), text.rfind(edit.text, 0, at + len(edit.text)))
        at = min((place for place in places if place >= 0), key=lambda place: abs(place - edit.start), default=at)
    start = max(0, at - BEFORE)
    return cut(("…" if start else "") + text[start : start + TEXT_CHARS])


# The report


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
        found = ShortReport(self.source, self.samples)

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


class Report(Sink, Protocol):
    """Collects the output of its form for each row, and writes a report at the end."""

    def write(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> None:
        """Write the report. Arguments as of `run_facts`."""
        ...


class ShortReport:
    """Collects the results of a run, with bounded memory.

    Attributes:
        slowest: the slowest rows so far.
        samples: the samples so far.

    Args:
        source: the workflow, stage and rows.
        samples: how many samples of each verdict and step are kept.
    """

    def __init__(self, source: ReportSource, samples: int = SAMPLES) -> None:
        self.form = ShortRows(source, samples)
        self.slowest = SlowestRows()
        self.samples = Samples(samples)
        self._source = source

    def add(self, made: ShortRow) -> None:
        """Add a row."""
        if made.slow is not None:
            self.slowest.add(made.slow, None)
        for sample in made.samples:
            self.samples.add(sample)

    def as_json(self, counts: RunCounts, seconds: float, *, interrupted: bool = False) -> dict[str, Any]:
        """Return the report as JSON. Arguments as of `run_facts`."""
        return {
            **run_facts(self._source, counts, seconds, interrupted=interrupted),
            "slowest": [summary for summary, _ in self.slowest.rows()],
            "samples": self.samples.as_json(),
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
