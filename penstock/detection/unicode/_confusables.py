"""Finds letters that pass for ASCII ones: styled letters, and letters of other scripts where they do not belong. Pure.

Honest text in another script stays as it is. A letter is taken for a disguise if its word also holds ASCII letters, or
if its whole word could be Latin while nothing in the text proves that its script is really used.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.unicode._unicode_tables import LOOKALIKES, SCRIPT_RANGES

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLD = {ord(letter): ascii_ for row, latin in LOOKALIKES.values() for letter, ascii_ in zip(row, latin, strict=True)}
_SCRIPT_OF = {letter: script for script, (row, _) in LOOKALIKES.items() for letter in row}
_LOOKALIKE = re.compile(f"[{''.join(_SCRIPT_OF)}]")
_TELLING = {  # letters that only their own script has
    script: re.compile(f"(?![{LOOKALIKES[script][0]}])[{''.join(f'{chr(low)}-{chr(high)}' for low, high in ranges)}]")
    for script, ranges in SCRIPT_RANGES.items()
}
# Letterlike, circled, squared, full-width and mathematical letters and digits.
_STYLED = re.compile(
    "[\u2100-\u214f\u24b6-\u24e9\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\U0001f130-\U0001f149]+"
)
_WORD = re.compile("(?:[^\\W_]|[\u0300-\u036f])+")
_LATIN = re.compile("[A-Za-z]")
_SHORTEST_WORD = 2  # a single α in English is mathematics


class Disguise(NamedTuple):
    """A stretch that passes for ASCII letters, and those letters."""

    start: int
    end: int
    looks_like: str


def confusables(text: str) -> Iterator[Disguise]:
    """Yield the disguised stretches of a text in order; they are disjoint."""
    if text.isascii():
        return
    styled = list(_styled(text))
    plain = list(text)  # a styled letter makes its word a Latin one
    for at, _, letter in styled:
        plain[at] = letter
    yield from sorted([*styled, *_foreign("".join(plain) if styled else text)])


def _styled(text: str) -> Iterator[Disguise]:
    for run in _STYLED.finditer(text):
        for at, char in enumerate(run.group(), run.start()):
            plain = unicodedata.normalize("NFKC", char)
            if len(plain) == 1 and plain.isascii():
                yield Disguise(at, at + 1, plain)


def _foreign(text: str) -> Iterator[Disguise]:
    if not _LOOKALIKE.search(text):
        return
    latin = bool(_LATIN.search(text))
    at_home = {script for script, telling in _TELLING.items() if telling.search(text)}
    for word in _WORD.finditer(text):
        letters = word.group()
        if not letters.isascii() and _LOOKALIKE.search(letters) and latin and _is_disguise(letters, at_home):
            for found in _LOOKALIKE.finditer(text, word.start(), word.end()):
                yield Disguise(found.start(), found.end(), _FOLD[ord(found.group())])


def _is_disguise(word: str, at_home: set[str]) -> bool:
    if _LATIN.search(word):
        return True
    scripts = {_SCRIPT_OF.get(char) for char in word if char.isalpha()}
    return len(word) >= _SHORTEST_WORD and None not in scripts and not scripts & at_home
