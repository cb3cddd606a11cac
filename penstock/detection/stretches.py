"""Stretches: the parts of a text that do not read as words, and so may be a code.

`stretches` finds them: blobs without spaces, and letters or codes in a row. `is_prose` tells at a glance that there are
none, and `open_from` where one may begin if the text goes on. No stretch begins or ends within a character, however
many plain ones it reads as.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

import regex

from penstock.detection.deferred import deferred
from penstock.detection.patterns.kinds import LETTER, OTHER, SIGN, runs
from penstock.detection.unicode.disguises import BETWEEN_WORDS, is_plain
from penstock.detection.words import (
    BEYOND,
    HAN,
    HAN_LENGTH,
    MARK,
    OF_UNSPACED,
    UNSPACED,
    UNSPACED_LENGTH,
    PlainView,
    known_words,
)
from penstock.engine.text_guards.views import view_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.words import WordList


BLOB = 24
"""How many characters without a space make a blob."""

UNITS = 16
"""How many letters or codes in a row make a stretch."""

_NEAR = 16  # characters between one unit and the next
_JOINED = rf"(?:[ \t]*\r?\n[ \t]*[^{BETWEEN_WORDS}]{{{BLOB},}}+)*+(?:[ \t]*\r?\n[A-Za-z0-9+/]*+={{1,2}}(?!\S))?+"
_BLOB = deferred(rf"(?<![^{BETWEEN_WORDS}])[^{BETWEEN_WORDS}]{{{BLOB},}}+{_JOINED}")
_BLOB_ON = deferred(rf"[^{BETWEEN_WORDS}]++{_JOINED}")
_MAY_JOIN = deferred(rf"[ \t]*\r?(?:\n[ \t]*[^{BETWEEN_WORDS}]{{0,{BLOB - 1}}}+)?")
_LAST_SPACE = regex.compile(rf"(?r)[{BETWEEN_WORDS}]")
_CODE = r"\d{1,7}|[01]{7,21}"  # in decimal or binary
_UNIT_FORM = rf"[^\W\d_]{{1,2}}|{_CODE}|(?:0?x?|00)[0-9a-f]{{2}}"
_UNIT = deferred(_UNIT_FORM)
_LONGEST_UNIT = 21
_UNIT_LINES = deferred(rf"(?m)^(?:({_UNIT_FORM})|.*)$")  # of words, a line each; the others are empty
_LENGTHS = deferred(rb"[\x01-\x04\x08]{%d,}+" % UNITS)
_NUMBERS = deferred(rb"\x01{%d,}+" % UNITS)
_FITTING = deferred(rb"\x01++")


class Stretch(NamedTuple):
    """A stretch of a text; ``open``: it could go on if there is more text."""

    start: int
    end: int
    open: bool = False


class Stretches(NamedTuple):
    """All stretches of a text, in order and disjoint.

    ``pending`` is where one may begin that is still too short; the end of the text if there is none. If letters or
    codes in a row begin there, no stretch begins between that place and ``begun``.
    """

    found: Sequence[Stretch]
    pending: int
    begun: int = 0


def have_run(words: Sequence[str]) -> bool:
    """Return whether enough words in a row are letters or codes, wherever they stand."""
    try:
        lengths = bytes(map(len, words))
    except ValueError:  # a word of more than 255 characters
        lengths = bytes(map(min, map(len, words), repeat(255)))
    if any(_all_units(words[found.start() : found.end()]) for found in _LENGTHS.finditer(lengths)):
        return True
    numbers = bytes(map(str.isdigit, words))
    return any(_all_units(words[found.start() : found.end()]) for found in _NUMBERS.finditer(numbers))


def _all_units(words: Sequence[str]) -> bool:
    """Return whether enough of some words, in a row, are letters or codes."""
    fits = bytes(_UNIT.fullmatch(word) is not None for word in words)
    return b"\x01" * UNITS in fits


def stretches(view: PlainView, words: WordList, tail: int, *, inside: bool, final: bool) -> Stretches:
    """Return the stretches of a text that do not read as words. They begin and end between its characters.

    Args:
        view: the text in plain letters.
        words: its words, except one that the end of the text may cut off.
        tail: where that word begins.
        inside: whether the text begins within a stretch; its rest is then a stretch, however short.
        final: whether the text ends here.
    """
    text = view.plain
    found = [*_blobs(text, inside=inside, final=final)]
    pending = chunk = len(text) if final else _last_chunk(text)
    begun = 0
    for run in _runs(words, tail, final=final):
        if run.units >= UNITS or (inside and run.start <= _NEAR):
            found.append(Stretch(0 if inside and run.start <= _NEAR else run.start, run.end, run.open))
        elif run.open:
            pending, begun = min(pending, run.start), min(chunk, run.end) if run.start < chunk else 0
    merged = _merged(Stretch(view.low(one.start), view.high(one.end), one.open) for one in found)
    if merged and pending <= merged[-1].end < len(text):
        merged[-1] = merged[-1]._replace(open=True)
    return Stretches(merged, view.low(pending), begun)


def _merged(found: Iterable[Stretch]) -> list[Stretch]:
    merged: list[Stretch] = []
    for one in sorted(found):
        last = merged[-1] if merged else None
        if last is not None and one.start < last.end:
            merged[-1] = Stretch(last.start, max(last.end, one.end), last.open or one.open)
        else:
            merged.append(one)
    return merged


def _blobs(text: str, *, inside: bool, final: bool) -> Iterator[Stretch]:
    begun = _BLOB_ON.match(text) if inside else None
    for found in chain([begun] if begun else (), _blobs_from(text, begun.end() if begun else 0)):
        may_join = not final and _MAY_JOIN.fullmatch(text, found.end()) is not None
        yield Stretch(found.start(), found.end(), may_join)


_UNSPACED = bytes(OTHER[0] if char.isspace() else LETTER[0] for char in map(chr, range(256)))


def _blobs_from(text: str, start: int) -> Iterator[re.Match[str]]:
    """Yield the blobs from a place on. They are searched only where enough characters without a space stand."""
    for low, high in runs(text.encode("ascii", "replace").translate(_UNSPACED), LETTER, OTHER, BLOB):
        while start < high and (found := _BLOB.search(text, max(low, start))) is not None and found.start() < high:
            yield found
            start = found.end()


def _last_chunk(text: str) -> int:
    """Return where the characters without a space begin that the text ends with; its end if they are a blob already."""
    found = _LAST_SPACE.search(text, max(len(text) - BLOB, 0), concurrent=False)
    if found is None:
        return len(text) if len(text) >= BLOB else 0
    return found.end()


class _UnitRun(NamedTuple):
    start: int
    end: int
    open: bool
    units: int


def _runs(words: WordList, tail: int, *, final: bool) -> Iterator[_UnitRun]:
    """Yield the runs of letters or codes that are long enough, or near the beginning, or the last words."""
    starts, ends = words.starts, words.ends
    fits = bytes(map(bool, _UNIT_LINES.findall("\n".join(words.words)))) if words.words else b""
    for found in _FITTING.finditer(fits):
        first, behind = found.span()
        is_last = behind == len(fits)
        if behind - first < UNITS and not is_last and starts[first] > _NEAR:
            continue
        for at in range(first + 1, behind):
            if starts[at] - ends[at - 1] > _NEAR:
                yield _UnitRun(starts[first], ends[at - 1], open=False, units=at - first)
                first = at
        is_open = is_last and not final and tail - ends[behind - 1] <= _NEAR
        yield _UnitRun(starts[first], ends[behind - 1], open=is_open, units=behind - first)


def open_run(text: str, words: Sequence[str], end: int, starts: Iterator[int] | None = None) -> int:
    """Return where the run of letters or codes begins that may go on at a place of a text; the place if there is none.

    Args:
        text: the text, in small letters.
        words: its words before the place.
        end: the place.
        starts: where the words begin, from the last one back, if they overlap, as in scripts without spaces.
    """
    begin = end
    for word in reversed(words):
        known = len(word) >= _LONGEST_LETTERS and word.isalpha()  # most words need no closer look
        if known or len(word) > _LONGEST_UNIT or _UNIT.fullmatch(word) is None:
            break
        low = text.rfind(word, 0, begin) if starts is None else next(starts)
        if begin - low - len(word) > _NEAR:
            break
        begin = low
    return begin


_UNIT_APART = rf"(?>(?:[^\W\d_]{{1,2}}|{_CODE}|(?:0?[xX]?|00)[0-9a-fA-F]{{2}})(?![^\W_]))"
_APART = deferred(rf"(?<![^\W_])(?:{_UNIT_APART}[\W_]{{1,{_NEAR}}}+){{{UNITS // 2 - 1}}}{_UNIT_APART}")
_LEAST_PIECES = 2 * (UNITS // 2) - 1  # characters that so many units have, with what is between them


def is_prose(text: str, start: int = 0) -> bool:
    """Return whether a text is plain words from a place on, at a glance; False if a closer look is needed."""
    return is_plain(text, start) and has_no_stretch(text[start:] if start else text)


def has_no_stretch(text: str) -> bool:
    """Return whether a text that is plain has no stretch, at a glance. Guards share it."""
    return view_of(text, reads_as_words)


def reads_as_words(text: str) -> bool:
    """Return the same as `has_no_stretch`, for a text that nobody else looks at."""
    return len(text) < _LEAST_PIECES or (next(_blobs_from(text, 0), None) is None and not _is_apart(text))


def ends_with_first(text: str) -> bool:
    """Return whether the only stretch of a plain text is a short blob that may go on."""
    last = max(text.rfind(" "), text.rfind("\n")) + 1
    return text.isascii() and len(text) - last <= 2 * BLOB and not _is_apart(text) and reads_as_words(text[:last])


_LONGEST_LETTERS = 4  # of a letter or a code that is no number


@cache
def _apart_beyond() -> regex.Pattern[str]:
    """Return the pattern of letters and codes in a row in scripts with marks of their own, or without spaces.

    Without spaces, the last two characters of each stretch are words of one and two characters, so half as many
    stretches are enough.
    """
    unspaced = rf"[{HAN}]{{1,2}}+(?![{HAN}])|[{UNSPACED}]{{1,2}}+(?![{UNSPACED}])"
    letters = rf"[[\p{{L}}\p{{N}}]--[{HAN}{UNSPACED}]]{{1,{_LONGEST_LETTERS}}}+|\p{{N}}{{1,{_LONGEST_UNIT}}}+"
    spaced = rf"(?:{letters})(?![[\p{{L}}\p{{N}}{MARK}]--[{HAN}{UNSPACED}]])"
    between = rf"[^\p{{L}}\p{{N}}]{{0,{_NEAR}}}+"
    return regex.compile(rf"(?:(?:{unspaced}|{spaced}){between}){{{UNITS // 2 - 1}}}", regex.V1)


_LETTERS = 3  # neither a letter nor a code has as many, nor what stands between two
_BUT_X = bytes(LETTER[0] if char.isalpha() and char not in "xX" else SIGN[0] for char in map(chr, range(256)))
_AS_SIGNS = bytes.maketrans(LETTER, SIGN)


def _between_letters(text: str) -> bytes:
    """Return a text in which three ASCII letters in a row are `OTHER`, and the characters between them `SIGN`."""
    read = text.encode("ascii", "replace").translate(_BUT_X)
    return read.replace(LETTER * _LETTERS, OTHER * _LETTERS).translate(_AS_SIGNS)


def _parts(read: bytes, least: int) -> Iterator[tuple[int, int]]:
    """Yield where those parts between letters begin and end that are long enough, with the letters around them."""
    for low, high in runs(read, SIGN, OTHER, least):
        yield max(low - _LETTERS, 0), high + _LETTERS


def _is_apart(text: str) -> bool:
    """Return whether letters or codes in a row may stand in a plain text."""
    if not text.isascii() and BEYOND.search(text) is not None:
        return _apart_beyond().search(text) is not None
    return any(_APART.search(text, low, high) for low, high in _parts(_between_letters(text), _LEAST_PIECES))


_SPACES = frozenset(" \n")
# Up to the last word that is neither a letter nor a code, and what is behind it.
_UP_TO_WORD = deferred(r"(?s:.*)[^\W\d_xX][^\W\d_]{2}[\W_]++")
# What no letter and no code has, however the word goes on.
_NO_UNIT = deferred(rf"[^\W\d_xX][^\W\d_]{{2}}|[^\W_]{{{_LONGEST_UNIT + 1}}}")


@cache
def _unspaced_end() -> regex.Pattern[str]:
    """Return the pattern of an end without spaces; its group is the text behind the last word that is no unit.

    In Chinese and Japanese, the last two characters before a sign are units.
    """
    letter = rf"[[{UNSPACED}]&&\p{{L}}]{MARK}{{0,2}}"
    sign = rf"[^\p{{L}}\p{{N}}\p{{M}}]{{1,{_NEAR}}}"
    han = rf"[{HAN}](?P<end>[{HAN}]{{{HAN_LENGTH}}}|[{HAN}]{{{HAN_LENGTH - 1}}}{sign}[{HAN}]{{0,{HAN_LENGTH}}})"
    return regex.compile(rf"(?r)(?:{han}|{letter}(?P<end>(?:{letter}){{{UNSPACED_LENGTH}}}))\Z", regex.V1)


@cache
def _up_to_word_beyond() -> regex.Pattern[str]:
    """Return the same pattern for words with marks."""
    return regex.compile(
        rf"(?s:.*)[\p{{L}}--[xX]][\p{{L}}{MARK}]{{2}}(?![\p{{L}}\p{{N}}{MARK}])[^\p{{L}}\p{{N}}]*+", regex.V1
    )


def all_stretches(view: PlainView) -> Sequence[Stretch]:
    """Return the stretches of a whole text."""
    words, tail = words_in_rows(view.text, inside=False, final=True)
    return stretches(view, words, tail, inside=False, final=True).found


def words_in_rows(text: str, *, inside: bool, final: bool) -> tuple[WordList, int]:
    """Return the words that may make a stretch, and where the first word begins that more text can change.

    Args:
        text: the text, in small letters.
        inside: whether the text begins within a stretch; then all words are returned, since few may go on with it.
        final: whether the text ends here. If not, few are enough at its end.
    """
    if inside:
        return known_words(text, final=final)
    known = len(text) if final else max(text.rfind(" "), text.rfind("\n")) + 1
    read = _between_letters(text[:known])
    last = known if final else read.rfind(OTHER) + 1
    places = [*_parts(read[:last], UNITS)]
    if not final:
        places.append((max(last - _LETTERS, 0), len(text)))
    return known_words(text, final=final, places=places)


_LONGEST_CHUNK = 200


def last_row(text: str, end: int) -> tuple[int, bool]:
    """Return where the characters without a space begin that a stretch ends with, or if they are many, a place in them.

    Returns:
        The place, and whether it lies within them.
    """
    low = max(end - _LONGEST_CHUNK, 0)
    found = _LAST_SPACE.search(text, low, end - 1, concurrent=False)
    if found is not None:
        return found.end(), False
    return low, low > 0


def continued(text: str, words: WordList, tail: int, *, cut: bool) -> Stretch | None:
    """Return the stretch that a plain text begins within, if it may go on and no other begins; else None.

    ``cut`` tells whether the text begins within a row of characters without a space.
    """
    found = [*_blobs(text, inside=cut, final=False)]
    pending = _last_chunk(text)
    for run in _runs(words, tail, final=False):
        if run.start == 0:
            found.append(Stretch(0, run.end, run.open))
        elif run.units >= UNITS:
            return None
        elif run.open:
            pending = min(pending, run.start)
    merged = _merged(found)
    if len(merged) != 1 or merged[0].start:
        return None
    only = merged[0]
    return only if only.open or pending <= only.end < len(text) else None


def open_from(text: str, most: int) -> int:
    """Return where a stretch may begin in a plain text that has none, if the text goes on.

    That is between two words, and at most the given place.
    """
    beyond = not text.isascii() and BEYOND.search(text) is not None
    if beyond and OF_UNSPACED.search(text) is not None:
        known = _unspaced_end().search(text, concurrent=False)
        if known is not None:
            begin = known.start("end")
        else:
            view = PlainView(text)
            words, tail = known_words(view.text, final=False)
            begin = min(stretches(view, words, tail, inside=False, final=False).pending, tail)
        return begin if begin <= most else 0
    last = most
    if text[most - 1 : most] not in _SPACES:
        last = max(text.rfind(" ", 0, most), text.rfind("\n", 0, most)) + 1
    found = (_up_to_word_beyond() if beyond else _UP_TO_WORD).match(text, 0, last)
    end = found.end() if found else 0
    return last if end < last and not beyond and _NO_UNIT.search(text, last) else end
