"""Legible parts of bytes: where they are text, in UTF-8, or in UTF-16 as far as letters are Latin.

Where a part begins and ends depends on the bytes in it and close behind it alone, so bytes that arrive in pieces have
the same parts, and the noise of a picture or a signature is known to be none within a few bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import regex

from penstock.detection.deferred import deferred
from penstock.detection.unicode import disguises

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class LegiblePart(NamedTuple):
    """A part of some bytes: where it begins and ends, and the name of its encoding."""

    start: int
    end: int
    coding: str


LEAST = 12
"""Characters that a decoded text must have to be looked at."""

_NO_TEXT = 0xFF
_SEEN = bytes(_NO_TEXT if code < 9 or 13 < code < 32 or code == 127 else code for code in range(256))  # noqa: PLR2004 - control characters
_BYTES = "surrogateescape"  # a byte that is no text is one character of those that stand for bytes
_GOOD, _BAD = "[^\udc80-\udcff]", "[\udc80-\udcff]"
_RUN = 3  # characters of text in a row
_GAP = rf"{_BAD}(?s:.){{0,2}}?"  # up to three that are none, or too few
_PART = deferred(rf"{_GOOD}{{{_RUN}}}{_GOOD}*+(?:{_GAP}{_GOOD}{{{_RUN}}}{_GOOD}*+)*+")
_IN_A_ROW = deferred(rf"{_GOOD}{{{_RUN}}}")
_STANDS_FOR_BYTE = deferred(_BAD)
_BEGUN = rf"{_GOOD}{{0,{_RUN - 1}}}{_BAD}{{0,3}}"  # too few characters, and the beginning of one
_GOES_ON = deferred(rf"(?:{_GAP})?{_BEGUN}")
_LAST = deferred(rf"{_BEGUN}\Z")
_LEGIBLE_ROW = regex.compile(rf"[[^\p{{Cc}}\p{{Cn}}\p{{Co}}\p{{Cs}}]\s]{{{LEAST},}}+", regex.V1)
_LONGEST_REST = 8
_WIDE = rb"[\t-\r -~\xa0-\xff]"
_BEYOND = 2  # characters beyond Latin in a row
_LATIN = deferred(rb"\0(?s:.)\0")  # two Latin letters in a row, as no text in Latin letters is without
_LITTLE = deferred(rb"(?:%b\0)++(?:(?s:..){1,%d}?(?:%b\0)++)*+" % (_WIDE, _BEYOND, _WIDE))
_BIG = deferred(rb"(?:\0%b)++(?:(?s:..){1,%d}?(?:\0%b)++)*+" % (_WIDE, _BEYOND, _WIDE))


def legible_parts(raw: bytes) -> Iterator[LegiblePart]:
    """Yield the parts of some bytes that may be text, and are long enough to be looked at."""
    shown = raw.translate(_SEEN).decode("utf-8", _BYTES)
    for found in _PART.finditer(shown):
        if found.end() - found.start() >= LEAST:
            start = _size(shown[: found.start()])
            yield LegiblePart(start, start + _size(found.group()), "utf-8")
    for part in _wide_parts(raw) if _LATIN.search(raw) else ():
        if part.end - part.start >= 2 * LEAST:
            yield part


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", _BYTES))


def _wide_parts(raw: bytes) -> list[LegiblePart]:
    """Return the parts in UTF-16, in either order of bytes.

    They overlap: text in one order reads in the other one as well, but for letters at its ends and beside characters
    beyond Latin. So neither is left out; one that begins by chance before a text would hide it.
    """
    found = [LegiblePart(*one.span(), "utf-16-le") for one in _LITTLE.finditer(raw)]
    return [*found, *(LegiblePart(*one.span(), "utf-16-be") for one in _BIG.finditer(raw))]


def open_part(raw: bytes) -> int:
    """Return where the first part begins that more bytes may change."""
    shown = raw.translate(_SEEN).decode("utf-8", _BYTES)
    last = _LAST.search(shown, max(len(shown) - _LONGEST_REST, 0))
    first = last.start() if last else len(shown)
    for found in _PART.finditer(shown):
        if len(shown) - found.end() <= _LONGEST_REST and _GOES_ON.fullmatch(shown, found.end()) is not None:
            first = min(first, found.start())
            break
    # What follows may say that the last byte is one of a character of UTF-16.
    wide = [part.start for part in (_wide_parts(raw) if 0 in raw else ()) if len(raw) - part.end <= 2 * _BEYOND + 1]
    return min([_size(shown[:first]), max(len(raw) - 1, 0), *wide])


def first_part_end(raw: bytes) -> int:
    """Return where the part in UTF-8 ends that some bytes begin with, however short it is; 0 if there is none."""
    found = _PART.match(raw.translate(_SEEN).decode("utf-8", _BYTES))
    return 0 if found is None else _size(found.group())


def later_begin(raw: bytes, most: int) -> int:
    """Return the last byte up to the given one from which on bytes have the same parts as from the first on, or 0."""
    shown = raw.translate(_SEEN).decode("utf-8", _BYTES)
    begin = 0
    for found in _IN_A_ROW.finditer(shown):
        at = _size(shown[: found.start()])
        if at > most:
            break
        begin = at
    return begin


def characters_in(raw: bytes) -> tuple[str, Sequence[int]]:
    """Return the text of a part in UTF-8, and at which byte each of its characters begins."""
    if raw.isascii():
        return raw.decode(), range(len(raw))
    text: list[str] = []
    places: list[int] = []
    at = 0
    for char in raw.decode("utf-8", _BYTES):
        if _STANDS_FOR_BYTE.match(char) is not None:
            at += 1
            continue
        text.append(char)
        places.append(at)
        at += len(char.encode())
    return "".join(text), places


class LegibleText(NamedTuple):
    """A text that bytes hold: where its bytes begin, its encoding, and what it says."""

    start: int
    coding: str
    said: str


def texts_in(raw: bytes, part: LegiblePart) -> Iterator[LegibleText]:
    """Yield the texts that a part holds: all of it, or what is legible in a row if most of it is no text after all."""
    held = raw[part.start : part.end]
    text = held.decode(part.coding, errors="ignore")
    lost = len(held) - len(text.encode(part.coding))
    clear = _clear(text)
    if lost * 10 <= len(held) and is_legible(clear):
        if len(clear) >= LEAST:
            yield LegibleText(part.start, part.coding, text)
        return
    torn = _BYTES if part.coding == "utf-8" else "surrogatepass"
    shown = held.decode(part.coding, torn)
    for found in _LEGIBLE_ROW.finditer(shown):
        if len(_clear(found.group())) >= LEAST:
            begin = len(shown[: found.start()].encode(part.coding, torn))
            yield LegibleText(part.start + begin, part.coding, found.group())


def _clear(text: str) -> str:
    """Return the visible part of a text; invisible characters do not make it illegible."""
    return text if text.isascii() else disguises.read(text).text


def is_legible(text: str) -> bool:
    """Return whether a text has hardly any characters that cannot be printed."""
    return sum(map(str.isprintable, text)) * 10 >= len(text) * 8
