"""Policies and shadows in a stream: time limits, handling of failures, fallbacks, and work beside the stream.

`StreamPolicy` and `ShadowPipe` serve both chunk hooks and text guards. `PolicyPipe` applies a policy to chunk hooks,
`combined_tracks.PolicyTrack` to text guards: one passes chunks to a fallback, the other text.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio

from penstock.engine.execution.boundary import after_failure, cut_off_verdict, failure_verdict, log, timed_out
from penstock.engine.streams.hooks import (
    BLOCK_ENDS,
    NOTHING,
    STEP_ENDS,
    chunks_of,
    end_all,
    feed_all,
    first_deadline,
    unended,
    wake_all,
)
from penstock.engine.streams.steps import Stopped
from penstock.engine.tasks import new_task_group, runs_without_loop
from penstock.engine.values.errors import StepFailedError
from penstock.engine.workers import within_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.graph.plan import PlanPolicy
    from penstock.engine.streams.hooks import Pipe
    from penstock.engine.streams.steps import StreamCall
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.chunks import Chunk


T = TypeVar("T")
Work: TypeAlias = "Callable[[], Awaitable[object]]"
RunBeside: TypeAlias = "Callable[[Work], Awaitable[None]]"

MOST_WAITING = 1024
"""How many calls of a shadow may wait. A shadow that falls further behind is given up: it must delay nothing."""


class StreamPolicy:
    """The policy of a block: how long a call may take, and what happens if it fails."""

    __slots__ = ("_block", "_shared")

    def __init__(self, block: PlanPolicy, shared: StreamCall) -> None:
        self._block = block
        self._shared = shared

    async def limited(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the work, or raise after ``timeout`` seconds.

        Raises:
            StepFailedError: it took too long, or it failed.
            Stopped: a verdict, also one that came as the time ran out.
        """
        alone = runs_without_loop()  # each hook is limited by itself
        if self._block.timeout is None or alone:
            return await work()
        started = perf_counter()
        until = anyio.current_time() + self._block.timeout
        with within_time(until), anyio.move_on_after(self._block.timeout) as scope:
            done = await work()
            if not scope.cancel_called:
                return done
        self._shared.cut_off(self._block)
        verdict = cut_off_verdict(self._block.block, self._shared.stage_call)
        if verdict is not None:
            raise Stopped(verdict)
        raise timed_out(self._block, self._shared.stage_call, started, self._block.on_error)

    async def attempt(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of the work; None if it failed and the policy lets the stream go on.

        Raises:
            Stopped: a verdict, or the work failed and the policy is to block.
            StepFailedError: the work failed and the policy is to raise.
        """
        try:
            return await self.limited(work)
        except StepFailedError as error:
            self._allow(error)
            return None

    def _allow(self, error: StepFailedError) -> None:
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


async def run_concurrently(works: Sequence[Work]) -> None:
    """Do work in concurrent tasks. The first verdict cancels the others, and is raised rather than a failure."""
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
    """Does a shadow's work: at once if it cannot suspend, else in a background task, in order."""

    __slots__ = ("_background", "_busy", "_last", "_over", "_waiting")

    def __init__(self, background: BackgroundTasks | None) -> None:
        self._background = background  # None: it cannot suspend
        self._waiting: deque[Work] = deque()
        self._busy = False
        self._over = False
        self._last: Callable[[], None] | None = None

    async def __call__(self, work: Work) -> None:
        """Do the work, or queue it. Its failures never reach the stream."""
        if self._over:
            return
        if self._background is None:
            await self._watched(work)
            return
        if len(self._waiting) >= MOST_WAITING:
            self._over = True
            self._waiting.clear()
            log.error("a shadow fell %d chunks behind; it sees no more of this stream", MOST_WAITING)
            return
        self._waiting.append(work)
        if not self._busy:
            self._busy = True
            self._background.start(self._drain)

    def close(self, last: Callable[[], None]) -> None:
        """Call ``last`` when all work is done: now, or at the end of the task."""
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
            self._give_up()  # it is on record already
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the stream
            self._give_up()
            log.error("a shadow broke (%s); the stream goes on", type(error).__name__)

    def _give_up(self) -> None:
        self._over = True
        self._waiting.clear()


Ask: TypeAlias = "Callable[[Pipe], Awaitable[Sequence[Chunk]]]"
Todo: TypeAlias = "list[tuple[int, Chunk | None]]"
"""Pending work, last item first: a pipe's number, and a chunk to feed it; None to call `end` or `wake`."""


def _is_due(pipe: Pipe, now: float) -> bool:
    due = pipe.deadline()
    return due is not None and due <= now


class PolicyPipe:
    """Pipes under a policy. After a failure they take no further part in the block.

    The chunks that they hold at that moment, and chunks between them, go through the fallback, or leave unchanged.
    """

    def __init__(self, pipes: Sequence[Pipe], policy: StreamPolicy, fallback: Sequence[Pipe] | None) -> None:
        self._pipes = pipes
        self._policy = policy
        self._fallback = fallback
        self._out = False

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Pass a chunk through the pipes, or after a failure through the fallback."""
        made = await self._do([(0, chunk)])
        if self._out and (chunk.type in BLOCK_ENDS or chunk.type in STEP_ENDS):
            self._out = False
            return [*made, *await end_all(self._fallback or ())]  # the fallback does not see what follows
        return made

    async def end(self) -> Sequence[Chunk]:
        """Return the remaining chunks."""
        made = await self._do([(index, None) for index in reversed(range(len(self._pipes)))])
        return [*made, *await end_all(self._fallback or ())] if self._out else made

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Wake the steps inside."""
        if self._out:
            return await wake_all(self._fallback or (), now)
        due = [index for index, pipe in enumerate(self._pipes) if _is_due(pipe, now)]
        if not due:
            return NOTHING
        return await self._do([(index, None) for index in reversed(due)], lambda pipe: pipe.wake(now))

    def deadline(self) -> float | None:
        """Return when the first timer inside runs out."""
        return first_deadline((self._fallback or ()) if self._out else self._pipes)

    async def give_up(self) -> Sequence[Chunk]:
        """Return the chunks held inside."""
        return await self._take_back([])

    def held(self) -> int | None:
        """Return how many characters are held inside, as far as that is known."""
        known = [count for pipe in (*self._pipes, *(self._fallback or ())) if (count := pipe.held()) is not None]
        return sum(known) if known else None

    def unended(self) -> int:
        """Return how many characters of texts were read inside that have not ended."""
        return unended((*self._pipes, *(self._fallback or ())))

    async def _do(self, todo: Todo, ask: Ask = lambda pipe: pipe.end()) -> Sequence[Chunk]:
        """Do the pending work, or after a failure the rest of it; return the chunks that leave."""
        out: list[Chunk] = []
        left: Sequence[Chunk] = [chunk for _, chunk in todo if chunk is not None]
        if not self._out:
            if await self._policy.attempt(lambda: self._work(todo, ask, out)) is not None:
                return out
            self._out = True
            left = await self._take_back(todo)
        return [*out, *(left if self._fallback is None else await feed_all(self._fallback, left))]

    async def _work(self, todo: Todo, ask: Ask, out: list[Chunk]) -> list[Chunk]:
        """Do the pending work, and return ``out``. If it fails, the rest stays in ``todo``."""
        while todo:
            index, chunk = todo[-1]
            made: Sequence[Chunk] = ()
            if chunk is None:
                made = await ask(self._pipes[index])
            elif index < len(self._pipes):
                made = await chunks_of(self._pipes[index].feed(chunk))
            else:
                out.append(chunk)
            todo.pop()
            todo.extend((index + 1, one) for one in reversed(made))
        return out

    async def _take_back(self, todo: Todo) -> Sequence[Chunk]:
        """Return the chunks still in the pipes, in order: a pipe's held ones came before those it was to be fed."""
        left: list[Chunk] = []
        for index in reversed(range(len(self._pipes))):
            held = await self._give_up_pipe(self._pipes[index])
            coming = [chunk for at, chunk in reversed(todo) if at == index and chunk is not None]
            left.extend(held)
            left.extend(chunk for chunk in coming if not any(chunk is one for one in held))
        return left

    async def _give_up_pipe(self, pipe: Pipe) -> Sequence[Chunk]:
        try:
            return await self._policy.limited(pipe.give_up)
        except StepFailedError:
            return NOTHING  # it is on record already


class ShadowPipe:
    """A shadow: pipes that see every chunk and change nothing. Their work is done beside the stream."""

    def __init__(self, pipes: Sequence[Pipe], run: RunBeside) -> None:
        self._pipes = pipes
        self._run = run
        self._passed_on: float | None = None  # the deadline that was passed on; the work may still wait

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Show the pipes a chunk; return it."""
        await self._run(lambda: feed_all(self._pipes, (chunk,)))
        return (chunk,)

    async def end(self) -> Sequence[Chunk]:
        """End the pipes."""
        await self._run(lambda: end_all(self._pipes))
        return NOTHING

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Wake the steps inside."""
        if not _is_due(self, now):
            return NOTHING
        self._passed_on = first_deadline(self._pipes)
        await self._run(lambda: wake_all(self._pipes, now))
        return NOTHING

    async def give_up(self) -> Sequence[Chunk]:
        """Return nothing: chunks in a shadow are not part of the stream."""
        return NOTHING

    def held(self) -> None:
        """Return None: a shadow holds nothing of the stream."""

    def unended(self) -> int:
        """Return 0: the stream does not wait for a shadow."""
        return 0

    def deadline(self) -> float | None:
        """Return when the first timer inside runs out, unless the pipes are being woken for it."""
        due = first_deadline(self._pipes)
        return None if due == self._passed_on else due
