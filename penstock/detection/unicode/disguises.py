"""Disguises: styled and look-alike letters read as plain ones, invisible characters left out (`read`).

Each character is read by itself, so a slice of a text reads as it does within the whole; only the control sequences of
a terminal are read as one. Honest text in another script is misread, too. That does no harm, since guards read both.

Source of the tables: the Unicode Consortium's ``confusables.txt`` (UTS #39, Unicode Security Mechanisms), read from its
copy in confusable_homoglyphs 3.3.1. They hold the letters of the scripts below whose skeleton is one ASCII letter; a
capital whose skeleton is ``l`` stands for ``I``; skeletons that are digits are left out. Each row has the letters and,
below, what they look like, in the same order.

Unicode data is under the Unicode License V3 (SPDX ``Unicode-3.0``); its notice is in ``NOTICE``.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred
from penstock.detection.long_texts import is_long, stretches
from penstock.detection.unicode.invisibles import is_invisible

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


LOOKALIKES: dict[str, tuple[str, str]] = {
    "Greek": (
        "ͿΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγινορσυϒϜϱϲϳϹϺ",
        "JABEZHIKMNOPTYXayivopouYFpcjCM",
    ),
    "Cyrillic": (
        "ЅІЈАВЕКМНОРСТУХЬагеорсухѕіјѡѴѵҮүһҽӀӏԁԌԛԜԝꙇ",
        "SIJABEKMHOPCTYXbareopcyxsijwVvYyheIidGqWwi",
    ),
    "Cherokee": (
        "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏳᏴꭵꮁꮃꮓꮩꮪꮯ",
        "DRTiYAJEWMHYGhZbRWSVSLCPKdGBirwzvsc",
    ),
    "Coptic": (
        "ⲅⲎⲒⲔⲘⲚⲞⲟⲢⲣⲤⲥⲦⲨⲬⳐ",
        "rHIKMNOoPpCcTYXL",
    ),
    "Armenian": (
        "ՍՏՕագզհոռսցքօ",
        "USOwqqhnnugfo",
    ),
}
"""By script: its letters, and the ASCII letters that they look like."""

SCRIPT_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "Greek": (
        (0x0370, 0x03FF),
        (0x1F00, 0x1FFF),
    ),
    "Cyrillic": (
        (0x0400, 0x052F),
        (0xA640, 0xA69F),
    ),
    "Cherokee": (
        (0x13A0, 0x13FF),
        (0xAB70, 0xABBF),
    ),
    "Coptic": ((0x2C80, 0x2CFF),),
    "Armenian": ((0x0530, 0x058F),),
}
"""By script: the first and last code points of the blocks that hold its letters."""


_FOLD = str.maketrans(
    {letter: plain for row, latin in LOOKALIKES.values() for letter, plain in zip(row, latin, strict=True)}
)
WITHOUT_SPACES = r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"
"""The inside of a character class: letters of scripts that need no white space between words."""

BETWEEN_WORDS = rf"\s{WITHOUT_SPACES}"
"""The same, and white space."""

_PARTING = deferred(f"[{BETWEEN_WORDS}]")
_MARK = deferred("[\u0300-\u036f]")  # letters with accents of their own are letters; a loose accent hides one
_SEEN = bytes([*range(0x09, 0x0E), *range(0x20, 0x7F)])  # in ASCII

# All but characters that surely read as they are written, in the scripts and signs that are most in use. To know them
# at once is several times faster than to ask `_LETTERS` about each. What they read as is fixed: Unicode never changes
# the normal form of a character.
_MAY_BE_DISGUISED = deferred(
    "[^\u00a1-\u00a7\u00a9\u00ab\u00ac\u00ae\u00b0\u00b1\u00b6\u00b7\u00bb\u00bf-\u0131\u0134-\u013e\u0141-\u0148"
    "\u014a-\u017e\u03ac-\u03b0\u03b2\u03b4-\u03b8\u03ba-\u03bc\u03be\u03c0\u03c2\u03c4\u03c6-\u03c8\u03ca-\u03ce"
    "\u0431\u0432\u0434\u0436-\u043d\u043f\u0442\u0444\u0446-\u0454\u05d0-\u05ea\u061d-\u0674\u0679-\u06ff\u0900-\u0957"
    "\u0e01-\u0e32\u0e34-\u0e3a\u0e3f-\u0e5b\u1e00-\u1e99\u1ea0-\u1eff\u2012-\u2016\u2018-\u2023\u2030-\u2032\u2039"
    "\u203a\u20ac\u2190-\u222b\u2231-\u2328\u2500-\u2a0b\u3001-\u3035\u3041-\u3096\u30a0-\u30fe\u3400-\u9fff"
    "\uac00-\ud7a3\U0001f1e6-\U0001f1ff\U0001f300-\U0001f6d7\U0001f900-\U0001fa53]"
)

_FEW = 16  # characters that are replaced one by one, which is quicker than to look at each place of a text

GONE = "\u200b"
"""What masks a character that is not read."""

# ECMA-48's control sequences and strings; the bounds are wide of what terminals understand.
_ESCAPE = deferred(r"\x1b(?:\[[0-?]{0,32}+[ -/]{0,4}+[@-~]|\][^\x07\x1b\n]{0,256}+(?:\x07|\x1b\\))")
_UNFINISHED = deferred(r"\x1b(?:\[[0-?]{0,32}+[ -/]{0,4}+|\][^\x07\x1b\n]{0,256}+\x1b?)?\Z")


class _LetterReadings(dict[int, str]):
    """The reading of each character; computed when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        read = "" if is_invisible(char) else unicodedata.normalize("NFKC", char).translate(_FOLD)
        self[code] = _of_one_kind(_MARK.sub("", read))
        return self[code]


