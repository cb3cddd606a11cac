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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast
from zlib import crc32

from penstock.detection.linear.model import place_code, run_hashes, unpack
from penstock.detection.linear.reading import is_undisguised, undisguised, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from penstock.detection.linear.model import Packed, Recipe

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


_Columns: TypeAlias = "tuple[Sequence[bytes], Sequence[int], Sequence[bytes], Sequence[int]]"
"""Words as one row for each of their fields."""

_NO_WORDS: _Columns = ((), (), (), ())


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
        data, hashes, letters, _ = self._read(text)
        places, levels = self._places(data, hashes, letters)
        rows: WeightRows = {}
        for place, count in Counter(chain(places, _by_last_word(levels))).items():
            rows.setdefault(count, []).append(place)
        return dict(sorted(rows.items()))

    def counted(self, text: str) -> _Counted:
        """Return how often each feature of a text occurs, which may be disguised."""
        data, hashes, letters, lanes = self._read(text)
        places, levels = self._places(data, hashes, letters)
        longer = [*chain.from_iterable(levels[1:])]
        total = len(places) + len(levels[0]) + len(longer)
        return _Counted(Counter(chain(places, levels[0], longer)), total, sum(lanes) + self._add_lanes(longer))

    def _read(self, text: str) -> _Columns:
        """Return the words of a text, as a column of each of their fields."""
        # Text in ASCII is cut into the same words whatever its case, and other models read it as it is written.
        names = words(text) if is_undisguised(text) else words(_folded(text))
        found = [*map(self._known.get, names)]
        if not all(found):
            known, learn = self._known, self._word
            found = [known.get(name) or learn(name) for name in names]
        return cast("_Columns", tuple(zip(*found, strict=True)) or _NO_WORDS)

    def _places(
        self, data: Sequence[bytes], hashes: Sequence[int], letters: Sequence[bytes]
    ) -> tuple[Sequence[int], list[list[int]]]:
        """Return the places of the letters of words, and those of the runs of words by their length."""
        shift = self._shift
        levels = [[run >> shift for run in level] for level in run_hashes(data, hashes, self.recipe.words)]
        return array(self._code, b"".join(letters)), levels

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

    A negative weight borrows from the field above it; `_parted` pays that back. A field overflows only beyond 16
    million places. A number is made when its place is first met: to make all would take as long as to import.
    """

    def __init__(self, heads: Sequence[Sequence[int]]) -> None:
        self._weights = heads
        self._heads = Struct(f"<{len(heads)}i4x")
        self._signs = sum(_SIGN << 32 * at for at in range(len(heads)))
        self._present = 1 << 32 * len(heads)  # above all fields, so that no number is 0
        self._made = [0] * len(heads[0])  # by place; 0 if it is not made yet

    def added(self, places: Iterable[int]) -> int:
        """Return the lanes at some places, added."""
        made, lanes = self._made, self._lanes
        return sum([made[place] or lanes(place) for place in places])

    def _lanes(self, place: int) -> int:
        packed = int.from_bytes(self._heads.pack(*map(itemgetter(place), self._weights)), "little")
        self._made[place] = lanes = (packed ^ self._signs) - self._signs + self._present
        return lanes

    def sums_by_count(self, counted: Mapping[int, int], lanes: int) -> list[tuple[int, Sequence[int]]]:
        """Return the sums of the weights, by head, at places that occur equally often; from once upwards.

        Most places occur once. Their sum is what the others leave of ``lanes``, so they are not looked up one by one.

        Args:
            counted: how often each place occurs.
            lanes: the lanes at all places, added as often as each occurs.
        """
        made = self._made  # each place has its number: it is among those added
        several: dict[int, int] = {}
        for place, count in counted.items():
            if count > 1:
                several[count] = several.get(count, 0) + made[place]
        rest = lanes - sum([count * total for count, total in several.items()])
        return [(1, self._parted(rest)), *[(count, self._parted(total)) for count, total in sorted(several.items())]]

    def _parted(self, total: int) -> Sequence[int]:
        """Return the sum of some lanes, by head."""
        signs = self._signs
        return self._heads.unpack(((total + signs) ^ signs).to_bytes(self._heads.size, "little"))


_SIGN = 1 << 31
"""The highest bit of a field: added to a signed number and flipped, it gives the number as it is stored in bytes."""


def _folded(text: str) -> str:
    """Return a text in small letters, without disguises and accents."""
    decomposed = unicodedata.normalize("NFD", undisguised(text).lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


@cache
def load(path: Path) -> CountingModel:
    """Return the model in a file; each file is read once a process."""
    return CountingModel(unpack(path.read_bytes()))
