"""The command ``penstock run``: a workflow on a text, a file or stdin, with a progress bar and tracebacks."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import combinations, islice
from pathlib import Path
from time import monotonic, perf_counter
from typing import IO, TYPE_CHECKING, Protocol, Self

from penstock.engine.values.errors import StepFailedError
from penstock.workflows.batch import JOBS, is_sync
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.reports import check_report, opened
from penstock.workflows.cli.terminal import refuse_same, refuse_source, write_line, writing
from penstock.workflows.cli.writers import output_format, written_results
from penstock.workflows.loading import from_anywhere, load_workflow
from penstock.workflows.rows.files import is_url, matched
from penstock.workflows.rows.job import ROW_SECONDS, RowsJob
from penstock.workflows.rows.outputs import DeadLetters, DeadLettersWriter
from penstock.workflows.rows.reading import Columns, RawRow, is_object, parse_row
from penstock.workflows.rows.results import ResultFields, RowForm, RunCounts, Sink
from penstock.workflows.rows.resuming import keep_letters
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterator, Sequence
    from types import TracebackType

    from rich.progress import Progress, TaskID

    from penstock.engine.workflow import Workflow
    from penstock.workflows.report.short_report import Report
    from penstock.workflows.rows.reading import Source
    from penstock.workflows.rows.results import RowChecked, RowResult
    from penstock.workflows.rows.resuming import Earlier


SHOW_AFTER = 0.5
"""How long a run takes before the progress bar is shown, in seconds."""

REDRAW_SECONDS = 0.1
"""The time between two updates of the progress bar, in seconds."""


class ProgressBar:
    """Shows how much of the input was read. Lives as long as one run over rows.

    Args:
        stream: where to draw; None: nowhere.
        total: the size of the input in bytes; None: unknown.
    """

    def __init__(self, stream: IO[str] | None, total: int | None) -> None:
        self._stream = stream
        self._total = total
        self._next = monotonic() + SHOW_AFTER
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """Start, without drawing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()

    @property
    def is_due(self) -> bool:
        """Whether it is to be drawn again."""
        return self._stream is not None and monotonic() >= self._next

    def draw(self, taken: int, rows: int) -> None:
        """Show how many bytes and rows are done."""
        if self._stream is None:
            return
        self._next = monotonic() + REDRAW_SECONDS
        if self._progress is None or self._task is None:
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            from penstock.workflows.cli.formatting import console_for

            known = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if self._total else ()
            rows_done, console = TextColumn("{task.fields[rows]} rows"), console_for(self._stream)
            self._progress = Progress(*known, rows_done, console=console, transient=True, redirect_stdout=False)
            self._task = self._progress.add_task("", total=self._total, rows="0")
            self._progress.start()
        self._progress.update(self._task, completed=taken, rows=f"{rows:,}")


def step_traceback(checked: RowChecked) -> str:
    """Return the traceback of the step that failed on a row; empty if none failed.

    It ends with the type of the error, without its message, which may quote the text, as that of a `ValueError`.
    """
    failure = checked.error if checked.outcome is None else checked.outcome.failure
    if not isinstance(failure, StepFailedError):
        return ""
    cause = failure.__cause__ or failure
    frames = "".join(traceback.format_tb(cause.__traceback__))
    head = f"Traceback of line {checked.item.line}, step {failure.step!r} (most recent call last):"
    return f"{head}\n{frames}{type(cause).__name__}"


class Tracebacks(RowForm):
    """Makes the traceback of the step that failed on a row, and writes it to stderr."""

    @property
    def form(self) -> Self:
        """The form of each result."""
        return self

    def make(self, checked: RowChecked) -> str:
        """Return the traceback."""
        return step_traceback(checked)

    def add(self, made: str) -> None:
        """Write it, if there is one."""
        if made:
            write_line(made)


