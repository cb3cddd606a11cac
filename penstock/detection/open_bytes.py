"""The text that numbers or bytes hold which come one after the other, and how much of it may leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.code_numbers import (
    NO_TEXT,
    first_number_part_end,
    later_number_begin,
    number_parts,
    open_number_part,
)
from penstock.detection.code_reading import CodeReading
from penstock.detection.legible import characters_in, first_part_end, later_begin, legible_parts, open_part, texts_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.detection.code_numbers import NumberRow
    from penstock.detection.code_reading import Readers
    from penstock.detection.legible import LegiblePart

_READ_FROM = 28  # characters that a text takes in a code, from which on it is read, and not only held
_SAID_KEPT = 32  # characters of a long text that are looked at once more, for where it ends
_RAW_KEPT = 128  # bytes of ASCII that are read once more with the bytes behind them


def _is_read(places: Sequence[int]) -> bool:
    """Return whether a text is read whose characters stand at some places."""
    return bool(places) and places[-1] - places[0] >= _READ_FROM


class NumberCodes:
    """The text of numbers in one base: of characters, and of bytes as soon as one is none of ASCII.

    Attributes:
        said: the characters of the part that is open.
        places: where they stand.
        fed: how many of them the reading has.
        cut: whether that part began before them.
        reading: reads that part.
        raw: the bytes, from which on they may be text.
        raw_places: where they stand.
    """

    __slots__ = ("cut", "fed", "places", "raw", "raw_places", "reading", "said")

    def __init__(self) -> None:
        self.said = ""
        self.places: list[int] = []
        self.fed = 0
        self.cut = False
        self.reading = CodeReading()
        self.raw = bytearray()
        self.raw_places: list[int] = []

    def add(self, row: NumberRow, readers: Readers) -> int | None:
        """Append numbers; return where something is found that stays, whatever follows."""
        said = row.said
        if not said or not (self.said or self.raw or said.strip(NO_TEXT)):  # most numbers are none in some base
            return None
        places = [start for start, _ in row.places]
        found = self._add_bytes(row.codes, places, readers)
        self.said += said
        self.places += places
        begin = open_number_part(self.said)
        closed = self._closed(begin, readers) if begin else None
        if closed is not None:
            return min(closed, closed if found is None else found)
        if begin:
            self.said, self.places = self.said[begin:], self.places[begin:]
            self.fed, self.cut, self.reading = 0, False, CodeReading()
        end = first_number_part_end(self.said) if _is_read(self.places) else 0
        if end > self.fed:
            kept = [at for at in range(self.fed, end) if self.said[at] != NO_TEXT]
            self.reading.add("".join(self.said[at] for at in kept), [self.places[at] for at in kept], readers)
            self.fed = end
        if self.fed > 2 * _SAID_KEPT and self.reading.stuck is None:
            cut = later_number_begin(self.said, self.fed - _SAID_KEPT)
            self.said, self.places, self.fed = self.said[cut:], self.places[cut:], self.fed - cut
            self.cut = self.cut or cut > 0
        return found

    def _closed(self, begin: int, readers: Readers) -> int | None:
        """Return where something is found in the parts that end before a number."""
        end = 0
        if self.cut:
            end = first_number_part_end(self.said)
            rest = self.said[self.fed : end].replace(NO_TEXT, "")
            if self.reading.stuck is not None or readers.finds(self.reading.text + self.reading.ahead + rest):
                return self.places[0]
        for low, high in number_parts(self.said[:begin]):
            if high > end and readers.finds(self.said[low:high].replace(NO_TEXT, "")):
                return self.places[low]
        return None

    def _add_bytes(self, codes: Sequence[int], places: Sequence[int], readers: Readers) -> int | None:
        for code, place in zip(codes, places, strict=True):
            if code >= 0:
                self.raw.append(code)
                self.raw_places.append(place)
                continue
            at, is_stuck = (0, False) if self.raw.isascii() else _open_in(bytes(self.raw), readers, ends=True)
            if is_stuck:
                return self.raw_places[at]
            self.raw, self.raw_places = bytearray(), []
        cut = len(self.raw) - _RAW_KEPT
        if self.raw.isascii():
            if cut > 0:
                del self.raw[:cut], self.raw_places[:cut]
            return None
        at, is_stuck = _open_in(bytes(self.raw), readers)
        if is_stuck:
            return self.raw_places[at]
        del self.raw[:at], self.raw_places[:at]
        return None

    def held(self, behind: int) -> int:
        """Return where the numbers begin that may hide something; ``behind`` is the place of the next number."""
        held = self.reading.held([*self.places[self.fed : self.fed + 1], behind][0])
        return held if self.raw.isascii() else min([held, *self.raw_places[:1]])


class OpenBytes:
    """The text of bytes that come one after the other, in UTF-8; where they may be in UTF-16, they are held.

    Attributes:
        raw: the bytes from which on they may be text, or the end of a long text.
        places: where they stand.
        fed: how many of them the reading has.
        cut: whether that text began before them.
        reading: reads the text.
    """

    __slots__ = ("cut", "fed", "places", "raw", "reading")

    def __init__(self) -> None:
        self.raw = b""
        self.places: list[int] = []
        self.fed = 0
        self.cut = False
        self.reading = CodeReading()

    def add(self, fresh: bytes, places: Iterable[int], readers: Readers, *, ends: bool = False) -> int | None:
        """Append bytes; return where something is found that stays, whatever follows. ``ends``: nothing follows."""
        self.raw += fresh
        self.places += places
        raw = self.raw
        begin = len(raw) if ends else open_part(raw)
        if begin:
            found = self._closed(begin, readers)
            if found is not None:
                return found
            self.raw, self.places = raw[begin:], self.places[begin:]
            self.fed, self.cut, self.reading = 0, False, CodeReading()
        self._feed(readers)
        if self.fed > 2 * _RAW_KEPT and self.reading.stuck is None:
            cut = later_begin(self.raw, self.fed - _RAW_KEPT)
            self.raw, self.places, self.fed = self.raw[cut:], self.places[cut:], self.fed - cut
            self.cut = self.cut or cut > 0
        return None

    def _feed(self, readers: Readers) -> None:
        """Go on with the text that the bytes begin with; the last byte may be one of UTF-16."""
        if 0 in self.raw or not _is_read(self.places):
            return
        end = min(first_part_end(self.raw), len(self.raw) - 1)
        if end <= self.fed:
            return
        text, places = characters_in(self.raw[self.fed : end])
        self.reading.add(text, [self.places[self.fed + at] for at in places], readers)
        self.fed = end

    def _closed(self, begin: int, readers: Readers) -> int | None:
        """Return where something is found in the texts that end before a byte."""
        low = 0
        if self.cut:
            low = first_part_end(self.raw)
            rest = self.raw[self.fed : low].decode(errors="ignore")
            if self.reading.stuck is not None or readers.finds(self.reading.text + self.reading.ahead + rest):
                return self.places[0]
        found = _first_found(self.raw, [part for part in _closed_parts(self.raw, begin) if part.end > low], readers)
        return None if found is None else self.places[found]

    def held(self, behind: int) -> int:
        """Return where the bytes begin that may hide something; ``behind`` is the place of the next one."""
        return self.reading.held([*self.places[self.fed : self.fed + 1], behind][0])


def _open_in(raw: bytes, readers: Readers, *, ends: bool = False) -> tuple[int, bool]:
    """Return where bytes begin that may hide something, and whether they do so whatever follows."""
    hold = len(raw) if ends else open_part(raw)
    found = _first_found(raw, _closed_parts(raw, hold), readers)
    return (hold, False) if found is None else (found, True)


def _first_found(raw: bytes, parts: Iterable[LegiblePart], readers: Readers) -> int | None:
    """Return where the first of some parts begins that hides something."""
    return next((part.start for part in parts for one in texts_in(raw, part) if readers.finds(one.said)), None)


def _closed_parts(raw: bytes, begin: int) -> list[LegiblePart]:
    """Return the legible parts that begin before a byte, the first one first."""
    return sorted(part for part in legible_parts(raw) if part.start < begin)
