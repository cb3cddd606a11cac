"""`ValueLocator`: finds the places in a text of a value that a judge named, as written or as people read it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from penstock.detection.deferred import deferred
from penstock.detection.unicode import disguises

_MARK = deferred("[\u0300-\u036f]")
_SIGNS = str.maketrans("‘’ʼ‚“”„«»‐‑‒–—", '\'\'\'\'"""""-----')
_UNPARTED = r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"  # words unspaced
_LETTER = deferred(rf"[^\W\d_{_UNPARTED}]")
_SHORT = 2  # so few letters stand as a word, or they are no value: every other word holds them
_LONG = 5  # so many characters, or two words, are the value wherever they stand
_ENDING = 2  # letters that a word may have behind a shorter value
_EDGES = "\"'()[]{}<>.,;:!?*_` "


class ValueLocator:
    """Finds values in one text. Case, accents, kinds of spaces and invisible characters make no difference."""

    def __init__(self, text: str) -> None:
        self._end = len(text)
        read = [(char, at) for at, given in enumerate(text) for char in _folded(given)]
        self._text = "".join(char for char, _ in read)
        self._places = [at for _, at in read]

    def find(self, value: str) -> list[tuple[int, int]]:
        """Return all places of a value, in order.

        A value of two words, or of five letters or more, is found within words, too; a shorter one as a word that may
        have an ending (a plural, a genitive). If there is no such place, it is found wherever it stands, unless it has
        one letter or two.
        """
        words = _words(value)
        return self._all(words) or self._all(_words(" ".join(words).strip(_EDGES)))

    def _all(self, words: list[str]) -> list[tuple[int, int]]:
        said = " ".join(words)
        if not said or len(said) > len(self._text) or words[0] not in self._text:
            return []
        pattern = r"\s+".join(map(re.escape, words))
        before, behind = _before(said[0]), _behind(said[-1])
        if len(words) > 1 or len(said) >= _LONG:
            before, behind = _by_digit(said[0], before), _by_digit(said[-1], behind)
        elif len(said) > _SHORT and _LETTER.match(said[-1]):
            behind = rf"(?!{_LETTER.pattern}{{{_ENDING + 1}}})"
        forms = [before + pattern + behind]
        forms += [pattern] if len(said) > _SHORT else []
        found = (re.finditer(form, self._text) for form in forms)
        places = ([self._back(*one.span()) for one in spans] for spans in found)
        none: list[tuple[int, int]] = []
        return next(filter(None, places), none)

    def _back(self, start: int, end: int) -> tuple[int, int]:
        """Return a stretch of the folded text as one of the given text, with invisible characters at its end."""
        return self._places[start], self._places[end] if end < len(self._places) else self._end


@lru_cache(maxsize=4096)
def _folded(char: str) -> str:
    """Return the form in which a character is compared."""
    read = disguises.read(char).text
    return _MARK.sub("", unicodedata.normalize("NFD", read)).translate(_SIGNS).casefold()


def _words(value: str) -> list[str]:
    return "".join(map(_folded, value)).split()


def _by_digit(char: str, edge: str) -> str:
    """Return the edge of a digit, which no other digit may stand beside; none for other characters."""
    return edge if char.isdigit() else ""


def _before(char: str) -> str:
    """Return a pattern for characters that must not stand before a word that begins with a character."""
    return rf"(?<!{_LETTER.pattern})" if _LETTER.match(char) else r"(?<!\d)" if char.isdigit() else ""


def _behind(char: str) -> str:
    return rf"(?!{_LETTER.pattern})" if _LETTER.match(char) else r"(?!\d)" if char.isdigit() else ""
