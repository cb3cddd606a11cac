"""How many streams of 100 pieces a second one core guards, how long each guard holds text, and what it leaks.

Each contestant plays the same answers: English prose in pieces of five characters, with one value in it that the rules
find, at a place that chance chose, so that it is cut anywhere. Three things are measured on them:

- what a piece costs: the CPU time of the stream, divided by its pieces;
- how long a piece is held: from when it arrived to when its last character left, in pieces of 10 ms, without computing;
- what leaks: how many characters of the value leave, at its beginning or at its end.

Capacity is computed from the cost: how many streams keep one core so busy that the median piece waits 10 ms for it, on
top of what the guard holds. Pieces of many streams arrive independently of each other and cost the same, so they wait
as in a queue of the kind M/D/1. Its waiting time is close to exponential when the core is busy, with the mean
ρD / 2(1 - ρ), where D is the cost of a piece and ρ the share of the core that is used.

Ours then really runs, with as many streams at once on one event loop, and with 1.2 times as many.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import median
from time import process_time
from typing import NamedTuple

from cpu_clock import CpuClockLoop
from harness import FLOOR, FULL, OURS, Effort, Row
from peers.stream_guards import PEERS, RULES, Guarding, Open, Opened, Play, Played, timed_here
from scenarios.stream_built_in import PROMPT
from streaming import english

from penstock import Chunk, Message, RegexFilterProcessor, Workflow
from penstock.processors.text import RegexRule
from penstock.workflows.presets import safety

SIZE = 5
"""The characters of a piece, about those of a token."""

PIECES = 400
PERIOD = 0.01
"""The seconds between two pieces of a stream."""

WAIT = 0.01
"""The seconds that the median piece may wait for the core."""

LEAD = 400
"""The characters before a value and after it, at least: what the slowest holds without having seen the value."""

VALUES = (
    "ada.lovelace@example.com",
    "j.smith@mail.example.co.uk",
    "bo@example.org",
    "accounts.receivable.northern@department.university.example.com",
    "+1 415-555-0132",
    "415-555-0199",
    "(212) 555-0187",
    "+49 301 555 0144",
    "4111 1111 1111 1111",
    "5555-5555-5555-4444",
    "4012888888881881",
)
LONGEST = max(map(len, VALUES))
SAFETY = f"{OURS}, safety()"
FLOOR_IS = f"the three rules as one, on each piece and the {LONGEST} characters before it, which are held"


class Answer(NamedTuple):
    """An answer of a model: prose, a value, prose."""

    before: str
    value: str
    after: str

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self)

    @property
    def pieces(self) -> list[str]:
        """The text as a model streams it."""
        return [self.text[at : at + SIZE] for at in range(0, len(self.text), SIZE)]


def answers(count: int) -> list[Answer]:
    """Return so many answers, the same ones while the documentation is the same, whose prose they are.

    `safety()` finds the value of each if it reads all of the answer at once.
    """
    chance = random.Random(18)  # noqa: S311 - no secret
    whole = safety()
    prose, made = english(), list[Answer]()
    while len(made) < count:
        value = VALUES[len(made) % len(VALUES)]
        length = PIECES * SIZE - len(value) - 2
        begin = chance.randrange(len(prose) - length)
        middle = begin + chance.randrange(LEAD, length - LEAD)
        answer = Answer(f"{prose[begin:middle]} ", value, f" {prose[middle : begin + length]}")
        if value not in whole.check_sync(answer.text, stage="process_output_step", records=False).text:
            made.append(answer)
    return made


# The contestants that are always here ---------------------------------------------------------------------------------


def by_hand() -> Open:
    """Return the rules written by hand: what cannot belong to a value of the longest length any more leaves."""
    every = re.compile("|".join(f"(?P<{name}>{rule})" for name, rule in RULES.items()))

    def cleaned(text: str) -> str:
        return every.sub(lambda match: f"[{str(match.lastgroup).upper()}]", text)

    async def guarding(texts: AsyncIterator[str]) -> AsyncIterator[str]:
        held = ""
        async for text in texts:
            held += text
            end = len(held) - LONGEST
            found = every.search(held)
            if found and found.start() < end < found.end():
                end = found.start()
            if end > 0:
                yield cleaned(held[:end]) if found else held[:end]
                held = held[end:]
        yield cleaned(held)

    async def opened(pieces: Sequence[str]) -> Opened:
        return pieces, guarding

    return opened


def by_rules() -> Workflow:
    """Return our filter with the rules."""
    rules = [RegexRule(name, rule, replacement=f"[{name.upper()}]") for name, rule in RULES.items()]
    return Workflow("rules").then(RegexFilterProcessor(rules, strategy="redact"))


def ours(workflow: Workflow) -> Open:
    """Return a workflow's stream, of a run that has seen a system prompt and a question."""

    async def opened(pieces: Sequence[str]) -> Opened:
        run = workflow.start(records=False)
        await run.process_input([Message.system(PROMPT), Message.user("What do you offer?")])

        async def guarding(chunks: AsyncIterator[Chunk]) -> AsyncIterator[str]:
            async with run.process_output_stream(chunks) as leaving:
                async for chunk in leaving:
                    yield chunk.text

        return [Chunk("text-delta", piece) for piece in pieces], guarding

    return opened


