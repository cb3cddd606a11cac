"""Undoes letters set apart (``h e l l o``, ``h-e-l-l-o``, one a line), place by place. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

LEAST = 8
"""How many characters in a row must be set apart."""

_BY_SPACE = re.compile(rf"(?<!\S)\S(?:[ \t]{{1,4}}\S(?!\S)){{{LEAST - 1},}}")
_END = r"(?=[ \t]*+(?:\r?\n|\Z))"
_BY_LINE = re.compile(rf"(?<![^\n])[ \t]*+\S{_END}(?:[ \t]*+\r?(?:\n[ \t]*+){{1,2}}\S{_END}){{{LEAST - 1},}}+")
_BLANK = re.compile(r"\s+")
_SIGNS = r"[.\-_*|~+·•]"
_SIGNED = rf"[^\W_](?:{_SIGNS}{{1,2}}[^\W_](?![^\W_]))+"
_BY_SIGN = re.compile(rf"(?<![^\W_]){_SIGNED}(?:\s+{_SIGNED})*")
_SIGN = re.compile(_SIGNS)


_BLANKS = " \t"


class Joined(NamedTuple):
    """A text with its letters together; and, for each of its characters, where that stands in the text it was."""

    text: str
    places: list[int]


def joined(text: str) -> Joined | None:
    """Return a text with what was set apart put together; None if nothing was."""
    gone: set[int] = set()
    for found in _BY_SPACE.finditer(text):
        gone.update(_between(text, *found.span()))
    for found in _BY_LINE.finditer(text):
        gone.update(_ends_between(text, *found.span()))
    for found in _BY_SIGN.finditer(text):
        signs = [found.start() + sign.start() for sign in _SIGN.finditer(found.group())]
        if len(signs) >= LEAST - 1:
            gone.update(signs)
    if not gone:
        return None
    places = [at for at in range(len(text)) if at not in gone]
    return Joined("".join(text[at] for at in places), places)


def _between(text: str, start: int, end: int) -> list[int]:
    """Return the blanks that part letters: all, but the last of several, which part words."""
    blanks = [at for at in range(start, end) if text[at] in _BLANKS]
    return [at for at in blanks if text[at - 1] not in _BLANKS or text[at + 1] in _BLANKS]


def _ends_between(text: str, start: int, end: int) -> list[int]:
    """Return the ends of lines that part letters, but of two in a row the last; nothing of a column of numbers."""
    if 2 * sum(map(str.isalpha, text[start:end])) < sum(not char.isspace() for char in text[start:end]):
        return []
    gone: list[int] = []
    for blank in _BLANK.finditer(text, start, end):
        gone += range(blank.start(), blank.end() - (blank.group().count("\n") > 1))
    return gone
