"""`CountingModel`: a linear model that counts how often each feature occurs.

A feature counts with the square root of its number, so that a long text with one bad word is not a bad text. The file
format is that of `LinearModel`. Roots are exact in IEEE arithmetic and the order of sums is fixed, so a margin is the
same on every machine.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from functools import cache
from math import sqrt
from struct import iter_unpack
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from penstock.detection.linear.model import unpack
from penstock.detection.linear.reading import words
from penstock.detection.unicode import disguises

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.detection.linear.model import Packed, Recipe

_ZERO = 128  # what a lane holds for a weight of nought
_KEPT = 20_000  # words whose features are remembered
_LONGEST = 24  # letters of a word that is worth remembering
_ACCENT = re.compile("[\u0300-\u036f]")

WeightRows = dict[int, list[int]]
"""The places of a text's features by how often they occur, in rising order."""


class _CountedWord(NamedTuple):
    data: bytes
    hash: int
    letters: tuple[int, ...]


class Counts:
    """Counts how often the features of a text occur; safe to share between threads."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._shift = 32 - recipe.bits
        self._known: dict[str, _CountedWord] = {}

    def rows(self, text: str) -> WeightRows:
        """Return the features of a text, which may be disguised."""
        rows: WeightRows = {}
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

    def _word(self, name: str) -> _CountedWord:
        data = name.encode("utf-8", "replace") + b" "
        word = _CountedWord(data, crc32(data), tuple(sorted(set(self._letters(name)))))
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
        heads: the heads, as in the file.
        notes: what the header of the file says.
    """

    def __init__(self, packed: Packed) -> None:
        self.heads = packed.heads
        self.notes = packed.notes
        self._counts = Counts(packed.recipe)
        self._lanes = PackedSums([head.weights for head in packed.heads])

    def margins(self, text: str) -> Mapping[str, float]:
        """Return, by head, how far and on which side of the border a text lies."""
        rows = self._counts.rows(text)
        if not rows:
            return {head.name: head.bias for head in self.heads}
        root = sqrt(sum(count * len(places) for count, places in rows.items()))
        sums = [(sqrt(count), self._lanes.sums(places)) for count, places in rows.items()]
        totals = [sum(factor * each[at] for factor, each in sums) for at in range(len(self.heads))]
        return {
            head.name: head.bias + head.scale * total / root for head, total in zip(self.heads, totals, strict=True)
        }


class PackedSums:
    """The weights of all heads at a place as one number with 32 bits for each head, so that one sum adds all heads.

    Each field holds a weight plus 128, so none is negative; a field overflows only beyond 16 million places.
    """

    def __init__(self, heads: Sequence[Sequence[int]]) -> None:
        self._width = 4 * len(heads)
        table = bytearray(self._width * len(heads[0]))
        for at, weights in enumerate(heads):
            table[4 * at :: self._width] = bytes(array("b", weights)).translate(_UNSIGNED)
        self._table = _LaneTable(bytes(table), self._width)

    def sums(self, places: Sequence[int]) -> list[int]:
        """Return, by head, the sum of the weights at some places."""
        total = sum(map(self._table.__getitem__, places)).to_bytes(self._width, "little")
        zero = _ZERO * len(places)
        return [value - zero for (value,) in iter_unpack("<I", total)]


_UNSIGNED = bytes((byte + _ZERO) % 256 for byte in range(256))
"""By the byte of a signed weight, the byte of the weight plus 128."""


class _LaneTable(dict[int, int]):
    """The lanes by place. A number is made when its place is first met: to make all would take as long as to import."""

    def __init__(self, table: bytes, width: int) -> None:
        super().__init__()
        self._bytes = table
        self._width = width

    def __missing__(self, place: int) -> int:
        at = place * self._width
        lanes = self[place] = int.from_bytes(self._bytes[at : at + self._width], "little")
        return lanes


def _folded(text: str) -> str:
    """Return a text in small letters, without disguises and accents."""
    if text.isascii() and "\x1b" not in text:
        return text.lower()
    decomposed = unicodedata.normalize("NFD", disguises.read(text).text.lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


@cache
def load(path: Path) -> CountingModel:
    """Return the model in a file; each file is read once a process."""
    return CountingModel(unpack(path.read_bytes()))
