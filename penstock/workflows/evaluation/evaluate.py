"""`evaluate`: run a workflow on labelled rows, and return how often it and each of its steps are right."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from penstock.engine.processor.stages import full_name
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.batch import JOBS, TEXT_STAGES
from penstock.workflows.evaluation.gates import parse_gate
from penstock.workflows.evaluation.recommending import RATE
from penstock.workflows.evaluation.running import Questions, run_evaluation
from penstock.workflows.evaluation.setup import LabelOptions, setup_of
from penstock.workflows.evaluation.sources import in_files, in_memory
from penstock.workflows.evaluation.tally import EXAMPLES
from penstock.workflows.loading import load_workflow
from penstock.workflows.rows.reading import parse_row
from penstock.workflows.streamed import PIECE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from typing_extensions import Unpack

    from penstock.engine.values.protocols import Cache
    from penstock.engine.workflow import Workflow
    from penstock.processors.budgets.prices import PriceTable
    from penstock.workflows.evaluation.job import EvaluationJob
    from penstock.workflows.evaluation.results import Evaluation
    from penstock.workflows.evaluation.row_facts import RowFacts
    from penstock.workflows.evaluation.sources import LabelledRows
    from penstock.workflows.evaluation.tally import Tally
    from penstock.workflows.evaluation.undecided import UndecidedRows
    from penstock.workflows.rows.results import RowResult


class ColumnOptions(TypedDict, total=False):
    """Which columns of the rows say what. See `LabelOptions`."""

    label: str | None
    steps: Mapping[str, str]
    spans: str | None
    wanted: str | None
    by: tuple[str, ...]
    negative: tuple[str, ...]
    types: Mapping[str, str]
    text: str | None
    id: str | None
    shape: str | None


def evaluate(
    workflow: Workflow | str,
    rows: str | Path | Iterable[object],
    *,
    stage: str = "process_input",
    context: Mapping[str, object] = EMPTY,
    baseline: Workflow | str | None = None,
    repeat: int = 1,
    rate: float = RATE,
    traffic: int | None = None,
    base_rate: float | None = None,
    fail_if: Iterable[str] = (),
    jobs: int = JOBS,
    texts: bool = False,
    examples: int = EXAMPLES,
    undecided: UndecidedRows | None = None,
    prices: PriceTable | None = None,
    piece: int = PIECE,
    judge_cache: Cache | None = None,
    **columns: Unpack[ColumnOptions],
) -> Evaluation:
    """Return how often a workflow and each of its steps are right on labelled rows.

    The rows are checked in this process. Do not call it inside a running event loop if a step is async.

    Args:
        workflow: the workflow, or its name, as `load_workflow` takes it.
        rows: the name of a file or a glob; or the rows themselves: texts, and objects as ``penstock run`` reads them.
        stage: the stage to run.
        context: the request context of each row.
        baseline: another workflow, or its name, to compare with.
        repeat: how often each row is checked, to see whether verdicts differ. The later times, judges use no cache.
        rate: the rate of false alarms that a recommended threshold keeps; without labels, of flagged rows.
        traffic: the number of rows a day; then the result has false alarms and misses a day.
        base_rate: the share of the traffic with something to find, from 0 to 1.
        fail_if: conditions such as ``recall.low < 0.9``; see `Evaluation.gates`.
        jobs: how many rows run at once, if a step is async.
        texts: whether examples have the beginnings of their texts.
        examples: how many rows of a kind the result has.
        undecided: keeps the rows without a label that decide most.
        prices: the prices of judges, such as a `PriceList` or `GenaiPrices`; then the result has their cost.
        piece: how many characters of a text come at once if the stage is ``output_stream``.
        judge_cache: keeps the answers of judges for later evaluations: a `SQLiteCache`.
        columns: ``label``, ``steps``, ``spans``, ``wanted``, ``by``, ``negative``, ``types``, ``text``, ``id`` and
            ``shape``: which columns say what; see `LabelOptions`. Without them, those of the shape that the rows have.

    Raises:
        LoadingError: a workflow cannot be loaded.
        RowsError: the rows cannot be read, or lack a column that is named.
        GateError: a condition cannot be read.
        OptionError: an option has a value that is not allowed.
    """
    if traffic is not None and base_rate is None:
        raise OptionError("evaluate", "base_rate", base_rate, "the share of the traffic with something to find")
    asked = Questions(
        _checked_stage(stage),
        context,
        baseline,
        repeat=_least("repeat", repeat, 1),
        rate=_part("rate", rate),
        traffic=None if traffic is None else _least("traffic", traffic, 1),
        base_rate=None if base_rate is None else _part("base_rate", base_rate),
        gates=tuple(map(parse_gate, fail_if)),
        texts=texts,
        examples=_least("examples", examples, 0),
        undecided=undecided,
        prices=prices,
        piece=_least("piece", piece, 1),
        judge_cache=judge_cache,
    )
    return _evaluated(workflow, rows, asked, LabelOptions(**columns), jobs)


def _evaluated(
    workflow: Workflow | str, rows: str | Path | Iterable[object], asked: Questions, options: LabelOptions, jobs: int
) -> Evaluation:
    """Check the rows in this process, and return the figures."""
    loaded = load_workflow(workflow) if isinstance(workflow, str) else workflow
    with _labelled(rows, asked.stage) as source:

        def check(job: EvaluationJob, tally: Tally) -> None:
            def add(result: RowResult) -> None:
                tally.add(cast("RowFacts", result.made[0]))

            with source.opened(job.columns, job.stage, _unheard) as opened:
                job.started().check_all(map(parse_row, opened.raw_rows()), add, jobs=jobs)

        return run_evaluation(loaded, setup_of(source.first, options), asked, check, loaded.name)


@contextmanager
def _labelled(rows: str | Path | Iterable[object], stage: str) -> Generator[LabelledRows]:
    if isinstance(rows, (str, Path)):
        with in_files([str(rows)], "auto", stage) as found:
            yield found
        return
    yield in_memory(rows)


def _unheard(_sentence: str) -> None:
    """Say nothing: an unexpected file shows in the figures."""


def _checked_stage(stage: str) -> str:
    name = full_name(stage)
    if name not in TEXT_STAGES:
        raise OptionError("evaluate", "stage", stage, f"one of {', '.join(TEXT_STAGES)}")
    return name


def _least(name: str, number: int, least: int) -> int:
    if number < least:
        raise OptionError("evaluate", name, number, f"a number, {least} or more")
    return number


def _part(name: str, number: float) -> float:
    if not 0 < number < 1:
        raise OptionError("evaluate", name, number, "a number above 0 and below 1")
    return number
