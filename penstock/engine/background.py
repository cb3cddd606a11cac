"""What goes on beside a run: shadows. It knows no plan; the tasks end with the run at the latest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

PATIENCE = 10.0
"""Seconds that a run waits for its shadows when it is closed; what takes longer is cancelled."""


class Background:
    """Tasks that belong to a run. Lives from the run's ``async with`` to its end."""

    __slots__ = ("_group", "_scopes")

    def __init__(self) -> None:
        self._group = anyio.create_task_group()
        self._scopes: set[anyio.CancelScope] = set()

    async def open(self) -> None:
        """Make room for tasks."""
        await self._group.__aenter__()

    def start(self, work: Callable[..., Coroutine[object, None, None]], *args: object) -> None:
        """Start a task; it must deal with its own errors."""
        self._group.start_soon(self._run, work, args)

    async def _run(self, work: Callable[..., Coroutine[object, None, None]], args: tuple[object, ...]) -> None:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await work(*args)
            finally:
                self._scopes.discard(scope)

    def cancel(self) -> None:
        """Cancel every task, and nothing else."""
        for scope in list(self._scopes):
            scope.cancel()

    async def close(self, error: BaseException | None) -> None:
        """Wait for the tasks, `PATIENCE` at most; after an error they are cancelled at once."""
        if isinstance(error, anyio.get_cancelled_exc_class()):
            await self._group.__aexit__(type(error), error, error.__traceback__)  # which raises it again
        else:
            if error is not None:
                self.cancel()  # and leave the error as it is: a task group would wrap it
            self._group.cancel_scope.deadline = anyio.current_time() + PATIENCE
            await self._group.__aexit__(None, None, None)
