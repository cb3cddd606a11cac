"""`Pulling`: reads a generator, item by item, so that another task may end a pull that waits. It knows no stream.

A cancel scope around each pull would do, and does on trio; on asyncio it would cost more than all else that is done for
a chunk, so there the task itself is cancelled, as `asyncio.timeout` does it, and only pulls that wait cost anything.
"""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator

T = TypeVar("T")


class CancelledPullError(Exception):
    """The pull was ended by `Pulling.cancel`."""


class Pulling(Generic[T]):
    """Reads a generator for one task at a time. Make it where the event loop runs.

    Attributes:
        busy: whether a pull waits.
    """

    __slots__ = ("_asked", "_cancelling", "_items", "_native", "_scope", "_task", "busy")

    def __init__(self, items: AsyncGenerator[T]) -> None:
        self._items = items
        self._native = _on_asyncio()
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[object] | None = None  # who waits in a pull
        self._cancelling = 0  # how often it was cancelled before
        self._asked: asyncio.Task[object] | None = None  # who was cancelled by us
        self.busy = False

    def next(self) -> Awaitable[T]:
        """Return what to await for the next item.

        Raises:
            StopAsyncIteration: there is none.
            CancelledPullError: it was cancelled from here; then the generator has ended.
        """
        return self._followed(self._items.__anext__()) if self._native else self._scoped()

    def cancel(self) -> None:
        """End the pull that waits, if one does."""
        if self._scope is not None:
            self._scope.cancel()
        elif self._task is not None and self._asked is None and self._task is not asyncio.current_task():
            self._asked = self._task
            self._task.cancel()

    async def _scoped(self) -> T:
        self.busy = True
        try:
            with anyio.CancelScope() as self._scope:
                return await self._items.__anext__()
            raise CancelledPullError
        finally:
            self.busy, self._scope = False, None

    @types.coroutine
    def _followed(self, step: Coroutine[object, object, T]) -> Generator[object, object, T]:
        """Do one step, as ``await`` does; note who waits if it does not come at once."""
        try:
            waits = step.send(None)
        except StopIteration as end:
            done: T = end.value
            return done
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self.busy = True
        try:
            while True:
                try:
                    sent = yield waits
                except BaseException as error:  # noqa: BLE001 - it is for the step to deal with
                    waits = step.throw(error)
                else:
                    waits = step.send(sent)
        except StopIteration as end:
            self._settled()
            done = end.value
            return done
        except asyncio.CancelledError:
            if self._settled():
                raise CancelledPullError from None
            raise
        finally:
            self.busy, self._task = False, None

    def _settled(self) -> bool:
        """Take our own cancellation back; tell whether there was one, and no other."""
        asked, self._asked = self._asked, None
        return asked is not None and asked.uncancel() <= self._cancelling


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
