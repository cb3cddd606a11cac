"""`Evaluation`: the figures of a workflow and of each of its steps on labelled rows, as data."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - for pydantic
from dataclasses import asdict, dataclass
from typing import cast

from penstock.workflows.evaluation.curves import CurvePoint, ScoreBin, SweptThreshold  # noqa: TC001 - for pydantic
from penstock.workflows.evaluation.intervals import Share  # noqa: TC001 - see above


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How often verdicts were right.

    Attributes:
        right: flagged, and labelled so.
        wrong: flagged, but labelled as nothing to find: false alarms.
        missed: labelled, but not flagged.
        passed: neither.
        precision: the share of the flagged rows that is labelled.
        recall: the share of the labelled rows that was flagged.
        false_alarms: the share of rows with nothing to find that was flagged.
        misses: the share of the labelled rows that was not flagged.
        f1: the harmonic mean of precision and recall.
        accuracy: the share of rows with the right verdict.
    """

    right: int
    wrong: int
    missed: int
    passed: int
    precision: Share
    recall: Share
    false_alarms: Share
    misses: Share
    f1: Share
    accuracy: Share


@dataclass(frozen=True, slots=True)
class SpanFit:
    """How often spans were right, by one rule.

    Attributes:
        right: found, and labelled.
        wrong: found, but not labelled.
        missed: labelled, but not found.
        precision: the share of the found spans that is labelled.
        recall: the share of the labelled spans that was found.
        f1: the harmonic mean of both.
    """

    right: int
    wrong: int
    missed: int
    precision: Share
    recall: Share
    f1: Share


@dataclass(frozen=True, slots=True)
class SpanFigures:
    """How the spans of a type fit.

    Attributes:
        type: the type; empty: all, whatever their types.
        exact: where they begin and end where the labelled ones do.
        half: where they share at least half of their common stretch.
        touching: where they share a character.
    """

    type: str
    exact: SpanFit
    half: SpanFit
    touching: SpanFit


@dataclass(frozen=True, slots=True)
class CategoryCount:
    """How often rows with a label were given a name.

    Attributes:
        label: the labelled category; empty: nothing to find.
        found: the name of the finding; empty: nothing was found.
        rows: how many rows.
    """

    label: str
    found: str
    rows: int


@dataclass(frozen=True, slots=True)
class Latency:
    """How long rows took, in seconds.

    Attributes:
        p50: half of them took no longer than this.
        p95: of 100, 95 took no longer.
        p99: of 100, 99 took no longer.
    """

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class SliceFigures:
    """The figures of the rows with one value in a column.

    Attributes:
        column: the name of the column.
        value: the value.
        rows: how many rows have it.
        flagged: the share of them that was flagged.
        verdicts: how often verdicts were right.
    """

    column: str
    value: str
    rows: int
    flagged: Share
    verdicts: Verdicts


@dataclass(frozen=True, slots=True)
class RecallAt:
    """The recall that a rate of false alarms allows.

    Attributes:
        rate: the share of rows with nothing to find that may be flagged.
        recall: the share of the positives that is then flagged.
    """

    rate: float
    recall: Share


