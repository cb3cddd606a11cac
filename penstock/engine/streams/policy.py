"""How work on a stream is done: under a time limit, beside each other, aside. What a failure then means, plans say."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio

from penstock.engine.execution.boundary import after_failure, cut_off_verdict, failure_verdict, log, timed_out
from penstock.engine.streams.hooks import BLOCK_ENDS, NOTHING, STEP_ENDS
from penstock.engine.streams.steps import Stopped
from penstock.engine.tasks import new_task_group
from penstock.engine.values.errors import StepFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.graph.plan import PlanPolicy
    from penstock.engine.streams.hooks import Pipe
    from penstock.engine.streams.steps import StreamCall
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.chunks import Chunk


T = TypeVar("T")
Work: TypeAlias = "Callable[[], Awaitable[object]]"
Aside: TypeAlias = "Callable[[Work], Awaitable[None]]"

MOST_ASIDE = 1024
"""How many calls of a shadow may wait; one that falls behind further is given up, since it must delay nothing."""


class StreamPolicy:
    """The policy of a placed block: how long a call may take, and what a failure of it means."""

    __slots__ = ("_block", "_shared")

    def __init__(self, block: PlanPolicy, shared: StreamCall) -> None:
        self._block = block
        self._shared = shared

    async def limited(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what the work gives.

        Raises:
            StepFailedError: it took too long, or it failed.
            Stopped: a verdict, also one that came as the time ran out.
        """
        if self._block.timeout is None:
            return await work()
        started = perf_counter()
        with anyio.move_on_after(self._block.timeout) as scope:
            done = await work()
            if not scope.cancel_called:
                return done
        self._shared.cut_off(self._block)
        verdict = cut_off_verdict(self._block.block, self._shared.stage_call)
        if verdict is not None:
            raise Stopped(verdict)
        raise timed_out(self._block, self._shared.stage_call, started)

    def failed(self, error: StepFailedError) -> None:
        """Return if the stream goes on: with the fallback, or without the block.

        Raises:
            Stopped: the policy is to block.
            StepFailedError: the policy is to raise.
        """
        block = self._block
        if block.fallback is not None:
            log.warning("%s; its fallback runs in its place", error)
            return
        if block.on_error is None:
            raise error
        verdict = failure_verdict(error) if block.on_error == "block" else None
        after = after_failure(block.on_error, self._shared.payload, error, verdict, owner=block)
        if after.tripwire is not None:
            raise Stopped(after.tripwire, error)


async def run_in_turn(works: Sequence[Work]) -> None:
    """Do work that cannot suspend, in declared order; the first verdict ends it, a failure is raised last."""
    failures: list[StepFailedError] = []
    for work in works:
        try:
            await work()
        except StepFailedError as error:
            failures.append(error)
    if failures:
        raise failures[0]


async def run_concurrently(works: Sequence[Work]) -> None:
    """Do work in tasks beside each other; the first verdict cancels the others, and beats a failure."""
    ends: list[BaseException | None] = [StepFailedError("", "", "", "its task was cancelled")] * len(works)
    async with new_task_group() as group:

        async def run(index: int, work: Work) -> None:
            try:
                await work()
                ends[index] = None
            except StepFailedError as error:
                ends[index] = error
            except Stopped as stop:
                ends[index] = stop
                group.cancel()

        for index, work in enumerate(works):
            group.start(run, index, work)
    for kind in (Stopped, StepFailedError):
        for end in ends:
            if isinstance(end, kind):
                raise end


class ShadowWork:
    """Does a shadow's work aside: at once if it cannot suspend, else in a task of its own, in order."""

    __slots__ = ("_background", "_busy", "_last", "_over", "_waiting")

    def __init__(self, background: BackgroundTasks | None) -> None:
        self._background = background  # None: it cannot suspend
        self._waiting: deque[Work] = deque()
        self._busy = False
        self._over = False
        self._last: Callable[[], None] | None = None

    async def __call__(self, work: Work) -> None:
        """Do the work, or put it in line. Nothing that goes wrong in it concerns the stream."""
        if self._over:
            return
        if self._background is None:
            await self._watched(work)
            return
        if len(self._waiting) >= MOST_ASIDE:
            self._over = True
            self._waiting.clear()
            log.error("a shadow fell %d chunks behind and is given up for this stream", MOST_ASIDE)
            return
        self._waiting.append(work)
        if not self._busy:
            self._busy = True
            self._background.start(self._drain)

    def close(self, last: Callable[[], None]) -> None:
        """Call ``last`` when all is done: now, or when the task has come so far."""
        if self._busy:
            self._last = last
        else:
            last()

    async def _drain(self) -> None:
        while self._waiting:
            await self._watched(self._waiting.popleft())
        self._busy = False
        if self._last is not None:
            self._last()

    async def _watched(self, work: Work) -> None:
        try:
            await work()
        except (Stopped, StepFailedError):
            self._give_up()  # on record already
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the stream
            self._give_up()
            log.error("a shadow broke (%s); the stream goes on", type(error).__name__)

    def _give_up(self) -> None:
        self._over = True
        self._waiting.clear()


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


class PolicyPipe:
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
