"""Run several things at once: task groups, `gather`, background tasks; and coroutines where no event loop runs.

`Pace` and `LoopTurns` let the event loop go on while much is computed.
"""

from __future__ import annotations

import inspect
import sys
import threading
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Self, TypeVar, cast

from penstock.engine.values.errors import UsageError
from penstock.engine.values.tripwire import TripwireSignal

# asyncio and anyio take long to import, so they are imported where something waits.

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
    from types import TracebackType

    import anyio
    import trio
    from anyio.lowlevel import RunVar

T = TypeVar("T")
Asked = TypeVar("Asked")
Given = TypeVar("Given")


class _Driver(threading.local):
    """How the coroutines of the current thread are run."""

    without_loop = False
    computes_until = 0.0
    """When the event loop is to have its turn; 0.0 while tasks wait for theirs."""


_driver = _Driver()


async def resolved(value: Awaitable[T] | T) -> T:
    """Return a value, or the result of an awaitable."""
    if inspect.isawaitable(value):
        return await cast("Awaitable[T]", value)
    return value


def runs_without_loop() -> bool:
    """Return whether the current coroutine is run by `run_without_loop`, so that it must not wait for anything."""
    return _driver.without_loop


def run_without_loop(stepping: Coroutine[object, None, T], what: str) -> T:
    """Run a coroutine that does not suspend, without an event loop, and return its result.

    Args:
        stepping: the coroutine.
        what: the name of the work, for the error.

    Raises:
        UsageError: it suspends.
    """
    before, _driver.without_loop = _driver.without_loop, True
    try:
        stepping.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        _driver.without_loop = before
    stepping.close()
    raise UsageError(f"{what} awaits something, so it cannot run without an event loop; await it instead")


async def let_others_run() -> None:
    """Give the event loop a turn. A cancelled caller is stopped here."""
    from anyio.lowlevel import checkpoint

    await checkpoint()


_BUSY = 0.004  # seconds that work goes on before the event loop has its turn


class Pace:
    """Lets the event loop go on while work takes long that never waits for anything."""

    __slots__ = ("_paced", "_until")

    def __init__(self) -> None:
        self._paced = not runs_without_loop()
        self._until = perf_counter() + _BUSY

    async def rest(self) -> None:
        """Give the event loop a turn if the last one was some time ago. A cancelled caller is stopped here."""
        if self._paced and perf_counter() >= self._until:
            await let_others_run()
            self._until = perf_counter() + _BUSY


class LoopTurns:
    """Who computes on an event loop: after some milliseconds, the loop has its turn before the next task computes.

    A loop runs all tasks that are ready before it looks at its timers and sockets. So a thousand requests that come at
    once, each of which takes a millisecond, would keep it from anything else for a second.
    """

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False  # by a task that the loop has its turn before
        self._waiting: dict[anyio.Event, None] = {}  # the tasks behind that one, in order

    async def take(self) -> None:
        """Return when the loop and all tasks that wait have had their turn. A cancelled caller is stopped here."""
        if self._taken:
            await self._wait_behind()
            return
        self._taken, _driver.computes_until = True, 0.0
        try:
            await let_others_run()
        finally:
            self._pass_on()

    async def _wait_behind(self) -> None:
        from anyio import Event

        event = Event()
        self._waiting[event] = None
        try:
            await event.wait()
        finally:
            if event in self._waiting:  # it was cancelled before its turn
                del self._waiting[event]
            else:
                self._pass_on()

    def _pass_on(self) -> None:
        """Let the next task have its turn when the loop has had its own."""
        following = next(iter(self._waiting), None)
        self._taken = following is not None
        if following is None:
            _driver.computes_until = perf_counter() + _BUSY
        else:
            del self._waiting[following]
            following.set()


_turns: RunVar[LoopTurns] | None = None


def must_take_turn() -> bool:
    """Return whether a task that is about to compute has to `take_turn`: the last turn of its loop is some time ago."""
    return not _driver.without_loop and perf_counter() >= _driver.computes_until


