"""`without_data` and `may_speak` keep random characters from a model that reads words.

Random letters have no words, but many of them together may look like an attack to a model of letters, and take it long.
The texts that such codes hide are read apart from this. A stretch of a run that may be words stays: orders without
spaces in the midst of data are orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    import re

_SIZE = 32  # characters that are judged together
_RUN = deferred(r"[A-Za-z0-9+/_=-]{60}[A-Za-z0-9+/_=-]*+")  # lines of a certificate have 64 characters, of mail 76
_STRETCH = deferred(rf"(?s:.){{{_SIZE}}}(?:(?s:.){{1,{_SIZE - 1}}}\Z)?")
_WORD = deferred("[a-z]{8}|[A-Z]{8}")
_DIGIT, _SMALL = deferred("[0-9]"), deferred("[a-z]")
_CAPITAL_WITHIN = deferred("(?<=[A-Za-z])[A-Z](?![a-z]{2})")  # begins no word, as in `readNextLine`
_CAPITALS = 4
"""Capitals behind letters that a stretch of data has: 32 random characters have 9, and 2 % of them fewer than 4."""


def without_data(text: str) -> str:
    """Return a text with a space for each stretch of a long run of base64 in which there are no words."""
    return _RUN.sub(_words_of, text) if len(text) > _SIZE else text


_SPOKEN = deferred(
    r"(?s)(?<![A-Za-z])(?:[A-Z]?[a-z]{2,}|[A-Z]{3,})(?![A-Za-z]).*?"
    r"(?<![A-Za-z])(?:[A-Z]?[a-z]{2,}|[A-Z]{3,})(?![A-Za-z])"  # two words
    r"|\s.*?\s.*?\s"  # or three pieces and more, whatever their letters are
    r"|[^\W\d_A-Za-z]{3}"  # or a word in another script
)


def may_speak(text: str) -> bool:
    """Return whether a text may be a sentence, by its form: bytes at random that happen to be legible are not.

    A sentence has two words, or white space at three places, or a word of another script than the English one.
    """
    return _SPOKEN.search(text) is not None


def _words_of(run: re.Match[str]) -> str:
    return _STRETCH.sub(lambda stretch: " " if _is_data(stretch.group()) else stretch.group(), run.group())


def _is_data(stretch: str) -> bool:
    """Return whether a stretch mixes digits and letters of both cases, as no words do that are written together."""
    if _WORD.search(stretch) or not _DIGIT.search(stretch) or not _SMALL.search(stretch):
        return False
    return len(_CAPITAL_WITHIN.findall(stretch)) >= _CAPITALS
