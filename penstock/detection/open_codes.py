"""Open codes: from where on a code that goes on may still hide something.

A stretch of a text that may be a code is judged when its end is known, or enough of it. `OpenCodes` tells how much of
it may leave before that: no reading of the code has a finding that begins in it, however the text goes on. Each code is
read as far as it has come, without the rules for whole codes that more text could change (how much of it is legible,
how long it is); so more is held than need be, and never less. Characters are counted from the beginning of the stretch.
"""

from __future__ import annotations

import base64
import binascii
import re
from itertools import compress, cycle, islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.code_numbers import BASES, NumberReader
from penstock.detection.code_reading import (
    HEX_CUT,
    HEX_UNITS,
    OPEN_ROW,
    PLUS_SEEN,
    QUOTED,
    SEEN_AGAIN,
    CodeReading,
    last_pair,
)
from penstock.detection.codes import HEX_RUN, HEX_UNIT, MAY_ESCAPE
from penstock.detection.deferred import deferred
from penstock.detection.open_bytes import NumberCodes, OpenBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.detection.code_reading import Readers

_SPACE = re.compile(r"\s")
_BITS = re.compile(r"[01\s]*")
_BASE64 = deferred(r"[A-Za-z0-9+/]+")
_BASE32 = deferred(r"[A-Za-z2-7]+")
_LEAST_64, _LEAST_32 = 16, 24
_ANY_LETTER = re.compile("[A-Za-z]")
_OPEN_HEX = deferred(rf"{HEX_UNITS}*{HEX_CUT}", re.IGNORECASE)
_MORE_HEX = deferred(rf"{HEX_UNITS}+", re.IGNORECASE)
_CUT_HEX = deferred(HEX_CUT, re.IGNORECASE)


class _LetterCode(NamedTuple):
    """A code in letters.

    Attributes:
        unit: how many letters hold whole bytes.
        first: for each of them, whether it holds the first bit of a byte.
        beginnings: from how many of its first letters on a run is decoded.
        decode: returns the bytes of whole units, and of the letters behind them that a run ends with.
    """

    unit: int
    first: Sequence[int]
    beginnings: int
    decode: Callable[[str, str], bytes]

    def places(self, stand: Sequence[int], count: int) -> list[int]:
        """Return where some bytes stand, from where the letters stand that hold them."""
        return [*islice(compress(stand, cycle(self.first)), count)]


def _base64(units: str, rest: str) -> bytes:
    return base64.b64decode(units + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""))


def _base32(units: str, rest: str) -> bytes:
    said = units + rest
    try:
        return base64.b32decode(said + "=" * (-len(said) % 8))
    except binascii.Error:
        return b""


_BASE64_CODE = _LetterCode(4, (1, 1, 1, 0), 4, _base64)
_BASE32_CODE = _LetterCode(8, (1, 1, 0, 1, 1, 0, 1, 0), 1, _base32)


class _OpenRun:
    """A run of letters that is decoded as it comes: from each of several letters on, since its beginning is unknown.

    Attributes:
        at: the letters up to which it is decoded.
        codes: its bytes, from each of the first letters on.
    """

    __slots__ = ("at", "codes")

    def __init__(self, code: _LetterCode) -> None:
        self.at = [*range(code.beginnings)]
        self.codes = [OpenBytes() for _ in self.at]


