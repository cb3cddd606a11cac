"""Waits of tests that end with what happens, not after some time: a busy machine is slow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio


@asynccontextmanager
async def cancelled_when_all_wait() -> AsyncGenerator[None]:
    """Cancel the block as soon as every task waits for another one; code behind it goes on."""

    async def cancel() -> None:
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel)
        yield
        group.cancel_scope.cancel()
