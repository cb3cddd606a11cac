"""`Tally`: the counts of an evaluation so far. Its size grows by some bytes a row, however long the rows are."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.workflows.evaluation.curves import BINS, ScoreHeaps, Scores, bin_of
from penstock.workflows.evaluation.labels import OTHER
from penstock.workflows.evaluation.results import ExampleRow
from penstock.workflows.evaluation.span_counts import SpanCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.workflows.evaluation.row_facts import EvaluationRows, RowFacts
    from penstock.workflows.evaluation.undecided import UndecidedRows

EXAMPLES = 50
"""How many rows of a kind are kept to be shown, by default."""

MOST_SLICES = 100
"""How many values of a column are slices; rows with further ones are together in one."""

MOST_CATEGORIES = 400
"""How many pairs of label and name are counted."""

MOST_PROBLEMS = 5
"""How many problems of rows are told."""

UNKNOWN = 255
"""The verdict of a row that could not be evaluated, in `Tally.verdicts`."""


@dataclass(slots=True)
class Cells:
    """How often verdicts were right, and how many rows without a label were flagged."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    passed: int = 0
    unlabelled: int = 0
    unlabelled_flagged: int = 0

    def add(self, truth: bool | None, flagged: bool) -> None:  # noqa: FBT001 - the label and the verdict
        """Count a row."""
        if truth is None:
            self.unlabelled += 1
            self.unlabelled_flagged += flagged
        elif truth:
            self.right += flagged
            self.missed += not flagged
        else:
            self.wrong += flagged
            self.passed += not flagged

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return self.right + self.wrong + self.missed + self.passed + self.unlabelled

    @property
    def flagged(self) -> int:
        """How many of them were flagged."""
        return self.right + self.wrong + self.unlabelled_flagged


class PartVerdict(NamedTuple):
    """The verdict of a part of a workflow on one row.

    Attributes:
        truth: whether there is something to find; None: not labelled.
        flagged: whether it was flagged.
        score: its score; None: there is none.
        found: the name of the finding; empty: nothing was found.
        seconds: how long it took.
        spans: how spans fit.
    """

    truth: bool | None
    flagged: bool
    score: float | None
    found: str
    seconds: float
    spans: Mapping[str, SpanCounts]


