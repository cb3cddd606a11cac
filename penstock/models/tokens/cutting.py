"""Where to cut a text so that what is left keeps to a number of tokens; it knows no stream and no message."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from penstock.models.tokens.boundaries import boundaries, last_boundary

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.models.tokens.counters import Counting

_BLOCK = 1_000  # characters that are counted at once on the way to the cut
_WORD = 512  # a longer word is searched by halving, which trusts counts to grow

_WORD_ENDS = re.compile(r"(?<=\S)(?=\s)")
_SENTENCE_ENDS = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+[」』”’）]*)")


def longest(counter: Counting, text: str, budget: int) -> int:
    """Return the length of the longest beginning of the text that has at most so many tokens.

    Of the beginnings that end in a word of more than 512 characters, it is the longest if counts never shrink.
    """
    if counter.fresh(text) <= budget:
        return len(text)
    if not counter.additive:
        return _halved(lambda size: counter.fresh(text[:size]), len(text), budget)
    start, spent = _blocks(counter, text, budget)
    for stop in [*boundaries(text, start), len(text)]:
        tokens = counter.fresh(text[start:stop])
        if spent + tokens > budget:
            return start + _in_word(counter, text[start:stop], budget - spent)
        start, spent = stop, spent + tokens
    return start


def _blocks(counter: Counting, text: str, budget: int) -> tuple[int, int]:
    """Return where a block begins that is too much, and the tokens before it."""
    start = spent = 0
    while len(text) - start > _BLOCK:
        stop = last_boundary(text[: start + _BLOCK], start)
        if stop == start:
            break
        tokens = counter.fresh(text[start:stop])
        if spent + tokens > budget:
            break
        start, spent = stop, spent + tokens
    return start, spent


def _in_word(counter: Counting, word: str, budget: int) -> int:
    if len(word) > _WORD:
        return _halved(lambda size: counter.fresh(word[:size]), len(word), budget)
    return next((size for size in range(len(word) - 1, 0, -1) if counter.fresh(word[:size]) <= budget), 0)


def _halved(tokens: Callable[[int], int], size: int, budget: int) -> int:
    return max(0, bisect_right(range(size + 1), budget, key=tokens) - 1)


def word_end(text: str, start: int, stop: int) -> int:
    """Return the last end of a word after ``start`` and up to ``stop``; ``start`` if there is none."""
    return _last(_WORD_ENDS, text, start, stop)


def sentence_end(text: str, start: int, stop: int) -> int:
    """Return the last end of a sentence after ``start`` and up to ``stop``; ``start`` if there is none."""
    return _last(_SENTENCE_ENDS, text, start, stop)


def _last(ends: re.Pattern[str], text: str, start: int, stop: int) -> int:
    found = start
    for match in ends.finditer(text, start):
        if match.end() > stop:
            break
        found = match.end()
    return found
