"""Finds the stretches of a text that read as no words: blobs of characters, letters or codes one by one. Pure.

What they hide is for others to say. A long stretch is judged piece by piece, and no piece depends on what comes later.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.detection.words import Words

BLOB = 24
"""How many characters without a space make a blob."""

UNITS = 16
"""How many letters or codes make a stretch of them."""

PIECE = 1024
"""How many characters of a long stretch are decided at once; they are judged with as many behind them."""

_NEAR = 16  # characters between one unit and the next
_SPACE = r"\s\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"  # or no need of it
_JOINED = rf"(?:[ \t]*\r?\n[ \t]*[!-~]{{{BLOB},}}+)*+(?:[ \t]*\r?\n[A-Za-z0-9+/]*+={{1,2}}(?!\S))?+"
_BLOB = re.compile(rf"(?<![^{_SPACE}])[^{_SPACE}]{{{BLOB},}}+{_JOINED}")
_BLOB_ON = re.compile(rf"[^{_SPACE}]++{_JOINED}")
_MAY_JOIN = re.compile(rf"[ \t]*\r?(?:\n[ \t]*[!-~]{{0,{BLOB - 1}}}+)?")
_LAST_SPACE = regex.compile(rf"(?r)[{_SPACE}]")
_UNIT = re.compile(r"[^\W\d_]{1,2}|\d{1,3}|[01]{8}|0?x?[0-9a-f]{2}")
_LONGEST_UNIT = 8
_LENGTHS = re.compile(rb"[\x01-\x04\x08]{%d,}+" % UNITS)
_SEAM = re.compile(r"[^\W_]*\Z")
_SEAM_NEAR = 16


class Stretch(NamedTuple):
    """A stretch, in places of the text; ``open`` if it could go on."""

    start: int
    end: int
    open: bool = False


class Stretches(NamedTuple):
    """All stretches, in order and disjoint; and where one may begin that is too short yet: the text's end if none."""

    found: Sequence[Stretch]
    pending: int


class Seam(NamedTuple):
    """A place between two pieces of a stretch; whether the pieces before it hid something; whether it is in a word."""

    at: int
    hit: bool
    within: bool


class Judged(NamedTuple):
    """What is hidden in stretches.

    Attributes:
        hidden: where, in order.
        seams: the places between the pieces of long stretches.
        hold: where the first stretch or piece begins that is not judged yet; the text's end if none.
        found: the stretches.
    """

    hidden: Sequence[tuple[int, int]]
    seams: Sequence[Seam]
    hold: int
    found: Sequence[Stretch]


def have_run(words: Sequence[str]) -> bool:
    """Tell whether enough words in a row are letters or codes, wherever they stand."""
    try:
        lengths = bytes(map(len, words))
    except ValueError:  # a word of more than 255 characters
        lengths = bytes(map(min, map(len, words), repeat(255)))
    return any(_all_units(words[found.start() : found.end()]) for found in _LENGTHS.finditer(lengths))


def _all_units(words: Sequence[str]) -> bool:
    """Tell whether enough of some words, in a row, are units."""
    fits = bytes(_UNIT.fullmatch(word) is not None for word in words)
    return b"\x01" * UNITS in fits


def stretches(text: str, words: Words, tail: int, *, inside: bool, final: bool) -> Stretches:
    """Return the stretches of a text.

    Args:
        text: the text, in plain letters.
        words: its words, but for one that may be cut off by its end.
        tail: where that one begins.
        inside: whether the text begins within a stretch, the rest of which is one however short it is.
        final: whether the text ends here.
    """
    found = [*_blobs(text, inside=inside, final=final)]
    pending = len(text) if final else _last_chunk(text)
    for run in _runs(words, tail, final=final):
        if run.units >= UNITS or (inside and run.start <= _NEAR):
            found.append(Stretch(0 if inside and run.start <= _NEAR else run.start, run.end, run.open))
        elif run.open:
            pending = min(pending, run.start)
    merged = _merged(found)
    if merged and pending <= merged[-1].end < len(text):
        merged[-1] = merged[-1]._replace(open=True)
    return Stretches(merged, pending)


def judged(text: str, found: Stretches, hides: Callable[[str], Iterable[tuple[int, int]]], before: bool) -> Judged:  # noqa: FBT001
    """Judge the pieces of stretches that can be judged.

    Args:
        text: the text.
        found: its stretches.
        hides: says where in a piece something is hidden.
        before: whether the text begins within a stretch that hid something.
    """
    hidden: list[tuple[int, int]] = []
    seams: list[Seam] = []
    hold = found.pending
    for start, end, is_open in found.found:
        hit, at = before and start == 0, start
        while end - at > 2 * PIECE:
            hit = hit or any(True for _ in hides(text[at : at + 2 * PIECE]))
            seam = _seam(text, at + PIECE)
            hidden.extend([(at, seam)] if hit else [])
            seams.append(Seam(seam, hit, text[seam - 1].isalnum() and text[seam].isalnum()))
            at = seam
        if is_open:
            hold = min(hold, at)
        elif hit:
            hidden.append((at, end))
        else:
            hidden.extend((at + low, at + high) for low, high in hides(text[at:end]))
    return Judged(hidden, seams, hold, found.found)


def _seam(text: str, at: int) -> int:
    """Return a place near that one and before it, between two units if there is one."""
    found = _SEAM.search(text, at - _SEAM_NEAR, at)
    return at if found is None or found.start() == at - _SEAM_NEAR else found.start()


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
    if not inside and max(map(len, text.split()), default=0) < BLOB:
        return
    begun = _BLOB_ON.match(text) if inside else None
    at = begun.end() if begun else 0
    for found in [*([begun] if begun else []), *_BLOB.finditer(text, at)]:
        may_join = not final and _MAY_JOIN.fullmatch(text, found.end()) is not None
        yield Stretch(found.start(), found.end(), may_join)


def _last_chunk(text: str) -> int:
    """Return where the characters without a space begin that the text ends with; its end if they are a blob already."""
    found = _LAST_SPACE.search(text, max(len(text) - BLOB, 0))
    if found is None:
        return len(text) if len(text) >= BLOB else 0
    return found.end()


class _Run(NamedTuple):
    start: int
    end: int
    open: bool
    units: int


def _runs(words: Words, tail: int, *, final: bool) -> Iterator[_Run]:
    """Yield the runs of units: of one word or more, so all but the last may be too short."""
    start = end = count = 0
    for word, low, high in zip(words.words, words.starts, words.ends, strict=True):
        fits = len(word) <= _LONGEST_UNIT and _UNIT.fullmatch(word) is not None
        if count and (not fits or low - end > _NEAR):
            yield _Run(start, end, open=False, units=count)
            count = 0
        if fits:
            start = start if count else low
            end, count = high, count + 1
    if count:
        yield _Run(start, end, open=not final and tail - end <= _NEAR, units=count)
