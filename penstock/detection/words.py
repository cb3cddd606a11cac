"""Cuts a text into words, with what each counts; characters are words' parts where a script has no spaces. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HAN = "\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
_BEYOND = re.compile("[\u0590-\u1fff\u2c00-\U0003ffff]")  # scripts with marks of their own, or without spaces
_ASCII_WORD = re.compile(r"[a-z0-9]+")  # in small letters
_WORD = re.compile(r"[^\W_]+")
_WORD_BEYOND = regex.compile(
    rf"[{_HAN}]|[{_UNSPACED}]\p{{M}}*|(?:[\p{{L}}\p{{N}}--[{_HAN}{_UNSPACED}]]\p{{M}}*)+", regex.V1
)
_OF_HAN = re.compile(f"[{_HAN}]")
_OF_UNSPACED = re.compile(f"[{_UNSPACED}]")

_HAN_LENGTH, _HAN_COUNTS = 3, 0.5
_UNSPACED_LENGTH, _UNSPACED_COUNTS = 6, 0.25


LONGEST = 40
"""How many characters a word has at most; a longer one is no word, and may be cut."""


class Words(NamedTuple):
    """The words of a text, in order.

    Attributes:
        words: the words; where a script has no spaces, each character with those that follow it.
        starts: where each begins.
        ends: where each ends.
        counts: what each counts as, in words; empty if each is one.
    """

    words: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    counts: Sequence[float] = ()

    def lettered(self) -> Words:
        """Return the words without numbers: whoever counts the words of a text does not change it."""
        kept = [index for index, word in enumerate(self.words) if not word.isdigit()]
        if len(kept) == len(self.words):
            return self
        starts, ends = ([row[index] for index in kept] for row in (self.starts, self.ends))
        counts = [self.counts[index] for index in kept] if self.counts else ()
        return Words([self.words[index] for index in kept], starts, ends, counts)

    def begin(self, at: int) -> int:
        """Return where the word begins that a place lies within; the place itself if it lies in none."""
        word = bisect_right(self.starts, at) - 1
        if word < 0 or at >= self.ends[word] or self.ends[word] - self.starts[word] > LONGEST:
            return at
        return self.starts[word]


NO_WORDS = Words((), (), ())


def spellings(text: str) -> list[str]:
    """Return the words alone."""
    if text.isascii():
        return _ASCII_WORD.findall(text)
    return _WORD.findall(text) if _BEYOND.search(text) is None else list(cut(text).words)


def cut(text: str) -> Words:
    """Return the words of a text in small letters, with their places."""
    if not text.isascii() and _BEYOND.search(text) is not None:
        return _shingled(text)
    word = _ASCII_WORD if text.isascii() else _WORD
    found = [match.span() for match in word.finditer(text)]
    return Words(word.findall(text), [start for start, _ in found], [end for _, end in found])


def known_words(text: str, *, final: bool, cut_off: bool = False) -> tuple[Words, int]:
    """Return the words that more text cannot change, and where the first begins that it can.

    ``cut_off``: the text begins with the rest of what is too long for a word.
    """
    words = cut(text)
    if cut_off and words.words and words.starts[0] == 0:
        words = words._replace(words=["", *words.words[1:]])
    known = len(words.words)
    while known and not final and words.ends[known - 1] == len(text):
        known -= 1
    if known == len(words.words):
        return words, len(text)
    first = words.starts[known]
    spelled, starts, ends, counts = words
    endless = len(text) - first > LONGEST or (cut_off and first == 0)
    return Words(spelled[:known], starts[:known], ends[:known], counts[:known]), len(text) if endless else first


def _shingled(text: str) -> Words:
    """Return words and, in place of characters, as many as tell something together: they overlap."""
    spans = [match.span() for match in _WORD_BEYOND.finditer(text)]
    words: list[str] = []
    ends: list[int] = []
    counts: list[float] = []
    for word, end, count in _shingles(text, spans):
        words.append(word)
        ends.append(end)
        counts.append(count)
    return Words(words, [start for start, _ in spans], ends, counts)


def _shingles(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[str, int, float]]:
    for index, (start, end) in enumerate(spans):
        length, count = _kind(text[start])
        last = index
        while last + 1 < min(index + length, len(spans)) and spans[last + 1][0] == spans[last][1]:
            if _kind(text[spans[last + 1][0]]) != (length, count):
                break
            last += 1
        reach = spans[last][1] if length > 1 else end
        yield text[start:reach], reach, count


def _kind(char: str) -> tuple[int, float]:
    if _OF_HAN.match(char):
        return _HAN_LENGTH, _HAN_COUNTS
    if _OF_UNSPACED.match(char):
        return _UNSPACED_LENGTH, _UNSPACED_COUNTS
    return 1, 1.0
