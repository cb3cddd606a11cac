"""How work on a stream is done: under a time limit, beside each other, aside. What a failure then means, plans say."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio

from penstock.engine.execution.boundary import after_failure, cut_off_verdict, failure_verdict, log, timed_out
from penstock.engine.streams.steps import Stopped
from penstock.engine.tasks import new_crew
from penstock.engine.values.errors import StepFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.background import Background
    from penstock.engine.graph.plan import Placed
    from penstock.engine.streams.steps import StreamCall

T = TypeVar("T")
Work: TypeAlias = "Callable[[], Awaitable[object]]"
Aside: TypeAlias = "Callable[[Work], Awaitable[None]]"

MOST_ASIDE = 1024
"""How many calls of a shadow may wait; one that falls behind further is given up, since it must delay nothing."""


class StreamPolicy:
    """The policy of a placed block: how long a call may take, and what a failure of it means."""

    __slots__ = ("_block", "_shared")

    def __init__(self, block: Placed, shared: StreamCall) -> None:
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


async def in_turn(works: Sequence[Work]) -> None:
    """Do work that cannot suspend, in declared order; the first verdict ends it, a failure is raised last."""
    failures: list[StepFailedError] = []
    for work in works:
        try:
            await work()
        except StepFailedError as error:
            failures.append(error)
    if failures:
        raise failures[0]


async def beside(works: Sequence[Work]) -> None:
    """Do work in tasks beside each other; the first verdict cancels the others, and beats a failure."""
    ends: list[BaseException | None] = [StepFailedError("", "", "", "its task was cancelled")] * len(works)
    async with new_crew() as crew:

        async def run(index: int, work: Work) -> None:
            try:
                await work()
                ends[index] = None
            except StepFailedError as error:
                ends[index] = error
            except Stopped as stop:
                ends[index] = stop
                crew.cancel()

        for index, work in enumerate(works):
            crew.start(run, index, work)
    for kind in (Stopped, StepFailedError):
        for end in ends:
            if isinstance(end, kind):
                raise end


class ShadowWork:
    """Does a shadow's work aside: at once if it cannot suspend, else in a task of its own, in order."""

    __slots__ = ("_background", "_busy", "_last", "_over", "_waiting")

    def __init__(self, background: Background | None) -> None:
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