class OpenCodes:
    """The readings of a stretch that goes on.

    Attributes:
        held: up to where it may leave.
    """

    __slots__ = (
        "_base32",
        "_base64",
        "_hex",
        "_in_hex",
        "_letters",
        "_number",
        "_numbers",
        "_places",
        "_plus",
        "_read",
        "_run32",
        "_run64",
        "_stuck",
        "held",
    )

    def __init__(self) -> None:
        self.held = 0
        self._read = 0
        self._stuck = False
        self._letters = ""  # without white space
        self._places: list[int] = []
        self._plus: CodeReading | None = None
        self._number, self._numbers = NumberReader(), [NumberCodes() for _ in BASES]
        self._base64 = self._base32 = 0  # letters before which all runs are read
        self._run64: _OpenRun | None = None
        self._run32: _OpenRun | None = None
        self._hex: int = 0
        self._in_hex: _HexDigits | None = None

    def read(self, text: str, end: int, readers: Readers) -> int:
        """Go on to a place of a text, in plain letters; return up to where all before it may leave."""
        if self._stuck or end <= self._read:
            return self.held
        since = max(self._read - SEEN_AGAIN, 0)
        escape = MAY_ESCAPE.search(text, since) or QUOTED.search(text, since)
        if escape is not None:  # what stands before it may read on behind it
            self._stuck = escape.end() < len(text)
            return self.held
        row = OPEN_ROW.search(text, max(since, last_pair(text)))
        if row is not None:
            end = min(end, row.start())
        if end <= self._read:
            return self.held
        if readers.apart(text[self._read :]):
            self._stuck = True
            return self.held
        fresh = text[self._read : end]
        self._add_letters(fresh)
        spaced = self._with_spaces(text, end, readers)
        self._read = end
        held = [spaced, self._in_numbers(text, end, readers)]
        held += [self._in_base64(readers), self._in_base32(readers)]
        held.append(self._in_hexadecimal(text, end, readers))
        if _BITS.fullmatch(text, 0, end) is None:
            self.held = max(self.held, min(held))
        return self.held

    def _add_letters(self, fresh: str) -> None:
        if _SPACE.search(fresh) is None:
            self._letters += fresh
            self._places += range(self._read, self._read + len(fresh))
            return
        kept = [(char, at) for at, char in enumerate(fresh, self._read) if not char.isspace()]
        self._letters += "".join(char for char, _ in kept)
        self._places += [at for _, at in kept]

    def _with_spaces(self, text: str, end: int, readers: Readers) -> int:
        """Return the place from which on the text may hide something if its plus signs are spaces.

        They are if an escape follows soon.
        """
        low = self._read
        known = end - PLUS_SEEN
        if self._plus is not None and self._plus.held(low) < known:
            self._plus = None
        if self._plus is None:
            since = max(self.held, known, 0)
            if text.find("+", max(min(since, low), 0), end) < 0:
                return end
            low = max(since - readers.detector.lookback, 0)
            self._plus = CodeReading(within=False, start=since - low)
        self._plus.add(text[low:end].replace("+", " "), range(low, end), readers)
        return self._plus.held(end)

    def _in_numbers(self, text: str, end: int, readers: Readers) -> int:
        rows = self._number.rows(text, end, final=False)
        found = [codes.add(row, readers) for codes, row in zip(self._numbers, rows, strict=True)]
        stuck = [place for place in found if place is not None]
        self._stuck = self._stuck or bool(stuck)
        pending = self._number.pending(text, end)
        return min([*stuck, *(codes.held(pending) for codes in self._numbers)])

    def _place(self, letter: int) -> int:
        return self._places[letter] if letter < len(self._places) else self._read

    def _in_base64(self, readers: Readers) -> int:
        letters = self._letters[self._base64 :].replace("-", "+").replace("_", "/")
        held = self._read
        first = self._base64
        run64, self._run64 = self._run64, None
        for run in _BASE64.finditer(letters):
            low, high = run.span()
            ends = high < len(letters)
            self._base64 = first + (high if ends else low)
            if high - low < _LEAST_64:
                held = held if ends else min(held, self._place(first + low))
                continue
            said = run.group()
            if ends and _ANY_LETTER.search(said) is None:
                continue
            begun = run64 if low == 0 and run64 is not None else _OpenRun(_BASE64_CODE)
            held = min(held, self._decoded(begun, said, first + low, _BASE64_CODE, readers, ends=ends))
            self._run64 = None if ends else begun
        return held

    def _in_base32(self, readers: Readers) -> int:
        letters = self._letters[self._base32 :]
        held = self._read
        first = self._base32
        run32, self._run32 = self._run32, None
        for run in _BASE32.finditer(letters):
            low, high = run.span()
            ends = high < len(letters)
            self._base32 = first + (high if ends else low)
            if high - low < _LEAST_32:
                held = held if ends else min(held, self._place(first + low))
                continue
            begun = run32 if low == 0 and run32 is not None else _OpenRun(_BASE32_CODE)
            held = min(held, self._decoded(begun, run.group().upper(), first + low, _BASE32_CODE, readers, ends=ends))
            self._run32 = None if ends else begun
        return held

    def _decoded(self, run: _OpenRun, said: str, first: int, code: _LetterCode, readers: Readers, *, ends: bool) -> int:
        """Go on with a run of letters, of which the first is given; return from where on it may hide something."""
        held = self._read
        for each, codes in enumerate(run.codes):
            at = run.at[each]
            end = at + (len(said) - at) // code.unit * code.unit
            run.at[each] = end
            raw = code.decode(said[at:end], said[end:] if ends else "")
            places = code.places(self._places[first + at : first + len(said)], len(raw))
            found = codes.add(raw, places, readers, ends=ends)
            if found is not None:
                self._stuck = True
                held = min(held, found)
            elif not ends:
                held = min(held, codes.held(self._place(first + end)))
        return held

    def _in_hexadecimal(self, text: str, end: int, readers: Readers) -> int:
        while True:
            digits = self._in_hex
            run = HEX_RUN.search(text, self._hex, end) if digits is None else _MORE_HEX.match(text, self._hex, end)
            if run is None:
                break
            ends = _CUT_HEX.match(text, run.end(), end) is None
            digits = digits or _HexDigits(run.start())
            held, stuck = digits.add(text, run.start(), run.end(), readers, ends=ends)
            self._stuck = self._stuck or stuck
            if not ends or stuck:
                self._hex, self._in_hex = digits.last, digits
                return held
            self._hex, self._in_hex = run.end(), None
        found = _OPEN_HEX.search(text, self._hex, end)
        self._hex, self._in_hex = (found.start() if found else end), None
        return self._hex


