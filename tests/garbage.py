"""What a piece of work leaves for Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable

TRIES = 5


async def garbage_of(work: Callable[[], Awaitable[object]]) -> int:
    """Return how many objects the collector finds after a piece of work; the least of some tries.

    What is made once, and what a thread of an earlier test lets go of meanwhile, is found in some of them only.
    """
    return min([await _garbage_of(work) for _ in range(TRIES)])


async def _garbage_of(work: Callable[[], Awaitable[object]]) -> int:
    gc.collect()
    gc.disable()
    try:
        await work()
        return gc.collect()
    finally:
        gc.enable()
