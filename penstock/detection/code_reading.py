"""A reading of a code that grows, and how much of it may leave: `CodeReading`, and the `Readers` that search it.

The code may be of letters, numbers or bytes; `penstock.detection.open_codes` decodes it. Codes within it are not
decoded: what may be one is held.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

import regex

from penstock.detection.code_numbers import numbers_at_end, stand_in_row
from penstock.detection.codes import MAY_ESCAPE, PLUS_BEFORE
from penstock.detection.deferred import deferred
from penstock.detection.patterns.kinds import GLUED
from penstock.detection.unicode.disguises import read

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from penstock.detection.spans import Span
    from penstock.engine.values.frozen import Value


class ReadsOpen(Protocol):
    """A detector that can read a text that goes on; `penstock.detection.personal_data` describes it."""

    @property
    def lookback(self) -> int:
        """How many characters before the undecided text it needs to see."""
        ...

    def find(self, text: str) -> Sequence[Span]:
        """Return the findings in a whole text."""
        ...

    def glance(self, text: str, start: int, *, final: bool) -> int | None:
        """Return the place from which on more text may matter, if it is plain that nothing is found; else None."""
        ...

    def scan(
        self, text: str, start: int, notes: MutableMapping[str, Value], *, final: bool
    ) -> tuple[Sequence[Span], int]:
        """Return the findings from a place on, and the place from which on more text could change them."""
        ...

    def is_begun(self, text: str, since: int, at: int, notes: MutableMapping[str, Value]) -> bool:
        """Return whether `scan` can begin anew at a place."""
        ...


class Readers(NamedTuple):
    """How the readings of codes are read.

    Attributes:
        detector: searches them.
        finds: tells whether there is anything in a whole reading, or in a code within.
        may_hide: tells whether a whole reading may have a code within.
        apart: tells whether letters of a text stand apart.
    """

    detector: ReadsOpen
    finds: Callable[[str], bool]
    may_hide: Callable[[str], bool]
    apart: Callable[[str], bool]


def may_have_code(text: str) -> bool:
    """Return, at a glance, whether there may be codes in a text."""
    return (
        _WITHIN.search(text) is not None
        or stand_in_row(text)
        or MAY_ESCAPE.search(text) is not None
        or QUOTED.search(text) is not None
        or ("+" in text and "%" in text)
    )


QUOTED = re.compile(r"=(?:[0-9A-F]{2}|\r?\n|[0-9A-F\r]?\Z)")
_CUT = re.compile(r"(?:\\|%[0-9A-Fa-f]?|&(?:#[xX]?|[A-Za-z]{0,16})|=[0-9A-F\r]?)\Z")
_LONGEST_CUT = 17
_UNSEEN = r"\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u206f\ufeff"
_SIGNS = r".\-_*|~+\u00b7\u2022"
HEX_UNITS = r"(?:(?:0x|u\+00)?[0-9a-f]{2}[\s,:;_-]*)"
HEX_CUT = r"(?:0x?|u(?:\+0{0,2})?)?[0-9a-f]?\Z"
_WITHIN = deferred(rf"(?:[a-z0-9+/_-]\s*){{16}}|{HEX_UNITS}{{8}}", re.IGNORECASE)
# Letters that may go on as a row that is written apart, by blanks, lines or signs.
_ROW = (
    rf"(?:(?<!\S)\S|(?<!{GLUED})[^\W_])(?:[ \t]{{1,4}}\S)*[ \t]{{0,4}}\Z"
    r"|(?<![^\n])[ \t]*\S[ \t]*(?:\r?(?:\n[ \t]*){1,2}\S[ \t]*)*\r?\n?[ \t]*\Z"
    rf"|(?<![^\W_])[^\W_](?:(?:[{_SIGNS}]{{1,2}}|\s+)[^\W_])*(?:[{_SIGNS}]{{1,2}}|\s+)?\Z"
)
OPEN_ROW = deferred(_ROW)
_PAIR = regex.compile(r"(?r)[^\W_]{2}")
# Where a code within a code may begin that goes on.
_MAY_BEGIN = deferred(rf"(?:[a-z0-9+/_-][\s,:;{_UNSEEN}]*){{1,16}}\Z|{HEX_UNITS}{{1,8}}{HEX_CUT}|{_ROW}", re.IGNORECASE)
_MOST_LETTERS = 64  # of 16 letters, or of 8 bytes in hexadecimal with a prefix each
_LAST_LETTERS = regex.compile(rf"(?ir)(?:[a-z0-9+/_-][^a-z0-9+/_-]*+){{1,{_MOST_LETTERS}}}")
PLUS_SEEN = PLUS_BEFORE + 32  # characters, and those of a word before
_REACH = 900  # characters of a reading that are looked at for a code within
_KEPT = 1024  # characters of a reading that are kept beyond what its detector needs to see
SEEN_AGAIN = 24  # characters of a code that are decoded once more, so that no character of its reading is torn
_DIGIT = re.compile("[0-9]")


class CodeReading:
    """A reading that grows, and how far its detector has come.

    Attributes:
        text: the reading, or the end of it.
        places: where each of its characters stands.
        start: up to where it is decided.
        spaced: the same, if plus signs are spaces.
        notes: the detector's own.
        stuck: where something was found, or may be in a code within the code; None if nothing was.
        within: whether codes within it are looked for.
        begin: where a code may begin that it ends with; None if that is not known yet.
        ahead: the beginning of an escape that it may end with, which is not read yet; ``places_ahead``: its places.
    """

    __slots__ = ("ahead", "begin", "notes", "places", "places_ahead", "spaced", "start", "stuck", "text", "within")

    def __init__(self, *, within: bool = True, start: int = 0) -> None:
        self.within = within
        self.ahead: str = ""
        self.places_ahead: list[int] = []
        self.text: str = ""
        self.places: list[int] = []
        self.start = start
        self.spaced = 0
        self.notes: dict[str, Value] = {}
        self.stuck: int | None = None
        self.begin: int | None = None

    def add(self, text: str, places: Sequence[int], readers: Readers) -> None:
        """Append to the reading."""
        if self.stuck is not None or not text:
            return
        self.begin = None
        before = len(self.text)
        text, self.ahead = self.ahead + text, ""
        places, self.places_ahead = [*self.places_ahead, *places], []
        cut = _cut_off(text) if self.within else len(text)
        if cut < len(text):
            self.ahead, self.places_ahead = text[cut:], places[cut:]
        self.text += text[:cut]
        self.places += places[:cut]
        if self.within and self._hides(before, readers):
            self.stuck = self.places[0]  # up to where it has left: the code may begin before the undecided text
            return
        detector = readers.detector
        hold = None if self.notes else detector.glance(self.text, self.start, final=False)
        if hold is None:
            found, hold = detector.scan(self.text, self.start, self.notes, final=False)
            if found:
                self.stuck = self.places[min(span.start for span in found)]
                return
            if self.notes and detector.is_begun(self.text, hold, hold, self.notes):
                self.notes = {}
        self.start = hold
        if self.within and not self._read_spaced(readers):
            return
        cut = min(hold, self.spaced) - max(detector.lookback, _REACH)
        if cut > _KEPT:
            self.text, self.places = self.text[cut:], self.places[cut:]
            self.start, self.spaced = self.start - cut, self.spaced - cut

    def _read_spaced(self, readers: Readers) -> bool:
        """Read the last plus signs as spaces, which they are if an escape follows; return whether nothing was found."""
        text, detector = self.text, readers.detector
        since = max(len(text) - PLUS_SEEN, 0)
        if text.find("+", since) < 0:
            self.spaced = len(text)
            return True
        begin = max(self.spaced, since)
        low = max(begin - detector.lookback, 0)
        spaced = text[low:].replace("+", " ")
        found: Sequence[Span] = ()
        hold = detector.glance(spaced, begin - low, final=False)
        if hold is None:
            found, hold = detector.scan(spaced, begin - low, {}, final=False)
        self.spaced = low + hold
        if found:
            self.stuck = self.places[low + min(span.start for span in found)]
        return not found

    def _hides(self, since: int, readers: Readers) -> bool:
        """Return whether there may be a code within the code, of which a part is new."""
        text = self.text
        low = max(since - SEEN_AGAIN, 0)
        if MAY_ESCAPE.search(text, low) or QUOTED.search(text, low):
            return True
        near = text[max(since - _REACH, 0) :]
        plain = near if near.isascii() and near.isprintable() else read(near).text
        known = max(len(plain) - (len(text) - since), 0)  # all before it was looked at
        within = _WITHIN.search(plain, _letters_before(plain, known)) is not None
        within = within or (_DIGIT.search(plain, known) is not None and stand_in_row(plain))
        return readers.apart(plain) or (within and readers.may_hide(text))

    def held(self, behind: int) -> int:
        """Return where the text begins that may hide something; ``behind`` is the place of the next text."""
        if self.stuck is not None:
            return self.stuck
        at = self.start
        if self.within and self.text:
            if self.begin is None:
                self.begin = _code_begin(self.text)
            at = min(at, self.begin, self.spaced)
        return [*self.places[at : at + 1], *self.places_ahead, behind][0]


def _code_begin(text: str) -> int:
    """Return where a code may begin that a text ends with; its end if there is none."""
    low = max(len(text) - _REACH, 0)
    found = _MAY_BEGIN.search(text, max(low, min(last_pair(text), _letters_before(text, len(text)))))
    numbers = low + numbers_at_end(text[low:])
    return numbers if found is None else min(numbers, found.start())


def last_pair(text: str) -> int:
    """Return where the last two letters begin that stand together, so that no row goes on across them; or 0."""
    found = _PAIR.search(text, concurrent=False)
    return 0 if found is None else found.start()


def _letters_before(text: str, end: int) -> int:
    """Return where the letters of a short code begin that a text may end with at a place."""
    found = _LAST_LETTERS.match(text, endpos=end, concurrent=False)
    return end if found is None else found.start()


def _cut_off(text: str) -> int:
    """Return where an escape begins that a text may end with; its end if there is none."""
    end = len(text)
    while (cut := _CUT.search(text, max(end - _LONGEST_CUT, 0), end)) is not None:
        end = cut.start()
    return end
