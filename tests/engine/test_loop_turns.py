"""Many requests at once, none of which waits for anything: the event loop has its turn between them."""

from __future__ import annotations

import time
from typing import Any

import anyio

from penstock import Workflow
from penstock.engine import Edit, TextGuard
from penstock.engine.tasks import LoopTurns


class Computes(TextGuard):
    """A guard that computes for three milliseconds; keeps the texts that it read, and what the loop did before each."""

    reach = 8

    def __init__(self, turns: list[int]) -> None:
        self.read: list[tuple[str, int]] = []
        self.turns = turns

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        self.read.append((text, len(self.turns)))
        until = time.perf_counter() + 0.003
        while time.perf_counter() < until:
            pass
        return []


async def test_the_loop_goes_on_between_many_requests_of_which_none_waits() -> None:
    """They are answered in order, and something else has its turn at least after every second one."""
    turns: list[int] = []
    guard = Computes(turns)
    workflow = Workflow("w").then(guard)
    await workflow.check("warm")

    async def other() -> None:
        while len(guard.read) <= 20:
            turns.append(len(guard.read))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        for at in range(20):
            group.start_soon(workflow.check, f"text {at}")
    seen = [turn for _, turn in guard.read[1:]]
    assert sorted(text for text, _ in guard.read[1:]) == sorted(f"text {at}" for at in range(20))
    assert max(seen.count(turn) for turn in seen) <= 3


async def test_one_after_the_other_they_let_the_loop_go_on_too() -> None:
    """A task that checks text after text never waits for anything else."""
    turns: list[int] = []
    guard = Computes(turns)
    workflow = Workflow("w").then(guard)

    async def other() -> None:
        while len(guard.read) < 10:
            turns.append(len(guard.read))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        for at in range(10):
            await workflow.check(f"text {at}")
    assert len(turns) >= 4


async def test_turns_are_taken_in_order() -> None:
    """By tasks that wait; each after the loop has had its own."""
    turns = LoopTurns()
    done: list[int] = []
    begun: list[int] = []

    async def work(at: int) -> None:
        begun.append(at)
        await turns.take()
        done.append(at)

    async with anyio.create_task_group() as group:
        for at in range(10):
            group.start_soon(work, at)
    assert done == begun


async def test_a_task_that_is_cancelled_keeps_nobody_waiting() -> None:
    """Whether it is the first one, one that waits, or one whose turn has come."""
    for cancelled in ({0}, {1}, {0, 1, 2}, {4}, {0, 4}, set(range(5))):
        for steps in range(4):
            turns = LoopTurns()
            done: set[int] = set()
            scopes = {at: anyio.CancelScope() for at in range(5)}

            async def work(at: int, scope: anyio.CancelScope, turns: LoopTurns = turns, done: set[int] = done) -> None:
                with scope:
                    await turns.take()
                    done.add(at)

            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for at, scope in scopes.items():
                        group.start_soon(work, at, scope)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    for at in cancelled:
                        scopes[at].cancel()
                await turns.take()
            assert done >= set(range(5)) - cancelled
