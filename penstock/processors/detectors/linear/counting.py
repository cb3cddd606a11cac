"""`CountingModel`: a linear model that minds how often a feature comes, not only that it does. Pure, deterministic.

A feature counts by the root of how often it comes, so that a long text with one bad word is not a bad text. The file is
that of `packing`. Roots are exact in IEEE arithmetic and the order of sums is fixed, so a margin is the same anywhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from penstock.processors.detectors.linear.packing import unpack
from penstock.processors.detectors.linear.reading import words
from penstock.processors.unicode import disguises

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.processors.detectors.linear.hashing import Recipe
    from penstock.processors.detectors.linear.packing import Head, Packed

_KEPT = 20_000  # words whose features are remembered
_LONGEST = 24  # letters of a word that is worth remembering
_ACCENT = re.compile("[\u0300-\u036f]")

Rows = dict[int, list[int]]
"""The places of a text's features, by how often they come; rising."""


class _Word(NamedTuple):
    data: bytes
    hash: int
    letters: tuple[int, ...]


class Counts:
    """Tells how often the features of a text come; safe to share between threads."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._shift = 32 - recipe.bits
        self._known: dict[str, _Word] = {}

    def rows(self, text: str) -> Rows:
        """Return the features of a text, which may be in any disguise."""
        rows: Rows = {}
        for place, count in self._counted(_folded(text)).items():
            rows.setdefault(count, []).append(place)
        return dict(sorted(rows.items()))

    def _counted(self, text: str) -> Counter[int]:
        found: list[int] = []
        hashes: list[int] = []
        runs: list[int] = []  # the hashes of the runs that end with the word before
        known, longest = self._known, self.recipe.words
        for name in words(text):
            word = known.get(name) or self._word(name)
            found += word.letters
            data = word.data
            runs = [word.hash, *[crc32(data, run) for run in runs[: longest - 1]]]
            hashes += runs
        shift = self._shift
        return Counter([*found, *[run >> shift for run in hashes]])

    def _word(self, name: str) -> _Word:
        data = name.encode("utf-8", "replace") + b" "
        word = _Word(data, crc32(data), tuple(sorted(set(self._letters(name)))))
        if len(name) <= _LONGEST:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[name] = word
        return word

    def _letters(self, name: str) -> list[int]:
        bounded = f"<{name}>"
        return [
            crc32(bounded[start : start + size].encode("utf-8", "replace"), size) >> self._shift
            for size in range(self.recipe.least, min(self.recipe.most, len(bounded)) + 1)
            for start in range(len(bounded) - size + 1)
        ]


class CountingModel:
    """A model ready for use; may be shared between threads.

    Attributes:
        heads: what it tells, as the file has it.
        notes: what the file says about itself.
    """

    def __init__(self, packed: Packed) -> None:
        self.heads = packed.heads
        self.notes = packed.notes
        self._counts = Counts(packed.recipe)

    def margins(self, text: str) -> Mapping[str, float]:
        """Return per head how far, and on which side, a text lies from the border."""
        rows = self._counts.rows(text)
        root = sqrt(sum(count * len(places) for count, places in rows.items()))
        return {head.name: _margin(head, rows, root) for head in self.heads}


def _margin(head: Head, rows: Mapping[int, Sequence[int]], root: float) -> float:
    if not root:
        return head.bias
    weight = head.weights.__getitem__
    return head.bias + head.scale * sum(sqrt(count) * sum(map(weight, places)) for count, places in rows.items()) / root


def _folded(text: str) -> str:
    """Return a text in small letters, disguises and accents undone."""
    if text.isascii() and "\x1b" not in text:
        return text.lower()
    decomposed = unicodedata.normalize("NFD", disguises.read(text).text.lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


@cache
def load(path: Path) -> CountingModel:
    """Return the model in a file, read once a process."""
    return CountingModel(unpack(path.read_bytes()))
