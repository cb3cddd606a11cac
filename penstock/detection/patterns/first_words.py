r"""`first_words`: how the words begin that a match of a pattern begins with, so that few patterns are searched for.

A search with a pattern that begins with ``\b`` tries it at every character of a text. Whether one of its first words is
there at all is known from the set of the text's words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST = 4
"""Letters of a word that count."""

_SHORTEST = 2
_LITERAL = re.compile(r"([a-z]*)(?:(?P<times>[?*{])|(?P<sign>[ ',-]))?")
_GROUP = "(?:"


def first_words(pattern: str) -> frozenset[str]:
    r"""Return beginnings of words, in small letters, one of which begins every match of a pattern.

    The set is empty if that is not known: if a way to match does not begin with ``\b`` and two letters, or a word.
    """
    found = frozenset(_beginnings(pattern, bound=False))
    return frozenset() if "" in found else found


def beginnings_of(words: Iterable[str]) -> set[str]:
    """Return the beginnings of words, as `first_words` has them."""
    return {word[:length] for word in words for length in range(_SHORTEST, LONGEST + 1)}


def _beginnings(pattern: str, *, bound: bool) -> Iterator[str]:
    r"""Yield how the first word may begin; an empty text for a way that is not known. ``bound``: after a ``\b``."""
    for way in _ways(pattern):
        rest = way.removeprefix(r"\b")
        at_word = bound or rest != way
        if rest.startswith(_GROUP):
            end = _end_of_group(rest)
            optional = rest[end : end + 1] in ("?", "*", "{")
            inner = rest[len(_GROUP) : end - 1]
            yield from [""] if optional else _beginnings(inner, bound=at_word)
        else:
            yield _beginning(rest) if at_word else ""


def _beginning(way: str) -> str:
    found = _LITERAL.match(way)
    if found is None:
        return ""
    letters = found.group(1)[:-1] if found.group("times") else found.group(1)
    fewest = 1 if found.group("sign") else _SHORTEST  # a word that a sign ends is whole, and may be short
    return letters[:LONGEST] if len(letters) >= fewest else ""


def _ways(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern."""
    start = 0
    for at in [at for at, depth, char in _signs(pattern) if char == "|" and depth == 0]:
        yield pattern[start:at]
        start = at + 1
    yield pattern[start:]


def _end_of_group(pattern: str) -> int:
    """Return where the group ends that a pattern begins with."""
    return next((at + 1 for at, depth, char in _signs(pattern) if char == ")" and depth == 0), len(pattern))


def _signs(pattern: str) -> Iterator[tuple[int, int, str]]:
    """Yield the signs of a pattern that are no literals, each with its place and how many groups it lies within."""
    depth, at, in_class = 0, 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        else:
            depth -= char == ")"
            yield at, depth, char
            depth += char == "("
        at += 1
