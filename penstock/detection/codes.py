r"""Codes: base64, base32, hexadecimal, character codes and escapes, decoded with the place of each character.

`decoded` yields the readings of a text. Each `Decoded` text leads from a finding in it back to the characters of the
given text that say it, and to no others: escape sequences whole (``%40``, ``\u0040``, ``&#64;``), and the letters of
base64, base32 and hexadecimal that hold a bit of it.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from bisect import bisect_right
from functools import cache, lru_cache, partial
from html.entities import html5
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred
from penstock.detection.unicode import disguises

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Place = Callable[[int, int], tuple[int, int]]
    _Kind = tuple[str, re.Pattern[str], Callable[[str], str]]


class Decoded(NamedTuple):
    """A reading of a text in a code.

    Attributes:
        text: the decoded text.
        place: returns where in the given text a part of the decoded one stands, from its start and end.
        resolved: whether it is the given text with its escapes resolved.
    """

    text: str
    place: Place
    resolved: bool = False


def decoded(text: str, *, escapes: bool = True) -> Iterator[Decoded]:
    """Yield the readings of a text in the codes that it can be written in, if they are text and differ from it.

    Pass ``escapes=False`` for a text whose escapes are resolved already.
    """
    for decode in _CODES:
        if escapes or decode is not _escapes:
            yield from decode(text)


_LEAST = 12  # characters that a decoded text must have to be looked at
_TORN = 6  # bytes at its ends that belong to characters which are cut in two
_CHARACTERS = range(0x9, 0x110000)  # from the tab to the last character
_BYTES = range(0x100)
_BASES = tuple((base, frozenset("0123456789"[:base])) for base in (10, 8, 2))
_BASE64 = deferred(r"[A-Za-z0-9+/_-]{16,}+={0,2}")
_BASE32 = deferred(r"[A-Za-z2-7]{24,}+=*")
_ANY_LETTER = re.compile("[A-Za-z]")
_SPACES = deferred(r"\s+")
_DIGITS = b"0123456789"
_BITS = deferred(r"[01\s]{96,}+")
_NUMBER = deferred(r"(?<![0-9A-Za-z])(?:0?x)?([01]{9,21}|[0-9A-Fa-f]{1,8})(?![0-9A-Za-z])")
_HEX_RUN = deferred(r"(?:(?:0x|\\x|\\u00|u\+00|%)?[0-9a-f]{2}[\s,:;_-]*){8,}+", re.IGNORECASE)
_HEX_PREFIX = re.compile(r"[xXuU%]")
_HEX_BETWEEN = deferred(r"[\s,:;_-]+")
_HEX_UNIT = deferred(r"(?:0x|\\x|\\u00|u\+00|%)?([0-9a-f]{2})", re.IGNORECASE)


def _base64(text: str) -> Iterator[Decoded]:
    """Yield what base64 says, in either alphabet, starting at each of its four positions."""
    joined = _SPACES.sub("", text).replace("-", "+").replace("_", "/")
    for found in _BASE64.finditer(joined):
        if _ANY_LETTER.search(joined, *found.span()) is None:  # digits alone say nothing that can be read
            continue
        letters = found.group().rstrip("=")
        for skip in range(4):
            usable = letters[skip : len(letters) - (len(letters) - skip) % 4]
            rest = letters[skip + len(usable) :]
            padded = usable + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
            yield from _said(partial(base64.b64decode, padded), partial(_letters, text, found.start() + skip, 6))


def _base32(text: str) -> Iterator[Decoded]:
    for found in _BASE32.finditer(_SPACES.sub("", text)):
        letters = found.group().rstrip("=").upper()
        padded = letters + "=" * (-len(letters) % 8)
        yield from _said(partial(base64.b32decode, padded), partial(_letters, text, found.start(), 5))


def _letters(text: str, first: int, bits: int, low: int, high: int) -> tuple[int, int]:
    """Return where the letters stand that hold some bytes; ``first`` counts letters, without white space."""
    known = [at for at, char in enumerate(text) if not char.isspace()]
    last = min(first - (-high * 8 // bits), len(known))
    return known[first + low * 8 // bits], known[last - 1] + 1


def _hex(text: str) -> Iterator[Decoded]:
    for found in _HEX_RUN.finditer(text):
        units = cache(partial(_hex_units, text, *found.span()))
        run = found.group()
        plain = _HEX_PREFIX.search(run) is None
        digits = _HEX_BETWEEN.sub("", run) if plain else "".join(_HEX_UNIT.findall(run))
        for skip in (0, 1):
            even = digits[skip : len(digits) - (len(digits) - skip) % 2]
            yield from _said(partial(binascii.unhexlify, even), partial(_digit_places, units, skip))


def _hex_units(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [unit.span() for unit in _HEX_UNIT.finditer(text, start, end)]


def _digit_places(units: Callable[[], list[tuple[int, int]]], skip: int, low: int, high: int) -> tuple[int, int]:
    """Return where the digits of some bytes stand, with the sign before them (``0x``, ``%``)."""
    first, last = skip + 2 * low, skip + 2 * high - 1
    begin, end = units()[first // 2], units()[last // 2]
    return begin[0] if first % 2 == 0 else begin[1] - 1, end[1] - 1 + last % 2


def _numbers(text: str) -> Iterator[Decoded]:
    """Yield the text of numbers that stand one by one, decimal, octal or binary: of characters, or of bytes."""
    written = text.encode("ascii", "replace")
    if len(written) - len(written.translate(None, _DIGITS)) < _LEAST:
        return
    found = [*_NUMBER.finditer(text)]
    if len(found) < _LEAST:
        return
    codes = [_number_codes(one.group(1)) for one in found]
    for column in zip(*codes, strict=True):  # for each base
        for kept in _close_codes(column):
            if len(kept) >= _LEAST:
                yield from _of_codes([column[at] for at in kept], partial(_numbered, [found[at] for at in kept]))
    if _BITS.fullmatch(text):
        bits = _SPACES.sub("", text)
        raw = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
        yield from _of_codes(raw, partial(_letters, text, 0, 1))


def _of_codes(codes: Sequence[int], place: Place) -> Iterator[Decoded]:
    """Yield the characters with some codes, and the bytes of the codes; ``place`` counts codes."""
    said = "".join(map(chr, codes))
    if said.isascii() or _is_legible(said):
        yield Decoded(said, place)
    if not said.isascii() and all(code in _BYTES for code in codes):
        yield from _said(partial(bytes, codes), place)


_APART = 16  # numbers in a row that are no character codes, behind which no text goes on


def _close_codes(column: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of the codes of each text; negative numbers are no codes."""
    kept: list[int] = []
    for at, code in enumerate(column):
        if code < 0:
            continue
        if kept and at - kept[-1] > _APART:
            yield kept
            kept = []
        kept.append(at)
    if kept:
        yield kept


