"""`CancellableReader`: reads an async generator so that another task can cancel a pending read.

On trio each read has a cancel scope. On asyncio a scope would cost more than all other work for a chunk, so there
the reading task itself is cancelled, as `asyncio.timeout` does it, and only reads that wait have a cost.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from penstock.engine.tasks import on_asyncio

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator

T = TypeVar("T")


class ReadCancelledError(Exception):
    """The read was cancelled with `CancellableReader.cancel`."""


class CancellableReader(Generic[T]):
    """Reads a generator for one task at a time. Create it inside the running event loop.

    Args:
        items: the generator; the caller closes it.

    Attributes:
        busy: whether a read waits.
    """

    __slots__ = ("_cancelled_task", "_cancelling", "_items", "_native", "_scope", "_task", "busy")

    def __init__(self, items: AsyncGenerator[T]) -> None:
        self._items = items
        self._native = on_asyncio()
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[object] | None = None  # the task that waits in a read
        self._cancelling = 0  # how many cancellations were pending before
        self._cancelled_task: asyncio.Task[object] | None = None  # the task that we have cancelled
        self.busy = False

    def next(self) -> Awaitable[T]:
        """Return an awaitable for the next item.

        Raises:
            StopAsyncIteration: the generator has ended.
            ReadCancelledError: `cancel` was called; the generator has ended.
        """
        return self._followed(self._items.__anext__()) if self._native else self._scoped()

    def cancel(self) -> None:
        """Cancel the pending read, if there is one."""
        if self._scope is not None:
            self._scope.cancel()
        elif self._task is not None and self._cancelled_task is None and self._task is not _current_task():
            self._cancelled_task = self._task
            self._task.cancel()

    async def _scoped(self) -> T:
        self.busy = True
        try:
            with anyio.CancelScope() as self._scope:
                return await self._items.__anext__()
            raise ReadCancelledError
        finally:
            self.busy, self._scope = False, None

    @types.coroutine
    def _followed(self, step: Coroutine[object, object, T]) -> Generator[object, object, T]:
        """Run one step of the generator, as ``await`` does; if it waits, remember the task that waits."""
        try:
            waits = step.send(None)
        except StopIteration as end:
            done: T = end.value
            return done
        from asyncio import CancelledError

        self._task = _current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self.busy = True
        try:
            while True:
                try:
                    sent = yield waits
                except BaseException as error:  # noqa: BLE001 - the generator has to handle it
                    waits = step.throw(error)
                else:
                    waits = step.send(sent)
        except StopIteration as end:
            self._take_back()
            done = end.value
            return done
        except CancelledError:
            if self._take_back():
                raise ReadCancelledError from None
            raise
        finally:
            self.busy, self._task = False, None

    def _take_back(self) -> bool:
        """Take back our own cancellation; return whether there was one and no other."""
        task, self._cancelled_task = self._cancelled_task, None
        return task is not None and task.uncancel() <= self._cancelling


def _current_task() -> asyncio.Task[object] | None:
    from asyncio import current_task

    return current_task()