def contestants() -> tuple[dict[str, Play], list[str]]:
    """Return all that are here, by name, and the names of those that are not installed."""
    own = {FLOOR: by_hand(), OURS: ours(by_rules()), SAFETY: ours(safety())}
    here, missing = {name: timed_here(each) for name, each in own.items()}, list[str]()
    for name, build in PEERS.items():
        try:
            here[name] = build()
        except ImportError:
            missing.append(name)
    return here, missing


# What is read off a stream that was played ----------------------------------------------------------------------------


class Reading(NamedTuple):
    """What one stream shows.

    Attributes:
        cost: the seconds of CPU time for a piece.
        holds: for each piece of prose that left, how many pieces arrived until it did.
        leaked: the characters of the value that left.
    """

    cost: float
    holds: list[int]
    leaked: int


def read(answer: Answer, played: Played) -> Reading:
    """Read a stream.

    Raises:
        AssertionError: the prose was changed.
    """
    text = played.text
    if not text.startswith(answer.before[: len(text)]):
        raise AssertionError(f"the prose was changed: {text[: len(answer.before)]!r}")
    whole = text.endswith(answer.after)
    shown = text[len(answer.before) : len(text) - len(answer.after) if whole else None]
    left_at = [index for index, part in played.left for _ in part]
    shift = len(text) - len(answer.text)
    holds: list[int] = []
    for piece in range(PIECES):
        last = (piece + 1) * SIZE - 1
        if last < len(answer.before) and last < len(left_at):
            holds.append(left_at[last] - piece)
        elif whole and last >= len(answer.before) + len(answer.value):
            holds.append(left_at[last + shift] - piece)
    return Reading(played.seconds / PIECES, holds, leaked(answer.value, shown))


def leaked(value: str, shown: str) -> int:
    """Return how many characters of a value stand at the ends of what is shown in its place."""
    return min(len(value), len(shown), _alike(value, shown) + _alike(value[::-1], shown[::-1]))


