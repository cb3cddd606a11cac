"""Tasks of their own: a generator that is read ahead or asks its caller, and a context that is held open."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from penstock.engine import UsageError
from penstock.workflows.hosting.tasks import Handover, HeldOpen, read_in_task, when_task_ends


@pytest.fixture
def anyio_backend() -> str:
    """They need asyncio."""
    return "asyncio"


class Counted:
    """Counts up to a number, and notes when it was closed, and by which task."""

    def __init__(self, last: int, error: Exception | None = None) -> None:
        self.last = last
        self.error = error
        self.closed_in: asyncio.Task[object] | None = None
        self.read_in: asyncio.Task[object] | None = None

    async def numbers(self) -> AsyncGenerator[int]:
        """Yield the numbers."""
        self.read_in = asyncio.current_task()
        try:
            for number in range(self.last):
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.closed_in = asyncio.current_task()


@pytest.mark.parametrize("last", [0, 1, 2, 5])
async def test_all_is_read_in_another_task(last: int) -> None:
    """In order, to the end."""
    counted = Counted(last)
    assert [number async for number in read_in_task(counted.numbers())] == list(range(last))
    assert counted.read_in is counted.closed_in is not asyncio.current_task()


@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_who_leaves_early_ends_the_task_also_while_an_item_waits(taken: int) -> None:
    """The generator is closed in its own task, and nothing waits for ever."""
    counted = Counted(100)
    async with asyncio.timeout(60), aclosing(read_in_task(counted.numbers())) as numbers:
        for _ in range(taken):
            await anext(numbers)
        for _ in range(5):  # the reader goes one ahead, and waits
            await asyncio.sleep(0)
    assert counted.closed_in is counted.read_in


async def test_its_error_follows_what_it_has_yielded(caplog: pytest.LogCaptureFixture) -> None:
    """And it is not lost; if nobody reads so far, nobody is told of it, asyncio's log included."""
    seen: list[int] = []
    with pytest.raises(ValueError, match="at the end"):  # noqa: PT012 - what was seen before counts
        async for number in read_in_task(Counted(2, ValueError("at the end")).numbers()):
            seen.append(number)  # noqa: PERF401 - what was seen before the error counts
    assert seen == [0, 1]
    async with aclosing(read_in_task(Counted(1, ValueError("unread")).numbers())) as numbers:
        await anext(numbers)
        await asyncio.sleep(0)
    gc.collect()
    assert not caplog.records


async def asking(handover: Handover[str, int, str]) -> AsyncGenerator[str]:
    """Yield something, ask for a number, and yield it."""
    yield "before"
    number = await handover.swap("a number?")
    yield f"got {number}"


async def test_a_generator_asks_its_caller_once() -> None:
    """What it has yielded before comes first."""
    handover: Handover[str, int, str] = Handover()
    assert await handover.begin(asking(handover)) == "a number?"
    assert [item async for item in handover.resume(7)] == ["before", "got 7"]


async def test_one_that_is_given_nothing_does_not_wait_for_ever() -> None:
    """The caller is told; and closing ends it."""
    handover: Handover[str, int, str] = Handover()
    with pytest.raises(UsageError, match="begin"):
        await anext(handover.resume(1))
    await handover.begin(asking(handover))
    with pytest.raises(UsageError, match="none was given"):
        await anext(handover.resume(None))
    async with asyncio.timeout(60):
        await handover.close()


async def test_one_that_ends_without_asking_yields_what_it_has() -> None:
    """And what it raises is raised at once."""
    handover: Handover[str, int, int] = Handover()
    assert await handover.begin(Counted(2).numbers()) is None
    assert [item async for item in handover.resume(None)] == [0, 1]
    broken: Handover[str, int, int] = Handover()
    with pytest.raises(ValueError, match="broken"):
        await broken.begin(Counted(1, ValueError("broken")).numbers())


async def test_a_context_is_left_in_the_task_that_entered_it() -> None:
    """Whoever opens and closes it."""
    tasks: list[object] = []

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        tasks.append(asyncio.current_task())
        try:
            yield
        finally:
            tasks.append(asyncio.current_task())

    held = HeldOpen(manager())
    await asyncio.create_task(held.__aenter__())
    await asyncio.create_task(held.__aexit__(None, None, None))
    assert tasks[0] is tasks[1] is not asyncio.current_task()


async def test_a_context_that_cannot_be_entered_raises_its_error() -> None:
    """To whoever opens it."""

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        raise ValueError("shut")
        yield

    with pytest.raises(ValueError, match="shut"):
        await HeldOpen(manager()).__aenter__()


@pytest.mark.parametrize("how", ["ends", "fails", "cancelled"])
async def test_something_runs_when_a_task_has_ended(how: str) -> None:
    """However it ends, and in a task of its own."""
    ended, waits = asyncio.Event(), asyncio.Event()

    async def note() -> None:
        await asyncio.sleep(0)
        ended.set()

    async def work() -> None:
        when_task_ends(note)
        waits.set()
        if how == "fails":
            raise ValueError(how)
        if how == "cancelled":
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await waits.wait()
    assert not ended.is_set()
    if how == "cancelled":
        task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(ended.wait(), 5)
    assert task.cancelled() or (task.exception() is not None) == (how == "fails")


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_elsewhere_the_error_says_what_is_needed() -> None:
    """Before anything runs."""
    with pytest.raises(UsageError, match="needs asyncio"):
        await anext(read_in_task(Counted(1).numbers()))
    with pytest.raises(UsageError, match="needs asyncio"):
        await Handover[str, int, int]().begin(Counted(1).numbers())
    with pytest.raises(UsageError, match="needs asyncio"):
        when_task_ends(Counted(1).numbers)  # type: ignore[arg-type]
