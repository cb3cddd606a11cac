"""The command ``penstock run``: a workflow on a text, a file or stdin, with a progress bar and tracebacks."""

from __future__ import annotations

import shlex
import sys
import traceback
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, Self

from penstock.engine.values.errors import StepFailedError
from penstock.workflows.cli.checking import OneText, Progress, ProgressBar, check_rows, note
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.reports import check_report, opened
from penstock.workflows.cli.terminal import refuse_same, refuse_source, write_line, writing
from penstock.workflows.cli.writers import output_format, written_results
from penstock.workflows.loading import load_workflow
from penstock.workflows.rows.files import is_url, matched
from penstock.workflows.rows.job import RowsJob
from penstock.workflows.rows.outputs import DeadLetters, DeadLettersWriter
from penstock.workflows.rows.reading import Columns, is_object
from penstock.workflows.rows.results import ResultFields, RowForm, RunCounts, Sink
from penstock.workflows.rows.resuming import keep_letters
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Sequence

    from penstock.engine.workflow import Workflow
    from penstock.workflows.report.short_report import Report
    from penstock.workflows.rows.reading import Source
    from penstock.workflows.rows.results import RowChecked
    from penstock.workflows.rows.resuming import Earlier


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


def _note_jsonl(args: argparse.Namespace, form: str) -> None:
    """Say why a person who pipes the output reads JSONL; a program that reads stderr is told nothing."""
    if args.format is None and args.output is None and form == "jsonl" and sys.stderr.isatty():
        write_line("penstock: the output is JSONL, because it does not go to a terminal; --format table writes a table")


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
    _note_jsonl(args, form)
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
            progress = Progress(sinks, source, bar)
            if earlier is not None:
                _go_on(args, progress, earlier)
            interrupted = check_rows(args, _job(args, workflow, sinks), args.workflow, source, progress)
            if report is not None:
                report.write(progress.counts, progress.seconds, interrupted=interrupted)
        writer.end(progress.counts, progress.seconds)
    counts = progress.counts
    if interrupted:
        write_line(f"penstock: interrupted after {counts.rows:,} rows")
        return Exit.INTERRUPTED
    _note_missing(counts, unseen)
    return _exit_of(counts, args.fail_on)


def _job(args: argparse.Namespace, workflow: Workflow, sinks: Sequence[Sink]) -> RowsJob:
    forms = tuple(sink.form for sink in sinks)
    return RowsJob(workflow, args.stage, args.context, _columns(args), args.texts, forms)


def _load(args: argparse.Namespace) -> Workflow:
    workflow = load_workflow(args.workflow)
    refuse_source(args.output, args.report, args.dead_letters)
    workflow.validate(args.stage)
    return workflow


def _note_missing(counts: RunCounts, unseen: UnseenColumns) -> None:
    """Say if the input has no rows, or no column of those to be kept."""
    if not counts.rows:
        note("the input has no rows")
    elif unseen.names:
        note(f"no row has the column {', '.join(map(repr, unseen.names))}, which --keep names")


def _go_on(args: argparse.Namespace, progress: Progress, earlier: Earlier) -> None:
    """Begin with the results of an earlier run."""
    progress.counts = earlier.counts
    if args.limit is not None:
        args.limit = max(0, args.limit - earlier.counts.rows)
    if earlier.counts.rows:
        write_line(f"penstock: {earlier.name} has the results of {earlier.counts.rows:,} rows; going on behind them")
    if args.report is not None:
        write_line("penstock: the report lists the rows of this run only; it counts those of the earlier one, too")


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
            note(f"{text!r} is a file, but was checked as a text; for its rows use --input {shlex.quote(text)}")


@contextmanager
def _source(args: argparse.Namespace, names: tuple[str, ...] | None, form: str) -> Generator[RowFiles | OneText]:
    if names is None:
        yield OneText(args.text)
        return
    as_json = form != "parquet"
    with RowFiles(names, args.input_format, _columns(args), args.stage, note, as_json=as_json).started() as source:
        there = source.table_columns
        lacking = [each for each in args.keep or () if there and each not in there]
        if there and lacking:
            raise CommandError(
                f"the input has no column {lacking[0]!r}, which --keep names; it has {', '.join(map(repr, there))}"
            )
        yield source


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
        if isinstance(source, OneText):
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
