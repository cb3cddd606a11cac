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
from operator import mul
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from penstock.detection.linear.model import added, run_hashes, unpack
from penstock.detection.linear.reading import is_undisguised, undisguised, words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.detection.linear.model import Packed, Recipe

_ZERO = 128  # what a lane holds for a weight of nought
_KEPT = 20_000  # words whose features are remembered
_LONGEST = 24  # letters of a word that is worth remembering
_ACCENT = re.compile("[\u0300-\u036f]")

WeightRows = dict[int, list[int]]
"""The places of a text's features by how often they occur, in rising order."""


class _CountedWord(NamedTuple):
    """A word's bytes as they continue a run, its own hash, the places of its letters, and the lanes of these added."""

    data: bytes
    hash: int
    letters: tuple[int, ...]
    lanes: int


class _Counted(NamedTuple):
    """How often each feature of a text occurs, and the lanes of all of them added, each as often as it occurs."""

    places: Counter[int]
    lanes: int


def _no_lanes(places: Sequence[int]) -> int:
    del places
    return 0


class Counts:
    """Counts how often the features of a text occur; safe to share between threads.

    Args:
        recipe: what counts as a feature.
        add_lanes: adds the lanes of the weights at some places; a model that knows them for each word adds less.
    """

    def __init__(self, recipe: Recipe, add_lanes: Callable[[Sequence[int]], int] = _no_lanes) -> None:
        self.recipe = recipe
        self._add_lanes = add_lanes
        self._shift = 32 - recipe.bits
        self._known: dict[str, _CountedWord] = {}

    def rows(self, text: str) -> WeightRows:
        """Return the features of a text, which may be disguised."""
        rows: WeightRows = {}
        for place, count in self.counted(text).places.items():
            rows.setdefault(count, []).append(place)
        return dict(sorted(rows.items()))

    def counted(self, text: str) -> _Counted:
        """Return how often each feature of a text occurs, which may be disguised."""
        found = self._read(text)
        shift = self._shift
        levels = run_hashes(found, self.recipe.words)
        by_end = zip(*([*repeat(None, at), *level] for at, level in enumerate(levels)), strict=False)
        places = [run >> shift for runs in by_end for run in runs if run is not None]
        lanes = sum([word.lanes for word in found]) + self._add_lanes(places)
        return _Counted(Counter(chain(*[word.letters for word in found], places)), lanes)

    def _read(self, text: str) -> list[_CountedWord]:
        known, learn = self._known, self._word
        # Text in ASCII is cut into the same words whatever its case, and other models read it as it is written.
        names = words(text) if is_undisguised(text) else words(_folded(text))
        return [known.get(name) or learn(name) for name in names]

    def _word(self, name: str) -> _CountedWord:
        plain = name.lower() if name.isascii() else name
        data = plain.encode("utf-8", "replace") + b" "
        letters = tuple(sorted(set(self._letters(plain))))
        word = _CountedWord(data, crc32(data), letters, self._add_lanes(letters))
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
        self._lanes = PackedSums([head.weights for head in packed.heads])
        self._counts = Counts(packed.recipe, self._lanes.added)

    def margins(self, text: str) -> Mapping[str, float]:
        """Return, by head, how far and on which side of the border a text lies."""
        counted = self._counts.counted(text)
        if not counted.places:
            return {head.name: head.bias for head in self.heads}
        root = sqrt(counted.places.total())
        rows = self._lanes.sums_by_count(*counted)
        factors = [sqrt(count) for count, _ in rows]
        totals = [sum(map(mul, factors, column)) for column in zip(*(sums for _, sums in rows), strict=True)]
        return {
            head.name: head.bias + head.scale * total / root for head, total in zip(self.heads, totals, strict=True)
        }


class PackedSums:
    """The weights of all heads at a place as one number with 32 bits for each head, so that one sum adds all heads.

    Each field holds a weight plus 128, so none is negative; a field overflows only beyond 16 million places.
    """

    def __init__(self, heads: Sequence[Sequence[int]]) -> None:
        self._width = 4 * len(heads)
        self._heads = Struct(f"<{len(heads)}I")
        table = bytearray(self._width * len(heads[0]))
        for at, weights in enumerate(heads):
            table[4 * at :: self._width] = bytes(array("b", weights)).translate(_UNSIGNED)
        self._table = _LaneTable(bytes(table), self._width)

    def added(self, places: Sequence[int]) -> int:
        """Return the lanes at some places, added."""
        return added(self._table, places)

    def sums_by_count(self, counted: Mapping[int, int], lanes: int) -> list[tuple[int, list[int]]]:
        """Return the sums of the weights, by head, at places that occur equally often; from once upwards.

        Most places occur once. Their sum is what the others leave of ``lanes``, so they are not looked up one by one.

        Args:
            counted: how often each place occurs.
            lanes: the lanes at all places, added as often as each occurs.
        """
        several: WeightRows = {}
        for place, count in [(place, count) for place, count in counted.items() if count > 1]:
            several.setdefault(count, []).append(place)
        totals = {count: self.added(places) for count, places in sorted(several.items())}
        once = len(counted) - sum(map(len, several.values()))
        rest = lanes - sum(count * total for count, total in totals.items())
        found = [(1, self._parted(rest, once))] if once else []
        return [*found, *[(count, self._parted(total, len(several[count]))) for count, total in totals.items()]]

    def _parted(self, total: int, places: int) -> list[int]:
        """Return the sum of some lanes, by head."""
        zero = _ZERO * places
        return [value - zero for value in self._heads.unpack(total.to_bytes(self._width, "little"))]


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
