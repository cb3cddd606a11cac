"""Letters that are written apart (``h e l l o``, ``h-e-l-l-o``, one a line): `joined` puts them together."""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.detection.deferred import deferred
from penstock.detection.patterns.kinds import GLUED

LEAST_APART = 8
"""How many characters in a row must be written apart."""

# The first and the last letter may touch a sign, a tag, or a word of a script without blanks.
_FIRST = rf"(?:(?<!\S)\S|(?<!{GLUED})[^\W_])"
_BY_SPACE = deferred(
    rf"{_FIRST}(?:[ \t]{{1,4}}\S(?!\S)){{{LEAST_APART - 2},}}(?:[ \t]{{1,4}}(?:\S(?!\S)|[^\W_](?!{GLUED})))"
)
_END = r"(?=[ \t]*+(?:\r?\n|\Z))"
_BY_LINE = deferred(rf"(?<![^\n])[ \t]*+\S{_END}(?:[ \t]*+\r?(?:\n[ \t]*+){{1,2}}\S{_END}){{{LEAST_APART - 1},}}+")
_BLANK = deferred(r"\s+")
_SIGNS = ".-_*|~+·•"
_ANY_SIGN = f"[{re.escape(_SIGNS)}]"
_SIGNED = rf"[^\W_](?:{_ANY_SIGN}{{1,2}}[^\W_](?![^\W_]))+"
_BY_SIGN = deferred(rf"(?<![^\W_]){_SIGNED}(?:\s+{_SIGNED})*")
_SIGN = deferred(_ANY_SIGN)


_BLANKS = " \t"


class JoinedLetters(NamedTuple):
    """A text with letters that were written apart put together, and the place of each character in the given text."""

    text: str
    places: list[int]


def joined(text: str) -> JoinedLetters | None:
    """Return a text with letters that were written apart put together; None if there are none."""
    gone: set[int] = set()
    single = [*map(len, text.split())].count(1) >= LEAST_APART - 2  # or none stand between spaces or ends of lines
    for found in _BY_SPACE.finditer(text) if single else ():
        gone.update(_between(text, *found.span()))
    for found in _BY_LINE.finditer(text) if single else ():
        gone.update(_ends_between(text, *found.span()))
    signed = sum(map(text.count, _SIGNS)) >= LEAST_APART - 1
    for found in _BY_SIGN.finditer(text) if signed else ():
        signs = [found.start() + sign.start() for sign in _SIGN.finditer(found.group())]
        if len(signs) >= LEAST_APART - 1:
            gone.update(signs)
    if not gone:
        return None
    places = [at for at in range(len(text)) if at not in gone]
    return JoinedLetters("".join(text[at] for at in places), places)


def _between(text: str, start: int, end: int) -> list[int]:
    """Return the blanks to remove between letters: all, except the last of several, which separates words."""
    blanks = [at for at in range(start, end) if text[at] in _BLANKS]
    return [at for at in blanks if text[at - 1] not in _BLANKS or text[at + 1] in _BLANKS]


def _ends_between(text: str, start: int, end: int) -> list[int]:
    """Return the line ends to remove between letters, except the last of two; none in a column of numbers."""
    if 2 * sum(map(str.isalpha, text[start:end])) < sum(not char.isspace() for char in text[start:end]):
        return []
    gone: list[int] = []
    for blank in _BLANK.finditer(text, start, end):
        gone += range(blank.start(), blank.end() - (blank.group().count("\n") > 1))
    return gone
