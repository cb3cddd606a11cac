"""`foreign_language`: whether a text is plainly not English, for detectors that know English alone."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from penstock.detection.language.identifier import LanguageIdentifier

_WORD = deferred(r"[^\W\d_]+")
_LETTERS_ALONE = "".join(chr(code) if chr(code).isalpha() else " " for code in range(128))
_GROUP = re.Match[str].group
_MOST = 40  # words that are read
_READ = 1_000  # characters
_SIGNS = '"{}[]<>=_/;|'
_FEWEST = 12  # characters a sign: with more signs a text is code, data or a table
_ENGLISH = frozenset(
    [
        *("the", "of", "and", "to", "in", "is", "it", "you", "that", "for", "on", "are", "with", "my", "this", "be"),
        *("not", "have", "was", "but", "what", "your", "if", "we", "they", "can", "will", "how", "do", "at", "from"),
        *("all", "there", "just", "would", "should", "could", "please", "who", "why", "when", "because", "about"),
    ]
)
"""Words of which an English text has many."""

_SHARE = 0.15  # of the distinct words of a text; other languages have one or two that look the same
_LEAST = 5  # words; a shorter text in letters that English has is taken for English
_SURE = 0.8
_LAST_LATIN = "\u024f"

UNKNOWN = "und"
"""The code of a language that is not known (ISO 639-2)."""


def foreign_language(text: str) -> str | None:
    """Return the ISO 639 code of a text's language if it is plainly not English, and None if it may be English.

    It may be if it has words of English, if it is too short to tell, and if it has Latin letters and no known language.
    In other letters, an unknown language is `UNKNOWN`.

    Args:
        text: the text; of a long one the first forty words are read. Code, data and tables count as English.
    """
    text = text[:_READ]
    if sum(map(text.count, _SIGNS)) * _FEWEST > len(text):
        return None
    words = _first_words(text.lower())
    if len(words & _ENGLISH) >= max(_SHARE * len(words), 1):
        return None
    if len(words) < _LEAST and text.isascii():
        return None
    guess = _identifier().identify(text)
    if guess.code is not None and guess.confidence >= _SURE:
        return None if guess.code == "en" else guess.code
    letters = [letter for letter in text if letter.isalpha()]
    return UNKNOWN if sum(letter > _LAST_LATIN for letter in letters) > len(letters) / 2 else None


def _first_words(text: str) -> set[str]:
    """Return the distinct words among the first ones of a text; ASCII is cut by a table, in a fifth of the time."""
    if text.isascii():
        return {*text.translate(_LETTERS_ALONE).split()[:_MOST]}
    return {*map(_GROUP, islice(_WORD.finditer(text), _MOST))}


@cache
def _identifier() -> LanguageIdentifier:
    from penstock.detection.language.identifier import LanguageIdentifier  # loaded where a text may not be English

    return LanguageIdentifier()