def _of_one_kind(read: str) -> str:
    """Return the reading of a character; if something in it parts words, only that, so that no code ends within it."""
    return read if len(read) == 1 else "".join(_PARTING.findall(read)) or read


_LETTERS = _LetterReadings()


class PlainReading(NamedTuple):
    """A text as guards read it.

    Attributes:
        text: the text as it reads.
        source: the given text, place by place, with escape sequences masked.
        units: the places of escape sequences in the source.
    """

    text: str
    source: str
    units: Sequence[tuple[int, int]] = ()


def is_plain(text: str, start: int) -> bool:
    """Return whether a text reads as it is written from a place on."""
    if not is_long(text, start):
        return _is_plain(text, start, len(text))
    return all(_is_plain(text, low, high) for low, high in stretches(text, start))


def _is_plain(text: str, low: int, high: int) -> bool:
    rest = _beyond_ascii(text[low:high] if low or high < len(text) else text)
    if not rest or _MAY_BE_DISGUISED.search(rest) is None:
        return True
    return all(_LETTERS[ord(odd[0])] == odd[0] for odd in _MAY_BE_DISGUISED.finditer(rest))


def _disguised(text: str) -> Collection[str]:
    """Return those characters of a text that do not read as they are written, each once."""
    rest = _beyond_ascii(text)
    distinct = "".join({*rest})  # a text in styled letters has few of them, each many times
    return [odd for odd in _MAY_BE_DISGUISED.findall(distinct) if _LETTERS[ord(odd)] != odd] if rest else ()


def _beyond_ascii(text: str) -> str:
    """Return the characters of a text that are not among those of ASCII that are seen."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _SEEN)
    return rest.decode("utf-8", "surrogatepass") if rest else ""


def read_by_letter(text: str) -> str | None:
    """Return how a text reads, if each of its characters reads as one; else None."""
    disguised = _disguised(text)
    if any(len(_LETTERS[ord(char)]) != 1 for char in disguised):
        return None
    return _replaced(text, disguised)


def read_with_few_gone(text: str, most: int) -> str | None:
    """Return how a text reads, if so many of its characters or fewer read as nothing, and none as a control; else None.

    The control is the one with which a sequence of a terminal begins.
    """
    disguised = _disguised(text)
    gone = sum(text.count(char) for char in disguised if not _LETTERS[ord(char)])
    return None if gone > most or "\x1b" in disguised else _replaced(text, disguised)


def read(text: str, *, final: bool = True) -> PlainReading:
    """Return how a text reads; if it is not ``final``, up to an escape sequence that its end leaves unfinished."""
    if "\x1b" not in text:
        return reading_of(text)
    units = [found.span() for found in _ESCAPE.finditer(text)]
    source = _ESCAPE.sub(lambda found: GONE * len(found.group()), text)
    rest = None if final else _UNFINISHED.search(source)
    return reading_of(source[: rest.start()] if rest else source, units)


def reading_of(source: str, units: Sequence[tuple[int, int]] = ()) -> PlainReading:
    """Return how a text reads in which characters without a reading of their own are masked already."""
    if not is_long(source, 0):
        return PlainReading(_uncovered(source), source, units)
    read = [_uncovered(source[low:high]) for low, high in stretches(source, 0)]
    return PlainReading("".join(read), source, units)


def _uncovered(text: str) -> str:
    return _replaced(text, _disguised(text))


def _replaced(text: str, disguised: Collection[str]) -> str:
    """Return how a text reads. A character that reads as another one is in no reading, so they are replaced in turn."""
    if len(disguised) > _FEW:
        return text.translate(_LETTERS)
    for char in disguised:
        text = text.replace(char, _LETTERS[ord(char)])
    return text


class PlainPlaces:
    """Leads from places in a reading back to places in the text."""

    def __init__(self, reading: PlainReading) -> None:
        source = reading.source
        odd = {char: width for char in _disguised(source) if (width := len(_LETTERS[ord(char)])) != 1}
        widths = dict.fromkeys(source, 1) | odd if odd else {}
        # Where, in the reading, each character of the text ends.
        self._ends = [*accumulate(map(widths.__getitem__, source))] if odd else range(1, len(source) + 1)

    def low(self, at: int) -> int:
        """Return where the reading begins of the character that reads as the one at a place of the reading."""
        char = bisect_right(self._ends, at)
        return self._ends[char - 1] if char else 0

    def high(self, at: int) -> int:
        """Return where the reading ends of the character that reads as the last one before a place of the reading."""
        return self._ends[bisect_left(self._ends, at)]

    def start(self, at: int) -> int:
        """Return where the character begins that reads as the one at that place."""
        return bisect_right(self._ends, at)

    def end(self, at: int) -> int:
        """Return where the character ends that reads as the last before that place."""
        return bisect_left(self._ends, at) + 1
