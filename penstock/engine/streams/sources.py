"""Sources of chunks: read directly, or in a separate task if timers or checks run meanwhile.

One chunk is requested at a time, so a source never runs ahead of its reader.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from penstock.engine.execution.boundary import close_awaitable, log, passes_through
from penstock.engine.tasks import close_in, within
from penstock.engine.values.chunks import CONTENT, Chunk
from penstock.engine.values.errors import ModelError, UsageError
from penstock.engine.values.tripwire import TripwireSignal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Source: TypeAlias = "AsyncIterable[Chunk | str] | Iterable[Chunk | str]"
"""What a stream reads: an iterable of chunks, sync or async. A str stands for a chunk of text."""


PATIENCE = 5.0
"""Seconds that a source may take to close; after that it is cancelled."""


def as_chunk(item: object) -> Chunk:
    """Return an item of a source as a chunk.

    Raises:
        UsageError: it is neither a chunk nor a str.
    """
    if isinstance(item, Chunk):
        return item.with_text(item.text)  # of a class of its own: pipes tell chunks by their exact type
    if isinstance(item, str):
        return Chunk("text-delta", item)
    raise UsageError(f"a stream's source must yield Chunk or str items, not {type(item).__name__}")


def iterator_of(source: object) -> AsyncIterator[Chunk | str]:
    """Return an async iterator over a source.

    Raises:
        UsageError: it cannot be iterated over.
    """
    begin: Callable[[object], AsyncIterator[Chunk | str]] | None = getattr(type(source), "__aiter__", None)
    if begin is not None:
        return begin(source)
    given: object = source
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping)):
        return FromSync(iter(cast("Iterable[Chunk | str]", source)))
    named = type(source).__name__
    if inspect.isawaitable(source):
        close_awaitable(source)
        named += "; await it first"
    elif callable(source):
        named += "; call it first"
    raise UsageError(f"a stream's source must be an iterable of chunks, sync or async, not a {named}")


class FromSync(AsyncIterator[Chunk | str]):
    """A sync iterator as an async one. It never suspends."""

    def __init__(self, items: Iterator[Chunk | str]) -> None:
        self._items = items

    async def __anext__(self) -> Chunk | str:
        """Return the next item."""
        for item in self._items:
            return item
        raise StopAsyncIteration

    def close(self) -> None:
        """Close a generator."""
        close = getattr(self._items, "close", None)
        if close is not None:
            close()


class Ending(AsyncIterator[Chunk | str]):
    """A source that a step can end early: its open blocks are then ended, and a ``finish`` chunk gives the reason.

    Attributes:
        why: returns the reason to end; None to go on.
    """

    def __init__(self, source: AsyncIterator[Chunk | str]) -> None:
        self._source = source
        self._open: dict[tuple[str, str], None] = {}
        self._last: Iterator[Chunk] | None = None
        self.why: Callable[[], str | None] = _more

    async def __anext__(self) -> Chunk | str:
        """Return the next item."""
        reason = self.why()
        if reason is None:
            return self._noted(await self._source.__anext__())
        if self._last is None:
            await close_source(self._source)
            ends = [Chunk(f"{kind}-end", id=id) for kind, id in self._open]
            self._last = iter([*ends, Chunk("finish", payload={"reason": reason})])
        for chunk in self._last:
            return chunk
        raise StopAsyncIteration

    def _noted(self, item: Chunk | str) -> Chunk | str:
        """Note which blocks are open."""
        if isinstance(item, Chunk) and item.type.endswith("-start") and item.type in CONTENT:
            self._open[item.type.removesuffix("-start"), item.id] = None
        elif isinstance(item, Chunk) and item.type.endswith("-end"):
            self._open.pop((item.type.removesuffix("-end"), item.id), None)
        return item

    async def aclose(self) -> None:
        """Close the source."""
        await close_source(self._source)


def _more() -> None:
    """Return None: go on."""


async def close_source(source: object) -> None:
    """Close a source if it can be closed, in the current task, which must be the one that has read it.

    Errors are only logged. Who closes during a cancellation has to shield this: see `close_in`.
    """
    kind = type(source)
    if kind is Ending:
        await cast("Ending", source).aclose()
        return
    if kind is FromSync:
        cast("FromSync", source).close()
        return
    close: Callable[[], Awaitable[object]] | None = getattr(source, "aclose", None)
    if close is None or getattr(source, "ag_frame", source) is None:  # a generator that has ended is closed
        return
    try:
        if not await within(PATIENCE, close()):
            log.warning("a stream's source did not close within %g seconds, and was cancelled", PATIENCE)
    except Exception as error:  # noqa: BLE001 - no more chunks are needed of it
        log.warning("a stream's source failed while it was closed (%s)", type(error).__name__)


def failure_of(error: BaseException, source: str = "a stream's source") -> Exception:
    """Return the failure of a source that ended with an error.

    A `CancelledError` that nobody sent to the reading task is the source's own: it awaited something that was
    cancelled. That is a failure like any other, and no end.

    Args:
        error: the error.
        source: the name of the source, for the failure.

    Raises:
        BaseException: the error itself, if it is none of the source's: a cancellation of the reader, or an interrupt.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, TripwireSignal) or passes_through(error):
        try:
            raise error
        finally:
            del error  # its traceback holds this frame: the two would keep one another alive
    return _broken_off(source, error)