class RankedRows:
    """The rows with the highest ranks; of equal ones the first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[tuple[float, int, ExampleRow]] = []
        self._count = 0

    def wants(self, rank: float) -> bool:
        """Return whether a row of that rank would be kept."""
        return len(self._rows) < self._most or bool(self._rows and rank > self._rows[0][0])

    def add(self, rank: float, row: ExampleRow) -> None:
        """Keep a row that is wanted."""
        self._count += 1
        entry = (rank, -self._count, row)
        if len(self._rows) < self._most:
            heapq.heappush(self._rows, entry)
        else:
            heapq.heapreplace(self._rows, entry)

    def rows(self) -> tuple[ExampleRow, ...]:
        """Return the rows, the highest rank first."""
        return tuple(row for _, _, row in sorted(self._rows, key=lambda each: each[:2], reverse=True))


def _heaps() -> ScoreHeaps:
    return ScoreHeaps(Scores(), Scores(), Scores())


@dataclass(slots=True)
class PartTally:
    """The counts of the whole workflow, or of one step.

    Attributes:
        by: the columns of the slices.
        examples: how many rows of a kind are kept.
        cells: how often verdicts were right.
        failed: on how many rows the step failed.
        halves: the scores of both halves of the rows.
        scored: whether any row had a score.
        unscored: how many rows had none, by half, label and verdict.
        seconds: how long each row took.
        spans: how spans fit, by type.
        categories: how often which label was given which name.
        slices: the same as ``cells`` by column and value.
        false_alarms: the worst false alarms.
        misses: the worst misses.
        bins: rows of each bin of the scores.
    """

    by: tuple[str, ...]
    examples: int
    cells: Cells = field(default_factory=Cells)
    failed: int = 0
    halves: tuple[ScoreHeaps, ScoreHeaps] = field(default_factory=lambda: (_heaps(), _heaps()))
    scored: bool = False
    unscored: Counter[tuple[bool, bool | None, bool]] = field(default_factory=Counter[tuple[bool, bool | None, bool]])
    seconds: array[float] = field(default_factory=lambda: array("f"))
    spans: dict[str, SpanCounts] = field(default_factory=dict[str, SpanCounts])
    categories: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    slices: dict[str, dict[str, Cells]] = field(default_factory=dict[str, dict[str, Cells]])
    false_alarms: RankedRows = field(init=False)
    misses: RankedRows = field(init=False)
    bins: list[list[ExampleRow]] = field(init=False)

    def __post_init__(self) -> None:
        """Make room for rows that are shown."""
        self.false_alarms, self.misses = RankedRows(self.examples), RankedRows(self.examples)
        self.bins = [[] for _ in range(BINS)]

    def add(self, facts: RowFacts, judged: PartVerdict) -> None:
        """Count a row."""
        truth, flagged, score = judged.truth, judged.flagged, judged.score
        self.cells.add(truth, flagged)
        self.seconds.append(judged.seconds)
        if score is None:
            self.unscored[facts.second, truth, flagged] += 1
        else:
            self._add_score(facts, judged, score)
        for kind, counts in judged.spans.items():
            self.spans[kind] = counts.plus(self.spans[kind]) if kind in self.spans else counts
        if facts.label.category is not None or truth is False:
            pair = (facts.label.category or "", judged.found)
            if pair in self.categories or len(self.categories) < MOST_CATEGORIES:
                self.categories[pair] += 1
        for column, value in zip(self.by, facts.label.slices, strict=False):
            known = self.slices.setdefault(column, {})
            if value not in known and len(known) >= MOST_SLICES:
                value = OTHER  # noqa: PLW2901 - further values are one slice
            known.setdefault(value, Cells()).add(truth, flagged)
        if truth is not None and truth is not flagged:
            self._keep_wrong(facts, judged)

    def _add_score(self, facts: RowFacts, judged: PartVerdict, score: float) -> None:
        self.scored = True
        self.halves[facts.second].of(judged.truth).add(score)
        rows = self.bins[bin_of(score)]
        if len(rows) < self.examples:
            rows.append(_example(facts, judged))

    def score_halves(self) -> tuple[ScoreHeaps, ScoreHeaps]:
        """Return the scores of both halves, with those of rows without one: 1 if they are flagged, else 0."""
        made = (self.halves[0].joined(_heaps()), self.halves[1].joined(_heaps()))
        for (second, truth, flagged), count in self.unscored.items():
            made[second].of(truth).add(float(flagged), count)
        return made

    def _keep_wrong(self, facts: RowFacts, judged: PartVerdict) -> None:
        score = judged.score or 0.0
        kept, rank = (self.false_alarms, score) if judged.flagged else (self.misses, -score)
        if kept.wants(rank):
            kept.add(rank, _example(facts, judged))


class Tally:
    """The counts of an evaluation so far. A `Sink` of the results of rows.

    Args:
        form: the form of each result.
        by: the columns of the slices.
        examples: how many rows of a kind are kept to be shown.
        undecided: keeps rows without a label; None: nobody wants them.
    """

    def __init__(
        self,
        form: EvaluationRows,
        by: tuple[str, ...] = (),
        examples: int = EXAMPLES,
        undecided: UndecidedRows | None = None,
    ) -> None:
        self.form = form
        self.undecided = undecided
        self.by = by
        self.examples = examples
        self.rows = 0
        self.skipped = 0
        self.problems: list[str] = []
        self.whole = PartTally(by, examples)
        self.steps: dict[str, PartTally] = {}
        self.wanted = [0, 0]
        self.released = array("I")
        """How many characters of each blocked row had left before, if rows are streamed."""
        self.judges: dict[str, Counter[str]] = {}
        self.verdicts = bytearray()
        """The verdict of each row, in order: 1 flagged, 0 not, `UNKNOWN` not evaluated; 2 is added if it is right."""

    def add(self, made: RowFacts) -> None:
        """Count a row."""
        self.rows += 1
        for model, counts in made.judges.items():
            self.judges.setdefault(model, Counter()).update(counts)
        if made.problem is not None:
            self._skip(made)
            return
        if self.undecided is not None:
            self.undecided.add(made)
        truth, flagged = made.label.truth, made.flagged
        self.verdicts.append(flagged + 2 * (truth is not None and truth is flagged))
        self.whole.add(made, PartVerdict(truth, flagged, None, made.found, made.seconds, made.spans))
        if made.released is not None:
            self.released.append(made.released)
        if made.as_wanted is not None:
            self.wanted[made.as_wanted] += 1
        for step in made.steps:
            part = self.steps.get(step.path)
            if part is None:
                part = self.steps[step.path] = PartTally(self.by, self.examples)
            if step.flagged is None:
                part.failed += 1
            else:
                part.add(made, PartVerdict(step.truth, step.flagged, step.score, step.found, step.seconds, step.spans))

    def _skip(self, made: RowFacts) -> None:
        self.skipped += 1
        self.verdicts.append(UNKNOWN)
        if len(self.problems) < MOST_PROBLEMS:
            where = f"{made.file}, line {made.line}" if made.file else f"line {made.line}"
            self.problems.append(f"{where}: {made.problem}")


def example_of(facts: RowFacts) -> ExampleRow:
    """Return a row to be shown, as the whole workflow judged it."""
    return _example(facts, PartVerdict(facts.label.truth, facts.flagged, None, facts.found, facts.seconds, facts.spans))


def _example(facts: RowFacts, judged: PartVerdict) -> ExampleRow:
    label = facts.label.category or {True: "yes", False: "no", None: ""}[judged.truth]
    return ExampleRow(facts.file, facts.line, facts.id, label, judged.found, judged.score, facts.text)


def slices_of(part: PartTally) -> Iterable[tuple[str, str, Cells]]:
    """Yield each slice with its counts: the column, the value, the counts."""
    for column, values in part.slices.items():
        for value, cells in values.items():
            yield column, value, cells
