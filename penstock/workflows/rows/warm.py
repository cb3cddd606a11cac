"""What checks rows in a process that gets them piece by piece: it loads the workflow once, whoever asks how often."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from os import getpid
from threading import Event, Lock, RLock, Thread
from typing import TYPE_CHECKING
from weakref import finalize

import anyio
from anyio.from_thread import BlockingPortal

from penstock.engine.values.errors import OptionError
from penstock.workflows.loading import LoadingError
from penstock.workflows.rows.reading import parse_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.workflows.rows.job import RowChecker, RowsJob
    from penstock.workflows.rows.reading import RawRow
    from penstock.workflows.rows.results import RowResult

LOADED = 8
"""How many workflows a process keeps loaded."""


@dataclass(frozen=True, slots=True)
class WarmJob:
    """The work on each row of a piece. It can be pickled if its job can be.

    Attributes:
        job: the work on each row.
        jobs: how many rows run at once in a process, if the stage has async steps.
        row_seconds: how long a row may take, again for each further million bytes: it is checked in a child process,
            in which a row that kills or stops it fails alone. None: in this process.
    """

    job: RowsJob
    jobs: int
    row_seconds: float | None = None

    def checked(self, rows: Iterable[RawRow]) -> list[RowResult]:
        """Return the results of rows, in order.

        Raises:
            LoadingError: the workflow cannot be loaded.
            OptionError: ``row_seconds`` is given, and the stage has async steps.
        """
        return _checks_of(self).checked(rows)

    def lost(self, row: RawRow, reason: str) -> RowResult:
        """Return the result of a row that the process at work on it did not outlive."""
        from penstock.workflows.rows.processes import given_up

        return given_up(self.job.started(), row, reason)


_loaded: deque[tuple[int, WarmJob, _InTurn | _InChild | _AtOnce]] = deque(maxlen=LOADED)
_now_loading: list[WarmJob] = []
_loading = RLock()  # loading runs the module of a workflow, which may check rows with another one


def _checks_of(warm: WarmJob) -> _InTurn | _InChild | _AtOnce:
    """Return what checks rows in this process. A forked process has none of its parent, whose threads it lacks."""
    with _loading:
        for process, known, checks in _loaded:
            if process == getpid() and known == warm and not checks.ended:
                return checks
        if warm in _now_loading:
            problem = "its module checks rows with it while it is imported; put that under: if __name__ == '__main__':"
            raise LoadingError(str(warm.job.workflow), problem)
        _now_loading.append(warm)
        try:
            checker = warm.job.started()
        finally:
            _now_loading.pop()
        made: _InTurn | _InChild | _AtOnce
        if warm.row_seconds is None:
            made = _InTurn(checker) if checker.is_sync else _AtOnce(checker, warm)
        elif checker.is_sync:
            made = _InChild(warm, warm.row_seconds)
        else:
            raise OptionError("WorkflowBatches", "isolate", given=True, allowed="False: the stage has async steps")
        _loaded.append((getpid(), warm, made))
        return made


class _InTurn:
    """Checks one row after another, for a stage without async steps."""

    ended = False
    """Whether it cannot check rows any more."""

    def __init__(self, checker: RowChecker) -> None:
        self._checker = checker

    def checked(self, rows: Iterable[RawRow]) -> list[RowResult]:
        return [self._checker.check(parse_row(row)) for row in rows]


class _InChild:
    """Checks one row after another in a child process, which is replaced when a row has killed it."""

    ended = False

    def __init__(self, warm: WarmJob, row_seconds: float) -> None:
        from penstock.workflows.rows.processes import RowProcesses  # needs sockets

        self._pool = RowProcesses(warm.job, processes=1, row_seconds=row_seconds)
        self._one = Lock()

    def checked(self, rows: Iterable[RawRow]) -> list[RowResult]:
        with self._one:
            return list(self._pool.checked(rows))


class _AtOnce:
    """Checks rows in an event loop that lives as long as this. Whoever asks shares the limit."""

    def __init__(self, checker: RowChecker, warm: WarmJob) -> None:
        self._checker = checker
        self._jobs = warm.jobs
        self.ended = False
        loop = _Loop()
        self._portal = loop.portal
        self._limit = loop.portal.call(anyio.Semaphore, warm.jobs)
        finalize(self, loop.stop).atexit = False  # the thread ends with the process anyway

    def checked(self, rows: Iterable[RawRow]) -> list[RowResult]:
        made: dict[int, RowResult] = {}
        try:
            self._portal.call(self._check, iter(enumerate(rows)), made)
        except BaseException:
            self.ended = True  # asyncio ends a loop in which a step raises SystemExit
            raise
        return [made[at] for at in range(len(made))]

    async def _check(self, rows: Iterator[tuple[int, RawRow]], made: dict[int, RowResult]) -> None:
        async def check_rows() -> None:
            for at, row in rows:
                async with self._limit:
                    made[at] = await self._checker.check_async(parse_row(row))

        async with anyio.create_task_group() as tasks:
            for _ in range(self._jobs):
                tasks.start_soon(check_rows)


class _Loop:
    """An event loop in a daemon thread: that of anyio would have to be ended before the process can end."""

    portal: BlockingPortal

    def __init__(self) -> None:
        self._ready = Event()
        Thread(target=anyio.run, args=(self._serve,), name="penstock rows", daemon=True).start()
        self._ready.wait()

    def stop(self) -> None:
        """Let the loop end, without waiting for it."""
        with suppress(RuntimeError):  # it has ended
            self.portal.start_task_soon(self.portal.stop)

    async def _serve(self) -> None:
        async with BlockingPortal() as self.portal:
            self._ready.set()
            await self.portal.sleep_until_stopped()