class _HexDigits:
    """A run of hexadecimal digits that goes on: its bytes from the first digit on, and from the second.

    Attributes:
        last: where the last pair of digits begins that was read.
        digit: its second digit; empty if there is none.
        codes: the bytes.
    """

    __slots__ = ("codes", "digit", "last", "read")

    def __init__(self, start: int) -> None:
        self.last = self.read = start
        self.digit = ""
        self.codes = (OpenBytes(), OpenBytes())

    def add(self, text: str, low: int, high: int, readers: Readers, *, ends: bool) -> tuple[int, bool]:
        """Go on with the run; return from where on it may hide something, and whether it does so whatever follows."""
        units = [unit for unit in HEX_UNIT.finditer(text, low, high) if unit.end() > self.read]
        pairs = [self.digit, *(unit.group(1) for unit in units)]
        places = [self.last, *(unit.start() for unit in units)]
        even = binascii.unhexlify("".join(pairs[1:]))
        odd = "".join(pairs)[not self.digit :]
        held, is_stuck = high, False
        if units:
            self.last, self.read, self.digit = units[-1].start(), units[-1].end(), pairs[-1][1]
        shifted = binascii.unhexlify(odd[: len(odd) - len(odd) % 2])
        first = places[: len(shifted)] if pairs[0] else places[1 : len(shifted) + 1]
        for codes, raw, stand in zip(self.codes, (even, shifted), (places[1:], first), strict=True):
            found = codes.add(raw, stand, readers, ends=ends)
            is_stuck = is_stuck or found is not None
            if found is not None:
                held = min(held, found)
            elif not ends:
                held = min(held, codes.held(high if codes is self.codes[0] else self.last))
        return held, is_stuck
