"""Numbers that stand for characters: decimal, octal or binary ones in a row, and where they are text.

Where text begins and ends among numbers depends on the numbers in it and close behind it alone, as for
`penstock.detection.legible`: a table of values is known to hold none within a few numbers.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred
from penstock.detection.legible import LEAST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_TEXT = "\udcff"
"""The stand-in for a number that is no character of a text."""

BASES = (10, 8, 2)

_NUMBER = deferred(r"(?<![0-9A-Za-z])(?:0?x)?([01]{9,21}|[0-9A-Fa-f]{1,8})(?![0-9A-Za-z])")
_FIRST, _LAST = 0x9, 0x10FFFF  # from the tab on
_LAST_BYTE = 0xFF
_BYTES = deferred(rf"[\x00-\xff]{{{LEAST},}}+")
_APART = 16  # numbers in a row that are no characters at all, behind which no text goes on
_FAR = 64  # characters between two numbers of a text
_RARE = range(0x180, 0x250)  # letters of which no text has many
_LATIN = frozenset("ƏƠơƯưȘșȚț")  # those of them that some languages write
_RUN = 4  # characters of text in a row
_GOOD = f"[^{NO_TEXT}]"
_IN_A_ROW = deferred(f"{_GOOD}{{{_RUN}}}")
_GAP = rf"{NO_TEXT}(?s:.){{0,2}}?"  # up to three that are none, or too few
_PART = deferred(rf"{_GOOD}{{{_RUN}}}{_GOOD}*+(?:{_GAP}{_GOOD}{{{_RUN}}}{_GOOD}*+)*+")
_BEGUN = rf"{_GOOD}{{0,{_RUN - 1}}}"
_GOES_ON = deferred(rf"(?:{_GAP}{_BEGUN})?")
_LAST_ONES = deferred(rf"{_BEGUN}\Z")
_LONGEST_REST = 6


_ALONE = deferred(r"(?<![0-9A-Za-z])(?:0?x)?(?:9|[0-9]{2,21})(?![0-9A-Za-z])")
_ALONE_BUT_TAB = deferred(r"(?<![0-9A-Za-z])(?:0?x)?(?!0*(?:9|11)(?![0-9A-Za-z]))[0-9]{2,21}(?![0-9A-Za-z])")
_BEGUN_ALONE = deferred(r"(?<![0-9A-Za-z])(?:0?x?)[0-9]{0,21}\Z")


def stand_in_row(text: str) -> bool:
    """Return, at a glance, whether enough numbers of a text are near each other to be a part."""
    return any(count >= LEAST for _, count, _ in _near_numbers(text))


def numbers_at_end(text: str) -> int:
    """Return where the first of the numbers begins that a text ends with, or to which it may add one; else its end.

    Those before it are tabs, with which no finding begins.
    """
    begun = _BEGUN_ALONE.search(text)
    end = len(text) if begun is None else begun.start()
    row = next(iter(deque(_near_numbers(text), maxlen=1)), None)
    if row is None or end - row[2] > _FAR:
        return end
    first = _ALONE_BUT_TAB.search(text, row[0])
    return end if first is None else first.start()


def _near_numbers(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield where numbers near each other begin, how many they are, and where the last of them ends."""
    begin = count = 0
    last = -1
    for found in _ALONE.finditer(text):
        if count and found.start() - last > _FAR:
            yield begin, count, last
            count = 0
        begin = begin if count else found.start()
        count, last = count + 1, found.end()
    if count:
        yield begin, count, last


