"""What a piece of work leaves for Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable

TRIES = 5


async def garbage_of(work: Callable[[], Awaitable[object]]) -> int:
    """Return how many objects the collector finds after a piece of work; the least of some tries.

    What is made once, and what a thread of an earlier test lets go of meanwhile, is found in some of them only.
    """
    await work()
    gc.collect()
    gc.freeze()  # what is there already is not looked through with each try
    gc.disable()
    try:
        found: list[int] = []
        for _ in range(TRIES):
            await work()
            found.append(gc.collect())
        return min(found)
    finally:
        gc.enable()
