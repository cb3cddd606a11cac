"""`kinds`: the kind of each character of a text, one byte each.

A plain search in these bytes finds where numbers and long words can stand, several times faster than a pattern with
classes of characters finds it in the text. The findings must then be looked at in the text itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGIT, LETTER, SIGN, OTHER, BREAK = b"0", b"A", b"!", b" ", b"\n"
"""A decimal digit of any script, an ASCII letter, another printable ASCII character, any other, and a line feed."""

DASH = r"\-\u2010-\u2015\u2212"
"""Hyphens, dashes and the minus sign, for use anywhere inside a character class of a pattern."""

_DECIMAL_BEYOND = re.compile(r"(?![0-9])\d")
_DASH_BEYOND = re.compile(f"(?!-)[{DASH}]")


def _kind_of(code: int) -> bytes:
    char = chr(code)
    if char.isdecimal():
        return DIGIT
    if not char.isascii() or char.isspace() or not char.isprintable():
        return BREAK if char == "\n" else OTHER
    return LETTER if char.isalpha() else SIGN


_KINDS = b"".join(map(_kind_of, range(256)))
_BEYOND = b"?"[0]  # what stands for a character beyond Latin-1, once a question mark is written as another sign
_KINDS_BEYOND = _KINDS[:_BEYOND] + OTHER + _KINDS[_BEYOND + 1 :]
_IN_WORDS = bytes(LETTER[0] if kind in DIGIT + LETTER + SIGN else OTHER[0] for kind in range(256))


def kinds(text: str, start: int = 0) -> bytes:
    """Return the kinds of the characters from a place on."""
    rest = text[start:] if start else text
    if rest.isascii():
        return rest.encode("ascii").translate(_KINDS)
    plain = _DECIMAL_BEYOND.sub("0", rest).replace("?", "!")
    return plain.encode("latin-1", "replace").translate(_KINDS_BEYOND)


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
    return _spans(shape, kinds(text, start), start)


def _spans(shape: re.Pattern[bytes], found: bytes, start: int) -> list[tuple[int, int]]:
    return [(one.start() + start, one.end() + start) for one in shape.finditer(found)]


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
    return _begun(kinds(text, start), text, start)


def _begun(found: bytes, text: str, start: int) -> int:
    last = found.rfind(DIGIT)
    if last < 0 or len(found) - 1 - last > _GAP:
        return len(text)
    # A number has no line feed; where the digits before it begin is of no interest.
    begun = _NUMBER.search(found, found.rfind(BREAK, 0, last) + 1)
    low = start + begun.start() if begun else len(text)
    most = max(low - _SIGNS, start)
    return most + len(text[most:low].rstrip("+("))


_BETWEEN_DIGITS = frozenset(" .\u00a0-/()")
_IN_NUMBERS = bytes(
    (DIGIT if char.isdecimal() else OTHER if char in _BETWEEN_DIGITS else BREAK)[0] for char in map(chr, range(256))
)


def in_numbers(text: str, start: int) -> bytes:
    """Return the characters from a place on: digits as `DIGIT`, signs within numbers as `OTHER`, all others as `BREAK`.

    The numbers are those of phones and cards, which are written without letters.
    """
    rest = text[start:] if start else text
    if not rest.isascii():
        rest = _DASH_BEYOND.sub("-", _DECIMAL_BEYOND.sub("0", rest))
    return rest.encode("latin-1", "replace").translate(_IN_NUMBERS)


def numbers_in(shape: re.Pattern[bytes], text: str, start: int) -> list[tuple[int, int]]:
    """Return where a pattern matches the bytes of `in_numbers`."""
    return _spans(shape, in_numbers(text, start), start)


def number_from(text: str, start: int) -> int:
    """Return the same as `digits_from`, for digits parted by the signs of numbers alone."""
    return _begun(in_numbers(text, start), text, start)
