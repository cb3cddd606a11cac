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
from itertools import chain, repeat
from math import sqrt
from struct import iter_unpack
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from penstock.detection.linear.model import run_hashes, unpack
from penstock.detection.linear.reading import is_undisguised, undisguised, words

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
        for place, count in self.counted(text).items():
            rows.setdefault(count, []).append(place)
        return dict(sorted(rows.items()))

    def counted(self, text: str) -> Counter[int]:
        """Return how often each feature of a text occurs, which may be disguised."""
        found = self._read(text)
        shift = self._shift
        levels = run_hashes(found, self.recipe.words)
        by_end = zip(*([*repeat(None, at), *level] for at, level in enumerate(levels)), strict=False)
        places = [run >> shift for runs in by_end for run in runs if run is not None]
        return Counter(chain(*[word.letters for word in found], places))

    def _read(self, text: str) -> list[_CountedWord]:
        known, learn = self._known, self._word
        # Text in ASCII is cut into the same words whatever its case, and other models read it as it is written.
        names = words(text) if is_undisguised(text) else words(_folded(text))
        return [known.get(name) or learn(name) for name in names]

    def _word(self, name: str) -> _CountedWord:
        plain = name.lower() if name.isascii() else name
        data = plain.encode("utf-8", "replace") + b" "
        word = _CountedWord(data, crc32(data), tuple(sorted(set(self._letters(plain)))))
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
        counted = self._counts.counted(text)
        if not counted:
            return {head.name: head.bias for head in self.heads}
        root = sqrt(counted.total())
        sums = [(sqrt(count), sums) for count, sums in self._lanes.sums_by_count(counted)]
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

    def sums_by_count(self, counted: Mapping[int, int]) -> list[tuple[int, list[int]]]:
        """Return the sums of the weights, by head, at places that occur equally often; from once upwards.

        Most places occur once. Their sum is that of all without the others', which saves a loop over them.
        """
        several: WeightRows = {}
        for place, count in [item for item in counted.items() if item[1] > 1]:
            several.setdefault(count, []).append(place)
        lanes = self._table.__getitem__
        totals = {count: sum(map(lanes, places)) for count, places in sorted(several.items())}
        once = len(counted) - sum(map(len, several.values()))
        rest = sum(map(lanes, counted)) - sum(totals.values())
        found = [(1, self._parted(rest, once))] if once else []
        return [*found, *[(count, self._parted(total, len(several[count]))) for count, total in totals.items()]]

    def _parted(self, total: int, places: int) -> list[int]:
        """Return the sum of some lanes, by head."""
        zero = _ZERO * places
        return [value - zero for (value,) in iter_unpack("<I", total.to_bytes(self._width, "little"))]


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
    decomposed = unicodedata.normalize("NFD", undisguised(text).lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


@cache
def load(path: Path) -> CountingModel:
    """Return the model in a file; each file is read once a process."""
    return CountingModel(unpack(path.read_bytes()))
