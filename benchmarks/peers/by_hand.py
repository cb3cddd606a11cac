"""The work of peers/ by hand: awaits, a task group, and a dict."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from peers.work import ARMS, STEPS, WAYS, Request


class State:
    """What the steps of one request share."""

    __slots__ = ("n", "taken")

    def __init__(self, n: int) -> None:
        self.n = n
        self.taken = 0


async def adds(state: State) -> None:
    """Add one."""
    state.n += 1


async def finds() -> int:
    """Find one."""
    return 1


def chain() -> Request:
    """Return a request that adds one ten times."""
    steps = [adds] * STEPS

    async def request(n: int) -> int:
        state = State(n)
        for step in steps:
            await step(state)
        return state.n

    return request


def parallel() -> Request:
    """Return a request in which eight find one each, and their sum is taken."""

    async def request(n: int) -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(finds()) for _ in range(WAYS)]
        return n + sum(task.result() for task in tasks)

    return request


def branch() -> Request:
    """Return a request that takes one of three arms."""
    arms = {number: _sets(number) for number in range(ARMS)}

    async def request(n: int) -> int:
        state = State(n)
        await arms[n](state)
        return state.taken

    return request


def _sets(arm: int) -> Callable[[State], Awaitable[None]]:
    async def sets(state: State) -> None:
        state.taken = arm

    return sets
