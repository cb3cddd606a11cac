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
from itertools import chain
from math import sqrt
from operator import itemgetter, mul
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from penstock.detection.linear.model import place_code, run_hashes, unpack
from penstock.detection.linear.reading import is_undisguised, undisguised, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from penstock.detection.linear.model import Packed, Recipe

_ZERO = 128  # what a lane holds for a weight of nought
_KEPT = 20_000  # words whose features are remembered
_LONGEST = 24  # letters of a word that is worth remembering
_ACCENT = re.compile("[\u0300-\u036f]")

WeightRows = dict[int, list[int]]
"""The places of a text's features by how often they occur, in rising order."""


class _CountedWord(NamedTuple):
    """A word: its bytes as they continue a run, its own hash, the places of its letters, and its lanes.

    The places are packed as in an array: a text touches thousands, and numbers all over the memory take long to fetch.
    The lanes are those of its letters and of the word as a run of one, added.
    """

    data: bytes
    hash: int
    letters: bytes
    lanes: int


class _Counted(NamedTuple):
    """How often each feature of a text occurs, how many that are, and the lanes of all of them added."""

    places: Mapping[int, int]
    total: int
    lanes: int


def _no_lanes(places: Iterable[int]) -> int:
    del places
    return 0


class Counts:
    """Counts how often the features of a text occur; safe to share between threads.

    Args:
        recipe: what counts as a feature.
        add_lanes: adds the lanes of the weights at some places; a model that knows them for each word adds less.
    """

    def __init__(self, recipe: Recipe, add_lanes: Callable[[Iterable[int]], int] = _no_lanes) -> None:
        self.recipe = recipe
        self._add_lanes = add_lanes
        self._shift = 32 - recipe.bits
        self._code = place_code(recipe)
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
        if not found:
            return _Counted({}, 0, 0)
        data, hashes, letters, lanes = zip(*found, strict=True)
        shift = self._shift
        levels = [[run >> shift for run in level] for level in run_hashes(data, hashes, self.recipe.words)]
        places = array(self._code, b"".join(letters))
        runs = [*_by_last_word(levels)]
        longer = chain.from_iterable(levels[1:])
        total = len(places) + len(runs)
        return _Counted(Counter(chain(places, runs)), total, sum(lanes) + self._add_lanes(longer))

    def _read(self, text: str) -> list[_CountedWord]:
        known, learn = self._known, self._word
        # Text in ASCII is cut into the same words whatever its case, and other models read it as it is written.
        names = words(text) if is_undisguised(text) else words(_folded(text))
        return [known.get(name) or learn(name) for name in names]

    def _word(self, name: str) -> _CountedWord:
        plain = name.lower() if name.isascii() else name
        data = plain.encode("utf-8", "replace") + b" "
        own = crc32(data)
        letters = sorted(set(self._letters(plain)))
        lanes = self._add_lanes([*letters, own >> self._shift])
        word = _CountedWord(data, own, array(self._code, letters).tobytes(), lanes)
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


def _by_last_word(levels: Sequence[Sequence[int]]) -> Iterable[int]:
    """Return what there is of each run by the word that the run ends with, shorter runs first."""
    longest, count = len(levels), len(levels[0])
    begun = [levels[at][end - at] for end in range(min(longest - 1, count)) for at in range(end + 1)]
    whole = zip(*[level[longest - 1 - at :] for at, level in enumerate(levels)], strict=True)
    return chain(begun, chain.from_iterable(whole))


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
        self._sizes = [(head.name, head.bias, head.scale) for head in packed.heads]

    def margins(self, text: str) -> Mapping[str, float]:
        """Return, by head, how far and on which side of the border a text lies."""
        counted = self._counts.counted(text)
        if not counted.places:
            return {head.name: head.bias for head in self.heads}
        root = sqrt(counted.total)
        rows = self._lanes.sums_by_count(counted.places, counted.lanes)
        factors = [sqrt(count) for count, _ in rows]
        totals = [sum(map(mul, factors, column)) for column in zip(*(sums for _, sums in rows), strict=True)]
        sized = zip(self._sizes, totals, strict=True)
        return {name: bias + scale * total / root for (name, bias, scale), total in sized}


class PackedSums:
    """The weights of all heads at a place as one number with 32 bits for each head, so that one sum adds all heads.

    Each field holds a weight plus 128, so none is negative; a field overflows only beyond 16 million places. A number
    is made when its place is first met: to make all would take as long as to import.
    """

    def __init__(self, heads: Sequence[Sequence[int]]) -> None:
        self._weights = [bytes(array("b", weights)).translate(_UNSIGNED) for weights in heads]
        self._heads = Struct(f"<{len(heads)}I")
        self._made = [0] * len(heads[0])  # by place; 0 if it is not made yet

    def added(self, places: Iterable[int]) -> int:
        """Return the lanes at some places, added."""
        made, lanes = self._made, self._lanes
        return sum([made[place] or lanes(place) for place in places])

    def _lanes(self, place: int) -> int:
        packed = self._heads.pack(*map(itemgetter(place), self._weights))
        self._made[place] = lanes = int.from_bytes(packed, "little")
        return lanes

    def sums_by_count(self, counted: Mapping[int, int], lanes: int) -> list[tuple[int, list[int]]]:
        """Return the sums of the weights, by head, at places that occur equally often; from once upwards.

        Most places occur once. Their sum is what the others leave of ``lanes``, so they are not looked up one by one.

        Args:
            counted: how often each place occurs.
            lanes: the lanes at all places, added as often as each occurs.
        """
        several: WeightRows = {}
        for place, count in counted.items():
            if count > 1:
                if count in several:
                    several[count].append(place)
                else:
                    several[count] = [place]
        once = len(counted) - sum(map(len, several.values()))
        totals = {count: self.added(places) for count, places in sorted(several.items())}
        rest = lanes - sum([count * total for count, total in totals.items()])
        found = [(1, self._parted(rest, once))] if once else []
        return [*found, *[(count, self._parted(total, len(several[count]))) for count, total in totals.items()]]

    def _parted(self, total: int, places: int) -> list[int]:
        """Return the sum of some lanes, by head."""
        zero = _ZERO * places
        return [value - zero for value in self._heads.unpack(total.to_bytes(self._heads.size, "little"))]


_UNSIGNED = bytes((byte + _ZERO) % 256 for byte in range(256))
"""By the byte of a signed weight, the byte of the weight plus 128."""


def _folded(text: str) -> str:
    """Return a text in small letters, without disguises and accents."""
    decomposed = unicodedata.normalize("NFD", undisguised(text).lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


@cache
def load(path: Path) -> CountingModel:
    """Return the model in a file; each file is read once a process."""
    return CountingModel(unpack(path.read_bytes()))
