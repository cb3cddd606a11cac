"""`kinds`: the kind of each character of a text, one byte each.

A plain search in these bytes finds where numbers and long words can stand, several times faster than a pattern with
classes of characters finds it in the text. The findings must then be looked at in the text itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from typing import TypeAlias

    Span: TypeAlias = tuple[int, int]

DIGIT, LETTER, SIGN, OTHER, BREAK = b"0", b"A", b"!", b" ", b"\n"
"""A decimal digit of any script, an ASCII letter, another printable ASCII character, any other, and a line feed."""

UNPARTED = r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff"
"""Letters that values stand beside without a blank: of scripts without blanks, and Hangul with its particles."""
GLUED = rf"[^\W{UNPARTED}]"
"""A letter, a digit or an underscore beside which there is no value, but a part of a word."""
DASH = r"\-\u2010-\u2015\u2212"
"""Hyphens, dashes and the minus sign, for use anywhere inside a character class of a pattern."""

_DECIMAL_BEYOND = deferred(r"(?![0-9])\d")
_DASH_BEYOND = deferred(f"(?!-)[{DASH}]")


_ASCII = bytes(range(128))


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
    plain = _with_digits(rest).replace("?", "!")
    return plain.encode("latin-1", "replace").translate(_KINDS_BEYOND)


def _with_digits(text: str) -> str:
    """Return a text with ASCII zeros for the digits of other scripts; most texts have none."""
    return _DECIMAL_BEYOND.sub("0", text) if _DECIMAL_BEYOND.search(_beyond_ascii(text)) else text


def _beyond_ascii(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


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


_GAP = 3  # characters between two digits of a number
_SIGNS = 2  # characters before its first digit: a plus sign and a bracket
_APART = OTHER * (_GAP + 1)
_IN_ROWS = bytes(kind if kind in DIGIT + BREAK else OTHER[0] for kind in range(256))


def most_digits(text: str, start: int) -> int:
    """Return how many digits stand close together at most, from a place on."""
    parted = kinds(text, start).translate(_IN_ROWS).replace(_APART, BREAK).translate(None, OTHER)
    return max(map(len, parted.split(BREAK)))


def digits_from(text: str, start: int) -> int:
    """Return where the digits begin, with signs before them, that a text ends with; its end if it ends without.

    They stand close together, and more of them may follow.
    """
    return _begun(kinds(text, start).translate(_IN_ROWS), text, start)


def _begun(found: bytes, text: str, start: int) -> int:
    """Return the same from the characters of a text, which are `DIGIT`, `OTHER` or `BREAK`."""
    last = found.rfind(DIGIT)
    if last < 0 or len(found) - 1 - last > _GAP:
        return len(text)
    gap = found.rfind(_APART, 0, last)
    begun = max(found.rfind(BREAK, 0, last) + 1, gap + len(_APART) if gap >= 0 else 0)
    low = start + found.find(DIGIT, begun) if found.find(BREAK, last) < 0 else len(text)
    most = max(low - _SIGNS, start)
    return most + len(text[most:low].rstrip("+("))


_LONGEST_BEGUN = 48
_BETWEEN_DIGITS = frozenset(" .+\u00a0-/()")  # a form sends blanks as plus signs
_IN_NUMBERS = bytes(
    (DIGIT if char.isdecimal() else OTHER if char in _BETWEEN_DIGITS else BREAK)[0] for char in map(chr, range(256))
)


def in_numbers(text: str, start: int) -> bytes:
    """Return the characters from a place on: digits as `DIGIT`, signs within numbers as `OTHER`, all others as `BREAK`.

    The numbers are those of phones and cards, which are written without letters.
    """
    rest = text[start:] if start else text
    if not rest.isascii():
        beyond = _beyond_ascii(rest)
        rest = _DECIMAL_BEYOND.sub("0", rest) if _DECIMAL_BEYOND.search(beyond) else rest
        rest = _DASH_BEYOND.sub("-", rest) if _DASH_BEYOND.search(beyond) else rest
    return rest.encode("latin-1", "replace").translate(_IN_NUMBERS)


def zones(shape: re.Pattern[bytes], begun: re.Pattern[bytes] | None, found: bytes, start: int) -> Iterator[Span]:
    """Yield where a pattern matches the kinds of the characters from a place on.

    A second pattern, if there is one, is searched behind the last match: for the end of a text that is too short to
    match. It is shorter than 48 characters.
    """
    end = 0
    for one in shape.finditer(found):
        yield one.start() + start, one.end() + start
        end = one.end()
    last = begun.search(found, max(end, len(found) - _LONGEST_BEGUN)) if begun else None
    if last is not None:
        yield last.start() + start, last.end() + start


def number_from(text: str, start: int) -> int:
    """Return the same as `digits_from`, for digits parted by the signs of numbers alone."""
    return _begun(in_numbers(text, start), text, start)
