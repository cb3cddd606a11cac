"""What goes on beside a run: shadows. It knows no plan; the tasks end with the run at the latest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

    def start(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start a task; it must deal with its own errors."""
        self._group.start_soon(self._run, work, args)

    async def _run(self, work: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...]) -> None:
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
        self._group.cancel_scope.deadline = anyio.current_time() + (PATIENCE if error is None else 0.0)
        kind = None if error is None else type(error)
        await self._group.__aexit__(kind, error, None if error is None else error.__traceback__)
