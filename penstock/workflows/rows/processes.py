"""Check rows in several processes, with the results in the order of the rows.

This process reads rows, and hands them out in blocks; each worker process parses and checks its block, and sends the
results back as plain data. A worker has one block at a time, and it is handed out only when the worker waits for it,
so neither side ever waits for the other to read.

A worker that is killed, or that takes too long for a row, costs that row only. In shared memory each worker says which
row it is at, so the row is known even if the worker cannot report any more.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
from collections import deque
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from logging.handlers import QueueHandler
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.errors import PenstockError
from penstock.workflows.rows.job import ROW_SECONDS
from penstock.workflows.rows.orphans import OrphanWatcher
from penstock.workflows.rows.reading import InputRow, RowsError, is_object, parse_row
from penstock.workflows.rows.results import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from ctypes import c_longlong
    from multiprocessing.connection import Connection

    from penstock.workflows.rows.job import RowChecker, RowsJob
    from penstock.workflows.rows.reading import RawRow
    from penstock.workflows.rows.results import RowResult

LONG_ROW = 1_000_000
"""The size of a row, in bytes, from which it has more time: as much again for each further such part."""

BLOCK_ROWS = 256
"""The most rows of a block."""

BLOCK_BYTES = 64 * 1024
"""The size at which a block is closed earlier."""

BLOCK_SECONDS = 0.25
"""How long a block should take: little, so that the last ones end together, and much beside handing it out."""

FIRST_ROWS = 16
"""How many rows the first blocks have, when nobody knows how long one takes."""

BLOCKS_AHEAD = 8
"""How many blocks per worker may be done while an earlier one is not, so that one slow row does not stop the others."""

SEND_AFTER = 0.05
"""How long a worker gathers results before it sends them, in seconds."""

TRIES = 2
"""How often a row is tried that a worker was killed at. What kills a worker once may be chance; twice is the row."""

MOST_EARLY_ENDS = 8
"""How many workers may end one after another before they have checked a row, until the run is given up."""

_MEAN_OF = 64  # of how many rows the mean time of a row is, about
_WATCH = 0.25  # seconds between two looks at whether a row takes too long
_END_SECONDS = 5.0  # how long a worker may take to end by itself


class RowLostError(PenstockError):
    """The worker process of a row was killed, or took too long for it; the row has no result.

    Attributes:
        reason: what happened.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the row has no result: {reason}")


def checked_in_processes(
    job: RowsJob,
    rows: Iterable[RawRow],
    *,
    processes: int,
    row_seconds: float = ROW_SECONDS,
) -> Generator[RowResult]:
    """Yield the results of the rows, in their order, for a stage without async steps.

    Close the iterator if you leave it early: that stops the workers.

    Args:
        job: the work on each row. It is pickled.
        rows: the rows, read a few blocks ahead.
        processes: how many worker processes, 1 or more.
        row_seconds: how long a worker may take for a row, in seconds; a row of more than a million bytes has as much
            again for each further million. After that its worker is killed, and the row fails.

    Raises:
        LoadingError: the workflow cannot be loaded.
        RowsError: the worker processes end before they have checked anything.
    """
    with closing(RowProcesses(job, processes=processes, row_seconds=row_seconds)) as pool:
        yield from pool.checked(rows)


def size_of(row: RawRow) -> int:
    """Return about how many bytes a row has: those of a line, or of the texts in the columns of a table."""
    data = row.data
    if isinstance(data, (bytes, str)):
        return len(data)
    return _size_within(data.values()) if is_object(data) else 0


def _size_within(values: Iterable[object]) -> int:
    size = 0
    for value in values:
        if isinstance(value, (str, bytes)):
            size += len(value)
        elif is_object(value):
            size += _size_within(value.values())
        elif isinstance(value, (list, tuple)):
            size += _size_within(cast("list[object]", value))
    return size


