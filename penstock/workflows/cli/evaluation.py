"""The command ``penstock eval``: a workflow on labelled rows, and how often it is right."""

from __future__ import annotations

import json
import math
import sys
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, cast

from penstock.engine.values.errors import OptionError, StorageError
from penstock.lazy import by_name
from penstock.processors.budgets.prices import GenaiPrices, Price, PriceList, installed
from penstock.workflows.cli.checking import Progress, ProgressBar, check_rows, note
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import refuse_same, refuse_source, writing
from penstock.workflows.evaluation.gates import parse_gate
from penstock.workflows.evaluation.kept_facts import KeepingTally, KeptFacts
from penstock.workflows.evaluation.recommending import RATE
from penstock.workflows.evaluation.running import Questions, run_evaluation
from penstock.workflows.evaluation.setup import LabelOptions, setup_of
from penstock.workflows.evaluation.sources import in_files
from penstock.workflows.evaluation.undecided import UndecidedRows
from penstock.workflows.loading import load_workflow
from penstock.workflows.rows.files import matched
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.protocols import Cache
    from penstock.engine.workflow import Workflow
    from penstock.processors.budgets.prices import PriceTable
    from penstock.workflows.evaluation.job import EvaluationJob
    from penstock.workflows.evaluation.results import Evaluation
    from penstock.workflows.evaluation.sources import LabelledRows
    from penstock.workflows.evaluation.tally import Tally
    from penstock.workflows.rows.reading import RawRow, Source

ENDINGS = {".md": "markdown", ".json": "json", ".xml": "junit", ".html": "html", ".htm": "html"}
"""The formats that the name of the output says."""

RECORDS = "penstock.workflows.studio.worker.constructor_arguments"


class _InterruptedError(Exception):
    """Ctrl-C came while rows were checked."""


