"""A few of the random agents; `python -m tests.workflows.agent.fuzz N FIRST` makes as many as are wanted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.workflows.agent.fuzz.__main__ import problems
from tests.workflows.agent.fuzz.laws import broken
from tests.workflows.agent.fuzz.play import streamed

pytestmark = pytest.mark.anyio

BETWEEN_ATTEMPTS = 100526
"""A check beside the model blocks it between two attempts, or just before the first is rejected: it is a race."""

SEEDS = (*range(40), 408, 549, 2009, 2169, 2290, 91095)
"""Five are cancelled: while the next answer is held, behind the verdict on an attempt, before ``finish``, while a call
waits for its verdict, while held answers are sent; in 549 a guard of the stream breaks over the result of a tool.
"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep what processors are made to do out of the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def test_random_agents_keep_the_laws() -> None:
    """However they end, streamed and whole."""
    assert {seed: found for seed in SEEDS if (found := await problems(seed))} == {}


async def test_a_check_that_blocks_between_two_attempts_is_told() -> None:
    """Whichever verdict comes first, so two requests are not compared."""
    assert [*broken(await streamed(BETWEEN_ATTEMPTS, "none"))] == []
