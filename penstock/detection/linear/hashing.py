"""`Hasher`: which features of a text are there, as places in a table. Pure; it knows neither weights nor heads.

Runs of letters have the lower half of the table, runs of words and marks the upper one, so that a trainer can give them
a different say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from penstock.detection.linear.reading import folded, undisguised, words

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEPT = 20_000  # words whose features are remembered: some 10 MB at most
_LONGEST = 24  # letters of a word that is worth remembering; longer ones hardly come twice


class Recipe(NamedTuple):
    """What counts as a feature.

    Attributes:
        bits: the table has 2 to the power of ``bits`` places, 8 to 24.
        words: the longest run of words and signs.
        least: the shortest run of letters within a word, its two ends counted as letters.
        most: the longest one; 0 for none.
        marks: whether the ends of the text count as words, and words in capitals and breaks of lines as features.
    """

    bits: int = 16
    words: int = 3
    least: int = 3
    most: int = 5
    marks: bool = False


class _Word(NamedTuple):
    """A word's bytes, as they continue a run, its own hash, and the places that it has alone: letters and marks."""

    data: bytes
    hash: int
    places: tuple[int, ...]


def _hashed(name: str, places: tuple[int, ...] = ()) -> _Word:
    data = name.encode("utf-8", "replace") + b" "
    return _Word(data, crc32(data), places)


_FIRST, _LAST = _hashed("\x02"), _hashed("\x03")  # what no text holds: controls cannot be seen, and are gone by then


class Hasher:
    """Turns texts into places; safe to share between threads."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._shift = 33 - recipe.bits
        self._half = 1 << (recipe.bits - 1)
        self._known: dict[str, _Word] = {}

    def places(self, text: str) -> set[int]:
        """Return the places of the features of a text, which may be in any disguise."""
        found: set[int] = set()
        runs: list[int] = []  # the hashes of the runs that end with the word before
        all_runs: list[int] = []
        longest, marks = self.recipe.words, self.recipe.marks
        plain = undisguised(text)
        for word in self._marked(plain) if marks else self._words(plain):
            found.update(word.places)
            data = word.data
            runs = [word.hash, *[crc32(data, run) for run in runs[: longest - 1]]]
            all_runs += runs
        shift, half = self._shift, self._half
        found.update([half + (run >> shift) for run in all_runs])
        if marks:
            found.update(self._breaks(plain))
        return found

    def _words(self, text: str) -> Iterator[_Word]:
        known = self._known
        for name in words(text):
            yield known.get(name) or self._word(name)

    def _marked(self, text: str) -> Iterator[_Word]:
        yield _FIRST
        yield from self._words(text)
        yield _LAST

    def _word(self, name: str) -> _Word:
        plain = folded(name)
        places = {crc32(run, len(run)) >> self._shift for run in self._letters(plain)}
        if self.recipe.marks and len(name) > 1 and name.isupper():
            places |= {self._mark(b"capitals"), self._mark(b"capitals " + plain.encode("utf-8", "replace"))}
        word = _hashed(plain, tuple(places))
        if len(name) <= _LONGEST:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[name] = word
        return word

    def _letters(self, name: str) -> Iterator[bytes]:
        bounded = f"<{name}>"
        for size in range(self.recipe.least, min(self.recipe.most, len(bounded)) + 1):
            for start in range(len(bounded) - size + 1):
                yield bounded[start : start + size].encode("utf-8", "replace")

    def _breaks(self, text: str) -> list[int]:
        return [self._mark(b"lines %d" % size) for size in (1, 2) if "\n" * size in text]

    def _mark(self, name: bytes) -> int:
        return self._half + (crc32(b"\x01" + name) >> self._shift)
