"""Pipes of pipes: a block under a policy, and one in shadow. What is inside, they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.engine.errors import StepFailedError
from penstock.engine.streams.hooks import BLOCK_ENDS, NOTHING, STEP_ENDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.chunks import Chunk
    from penstock.engine.streams.hooks import Pipe
    from penstock.engine.streams.policy import Aside, StreamPolicy

T = TypeVar("T")


async def fed(pipes: Sequence[Pipe], chunk: Chunk) -> Sequence[Chunk]:
    """Return what comes of a chunk behind pipes in a row."""
    chunks: Sequence[Chunk] = (chunk,)
    for pipe in pipes:
        made: list[Chunk] = []
        for one in chunks:
            made.extend(await pipe.feed(one))
        chunks = made
    return chunks


async def ended(pipes: Sequence[Pipe]) -> list[Chunk]:
    """Return what pipes in a row have left when the source has ended."""
    out: list[Chunk] = []
    for index, pipe in enumerate(pipes):
        out.extend(await onward(pipes[index + 1 :], await pipe.end()))
    return out


async def woken(pipes: Sequence[Pipe], now: float) -> list[Chunk]:
    """Return what comes of timers that have run out, behind pipes in a row."""
    out: list[Chunk] = []
    for index, pipe in enumerate(pipes):
        due = pipe.deadline()
        if due is not None and due <= now:
            out.extend(await onward(pipes[index + 1 :], await pipe.wake(now)))
    return out


async def onward(pipes: Sequence[Pipe], chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return what comes of chunks behind pipes in a row."""
    return [out for chunk in chunks for out in await fed(pipes, chunk)]


def first_deadline(pipes: Sequence[Pipe]) -> float | None:
    """Return when the first timer runs out."""
    return min((due for pipe in pipes if (due := pipe.deadline()) is not None), default=None)


class PlacedPipe:
    """Pipes under a policy. After a failure they are out for the block; their fallback takes the chunk at hand on."""

    def __init__(self, pipes: Sequence[Pipe], policy: StreamPolicy, fallback: Sequence[Pipe] | None) -> None:
        self._pipes = pipes
        self._policy = policy
        self._fallback = fallback
        self._out = False

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Pass a chunk through the pipes, or through what stands in for them."""
        made = await self._tried(lambda: fed(self._pipes, chunk))
        if made is None:
            made = (chunk,) if self._fallback is None else await fed(self._fallback, chunk)
        if self._out and (chunk.type in BLOCK_ENDS or chunk.type in STEP_ENDS):
            self._out = False
        return made

    async def end(self) -> Sequence[Chunk]:
        """Return what is left."""
        made = await self._tried(lambda: ended(self._pipes))
        if made is not None:
            return made
        return NOTHING if self._fallback is None else await ended(self._fallback)

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Wake the steps inside."""
        if self._out:
            return await woken(self._fallback or (), now)
        made = await self._tried(lambda: woken(self._pipes, now))
        return NOTHING if made is None else made

    def deadline(self) -> float | None:
        """Return the first one inside."""
        return first_deadline((self._fallback or ()) if self._out else self._pipes)

    async def _tried(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return what the work gives; None if the pipes are out, or fail now and the stream goes on."""
        if self._out:
            return None
        try:
            return await self._policy.limited(work)
        except StepFailedError as error:
            self._policy.failed(error)
            self._out = True
            return None


class ShadowPipe:
    """Pipes that see every chunk and change nothing."""

    def __init__(self, pipes: Sequence[Pipe], aside: Aside) -> None:
        self._pipes = pipes
        self._aside = aside
        self._told: float | None = None  # the deadline that the pipes were told of, though they may not be there yet

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Show them the chunk, aside."""
        await self._aside(lambda: fed(self._pipes, chunk))
        return (chunk,)

    async def end(self) -> Sequence[Chunk]:
        """Tell them that the source has ended, aside."""
        await self._aside(lambda: ended(self._pipes))
        return NOTHING

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Wake the steps inside, aside."""
        self._told = first_deadline(self._pipes)
        await self._aside(lambda: woken(self._pipes, now))
        return NOTHING

    def deadline(self) -> float | None:
        """Return the first one inside, unless it is told already."""
        due = first_deadline(self._pipes)
        return None if due == self._told else due