async def take_turn() -> None:
    """Wait until this task may compute on the running event loop; see `LoopTurns`."""
    global _turns  # noqa: PLW0603 - made where a loop runs, since anyio takes long to import
    if _turns is None:
        from anyio.lowlevel import RunVar

        _turns = RunVar("penstock.turns")
    turns = _turns.get(None)
    if turns is None:
        turns = LoopTurns()
        _turns.set(turns)
    await turns.take()


def run_in_own_loop(work: Callable[[], Awaitable[T]], what: str) -> T:
    """Run a function in an event loop of its own, and return its result.

    Args:
        work: the async function.
        what: how to call it where a loop runs already, for the error.

    Raises:
        UsageError: an event loop runs in this thread already.
    """
    import anyio

    check_no_loop(what)
    before, _driver.without_loop = _driver.without_loop, False
    try:
        return anyio.run(work)
    finally:
        _driver.without_loop = before


def check_no_loop(what: str) -> None:
    """Check that no event loop runs in this thread, which the caller would block.

    Args:
        what: how to call it where one runs, for the error.

    Raises:
        UsageError: one does.
    """
    import anyio

    try:
        anyio.get_current_task()
    except RuntimeError:
        return
    raise UsageError(f"an event loop runs here already, as in a notebook; use {what}")


def on_asyncio() -> bool:
    """Return whether asyncio runs the current task."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def within(seconds: float, work: Awaitable[object]) -> bool:
    """Wait for work in the current task, and return whether it ended in time. No cancel scope is opened on asyncio.

    The work may leave a scope that it has opened before: a source that holds a time limit across its yields, for
    example. Scopes have to be left in the reverse order, so none may be opened around that. On other event loops there
    is no other limit than a scope, so there it is the caller's: see `close_in`.
    """
    if not on_asyncio():
        await work
        return True
    import asyncio

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    return True


def call_later(seconds: float, function: Callable[[], None]) -> Callable[[], None]:
    """Call a function after some seconds, unless the returned one is called before; on asyncio only."""
    if not on_asyncio():
        return _nothing
    import asyncio

    return asyncio.get_running_loop().call_later(seconds, function).cancel


def _nothing() -> None:
    """Cancel nothing."""


def close_in(scope: anyio.CancelScope, seconds: float) -> None:
    """Let the rest of a scope run to its end, also if the task is cancelled, but for these seconds at most.

    The scope was opened before the things that are now closed, so that theirs stand within it.
    """
    import anyio

    scope.shield = True
    scope.deadline = anyio.current_time() + seconds


def new_task_group() -> AsyncioTaskGroup | TrioTaskGroup:
    """Return a task group for the running event loop. Those of anyio do more for each task, and cost a multiple."""
    return AsyncioTaskGroup() if on_asyncio() else TrioTaskGroup()


class AsyncioTaskGroup:
    """Tasks on asyncio that start, end and are cancelled together. A task must handle its own errors.

    An error that a task raises all the same cancels the others, but not the body, and is raised when all have ended; a
    task that somebody cancels has just ended. `asyncio.TaskGroup` does the same, but calls back for each task. Here the
    group waits for one task after the other, and most have ended when their turn comes.
    """

    __slots__ = ("_errors", "_loop", "_tasks", "cancelled")

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._errors: list[BaseException] = []
        self.cancelled = False

    def start(self, work: Callable[..., Coroutine[object, None, None]], *args: object) -> None:
        """Start a task; do nothing if the group was cancelled."""
        if not self.cancelled:
            self._tasks.append(self._loop.create_task(self._run(work, args)))

    async def _run(self, work: Callable[..., Coroutine[object, None, None]], args: tuple[object, ...]) -> None:
        try:
            await work(*args)
        except BaseException as error:
            import asyncio

            if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                raise
            self.cancel()
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise  # the event loop raises it at once, and stops
            self._errors.append(error)

    def cancel(self) -> None:
        """Cancel every task but the calling one."""
        self.cancelled = True
        import asyncio

        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()

    async def __aenter__(self) -> Self:
        """Open the group."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all tasks, also those that tasks start. A cancellation from outside cancels them."""
        import asyncio

        cancellation: asyncio.CancelledError | None = None
        if error is None:
            cancellation = await self._wait()
        if error is not None or cancellation is not None:
            import anyio

            self.cancel()
            with anyio.CancelScope(shield=True):  # a scope that was cancelled would cancel it at each turn of the loop
                while (again := await self._wait()) is not None:
                    cancellation = again
                    self.cancel()
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            return  # it goes on
        raised = [*self._errors]
        if isinstance(error, asyncio.CancelledError):
            cancellation = cancellation or error
        elif error is not None:
            raised.append(error)
        if raised:
            if cancellation is not None:
                _cancel_again(cancellation)
            raise BaseExceptionGroup("unhandled errors in a task group", raised)
        if cancellation is not None and cancellation is not error:
            raise cancellation

    async def _wait(self) -> asyncio.CancelledError | None:
        """Wait for all tasks; if that is cancelled, return the cancellation."""
        import asyncio

        for task in self._tasks:
            while not task.done():
                try:
                    await self._end_of(task)
                except asyncio.CancelledError as asked:
                    return asked
            _ = task.cancelled() or task.exception()  # which is in `_errors`, so that the loop need not report it
        return None

    def _end_of(self, task: asyncio.Task[None]) -> asyncio.Future[None]:
        """Return a future that is done when a task is. To await the task would pass a cancellation on to it alone."""
        future = self._loop.create_future()
        task.add_done_callback(lambda _: None if future.done() else future.set_result(None))
        return future


