"""`CountingModel`: a linear model that counts how often each term of a text occurs: a word, or a run of words.

A term counts with the root of its number, so that a word said over and over does not outweigh all others. A word has
many features: the runs of its letters, and itself. Their weights are added when the word is first met, so that a text
costs one addition a term. The file format is that of `LinearModel`. Roots are exact in IEEE arithmetic and the order of
sums is fixed, so a margin is the same on every machine.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import cache
from itertools import chain
from math import sqrt
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from zlib import crc32

from penstock.detection.deferred import deferred
from penstock.detection.linear.model import letter_hashes, run_hashes, unpack
from penstock.detection.linear.reading import is_undisguised, undisguised, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from penstock.detection.linear.model import Packed, Recipe

_KEPT = 20_000  # words that are remembered
_LONGEST = 24  # letters of a word that is worth remembering
_ACCENT = deferred("[\u0300-\u036f]")
T = TypeVar("T")


class _Word(NamedTuple, Generic[T]):
    """A word: its bytes as they continue a run, its hash, how many features it has, and their weight."""

    data: bytes
    hash: int
    size: int
    worth: T


class Terms(NamedTuple, Generic[T]):
    """The terms of a text, each as often as it occurs: first its words, then its runs of words, shorter ones first.

    Attributes:
        hashes: which terms they are.
        words: the weight of each word.
        runs: the place of each run, which is one feature.
        size: how many features all of them have.
    """

    hashes: Sequence[int]
    words: Sequence[T]
    runs: Sequence[int]
    size: int


class TermReader(Generic[T]):
    """Reads the terms of texts; safe to share between threads.

    Args:
        recipe: what counts as a feature.
        worth: returns the weight of a word from the places of its features; it is remembered.
    """

    def __init__(self, recipe: Recipe, worth: Callable[[Sequence[int]], T]) -> None:
        self.recipe = recipe
        self._worth = worth
        self._shift = 32 - recipe.bits
        self._known: dict[str, _Word[T]] = {}

    def read(self, text: str) -> Terms[T]:
        """Return the terms of a text, which may be disguised."""
        # Text in ASCII is cut into the same words whatever its case, and other models read it as it is written.
        names = words(text) if is_undisguised(text) else words(_folded(text))
        if not names:
            return Terms((), (), (), 0)
        known, learn = self._known.get, self._word
        data, hashes, sizes, worths = zip(*[known(name) or learn(name) for name in names], strict=True)
        longer = [*chain.from_iterable(run_hashes(data, hashes, self.recipe.words)[1:])]
        shift = self._shift
        return Terms((*hashes, *longer), worths, [run >> shift for run in longer], sum(sizes) + len(longer))

    def _word(self, name: str) -> _Word[T]:
        plain = name.lower() if name.isascii() else name
        data = plain.encode("utf-8", "replace") + b" "
        own = crc32(data)
        places = [*sorted({*self._letters(plain)}), own >> self._shift]
        word = _Word(data, own, len(places), self._worth(places))
        if len(name) <= _LONGEST:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[name] = word
        return word

    def _letters(self, name: str) -> list[int]:
        if name.isascii():
            return [own >> self._shift for own in letter_hashes(name, self.recipe)]
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
        notes: the header of the file.
    """

    def __init__(self, packed: Packed) -> None:
        self.heads = packed.heads
        self.notes = packed.notes
        self._lanes = PackedSums([head.weights for head in packed.heads])
        self._terms = TermReader(packed.recipe, self._lanes.added)
        self._sizes = [(head.name, head.bias, head.scale) for head in packed.heads]

    def margins(self, text: str) -> Mapping[str, float]:
        """Return, by head, how far and on which side of the border a text lies."""
        terms = self._terms.read(text)
        if not terms.size:
            return {head.name: head.bias for head in self.heads}
        lanes = dict(zip(terms.hashes, (*terms.words, *self._lanes.each(terms.runs)), strict=True))
        once = sum(lanes.values())
        more = [(damped(count) - ONCE) * lanes[term] for term, count in repeated(terms.hashes, len(lanes))]
        totals = self._lanes.parted(ONCE * once + sum(more))
        root = ONCE * sqrt(terms.size)
        return {
            name: bias + scale * total / root for (name, bias, scale), total in zip(self._sizes, totals, strict=True)
        }


ONCE = 256
"""What a term counts that occurs once."""


@cache
def damped(count: int) -> int:
    """Return the count of a term that occurs so often: the root of the number, in steps of one `ONCE`-th."""
    return round(ONCE * sqrt(count))


def repeated(terms: Sequence[int], distinct: int) -> list[tuple[int, int]]:
    """Return the terms that occur more than once, and how often; ``distinct`` is how many terms differ."""
    if distinct == len(terms):
        return []
    return [(term, count) for term, count in Counter(terms).items() if count > 1]


class PackedSums:
    """The weights of all heads at a place as one number with 64 bits for each head, so that one sum adds all heads.

    A negative weight borrows from the field above it; `parted` pays that back. A number is made when its place is first
    met: to make all would take as long as to import.
    """

    def __init__(self, heads: Sequence[Sequence[int]]) -> None:
        self._weights = heads
        self._heads = Struct(f"<{len(heads)}q8x")
        self._signs = sum(_SIGN << 64 * at for at in range(len(heads)))
        self._present = 1 << 64 * len(heads)  # above all fields, so that no number is 0
        self._made = [0] * len(heads[0])  # by place; 0 if it is not made yet

    def each(self, places: Iterable[int]) -> list[int]:
        """Return the lanes at some places."""
        made, lanes = self._made, self._lanes
        return [made[place] or lanes(place) for place in places]

    def added(self, places: Iterable[int]) -> int:
        """Return the lanes at some places, added."""
        return sum(self.each(places))

    def _lanes(self, place: int) -> int:
        packed = int.from_bytes(self._heads.pack(*map(itemgetter(place), self._weights)), "little")
        self._made[place] = lanes = (packed ^ self._signs) - self._signs + self._present
        return lanes

    def parted(self, lanes: int) -> Sequence[int]:
        """Return a sum of lanes by head."""
        signs = self._signs
        return self._heads.unpack(((lanes + signs) ^ signs).to_bytes(self._heads.size, "little"))


_SIGN = 1 << 63
"""The highest bit of a field: added to a signed number and flipped, it gives the number as it is stored in bytes."""


def _folded(text: str) -> str:
    """Return a text in small letters, without disguises and accents."""
    decomposed = unicodedata.normalize("NFD", undisguised(text).lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


@cache
def load(path: Path) -> CountingModel:
    """Return the model in a file; each file is read once a process."""
    return CountingModel(unpack(path.read_bytes()))
