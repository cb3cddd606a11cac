"""1,000 requests at once, each a chain of ten async steps, against the same by hand: time and memory.

Every request starts a run of its own, takes in its message, and waits once in the middle until all others have come as
far, so that all of them are alive at the same moment.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from harness import FLOOR, OURS, Contest, Effort, Row, Timed, Work
from shared import STEPS, TEXT, Looks, hand, text_of

from penstock import InputContext, MessageList, Processor, Workflow
from penstock.engine.processor.payload import Payload

REQUESTS = 1_000
TITLE = f"{REQUESTS:,} concurrent requests of 10 steps"
FLOOR_IS = "a task each; a MessageList made, ten awaits, a context made for each"


class Meeting:
    """Lets nobody go on before everybody is there."""

    def __init__(self) -> None:
        self._missing = REQUESTS
        self._all = asyncio.Event()

    async def wait(self) -> None:
        """Wait until all have come; then take a breath, and the next ones may meet here."""
        self._missing -= 1
        if self._missing:
            await self._all.wait()
            return
        before, self._all, self._missing = self._all, asyncio.Event(), REQUESTS
        self.arrived()
        before.set()

    def arrived(self) -> None:
        """Do nothing, at the moment at which all requests are alive."""


class Weighing(Meeting):
    """A meeting that weighs everybody."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def arrived(self) -> None:
        """Note how much memory is in use."""
        self.bytes = tracemalloc.get_traced_memory()[0]


class Meets(Processor):
    """Waits until every request has come as far."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting

    async def process_input(self, _ctx: InputContext) -> None:
        """Wait."""
        await self.meeting.wait()


def steps(meeting: Meeting) -> list[Looks | Meets]:
    """Return the ten: one in the middle waits."""
    return [Meets(meeting) if number == STEPS // 2 else Looks() for number in range(STEPS)]


def works(meeting: Meeting) -> tuple[Work, Work]:
    """Return our way and the hand-written one."""
    workflow = Workflow("chain")
    for step in steps(meeting):
        workflow = workflow.then(step)
    held = hand(workflow)
    hooks: list[Callable[[InputContext], Awaitable[None]]] = [step.process_input for step in steps(meeting)]

    async def request() -> str:
        return (await workflow.start().process_input(TEXT)).text

    async def request_by_hand() -> str:
        payload = Payload(MessageList(TEXT))
        for hook, step in zip(hooks, held.steps, strict=True):
            await hook(InputContext(held.call, step, payload))
        return text_of(payload)

    return all_at_once(request), all_at_once(request_by_hand)


def all_at_once(request: Callable[[], Awaitable[object]]) -> Work:
    """Return a contestant that makes all requests at once."""

    async def work(times: int) -> list[object]:
        given: list[object] = []
        for _ in range(times):
            given = await asyncio.gather(*[request() for _ in range(REQUESTS)])
        return given

    return work


async def contests() -> list[Contest]:
    """Return the contest in time."""
    ours, floor = works(Meeting())
    return [Contest(f"{TITLE}, per request", FLOOR_IS, ours, floor, 2.5, per=REQUESTS)]


async def weighed() -> Row:
    """Return the memory that a request holds while all are alive, the smallest of three."""
    scale = Weighing()
    ours, floor = works(scale)
    figures = {FLOOR: await weight(floor, scale), OURS: await weight(ours, scale)}
    return Row("concurrent", f"{TITLE}, memory of one", FLOOR_IS, figures, 2.0, "B")


async def weight(work: Work, scale: Weighing) -> float:
    """Return the bytes that one holds while all are alive, the smallest of three."""
    await work(1)
    found: list[float] = []
    for _ in range(3):
        gc.collect()
        tracemalloc.start()
        await work(1)
        found.append(scale.bytes / REQUESTS)
        tracemalloc.stop()
    return min(found)


@dataclass(frozen=True, slots=True)
class Concurrent(Timed):
    """The scenario: time as in the others, and memory beside it."""

    def rows(self, effort: Effort) -> list[Row]:
        """Time and weigh."""
        return [*Timed.rows(self, effort), asyncio.run(weighed())]


SCENARIO = Concurrent("concurrent", contests)