def _numbered(found: Sequence[re.Match[str]], low: int, high: int) -> tuple[int, int]:
    """Return where the numbers of some characters stand."""
    return found[low].start(), found[high - 1].end()


@lru_cache(maxsize=4096)
def _number_codes(digits: str) -> tuple[int, ...]:
    """Return the character codes that a number is in base 10, 8 and 2; -1 where it is none."""
    return tuple(
        code if allowed.issuperset(digits) and (code := int(digits, base)) in _CHARACTERS else -1
        for base, allowed in _BASES
    )


# One UTF-8 character each; a byte that is none stands alone.
_PERCENT_CODE = (
    r"(?:%[CcDd][0-9A-Fa-f]|%[Ee][0-9A-Fa-f]%[89ABab][0-9A-Fa-f]|%[Ff][0-7](?:%[89ABab][0-9A-Fa-f]){2})"
    r"%[89ABab][0-9A-Fa-f]|%[0-9A-Fa-f]{2}"
)
_PERCENT_ALONE = deferred(_PERCENT_CODE)
_PERCENT = deferred(rf"{_PERCENT_CODE}|\+")
_REFERENCE = deferred(r"&(?:#[0-9]+;?|#[xX][0-9A-Fa-f]+;?|[A-Za-z][A-Za-z0-9]{1,31};?)")  # as in the module html
_BACKSLASHED = (
    r"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\u\{[0-9A-Fa-f]{1,6}\}"
    r"|\\U[0-9A-Fa-f]{8}|\\x[0-9A-Fa-f]{2}|\\[0-3][0-7]{2}|\\[\"'\\/bfnrtv]"
)
_ESCAPED = deferred(_BACKSLASHED)
_BACKSLASH = deferred(rf"{_BACKSLASHED}|=[0-9A-F]{{2}}|=\r?\n")
_NAMES = {name: char for name, char in html5.items() if name[-1] == ";" and char.isascii() and len(char) == 1}
_AGAIN = "&(?:amp;){0,4}"  # a reference in a text that was written as HTML once more, or oftener
_NAMED = rf"{_AGAIN}(?:#[0-9]{{1,8}};?|#[xX][0-9A-Fa-f]{{1,8}};?|nbsp;|shy;|{'|'.join(_NAMES)})"
# Each byte by itself, each backslash of several.
_ESCAPE = deferred(rf"\\(?=\\)|{_BACKSLASHED}|%[0-9A-Fa-f]{{2}}|{_NAMED}")
_UNFINISHED = deferred(
    r"(?:\\[uUx]?\{?[0-9A-Fa-f]{0,8}(?:\\u?[0-9A-Fa-f]{0,4})?|%[0-9A-Fa-f]?"
    rf"|{_AGAIN}(?:#[xX]?[0-9A-Fa-f]{{0,8}}|[A-Za-z]{{0,16}}))\Z"
)
_MAY_ESCAPE = re.compile(
    r"\\(?:[uUx0-3\"'\\/bfnrtv]|\Z)|%(?:[0-9A-Fa-f]{2}|[0-9A-Fa-f]?\Z)"
    r"|&(?:#[xX]?[0-9A-Fa-f]|[A-Za-z]{1,16};|(?:#[xX]?|[A-Za-z]{0,16})\Z)"
)
_LONGEST_ESCAPE = 34
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST_CODE = 0x10FFFF


