"""How counts become figures: a `Tally` becomes the parts of an `Evaluation`."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.model import Usage
from penstock.workflows.evaluation.curves import POINTS, RATES, curve, histogram, sweep
from penstock.workflows.evaluation.intervals import f1_share, share_of
from penstock.workflows.evaluation.recommending import recommend
from penstock.workflows.evaluation.results import (
    CategoryCount,
    JudgeUsage,
    Latency,
    PartFigures,
    RecallAt,
    ReleasedText,
    RowTotals,
    ScoreFigures,
    SliceFigures,
    SpanFigures,
    SpanFit,
    Verdicts,
)
from penstock.workflows.evaluation.tally import slices_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence

    from penstock.processors.budgets.prices import PriceTable
    from penstock.workflows.evaluation.figures import Counts
    from penstock.workflows.evaluation.span_counts import SpanCounts
    from penstock.workflows.evaluation.tally import Cells, PartTally, Tally

Number = TypeVar("Number", int, float)


def verdicts_of(cells: Cells) -> Verdicts:
    """Return how often verdicts were right."""
    right, wrong, missed, passed = cells.right, cells.wrong, cells.missed, cells.passed
    return Verdicts(
        right,
        wrong,
        missed,
        passed,
        share_of(right, right + wrong),
        share_of(right, right + missed),
        share_of(wrong, wrong + passed),
        share_of(missed, right + missed),
        f1_share(right, wrong, missed),
        share_of(right + passed, right + wrong + missed + passed),
    )


def part_of(path: str, part: PartTally, rate: float, limits: Mapping[str, float] = EMPTY) -> PartFigures:
    """Return the figures of the whole workflow, or of one step.

    Args:
        path: the path of the step; empty: the whole workflow.
        part: its counts.
        rate: the rate that the recommended threshold keeps.
        limits: the threshold in force by category, if the step tells it.
    """
    cells = part.cells
    return PartFigures(
        path,
        cells.rows,
        part.failed,
        share_of(cells.flagged, cells.rows),
        verdicts_of(cells),
        _categories(part),
        tuple(_spans(kind, part.spans[kind]) for kind in sorted(part.spans)),
        _slices(part),
        latency_of(part.seconds),
        _scores(part, rate, limits) if part.scored else None,
        part.false_alarms.rows(),
        part.misses.rows(),
        tuple(map(tuple, part.bins)) if part.scored else (),
    )


def _slices(part: PartTally) -> tuple[SliceFigures, ...]:
    """Return the slices, the worst first: by the share of wrong verdicts that is certain."""
    made = [
        SliceFigures(column, value, cells.rows, share_of(cells.flagged, cells.rows), verdicts_of(cells))
        for column, value, cells in slices_of(part)
    ]
    return tuple(sorted(made, key=_badness))


def _categories(part: PartTally) -> tuple[CategoryCount, ...]:
    """Return how often each label was given each name; nothing if no label is a category."""
    if not any(label for label, _ in part.categories):
        return ()
    return tuple(CategoryCount(label, found, rows) for (label, found), rows in part.categories.most_common())


def _badness(part: SliceFigures) -> tuple[float, float]:
    """Return the sort key of slices, the worst first: the upper end of the accuracy, as few rows prove little."""
    accuracy, flagged = part.verdicts.accuracy, part.flagged
    return (accuracy.high if accuracy.high is not None else 1.0, -(flagged.low or 0.0))


def _spans(kind: str, counts: SpanCounts) -> SpanFigures:
    return SpanFigures(kind, _fit(counts.exact), _fit(counts.half), _fit(counts.touching))


def _fit(counts: Counts) -> SpanFit:
    right, wrong, missed = counts.right, counts.wrong, counts.missed
    return SpanFit(
        right,
        wrong,
        missed,
        share_of(right, right + wrong),
        share_of(right, right + missed),
        f1_share(right, wrong, missed),
    )


def latency_of(seconds: array[float]) -> Latency | None:
    """Return how long rows took; None of no rows."""
    if not seconds:
        return None
    return Latency(*(round(each, 6) for each in _quantiles(seconds, (0.5, 0.95, 0.99))))


def released_of(characters: array[int]) -> ReleasedText:
    """Return how much of blocked rows had left: how many characters of each."""
    rows = share_of(sum(count > 0 for count in characters), len(characters))
    if not characters:
        return ReleasedText(rows, None, None, None)
    return ReleasedText(rows, *_quantiles(characters, (0.5, 0.95, 1.0)))


def _quantiles(values: array[Number], parts: Sequence[float]) -> list[Number]:
    """Return the values that these parts of some values do not exceed."""
    ranked = sorted(values)
    return [ranked[ceil(part * len(ranked)) - 1] for part in parts]


def _scores(part: PartTally, rate: float, limits: Mapping[str, float]) -> ScoreFigures:
    first, second = part.score_halves()
    both = first.joined(second)
    recalls = [(each, both.recall_at(each)) for each in RATES]
    return ScoreFigures(
        both.auc,
        both.average_precision,
        tuple(RecallAt(each, recall) for each, recall in recalls if recall is not None),
        tuple(curve(both, POINTS)) if len(both.positives) or len(both.negatives) else (),
        sweep(both),
        histogram(both),
        recommend(first, second, rate),
        dict(limits),
    )


def totals_of(tally: Tally) -> RowTotals:
    """Return how many rows there were."""
    cells = tally.whole.cells
    positives, negatives = cells.right + cells.missed, cells.wrong + cells.passed
    return RowTotals(tally.rows, positives + negatives, positives, negatives, tally.skipped, tuple(tally.problems))


def judges_of(tally: Tally, prices: PriceTable | None) -> tuple[JudgeUsage, ...]:
    """Return the use of judges, with its cost if there are prices."""
    made: list[JudgeUsage] = []
    for model, counts in tally.judges.items():
        read, written, calls = counts["input_tokens"], counts["output_tokens"], counts["calls"]
        cost = None if prices is None else prices.cost(model, Usage(read, written, requests=calls))
        money = None if cost is None else float(cost)
        made.append(JudgeUsage(model, counts["verdicts"], counts["cached"], calls, read, written, money))
    return tuple(made)


def cost_of_row(tally: Tally, prices: PriceTable | None) -> float | None:
    """Return the cost of judges for a row, verdicts of a cache included; None: no judge was asked, or a price lacks.

    The cache is that of the evaluation, in part, and traffic does not have it.
    """
    costs: list[float] = []
    for model, counts in tally.judges.items():
        read, written = (counts[each] + counts[f"saved_{each}"] for each in ("input_tokens", "output_tokens"))
        cost = None if prices is None else prices.cost(model, Usage(read, written, requests=counts["verdicts"]))
        if cost is None:
            return None
        costs.append(float(cost))
    return sum(costs) / tally.rows if costs else None
