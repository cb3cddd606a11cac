"""For frameworks whose hooks are ordinary functions: run a request's stages from there, and its model's functions here.

Also read the pieces that a framework gives to a callback, as a stream: `each_given`.

The stages run in one event loop, in a thread of its own, that all such requests share. It is started when it is first
needed, and ends with the process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from penstock.engine.values.errors import UsageError
from penstock.workflows.hosting.tasks import read_in_task

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator

T = TypeVar("T")


class _LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="penstock", daemon=True)
        self.thread.start()


_lock = threading.Lock()
_running: list[_LoopThread] = []


def _forget() -> None:
    """Start anew in a forked process, which has no threads but one."""
    global _lock  # noqa: PLW0603 - the parent may have held it
    _lock = threading.Lock()
    _running.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)


def _thread() -> _LoopThread:
    with _lock:
        if not _running:
            _running.append(_LoopThread())
        return _running[0]


def wait_for(work: Coroutine[object, None, T]) -> T:
    """Run a coroutine in the shared loop, with the context variables of the caller, and return its result.

    An interrupt of the caller cancels it.

    Raises:
        UsageError: the caller runs in the shared loop itself, which would wait for itself.
        Exception: the error of the coroutine.
    """
    thread = _thread()
    if threading.current_thread() is thread.thread:
        work.close()
        raise UsageError("a hook called a function that waits for the hook's own event loop; use its async form")
    future = asyncio.run_coroutine_threadsafe(work, thread.loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def each(items: AsyncGenerator[T]) -> Generator[T]:
    """Yield the items of an async generator in the shared loop. Closing it closes the generator there.

    Raises:
        Exception: the error of the generator.
    """
    taken = read_in_task(items)
    try:
        while got := wait_for(_next(taken)):
            yield got[0]
    finally:
        wait_for(taken.aclose())


async def _next(items: AsyncGenerator[T]) -> tuple[T] | None:
    """Return the next item in a tuple, or None at the end."""
    async for item in items:
        return (item,)
    return None


async def in_threads(items: Iterable[T]) -> AsyncGenerator[T]:
    """Yield the items of an iterable; each item is fetched in a worker thread, since it may take long.

    It is closed in a worker thread, too, if it is a generator.
    """
    iterator = await anyio.to_thread.run_sync(iter, items)
    try:
        while got := await anyio.to_thread.run_sync(_fetched, iterator):
            yield got[0]
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(close)


def _fetched(iterator: Iterator[T]) -> tuple[T] | None:
    for item in iterator:
        return (item,)
    return None


async def each_given(work: Callable[[Callable[[T], None]], Coroutine[object, None, None]]) -> AsyncGenerator[T]:
    """Yield the items that an async function gives to a callback while it runs; at the end, raise its error.

    The callback may be called in any thread. When the generator was closed, the function is cancelled, and the callback
    raises a `UsageError`, so that a thread ends, too.

    Args:
        work: is called with the callback.
    """
    loop, given, closed = asyncio.get_running_loop(), asyncio.Queue[tuple[T] | None](), threading.Event()
    thread = threading.get_ident()

    def give(item: T) -> None:
        if closed.is_set():
            raise UsageError("the stream was closed; nobody reads what comes now")
        if threading.get_ident() == thread:
            given.put_nowait((item,))
        else:
            loop.call_soon_threadsafe(given.put_nowait, (item,))

    task = loop.create_task(work(give))
    task.add_done_callback(lambda _: loop.call_soon(given.put_nowait, None))
    try:
        while (got := await given.get()) is not None:
            yield got[0]
        await task
    finally:
        closed.set()
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # asyncio logs an error that nobody has looked at
