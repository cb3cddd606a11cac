"""Tasks that outlive the call that started them, for hosts that call hooks one by one. They need asyncio.

`OutsideCall` is a model call that a framework makes itself, between two of its hooks.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

from penstock.engine.tasks import on_asyncio
from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.values.protocols import Model


T = TypeVar("T")
Asked = TypeVar("Asked")
Given = TypeVar("Given")


def _new_task(work: Coroutine[object, None, None]) -> asyncio.Task[None]:
    """Start a task that no group holds.

    Raises:
        UsageError: asyncio does not run here.
    """
    if not on_asyncio():
        work.close()
        raise UsageError("this needs asyncio: other event loops have no task that outlives the call that started it")
    return asyncio.get_running_loop().create_task(work)


_ending: set[asyncio.Task[None]] = set()
"""Tasks of `when_task_ends`: an event loop holds its tasks weakly."""


def when_task_ends(work: Callable[[], Coroutine[object, None, None]]) -> None:
    """Run a coroutine when the current task has ended, however it ends. It must handle its own errors.

    Raises:
        UsageError: asyncio does not run here.
    """
    if not on_asyncio():
        raise UsageError("this needs asyncio: other event loops do not say when a task ends")

    def run(_: object) -> None:
        task = _new_task(work())
        _ending.add(task)
        task.add_done_callback(_ending.discard)

    cast("asyncio.Task[object]", asyncio.current_task()).add_done_callback(run)


async def _end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; its error is not raised here."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # asyncio logs an error that nobody has looked at


class _TaskReader(Generic[T]):
    """Reads a generator in a task of its own, at most one item ahead of whoever takes the items.

    Args:
        items: the generator. It is closed in the task that reads it.
    """

    def __init__(self, items: AsyncGenerator[T]) -> None:
        self.early: list[T] = []  # what is read while nobody takes items yet
        self.waits_for_taker = False
        self._items = items
        self._queue: asyncio.Queue[list[T]] = asyncio.Queue(1)
        self.task = _new_task(self._read())

    async def _read(self) -> None:
        try:
            async with aclosing(self._items) as items:
                async for item in items:
                    if self.waits_for_taker:
                        self.early.append(item)
                    else:
                        await self._queue.put([item])
        finally:
            if self._queue.empty():  # else the taker is not waiting, and will see that this task has ended
                self._queue.put_nowait([])

    async def taken(self) -> AsyncGenerator[T]:
        """Yield the items; at the end, raise the error of the generator. Closing it ends the task."""
        try:
            for item in self.early:
                yield item
            while not (self.task.done() and self._queue.empty()):
                got = await self._queue.get()
                if not got:
                    break
                yield got[0]
            await self.task
        finally:
            await _end_task(self.task)


async def read_in_task(items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield the items that a task of its own reads from a generator.

    The generator may then hold cancel scopes across its yields, wherever its items are used.

    Raises:
        UsageError: asyncio does not run here.
    """
    async with aclosing(_TaskReader(items).taken()) as taken:
        async for item in taken:
            yield item


