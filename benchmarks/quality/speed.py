"""How fast a detector reads, in the processor's time: what else runs counts little; it knows no detector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import NamedTuple

TEXTS = 1_500
"""How many texts are read at most; evenly taken from all."""
ENOUGH = 0.4
"""The seconds that all passes together take at least …"""
PASSES = 3
"""… and how many passes there are at most; the fastest counts."""


class Speed(NamedTuple):
    """How much is read in a second of the processor's time.

    Attributes:
        texts: how many texts.
        megabytes: how many million bytes of UTF-8.
    """

    texts: float
    megabytes: float


def speed(read: Callable[[str], object], texts: Sequence[str]) -> Speed | None:
    """Return how fast texts are read one by one; None without texts. Tables are loaded before the clock starts."""
    if not texts:
        return None
    sample = texts[:: -(-len(texts) // TEXTS)]
    for text in sample[:20]:
        read(text)
    spent: list[float] = []
    while len(spent) < PASSES and (not spent or sum(spent) < ENOUGH):
        begun = process_time()
        for text in sample:
            read(text)
        spent.append(max(process_time() - begun, 1e-9))
    fastest = min(spent)
    return Speed(len(sample) / fastest, sum(len(text.encode()) for text in sample) / fastest / 1e6)
