"""The rules ``national-id``, ``vehicle-id`` and ``device-id``: official numbers behind their labels.

A label is a word, a key or the header of a column (*Steuer-ID*, ``cpf``, *numéro de sécurité sociale*). If it names one
country's number and only words such as *number* stand between, a number of the right form counts, also with a wrong
check digit: a mistyped number still belongs to somebody. Farther away, or behind an ambiguous word, the check digits
must be right. Without a label, numbers count only for countries that the user names.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

import regex

from penstock.detection.deferred import deferred
from penstock.detection.patterns.built_in import BuiltInRule, pattern_rule
from penstock.detection.patterns.kinds import DASH, DIGIT, LETTER, UNPARTED, kinds, zones
from penstock.detection.patterns.open_matches import Scan, Trace
from penstock.detection.personal_data.national_numbers import (
    label_in,
    label_starts,
    may_begin_label,
    number_at,
    of_countries,
)
from penstock.detection.personal_data.phones import OF_PLACEHOLDER, PLACEHOLDER
from penstock.detection.places.labels import HeaderWords
from penstock.detection.stems import Stems

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

_ZONE = deferred(rb"0(?:(?:AAA|[^\n0]{0,2}+)0){5,}+")  # in kinds: no number is shorter or looser
_BEGUN = deferred(
    rb"0(?:(?:AAA|[^\n0]{0,2}+)0)*+(?:AAA|[^\n0]{0,2}+)\Z"
)  # what a text ends with, of which a number may become
_MANY = 100  # digits, among which numbers are looked for only if there is a label
_FEW = 6  # numbers of which each is soon looked at
_REACH = 88  # how far before a number its label may begin
_SEEN = _REACH + 1  # what is read before a number: whether a word begins there is seen, too
_WORD = 20  # letters and digits of a number before four of its digits stand together
_LONGEST = 80  # characters of a number, and what is seen behind it
_WORDS = bytes(LETTER[0] if kind in DIGIT + LETTER else kind for kind in range(256))
_VEHICLE = LETTER * 17  # in kinds, once digits are letters
_KEY = deferred(r"""[a-z]["']?\s{0,2}:\s{0,2}["'][ \t]?\Z""")  # of a record, which is a fleet's as often as a person's
_KEY_READ = 12
_OVER = deferred(rf"[^\w ./()\u00a0{DASH}]|\n")  # no number goes on behind that
_BEGINS = rf"(?<![^\W_{UNPARTED}])"
# Letters before the digits of a number, set apart from them or before few of them.
_PREFIX = deferred(
    _BEGINS + r"(?:[A-Z]{1,6}[ -](?=(?:[A-Z]{1,6}[ -])?\d)|[A-Z]{5}(?=\d{4}[A-Z])|[A-Z]{2}(?=\d{5}[A-Z]{2}))"
)
# Words with few digits: identity cards and passports of Germany, cards of Medicare.
_MIXED = deferred(
    rf"{_BEGINS}(?=[A-Z\d-]*\d[A-Z-]*\d)(?:[A-Z\d]{{8,11}}|\d[A-Z][A-Z\d]\d-[A-Z][A-Z\d]\d-[A-Z]{{2}}\d\d)"
    rf"(?![^\W_{UNPARTED}])"
)
_OF_MIXED = Stems(("pass", "paspo", "ausweis", "perso", "medicare", "mbi", "διαβ", "護照", "护照", "旅券", "여권"))
"""Each of their labels has one of these in it."""
_PREFIX_BEGUN = deferred(_BEGINS + r"[A-Z]{1,6}(?:\Z|[ -](?=(?:[A-Z]{1,6}[ -]?)?\Z))")
# In a group, so that one search for it comes in place of one at each capital letter (see `Triggers`). The last word of
# a text is held in any case, so letters alone are no trigger before a blank or a dash follows.
_PREFIX_TRIGGER = (
    r"(?:[A-Z])(?=[A-Z]{0,5}[ -](?:[0-9]|(?:[A-Z]{1,6}[ -]?)?\Z)|[A-Z]{4}[0-9]{4}[A-Z]|[A-Z][0-9]{5}[A-Z]{2})"
)
_LAST_DIGIT = regex.compile(r"(?r)\d")
_DIGIT = deferred(r"\d")
_SOME_LETTER = deferred(r"[^\W\d_]")


def _search(type: str, text: str, start: int, *, final: bool) -> Scan:
    since = max(start - _SEEN, 0)
    read = kinds(text, since)
    if LETTER not in read and text.isascii():
        return [], len(text)
    if read.count(DIGIT) > _MANY and type not in label_starts(text[since:] if since else text):
        return [], len(text)
    found = [begin for begin, _ in zones(_ZONE, None if final else _BEGUN, read[start - since :], start)]
    begun = (_word_start(text, begin, start) for begin in found)
    traces, hold = _numbers_from(type, text, start, _labelled(type, text, start, begun, len(found)), final=final)
    # What only began like such a number is another rule's.
    return [one for one in traces if _ZONE.search(kinds(text[one.low : one.high]))], hold


def _search_with_prefix(text: str, start: int, *, final: bool) -> Scan:
    found = [one.start() for one in _PREFIX.finditer(text, start)]
    if not final:
        last = _PREFIX_BEGUN.finditer(text, max(start, len(text) - _WORD))
        found += [one.start() for one in last if one.group()]
    begun = _labelled("national-id", text, start, found, len(found))
    return _numbers_from("national-id", text, start, begun, final=final)


def _labelled(type: str, text: str, start: int, places: Iterable[int], count: int) -> Iterator[int]:
    """Yield those places that a label of a type may stand before, without a digit between; all if they are few."""
    if count <= _FEW:
        yield from places
        return
    since = max(start - _SEEN, 0)
    labels = label_starts(text[since:] if since else text).get(type, ())
    for low in places if labels else ():
        before = bisect_left(labels, low - since) - 1
        label = labels[before] + since if before >= 0 else -1
        if label >= max(low - _SEEN, 0) and not _DIGIT.search(text, label, low):
            yield low


def _search_mixed(text: str, start: int, *, final: bool) -> Scan:
    plain = text[max(start - _REACH, 0) :].lower()
    if not _OF_MIXED.any_in(plain):
        return [], len(text)
    found = (one.start() for one in _MIXED.finditer(text, start))
    return _numbers_from("national-id", text, start, found, final=final)


def _numbers_from(type: str, text: str, start: int, places: Iterable[int], *, final: bool) -> Scan:
    traces: list[Trace] = []
    reach = start
    for low in places:
        before = _before(text, low)
        label = label_in(before) if low >= reach and _SOME_LETTER.search(before) else None
        if label is None or all(number.type != type for number in label.numbers):
            continue
        if not final and len(text) - low < _LONGEST and not _OVER.search(text, low):
            return traces, low
        found = number_at(text, low, label)
        if found is not None and found[1] == type:
            reach = found[0]
            traces.append(Trace(low, reach, low, reach))
    return traces, len(text)


def _word_start(text: str, at: int, start: int) -> int:
    """Return where the word begins in which a place lies."""
    low = max(start, at - _WORD)
    while at > low and text[at - 1].isascii() and text[at - 1].isalnum():
        at -= 1
    return at


def _before(text: str, at: int) -> str:
    """Return the text before a number, behind the last other number or placeholder."""
    low = max(at - _REACH, 0)
    digit = _LAST_DIGIT.search(text, low, at, concurrent=False)
    before = text[digit.end() if digit else max(at - _SEEN, 0) : at]
    if any(sign in before for sign in OF_PLACEHOLDER):
        before = before[max([found.end() for found in PLACEHOLDER.finditer(before)], default=0) :]
    return before


def _search_vehicles(text: str, start: int, *, final: bool) -> Scan:
    if _VEHICLE not in kinds(text, start).translate(_WORDS):  # the last word of a text that goes on is held in any case
        return [], len(text)
    traces, hold = _search("vehicle-id", text, start, final=final)
    return [one._replace(counts=not _KEY.search(text, max(one.low - _KEY_READ, 0), one.low)) for one in traces], hold


def _is_label(header: str) -> bool:
    return label_in(f"{header}: ") is not None


_HEADERS = HeaderWords(may_begin_label, _is_label)

NATIONAL_IDS = (
    BuiltInRule("national-id", "[NATIONAL_ID]", r"\d", partial(_search, "national-id"), digits=6, headers=_HEADERS),
    BuiltInRule("national-id", "[NATIONAL_ID]", _PREFIX_TRIGGER, _search_with_prefix),
    BuiltInRule("national-id", "[NATIONAL_ID]", r"\d", _search_mixed),
)
"""Numbers of persons and of their documents, behind their labels."""

VEHICLE_IDS = (BuiltInRule("vehicle-id", "[VEHICLE_ID]", r"\d", _search_vehicles, digits=5, headers=_HEADERS),)
"""Numbers of vehicles (VIN), behind their labels."""

DEVICE_IDS = (
    BuiltInRule("device-id", "[DEVICE_ID]", r"\d", partial(_search, "device-id"), digits=15, headers=_HEADERS),
)
"""Numbers of phones (IMEI), behind their labels."""


def of_countries_alone(countries: Container[str]) -> Sequence[BuiltInRule]:
    """Return the rules for numbers of some countries that count without a label, if their check digits are right."""
    return [
        pattern_rule(
            number.type,
            "[NATIONAL_ID]",
            rf"(?i){_BEGINS}(?<!\d[-./]){number.pattern}",
            trigger=r"\d",
            check=number.is_valid,
            longest=_LONGEST,
        )
        for number in of_countries(countries)
    ]