class UnseenColumns(RowForm):
    """Notes which of some columns no row has had yet.

    Attributes:
        names: these columns.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(dict.fromkeys(names))

    def make(self, checked: RowChecked) -> tuple[str, ...]:
        """Return those that a row has."""
        value = checked.item.value
        return tuple([name for name in self.names if name in value]) if is_object(value) else ()

    @property
    def form(self) -> UnseenColumns:
        """The form of each result: the columns that the row has."""
        return UnseenColumns(self.names)

    def add(self, made: tuple[str, ...]) -> None:
        """Note those that a row has."""
        if made:
            self.names = [name for name in self.names if name not in made]


def run(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Run the workflow on the rows, and return the exit code."""
    names = _input_names(args)
    name = None if names is None else names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"
    _check_arguments(args, names)
    workflow = _load(args)
    if name is None:
        _note_file(args.text)
    if args.texts:
        write_line("penstock: the traces hold the texts of the rows, including everything that was hidden")
    form = output_format(args, stdout)
    with _source(args, names, form) as source, _writer(args, source, form, stdout) as (writer, earlier):
        to_terminal = args.output is None and stdout.isatty()
        watched = sys.stderr.isatty() and not args.no_progress and not (to_terminal and form == "jsonl")
        with (
            ProgressBar(sys.stderr if watched else None, source.size) as bar,
            _reporting(args, workflow, name, stdout) as report,
            _keeping_dead_letters(args, earlier, stdout) as letters,
        ):
            # Letters come first, so that a run that is killed has those of all its results.
            sinks: list[Sink] = [*([letters] if letters else []), writer, *([report] if report else [])]
            sinks += [Tracebacks()] if args.debug else []
            unseen = UnseenColumns(() if earlier is not None else args.keep or ())
            sinks += [unseen] if unseen.names else []
            progress = _Progress(sinks, source, bar)
            if earlier is not None:
                _go_on(args, progress, earlier)
            interrupted = _check_rows(args, workflow, source, sinks, progress)
            if report is not None:
                report.write(progress.counts, progress.seconds, interrupted=interrupted)
        writer.end(progress.counts, progress.seconds)
    counts = progress.counts
    if interrupted:
        write_line(f"penstock: interrupted after {counts.rows:,} rows")
        return Exit.INTERRUPTED
    _note_missing(counts, unseen)
    return _exit_of(counts, args.fail_on)


def _load(args: argparse.Namespace) -> Workflow:
    workflow = load_workflow(args.workflow)
    refuse_source(args.output, args.report, args.dead_letters)
    workflow.validate(args.stage)
    return workflow


def _note_missing(counts: RunCounts, unseen: UnseenColumns) -> None:
    """Say if the input has no rows, or no column of those to be kept."""
    if not counts.rows:
        _note("the input has no rows")
    elif unseen.names:
        _note(f"no row has the column {', '.join(map(repr, unseen.names))}, which --keep names")


def _go_on(args: argparse.Namespace, progress: _Progress, earlier: Earlier) -> None:
    """Begin with the results of an earlier run."""
    progress.counts = earlier.counts
    if args.limit is not None:
        args.limit = max(0, args.limit - earlier.counts.rows)
    if earlier.counts.rows:
        write_line(f"penstock: {earlier.name} has the results of {earlier.counts.rows:,} rows; going on behind them")
    if args.report is not None:
        write_line("penstock: the report lists the rows of this run only; it counts those of the earlier one, too")


def _check_rows(
    args: argparse.Namespace,
    workflow: Workflow,
    source: Source,
    sinks: Sequence[Sink],
    progress: _Progress,
) -> bool:
    """Check all rows; return whether it was interrupted."""
    forms = tuple(sink.form for sink in sinks)
    job = RowsJob(workflow, args.stage, args.context, _columns(args), args.texts, forms)
    processes = _processes(args, workflow, source)
    sync = is_sync(workflow, args.stage)
    if args.row_timeout is not None and not (sync and (processes > 1 or args.engine == "ray")):
        cure = "use --jobs 2 or more" if sync else "give its async steps a timeout"
        _note(f"--row-timeout is ignored: it can only end processes, and this run has none; {cure}")
    with progress.timed():
        try:
            if args.engine == "ray" and isinstance(source, RowFiles):
                _check_on_ray(replace(job, workflow=from_anywhere(args.workflow)), args, workflow, source, progress)
            elif processes > 1:
                # it needs sockets, and most runs need no process
                from penstock.workflows.rows.processes import checked_in_processes

                of_name, rows = replace(job, workflow=args.workflow), islice(source.raw_rows(), args.limit)
                seconds = args.row_timeout or ROW_SECONDS
                with closing(checked_in_processes(of_name, rows, processes=processes, row_seconds=seconds)) as results:
                    for result in results:
                        progress.add(result)
            else:
                job.started().check_all(
                    map(parse_row, islice(source.raw_rows(), args.limit)), progress.add, jobs=args.jobs or JOBS
                )
        except KeyboardInterrupt:
            return True
    return False