def _alike(one: str, other: str) -> int:
    """Return how many characters at the beginning of both are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def streams_at(cost: float) -> int:
    """Return how many streams make the median piece wait for ``WAIT`` seconds, if a piece costs so many."""
    used = 1 / (1 + math.log(2) * cost / (2 * WAIT))
    return int(used * PERIOD / cost)


async def measured(plays: Mapping[str, Play], given: Sequence[Answer]) -> dict[str, list[Reading]]:
    """Play the answers in turns, forwards and backwards; what is loaded and compiled at first does not count."""
    readings: dict[str, list[Reading]] = {name: [] for name in plays}
    for answer in given[:3]:
        for play in plays.values():
            read(answer, await play(answer.pieces))
    gc.collect()
    gc.freeze()  # what was imported so far is not looked through again
    for number, answer in enumerate(given):
        for name in list(plays)[:: 1 if number % 2 else -1]:
            readings[name].append(read(answer, await plays[name](answer.pieces)))
    gc.unfreeze()
    return readings


def note(name: str, readings: Sequence[Reading]) -> str:
    """Return what a contestant's readings say."""
    cost = median(each.cost for each in readings)
    holds = sorted(hold * PERIOD * 1e3 for each in readings for hold in each.holds)
    leaks = [each.leaked for each in readings if each.leaked]
    leaking = f"{len(leaks)} of {len(readings)} values leak" + (f", up to {max(leaks)} characters" if leaks else "")
    middle, late = median(holds), holds[len(holds) * 99 // 100]
    return (
        f"Capacity of {name}: {cost * 1e6:.1f} µs a piece, {streams_at(cost):,} streams; "
        f"holds a piece for {middle:.0f} ms (median), {late:.0f} ms (99 %); {leaking}"
    )


# Really run: many streams at once on one event loop -------------------------------------------------------------------


class Crowd(NamedTuple):
    """What many streams at once showed while all of them were there.

    Attributes:
        cost: the seconds of CPU time for a piece, with the event loop's.
        delay: the median seconds from when a piece was due to when its last character left.
        waited: the median seconds from when the piece that let it leave was due, to the same moment.
    """

    cost: float
    delay: float
    waited: float


def crowd(opened: Open, streams: int, length: int) -> Crowd:
    """Run so many streams of so many pieces at once; each piece is due 10 ms after the one before it."""
    with asyncio.Runner(loop_factory=CpuClockLoop) as runner:
        return runner.run(_crowd(opened, streams, length))


async def _crowd(opened: Open, streams: int, length: int) -> Crowd:
    chance = random.Random(18)  # noqa: S311 - no secret
    loop, prose = asyncio.get_running_loop(), english()
    ready: list[Opened] = []
    for _ in range(streams):
        at = chance.randrange(len(prose) - length * SIZE)
        ready.append(await opened([prose[begin : begin + SIZE] for begin in range(at, at + length * SIZE, SIZE)]))
    begin, start = loop.time() + PERIOD, process_time()
    opening = length * PERIOD / 4  # one after another, so that what opening costs is no rush
    all_there, first_ends = begin + opening, begin + length * PERIOD
    delays: list[float] = []
    waits: list[float] = []

    async def stream(events: Sequence[object], guarding: Guarding, begins: float) -> None:
        arrived = gone = size = 0

        async def source() -> AsyncIterator[object]:
            nonlocal arrived
            for arrived, event in enumerate(events):
                await asyncio.sleep(begins + arrived * PERIOD - loop.time())
                yield event

        async for text in guarding(source()):
            now, size = loop.time(), size + len(text)
            for piece in range(gone, size // SIZE):
                due = begins + piece * PERIOD
                if all_there <= due < first_ends:
                    delays.append(now - due)
                    waits.append(now - begins - arrived * PERIOD)
            gone = size // SIZE

    async with asyncio.TaskGroup() as group:
        for events, guarding in ready:
            group.create_task(stream(events, guarding, begin + chance.random() * opening))
    cost = (process_time() - start) / (streams * length)
    return Crowd(cost, median(delays), median(waits))


async def unguarded(pieces: Sequence[str]) -> Opened:
    """Return a stream without a guard."""

    async def guarding(texts: AsyncIterator[str]) -> AsyncIterator[str]:
        async for text in texts:
            yield text

    return pieces, guarding


def confirmed(name: str, opened: Open, length: int) -> list[str]:
    """Run as many streams as the cost of a piece allows, the event loop's share of it included; then more.

    That cost depends on how many streams there are, so it is measured with nearly as many.
    """
    nearly = round(streams_at(crowd(opened, 20, length).cost) * 0.8)
    most = streams_at(crowd(opened, nearly, length).cost)
    notes: list[str] = []
    for times in (1.0, 1.2, 1.4):
        streams = round(most * times)
        shown = crowd(opened, streams, length)
        notes.append(
            f"Really run, {name}, {streams} streams at once ({times:g} × its capacity with the event loop's own work): "
            f"{shown.cost * 1e6:.1f} µs a piece, {shown.cost * streams / PERIOD:.0%} of the core; median delay "
            f"{shown.delay * 1e3:.1f} ms, of which {shown.waited * 1e3:.1f} ms waiting for the core"
        )
    return notes


# The scenario ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Capacity:
    """The scenario: the cost of a piece is its row; what is held, what leaks and capacity are notes."""

    name: str = "capacity"
    told: list[str] = field(default_factory=list[str])

    @property
    def notes(self) -> list[str]:
        """What each contestant reaches, and who is left out."""
        return self.told

    def check(self) -> None:
        """Play a few answers: ours leaves what the rules by hand leave, and nobody changes prose.

        Raises:
            AssertionError: that is not so, or `safety()` leaks.
        """
        with asyncio.Runner() as runner:
            plays, _ = contestants()
            for answer in answers(2 * len(VALUES)):
                played = {name: runner.run(play(answer.pieces)) for name, play in plays.items()}
                readings = {name: read(answer, each) for name, each in played.items()}
                if played[OURS].text != played[FLOOR].text:
                    raise AssertionError(f"{OURS} gives {played[OURS].text!r}, by hand it is {played[FLOOR].text!r}")
                if readings[SAFETY].leaked or readings[OURS].leaked:
                    raise AssertionError(f"{OURS} leaks of {answer.value!r}")

    def rows(self, effort: Effort) -> list[Row]:
        """Play the answers in turns, forwards and backwards, then run ours with many streams at once."""
        plays, missing = contestants()
        readings = asyncio.run(measured(plays, answers(effort.repetitions)))
        if missing:
            self.told.append(f"capacity: not installed here, so left out: {', '.join(missing)}")
        self.told.extend(note(name, each) for name, each in readings.items())
        length = PIECES if effort == FULL else PIECES // 4
        alone = crowd(unguarded, 200, length).cost
        self.told.append(f"Really run, without a guard: {alone * 1e6:.1f} µs a piece are the event loop's own work")
        for name, workflow in ((OURS, by_rules()), (SAFETY, safety())):
            self.told.extend(confirmed(name, ours(workflow), length))
        figures = {name: median(reading.cost for reading in each) for name, each in readings.items()}
        title = f"stream, a piece of {SIZE} characters through three rules"
        return [Row(self.name, title, FLOOR_IS, figures, None)]


SCENARIO = Capacity()
