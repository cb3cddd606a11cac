"""`Crew`: a few tasks that start, end and are cancelled together; it knows no plan.

On asyncio this is the loop's own task group, which costs a quarter of anyio's; elsewhere it is anyio's. What a task
raises must have been dealt with in it: only interrupts and caller cancellation come out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType


def new_crew() -> AsyncioCrew | AnyioCrew:
    """Return a crew for the event loop that runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return AnyioCrew()
    return AsyncioCrew()


class AsyncioCrew:
    """A crew on asyncio."""

    __slots__ = ("_group", "_tasks", "cancelled")

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self.cancelled = False

    def start(self, work: Callable[..., Coroutine[object, None, None]], *args: object) -> None:
        """Start a task; nothing after the crew was cancelled."""
        if not self.cancelled:
            self._tasks.append(self._group.create_task(work(*args)))

    def cancel(self) -> None:
        """Cancel every task but the one that calls."""
        self.cancelled = True
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()

    async def __aenter__(self) -> Self:
        """Open the group."""
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all tasks."""
        await self._group.__aexit__(kind, error, trace)


class AnyioCrew:
    """A crew on whatever anyio runs on."""

    __slots__ = ("_group", "cancelled")

    def __init__(self) -> None:
        self._group = anyio.create_task_group()
        self.cancelled = False

    def start(self, work: Callable[..., Coroutine[object, None, None]], *args: object) -> None:
        """Start a task; nothing after the crew was cancelled."""
        if not self.cancelled:
            self._group.start_soon(work, *args)

    def cancel(self) -> None:
        """Cancel every task."""
        self.cancelled = True
        self._group.cancel_scope.cancel()

    async def __aenter__(self) -> Self:
        """Open the group."""
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Wait for all tasks."""
        return await self._group.__aexit__(kind, error, trace)