@lru_cache(maxsize=1024)
def _percent(escape: str) -> str:
    if escape == "+":
        return " "
    return bytes.fromhex(escape.replace("%", "")).decode("utf-8", errors="replace")


@lru_cache(maxsize=1024)
def _backslash(escape: str) -> str:
    """Return the text of an escape of programming languages, of JSON or of quoted-printable."""
    if escape[0] == "=":
        return chr(int(escape[1:], 16)) if escape[-1] != "\n" else ""
    kind, digits = escape[1], escape[2:].strip("{}")
    if kind in "uUx":
        if "\\" in digits:
            high, low = (int(half, 16) for half in digits.split("\\u"))
            return chr(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF))
        code = int(digits, 16)
        return chr(code) if code <= _LAST_CODE else escape
    return chr(int(escape[1:], 8)) if digits else _SHORT.get(kind, kind)


_referred = lru_cache(maxsize=1024)(html.unescape)

_ESCAPES: tuple[_Kind, ...] = (
    ("%", _PERCENT, _percent),
    ("&", _REFERENCE, _referred),
    ("\\", _ESCAPED, _backslash),
)
_FURTHER: tuple[_Kind, ...] = (
    ("%", _PERCENT_ALONE, _percent),
    *_ESCAPES[1:],
)  # a plus sign that an escape says is no space


_HIDING = 8  # escapes of one kind that are no accident


def _escapes(text: str) -> Iterator[Decoded]:
    """Yield the text with its escapes resolved: each kind alone, if there are several, and all to the end.

    Then the same with its quoted-printable codes resolved.
    """
    known = {text}
    counts = [len(pattern.findall(text)) if sign in text else 0 for sign, pattern, _ in _FURTHER]
    alone = [kind for kind, count in zip(_ESCAPES, counts, strict=True) if count >= _HIDING]
    several = sum(map(bool, counts)) > 1
    readings = [_resolved(text, pattern, said) for _, pattern, said in alone if several]
    readings.append(_to_the_end(text))
    if "=" in text:
        printable = _resolved(text, _BACKSLASH, _backslash)
        if printable.text != text:
            readings.append(_within(printable, _to_the_end(printable.text)))
    for reading in readings:
        if reading.text not in known:
            known.add(reading.text)
            yield reading


_ROUNDS = 4  # of escapes in escapes


def _to_the_end(text: str) -> Decoded:
    """Return a text with percent codes, character references and backslash escapes resolved, also within each other.

    It is one reading of all levels, so a text of escapes in escapes costs no more than another.
    """
    given: Decoded | None = None
    for each in range(_ROUNDS):
        before = given
        kinds: Sequence[_Kind] = _FURTHER if each else _ESCAPES
        for sign, pattern, said in kinds:
            now = given.text if given else text
            if sign in now:
                resolved = _resolved(now, pattern, said)
                if resolved.text != now:
                    given = _within(given, resolved) if given else resolved
        if given is before:
            break
    return given or Decoded(text, _itself, resolved=True)


def _itself(low: int, high: int) -> tuple[int, int]:
    return low, high


def _within(outer: Decoded, inner: Decoded) -> Decoded:
    """Return a reading of a reading as one of the text that the first is of."""
    return Decoded(inner.text, partial(_place_within, outer.place, inner.place), resolved=True)


def _place_within(outer: Place, inner: Place, low: int, high: int) -> tuple[int, int]:
    return outer(*inner(low, high))


def _resolved(text: str, pattern: re.Pattern[str], said: Callable[[str], str]) -> Decoded:
    """Return a text with its escapes resolved."""
    resolved = pattern.sub(lambda found: said(found.group()), text)
    return Decoded(resolved, partial(_escaped, cache(partial(_places, text, pattern, said))), resolved=True)


class _EscapePlaces(NamedTuple):
    """Where the escapes of a text stand, and where each ends in the resolved text, behind the text's beginning."""

    escapes: Sequence[tuple[int, int]]
    ends: Sequence[int]