class _ShownCharacters(dict[int, str]):
    """The character of each code, or `NO_TEXT` if it is none of a text; computed when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        is_text = char.isascii() or (char.isprintable() and (code not in _RARE or char in _LATIN))
        self[code] = shown = char if is_text else NO_TEXT
        return shown


_SHOWN = _ShownCharacters()


class NumberRow(NamedTuple):
    """Numbers of a text in one base.

    Attributes:
        raw: a character for each number that is one of Unicode, and `NO_TEXT` for the others.
        places: where they stand.
    """

    raw: str
    places: Sequence[tuple[int, int]]

    @property
    def said(self) -> str:
        """The same with `NO_TEXT` for characters that no text has."""
        return self.raw.translate(_SHOWN)

    @property
    def codes(self) -> Sequence[int]:
        """The byte that each is; -1 for none."""
        return [code if (code := ord(char)) <= _LAST_BYTE else -1 for char in self.raw]


class NumberReader:
    """Reads the numbers of a text, which may go on.

    Attributes:
        at: up to where they are read.
    """

    __slots__ = ("_bases", "_last", "_skipped", "at")

    def __init__(self, bases: Sequence[int] = BASES) -> None:
        """Begin at the beginning of a text."""
        self.at = 0
        self._bases = bases
        self._last = [-1 for _ in bases]  # where the last character ends; -1 if none is near
        self._skipped = [0 for _ in bases]

    def rows(self, text: str, end: int, *, final: bool) -> Sequence[NumberRow]:
        """Return the numbers up to a place, in each base; if the text is not ``final``, none that it ends with."""
        digits, places = self._numbers(text, end, final=final)
        pending = self.pending(text, end)
        near = _are_near(places)
        rows: list[NumberRow] = []
        for at, base in enumerate(self._bases):
            said = {number: _character(number, base) for number in set(digits)}  # codes of characters come again
            rows.append(self.row(at, [said[number] for number in digits], places, pending, near=near))
        return rows

    def _numbers(self, text: str, end: int, *, final: bool) -> tuple[list[str], list[tuple[int, int]]]:
        """Return the next numbers up to a place, and where they stand."""
        digits: list[str] = []
        places: list[tuple[int, int]] = []
        for found in _NUMBER.finditer(text, self.at):
            low, high = found.span()
            if high > end or (high == len(text) and not final):
                break
            digits.append(found[1])
            places.append((low, high))
        if places:
            self.at = places[-1][1]
        return digits, places

    def row(self, base: int, chars: list[str], places: list[tuple[int, int]], pending: int, *, near: bool) -> NumberRow:
        """Return the next characters that numbers are, with gaps where no text goes on.

        Args:
            base: which of the bases it is.
            chars: a character for each number; empty for one that is none.
            places: where the numbers stand.
            pending: where the next number may begin.
            near: whether none are far apart.
        """
        kept = [at for at, char in enumerate(chars) if char]
        last, skipped = self._last[base], self._skipped[base]
        self._skipped[base] = len(chars) - 1 - kept[-1] if kept else skipped + len(chars)
        gaps: list[int] = []  # the numbers between which and the one before them no text goes on
        if last >= 0 and kept and (skipped + kept[0] > _APART or places[kept[0]][0] - last > _FAR):
            gaps.append(0)
        if len(kept) < len(chars):
            chars, places = [chars[at] for at in kept], [places[at] for at in kept]
            near = False
        if not near:
            gaps += [
                at
                for at in range(1, len(kept))
                if kept[at] - kept[at - 1] > _APART + 1 or places[at][0] - places[at - 1][1] > _FAR
            ]
        end = places[-1][1] if kept else last
        is_over = end >= 0 and pending - end > _FAR
        if is_over:
            gaps.append(len(kept))
        self._last[base] = -1 if is_over else end
        if gaps:
            chars, places = [*chars], [*places]
        for at in reversed(gaps):
            before = places[at - 1][1] if at else last
            chars[at:at], places[at:at] = [NO_TEXT] * _RUN, [(before, before)] * _RUN
        return NumberRow("".join(chars), places)

    def pending(self, text: str, end: int) -> int:
        """Return where the first number begins that is not read yet; the given place if there is none before it."""
        found = _NUMBER.search(text, self.at, end)
        return end if found is None else found.start()


def number_rows(text: str) -> Iterator[NumberRow]:
    """Yield the numbers of a whole text in those bases in which some of them may be text: for tables, in none.

    Gaps between numbers only part what would be text without them, so where numbers stand is asked for last.
    """
    digits = _NUMBER.findall(text)
    if len(digits) < LEAST:
        return
    places: list[tuple[int, int]] = []
    near = False
    distinct = "\n".join({*digits})
    for base in bases_in(text, distinct):
        chars = _characters(digits, distinct, base)
        raw = "".join(chars)
        if next(number_parts(raw.translate(_SHOWN)), None) or next(byte_runs(raw), None):
            if not places:
                places = [found.span() for found in _NUMBER.finditer(text)]
                near = _are_near(places)
            yield NumberReader((base,)).row(0, chars, places, len(text), near=near)


def _are_near(places: Sequence[tuple[int, int]]) -> bool:
    if len(places) < 2:  # noqa: PLR2004 - two numbers
        return True
    lows, highs = zip(*places, strict=True)
    widest: int = max(map(sub, lows[1:], highs))
    return widest <= _FAR


def _characters(digits: Sequence[str], distinct: str, base: int) -> list[str]:
    """Return the characters that numbers are, as `_character` does; ``distinct``: the same, a line each, each once."""
    if base == BASES[0]:
        try:
            codes = [*map(int, digits)]
        except ValueError:  # some of them are hexadecimal
            pass
        else:
            return [chr(code) if _FIRST <= code <= _LAST else "" for code in codes]
    fits = _OF_BASE[base].findall(distinct)
    said = {number: chr(code) if _FIRST <= (code := int(number, base)) <= _LAST else "" for number in fits}
    return [*map(said.get, digits, repeat(NO_TEXT))]


_OF_TWO = deferred("(?m)^[01]{4,}$")  # a number that may be binary
_OF_BASE = {base: deferred(rf"(?m)^[{known}]+$") for base, known in ((10, "0-9"), (8, "0-7"), (2, "01"))}
_DIGITS = {10: "0123456789", 8: "01234567", 2: "01"}


def _character(digits: str, base: int) -> str:
    """Return the character that a number is; empty if it is too small or too large, `NO_TEXT` if it is no number."""
    if digits.strip(_DIGITS[base]):
        return NO_TEXT
    code = int(digits, base)
    return chr(code) if _FIRST <= code <= _LAST else ""


_BINARY = deferred(r"(?<![0-9A-Za-z])(?:0?x)?[01]{4,21}(?![0-9A-Za-z])")  # no shorter number is a character


def bases_in(text: str, distinct: str) -> Sequence[int]:
    """Return the bases in which the numbers of a whole text can say something: in binary, some have two digits alone.

    ``distinct`` has each of the numbers once, a line each.

    A part of a row is no part if it is not long enough, and most of it are characters.
    """
    if _OF_TWO.search(distinct) is None:
        return BASES[:-1]
    return BASES if len(_BINARY.findall(text)) >= LEAST // 2 else BASES[:-1]


def number_parts(said: str) -> Iterator[tuple[int, int]]:
    """Yield where the parts of a row begin and end that may be text, and are long enough to be looked at."""
    for found in _PART.finditer(said):
        if found.end() - found.start() >= LEAST:
            yield found.span()


def first_number_part_end(said: str) -> int:
    """Return where the part ends that a row begins with, however short it is; 0 if it begins with none."""
    found = _PART.match(said)
    return 0 if found is None else found.end()


def later_number_begin(said: str, most: int) -> int:
    """Return the last number up to the given one from which on a row has the same parts as from the first, or 0."""
    begin = 0
    for found in _IN_A_ROW.finditer(said, 0, most + _RUN):
        begin = found.start()
    return begin


def open_number_part(said: str) -> int:
    """Return where the first part begins that more numbers may change."""
    last = _LAST_ONES.search(said, max(len(said) - _RUN, 0))
    first = last.start() if last else len(said)
    for found in _PART.finditer(said):
        if len(said) - found.end() <= _LONGEST_REST and _GOES_ON.fullmatch(said, found.end()) is not None:
            return min(first, found.start())
    return first


def byte_runs(raw: str) -> Iterator[tuple[int, int]]:
    """Yield where numbers that are bytes begin and end, if not all of a run are of ASCII, and it may be looked at."""
    for found in _BYTES.finditer(raw):
        if not found.group().isascii():
            yield found.span()
