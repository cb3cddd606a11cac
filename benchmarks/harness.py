"""The harness: interleaved repetitions, their medians, and the rows they become; it knows no scenario and no engine.

A contestant is a coroutine function that does its work ``times`` times in a loop of its own, so that nothing of the
harness is in the figures, and returns what the last time gave, so that contestants are compared before they are timed.
What is timed is the processor's time, all threads together: what else runs on the machine does not count, and nothing
that is timed here waits for anything outside.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import process_time
from typing import Protocol

import anyio

Work = Callable[[int], Awaitable[object]]

OURS = "penstock"
FLOOR = "by hand"


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a figure may take.

    Attributes:
        seconds: what one repetition should take; slow work is done once in it.
        repetitions: how many there are.
        limit: the seconds after which no more are begun ...
        least: ... but so many there are in any case.
    """

    seconds: float
    repetitions: int
    limit: float
    least: int


FULL = Effort(0.002, 201, 12.0, 3)
QUICK = Effort(0.002, 31, 2.0, 1)


@dataclass(frozen=True, slots=True)
class Contest:
    """The same work done by several: ours, by hand, and by peers.

    Attributes:
        name: what is done.
        floor_is: what the hand-written way does, in words.
        ours: the way through Penstock.
        floor: the hand-written way.
        target: how often ours may cost what the floor costs; None where no target was set.
        peers: the ways through other engines, by name.
        per: how many of what the name says one time does (1,000 requests …).
    """

    name: str
    floor_is: str
    ours: Work
    floor: Work
    target: float | None = None
    peers: Mapping[str, Work] = field(default_factory=dict[str, Work])
    per: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One measured contest. Figures are in ``unit`` and in the order: by hand, ours, then peers."""

    scenario: str
    name: str
    floor_is: str
    figures: Mapping[str, float]
    target: float | None
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """How often ours costs what the floor costs."""
        return self.figures[OURS] / self.figures[FLOOR]

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.ratio <= self.target


class Scenario(Protocol):
    """One file of scenarios/: its name, a check that all contestants do the same, and the rows it measures."""

    @property
    def name(self) -> str:
        """The name, for ``--only``."""
        ...

    @property
    def notes(self) -> list[str]:
        """What to know about the figures."""
        ...

    def check(self) -> None:
        """Run each contestant once and compare what they give."""
        ...

    def rows(self, effort: Effort) -> list[Row]:
        """Measure."""
        ...


@dataclass(frozen=True, slots=True)
class Timed:
    """A scenario of contests that are timed in this process, on one event loop or on several."""

    name: str
    contests: Callable[[], Awaitable[list[Contest]]]
    backends: tuple[str, ...] = ("asyncio",)

    @property
    def notes(self) -> list[str]:
        """Nothing to know about the figures."""
        return []

    def check(self) -> None:
        """Run each contestant once and compare what they give."""
        for backend in self.backends:
            anyio.run(self._check, backend=backend)

    def rows(self, effort: Effort) -> list[Row]:
        """Time every contest, on each event loop."""
        return [row for backend in self.backends for row in anyio.run(partial(self._rows, effort), backend=backend)]

    async def _check(self) -> None:
        for contest in await self.contests():
            await same(contest)

    async def _rows(self, effort: Effort) -> list[Row]:
        rows: list[Row] = []
        for contest in await self.contests():
            await same(contest)
            works = {FLOOR: contest.floor, OURS: contest.ours, **contest.peers}
            seconds = {name: figure / contest.per for name, figure in (await timed(works, effort)).items()}
            rows.append(Row(self.name, contest.name, contest.floor_is, seconds, contest.target))
        return rows


async def same(contest: Contest) -> None:
    """Run each contestant once and compare what they give.

    Raises:
        AssertionError: one of them gives something else than the hand-written way.
    """
    expected = await contest.floor(1)
    for name, work in {OURS: contest.ours, **contest.peers}.items():
        given = await work(1)
        if given != expected:
            raise AssertionError(f"{contest.name}: {name} gives {given!r}, by hand it is {expected!r}")


async def timed(works: Mapping[str, Work], effort: Effort) -> dict[str, float]:
    """Return the median seconds of each work for one time; repetitions alternate, forwards and backwards."""
    times = {name: await _times_for(work, effort.seconds) for name, work in works.items()}
    samples: dict[str, list[float]] = {name: [] for name in works}
    gc.collect()
    gc.freeze()  # what was imported so far is not looked through again
    began = process_time()
    for repetition in range(effort.repetitions):
        for name in list(works)[:: 1 if repetition % 2 else -1]:
            start = process_time()
            await works[name](times[name])
            samples[name].append((process_time() - start) / times[name])
        if repetition + 1 >= effort.least and process_time() - began > effort.limit:
            break
    gc.unfreeze()
    return {name: median(found) for name, found in samples.items()}


async def _times_for(work: Work, seconds: float) -> int:
    """Return how many times fill a repetition; on the way the work gets warm."""
    times = 1
    while True:
        start = process_time()
        await work(times)
        took = process_time() - start
        if took >= seconds / 2:
            return max(1, round(times * seconds / took))
        times *= 2
