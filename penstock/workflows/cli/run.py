"""``penstock run``: a workflow over a text, a file or stdin, with a table for people or JSONL for programs."""

from __future__ import annotations

import shlex
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import IO, TYPE_CHECKING, Protocol

from penstock.workflows.batch import check_all
from penstock.workflows.cli.exits import CommandError, Exit
from penstock.workflows.cli.files import reading, refuse_same, size_of, writing
from penstock.workflows.cli.inputs import Row, Source, call_of
from penstock.workflows.cli.progress import Bar
from penstock.workflows.cli.results import as_json, error_text
from penstock.workflows.cli.tally import Tally
from penstock.workflows.cli.traces import trace_of
from penstock.workflows.loading import load_workflow

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterator

    from penstock.engine.formats import Format
    from penstock.engine.workflow import Workflow
    from penstock.workflows.batch import Call
    from penstock.workflows.cli.inputs import InputFormat
    from penstock.workflows.cli.results import RowChecked

TEXT_ENDINGS = (".txt", ".md", ".log")
"""The endings of the files whose lines are texts, unless --input-format says else."""


def run(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Run the workflow over the rows and return the exit code."""
    name = _input_name(args)
    refuse_same(name or "-", args.output)
    workflow = load_workflow(args.workflow)
    workflow.validate(args.stage)
    if name is None and _is_file(args.text):
        cure = f"--input {shlex.quote(args.text)}"
        sys.stderr.write(f"penstock: {args.text!r} is a file; it was run as a text. For its rows: {cure}\n")
    with _source(args, name) as source, writing(args.output, stdout) as out:
        to_terminal = args.output is None and stdout.isatty()
        form = args.format or ("table" if to_terminal else "jsonl")
        sink = _table(args, out, single=name is None) if form == "table" else _Lines(out, args, flush=name == "-")
        watched = sys.stderr.isatty() and not args.no_progress and not (to_terminal and form == "jsonl")
        with Bar(sys.stderr if watched else None, size_of(source.stream)) as bar:
            job = _Job(workflow, args, source, sink, bar)
            interrupted = job.work()
        job.sink.end(job.tally, job.seconds)
    if interrupted:
        sys.stderr.write(f"penstock: interrupted after {job.tally.rows:,} rows\n")
        return Exit.INTERRUPTED
    if not job.tally.rows:
        sys.stderr.write("penstock: there were no rows\n")
    return _exit_of(job.tally, args.fail_on)


def _exit_of(tally: Tally, fail_on: str | None) -> Exit:
    if tally.incomplete:
        return Exit.INCOMPLETE
    found = {"blocked": ("blocked",), "edited": ("edited", "blocked"), None: ()}[fail_on]
    return Exit.FOUND if any(tally.statuses[status] for status in found) else Exit.OK


# Where rows come from


def _input_name(args: argparse.Namespace) -> str | None:
    """Return the file to read, ``-`` for stdin, or None for the text itself."""
    if args.text is not None and args.input is not None:
        raise CommandError("both TEXT and --input are given; which is meant?")
    if args.text == "-" or args.input == "-":
        return "-"
    if args.text is not None:
        return None
    if args.input is not None:
        return str(args.input)
    if sys.stdin.isatty():
        raise CommandError("nothing to run on: give TEXT, --input FILE, or - for stdin")
    return "-"


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a path, as texts are, or no path at all
        return False


@contextmanager
def _source(args: argparse.Namespace, name: str | None) -> Generator[Source | _OneText]:
    if name is None:
        yield _OneText(args.text)
        return
    form: InputFormat = args.input_format
    if form == "auto" and name != "-":
        form = "text" if name.lower().endswith(TEXT_ENDINGS) else "jsonl"
    with reading(name) as stream:
        yield Source(stream, form)


@dataclass(slots=True)
class _OneText:
    """A text given as an argument, as the only row."""

    text: str
    stream: IO[bytes] = field(default_factory=BytesIO)
    taken: int = 0

    def rows(self) -> Iterator[Row]:
        """Yield the row."""
        yield Row(1, self.text)


# Where results go


class _Sink(Protocol):
    """Takes the results, in order, and at last the counts."""

    def add(self, checked: RowChecked) -> None:
        """Take a result."""
        ...

    def end(self, tally: Tally, seconds: float) -> None:
        """Take the counts."""
        ...


class _Lines:
    """Writes each result as a line of JSON; what could not be judged is told on stderr too."""

    def __init__(self, out: IO[str], args: argparse.Namespace, *, flush: bool) -> None:
        self._out = out
        self._form: Format = args.messages_format
        self._show_input: bool = args.show_input
        self._flush = flush  # whoever feeds stdin line by line waits for the answers

    def add(self, checked: RowChecked) -> None:
        """Write the line."""
        line = as_json(checked, messages_format=self._form, show_input=self._show_input)
        self._out.write(line + "\n")
        if self._flush:
            self._out.flush()
        if checked.error is not None:
            sys.stderr.write(f"penstock: line {checked.item.line}: {checked.status}: {error_text(checked.error)}\n")

    def end(self, tally: Tally, seconds: float) -> None:
        """Tell people the counts, if they watch; programs have the lines."""
        if sys.stderr.isatty():
            sys.stderr.write(f"{tally.sentence(seconds)}\n")


def _table(args: argparse.Namespace, out: IO[str], *, single: bool) -> _Sink:
    from penstock.workflows.cli.table import Shown, Single

    if single:
        return Single(out, show_input=args.show_input)
    return Shown(out, args.rows, show_text=args.show_text, show_input=args.show_input)


# Between the two


@dataclass(slots=True)
class _Job:
    """The work of one command: rows from a source through a workflow into a sink."""

    workflow: Workflow
    args: argparse.Namespace
    source: Source | _OneText
    sink: _Sink
    bar: Bar
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0

    def work(self) -> bool:
        """Check all rows; return whether somebody interrupted it."""
        started = perf_counter()
        rows = islice(self.source.rows(), self.args.limit)
        try:
            check_all(
                self.workflow, rows, self._take, stage=self.args.stage, jobs=self.args.jobs, as_call=self._call_of
            )
        except KeyboardInterrupt:
            return True
        finally:
            self.seconds = perf_counter() - started
        return False

    def _call_of(self, row: Row) -> Call:
        return call_of(row, self.args.stage, self.args.context)

    def _take(self, checked: RowChecked) -> None:
        self.tally.add(checked)
        self.sink.add(checked)
        if self.args.debug:
            sys.stderr.write(trace_of(checked))
        self.bar.at(self.source.taken, self.tally.rows)
