"""Chunking invariance and the laws of graphs, for streams; invariance.py says what a case is."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from penstock import Chunk, Workflow
from tests.engine.streams.invariance import Dice, failing, make, streamed
from tests.engine.streams.toys import recut, sizes_of
from tests.laws import seeds


@pytest.fixture(autouse=True, scope="module")
def quiet_log() -> Iterator[None]:
    """Guards disagree here on purpose."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@pytest.mark.rest
@pytest.mark.parametrize("first", seeds([0, 1_000, 2_000, 3_000]))
async def test_no_way_to_cut_it_changes_what_leaves(first: int) -> None:
    """Any graph of guards, any answer, any chunks: what the whole answer becomes. Here a few hundred of the cases."""
    assert await failing(range(first, first + 60)) == []


async def ends(workflow: Workflow, source: list[Chunk]) -> tuple[str, bool]:
    """The text that leaves, and whether it was blocked."""
    out, blocked, _ = await streamed(workflow, source)
    return "".join(chunk.text for chunk in out), blocked


async def test_the_wrapper_of_a_data_chunk_is_left_alone() -> None:
    """Guards that look for what stands in the word *data* read the same in the stream as in the message."""
    assert await failing((70_031, 70_921, 9_102_086)) == []


@pytest.mark.parametrize("seed", seeds(range(20)))
async def test_cutting_a_sequence_anywhere_changes_nothing(seed: int) -> None:
    """What stands in a workflow inside is what stands in the one around it; one in parallel is that one."""
    dice = Dice(seed + 50_000)
    steps = [dice.toy() for _ in range(3)]
    answer = list(recut(dice.answer(), sizes_of((random.Random(seed).randrange(1, 5),))))  # noqa: S311 - no secret
    flat = Workflow("w")
    for step in steps:
        flat = flat.then(step)
    expected = await ends(flat, answer)

    for cut in range(1, 3):
        inner = Workflow("inner")
        for step in steps[cut:]:
            inner = inner.then(step)
        outer = Workflow("w")
        for step in steps[:cut]:
            outer = outer.then(step)
        assert await ends(outer.then(inner), answer) == expected
        assert await ends(outer.parallel(inner), answer) == expected


def test_the_same_seed_rolls_the_same_case() -> None:
    """What was found can be found again."""
    one, other = make(7), make(7)

    assert one.answer == other.answer
    assert str(one.workflow) == str(other.workflow)