@dataclass(frozen=True, slots=True)
class RowsToCollect:
    """How many more labelled rows it takes to answer a question.

    Attributes:
        negatives: rows with nothing to find.
        positives: rows with something to find.
        unlabelled: rows without a label, for a threshold by rate alone.
    """

    negatives: int = 0
    positives: int = 0
    unlabelled: int = 0

    def most(self, other: RowsToCollect) -> RowsToCollect:
        """Return how many rows it takes to answer both questions; the same rows may answer both."""
        return RowsToCollect(
            max(self.negatives, other.negatives),
            max(self.positives, other.positives),
            max(self.unlabelled, other.unlabelled),
        )

    def __bool__(self) -> bool:
        """Return whether any rows are missing."""
        return bool(self.negatives or self.positives or self.unlabelled)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A threshold, chosen on one half of the rows and reported on the other.

    Attributes:
        basis: ``labels``: it keeps the rate of false alarms; ``rate``: it keeps the share of flagged rows, and nobody
            knows how many of them are right.
        rate: the rate that it keeps.
        threshold: the recommended score from which a row is flagged; None: there are too few rows.
        chosen_on: on how many rows it was chosen.
        reported: its figures on the other half; None without a threshold.
        needed: how many rows with nothing to find (with ``rate``: how many rows) each half must have.
        problem: why there is no threshold; empty if there is one.
        collect: how many more rows, in both halves together, it takes to recommend one.
    """

    basis: str
    rate: float
    threshold: float | None
    chosen_on: int
    reported: SweptThreshold | None
    needed: int
    problem: str
    collect: RowsToCollect = RowsToCollect()


@dataclass(frozen=True, slots=True)
class ScoreFigures:
    """The figures of the scores of a step. A row's score is the highest of its categories.

    Attributes:
        auc: how often a positive scores above a negative; None without one of both.
        average_precision: the precision at each score, weighed by the recall it adds; None without one of both.
        recall_at: the recall at fixed rates of false alarms.
        curve: points from the highest threshold to the lowest.
        sweep: the effects of thresholds between 0 and 1.
        bins: how the scores are spread.
        recommendation: the threshold to take.
        limits: the threshold in force by category, if the step tells it.
    """

    auc: float | None
    average_precision: float | None
    recall_at: tuple[RecallAt, ...]
    curve: tuple[CurvePoint, ...]
    sweep: tuple[SweptThreshold, ...]
    bins: tuple[ScoreBin, ...]
    recommendation: Recommendation
    limits: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """A row that is shown.

    Attributes:
        file: the name of its file, if there are several.
        line: the number of its line.
        id: its own id, if it has one.
        label: the label: ``yes``, ``no``, a category, or empty: not labelled.
        found: the name of the finding; empty: nothing was found.
        score: its score; None: the step gives none.
        text: the beginning of its text, if texts are shown; else None.
    """

    file: str | None
    line: int
    id: str | int | None
    label: str
    found: str
    score: float | None
    text: str | None


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The figures of the whole workflow, or of one step.

    Attributes:
        path: the path of the step; empty: the whole workflow.
        rows: how many rows it read.
        failed: on how many of them it failed; they are in no other figure.
        flagged: the share of rows that it stopped, edited or flagged.
        verdicts: how often it was right on labelled rows.
        categories: which label was given which name.
        spans: how its spans fit, first whatever their types.
        slices: the figures by columns, the worst first.
        latency: how long rows took; None of no rows.
        scores: the figures of its scores; None if it gives none.
        false_alarms: rows that it flagged, and which have nothing to find; the highest scores first.
        misses: rows that it did not flag, and which have something to find; the lowest scores first.
        bins: rows of each bin of the scores.
    """

    path: str
    rows: int
    failed: int
    flagged: Share
    verdicts: Verdicts
    categories: tuple[CategoryCount, ...]
    spans: tuple[SpanFigures, ...]
    slices: tuple[SliceFigures, ...]
    latency: Latency | None
    scores: ScoreFigures | None
    false_alarms: tuple[ExampleRow, ...]
    misses: tuple[ExampleRow, ...]
    bins: tuple[tuple[ExampleRow, ...], ...]


