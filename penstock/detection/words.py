"""Words of a text with their places (`WordList`), and a text in plain small letters (`PlainView`).

Where a script has no spaces, characters count as parts of words.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, cast

import regex

from penstock.detection.deferred import deferred
from penstock.detection.unicode.disguises import PlainPlaces, is_plain, read
from penstock.engine.text_guards.views import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.detection.unicode.disguises import PlainReading


HAN = "\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
BEYOND = deferred("[\u0590-\u1fff\u2c00-\U0003ffff]")  # scripts with marks of their own, or without spaces
MARK = r"[\p{M}--[\u0483-\u0489\u20d0-\u20f0]]"  # in words; those around letters, as of keycaps, are signs in any text
_ASCII_WORD = deferred(r"[a-z0-9]+")  # in small letters
_WORD = deferred(r"[^\W_]+")
_TO_SPLIT, _TO_SPLIT_ASCII = deferred(r"([^\W_]+)"), deferred(r"([a-z0-9]+)")  # the same
_SPACED = rf"(?:[\p{{L}}\p{{N}}--[{HAN}{UNSPACED}]]{MARK}*)+"
_SPACED_WORD = regex.compile(_SPACED, regex.V1)
_WORD_BEYOND = regex.compile(rf"([{HAN}])|([[{UNSPACED}]&&[\p{{L}}\p{{N}}]]{MARK}*)|({_SPACED})", regex.V1)
OF_UNSPACED = deferred(f"[{HAN}{UNSPACED}]")

HAN_LENGTH, UNSPACED_LENGTH = 3, 6
_LENGTHS = (0, HAN_LENGTH, UNSPACED_LENGTH, 1)  # of the words of each group of the pattern, in matches
_COUNTS = (0.0, 0.5, 0.25, 1.0)  # what they count as


LONGEST = 40
"""How many characters a word has at most; what is longer is not a word and may be cut."""


class WordList(NamedTuple):
    """The words of a text, in order.

    Attributes:
        words: the words; in a script without spaces, each character together with those that follow it.
        starts: where each word begins.
        ends: where each word ends.
        counts: the weight of each word, in words; empty if each counts as one.
    """

    words: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    counts: Sequence[float] = ()

    def lettered(self) -> WordList:
        """Return the words with letters, so that numbering the words of a text changes nothing."""
        if all(map(str.isalpha, self.words)):
            return self
        kept = [index for index, word in enumerate(self.words) if has_letters(word)]
        starts, ends = ([row[index] for index in kept] for row in (self.starts, self.ends))
        counts = [self.counts[index] for index in kept] if self.counts else ()
        return WordList([self.words[index] for index in kept], starts, ends, counts)

    def begin(self, at: int) -> int:
        """Return where the word begins that contains a place; the place itself if it lies in no word."""
        word = bisect_right(self.starts, at) - 1
        if word < 0 or at >= self.ends[word] or self.ends[word] - self.starts[word] > LONGEST:
            return at
        return self.starts[word]

    def uncut(self, at: int, view: PlainView) -> int:
        """Return the last place, up to the given one, that cuts no word, and no character of a view."""
        before = -1
        while at != before:
            before, at = at, self.begin(view.low(at))
        return at

    def before(self, at: int) -> WordList:
        """Return the words that begin before a place."""
        kept = bisect_left(self.starts, at)
        return WordList(self.words[:kept], self.starts[:kept], self.ends[:kept], self.counts[:kept])


def has_letters(word: str) -> bool:
    """Return whether a word has letters; figures, and marks on them, are no words that a text is recognised by."""
    return word.isalpha() or any(map(str.isalpha, word))


NO_WORDS = WordList((), (), ())


_ANY_WORD = deferred(r"\w+")
_SIGNS_AS_SPACES = str.maketrans(dict.fromkeys(re.findall(r"\W", "".join(map(chr, range(128)))), " "))


def word_set(text: str) -> frozenset[str]:
    r"""Return the words of a text in small letters, as runs of ``\w``. Guards share it."""
    return view_of(text, _word_set)


def _word_set(text: str) -> frozenset[str]:
    lower = text.lower()
    return frozenset(lower.translate(_SIGNS_AS_SPACES).split() if text.isascii() else _ANY_WORD.findall(lower))


def spellings(text: str, end: int = sys.maxsize) -> list[str]:
    """Return the words of a text without their places; only those before a place, if one is given, between words."""
    if text.isascii():
        return _ASCII_WORD.findall(text, 0, end)
    if BEYOND.search(text) is None:
        return _WORD.findall(text, 0, end)
    if OF_UNSPACED.search(text) is None:
        return _SPACED_WORD.findall(text, endpos=end, concurrent=False)
    return list(_shingled(text[:end], None).words)


def cut(text: str, places: Sequence[tuple[int, int]] | None = None) -> WordList:
    """Return the words of a text in small letters, with their places; only those in parts of it, if some are given."""
    if not text.isascii() and BEYOND.search(text) is not None:
        return _shingled(text, places)
    word = _ASCII_WORD if text.isascii() else _WORD
    if places is None:
        return placed(text, word.findall(text))
    split = (_TO_SPLIT_ASCII if text.isascii() else _TO_SPLIT).split
    words: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for low, high in places:
        parts = split(text[low:high])  # each other one is a word
        borders = [*accumulate(map(len, parts), initial=low)]
        words += parts[1::2]
        starts += borders[1:-1:2]
        ends += borders[2::2]
    return WordList(words, starts, ends)


def placed(text: str, words: Sequence[str]) -> WordList:
    """Return the words of a text, or those with letters, with their places; not for scripts without spaces."""
    starts: list[int] = []
    ends: list[int] = []
    end = 0
    for word in words:
        start = text.find(word, end)  # nothing before it has its letters
        end = start + len(word)
        starts.append(start)
        ends.append(end)
    return WordList(words, starts, ends)


def known_words(
    text: str, *, final: bool, cut_off: bool = False, places: Sequence[tuple[int, int]] | None = None
) -> tuple[WordList, int]:
    """Return the words that more text cannot change, and where the first word begins that it can.

    Args:
        text: the text, in small letters.
        final: whether the text ends here.
        cut_off: whether the text begins with the rest of something that is too long for a word.
        places: the parts of the text whose words are returned, in order; the last word that it may end with is in one
            of them. None (the default) for all.
    """
    words = cut(text, places)
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
    return WordList(spelled[:known], starts[:known], ends[:known], counts[:known]), len(text) if endless else first


def _shingled(text: str, places: Sequence[tuple[int, int]] | None) -> WordList:
    """Return the words; in scripts without spaces, overlapping groups of characters."""
    found = [
        (match.start(), match.end(), match.lastindex or 0)
        for low, high in ([(0, len(text))] if places is None else places)
        for match in _WORD_BEYOND.finditer(text, low, high, concurrent=False)
    ]
    words: list[str] = []
    ends: list[int] = []
    row = 0  # where the characters of one kind end that stand together
    for index, (start, _, kind) in enumerate(found):
        if row <= index:
            row = index + 1
            while row < len(found) and found[row][0] == found[row - 1][1] and found[row][2] == kind:
                row += 1
        reach = found[min(index + _LENGTHS[kind], row) - 1][1]
        words.append(text[start:reach])
        ends.append(reach)
    return WordList(words, [start for start, _, _ in found], ends, [_COUNTS[kind] for _, _, kind in found])


_SINGLE = {0x130: "I", 0x1E9E: "s"}  # capitals whose small form is two characters long
_OF_TWO = [*map(chr, _SINGLE)]


class PlainView:
    """A text without its disguise: plain letters, and nothing invisible.

    Attributes:
        plain: the text as it reads.
        text: the same in small letters, with the same length.
        source: how many characters of the given text it covers; fewer than all if an escape sequence is unfinished.
    """

    __slots__ = ("__dict__", "_reading", "plain", "source", "text")

    def __init__(self, text: str, *, final: bool = True) -> None:
        self._reading = None if is_plain(text, 0) else read(text, final=final)
        plain = text if self._reading is None else self._reading.text
        self.plain = plain.translate(_SINGLE) if any(map(plain.__contains__, _OF_TWO)) else plain
        self.text = self.plain if self.plain.isascii() and self.plain.islower() else small(self.plain)
        self.source = len(text) if self._reading is None else len(self._reading.source)

    @cached_property
    def _places(self) -> PlainPlaces:
        return PlainPlaces(cast("PlainReading", self._reading))  # most texts read as they are, and ask for no places

    def low(self, at: int) -> int:
        """Return where, in the plain text, the reading begins of the character whose reading a place lies in."""
        return at if self._reading is None or at >= len(self.plain) else self._places.low(at)

    def high(self, at: int) -> int:
        """Return where, in the plain text, the reading ends of the character that reads as the one before a place."""
        return at if self._reading is None or not at else self._places.high(at)

    def start(self, at: int) -> int:
        """Return where, in the given text, the character begins that reads as the one at a place."""
        return at if self._reading is None else min(self._places.start(at), self.source)

    def end(self, at: int) -> int:
        """Return where, in the given text, the character ends that reads as the last one before a place."""
        return at if self._reading is None or not at else min(self._places.end(at), self.source)


def small(text: str) -> str:
    """Return a text in small letters, with the same length."""
    if text.isascii():
        return text.lower()
    return _LONGER.join(part.lower() for part in text.split(_LONGER)).replace("ς", "σ")


_LONGER = "\u0130"  # its small form alone has two characters
