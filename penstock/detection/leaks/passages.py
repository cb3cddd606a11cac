"""`Passages`: texts that are not to be shown, ready to be recognised by their words. It looks into no other text."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from penstock.detection.words import LONGEST, cut, spellings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ANCHOR = 4
"""How many words in a row must be a passage's own, somewhere in what is taken from it."""

_MASK = " ǂ "  # a word that no text holds; it comes through all variants
_SHORT = 4  # words that a text has at least to be recognised by them; what is shorter, anybody may say
_APART = 16  # places between two texts, more than a chain of words ever skips
_MOST = 32  # places of one pair of words that are followed up; a passage that repeats itself is recognised by the rest


class Passages:
    """Where the pairs of words stand in some texts, and what it takes to recognise each text.

    Attributes:
        pairs: for two words that follow one another, their places; places of different texts are far apart.
        firsts: words with which a pair begins.
        anchors: all sequences of `ANCHOR` words.
    """

    def __init__(self, texts: Iterable[str], least: float) -> None:
        """Index texts, given in small letters; of each ``least`` words must be found, or all if it has fewer."""
        self.pairs: dict[tuple[str, str], list[int]] = {}
        self.anchors: set[tuple[str, ...]] = set()
        self.needs: list[float] = []
        self.words: list[str] = []
        for text in texts:
            self._add(text, least)
        self.firsts = frozenset(first for first, _ in self.pairs)

    def __bool__(self) -> bool:
        """Tell whether there is anything to be recognised."""
        return bool(self.anchors)

    def _add(self, text: str, least: float) -> None:
        found = cut(text).lettered()
        words = [word if len(word) <= LONGEST else _MASK for word in found.words]
        base = len(self.needs)
        counted = sum(found.counts) if found.counts else len(words)
        if counted < _SHORT or len(words) < ANCHOR:
            return
        for at, pair in enumerate(zip(words, islice(words, 1, None), strict=False), base):
            places = self.pairs.setdefault(pair, [])
            if len(places) < _MOST:
                places.append(at)
        self.anchors.update(rows(words))
        self.words.extend([*words, *[""] * _APART])
        self.needs.extend([min(least, counted)] * (len(words) + _APART))


def rows(words: Sequence[str], length: int = ANCHOR) -> Iterator[tuple[str, ...]]:
    """Return all sequences of so many words."""
    return zip(*(islice(words, by, None) for by in range(length)), strict=False)


def masked(text: str, quotable: Iterable[str], least: int) -> str:
    """Return a text, all words of which that stand in quotable texts made unrecognisable: each keeps its place.

    Both are in small letters. Only ``least`` words or more in a row count, or the whole of a quotable text.
    """
    found = cut(text)
    gone: set[int] = set()
    for other in quotable:
        spelled = spellings(other)
        length = min(least, len(spelled))
        known = set(rows(spelled, length))
        for at, row in enumerate(rows(found.words, length)):
            if row in known:
                gone.update(range(at, at + length))
    pieces: list[str] = []
    done = 0
    for at in sorted(gone):
        pieces += [text[done : max(found.starts[at], done)], _MASK]
        done = max(found.ends[at], done)
    return "".join([*pieces, text[done:]])
