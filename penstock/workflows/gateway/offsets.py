"""Where a place in a text is after the text was edited: for annotations that say which characters they are about."""

from __future__ import annotations

import re
from bisect import bisect_right
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WORDS = re.compile(r"\w+|\W", re.DOTALL)
_MOST_WORDS = 4_000
"""More words than these are not compared one by one: it takes too long."""


class _OffsetRun(NamedTuple):
    """A stretch of the text, and what became of it.

    Attributes:
        was: where it began.
        now: where it begins now.
        length: how long it was.
        length_now: how long it is now.
        is_same: whether it says the same.
    """

    was: int
    now: int
    length: int
    length_now: int
    is_same: bool


class Moves:
    """Where the places of a text are after it was edited.

    Args:
        pieces: the text piece by piece: as it came, and as it left. Neighbours that changed are compared together.
    """

    def __init__(self, pieces: Iterable[tuple[str, str]]) -> None:
        self._runs = list(_runs(pieces))
        self._starts = [run.was for run in self._runs]

    def moved(self, place: int, *, is_end: bool) -> int:
        """Return where a place is now. One within a changed stretch moves to the edge of the new text.

        Args:
            place: the place, in characters.
            is_end: whether it ends a span; else it begins one.
        """
        if place <= 0 or not self._runs:
            return place
        # The end of a span belongs to what stands before it, its beginning to what stands behind it.
        run = self._runs[max(bisect_right(self._starts, place - 1 if is_end else place) - 1, 0)]
        inside = place - run.was
        if run.is_same:
            return run.now + inside
        if inside > run.length:  # behind the text
            return run.now + run.length_now + inside - run.length
        return run.now + (run.length_now if is_end else 0)


def _runs(pieces: Iterable[tuple[str, str]]) -> Iterator[_OffsetRun]:
    was = now = 0
    for old, new in _stretches(pieces):
        if old == new:
            yield _OffsetRun(was, now, len(old), len(new), is_same=True)
        else:
            yield from _changed(old, new, was, now)
        was, now = was + len(old), now + len(new)
    yield _OffsetRun(was, now, 0, 0, is_same=True)


def _stretches(pieces: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pieces; neighbours that changed are one."""
    old: list[str] = []
    new: list[str] = []
    for came, left in pieces:
        if came != left:
            old.append(came)
            new.append(left)
            continue
        if old or new:
            yield "".join(old), "".join(new)
            old, new = [], []
        yield came, left
    if old or new:
        yield "".join(old), "".join(new)


def _changed(old: str, new: str, was: int, now: int) -> Iterator[_OffsetRun]:
    """Yield the runs of a stretch that changed, compared word by word."""
    words, words_now = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(words), len(words_now)) > _MOST_WORDS:
        yield _OffsetRun(was, now, len(old), len(new), is_same=False)
        return
    for kind, start, end, start_now, end_now in SequenceMatcher(None, words, words_now).get_opcodes():
        length, length_now = (
            sum(map(len, words[start:end])),
            sum(map(len, words_now[start_now:end_now])),
        )
        if length:
            yield _OffsetRun(was, now, length, length_now, is_same=kind == "equal")
        was, now = was + length, now + length_now
