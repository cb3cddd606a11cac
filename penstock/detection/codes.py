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
from bisect import bisect_right
from functools import partial
from html.entities import html5
from itertools import accumulate
from string import ascii_uppercase
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from penstock.detection.code_numbers import NO_TEXT, byte_runs, number_parts, number_rows
from penstock.detection.deferred import deferred
from penstock.detection.legible import LEAST, legible_parts, texts_in
from penstock.detection.unicode import disguises

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

    Place = Callable[[int, int], tuple[int, int]]
    _Kind = tuple[str, re.Pattern[str], Callable[[str], str]]

T = TypeVar("T")


class _Remembered(Generic[T]):
    """A function that is called when its value is first asked for, and not again: most readings hold nothing."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []

    def __call__(self) -> T:
        if not self._made:
            self._made.append(self._make())
        return self._made[0]


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


_BASE64 = deferred(r"[A-Za-z0-9+/_-]{16,}+={0,2}")
_BASE32 = deferred(r"[A-Za-z2-7]{24,}+=*")
_ANY_LETTER = deferred("[A-Za-z]")
_SPACES = deferred(r"\s+")
_DIGITS = b"0123456789"
_BITS = deferred(r"[01\s]{96,}+")
# Most of a run has no prefix, so the digits come first: no prefix begins with two of them.
_PAIR, _BEFORE, _BEHIND = "[0-9a-fA-F]{2}", r"(?:0[xX]|\\[xX]|\\[uU]00|[uU]\+00|%)", r"[\s,:;_-]*"
HEX_RUN = deferred(rf"(?:{_PAIR}{_BEHIND}|{_BEFORE}{_PAIR}{_BEHIND}){{8,}}+")
_HEX_PREFIX = deferred(r"[xXuU%]")
_HEX_BETWEEN = deferred(r"[\s,:;_-]+")
HEX_UNIT = deferred(rf"{_BEFORE}?({_PAIR})")


def _base64(text: str) -> Iterator[Decoded]:
    """Yield what base64 says, in either alphabet, starting at each of its four positions."""
    joined = _SPACES.sub("", text).replace("-", "+").replace("_", "/")
    for found in _BASE64.finditer(joined):
        if _ANY_LETTER.search(joined, *found.span()) is None:  # digits alone say nothing that can be read
            continue
        letters = found.group().rstrip("=")
        for skip in range(min(4, len(letters) + 1 - LEAST * 8 // 6)):
            usable = letters[skip : len(letters) - (len(letters) - skip) % 4]
            rest = letters[skip + len(usable) :]
            padded = usable + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
            yield from _said(partial(base64.b64decode, padded), partial(_letters, text, found.start() + skip, 6))


_BASE32_DIGITS = str.maketrans(ascii_uppercase + "234567", "0123456789" + ascii_uppercase[:22])  # as `int` reads them
_NO_BASE32 = (1, 3, 6)  # letters behind eights that hold no whole byte more


def _base32(text: str) -> Iterator[Decoded]:
    for found in _BASE32.finditer(_SPACES.sub("", text)):
        letters = found.group().rstrip("=").upper()
        if len(letters) % 8 not in _NO_BASE32:
            yield from _said(partial(_of_base32, letters), partial(_letters, text, found.start(), 5))


def _of_base32(letters: str) -> bytes:
    """Return the bytes that letters hold; the module base64 takes many times as long."""
    size = 5 * len(letters)
    return (int(letters.translate(_BASE32_DIGITS), 32) >> size % 8).to_bytes(size // 8, "big")


def _letters(text: str, first: int, bits: int, low: int, high: int) -> tuple[int, int]:
    """Return where the letters stand that hold some bytes; ``first`` counts letters, without white space."""
    known = [at for at, char in enumerate(text) if not char.isspace()]
    last = min(first - (-high * 8 // bits), len(known))
    return known[first + low * 8 // bits], known[last - 1] + 1


def _hex(text: str) -> Iterator[Decoded]:
    for found in HEX_RUN.finditer(text):
        if found.end() - found.start() < 2 * LEAST:
            continue
        units = _Remembered(partial(_hex_units, text, *found.span()))
        run = found.group()
        plain = _HEX_PREFIX.search(run) is None
        digits = _HEX_BETWEEN.sub("", run) if plain else "".join(HEX_UNIT.findall(run))
        for skip in (0, 1):
            even = digits[skip : len(digits) - (len(digits) - skip) % 2]
            if len(even) >= 2 * LEAST:
                yield from _said(partial(binascii.unhexlify, even), partial(_digit_places, units, skip))


def _hex_units(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [unit.span() for unit in HEX_UNIT.finditer(text, start, end)]


def _digit_places(units: Callable[[], list[tuple[int, int]]], skip: int, low: int, high: int) -> tuple[int, int]:
    """Return where the digits of some bytes stand, with the sign before them (``0x``, ``%``)."""
    first, last = skip + 2 * low, skip + 2 * high - 1
    begin, end = units()[first // 2], units()[last // 2]
    return begin[0] if first % 2 == 0 else begin[1] - 1, end[1] - 1 + last % 2


def _numbers(text: str) -> Iterator[Decoded]:
    """Yield the text of numbers that stand one by one, decimal, octal or binary: of characters, or of bytes."""
    written = text.encode("ascii", "replace")
    if len(written) - len(written.translate(None, _DIGITS)) < LEAST:
        return
    for row in number_rows(text):
        said, places = row.said, row.places
        for low, high in number_parts(said):
            yield Decoded(said[low:high].replace(NO_TEXT, ""), partial(_numbered, _kept(said, places, low, high)))
        for low, high in byte_runs(row.raw):
            yield from _said(partial(row.raw[low:high].encode, "latin-1"), partial(_numbered, places[low:high]))
    if _BITS.fullmatch(text):
        bits = _SPACES.sub("", text)
        raw = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
        yield from _said(lambda: raw, partial(_letters, text, 0, 1))


def _kept(said: str, places: Sequence[tuple[int, int]], low: int, high: int) -> Sequence[tuple[int, int]]:
    """Return the places of those numbers of a part that are text."""
    return [places[at] for at in range(low, high) if said[at] != NO_TEXT]


def _numbered(places: Sequence[tuple[int, int]], low: int, high: int) -> tuple[int, int]:
    """Return where the numbers of some characters stand."""
    return places[low][0], places[high - 1][1]


# One UTF-8 character each; a byte that is none stands alone.
_PERCENT_CODE = (
    r"(?:%[CcDd][0-9A-Fa-f]|%[Ee][0-9A-Fa-f]%[89ABab][0-9A-Fa-f]|%[Ff][0-7](?:%[89ABab][0-9A-Fa-f]){2})"
    r"%[89ABab][0-9A-Fa-f]|%[0-9A-Fa-f]{2}"
)
# Each pattern of escapes is one group: a text is split by it, which is several times faster than to replace one by one.
_PERCENT_ALONE = deferred(f"({_PERCENT_CODE})")
_PERCENT = deferred(rf"({_PERCENT_CODE}|\+)")
_REFERENCE = deferred(r"(&(?:#[0-9]+;?|#[xX][0-9A-Fa-f]+;?|[A-Za-z][A-Za-z0-9]{1,31};?))")  # as in the module html
_BACKSLASHED = (
    r"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\u\{[0-9A-Fa-f]{1,6}\}"
    r"|\\U[0-9A-Fa-f]{8}|\\x[0-9A-Fa-f]{2}|\\[0-3][0-7]{2}|\\[\"'\\/bfnrtv]"
)
_ESCAPED = deferred(f"({_BACKSLASHED})")
_BACKSLASH = deferred(rf"({_BACKSLASHED}|=[0-9A-F]{{2}}|=\r?\n)")
_NAMES = {name: char for name, char in html5.items() if name[-1] == ";" and char.isascii() and len(char) == 1}
_AGAIN = "&(?:amp;){0,4}"  # a reference in a text that was written as HTML once more, or oftener
_NAMED = rf"{_AGAIN}(?:#[0-9]{{1,8}};?|#[xX][0-9A-Fa-f]{{1,8}};?|nbsp;|shy;|{'|'.join(_NAMES)})"
_PAIRED = r"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\{2,16}u[Dd][C-Fc-f][0-9A-Fa-f]{2}"  # a character of a text within texts
# Each byte by itself, each backslash of several.
_ESCAPE = deferred(rf"(\\(?=\\)|{_PAIRED}|{_BACKSLASHED}|%[0-9A-Fa-f]{{2}}|{_NAMED})")
_UNFINISHED = deferred(
    r"(?:\\[uUx]?\{?[0-9A-Fa-f]{0,8}(?:\\{1,16}u?[0-9A-Fa-f]{0,4})?|%[0-9A-Fa-f]?"
    rf"|{_AGAIN}(?:#[xX]?[0-9A-Fa-f]{{0,8}}|[A-Za-z]{{0,16}}))\Z"
)
MAY_ESCAPE = deferred(
    r"\\(?:[uUx0-3\"'\\/bfnrtv]|\Z)|%(?:[0-9A-Fa-f]{2}|[0-9A-Fa-f]?\Z)"
    r"|&(?:#[xX]?[0-9A-Fa-f]|[A-Za-z]{1,16};|(?:#[xX]?|[A-Za-z]{0,16})\Z)"
)
_LONGEST_ESCAPE = 34
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST_CODE = 0x10FFFF


def _percent(escape: str) -> str:
    if escape == "+":
        return " "
    return bytes.fromhex(escape.replace("%", "")).decode("utf-8", errors="replace")


def _backslash(escape: str) -> str:
    """Return the text of an escape of programming languages, of JSON or of quoted-printable."""
    if escape[0] == "=":
        return chr(int(escape[1:], 16)) if escape[-1] != "\n" else ""
    kind, digits = escape[1], escape[2:].strip("{}")
    if kind in "uUx":
        if "\\" in digits:
            high, low = (int(half.rstrip("\\"), 16) for half in digits.split("\\u"))
            return chr(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF))
        code = int(digits, 16)
        return chr(code) if code <= _LAST_CODE else escape
    return chr(int(escape[1:], 8)) if digits else _SHORT.get(kind, kind)


_ESCAPES: tuple[_Kind, ...] = (
    ("%", _PERCENT, _percent),
    ("&", _REFERENCE, html.unescape),
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
    if not any(sign in text for sign in "%&\\="):
        return
    known = {text}
    counts = [len(pattern.findall(text)) if sign in text else 0 for sign, pattern, _ in _FURTHER]
    alone = [kind for kind, count in zip(_ESCAPES, counts, strict=True) if count >= _HIDING]
    several = sum(map(bool, counts)) > 1
    readings = [_resolved(text, pattern, said) for _, pattern, said in alone if several]
    readings.append(_to_the_end(text))
    printable = _resolved(text, _BACKSLASH, _backslash) if "=" in text else None
    if printable is not None:
        further = _to_the_end(printable.text)
        readings.append(_within(printable, further) if further else printable)
    for reading in readings:
        if reading is not None and reading.text not in known:
            known.add(reading.text)
            yield reading


_ROUNDS = 4  # of escapes in escapes


def _to_the_end(text: str) -> Decoded | None:
    """Return a text with percent codes, character references and backslash escapes resolved, also within each other.

    It is one reading of all levels, so a text of escapes in escapes costs no more than another. None: it has none.
    """
    given: Decoded | None = None
    for each in range(_ROUNDS):
        before = given
        kinds: Sequence[_Kind] = _FURTHER if each else _ESCAPES
        for sign, pattern, said in kinds:
            now = given.text if given else text
            resolved = _resolved(now, pattern, said) if sign in now else None
            if resolved is not None and resolved.text != now:
                given = _within(given, resolved) if given else resolved
        if given is before:
            break
    return given


def _within(outer: Decoded, inner: Decoded) -> Decoded:
    """Return a reading of a reading as one of the text that the first is of."""
    return Decoded(inner.text, partial(_place_within, outer.place, inner.place), resolved=True)


def _place_within(outer: Place, inner: Place, low: int, high: int) -> tuple[int, int]:
    return outer(*inner(low, high))


class _Told(dict[str, str]):
    """The text of each escape of one text, asked for once. It is gone with the text."""

    def __init__(self, said: Callable[[str], str]) -> None:
        super().__init__()
        self._said = said

    def __missing__(self, escape: str) -> str:
        self[escape] = text = self._said(escape)
        return text


def _resolved(text: str, pattern: re.Pattern[str], said: Callable[[str], str]) -> Decoded | None:
    """Return a text with its escapes resolved; None if it has none."""
    low = _first_plus(text) if pattern is _PERCENT else 0
    parts = pattern.split(text[low:])  # each other one is an escape
    if len(parts) == 1:
        return None
    parts[1::2] = map(_Told(said).__getitem__, parts[1::2])
    resolved = text[:low] + "".join(parts)
    return Decoded(resolved, partial(_escaped, _Remembered(partial(_places, text, low, pattern, said))), resolved=True)


PLUS_BEFORE = 128
"""How far before a percent code a plus sign is a space; so a text that goes on without one need not wait for it."""


def _first_plus(text: str) -> int:
    """Return the place from which on plus signs of a text are spaces."""
    first = _PERCENT_ALONE.search(text)
    return len(text) if first is None else max(first.start() - PLUS_BEFORE, 0)


class _EscapePlaces(NamedTuple):
    """Where the escapes of a text stand, and where each ends in the resolved text, behind the text's beginning."""

    escapes: Sequence[tuple[int, int]]
    ends: Sequence[int]


