"""Pipes of pipes: a block under a policy, and one in shadow. What is inside, they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.streams.hooks import BLOCK_ENDS, NOTHING, STEP_ENDS
from penstock.engine.values.errors import StepFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.streams.hooks import Pipe
    from penstock.engine.streams.policy import Aside, StreamPolicy
    from penstock.engine.values.chunks import Chunk

Todo: TypeAlias = "list[tuple[int, Chunk | None]]"
"""What is to be done, the last first: a pipe's number, and what to feed it; None for what all are asked."""


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
        out.extend(await onward(pipes[index + 1 :], await pipe.wake(now)))
    return out


async def onward(pipes: Sequence[Pipe], chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return what comes of chunks behind pipes in a row."""
    return [out for chunk in chunks for out in await fed(pipes, chunk)]


def first_deadline(pipes: Sequence[Pipe]) -> float | None:
    """Return when the first timer runs out."""
    return min((due for pipe in pipes if (due := pipe.deadline()) is not None), default=None)


def _is_due(pipe: Pipe, now: float) -> bool:
    due = pipe.deadline()
    return due is not None and due <= now


def _end(pipe: Pipe) -> Awaitable[Sequence[Chunk]]:
    return pipe.end()


class PlacedPipe:
    """Pipes under a policy. After a failure they are out for the block.

    What has not left them then, held or on its way between them, leaves as it is, or through their fallback.
    """

    def __init__(self, pipes: Sequence[Pipe], policy: StreamPolicy, fallback: Sequence[Pipe] | None) -> None:
        self._pipes = pipes
        self._policy = policy
        self._fallback = fallback
        self._out = False

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Pass a chunk through the pipes, or through what stands in for them."""
        made = await self._done([(0, chunk)])
        if self._out and (chunk.type in BLOCK_ENDS or chunk.type in STEP_ENDS):
            self._out = False
            return [*made, *await ended(self._fallback or ())]  # it will not see what comes next
        return made

    async def end(self) -> Sequence[Chunk]:
        """Return what is left."""
        made = await self._done([(index, None) for index in reversed(range(len(self._pipes)))])
        return [*made, *await ended(self._fallback or ())] if self._out else made

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Wake the steps inside."""
        if self._out:
            return await woken(self._fallback or (), now)
        due = [index for index, pipe in enumerate(self._pipes) if _is_due(pipe, now)]
        if not due:
            return NOTHING
        return await self._done([(index, None) for index in reversed(due)], lambda pipe: pipe.wake(now))

    def deadline(self) -> float | None:
        """Return the first one inside."""
        return first_deadline((self._fallback or ()) if self._out else self._pipes)

    async def give_up(self) -> Sequence[Chunk]:
        """Return what is held inside."""
        return await self._left([])

    async def _done(self, todo: Todo, ask: Callable[[Pipe], Awaitable[Sequence[Chunk]]] = _end) -> Sequence[Chunk]:
        """Return what comes of what is to be done; where the pipes are out, or fail now, of what is left of it."""
        out: list[Chunk] = []
        left: Sequence[Chunk] = [chunk for _, chunk in todo if chunk is not None]
        if not self._out:
            try:
                await self._policy.limited(lambda: self._work(todo, ask, out))
            except StepFailedError as error:
                self._policy.failed(error)
                self._out = True
                left = await self._left(todo)
            else:
                return out
        return [*out, *(left if self._fallback is None else await onward(self._fallback, left))]

    async def _work(self, todo: Todo, ask: Callable[[Pipe], Awaitable[Sequence[Chunk]]], out: list[Chunk]) -> None:
        """Do what is to be done; what is not done when it fails, stays there."""
        while todo:
            index, chunk = todo[-1]
            made: Sequence[Chunk] = ()
            if chunk is None:
                made = await ask(self._pipes[index])
            elif index < len(self._pipes):
                made = await self._pipes[index].feed(chunk)
            else:
                out.append(chunk)
            todo.pop()
            todo.extend((index + 1, one) for one in reversed(made))

    async def _left(self, todo: Todo) -> Sequence[Chunk]:
        """Return what has not left the pipes, in order: what a pipe holds came before what was to be fed to it."""
        left: list[Chunk] = []
        for index in reversed(range(len(self._pipes))):
            held = await self._given_up(self._pipes[index])
            coming = [chunk for at, chunk in reversed(todo) if at == index and chunk is not None]
            left.extend(held)
            left.extend(chunk for chunk in coming if not any(chunk is one for one in held))
        return left

    async def _given_up(self, pipe: Pipe) -> Sequence[Chunk]:
        try:
            return await self._policy.limited(pipe.give_up)
        except StepFailedError:
            return NOTHING  # on record already


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
        if not _is_due(self, now):
            return NOTHING
        self._told = first_deadline(self._pipes)
        await self._aside(lambda: woken(self._pipes, now))
        return NOTHING

    async def give_up(self) -> Sequence[Chunk]:
        """Return nothing: what the steps hold is their own."""
        return NOTHING

    def deadline(self) -> float | None:
        """Return the first one inside, unless it is told already."""
        due = first_deadline(self._pipes)
        return None if due == self._told else due
