"""The simulation: how long pieces of streams wait for a core, and how many rows cores check beside one parent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

PERIOD = 0.01
"""The seconds between two pieces of a stream: 100 tokens a second."""

ARRIVALS = 40_000
"""How many pieces are simulated for each figure."""

SEED = 19


class Delays(NamedTuple):
    """How long a piece takes from when it arrives until it is checked, waiting included, in seconds."""

    median: float
    late: float


def streams_at(load: float, piece_seconds: float) -> int:
    """Return how many streams use that share of a core."""
    return int(load * PERIOD / piece_seconds)


def delays(pieces: Sequence[float], loop_seconds: float, load: float) -> Delays:
    """Simulate one core that checks pieces of many streams, first come, first served.

    Pieces arrive independently of each other, and each costs what one of the measured ones does. So a queue of the
    kind M/G/1 is simulated: a piece waits for what is left of the work before it (Lindley's recursion).

    Args:
        pieces: what measured pieces cost, each as likely as the others.
        loop_seconds: what the event loop does for each piece beside.
        load: the share of the core that is used, 0 to 1.
    """
    chance = random.Random(SEED)  # noqa: S311 - no secret
    costs = [piece + loop_seconds for piece in pieces]
    rate = load / (sum(costs) / len(costs))
    waiting, found = 0.0, list[float]()
    for _ in range(ARRIVALS):
        cost = costs[int(chance.random() * len(costs))]
        found.append(waiting + cost)
        waiting = max(0.0, waiting + cost - chance.expovariate(rate))
    found.sort()
    return Delays(found[len(found) // 2], found[len(found) * 99 // 100])


class Rows(NamedTuple):
    """How many rows some cores check in a second, and whether the parent is what limits them."""

    per_second: float
    parent_full: bool


def rows_with_one_parent(cores: int, parent_seconds: float, worker_seconds: float) -> Rows:
    """Return what cores check when one process reads and writes all rows, and the others check them.

    Parent and workers work at the same time, so the parent's share is not added to each row, as it is in Amdahl's law
    for one task: the cores share all work, until the parent is at work all the time. Nothing else slows many cores
    down here (what the universal scalability law calls coherency): two cores cannot show it. So it is an upper bound.
    """
    shared, most = cores / (parent_seconds + worker_seconds), 1 / parent_seconds
    return Rows(min(shared, most), shared > most)


def cores_that_fill_a_parent(parent_seconds: float, worker_seconds: float) -> float:
    """Return how many cores, the parent's included, keep one parent at work all the time."""
    return (parent_seconds + worker_seconds) / parent_seconds


def rows_with_a_limit(requests_per_minute: float, row_seconds: float) -> tuple[float, float]:
    """Return how many rows a second a provider's rate limit allows, one request a row, and how many cores they use."""
    per_second = requests_per_minute / 60
    return per_second, per_second * row_seconds
