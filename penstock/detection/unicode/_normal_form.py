"""The edits that bring a text to NFC or NFKC, segment by segment; it knows Unicode's normal forms and nothing else.

A text may be cut before every character that can neither move nor melt into what stands before it. The pieces then
normalise each by itself to exactly what the whole becomes, so an edit covers what really changes and no more.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.edits import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.edits import Edits

NormalForm = Literal["NFC", "NFKC"]

# Where characters with a decomposition or a combining class stand. Left out, since none of theirs has any: ideographs,
# Hangul syllables (they decompose, but begin with a leading consonant, which is a safe cut) and private use.
_RANGES = ((0x80, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000), (0x2F800, 0x2FA20))
_HANGUL_TAILS = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
_PAIR = 2
_LONG = 64  # marks on one letter; Unicode's own bound for honest text is 30 (UAX #15, 13)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def form_edits(text: str, form: NormalForm) -> Edits:
    """Return the edits that turn the text into its normal form: together exactly what ``unicodedata`` makes of it."""
    if text.isascii() or unicodedata.is_normalized(form, text):
        return ()
    return tuple(_joined(text, _changes(text, form)))


def _changes(text: str, form: NormalForm) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of each segment that changes."""
    segment = _segments(form)
    for run in _BEYOND_ASCII.finditer(text):
        start = max(run.start() - 1, 0)  # the letter before may take the first mark; it is ASCII, so a safe cut
        if unicodedata.is_normalized(form, text[start : run.end()]):
            continue
        for found in segment.finditer(text, start, run.end()):
            before = found.group()
            long = len(found.group(1) or "") > _LONG
            after = unicodedata.normalize(form, _in_order(before, form) if long else before)
            if after != before:
                yield found.start(), found.end(), after


def _in_order(segment: str, form: NormalForm) -> str:
    """Return the segment decomposed, its marks in canonical order; it has the same normal form.

    ``unicodedata.normalize`` sorts marks by insertion, which takes time by the square of their number: half a minute
    for a letter with 200,000 marks out of order. Once sorted it is linear.
    """
    apart = "".join(unicodedata.normalize("NFD" if form == "NFC" else "NFKD", char) for char in segment)
    runs: list[list[str]] = [[]]
    for char in apart:
        if not unicodedata.combining(char):
            runs.append([])
        runs[-1].append(char)
    return "".join("".join(sorted(run, key=unicodedata.combining)) for run in runs)


def _joined(text: str, changes: Iterable[tuple[int, int, str]]) -> Iterator[Edit]:
    """Make one edit of changes that touch, and leave out what stays the same at its ends."""
    begin, stop, pieces = -1, -1, list[str]()
    for start, end, after in changes:
        if start != stop and pieces:
            yield _trimmed(text, begin, stop, "".join(pieces))
            pieces = []
        begin = begin if pieces else start
        pieces.append(after)
        stop = end
    if pieces:
        yield _trimmed(text, begin, stop, "".join(pieces))


def _trimmed(text: str, start: int, end: int, after: str) -> Edit:
    head = 0
    while head < min(end - start, len(after)) and text[start + head] == after[head]:
        head += 1
    tail = 0
    while tail < min(end - start, len(after)) - head and text[end - 1 - tail] == after[-1 - tail]:
        tail += 1
    return Edit(start + head, end - tail, after[head : len(after) - tail])


@lru_cache(maxsize=2)
def _segments(form: NormalForm) -> re.Pattern[str]:
    """Return the pattern of what may change: a character with what clings to it, or ones that change alone."""
    decomposed: Literal["NFD", "NFKD"] = "NFD" if form == "NFC" else "NFKD"
    every = _not_inert()
    seconds = {*map(chr, _HANGUL_TAILS), *map(_second, every)} - {""}
    firsts = {char: unicodedata.normalize(decomposed, char)[0] for char in every} | {char: char for char in seconds}
    clings = {char for char, first in firsts.items() if unicodedata.combining(first) or first in seconds}
    alone = {char for char in every if char not in clings and not unicodedata.is_normalized(form, char)}
    cling, change = _as_class(clings), _as_class(alone)
    return re.compile(f"([^{cling}]?[{cling}]+)|[{change}]+(?![{cling}])")


def _not_inert() -> list[str]:
    """Return every character that has a decomposition or a combining class of its own."""
    codes = (code for low, high in _RANGES for code in range(low, high))
    return [char for char in map(chr, codes) if unicodedata.decomposition(char) or unicodedata.combining(char)]


def _second(char: str) -> str:
    """Return the character that melts into another to give this one, or an empty str."""
    parts = unicodedata.decomposition(char).split()
    if len(parts) != _PAIR or parts[0].startswith("<"):
        return ""
    pair = [chr(int(part, 16)) for part in parts]
    return pair[1] if unicodedata.normalize("NFC", "".join(pair)) == char else ""


def _as_class(chars: Iterable[str]) -> str:
    """Return the inside of a character class that holds those characters."""
    codes = sorted(map(ord, chars))
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