def _places(text: str, low: int, pattern: re.Pattern[str], said: Callable[[str], str]) -> _EscapePlaces:
    escapes: list[tuple[int, int]] = []
    ends = [0]
    done = 0
    for found in pattern.finditer(text, low):
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
    return any(text.find(sign, start) >= 0 for sign in "\\%&") and MAY_ESCAPE.search(text, start) is not None


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
    parts = _ESCAPE.split(source)  # a backslash reads by what stands behind it
    borders = [*accumulate(map(len, parts), initial=0)]
    units = [*zip(borders[1:-1:2], borders[2::2], strict=True)]
    while units and units[-1][0] >= known:
        units.pop()
    parts[1::2] = map(_Told(_masked).__getitem__, parts[1::2])
    masked = "".join(parts)
    return disguises.reading_of(masked[:known], sorted([*given.units, *units]) if given.units else units)


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
    """Yield the texts that bytes hold; nothing if they cannot be decoded. ``place`` counts bytes."""
    try:
        raw = decode()
    except (ValueError, binascii.Error):
        return
    for part in legible_parts(raw):
        for start, coding, said in texts_in(raw, part):
            characters = _Remembered(partial(_characters, raw[start : part.end], coding))
            yield Decoded(said, partial(_in_bytes, characters, start, place))


def _characters(raw: bytes, coding: str) -> list[tuple[int, int]]:
    """Return where each character of a text stands in its bytes."""
    decoder = codecs.getincrementaldecoder(coding)(errors="ignore")
    spans: list[tuple[int, int]] = []
    for at in range(1, len(raw) + 1):
        spans += ((at - len(char.encode(coding)), at) for char in decoder.decode(raw[at - 1 : at]))
    return spans


def _in_bytes(
    characters: Callable[[], list[tuple[int, int]]], start: int, place: Place, low: int, high: int
) -> tuple[int, int]:
    """Return the place of some characters of the text that bytes hold from a place on."""
    return place(start + characters()[low][0], start + characters()[high - 1][1])
