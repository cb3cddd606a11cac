"""`kinds`: the kind of each character of a text, one byte each.

A plain search in these bytes finds where numbers and long words can stand, several times faster than a pattern with
classes of characters finds it in the text. The findings must then be looked at in the text itself.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGIT, LETTER, SIGN, OTHER, BREAK = b"0", b"A", b"!", b" ", b"\n"
"""A decimal digit of any script, an ASCII letter, another printable ASCII character, any other, and a line feed."""

DASH = r"\-\u2010-\u2015\u2212"
"""Hyphens, dashes and the minus sign, for use anywhere inside a character class of a pattern."""

_HANDLER = "penstock.kinds"
_DECIMAL = re.compile(r"\d")


def _kind_of(code: int) -> bytes:
    char = chr(code)
    if char.isdecimal():
        return DIGIT
    if not char.isascii() or char.isspace() or not char.isprintable():
        return BREAK if char == "\n" else OTHER
    return LETTER if char.isalpha() else SIGN


_KINDS = b"".join(map(_kind_of, range(256)))
_IN_WORDS = bytes(LETTER[0] if kind in DIGIT + LETTER + SIGN else OTHER[0] for kind in range(256))


def kinds(text: str, start: int = 0) -> bytes:
    """Return the kinds of the characters from a place on."""
    return (text[start:] if start else text).encode("latin-1", _HANDLER).translate(_KINDS)


def in_words(found: bytes) -> bytes:
    """Return kinds in which digits and all printable ASCII characters are `LETTER`, and all others `OTHER`."""
    return found.translate(_IN_WORDS)


def runs(found: bytes, kind: bytes, other: bytes, least: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where enough of one kind stand in a row, counted from ``start`` on; all else is of the ``other`` kind."""
    long = kind * least
    at = found.find(long)
    while at >= 0:
        end = found.find(other, at + least)
        end = len(found) if end < 0 else end
        yield at + start, end + start
        at = found.find(long, end)


def spans_of(shape: re.Pattern[bytes], text: str, start: int) -> list[tuple[int, int]]:
    """Return where a pattern matches the kinds of a text's characters from a place on."""
    return [(found.start() + start, found.end() + start) for found in shape.finditer(kinds(text, start))]


_CLOSE = rb"0(?:[^\n0]{0,3}+0)*+"
_TOGETHER = re.compile(_CLOSE)
_NUMBER = re.compile(rb"%b[^\n0]{0,3}+\Z" % _CLOSE)
_GAP = 3  # characters between two digits of a number
_SIGNS = 2  # characters before its first digit: a plus sign and a bracket


def most_digits(text: str, start: int) -> int:
    """Return how many digits stand close together at most, from a place on."""
    return max([found.count(DIGIT) for found in _TOGETHER.findall(kinds(text, start))], default=0)


def digits_from(text: str, start: int) -> int:
    """Return where the digits begin, with signs before them, that a text ends with; its end if it ends without.

    They stand close together, and more of them may follow.
    """
    found = kinds(text, start)
    last = found.rfind(DIGIT)
    if last < 0 or len(found) - 1 - last > _GAP:
        return len(text)
    begun = _NUMBER.search(found)
    low = start + begun.start() if begun else len(text)
    most = max(low - _SIGNS, start)
    return most + len(text[most:low].rstrip("+("))


def _beyond(error: UnicodeError) -> tuple[bytes, int]:
    """Replace characters beyond Latin-1: digits by ``0``, others by a space."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    size = error.end - error.start
    if _DECIMAL.search(error.object, error.start, error.end) is None:
        return OTHER * size, error.end
    found = error.object[error.start : error.end]
    return b"".join(DIGIT if char.isdecimal() else OTHER for char in found), error.end


codecs.register_error(_HANDLER, _beyond)