def _places(text: str, pattern: re.Pattern[str], said: Callable[[str], str]) -> _EscapePlaces:
    escapes: list[tuple[int, int]] = []
    ends = [0]
    done = 0
    for found in pattern.finditer(text):
        start, end = found.span()
        escapes.append((start, end))
        ends.append(ends[-1] + start - done + len(said(found.group())))
        done = end
    return _EscapePlaces(escapes, ends)


def _escaped(places: Callable[[], _EscapePlaces], low: int, high: int) -> tuple[int, int]:
    """Return where a part of a resolved text stands: the text of an escape stands in all of the escape."""
    escapes, ends = places()

    def place(at: int, side: int) -> int:
        last = bisect_right(ends, at) - 1
        given = (escapes[last - 1][1] if last else 0) + at - ends[last]
        return given + side if last == len(escapes) or given < escapes[last][0] else escapes[last][side]

    return place(low, 0), place(high - 1, 1)


def may_escape(text: str, start: int) -> bool:
    """Return, at a glance, whether a text may have escapes from a place on, or end with the beginning of one."""
    return any(text.find(sign, start) >= 0 for sign in "\\%&") and _MAY_ESCAPE.search(text, start) is not None


def read_escapes(text: str, *, final: bool) -> disguises.PlainReading:
    """Return how a text reads without its disguise, and with its escapes and references resolved.

    Those are backslash escapes, percent codes and character references. If it is not ``final``, that is up to an escape
    that its end leaves unfinished. Of backslashes in a row the last one counts, so a text within texts reads as it does
    alone. No character depends on the text before it.
    """
    given = disguises.read(text, final=final)
    source = given.source
    rest = None if final else _UNFINISHED.search(source, max(len(source) - 2 * _LONGEST_ESCAPE, 0))
    known = rest.start() if rest else len(source)
    units: list[tuple[int, int]] = []

    def mask(found: re.Match[str]) -> str:
        if found.start() < known:
            units.append(found.span())
        return _masked(found.group())

    masked = _ESCAPE.sub(mask, source)  # a backslash reads by what stands behind it
    return disguises.reading_of(masked[:known], sorted([*given.units, *units]) if given.units else units)


@lru_cache(maxsize=1024)
def _masked(given: str) -> str:
    """Return the text of an escape, and behind it as many masked places as it has characters more."""
    if given == "\\":
        return disguises.GONE
    if given[0] == "&":
        said = html.unescape(f"&{given.rsplit('amp;', 1)[-1] or 'amp;'}" if "amp;" in given else given)
    else:
        said = chr(int(given[1:], 16)) if given[0] == "%" else _backslash(given)
    if len(said) != 1:
        return given
    shown = said if said.isprintable() or said.isspace() else " "  # what is not seen parts words
    return shown + disguises.GONE * (len(given) - 1)


_CODES: tuple[Callable[[str], Iterator[Decoded]], ...] = (_base64, _hex, _escapes, _numbers, _base32)


def _said(decode: Callable[[], bytes], place: Place) -> Iterator[Decoded]:
    """Yield the text that bytes hold; nothing if they cannot be decoded or are not text. ``place`` counts bytes."""
    try:
        raw = decode()
    except (ValueError, binascii.Error):
        return
    if len(raw) < _LEAST:
        return
    coding = _coding(raw)
    text = raw.decode(coding, errors="ignore")
    lost = len(raw) - len(text.encode(coding))
    if lost * 10 > len(raw) + _TORN * 10:
        return
    clear = _seen(text)
    if _is_legible(clear) and len(clear) >= _LEAST:
        yield Decoded(text, partial(_in_bytes, cache(partial(_characters, raw, coding)), place))


def _seen(text: str) -> str:
    """Return the visible part of a text; invisible characters do not make it illegible."""
    return text if text.isascii() else disguises.read(text).text


def _is_legible(text: str) -> bool:
    return sum(map(str.isprintable, text)) * 10 >= len(text) * 8


def _characters(raw: bytes, coding: str) -> list[tuple[int, int]]:
    """Return where each character of a text stands in its bytes."""
    decoder = codecs.getincrementaldecoder(coding)(errors="ignore")
    spans: list[tuple[int, int]] = []
    for at in range(1, len(raw) + 1):
        spans += ((at - len(char.encode(coding)), at) for char in decoder.decode(raw[at - 1 : at]))
    return spans


def _in_bytes(characters: Callable[[], list[tuple[int, int]]], place: Place, low: int, high: int) -> tuple[int, int]:
    """Return the place of some characters of the text that bytes hold."""
    return place(characters()[low][0], characters()[high - 1][1])


def _coding(raw: bytes) -> str:
    """Return the encoding of bytes: in UTF-16 every other one is zero, as far as letters are Latin."""
    if raw.count(0) * 3 <= len(raw):
        return "utf-8"
    return "utf-16-le" if raw[1::2].count(0) > raw[::2].count(0) else "utf-16-be"
