"""Task groups: all tasks have ended when the group has, however each of them ends; most tests are for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import anyio
import pytest

from penstock.engine.tasks import AsyncioTaskGroup, new_task_group


@pytest.fixture
def anyio_backend() -> str:
    """The group for asyncio has rules of its own to keep."""
    return "asyncio"


class Worker:
    """Waits for an event, and notes how that ended."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.ended: list[str] = []

    async def wait(self, name: str = "") -> None:
        """Wait."""
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            self.ended.append(f"{name} cancelled")
            raise
        self.ended.append(f"{name} done")

    async def ignore(self) -> None:
        """Wait, and take no notice of the first cancellation."""
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            await self.goes_on.wait()
        self.ended.append("ignored")


async def test_a_group_ends_when_its_tasks_have() -> None:
    """In whatever order they end; also those that a task has started."""
    worker = Worker()
    async with new_task_group() as group:
        assert isinstance(group, AsyncioTaskGroup)

        async def more() -> None:
            group.start(worker.wait, "late")

        group.start(worker.wait, "first")
        group.start(more)
        asyncio.get_running_loop().call_later(0, worker.goes_on.set)
    assert sorted(worker.ended) == ["first done", "late done"]


async def test_an_error_ends_the_others_at_once() -> None:
    """Also where they come first, and would wait for ever."""
    worker = Worker()

    async def fail() -> None:
        raise ValueError

    async def run() -> None:
        async with new_task_group() as group:
            group.start(worker.wait)
            group.start(fail)

    with pytest.raises(BaseExceptionGroup) as raised:
        await run()
    assert [type(error) for error in raised.value.exceptions] == [ValueError]
    assert worker.ended == [" cancelled"]


async def test_a_task_that_somebody_cancels_has_just_ended() -> None:
    """The others go on; also where it had not begun yet."""
    worker = Worker()
    tasks: list[asyncio.Task[None]] = []

    async def note() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await worker.wait("noted")

    async def cancel() -> None:
        others = asyncio.all_tasks() - before - {asyncio.current_task()}
        for task in others:
            task.cancel()
        worker.goes_on.set()

    before = asyncio.all_tasks()
    async with new_task_group() as group:
        group.start(note)
        group.start(cancel)
        group.start(worker.wait, "not begun")
    assert worker.ended == ["noted cancelled"]


@pytest.mark.parametrize("kind", ["wait", "ignore"])
async def test_a_cancellation_from_outside_ends_all_tasks_and_goes_on(kind: str) -> None:
    """It reaches every task, and is not lost where one of them takes no notice."""
    worker = Worker()
    works: dict[str, Callable[[], Coroutine[object, None, None]]] = {"wait": worker.wait, "ignore": worker.ignore}

    async def run() -> None:
        async with new_task_group() as group:
            group.start(works[kind])
            group.start(worker.wait, "second")

    task = asyncio.create_task(run())
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    worker.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(worker.ended) == sorted(["second cancelled", " cancelled" if kind == "wait" else "ignored"])


async def test_a_limit_within_the_group_is_the_groups_own() -> None:
    """A time limit around the group ends its tasks, and nothing is left of the cancellation."""
    worker = Worker()

    async def run() -> None:
        async with asyncio.timeout(0.001), new_task_group() as group:
            group.start(worker.wait)

    with pytest.raises(TimeoutError):
        await run()
    assert worker.ended == [" cancelled"]
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_cancellation_of_all_tasks_is_one(anyio_backend: str) -> None:
    """On either loop: what is raised is no group, so that whoever is cancelled knows it."""
    del anyio_backend
    ended: list[str] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("")

    async def run() -> None:
        async with new_task_group() as group:
            for _ in range(3):
                group.start(wait)
            scope.cancel()

    with anyio.CancelScope() as scope:
        with pytest.raises(anyio.get_cancelled_exc_class()) as raised:
            await run()
        raise raised.value
    assert scope.cancelled_caught
    assert len(ended) in {0, 3}  # trio begins a task that is cancelled, asyncio does not


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_error_is_not_hidden_by_cancellations(anyio_backend: str) -> None:
    """Those of the other tasks, which it causes."""
    del anyio_backend

    async def fail() -> None:
        raise ValueError

    async def run() -> None:
        async with new_task_group() as group:
            group.start(anyio.sleep_forever)
            group.start(fail)

    with pytest.raises(BaseExceptionGroup) as raised:
        await run()
    assert [type(error) for error in raised.value.exceptions] == [ValueError]


def test_an_interrupt_in_a_task_stops_the_loop_at_once() -> None:
    """Not only when the body and the other tasks have ended."""

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def body() -> None:
        async with AsyncioTaskGroup() as group:
            group.start(interrupted)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(body())
