"""What holding text back costs: characters held, and time, for the regex filter's presets over prose and at its worst.

Characters held: after each chunk, how many have gone in and are not out. Time: against the same rules by hand on every
line once it is complete, which holds whole lines and costs one search each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import process_time
from typing import cast

import anyio
from harness import OURS, Contest, Effort, Row, Timed, Work, timed
from streaming import PRESETS, Keeps, cut, guard_of, prose, row_of, source, through

from penstock import Chunk, Workflow
from penstock.processors.text.regex_filter import PatternSearch

FLOOR_IS = "the same rules on each line once it is complete"
SUBSETS = (*((name,) for name in PRESETS), PRESETS)
SIZES = (1, 5, 40)
WORST = {
    "digits": ("0123456789", 100_000),
    "base64": ("QWxhZGRpbjpvcGVuIHNlc2FtZSBhbmQgbW9yZTs", 100_000),
    "letters without a space": ("abcdefghijklmnopqrstuvwxyz", 1_000_000),
    "a@a@a@": ("a@", 100_000),
    "emoji joined": ("\U0001f468\u200d\U0001f469\u200d\U0001f467", 100_000),
    "a letter, an invisible one": ("a\u200b", 100_000),
}


def workflow_of(presets: Sequence[str]) -> Workflow:
    """Return the filter alone."""
    return Workflow("filter").then(guard_of(presets))


async def contests() -> list[Contest]:
    """Return a contest for each choice of presets and size of chunks."""
    return [_contest(presets, size) for presets in SUBSETS for size in SIZES]


def _contest(presets: Sequence[str], size: int) -> Contest:
    chunks = cut(prose(), size)
    name = f"stream, a character of prose in chunks of {size} through the regex filter, {_named(presets)}"
    return Contest(name, FLOOR_IS, through(workflow_of(presets), chunks), by_lines(presets, chunks), per=len(prose()))


def _named(presets: Sequence[str]) -> str:
    return "all presets" if len(presets) == len(PRESETS) else presets[0]


def by_lines(presets: Sequence[str], chunks: Sequence[Chunk]) -> Work:
    """Return the hand-written way."""
    finder = cast("PatternSearch", guard_of(presets).search).finder

    def clean(text: str) -> str:
        for region in reversed(finder.unite(text, finder.find(text))):
            text = text[: region.start] + region.replacement + text[region.end :]
        return text

    async def floor(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            texts, line = [], ""
            async for chunk in source(chunks):
                line += chunk.text
                if "\n" in chunk.text:
                    done, _, line = line.rpartition("\n")
                    texts.append(clean(f"{done}\n"))
            texts.append(clean(line))
        return "".join(texts)

    return floor


def held(workflow: Workflow, chunks: Sequence[Chunk]) -> tuple[list[int], bool]:
    """Return how many characters were held after each chunk, and whether the stream was stopped."""
    counts: list[int] = []
    given = gone = 0

    def items() -> Iterator[Chunk]:
        nonlocal given
        for chunk in chunks:
            given += len(chunk.text)
            yield chunk
            counts.append(given - gone)

    with workflow.start_sync(records=False).process_output_stream(items()) as leaving:
        for chunk in leaving:
            gone += len(chunk.text)
    return counts, leaving.tripwire is not None


@dataclass(frozen=True, slots=True)
class HoldBack(Timed):
    """The scenario: time as in the others; what is held, and the worst texts, are notes."""

    told: list[str] = field(default_factory=list[str])

    @property
    def notes(self) -> list[str]:
        """What is held, what a character costs beyond a stream without a guard, and the worst texts."""
        return self.told

    def rows(self, effort: Effort) -> list[Row]:
        """Time, and tell what is held."""
        rows = Timed.rows(self, effort)
        unguarded = {size: anyio.run(partial(_unguarded, size, effort)) for size in SIZES}
        choices = [(presets, size) for presets in SUBSETS for size in SIZES]
        self.told.extend(_note(*choice, row, unguarded) for choice, row in zip(choices, rows, strict=True))
        self.told.extend(_worst(what, unit * (size // len(unit))) for what, (unit, size) in WORST.items())
        return rows


async def _unguarded(size: int, effort: Effort) -> float:
    work = through(row_of(Keeps, 1), cut(prose(), size))
    return (await timed({OURS: work}, effort))[OURS] / len(prose())


def _note(presets: Sequence[str], size: int, row: Row, unguarded: dict[int, float]) -> str:
    counts, _ = held(workflow_of(presets), cut(prose(), size))
    extra = (row.figures[OURS] - unguarded[size]) * 1e6
    return (
        f"Held in prose, chunks of {size}, {_named(presets)}: {_spread(counts)}; "
        f"{extra:.2f} µs more per character than without a guard"
    )


def _worst(what: str, text: str) -> str:
    chunks = cut(text, 5)
    start = process_time()
    counts, stopped = held(workflow_of(PRESETS), chunks)
    took = (process_time() - start) * 1e6 / (5 * len(counts))
    end = f"stopped after {5 * len(counts):,}" if stopped else "all of it left"
    return f"Worst texts, {what}, {len(text):,} characters in chunks of 5: {_spread(counts)}; {took:.2f} µs each; {end}"


def _spread(counts: list[int]) -> str:
    ordered = sorted(counts)
    mean, p99 = sum(ordered) / len(ordered), ordered[len(ordered) * 99 // 100]
    return f"{mean:.1f} characters on average, 99 % up to {p99:,}, at most {ordered[-1]:,}"


SCENARIO = HoldBack("hold_back", contests)