@dataclass(frozen=True, slots=True)
class RowTotals:
    """How many rows there were.

    Attributes:
        all: how many rows were read.
        labelled: how many say whether there is something to find.
        positives: how many say that there is.
        negatives: how many say that there is nothing.
        skipped: how many could not be evaluated: they are malformed, their label cannot be read, or a step failed.
        problems: the first problems of skipped rows, in words.
    """

    all: int
    labelled: int
    positives: int
    negatives: int
    skipped: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Daily:
    """How many rows a day, with its 95 % interval.

    Attributes:
        value: the number; None if nothing is known about it.
        low: its lower end.
        high: its upper end.
        needed: how many more labelled rows of this kind it takes to know it well; 0: there are enough.
    """

    value: float | None
    low: float | None
    high: float | None
    needed: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """The effects of a workflow in a day.

    Attributes:
        rows: the number of rows a day.
        base_rate: the share of them with something to find.
        false_alarms: how many are flagged a day that have nothing to find.
        misses: how many are let pass a day that have something to find.
        precision: the share of the flagged rows that has something to find, at this base rate.
        cost: the cost of judges in a day; None: no judge was asked, or no price of one is known.
    """

    rows: int
    base_rate: float
    false_alarms: Daily
    misses: Daily
    precision: float | None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two workflows differ on the same rows.

    Attributes:
        baseline: the name of the other workflow.
        rows: how many rows both could evaluate.
        flagged_now: how many only this workflow flags.
        passed_now: how many only the baseline flags.
        better: how many labelled rows only this workflow has right.
        worse: how many labelled rows only the baseline has right.
        p_value: how likely such a difference is if neither were better (exact McNemar): of ``better`` and ``worse``, or
            without labels of ``flagged_now`` and ``passed_now``.
        verdicts: how often the baseline was right.
        changed: rows with another verdict; those that became wrong first.
    """

    baseline: str
    rows: int
    flagged_now: int
    passed_now: int
    better: int
    worse: int
    p_value: float
    verdicts: Verdicts
    changed: tuple[ExampleRow, ...]


@dataclass(frozen=True, slots=True)
class Repeats:
    """How much verdicts differ between runs on the same rows, as those of a judge may.

    Attributes:
        runs: how many runs there were.
        unstable: the share of rows whose verdicts differ.
        flagged: the share of flagged rows of each run.
    """

    runs: int
    unstable: Share
    flagged: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReleasedText:
    """How much of a streamed answer had left before it was blocked.

    Attributes:
        rows: the share of blocked rows of which anything had left.
        p50: of half of the blocked rows no more characters had left than this; None if none was blocked.
        p95: of 95 in 100 no more had left; None if none was blocked.
        most: the most characters that had left; None if none was blocked.
    """

    rows: Share
    p50: int | None
    p95: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class JudgeUsage:
    """The use of a judge.

    Attributes:
        model: the name of the model.
        verdicts: how many verdicts it gave, those of a cache among them.
        cached: how many of them came from a cache.
        calls: how often the model was called.
        input_tokens: how many tokens it read.
        output_tokens: how many it wrote.
        cost: the cost of these tokens, in the currency of the prices: dollars for list prices; None: no price is known.
    """

    model: str
    verdicts: int
    cached: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether a condition of ``--fail-if`` holds.

    Attributes:
        condition: the condition as it was given.
        failed: whether it holds, or cannot be decided, so that the evaluation fails.
        value: the figure; None: there is none.
        reason: the figure and the limit in words.
    """

    condition: str
    failed: bool
    value: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The figures of a workflow on labelled rows.

    Attributes:
        workflow: the name of the workflow.
        stage: the stage that ran.
        rows: how many rows there were.
        whole: the figures of the whole workflow. Steps in shadow do not count for it.
        steps: the figures of each step that judged rows, in their order.
        as_wanted: the share of rows whose text left as wanted; None if no row has a wanted text.
        judges: the use of judges.
        traffic: its effects in a day; None if no traffic was given.
        comparison: how it differs from a baseline; None without one.
        repeats: how much verdicts differ between runs; None if there was one.
        gates: the conditions of ``--fail-if``.
        notes: limits of the figures, a sentence each.
        collect: how many more labelled rows it takes to answer all that was asked.
        released: how much had left of blocked rows, in the stage of streams; None in any other.
    """

    workflow: str
    stage: str
    rows: RowTotals
    whole: PartFigures
    steps: tuple[PartFigures, ...]
    as_wanted: Share | None = None
    judges: tuple[JudgeUsage, ...] = ()
    traffic: Traffic | None = None
    comparison: Comparison | None = None
    repeats: Repeats | None = None
    gates: tuple[GateResult, ...] = ()
    notes: tuple[str, ...] = ()
    collect: RowsToCollect = RowsToCollect()
    released: ReleasedText | None = None

    @property
    def failed(self) -> bool:
        """Whether a condition of ``--fail-if`` holds."""
        return any(gate.failed for gate in self.gates)

    def step(self, path: str) -> PartFigures:
        """Return the figures of a step.

        Raises:
            KeyError: no step of that path judged a row.
        """
        for part in self.steps:
            if part.path == path:
                return part
        raise KeyError(path)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON, as ``--format json`` writes it; `json_schema` describes it."""
        return {"penstock": "evaluation/1", **cast("dict[str, object]", _plain(asdict(self)))}

    @staticmethod
    def json_schema() -> Mapping[str, object]:
        """Return the JSON Schema of `to_json`."""
        from pydantic import TypeAdapter

        schema = TypeAdapter(Evaluation).json_schema(mode="serialization")
        mark = {"const": "evaluation/1", "title": "Penstock", "type": "string"}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **schema,
            "properties": {"penstock": mark, **schema["properties"]},
            "required": ["penstock", *schema["required"]],
        }


def _plain(value: object) -> object:
    """Return a value of `asdict` as JSON has it, with lists."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in cast("tuple[object, ...]", value)]
    return value
