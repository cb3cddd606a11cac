"""Banned words: the rule that finds words and phrases, whole and in any letter case.

Like the other built-in rules it is searched in the text as it is written and as it reads without its disguise.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import regex

from penstock.detection.patterns.built_in import BuiltInRule
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace
from penstock.detection.unicode.disguises import BETWEEN_WORDS, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NAME = "banned-word"
"""The name of what is found."""

_OF_A_WORD = f"[^\\W_{BETWEEN_WORDS}]"  # what goes on with a word; scripts without spaces have no words that end
_SPACES = r"\s{1,64}"
_EXPANDED = (*range(0x80, 0x2000), *range(0xFB00, 0xFB20))  # where characters with a small form of several stand


def banned_words_rule(words: Iterable[str], replacement: str) -> BuiltInRule:
    """Return the rule for some words and phrases, of one character or more."""
    spelled = {" ".join(spelling.casefold().split()) for word in words for spelling in _spellings(word)}
    ways = [(word, [_ways(part) for part in word.split()]) for word in sorted(spelled, key=len, reverse=True) if word]
    patterns = (
        _edge(word[0], "<!") + _SPACES.join(map(_pattern, parts)) + _edge(word[-1], "!") for word, parts in ways
    )
    shape = StreamPattern("|".join(patterns), regex.IGNORECASE)
    firsts = {way[0] for _, parts in ways for way in parts[0][0]}

    def search(text: str, start: int, *, final: bool) -> Scan:
        found, hold = shape.walk(text, start, final=final)
        return [Trace(*match.span(), *match.span()) for match in found], hold

    return BuiltInRule(NAME, replacement, f"(?i:[{''.join(map(regex.escape, sorted(firsts)))}])", search)


def _spellings(word: str) -> tuple[str, str]:
    return unicodedata.normalize("NFKC", word), read(word).text


def _edge(char: str, kind: str) -> str:
    """Return a pattern for characters that must not stand beside a character at the edge of a word."""
    return f"(?{kind}{_OF_A_WORD})" if regex.match(_OF_A_WORD, char) else ""


def _pattern(parts: Sequence[Sequence[str]]) -> str:
    return "".join(
        f"(?:{'|'.join(map(regex.escape, ways))})" if len(ways) > 1 else regex.escape(ways[0]) for ways in parts
    )


def _ways(word: str) -> list[list[str]]:
    """Return how each part of a word in small letters may be written."""
    return [*_parts(word)]


def _parts(word: str) -> Iterator[list[str]]:
    at = 0
    while at < len(word):
        size = next((size for size in (3, 2) if word[at : at + size] in _small_forms()), 1)
        part = word[at : at + size]
        ways = (part, unicodedata.normalize("NFD", part), *_small_forms().get(part, ()))
        yield [*dict.fromkeys(ways)]
        at += size


@cache
def _small_forms() -> Mapping[str, Sequence[str]]:
    """Return the characters whose small form has several characters, by that form: ``ss`` for *ß*."""
    found: dict[str, list[str]] = {}
    for char in map(chr, _EXPANDED):
        if len(char.casefold()) > 1:
            found.setdefault(char.casefold(), []).append(char)
    return found