class Handover(Generic[Asked, Given, T]):
    """Runs a generator in a task of its own that once asks its caller for something, and goes on when it has it."""

    def __init__(self) -> None:
        self._reader: _TaskReader[T] | None = None
        self._asked: list[Asked] = []
        self._given: list[Given] = []
        self._waiting: asyncio.Event | None = None  # set when the caller of begin() may go on
        self._resumed: asyncio.Event | None = None

    async def begin(self, items: AsyncGenerator[T]) -> Asked | None:
        """Start the generator; return its question, or None if it has ended without asking.

        Raises:
            UsageError: asyncio does not run here.
            Exception: the generator raised it before it asked.
        """
        waiting, self._resumed = asyncio.Event(), asyncio.Event()
        self._waiting = waiting
        reader = self._reader = _TaskReader(items)
        reader.waits_for_taker = True
        reader.task.add_done_callback(lambda _: waiting.set())
        try:
            await waiting.wait()
        except BaseException:
            await self.close()
            raise
        if self._asked:
            reader.waits_for_taker = False
            return self._asked[0]
        await reader.task  # raises what it raised
        return None

    async def swap(self, asked: Asked) -> Given:
        """Ask the caller of `begin`, and wait for the answer in `resume`. Called in the generator, once.

        Raises:
            UsageError: `begin` was not called.
        """
        if self._waiting is None or self._resumed is None:
            raise UsageError("call begin() first")
        self._asked.append(asked)
        self._waiting.set()
        await self._resumed.wait()
        return self._given[0]

    async def resume(self, given: Given | None) -> AsyncGenerator[T]:
        """Yield the generator's items; the answer to its question is given to it first.

        Raises:
            UsageError: `begin` was not called, or nothing is given although the generator has asked.
        """
        if self._reader is None:
            raise UsageError("call begin() first")
        if given is None and self._asked and not self._given:
            raise UsageError("it waits for an answer, and none was given")
        if given is not None and self._resumed is not None and not self._given:
            self._given.append(given)
            self._resumed.set()
        async with aclosing(self._reader.taken()) as taken:
            async for item in taken:
                yield item

    async def close(self) -> None:
        """End the generator, wherever it is."""
        if self._reader is not None:
            await _end_task(self._reader.task)


class HeldOpen:
    """Holds a context manager open in a task of its own, for callers whose parts run in different tasks.

    Args:
        manager: is entered and left in one task.
    """

    def __init__(self, manager: AbstractAsyncContextManager[object]) -> None:
        self._manager = manager
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Event | None = None

    async def __aenter__(self) -> Self:
        """Enter the manager.

        Raises:
            UsageError: asyncio does not run here.
        """
        opened, closing = asyncio.Event(), asyncio.Event()
        task = _new_task(self._hold(opened, closing))
        task.add_done_callback(lambda _: opened.set())
        try:
            await opened.wait()
        except BaseException:
            await _end_task(task)
            raise
        if task.done():
            await task  # raises what it raised
        self._task, self._closing = task, closing
        return self

    async def _hold(self, opened: asyncio.Event, closing: asyncio.Event) -> None:
        async with self._manager:
            opened.set()
            await closing.wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the manager, as if nothing was raised, and wait until that is done.

        Raises:
            Exception: leaving it raised that.
        """
        if self._task is not None and self._closing is not None:
            self._closing.set()
            await self._task


class OutsideCall(Handover["ModelRequest", "AsyncIterable[Chunk]", "Chunk"]):
    """One call of the model, in two halves: `prepared` before it, and `answers` after it has begun to answer.

    Between them the stages wait, in a task of their own. Call `close` in any case. To the stages it is the model.

    Args:
        answers: runs the stages around the call of a model; see `HostRequest.answers`.
    """

    name = "host"

    def __init__(self, answers: Callable[[Model], AsyncGenerator[Chunk]]) -> None:
        super().__init__()
        self._chunks = answers(self)
        self._called = False

    async def prepared(self) -> ModelRequest | None:
        """Run the stages before the call, and return what to send to the model.

        Returns None if the model must not be called: a verdict ended the request, or a processor answered in the
        model's place. In both cases `answers` yields the chunks, and needs no source.

        Raises:
            Exception: a step with ``on_error="raise"`` failed.
        """
        return await self.begin(self._chunks)

    def answers(self, source: AsyncIterable[Chunk] | None = None) -> AsyncGenerator[Chunk]:
        """Yield the chunks of the answer that may leave.

        Args:
            source: the chunks of the model; its error counts as the failure of the call.

        Raises:
            UsageError: the model is to be called, and there is no source; or an answer was rejected and is to be
                requested again, which cannot be done here.
            Exception: what ``source`` raised; or a step with ``on_error="raise"`` failed.
        """
        return self.resume(source)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Hand the request over to the framework, and yield its answer."""
        if self._called:
            raise UsageError("the answer was rejected, and this framework cannot request it again")
        self._called = True
        async for chunk in await self.swap(request):
            yield chunk
