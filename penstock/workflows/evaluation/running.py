"""The passes of an evaluation: the baseline, the workflow and its repeats, each over all rows; then the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.processor.stages import STAGES
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.evaluation.comparing import ComparedTally, comparison_of, repeats_of
from penstock.workflows.evaluation.intervals import share_of
from penstock.workflows.evaluation.job import EvaluationJob, JudgeCaching
from penstock.workflows.evaluation.recommending import RATE
from penstock.workflows.evaluation.results import Evaluation, RowsToCollect
from penstock.workflows.evaluation.row_facts import EvaluationRows
from penstock.workflows.evaluation.summing import cost_of_row, judges_of, part_of, released_of, totals_of
from penstock.workflows.evaluation.tally import EXAMPLES, Tally
from penstock.workflows.evaluation.thresholds import limits_of
from penstock.workflows.evaluation.traffic import traffic_of
from penstock.workflows.streamed import PIECE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.engine.values.protocols import Cache
    from penstock.engine.workflow import Workflow
    from penstock.processors.budgets.prices import PriceTable
    from penstock.workflows.evaluation.gates import FigureGate
    from penstock.workflows.evaluation.results import Comparison, PartFigures, Repeats, RowTotals, Traffic
    from penstock.workflows.evaluation.setup import Setup
    from penstock.workflows.evaluation.tally import PartTally
    from penstock.workflows.evaluation.undecided import UndecidedRows

Check: TypeAlias = Callable[[EvaluationJob, Tally], None]
"""Runs a job on all rows, and gives each result to a tally. It can be called several times."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The options of an evaluation, beside its columns.

    Attributes:
        stage: the stage to run.
        context: the request context of each row.
        baseline: the workflow to compare with, or its name; None: none.
        changes: changed options of the workflow's steps.
        repeat: how often the workflow runs on each row.
        rate: the rate of false alarms, or without labels of flagged rows, that a recommended threshold keeps.
        traffic: the number of rows a day; None: nobody asks.
        base_rate: the share of them with something to find.
        gates: the conditions on which the evaluation fails.
        texts: whether examples show the beginning of their texts.
        examples: how many rows of a kind are shown.
        undecided: keeps rows to label; None: none are kept.
        prices: the prices of judges; None: nobody asks for money.
        piece: how many characters of a text come at once in the stage of streams.
        judge_cache: keeps the answers of judges for later evaluations; None: nobody does.
    """

    stage: str = "process_input"
    context: Mapping[str, object] = EMPTY
    baseline: Workflow | str | None = None
    changes: Mapping[str, Mapping[str, object]] = EMPTY
    repeat: int = 1
    rate: float = RATE
    traffic: int | None = None
    base_rate: float | None = None
    gates: tuple[FigureGate, ...] = ()
    texts: bool = False
    examples: int = EXAMPLES
    undecided: UndecidedRows | None = field(default=None, compare=False)
    prices: PriceTable | None = None
    piece: int = PIECE
    judge_cache: Cache | None = None


def run_evaluation(workflow: Workflow | str, setup: Setup, asked: Questions, check: Check, name: str) -> Evaluation:
    """Run the baseline, the workflow, and its repeats, one after the other; return the figures.

    Args:
        workflow: the workflow, or its name.
        setup: which columns are read.
        asked: the options of the evaluation.
        check: runs a job on all rows.
        name: the name of the workflow.
    """
    labels = setup.labels
    form = EvaluationRows(labels, setup.columns, asked.stage, asked.texts, asked.undecided is not None)
    job = EvaluationJob(
        workflow,
        asked.stage,
        asked.context,
        setup.columns,
        piece=asked.piece,
        changes=asked.changes,
        spans=labels.spans is not None,
        judges=_judges(asked),
    )

    def run(one: EvaluationJob, tally: Tally) -> Tally:
        check(replace(one, forms=(tally.form,)), tally)
        return tally

    plain = replace(job, spans=False)
    before: Tally | None = None
    if asked.baseline is not None or asked.changes:
        other = replace(plain, workflow=workflow if asked.baseline is None else asked.baseline, changes=EMPTY)
        before = run(other, Tally(replace(form, inputs=False), labels.by, asked.examples))
    verdicts = bytearray() if before is None else before.verdicts
    tally = ComparedTally(form, verdicts, by=labels.by, examples=asked.examples, undecided=asked.undecided)
    run(job, tally)
    repeat = replace(plain, judges=JudgeCaching(None))
    again = [run(repeat, Tally(replace(form, inputs=False), (), 0)) for _ in range(asked.repeat - 1)]
    repeats = repeats_of([tally.verdicts, *(each.verdicts for each in again)]) if again else None
    comparison: Comparison | None = None
    if before is not None:
        comparison = comparison_of(_name_of(asked.baseline, f"{name} unchanged"), before, tally)
    made = evaluation_of(name, asked, tally, comparison, repeats, limits_of(job.loaded()))
    cached = sum(counts["cached"] for each in again for counts in each.judges.values())
    return made if not cached else replace(made, notes=(*made.notes, _CACHED.format(cached)))


_CACHED = "{:,} verdicts of the repeats came from a cache and could not differ: that judge is not a penstock Judge."


def _judges(asked: Questions) -> JudgeCaching | None:
    """Return the cache of judges: that of the user; else, if two workflows are compared, one that they share."""
    if asked.judge_cache is not None:
        return JudgeCaching(asked.judge_cache)
    if asked.baseline is None and not asked.changes:
        return None
    from penstock.stores.memory_cache import MemoryCache  # only if there is somebody to share it

    return JudgeCaching(MemoryCache(), every=False)


def _name_of(workflow: Workflow | str | None, otherwise: str) -> str:
    return workflow if isinstance(workflow, str) else otherwise if workflow is None else workflow.name


def evaluation_of(
    name: str,
    asked: Questions,
    tally: Tally,
    comparison: Comparison | None,
    repeats: Repeats | None,
    limits: Mapping[str, Mapping[str, float]] = EMPTY,
) -> Evaluation:
    """Return the figures of counts, with the answers to all questions; ``limits`` are the thresholds by step."""
    rate = asked.rate
    whole = part_of("", tally.whole, rate)
    steps = tuple(
        part_of(path, part, rate, limits.get(path, EMPTY)) for path, part in tally.steps.items() if _is_judging(part)
    )
    rows = totals_of(tally)
    judges = judges_of(tally, asked.prices)
    traffic = None
    if asked.traffic is not None:
        cost = cost_of_row(tally, asked.prices)
        traffic = traffic_of(whole.verdicts, asked.traffic, asked.base_rate or 0.0, cost)
    wanted = sum(tally.wanted)
    made = Evaluation(
        name,
        asked.stage,
        rows,
        whole,
        steps,
        share_of(tally.wanted[1], wanted) if wanted else None,
        judges,
        traffic,
        comparison,
        repeats,
        notes=tuple(_notes(rows)),
        collect=_collect(steps, traffic),
        released=released_of(tally.released) if STAGES[asked.stage].streams else None,
    )
    return replace(made, gates=tuple(gate.result(made) for gate in asked.gates))


def _collect(steps: Iterable[PartFigures], traffic: Traffic | None) -> RowsToCollect:
    """Return how many more rows it takes to recommend thresholds, and to know the false alarms and misses a day."""
    collect = RowsToCollect()
    if traffic is not None:
        collect = RowsToCollect(traffic.false_alarms.needed, traffic.misses.needed)
    for part in steps:
        if part.scores is not None:
            collect = collect.most(part.scores.recommendation.collect)
    return collect


def _is_judging(part: PartTally) -> bool:
    """Return whether a step judges rows: it has flagged one, given a score, or been asked for spans."""
    return bool(part.cells.flagged or part.scored or part.failed or part.spans)


def _notes(rows: RowTotals) -> Iterator[str]:
    if not rows.all:
        yield "There are no rows."
    elif not rows.labelled:
        yield (
            "No row says whether there is something to find: there are shares of flagged rows, and nobody knows how "
            "many of them are right."
        )
    elif rows.labelled + rows.skipped < rows.all:
        yield f"{rows.all - rows.labelled - rows.skipped:,} rows have no label; they count only as flagged or not."
    if rows.skipped:
        yield f"{rows.skipped:,} rows could not be evaluated, and are in no other figure."
