"""`HeldMeter` measures how much text a stream holds; `ChunkLog` also logs its input and output, for traces.

Both wrap the stream, so that a stream without one does no extra work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from penstock.engine.values.chunks import Chunk


class Holder(Protocol):
    """A part of a stream that may hold text back."""

    def held(self) -> int | None:
        """Return how many characters of text are held; None if that is not known."""
        ...


class HeldMeter:
    """Measures how many characters a stream holds, each time when another piece comes in. Lives as long as the stream.

    Attributes:
        most: the most so far.
        pipes: the pipes that may hold text.
        waiting: returns the chunks that are held for a later stage; None if there are none.
    """

    __slots__ = ("_counted", "_waited", "most", "pipes", "waiting")

    def __init__(self) -> None:
        self.most = 0
        self.pipes: Sequence[Holder] = ()
        self.waiting: Callable[[], list[Chunk] | None] = list
        self._counted = 0
        self._waited = 0

    def came(self, item: Chunk | str) -> None:
        """Measure before a piece comes in."""
        del item
        self._measure()

    def ended(self) -> None:
        """Measure at the end of the source."""
        self._measure()

    def _measure(self) -> int:
        held = self._held()
        self.most = max(self.most, held)
        return held

    def _held(self) -> int:
        """Return how many characters are held: by guards, and for a later stage."""
        known = [count for pipe in self.pipes if (count := pipe.held()) is not None]
        return sum(known) + self._waiting_characters()

    def _waiting_characters(self) -> int:
        chunks = self.waiting()
        if chunks is None:
            return 0
        self._waited += sum(len(chunk.text) for chunk in chunks[self._counted :])
        self._counted = len(chunks)
        return self._waited

    def close(self) -> None:
        """Forget the stream, so that the two do not keep one another alive."""
        self.waiting = list

    def source(
        self, source: AsyncIterator[Chunk | str], close: Callable[[object], Awaitable[None]]
    ) -> AsyncIterator[Chunk | str]:
        """Return a source that reports each piece to this log, and is closed by ``close(source)``."""
        return _LoggedSource(source, self, close)

    def leaving(self, chunks: AsyncGenerator[Chunk]) -> AsyncGenerator[Chunk]:
        """Return the chunks that leave."""
        return chunks


class ChunkLog(HeldMeter):
    """The log of one stream. Lives as long as the stream; its entries stay in the trace.

    Attributes:
        entries: for each piece that came in: when, by the monotonic clock; its text; how many characters were held
            before the next piece came; and the text that left until then.
    """

    __slots__ = ("_at", "_balance", "_came", "_left", "entries")

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[float, str, int, str]] = []
        self._at = 0.0
        self._came: str | None = None  # the piece at hand
        self._left: list[str] = []  # what has left since it came
        self._balance = 0  # how many characters more came in than left

    def came(self, item: Chunk | str) -> None:
        """Note a piece that comes in."""
        self.finish()
        text = item if isinstance(item, str) else item.text
        self._at, self._came = perf_counter(), text
        self._balance += len(text)

    def ended(self) -> None:
        """Note that the source has ended: all later output was held."""
        self.finish()
        self._at, self._came = perf_counter(), ""

    def went(self, chunk: Chunk) -> None:
        """Note a chunk that leaves."""
        if chunk.text:
            self._left.append(chunk.text)
            self._balance -= len(chunk.text)
        elif chunk.type in _ENDS:
            self._balance = 0

    def finish(self) -> None:
        """Complete the entry of the piece at hand. Pieces without text that move none are left out."""
        if self._came is None:
            return
        out = "".join(self._left)
        if self._came or out:
            self.entries.append((self._at, self._came, self._measure(), out))
        self._came = None
        self._left = []

    def _held(self) -> int:
        """Return how many characters are held: by guards, or in hooks, and for a later stage."""
        if self.pipes and all(pipe.held() is None for pipe in self.pipes):  # hooks do not say what they hold
            return max(self._balance, 0)
        return super()._held()

    async def leaving(self, chunks: AsyncGenerator[Chunk]) -> AsyncGenerator[Chunk]:
        """Yield chunks, and note each."""
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    self.went(chunk)
                    yield chunk
        finally:
            self.finish()


_ENDS = frozenset({"text-end", "reasoning-end", "step-finish", "finish"})


class _LoggedSource(AsyncIterator["Chunk | str"]):
    """A source that reports each piece to a log."""

    __slots__ = ("_close", "_log", "_source")

    def __init__(
        self, source: AsyncIterator[Chunk | str], log: HeldMeter, close: Callable[[object], Awaitable[None]]
    ) -> None:
        self._source = source
        self._log = log
        self._close = close

    async def __anext__(self) -> Chunk | str:
        """Return the next piece."""
        try:
            item = await self._source.__anext__()
        except BaseException:
            self._log.ended()
            raise
        self._log.came(item)
        return item

    async def aclose(self) -> None:
        """Close the source."""
        await self._close(self._source)
