"""The progress bar for long input: on stderr, on a terminal only, and only once it has taken a while."""

from __future__ import annotations

from time import monotonic
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress, TaskID

PATIENCE = 0.5
"""The seconds after which people want to see that something moves."""

EVERY = 0.1
"""The seconds between two looks at where the input stands: the bar is not drawn more often."""


class Bar:
    """Shows how far the input is read. Lives as long as one run over rows; does nothing where nobody watches.

    Args:
        stream: where to draw; None: nowhere.
        total: the input's size in bytes, if it is known.
    """

    def __init__(self, stream: IO[str] | None, total: int | None) -> None:
        self._stream = stream
        self._total = total
        self._next = monotonic() + PATIENCE
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """Begin, without drawing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar off the screen."""
        if self._progress is not None:
            self._progress.stop()

    def at(self, taken: int, rows: int) -> None:
        """Note how many bytes and rows are done."""
        if self._stream is None or monotonic() < self._next:
            return
        self._next = monotonic() + EVERY
        if self._progress is None or self._task is None:
            self._progress, self._task = _started(self._stream, self._total)
        self._progress.update(self._task, completed=taken, rows=f"{rows:,}")


def _started(stream: IO[str], total: int | None) -> tuple[Progress, TaskID]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from penstock.workflows.cli.table import console_for

    known = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if total else ()
    rows = TextColumn("{task.fields[rows]} rows")
    progress = Progress(*known, rows, console=console_for(stream), transient=True, redirect_stdout=False)
    task = progress.add_task("", total=total, rows="0")
    progress.start()
    return progress, task
