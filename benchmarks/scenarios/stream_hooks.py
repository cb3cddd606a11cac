"""A stream of 10,000 chunks through hooks, against a loop of the calls: how many hooks, which, nested, how long."""

from __future__ import annotations

from harness import Contest, Timed
from streaming import CHUNKS, Keeps, Swaps, SwapsText, by_hand, pieces, row_of, through

from penstock import Workflow

FLOOR_IS = "an async generator that calls each hook with a context made before; None drops"
LENGTHS = (1_000, 10_000, 100_000)
TARGETS = {5: 1.3}
"""How often ours may cost what the calls cost, by the number of hooks that do nothing."""


async def contests() -> list[Contest]:
    """Return the contests, their workflows compiled."""
    return [*_counts(), *_working(), _nested(), *_lengths()]


def _counts() -> list[Contest]:
    chunks = pieces()
    made: list[Contest] = []
    for count in (1, 3, 5):
        row = row_of(Keeps, count)
        name = f"stream, a chunk through {count} sync hook{'s' * (count > 1)}, identity"
        made.append(Contest(name, FLOOR_IS, through(row, chunks), by_hand(row, chunks), TARGETS.get(count), per=CHUNKS))
    return made


def _working() -> list[Contest]:
    chunks = pieces(size=40)
    free, claiming = row_of(Swaps, 5), row_of(SwapsText, 5)
    name = "stream, a chunk through 5 sync hooks that rewrite"
    return [
        Contest(f"{name} it", FLOOR_IS, through(free, chunks), by_hand(free, chunks), 1.1, per=CHUNKS),
        Contest(
            f"{name} its text, and are held to that",
            FLOOR_IS,
            through(claiming, chunks),
            by_hand(claiming, chunks),
            1.1,
            per=CHUNKS,
        ),
    ]


def _nested() -> Contest:
    chunks = pieces()
    row = row_of(Keeps, 5)
    nested = Workflow("outer").then(row)
    name = "stream, a workflow of 5 sync hooks as a processor"
    return Contest(
        name, "the same five in a plain list", through(nested, chunks), through(row, chunks), 1.2, per=CHUNKS
    )


def _lengths() -> list[Contest]:
    row = row_of(Keeps, 3)
    made: list[Contest] = []
    for length in LENGTHS:
        chunks = pieces(length)
        name = f"stream of {length:,} chunks, 3 sync hooks, a chunk"
        made.append(Contest(name, FLOOR_IS, through(row, chunks), by_hand(row, chunks), per=length))
    return made


SCENARIO = Timed("stream_hooks", contests)