def seconds_for(row: RawRow, row_seconds: float) -> float:
    """Return how long a worker may take for a row, in seconds."""
    return row_seconds * (1 + size_of(row) // LONG_ROW)


# The pool, in this process


@dataclass(slots=True, eq=False)
class _Block:
    """Some rows one after another.

    Attributes:
        rows: those that have no result yet.
        results: the results that were not passed on yet.
        tries: how many workers were killed at its row, if it has one row only.
    """

    rows: list[RawRow]
    results: list[RowResult] = field(default_factory=list["RowResult"])
    tries: int = 0


class RowProcesses:
    """Worker processes that check rows, of one input after another. Arguments as of `checked_in_processes`."""

    def __init__(self, job: RowsJob, *, processes: int, row_seconds: float = ROW_SECONDS) -> None:
        self._job = job
        self._rows: Iterator[RawRow] = iter(())
        self._processes = processes
        self._row_seconds = row_seconds
        self._blocks: deque[_Block] = deque()
        self._waiting: deque[_Block] = deque()
        self._workers: list[_Worker] = []
        self._checker: RowChecker | None = None
        self._early_ends = 0
        self._row_mean = BLOCK_SECONDS / FIRST_ROWS
        self._error: Exception | None = None
        self._looked = monotonic()
        self._orphans = OrphanWatcher()

    def close(self) -> None:
        """Let the workers end."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._orphans.close()

    def checked(self, rows: Iterable[RawRow]) -> Generator[RowResult]:
        """Yield the results of the rows, in order; the workers are kept for the next ones. See `checked_in_processes`.

        Close the iterator if you leave it early: that stops the workers.
        """
        self._rows, self._error, self._early_ends = iter(rows), None, 0
        self._looked = monotonic()
        try:
            self._hand_out()
            while self._blocks:
                block = self._blocks[0]
                results, block.results = block.results, []
                yield from results
                if not block.rows:
                    self._blocks.popleft()
                first = self._blocks[0] if self._blocks else None
                self._hand_out()
                self._listen(0 if first is not None and (first.results or not first.rows) else _WATCH)
            if self._error is not None:
                raise self._error
        finally:
            if self._blocks:  # end all workers at once, and forget their tasks
                for worker in self._workers:
                    worker.kill()
                self._workers.clear()
                self._blocks.clear()
                self._waiting.clear()

    # Blocks

    def _hand_out(self) -> None:
        """Give a block to each worker that waits for one, and start workers while there is work for more of them."""
        for worker in self._workers:
            if worker.waits and self._has_waiting(1):
                worker.hand_out(self._waiting.popleft())
        idle = sum(worker.block is None for worker in self._workers)
        while len(self._workers) < self._processes and self._has_waiting(idle + 1):
            self._workers.append(_Worker(self._job, self._row_seconds, self._orphans))
            idle += 1

    def _has_waiting(self, count: int) -> bool:
        """Return whether so many blocks wait to be handed out; read more rows for it, as far as there is room."""
        while len(self._waiting) < count:
            if len(self._blocks) >= self._processes * BLOCKS_AHEAD:
                return False
            rows = self._read_rows()
            if not rows:
                return False
            self._blocks.append(_Block(rows))
            self._waiting.append(self._blocks[-1])
        return True

    def _read_rows(self) -> list[RawRow]:
        """Return the rows of the next block; none at the end of the input, or if reading raises."""
        rows: list[RawRow] = []
        most = max(1, min(BLOCK_ROWS, int(BLOCK_SECONDS / max(self._row_mean, 1e-9))))
        size = 0
        try:
            for row in self._rows:
                rows.append(row)
                size += size_of(row)
                if len(rows) >= most or size >= BLOCK_BYTES:
                    break
        except Exception as error:  # noqa: BLE001 - raised again when all rows before it have their results
            self._error, self._rows = error, iter(())
        return rows

    # What workers say

    def _listen(self, seconds: float) -> None:
        """Take what workers say, or wait so long for it; end those that take too long."""
        by_connection = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection), seconds):
            worker = by_connection[connection]  # type: ignore[index]
            if not self._take(worker):
                self._lost(worker, worker.how_it_ended())
        for worker in [each for each in self._workers if not each.is_alive()]:
            if not worker.connection.poll():  # a process that a step has forked keeps the connection open
                self._lost(worker, worker.how_it_ended())
        now = monotonic()
        paused, self._looked = now - self._looked - _WATCH, now
        if paused > _WATCH:  # this process was stopped, perhaps with all others (Ctrl-Z), or its reader was slow
            for worker in self._workers:
                worker.deadline += paused
        for worker in [each for each in self._workers if each.is_late()]:
            while worker.connection.poll() and self._take(worker):
                pass  # it may have been done just now
            if worker.is_late():
                self._lost(worker, "took too long", killed=False)

    def _take(self, worker: _Worker) -> bool:
        """Take one message of a worker; return whether it is alive."""
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            return False
        if kind == "results":
            results = unpacked(content)
            worker.take(results)
            self._early_ends = 0
            self._note_mean(results)
        elif kind == "ready":
            worker.ready = True
        elif kind == "log":
            logging.getLogger(content.name).handle(content)
        else:
            raise RowsError(f"a worker process cannot load the workflow: {content}")
        return True

    def _note_mean(self, results: Sequence[RowResult]) -> None:
        """Move the mean time of a row towards that of these."""
        if results:
            mean = sum(result.seconds for result in results) / len(results)
            self._row_mean += (mean - self._row_mean) * min(len(results) / _MEAN_OF, 1)

    def _lost(self, worker: _Worker, reason: str, *, killed: bool = True) -> None:
        """Go on without a worker: the row that it was at is tried again by itself, or has failed."""
        at, block = worker.row_at_work, worker.block
        self._workers.remove(worker)
        worker.kill()
        if block is None or not block.rows:
            self._count_early_end(reason)
            return
        if at is None:
            self._count_early_end(reason)
            self._waiting.appendleft(block)
            return
        tries = block.tries + 1 if killed else TRIES
        suspect, after = _Block([block.rows[at]], tries=tries), _Block(block.rows[at + 1 :])
        del block.rows[at:]
        place = self._blocks.index(block) + 1
        self._blocks.insert(place, suspect)
        self._blocks.insert(place + 1, after)
        if tries >= TRIES:
            self._checker = self._checker or self._job.started()
            suspect.results.append(given_up(self._checker, suspect.rows.pop(), reason))
        self._waiting.extendleft(each for each in (after, suspect, block) if each.rows)

    def _count_early_end(self, reason: str) -> None:
        self._early_ends += 1
        if self._early_ends >= MOST_EARLY_ENDS:
            raise RowsError(f"the worker processes end before they have checked a row; the last one {reason}")


def given_up(checker: RowChecker, raw: RawRow, reason: str) -> RowResult:
    """Return the result of a row that has none: its worker process was lost."""
    # What is long could be what killed the worker when it was parsed.
    long = isinstance(raw.data, bytes) and len(raw.data) > LONG_ROW
    row = InputRow(raw.line, raw=raw.data, file=raw.file) if long else parse_row(raw)
    return checker.failed(row, RowLostError(f"its worker process {reason}"))


class _Worker:
    """One worker process, seen from this one.

    Attributes:
        connection: its messages.
        ready: whether it has loaded the workflow.
        block: the block that it is at, or None.
        deadline: when it takes too long for its row.
    """

    def __init__(self, job: RowsJob, row_seconds: float, orphans: OrphanWatcher) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
        self.connection, theirs = context.Pipe()
        self.ready = False
        self.block: _Block | None = None
        self._row_seconds = row_seconds
        self._taken = 0
        self._at = context.RawValue("q", -1)
        self._seen = -1
        self.deadline = float("inf")
        loggers = logging.root.manager.loggerDict.items()
        levels = {name: one.level for name, one in loggers if isinstance(one, logging.Logger) and one.level}
        start = _Start(job, self._at, levels)
        self._process = context.Process(target=_work, args=(theirs, start), daemon=True, name="penstock rows")
        with _interrupts_blocked(), _main_module_hidden(hidden=isinstance(job.workflow, str)):
            self._process.start()
        theirs.close()
        self._pid = self._process.pid or 0
        self._orphans = orphans
        orphans.watch(self._pid)

    @property
    def waits(self) -> bool:
        """Whether it waits for a block."""
        return self.ready and self.block is None

    def hand_out(self, block: _Block) -> None:
        """Give it a block, for which it waits."""
        self.block, self._taken = block, 0
        self._at.value = self._seen = -1
        self.deadline = monotonic() + seconds_for(block.rows[0], self._row_seconds)
        with suppress(OSError):  # it has ended, which its connection says, too
            self.connection.send(block.rows)

    def take(self, results: list[RowResult]) -> None:
        """Take the next results of its block."""
        block = self.block
        if block is None:
            return
        block.results += results
        del block.rows[: len(results)]
        self._taken += len(results)
        self._seen = -1  # the next row has its time from now on, even if the worker has not said yet that it is there
        if not block.rows:
            self.block = None

    @property
    def row_at_work(self) -> int | None:
        """The place of the row that it is at in the rest of its block; None if it has begun no row."""
        at: int = self._at.value
        if self.block is None or at < self._taken:
            return None
        return min(at - self._taken, len(self.block.rows) - 1)

    def is_late(self) -> bool:
        """Return whether it takes too long for its row."""
        if self.block is None:
            return False
        if self._at.value != self._seen:
            self._seen = self._at.value
            row = self.block.rows[self.row_at_work or 0]
            self.deadline = monotonic() + seconds_for(row, self._row_seconds)
        return monotonic() > self.deadline

    def is_alive(self) -> bool:
        """Return whether its process has not ended."""
        return self._process.is_alive()

    def how_it_ended(self) -> str:
        """Return how it ended, in words."""
        self._process.join()
        code = self._process.exitcode or 0
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def end(self) -> None:
        """Let it end by itself."""
        self.connection.close()
        self._process.join(_END_SECONDS)
        if not self._process.is_alive():
            self._orphans.forget(self._pid)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join()
        self._orphans.forget(self._pid)
        self.connection.close()


@contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Block Ctrl-C in processes started meanwhile: a terminal sends it to all processes, and this one handles it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first start of a process starts it, and unblocks Ctrl-C for both
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _main_module_hidden(*, hidden: bool) -> Generator[None]:
    """Keep a child from importing the main module of this process, unless the workflow may come from there.

    It may be a script that would begin again in the child, or all of Ray.
    """
    main = vars(sys.modules["__main__"])
    before: dict[str, object] = {name: main[name] for name in ("__file__", "__spec__") if hidden and name in main}
    main.update(dict.fromkeys(before))
    try:
        yield
    finally:
        main.update(before)


# The worker process


@dataclass(frozen=True, slots=True)
class _Start:
    """The arguments of a worker process.

    ``at`` is where it stores the number of its current row; ``levels`` are those of the loggers that have one.
    """

    job: RowsJob
    at: c_longlong
    levels: Mapping[str, int]


class _Parent:
    """The connection to the process that started this one. Its messages may come from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = RLock()

    def say(self, kind: Literal["ready", "results", "log", "error"], content: object) -> None:
        """Send a message."""
        with self._lock:
            self._connection.send((kind, content))


_LOG_FIELDS = vars(logging.makeLogRecord({})).keys() | {"message"}


class _LogToParent(QueueHandler):
    """Passes log messages on, which the parent writes once each."""

    def __init__(self, parent: _Parent) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.setLevel(logging.WARNING)
        self._parent = parent

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record without fields that the caller added, which may not be picklable."""
        prepared: logging.LogRecord = super().prepare(record)
        own = vars(prepared)
        return logging.makeLogRecord({name: own[name] for name in _LOG_FIELDS & own.keys()})

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send the record."""
        self._parent.say("log", record)


def _work(connection: Connection, start: _Start) -> None:
    """Check rows until the parent closes the connection, or ends."""
    if sys.platform != "win32":
        os.setpgid(0, 0)  # so that the watcher ends what it starts, too
    sys.stdout = sys.stderr  # as in the command: what the user's code prints does not mix with the results
    parent = _Parent(connection)
    logging.lastResort = _LogToParent(parent)
    for name, level in start.levels.items():
        logging.getLogger(name).setLevel(level)
    with suppress(EOFError, OSError):
        try:
            checker = start.job.started()
        except Exception as error:  # noqa: BLE001 - said by the parent; it may not be possible to pickle it
            parent.say("error", str(error))
            return
        parent.say("ready", None)
        while True:
            _check_block(checker, connection.recv(), parent, start)


def _check_block(checker: RowChecker, rows: list[RawRow], parent: _Parent, start: _Start) -> None:
    results: list[RowResult] = []
    sent = monotonic()
    for number, row in enumerate(rows):
        start.at.value = number
        results.append(checker.check(parse_row(row)))
        if (now := monotonic()) - sent >= SEND_AFTER:
            parent.say("results", packed(results))
            results, sent = [], now
    parent.say("results", packed(results))