def evaluate(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Evaluate the workflow, and return the exit code."""
    asked = _questions(args)
    form = args.format or ENDINGS.get(PurePath(args.output or "").suffix.lower(), "table")
    for name in args.rows:
        refuse_same(name, args.output)
        refuse_same(name, args.undecided)
    with by_name(RECORDS, "processors_recorded")() if asked.changes else nullcontext():  # for steps that are made anew
        workflow = load_workflow(args.workflow)
    refuse_source(args.output, args.undecided)
    workflow.validate(args.stage)
    try:
        made = _evaluated(args, workflow, asked)
    except _InterruptedError:
        note(f"interrupted: {'there are no figures' if args.resume is None else 'the same command goes on from here'}")
        return Exit.INTERRUPTED
    with writing(args.output, stdout) as out:
        _write(made, form, out)
    if asked.undecided is not None:
        with writing(args.undecided, stdout) as out:
            out.write(asked.undecided.lines())
        if args.undecided != "-":
            note(f"label the rows, a key each: penstock studio --review {args.undecided}")
    for gate in made.gates:
        if gate.failed:
            note(f"fails: {gate.condition} ({gate.reason})")
    return Exit.INCOMPLETE if made.rows.skipped else Exit.FOUND if made.failed else Exit.OK


def _evaluated(args: argparse.Namespace, workflow: Workflow, asked: Questions) -> Evaluation:
    """Check the rows, and return the figures.

    Raises:
        _InterruptedError: Ctrl-C came.
    """
    kept = _kept(args, workflow)
    finished = False
    try:
        with in_files(args.rows, args.input_format, args.stage) as rows:
            setup = setup_of(rows.first, _options(args))
            made = run_evaluation(workflow, setup, asked, _Checking(args, rows, workflow, kept).check, workflow.name)
        finished = True
        return made
    finally:
        if kept is not None:
            kept.close(finished=finished)


def _kept(args: argparse.Namespace, workflow: Workflow) -> KeptFacts | None:
    """Return the verdicts of ``--resume``; None without it.

    Raises:
        CommandError: the rows cannot be read again, or are checked on Ray.
        RowsError: the file belongs to another evaluation.
    """
    if args.resume is None:
        return None
    if args.engine == "ray" or "-" in args.rows:
        raise CommandError("--resume needs rows in files, which are checked on this machine")
    for name in args.rows:
        refuse_same(name, args.resume)
    refuse_source(args.resume)
    about = {name: value for name, value in vars(args).items() if name not in _NO_IDENTITY}
    files = [*matched(args.rows), *(name.rpartition(":")[0] or name for name in (args.workflow, args.baseline or ""))]
    states = [
        (name, Path(name).stat().st_size, Path(name).stat().st_mtime_ns) for name in files if Path(name).is_file()
    ]
    told = json.dumps([about, states, workflow.draw("json")], default=str, sort_keys=True)
    return KeptFacts(Path(args.resume), blake2b(told.encode("utf-8", "replace"), digest_size=16).hexdigest())


_NO_IDENTITY = (
    *("resume", "output", "format", "jobs", "no_progress", "fail_if", "debug", "row_timeout", "traffic"),
    "judge_cache",
)
"""The arguments that change no verdict."""


class _RestOfRows:
    """The rows behind those that were checked by an interrupted evaluation."""

    def __init__(self, source: Source, checked: int) -> None:
        self._source, self._checked = source, checked

    @property
    def size(self) -> int | None:
        """The size of the input in bytes."""
        return self._source.size

    @property
    def taken(self) -> int:
        """How many bytes were read."""
        return self._source.taken

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the rows."""
        return islice(self._source.raw_rows(), self._checked, None)


class _Checking:
    """Checks rows with a progress bar, once for each run over them."""

    def __init__(
        self, args: argparse.Namespace, rows: LabelledRows, workflow: Workflow, kept: KeptFacts | None
    ) -> None:
        self._args = args
        self._kept = kept
        self._passes = 0
        self._rows = rows
        self._workflow = workflow

    def check(self, job: EvaluationJob, tally: Tally) -> None:
        """Run a job on all rows."""
        args = self._args
        name = args.workflow if job.workflow is self._workflow else str(job.workflow)
        watched = sys.stderr.isatty() and not args.no_progress
        with self._rows.opened(job.columns, job.stage, note) as source:
            if args.engine == "ray" and not isinstance(source, RowFiles):
                raise CommandError("--engine ray reads rows of files that have a row a line, or of tables")
            if args.engine == "ray" and job.judges is not None and job.judges.cache is not None:
                job = replace(job, judges=None)  # a cache in memory is of this process
            sink, rest = self._resumed(tally, source)
            if rest is not source and args.limit is not None:
                args = Namespace(**{**vars(args), "limit": max(0, args.limit - tally.rows)})
            with ProgressBar(sys.stderr if watched else None, source.size) as bar:
                if check_rows(args, job, name, rest, Progress([sink], rest, bar)):
                    raise _InterruptedError

    def _resumed(self, tally: Tally, source: Source) -> tuple[Tally | KeepingTally, Source]:
        """Count the kept verdicts of this pass; return what takes the others, and the rows that are left."""
        number, self._passes = self._passes, self._passes + 1
        if self._kept is None:
            return tally, source
        checked = self._kept.rows(number)
        for facts in self._kept.facts(number):
            tally.add(facts)
        if checked:
            note(f"goes on behind {checked:,} rows that were checked before")
        return KeepingTally(tally, self._kept, number), _RestOfRows(source, checked)


def _write(made: Evaluation, form: str, out: IO[str]) -> None:
    if form == "table":
        from penstock.workflows.cli.evaluation_tables import print_evaluation

        print_evaluation(made, out)
    elif form == "json":
        out.write(f"{json.dumps(made.to_json(), indent=2, ensure_ascii=False)}\n")
    else:
        module = f"penstock.workflows.evaluation.{form}"
        out.write(f"{by_name(module, f'as_{form}')(made)}\n")


# Arguments


def _options(args: argparse.Namespace) -> LabelOptions:
    whole = [each for each in args.label if "=" not in each]
    if len(whole) > 1:
        raise CommandError(f"--label {whole[1]}: rows have one label; name the step of a further one: STEP=COLUMN")
    steps = dict(_pairs([each for each in args.label if "=" in each], "--label", "STEP=COLUMN"))
    return LabelOptions(
        whole[0] if whole else None,
        steps,
        args.spans,
        args.wanted,
        tuple(args.by),
        tuple(args.negative),
        dict(_pairs(args.type, "--type", "LABEL=TYPE")),
        args.column,
        args.id,
        args.shape,
    )


def _pairs(given: Iterable[str], option: str, form: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals and value):
            raise CommandError(f"{option} takes {form}, not {each!r}")
        pairs.append((name.strip(), value.strip()))
    return pairs


def _questions(args: argparse.Namespace) -> Questions:
    if (args.traffic is None) != (args.base_rate is None):
        raise CommandError(
            "--traffic and --base-rate go together: rows a day, and the share with something to find; if you do not "
            "know it, take 0.001: false alarms hardly depend on it"
        )
    rate = args.rate
    if args.alarms_a_day is not None:
        if args.traffic is None:
            raise CommandError("--alarms-a-day needs --traffic and --base-rate")
        if rate is not None:
            raise CommandError("--alarms-a-day and --rate both choose the threshold; give one of them")
        rate = min(0.999, args.alarms_a_day / (args.traffic * (1 - args.base_rate)))
    changes: dict[str, dict[str, object]] = {}
    for place, value in _pairs(args.set, "--set", "STEP.OPTION=VALUE"):
        path, dot, option = place.rpartition(".")
        if not dot:
            raise CommandError(f"--set takes STEP.OPTION=VALUE, not {place}={value}")
        changes.setdefault(path, {})[option] = _value(value)
    return Questions(
        args.stage,
        args.context,
        args.baseline,
        changes,
        args.repeat,
        RATE if rate is None else rate,
        args.traffic,
        args.base_rate,
        tuple(map(parse_gate, args.fail_if)),
        args.texts,
        args.examples,
        None if args.undecided is None else UndecidedRows(),
        _prices(args.price),
        args.piece,
        _judge_cache(args),
    )


def _judge_cache(args: argparse.Namespace) -> Cache | None:
    """Return the cache in the file of ``--judge-cache``, which is made if it does not exist; None without it.

    Raises:
        CommandError: the file cannot be used, or other machines would not have it.
    """
    if args.judge_cache is None:
        return None
    if args.engine == "ray":
        raise CommandError("--judge-cache is a file of this machine; leave out --engine ray")
    import anyio

    from penstock.stores.sqlite.cache import SQLiteCache  # needs sqlite3

    cache = SQLiteCache(args.judge_cache)

    async def opened() -> None:
        await cache.open()
        await cache.close()

    try:
        anyio.run(opened)
    except StorageError as error:
        raise CommandError(f"--judge-cache: {error}") from error
    return cache


def _prices(given: list[str]) -> PriceTable | None:
    """Return the prices of ``--price``, before list prices where these are installed; None if there are neither.

    Raises:
        CommandError: a price cannot be read.
    """
    own: dict[str, Price] = {}
    for model, price in _pairs(given, "--price", "MODEL=READ/WRITTEN"):
        read, slash, written = price.partition("/")
        try:
            own[model] = Price(read, written) if slash else Price("", "")
        except OptionError:
            raise CommandError(
                f"--price takes MODEL=READ/WRITTEN, such as openai/gpt-5=1.25/10, not {model}={price}"
            ) from None
    listed = GenaiPrices() if installed() else None
    return PriceList(own, otherwise=listed) if own else listed


def _value(given: str) -> object:
    """Return a value of ``--set``: JSON, a number such as ``.7``, or else a text."""
    try:
        return cast("object", json.loads(given))
    except (ValueError, RecursionError):
        pass
    try:
        number = float(given)
    except ValueError:
        return given
    return number if math.isfinite(number) else given