_IS_TAKEN_BACK: bool = sys.version_info >= (3, 13)
"""Whether `asyncio.Task.uncancel` ends a cancellation that has not arrived yet, as scopes and time limits require."""


def _cancel_again(cancellation: asyncio.CancelledError) -> None:
    """Cancel the current task once more, since an error hides its cancellation from whoever catches the error.

    `asyncio.TaskGroup` does the same, from Python 3.13 on. How often the task was cancelled stays as it was.
    """
    from asyncio import current_task

    task = current_task() if _IS_TAKEN_BACK else None
    if task is not None and task.cancelling():
        task.uncancel()
        task.cancel(*cancellation.args)


class TrioTaskGroup:
    """The same on trio, whose nurseries have none of the scopes and handles that anyio makes for each task."""

    __slots__ = ("_manager", "_nursery", "cancelled")

    _nursery: trio.Nursery

    def __init__(self) -> None:
        import trio

        self._manager = trio.open_nursery()
        self.cancelled = False

    def start(self, work: Callable[..., Coroutine[object, None, None]], *args: object) -> None:
        """Start a task; do nothing if the group was cancelled."""
        if not self.cancelled:
            self._nursery.start_soon(work, *args)

    def cancel(self) -> None:
        """Cancel every task."""
        self.cancelled = True
        self._nursery.cancel_scope.cancel()

    async def __aenter__(self) -> Self:
        """Open the group."""
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Wait for all tasks. Where each was cancelled from outside, that is one cancellation."""
        import trio

        try:
            return await self._manager.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.split(trio.Cancelled)[1] is None:
                raise _first_in(group) from None
            raise


def _first_in(error: BaseException) -> BaseException:
    """Return the first error in a group, however deep; an error that is no group as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


_BEGUN_AT_ONCE = 8  # tasks that begin in one step of the event loop


