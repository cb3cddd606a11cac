"""Task groups: all tasks have ended when the group has, however each of them ends; most tests are for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import anyio
import pytest

from penstock.engine import tasks
from penstock.engine.tasks import AsyncioTaskGroup, new_task_group, within


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


class FailsLate:
    """Waits for ever; when that is cancelled, it fails."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def wait(self) -> None:
        """Wait."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError


class StandardGroup(asyncio.TaskGroup):
    """The group of asyncio, which the cancellations of ours are compared with."""

    def start(self, work: Callable[[], Coroutine[object, None, None]]) -> None:
        """Start a task."""
        self.create_task(work())


async def cancelled_with_an_error(
    make: type[AsyncioTaskGroup | StandardGroup], *, body_waits: bool, cancels: int
) -> list[str]:
    """Cancel a group whose task fails then; return what its caller sees, and then at the next point where it waits."""
    seen: list[str] = []
    task_of_group = FailsLate()

    async def caller() -> None:
        try:
            async with make() as group:
                group.start(task_of_group.wait)
                if body_waits:
                    await asyncio.Event().wait()
        except BaseExceptionGroup as errors:
            seen.append(repr(errors.exceptions))
        await asyncio.sleep(0)
        seen.append("went on")

    task = asyncio.create_task(caller())
    await task_of_group.begun.wait()
    for _ in range(cancels):
        task.cancel()
    await asyncio.wait([task])
    return [*seen, str(task.cancelled()), str(task.cancelling())]


@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.parametrize("body_waits", [True, False])
async def test_an_error_hides_no_cancellation(body_waits: bool, cancels: int) -> None:
    """Whoever catches the error is cancelled at the next await, where asyncio does so, too (from Python 3.13 on)."""
    ours, standard = [
        await cancelled_with_an_error(make, body_waits=body_waits, cancels=cancels)
        for make in (AsyncioTaskGroup, StandardGroup)
    ]
    assert ours == standard


@pytest.mark.parametrize("cancels", [1, 2])
async def test_a_hidden_cancellation_arrives_again_and_counts_as_often(
    cancels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Python 3.12 and before, too, if it is told that scopes and limits could take it back."""
    monkeypatch.setattr(tasks, "_IS_TAKEN_BACK", True)
    seen = await cancelled_with_an_error(AsyncioTaskGroup, body_waits=True, cancels=cancels)
    assert seen == ["(ValueError(),)", "True", str(cancels)]


async def test_an_error_of_the_body_is_raised_with_those_of_the_tasks() -> None:
    """First the tasks, which it cancels."""
    late = FailsLate()

    async def run() -> None:
        async with AsyncioTaskGroup() as group:
            group.start(late.wait)
            await late.begun.wait()
            raise KeyError

    with pytest.raises(BaseExceptionGroup) as raised:
        await run()
    assert [type(error) for error in raised.value.exceptions] == [ValueError, KeyError]


async def test_an_interrupt_of_the_body_is_in_no_group() -> None:
    """Its tasks are cancelled, and whoever catches interrupts finds it."""
    worker = Worker()
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await worker.wait()

    async def run() -> None:
        async with AsyncioTaskGroup() as group:
            group.start(wait)
            await begun.wait()
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        await run()
    assert worker.ended == [" cancelled"]


async def test_a_group_that_is_cancelled_twice_waits_for_a_task_that_ignores_it_once() -> None:
    """Each cancellation is passed on; the second ends the task."""
    worker = Worker()

    async def run() -> None:
        async with AsyncioTaskGroup() as group:
            group.start(worker.ignore)

    task = asyncio.create_task(run())
    for _ in range(2):
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worker.ended == []


async def test_work_ends_in_time_or_not() -> None:
    """A time limit of the work's own is its error."""

    async def fail() -> None:
        raise TimeoutError("its own")

    assert await within(30, asyncio.sleep(0))
    assert not await within(0, asyncio.Event().wait())
    with pytest.raises(TimeoutError, match="its own"):
        await within(30, fail())


@pytest.mark.parametrize("scoped", [True, False])
async def test_a_limit_takes_back_its_cancellation_behind_an_error(scoped: bool) -> None:
    """The task goes on behind a time limit or a cancel scope, whatever the tasks of its group raise."""
    task_of_group = FailsLate()

    async def run() -> None:
        async with new_task_group() as group:
            group.start(task_of_group.wait)

    async def limited() -> None:
        if scoped:
            with anyio.CancelScope() as scope:
                asyncio.get_running_loop().call_later(0, scope.cancel)
                await run()
        else:
            async with asyncio.timeout(0):
                await run()

    with pytest.raises(BaseExceptionGroup):
        await limited()
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task_of_group.begun.is_set()
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
