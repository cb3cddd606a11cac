"""`Hasher`: which features of a text are there, as places in a table. Pure; it knows neither weights nor heads."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from penstock.processors.detectors.linear.reading import words

_KEPT = 20_000  # words whose features are remembered: some 10 MB at most
_LONGEST = 24  # letters of a word that is worth remembering; longer ones hardly come twice


class Recipe(NamedTuple):
    """What counts as a feature.

    Attributes:
        bits: the table has 2 to the power of ``bits`` places, 8 to 24.
        words: the longest run of words and signs.
        least: the shortest run of letters within a word, its two ends counted as letters.
        most: the longest one; 0 for none.
    """

    bits: int = 16
    words: int = 3
    least: int = 3
    most: int = 5


class _Word(NamedTuple):
    """A word's bytes, as they continue a run, its own hash, and the places of its runs of letters."""

    data: bytes
    hash: int
    letters: tuple[int, ...]


class Hasher:
    """Turns texts into places; safe to share between threads."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._shift = 32 - recipe.bits
        self._known: dict[str, _Word] = {}

    def places(self, text: str) -> set[int]:
        """Return the places of the features of a text that is folded already."""
        found: set[int] = set()
        known, shift, longest = self._known, self._shift, self.recipe.words
        runs: list[int] = []  # the hashes of the runs that end with the word before
        for name in words(text):
            word = known.get(name) or self._word(name)
            found.update(word.letters)
            data = word.data
            runs = [word.hash, *(crc32(data, run) for run in runs[: longest - 1])]
            found.update([run >> shift for run in runs])
        return found

    def _word(self, name: str) -> _Word:
        data = name.encode("utf-8", "replace") + b" "
        word = _Word(data, crc32(data), tuple(set(self._letters(name))))
        if len(name) <= _LONGEST:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[name] = word
        return word

    def _letters(self, name: str) -> list[int]:
        shift, (_, _, least, most) = self._shift, self.recipe
        bounded = f"<{name}>"
        return [
            crc32(bounded[start : start + size].encode("utf-8", "replace"), size) >> shift
            for size in range(least, min(most, len(bounded)) + 1)
            for start in range(len(bounded) - size + 1)
        ]