def _check_on_ray(
    job: RowsJob, args: argparse.Namespace, workflow: Workflow, source: RowFiles, progress: _Progress
) -> None:
    from penstock.workflows.rows.ray import checked_on_ray
    from penstock.workflows.rows.splits import splits_of
    from penstock.workflows.rows.warm import WarmJob

    sync = is_sync(workflow, args.stage)
    warm = WarmJob(job, args.jobs or JOBS, (args.row_timeout or ROW_SECONDS) if sync else None)
    results = checked_on_ray(
        warm,
        splits_of(source),
        address=args.address,
        processes=args.jobs if sync else None,
        on_split=lambda split: source.count(split.size),
    )
    with closing(results):
        for result in islice(results, args.limit):
            progress.add(result)


SMALL = 64 * 1024
"""The size of a file, in bytes, below which its rows are checked before another process has started."""


def _processes(args: argparse.Namespace, workflow: Workflow, source: Source) -> int:
    """Return how many worker processes check the rows; 1: none, this one does."""
    if isinstance(source, _OneText) or not is_sync(workflow, args.stage):
        return 1
    if args.jobs is not None:
        return int(args.jobs)
    if (source.size or 0) < SMALL:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_arguments(args: argparse.Namespace, names: tuple[str, ...] | None) -> None:
    if args.engine == "ray" and (names is None or "-" in names):
        raise CommandError("--engine ray reads files, which all its machines can see; give --input FILE")
    if args.engine != "ray" and args.address is not None:
        raise CommandError("--address is that of a Ray cluster; add --engine ray")
    for name in names or ():
        for written in (args.output, args.report, args.dead_letters):
            refuse_same(name, written)
    if args.texts and not args.trace and args.report is None:
        raise CommandError("--texts says what a trace or a report holds; add --trace or --report FILE")
    check_report(args.report, args.output)
    if args.dead_letters == "-":
        raise CommandError("--dead-letters takes the name of a file; stdout is for the results")
    outputs = {"--output": args.output, "--report": args.report, "--dead-letters": args.dead_letters}
    for (one, first), (other, second) in combinations(outputs.items(), 2):
        if first is not None and second is not None and _same(first, second):
            raise CommandError(f"{second} is given twice, by {one} and {other}; give two files")


def _same(one: str, other: str) -> bool:
    if is_url(one) or is_url(other):
        return one == other
    with suppress(OSError):
        if Path(one).samefile(other):
            return not Path(one).is_char_device()  # /dev/null takes everything
    return Path(one).resolve() == Path(other).resolve()


def _exit_of(counts: RunCounts, fail_on: str | None) -> Exit:
    if counts.incomplete:
        return Exit.INCOMPLETE
    blocked = counts.statuses["blocked"]
    edited = counts.statuses["edited"] + blocked
    found = {"blocked": blocked, "edited": edited, "flagged": edited + counts.flagged, None: 0}[fail_on]
    return Exit.FOUND if found else Exit.OK


# Rows


