"""Requests of frameworks whose hooks are ordinary functions."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from penstock.engine import UsageError
from penstock.workflows.hosting.without_await import each, each_given, in_threads, wait_for

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


async def double(number: int) -> int:
    """Return twice the number, after a turn of the loop."""
    await anyio.lowlevel.checkpoint()
    return 2 * number


def test_a_coroutine_gives_its_result() -> None:
    """Also from several threads at once."""
    results: list[int] = []
    threads = [threading.Thread(target=lambda n=n: results.append(wait_for(double(n)))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_an_error_is_raised_here() -> None:
    """As it is."""

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        wait_for(fail())


def test_context_variables_reach_the_coroutine() -> None:
    """Frameworks keep their settings there."""

    async def read() -> str:
        return VARIABLE.get()

    token = VARIABLE.set("mine")
    try:
        assert wait_for(read()) == "mine"
    finally:
        VARIABLE.reset(token)


def test_waiting_in_the_shared_loop_is_an_error() -> None:
    """It would wait for ever."""

    async def nested() -> int:
        return wait_for(double(1))

    with pytest.raises(UsageError, match="async form"):
        wait_for(nested())


async def counted(ended: list[str]) -> AsyncGenerator[int]:
    """Count up, in a scope that is held across the yields."""
    try:
        with anyio.CancelScope():
            for number in range(5):
                await anyio.lowlevel.checkpoint()
                yield number
    finally:
        ended.append(threading.current_thread().name)


def test_the_items_of_a_generator_come_one_by_one() -> None:
    """It ends in the loop."""
    ended: list[str] = []
    assert list(each(counted(ended))) == [0, 1, 2, 3, 4]
    assert ended == ["penstock"]


def test_leaving_early_closes_the_generator() -> None:
    """At once, not at some later time."""
    ended: list[str] = []
    items = each(counted(ended))
    assert next(items) == 0
    items.close()
    assert ended == ["penstock"]


async def test_an_iterator_is_read_in_threads(anyio_backend: str) -> None:
    """The loop goes on meanwhile, and the iterator is closed at the end."""
    goes_on = threading.Event()
    closed: list[str] = []

    def waits() -> Iterator[bool]:
        try:
            yield goes_on.wait(10)
        finally:
            closed.append(threading.current_thread().name)

    async def let() -> None:
        goes_on.set()

    async with anyio.create_task_group() as group:
        group.start_soon(let)
        items = in_threads(waits())
        assert await anext(items)
        await items.aclose()
    assert len(closed) == 1
    assert closed != [threading.current_thread().name]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    """The thread of the parent is not in it."""
    assert wait_for(double(1)) == 2
    pid = os.fork()
    if not pid:
        os._exit(wait_for(double(2)))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4


async def items_of(work: Callable[[Callable[[int], None]], Coroutine[object, None, None]]) -> list[int]:
    """Return what a function gives to its callback."""
    return [item async for item in each_given(work)]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_callback_gets_is_a_stream() -> None:
    """In order, also from a thread, and the error comes behind the items."""

    async def here(give: Callable[[int], None]) -> None:
        for number in range(3):
            give(number)
            await anyio.lowlevel.checkpoint()

    async def there(give: Callable[[int], None]) -> None:
        await anyio.to_thread.run_sync(lambda: [give(number) for number in range(100)])

    async def breaks(give: Callable[[int], None]) -> None:
        give(1)
        raise ValueError("no")

    assert await items_of(here) == [0, 1, 2]
    assert await items_of(there) == list(range(100))
    items = each_given(breaks)
    assert await anext(items) == 1
    with pytest.raises(ValueError, match="no"):
        await anext(items)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_closing_the_stream_ends_the_function() -> None:
    """A function is cancelled; a thread ends at its next item."""
    ended: list[str] = []
    stopped = threading.Event()

    async def waits(give: Callable[[int], None]) -> None:
        give(1)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    def counts(give: Callable[[int], None]) -> None:
        try:
            for number in range(10_000):
                give(number)
                time.sleep(0.001)
        finally:
            stopped.set()

    async def in_a_thread(give: Callable[[int], None]) -> None:
        await anyio.to_thread.run_sync(counts, give, abandon_on_cancel=True)

    for work in (waits, in_a_thread):
        items = each_given(work)
        async for _ in items:
            break
        await items.aclose()
    assert ended == ["cancelled"]
    assert await anyio.to_thread.run_sync(stopped.wait, 60)
