"""Searches in long texts, a stretch at a time: a single call of `re` over a long text would stop all threads.

The patterns are short: a match, and what decides about it, is within `WIDEST` characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.workers import PIECE, checkpoint

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

WIDEST = 256
"""Characters behind the beginning of a match that decide about it."""


def stretches(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where the stretches of a text begin and end, from a place on."""
    for low in range(start, len(text), PIECE):
        checkpoint()
        yield low, min(low + PIECE, len(text))


def is_long(text: str, start: int) -> bool:
    """Return whether a text is too long from a place on to be read by one call."""
    return len(text) - start > 2 * PIECE


def matches_somewhere(pattern: re.Pattern[str], text: str, start: int) -> bool:
    """Return whether a pattern matches anywhere in a text from a place on."""
    if not is_long(text, start):
        return pattern.search(text, start) is not None
    return any(pattern.search(text, low, high + WIDEST) for low, high in stretches(text, start))


def matches(pattern: re.Pattern[str], text: str, start: int, end: int | None = None) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern from a place on, up to an end (None, the default, for that of the text)."""
    end = len(text) if end is None else end
    if end - start <= 2 * PIECE:
        yield from pattern.finditer(text, start, end)
        return
    reach = start
    for low in range(start, end, PIECE):
        checkpoint()
        high = min(low + PIECE, end)
        for found in pattern.finditer(text, max(low, reach), min(high + WIDEST, end)):
            if found.start() >= high:
                break
            reach = found.end()
            yield found
