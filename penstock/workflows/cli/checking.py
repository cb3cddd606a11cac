"""Check rows as a command does: in this process, in several or on Ray, with a progress bar, until Ctrl-C."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic, perf_counter
from typing import IO, TYPE_CHECKING, Self

from penstock.workflows.batch import JOBS, is_sync
from penstock.workflows.cli.interrupts import Interrupts
from penstock.workflows.cli.terminal import write_line
from penstock.workflows.loading import from_anywhere
from penstock.workflows.rows.job import ROW_SECONDS
from penstock.workflows.rows.reading import RawRow, parse_row
from penstock.workflows.rows.results import RunCounts
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterator, Sequence
    from types import TracebackType

    from rich.progress import Progress as RichProgress, TaskID

    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.job import RowsJob
    from penstock.workflows.rows.reading import Source
    from penstock.workflows.rows.results import RowResult, Sink


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
        self._progress: RichProgress | None = None
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


@dataclass(slots=True)
class OneText:
    """A text from the arguments, as the only row."""

    text: str
    size: int | None = None
    taken: int = 0

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the row."""
        yield RawRow(1, self.text)


class Progress:
    """The progress of a run: it counts the results, and passes them on.

    Attributes:
        counts: what became of the rows so far.
        seconds: how long the run took.
        interrupts: what Ctrl-C does.
    """

    def __init__(self, sinks: Sequence[Sink], source: Source, bar: ProgressBar) -> None:
        self.counts = RunCounts()
        self.seconds = 0.0
        self._takers = [sink.add for sink in sinks]
        self._source = source
        self._bar = bar
        self.interrupts = Interrupts()

    def add(self, result: RowResult) -> None:
        """Take one result, whole, also when Ctrl-C comes meanwhile."""
        self.interrupts.take(self._add, result)

    def _add(self, result: RowResult) -> None:
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


def check_rows(args: argparse.Namespace, job: RowsJob, name: str, source: Source, progress: Progress) -> bool:
    """Check all rows; return whether it was interrupted.

    Args:
        args: the arguments that say where and how many rows are checked at once.
        job: the work on each row, with the workflow itself.
        name: the name by which other processes find the workflow.
        source: the rows.
        progress: takes the results.
    """
    workflow = job.loaded()
    processes = _processes(args, workflow, source)
    sync = is_sync(workflow, args.stage)
    if args.row_timeout is not None and not (sync and (processes > 1 or args.engine == "ray")):
        cure = "use --jobs 2 or more" if sync else "give its async steps a timeout"
        note(f"--row-timeout is ignored: it can only end processes, and this run has none; {cure}")
    handled = progress.interrupts.handled() if sync else nullcontext()  # asyncio handles Ctrl-C itself
    with progress.timed(), handled:
        try:
            if args.engine == "ray" and isinstance(source, RowFiles):
                _check_on_ray(replace(job, workflow=from_anywhere(name)), args, workflow, source, progress)
            elif processes > 1:
                # it needs sockets, and most runs need no process
                from penstock.workflows.rows.processes import checked_in_processes

                of_name, rows = replace(job, workflow=name), islice(source.raw_rows(), args.limit)
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
    job: RowsJob, args: argparse.Namespace, workflow: Workflow, source: RowFiles, progress: Progress
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
    if isinstance(source, OneText) or not is_sync(workflow, args.stage):
        return 1
    if args.jobs is not None:
        return int(args.jobs)
    if (source.size or 0) < SMALL:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def note(sentence: str) -> None:
    """Write a sentence to stderr."""
    write_line(f"penstock: {sentence}")
