"""A guard that is slow to answer is asked about what has gathered meanwhile, not about each piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st

from penstock import Chunk, Edit, Workflow
from penstock.engine.streams import sources
from penstock.engine.text_guards.text_guard import TextGuard
from tests.laws import examples

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True, scope="module")
def _reads_ahead_at_once() -> Iterator[None]:
    """Have every look last long enough for more to be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "READ_AHEAD_AFTER", 0.0)
        yield


class Slow(TextGuard):
    """Hides *x*; each look takes much longer than to read the source."""

    id = "slow"
    reach = 1

    def __init__(self, turns: int = 100) -> None:
        self.turns = turns
        self.looks: list[str] = []

    async def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Find each *x*, in the end."""
        self.looks.append(text)
        for _ in range(self.turns):
            await anyio.lowlevel.checkpoint()
        return [Edit(at, at + 1, "#", "redact") for at, char in enumerate(text) if char == "x"]


async def pieces(*texts: str) -> AsyncIterator[Chunk]:
    """Yield pieces of one text."""
    for text in texts:
        await anyio.lowlevel.checkpoint()
        yield Chunk("text-delta", text, "1")


async def left_by(guard: TextGuard, *texts: str) -> str:
    """Return the text that a stream of pieces leaves."""
    workflow = Workflow("w").then(guard)
    async with workflow.start() as run, run.process_output_stream(pieces(*texts)) as chunks:
        return "".join([chunk.text async for chunk in chunks])


async def test_pieces_gather_while_a_guard_looks() -> None:
    """Fifteen pieces are judged in three looks or fewer: the first one, and what came meanwhile."""
    guard = Slow()
    assert await left_by(guard, *["ax"] * 15) == "a#" * 15
    assert len(guard.looks) <= 3


async def test_no_more_gathers_than_may() -> None:
    """A source is not read to its end while a guard looks: no more than `MOST_READ_AHEAD` characters are."""
    read = 0

    async def endless() -> AsyncIterator[Chunk]:
        nonlocal read
        while True:
            await anyio.lowlevel.checkpoint()
            read += 10
            yield Chunk("text-delta", "a" * 10, "1")

    workflow = Workflow("w").then(Slow(turns=2_000))
    async with workflow.start() as run, run.process_output_stream(endless()) as chunks:
        async for _ in chunks:
            break
    assert sources.MOST_READ_AHEAD / 2 < read < sources.MOST_READ_AHEAD + 100


@settings(max_examples=examples(25))
@given(st.lists(st.text("ax ", min_size=1, max_size=4), min_size=1, max_size=12), st.integers(0, 5))
def test_what_gathers_is_judged_like_the_whole(texts: list[str], turns: int) -> None:
    """However much gathers."""
    whole = "".join(texts)
    assert anyio.run(left_by, Slow(turns), *texts) == whole.replace("x", "#")
