"""`Emitter`: an async iterator over the items that a coroutine emits, from however deep within its calls."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

from penstock.engine.tasks import on_asyncio
from penstock.engine.workers import AbandonedError

# asyncio takes long to import, so it is imported where a read waits.

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Generator, Iterable

T = TypeVar("T")


class Emitter(Generic[T]):
    """The items that a coroutine emits; it is iterated over and closed like an async generator.

    With generators that yield the items of other generators, each item passes through all of them, and each has to be
    closed by the next. Here the functions are called with ``await``, and get the emitter; an item goes to the reader at
    once. Items are read by one task at a time.

    Args:
        work: returns the coroutine; called with the emitter when the first item is requested.

    Attributes:
        last: the last item; None before the first.
        closed: whether the reader has closed it.
        busy: whether a read waits.
        over: whether the coroutine has ended.
    """

    __slots__ = ("_cancelled", "_coroutine", "_pending", "_task", "_work", "busy", "closed", "last", "over")

    def __init__(self, work: Callable[[Emitter[T]], Coroutine[object, object, None]]) -> None:
        self._work = work
        self._coroutine: Coroutine[object, object, None] | None = None
        self._task: asyncio.Task[object] | None = None  # the task that waits in a read
        self._pending = 0  # how many cancellations that task had before
        self._cancelled: asyncio.Task[object] | None = None  # the task that we have cancelled
        self.last: T | None = None
        self.closed = False
        self.busy = False
        self.over = False

    # For the coroutine

    @types.coroutine
    def emit(self, item: T) -> Generator[object, object, None]:
        """Give an item to the reader, and wait until the next one is requested.

        Raises:
            AbandonedError: the reader has closed the emitter.
        """
        self.last = item
        yield _EMITTED

    async def emit_all(self, items: Iterable[T]) -> None:
        """Emit items, one after another."""
        for item in items:
            await self.emit(item)

    # For the reader

    def __aiter__(self) -> Self:
        """Return the emitter itself."""
        return self

    def cancel(self) -> None:
        """Cancel the pending read, if there is one, on asyncio.

        A cancel scope would cost more than all other work for an item, so the reading task itself is cancelled, as
        `asyncio.timeout` does it, and only reads that wait have a cost.
        """
        if self._task is not None and self._cancelled is None and self._task is not _current_task():
            self._cancelled = self._task
            self._task.cancel()

    async def aclose(self) -> None:
        """End the coroutine: where it emits, an `AbandonedError` is raised.

        Raises:
            RuntimeError: it emits another item all the same.
        """
        self.closed = True
        if self._coroutine is None:
            self.over = True
            return
        try:
            await self.__anext__(AbandonedError())
        except (AbandonedError, StopAsyncIteration):
            return
        raise RuntimeError("a coroutine emitted an item after its reader had left")

    @types.coroutine
    def __anext__(self, error: BaseException | None = None) -> Generator[object, object, T]:
        """Run the coroutine until it emits an item, as ``await`` does; ``error`` is raised where it waits.

        Raises:
            StopAsyncIteration: the coroutine has ended, or `cancel` was called.
        """
        run = self._coroutine
        if run is None:
            if self.over:
                raise StopAsyncIteration
            run = self._coroutine = self._work(self)
        try:
            waits = run.send(None) if error is None else run.throw(error)
            if waits is not _EMITTED:
                self._begin_waiting()
                while waits is not _EMITTED:
                    try:
                        sent = yield waits
                    except BaseException as raised:  # noqa: BLE001 - the coroutine has to handle it
                        waits = run.throw(raised)
                    else:
                        waits = run.send(sent)
                self._end_waiting()
        except BaseException as end:
            error = None  # its traceback holds this frame, which would keep all of them alive
            self.over, self._coroutine = True, None
            if (self._end_waiting() and _is_cancellation(end)) or isinstance(end, StopIteration):
                raise StopAsyncIteration from None
            raise
        return cast("T", self.last)

    def _begin_waiting(self) -> None:
        self.busy = True
        if on_asyncio() and (task := _current_task()) is not None:
            self._task, self._pending = task, task.cancelling()

    def _end_waiting(self) -> bool:
        """Take back our own cancellation; return whether there was one and no other."""
        self.busy, self._task = False, None
        task, self._cancelled = self._cancelled, None
        return task is not None and task.uncancel() <= self._pending


def _current_task() -> asyncio.Task[object] | None:
    from asyncio import current_task

    return current_task()


def _is_cancellation(error: BaseException) -> bool:
    from asyncio import CancelledError

    return isinstance(error, CancelledError)


_EMITTED = object()