async def gather(works: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run functions concurrently; return their results in order. A single one runs in the caller's own task.

    Without an event loop they run one after another.

    Raises:
        TripwireSignal: one gave a verdict, which cancels the others. Of several, the first in order.
        Exception: no one gave a verdict, and some raised: the first in order.
    """
    if len(works) <= 1:
        return [await work() for work in works]
    if runs_without_loop():
        return await _in_turn(works)

    done: list[T | None] = [None] * len(works)
    ends: list[BaseException | None] = [None] * len(works)
    async with new_task_group() as group:

        async def run(index: int, work: Callable[[], Awaitable[T]]) -> None:
            try:
                done[index] = await work()
            except Exception as error:  # noqa: BLE001 - raised below, unless another gives a verdict
                ends[index] = error
            except TripwireSignal as verdict:
                ends[index] = verdict
                group.cancel()

        for index, work in enumerate(works):
            group.start(run, index, work)
            if index % _BEGUN_AT_ONCE == _BEGUN_AT_ONCE - 1:
                await let_others_run()
    raised = sorted(filter(None, ends), key=lambda end: not isinstance(end, TripwireSignal))
    if raised:
        raise raised[0]
    return cast("list[T]", done)


async def _in_turn(works: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run functions one after another, as `gather` does without an event loop: a verdict comes before an error."""
    done: list[T] = []
    failed: Exception | None = None
    for work in works:
        try:
            done.append(await work())
        except Exception as error:  # noqa: BLE001 - raised below, unless another gives a verdict
            failed = failed or error
    if failed is not None:
        raise failed
    return done


SHADOW_SECONDS = 10.0
"""Seconds that a run waits for its shadow steps when it is closed; those that take longer are cancelled."""


class BackgroundTasks:
    """The background tasks of a run (shadow steps). Lives as long as the run's ``async with`` block."""

    __slots__ = ("_group", "_scope", "_scopes")

    def __init__(self) -> None:
        import anyio

        self._scope = anyio.CancelScope()  # around the group
        self._group = new_task_group()
        self._scopes: dict[anyio.CancelScope, None] = {}  # those of the tasks; an empty set would be larger

    async def open(self) -> None:
        """Open the group of tasks."""
        self._scope.__enter__()
        await self._group.__aenter__()

    def start(self, work: Callable[..., Coroutine[object, None, None]], *args: object) -> anyio.CancelScope:
        """Start a task, and return its scope; it must handle its own errors."""
        import anyio

        scope = anyio.CancelScope()
        self._scopes[scope] = None
        self._group.start(self._run, scope, work, args)
        return scope

    async def _run(
        self, scope: anyio.CancelScope, work: Callable[..., Coroutine[object, None, None]], args: tuple[object, ...]
    ) -> None:
        try:
            with scope:
                await work(*args)
        finally:
            self._scopes.pop(scope, None)

    def cancel(self) -> None:
        """Cancel every task."""
        for scope in list(self._scopes):
            scope.cancel()

    @contextmanager
    def shielded(self) -> Generator[None]:
        """Let no cancellation from outside reach the current task, which must be the one that has opened the group.

        The closed objects may hold scopes that were opened since: they stand within the group's, as they have to.
        """
        self._scope.shield = True
        try:
            yield
        finally:
            self._scope.shield = False

    async def close(self, error: BaseException | None) -> None:
        """Wait for the tasks, `SHADOW_SECONDS` at most; after an error they are cancelled at once."""
        try:
            await self._close_group(error)
        except BaseException as raised:
            if not self._scope.__exit__(type(raised), raised, raised.__traceback__):
                raise
        else:
            self._scope.__exit__(None, None, None)

    async def _close_group(self, error: BaseException | None) -> None:
        import anyio

        if error is not None and isinstance(error, anyio.get_cancelled_exc_class()):
            await self._group.__aexit__(type(error), error, error.__traceback__)  # which raises it again
            return
        if error is not None:
            self.cancel()  # and leave the error as it is: a task group would wrap it
        if self._scopes:
            self._scope.deadline = anyio.current_time() + SHADOW_SECONDS
        await self._group.__aexit__(None, None, None)