def _input_names(args: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the files to read, ``-`` for stdin, or None for the text in the arguments."""
    if args.text is not None and args.input is not None:
        raise CommandError("TEXT and --input are both given; give one of them")
    if args.text is not None and args.text != "-":
        return None
    if args.input is not None:
        return matched(args.input)
    if args.text is None and sys.stdin.isatty():
        raise CommandError("nothing to run on: give TEXT, --input FILE, or - for stdin")
    return ("-",)


def _note_file(text: str) -> None:
    """Say that a text to check is the name of a file, if it is."""
    with suppress(OSError, ValueError):  # too long for a path, or not a valid one
        if Path(text).is_file():
            _note(f"{text!r} is a file, but was checked as a text; for its rows use --input {shlex.quote(text)}")


@contextmanager
def _source(args: argparse.Namespace, names: tuple[str, ...] | None, form: str) -> Generator[RowFiles | _OneText]:
    if names is None:
        yield _OneText(args.text)
        return
    as_json = form != "parquet"
    with RowFiles(names, args.input_format, _columns(args), args.stage, _note, as_json=as_json).started() as source:
        there = source.table_columns
        lacking = [each for each in args.keep or () if there and each not in there]
        if there and lacking:
            raise CommandError(
                f"the input has no column {lacking[0]!r}, which --keep names; it has {', '.join(map(repr, there))}"
            )
        yield source


def _note(sentence: str) -> None:
    write_line(f"penstock: {sentence}")


@dataclass(slots=True)
class _OneText:
    """A text from the arguments, as the only row."""

    text: str
    size: int | None = None
    taken: int = 0

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the row."""
        yield RawRow(1, self.text)


# Results


class _ResultWriter(Sink, Protocol):
    """Writes the results, and the counts at the end."""

    def end(self, counts: RunCounts, seconds: float) -> None:
        """Write the counts."""
        ...


@contextmanager
def _writer(
    args: argparse.Namespace, source: Source, form: str, stdout: IO[str]
) -> Generator[tuple[_ResultWriter, Earlier | None]]:
    """Open the output. With --resume, the earlier results come with it."""
    if form != "table":
        fields = ResultFields(
            _columns(args), args.messages_format, args.show_input, args.trace, times=not args.no_times
        )
        with written_results(args, source, fields, form, stdout) as writer:
            yield writer
        return
    from penstock.workflows.cli.table import RowsTable, SingleText, TableRows

    with writing(args.output, stdout) as out:
        if isinstance(source, _OneText):
            yield SingleText(out, show_input=args.show_input, traced=args.trace), None
            return
        rows = TableRows(_columns(args), args.show_text, args.show_input, args.trace)
        yield RowsTable(out, args.rows, rows), None


def _columns(args: argparse.Namespace) -> Columns:
    return Columns(args.column, args.id, None if args.keep is None else tuple(args.keep))


@contextmanager
def _reporting(
    args: argparse.Namespace, workflow: Workflow, name: str | None, stdout: IO[str]
) -> Generator[Report | None]:
    """Open the report, before anything runs; nothing without --report."""
    if args.report is None:
        yield None
        return
    from penstock.workflows.report.summaries import ReportSource

    what = {None: "a text", "-": "stdin"}.get(name, name)
    source = ReportSource(workflow.name, str(what), args.stage, args.texts, _columns(args))
    with writing(args.report, stdout) as out, opened(args.report, source, workflow, out, args.samples) as report:
        yield report


# The run


@contextmanager
def _keeping_dead_letters(
    args: argparse.Namespace, earlier: Earlier | None, stdout: IO[str]
) -> Generator[DeadLettersWriter | None]:
    """Open the file of the dead letters; nothing without --dead-letters."""
    if args.dead_letters is None:
        yield None
        return
    if earlier is not None and (lost := keep_letters(args.dead_letters, earlier)):
        write_line(f"penstock: {args.dead_letters} lacks {lost:,} rows that the earlier run could not check")
    with writing(args.dead_letters, stdout, append=earlier is not None) as out:
        yield DeadLettersWriter(out, DeadLetters(_columns(args)))


class _Progress:
    """The progress of a run: it counts the results, and passes them on."""

    def __init__(self, sinks: Sequence[Sink], source: Source, bar: ProgressBar) -> None:
        self.counts = RunCounts()
        self.seconds = 0.0
        self._takers = [sink.add for sink in sinks]
        self._source = source
        self._bar = bar

    def add(self, result: RowResult) -> None:
        """Take one result."""
        self.counts.add(result)
        for take, made in zip(self._takers, result.made, strict=True):
            take(made)
        if self._bar.is_due:
            self._bar.draw(self._source.taken, self.counts.rows)

    @contextmanager
    def timed(self) -> Generator[None]:
        """Time the run."""
        started = perf_counter()
        try:
            yield
        finally:
            self.seconds = perf_counter() - started
