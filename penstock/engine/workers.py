"""Worker threads: long work of sync hooks runs there, so that the event loop goes on and a time limit is noticed.

Python code takes turns with the event loop by itself, every 5 ms unless the application sets another interval. Three
things would spoil that. Many threads wait for one interpreter, so one worker computes at a time. A single call into C
code takes long, so long texts are read in pieces; `checkpoint` stands between them. And calls that let go of the
interpreter for an instant, over and over, wake the loop and shut it out again, so a worker rests now and then.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast

from penstock.engine.tasks import runs_without_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import anyio

T = TypeVar("T")

LONG = 3_000
"""Characters of text, times the steps that read it, from which work is too long for the event loop.

Embedded guards take up to 5 µs for a character; moving a call to a worker costs 0.1 ms.
"""

PIECE = 8_192
"""Characters of a text that one call of a search gets; a long text is read in pieces of this size."""

_BUSY = 0.004  # seconds that a worker computes before it rests
_REST = 0.00005  # seconds; a release of the interpreter that is shorter wakes the waiting loop but does not let it in
_MOST = 16  # workers of an event loop that compute or wait for their turn
_PATIENCE = 5.0  # seconds that a worker waits for its turn; then it goes on beside the others


class AbandonedError(BaseException):
    """Ends work that nobody waits for any more.

    The caller of a worker has left, since it was cancelled or its time is up; or the reader of an `Emitter` has.
    """


class TimeLimitError(TimeoutError):
    """A sync hook took longer than it may; made from the seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it gave no result within {seconds} s")


DEADLINE: contextvars.ContextVar[float | None] = contextvars.ContextVar("penstock-deadline", default=None)
"""When the time of the step is up that runs, on the clock of the event loop; None without a limit."""


@contextmanager
def within_time(until: float) -> Generator[None]:
    """Let steps know that their time is up then, or before, if it is already."""
    before = DEADLINE.get()
    token = DEADLINE.set(until if before is None else min(before, until))
    try:
        yield
    finally:
        DEADLINE.reset(token)


class _Job(threading.local):
    """The work of the current thread; None outside of a worker."""

    work: Work | None = None


_job = _Job()


class Work:
    """One call in a worker thread.

    Attributes:
        abandoned: whether the caller has left.
    """

    __slots__ = ("_holds", "_in_turn", "_loop", "_rest_at", "abandoned")

    def __init__(self, *, in_turn: bool, loop: bool) -> None:
        """Describe a call.

        Args:
            in_turn: whether it computes, so that only one such call should run at a time.
            loop: whether the caller is an event loop.
        """
        self.abandoned = False
        self._holds = False  # the turn
        self._in_turn = in_turn
        self._loop = loop
        self._rest_at = 0.0  # when it has computed for long enough

    def run(self, call: Callable[[], T]) -> tuple[T, dict[contextvars.ContextVar[object], object]]:
        """Call the function; return its result, and the context variables that it has set."""
        _job.work = self
        before = contextvars.copy_context()
        try:
            self._holds = self._in_turn and _turns.take()
            if self.abandoned:
                raise AbandonedError
            self._rest_at = time.perf_counter() + _BUSY
            result = call()
        finally:
            if self._holds:
                _turns.give()
            _job.work = None
        after = contextvars.copy_context()
        return result, {var: value for var, value in after.items() if before.get(var, _UNSET) is not value}

    def checkpoint(self) -> None:
        """Let others have their turn.

        Raises:
            AbandonedError: the caller has left.
        """
        if self.abandoned:
            raise AbandonedError
        if self._loop and time.perf_counter() >= self._rest_at:
            time.sleep(_REST)
            self._rest_at = time.perf_counter() + _BUSY
        if self._holds and _turns.wanted:
            _turns.give()
            self._holds = _turns.take()

    def call_back(self, callback: Callable[[], T]) -> T:
        """Call a function of the application where it would be called without the worker: on the event loop."""
        self.checkpoint()
        if not self._loop:
            return callback()
        from anyio import from_thread

        return from_thread.run_sync(callback)


_UNSET = object()


class _Turns:
    """Who computes: one worker at a time, first come, first served."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with nobody waiting."""
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    def take(self) -> bool:
        """Wait for the turn; False if that takes too long, so that there is nothing to give back."""
        with self._lock:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=_PATIENCE):
            return True
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
        return True  # it was given at the last moment

    def give(self) -> None:
        """End the turn."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

    @property
    def wanted(self) -> bool:
        """Whether a worker waits for the turn."""
        return bool(self._waiting)


_turns = _Turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turns.reset)  # the threads of the parent do not exist in the child


def checkpoint() -> None:
    """Stand between two pieces of long work: in a worker, let others have their turn. Elsewhere it does nothing.

    Raises:
        AbandonedError: the caller has left, so the work is not needed any more.
    """
    if _job.work is not None:
        _job.work.checkpoint()


def call_back(callback: Callable[[], T]) -> T:
    """Call a function of the application: on the event loop, also from a worker."""
    return callback() if _job.work is None else _job.work.call_back(callback)


async def run_in_worker(call: Callable[[], T], *, in_turn: bool = True) -> T:
    """Call a function in a worker thread, with the caller's context variables; return its result.

    If the caller is cancelled, it is left at once: the thread ends at its next `checkpoint`.

    Args:
        call: the function.
        in_turn: whether it computes; then one such function runs at a time. If not, it may wait for something.
    """
    from anyio import to_thread  # takes long to import, so it is loaded where something waits

    work = Work(in_turn=in_turn, loop=True)
    try:
        result, changed = await to_thread.run_sync(
            work.run, call, abandon_on_cancel=True, limiter=_limiter() if in_turn else None
        )
    finally:
        work.abandoned = True
    for var, value in changed.items():
        var.set(value)
    return result


async def moved_if_long(call: Callable[[], T], length: int) -> T:
    """Call a function that reads so many characters; in a worker thread if that would hold up the event loop."""
    if length <= LONG or runs_without_loop():
        return call()
    return await run_in_worker(call)


def run_with_limit(call: Callable[[], T], seconds: float) -> T:
    """Call a function in a thread, and wait for its result without an event loop.

    Raises:
        TimeLimitError: there is no result after so many seconds; the thread ends at its next `checkpoint`.
    """
    work = Work(in_turn=False, loop=False)
    ends: list[tuple[T, dict[contextvars.ContextVar[object], object]] | BaseException] = []

    def run() -> None:
        try:
            ends.append(work.run(call))
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            ends.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="penstock-limit", daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:
        work.abandoned = True
    if not ends:
        raise TimeLimitError(seconds)
    end = ends[0]
    if isinstance(end, BaseException):
        raise end
    result, changed = end
    for var, value in changed.items():
        var.set(value)
    return result


_limiters: list[object] = []


def _limiter() -> anyio.CapacityLimiter:
    """Return the limiter of the running event loop for workers that compute."""
    from anyio import CapacityLimiter
    from anyio.lowlevel import RunVar

    if not _limiters:
        _limiters.append(RunVar[CapacityLimiter]("penstock-workers"))
    variable = cast("RunVar[CapacityLimiter]", _limiters[0])
    try:
        return variable.get()
    except LookupError:
        made = CapacityLimiter(_MOST)
        variable.set(made)
        return made