def _broken_off(source: str, cause: BaseException | None) -> ModelError:
    failure = ModelError(
        source, "the answer broke off, since something that it waited for was cancelled", retryable=True
    )
    failure.__cause__ = cause
    return failure


WAKE = Chunk("raw")
"""What a `TaskReader` returns when it wakes its caller without a chunk: a timer has run out, or a check is done."""


MOST_READ_AHEAD = 2_048
"""How many characters of a source may be read before they are asked for, while a guard looks at what came before."""

READ_AHEAD_AFTER = 0.01
"""Seconds that a guard may look before more is read."""


def _size_of(item: object) -> int:
    """Return how many characters of text an item has, and one for the item itself, whatever it is."""
    text = item.text if isinstance(item, Chunk) else item
    return 1 + len(text) if isinstance(text, str) else 1


class TaskReader:
    """Reads a source in a separate task, from `open` to `close`, both of which the reading task must call.

    Attributes:
        woken: is set when a chunk has arrived, or the work beside is done.
    """

    def __init__(self, source: AsyncIterator[Chunk | str]) -> None:
        self._source = source
        self._group = anyio.create_task_group()
        self._wanted = anyio.Event()  # is set when a chunk is asked for, or a guard begins to look
        self._asking = False
        self._looks = 0  # guards that look at what came before
        self._read_ahead_at = math.inf  # when what follows may be read though nobody asks
        self._items: deque[Chunk | str] = deque()
        self._size = 0  # characters in them
        self._error: Exception | None = None
        self._ended = False
        self.woken = anyio.Event()

    async def open(self, beside: Callable[[], Awaitable[None]] | None = None) -> None:
        """Start to read, and start ``beside``, which runs meanwhile."""
        await self._group.__aenter__()
        self._group.start_soon(self._read)
        if beside is not None:
            self._group.start_soon(self._beside, beside)

    async def close(self) -> None:
        """Cancel the tasks; the one that reads closes the source."""
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)

    async def next(self, seconds: float | None) -> Chunk | str:
        """Return the next chunk; `WAKE` if before that the time runs out, or the work beside is done.

        Raises:
            StopAsyncIteration: the source has ended.
            ModelError: it was cut off.
        """
        if not self._items and not self._asking:
            self._asking = True
            self._wanted.set()
        if not self._there:
            with anyio.move_on_after(seconds):
                await self.woken.wait()
        if self.woken.is_set():
            self.woken = anyio.Event()
        if not self._there:
            return WAKE
        if self._items:
            item = self._items.popleft()
            self._size -= _size_of(item)
            return item
        if self._error is not None:
            await checkpoint_if_cancelled()  # if the caller was cancelled with the task that reads, that is raised
            error, self._error = self._error, None
            raise error
        raise StopAsyncIteration

    def look_begins(self) -> None:
        """Note that a guard looks at the text from now on: if that takes long, more of the source is read meanwhile."""
        self._looks += 1
        if self._looks == 1:
            self._read_ahead_at = anyio.current_time() + READ_AHEAD_AFTER
            self._wanted.set()

    def look_ends(self) -> None:
        """Note that the guard has looked."""
        self._looks -= 1
        if not self._looks:
            self._read_ahead_at = math.inf

    def has_more_text(self) -> bool:
        """Return whether the next chunk is there already, and is a piece of text."""
        item = self._items[0] if self._items else None
        return isinstance(item, str) or (isinstance(item, Chunk) and item.type == "text-delta")

    @property
    def _there(self) -> bool:
        return bool(self._items) or self._ended or self._error is not None

    async def _read(self) -> None:
        with anyio.CancelScope() as scope:
            try:
                await self._read_all()
            finally:
                self._ended = True
                self.woken.set()
                close_in(scope, PATIENCE)
                await close_source(self._source)

    async def _read_all(self) -> None:
        try:
            while True:
                await self._wait_until_wanted()
                item = await self._source.__anext__()
                self._items.append(item)
                self._size += _size_of(item)
                self._asking = False
                self.woken.set()
        except StopAsyncIteration:
            return
        except anyio.get_cancelled_exc_class() as error:
            stopped = self._group.cancel_scope.cancel_called or anyio.current_effective_deadline() == -math.inf
            # Also if the source has cancelled its own task. A source that was cut off has not ended.
            self._error = _broken_off("a stream's source", None if stopped else error)
            if stopped:
                raise
        except BaseException as error:  # noqa: BLE001 - raised where the chunks are read, or here
            self._error = failure_of(error)

    async def _wait_until_wanted(self) -> None:
        """Wait until a chunk is asked for, or a guard has looked for a while and not too much was read."""
        while not self._asking:
            now = anyio.current_time()
            if self._read_ahead_at <= now and self._size < MOST_READ_AHEAD:
                return
            may_wait = math.inf if self._size >= MOST_READ_AHEAD else self._read_ahead_at - now
            self._wanted = anyio.Event()
            with anyio.move_on_after(may_wait):
                await self._wanted.wait()

    async def _beside(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()
        self.woken.set()
