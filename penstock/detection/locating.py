"""`ValueLocator`: finds the places in a text of a value that a judge named, as written or as people read it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from penstock.detection.unicode import disguises

_MARK = re.compile("[\u0300-\u036f]")
_SIGNS = str.maketrans("‘’ʼ‚“”„«»‐‑‒–—", '\'\'\'\'"""""-----')
_UNPARTED = r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"  # words unspaced
_LETTER = re.compile(rf"[^\W\d_{_UNPARTED}]")
_SHORT = 2  # so few letters stand as a word, or they are no value: every other word holds them
_EDGES = "\"'()[]{}<>.,;:!?*_` "


class ValueLocator:
    """Finds values in one text. Case, accents, kinds of spaces and invisible characters make no difference."""

    def __init__(self, text: str) -> None:
        self._end = len(text)
        read = [(char, at) for at, given in enumerate(text) for char in _folded(given)]
        self._text = "".join(char for char, _ in read)
        self._places = [at for _, at in read]

    def find(self, value: str) -> list[tuple[int, int]]:
        """Return all places of a value: those where it is a word, or, if there are none, those within words."""
        words = _words(value)
        return self._all(words) or self._all(_words(" ".join(words).strip(_EDGES)))

    def _all(self, words: list[str]) -> list[tuple[int, int]]:
        said = " ".join(words)
        if not said or len(said) > len(self._text) or words[0] not in self._text:
            return []
        pattern = r"\s+".join(map(re.escape, words))
        forms = [_before(said[0]) + pattern + _behind(said[-1])]
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
    """Return what a character is compared as."""
    read = disguises.read(char).text
    return _MARK.sub("", unicodedata.normalize("NFD", read)).translate(_SIGNS).casefold()


def _words(value: str) -> list[str]:
    return "".join(map(_folded, value)).split()


def _before(char: str) -> str:
    """Return a pattern for what must not stand before a word that begins with a character."""
    return rf"(?<!{_LETTER.pattern})" if _LETTER.match(char) else r"(?<!\d)" if char.isdigit() else ""


def _behind(char: str) -> str:
    return rf"(?!{_LETTER.pattern})" if _LETTER.match(char) else r"(?!\d)" if char.isdigit() else ""
