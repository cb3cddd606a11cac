"""The rules ``national-id``, ``vehicle-id`` and ``device-id``: official numbers behind their labels.

A label is a word, a key or the header of a column (*Steuer-ID*, ``cpf``, *numéro de sécurité sociale*). If it names one
country's number and only words such as *number* stand between, a number of the right form counts, also with a wrong
check digit: a mistyped number still belongs to somebody. Farther away, or behind an ambiguous word, the check digits
must be right. Without a label, numbers count only for countries that the user names.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import regex

from penstock.detection.patterns.built_in import BuiltInRule, pattern_rule
from penstock.detection.patterns.kinds import DASH, kinds, spans_of
from penstock.detection.patterns.open_matches import Scan, Trace
from penstock.detection.personal_data.national_numbers import label_in, number_at, of_countries
from penstock.detection.personal_data.phones import PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

_ZONE = re.compile(rb"0(?:(?:AAA|[^\n0]{0,2}+)0){5,}+")  # in kinds: no number is shorter or looser
_BEGUN = re.compile(
    rb"0(?:(?:AAA|[^\n0]{0,2}+)0)*+(?:AAA|[^\n0]{0,2}+)\Z"
)  # what a text ends with, of which a number may become
_REACH = 88  # how far before a number its label may begin
_WORD = 20  # letters and digits of a number before four of its digits stand together
_LONGEST = 80  # characters of a number, and what is seen behind it
_VEHICLE = re.compile(rb"[0A]{17}")  # in kinds
_KEY = re.compile(
    r"""[a-z]["']?\s{0,2}:\s{0,2}["'][ \t]?\Z"""
)  # of a record, which is a fleet's as often as a person's
_KEY_READ = 12
_OVER = re.compile(rf"[^\w ./()\u00a0{DASH}]|\n")  # no number goes on behind that
# Letters before the digits of a number, set apart from them or before few of them.
_PREFIX = re.compile(r"(?<![^\W_])(?:(?:[A-Z]{1,6}[ -]){1,2}(?=\d)|[A-Z]{5}(?=\d{4}[A-Z])|[A-Z]{2}(?=\d{5}[A-Z]{2}))")
_PREFIX_BEGUN = re.compile(r"(?<![^\W_])(?:[A-Z]{1,6}[ -]){0,2}(?:[A-Z]{1,6})?\Z")
# In a group, so that one search for it comes in place of one at each capital letter (see `Triggers`).
_PREFIX_TRIGGER = r"(?:[A-Z])(?=[A-Z]{0,5}(?:[ -][0-9]|[ -]?\Z)|[A-Z]{4}[0-9]{4}[A-Z]|[A-Z][0-9]{5}[A-Z]{2})"
_LAST_DIGIT = regex.compile(r"(?r)\d")
_SOME_LETTER = re.compile(r"[^\W\d_]")


def _search(type: str, text: str, start: int, *, final: bool) -> Scan:
    zones = dict(spans_of(_ZONE, text, start))
    begun = () if final else (begin for begin, _ in spans_of(_BEGUN, text, start) if begin not in zones)
    return _numbers_from(
        type, text, start, (_word_start(text, begin, start) for begin in (*zones, *begun)), final=final
    )


def _search_with_prefix(text: str, start: int, *, final: bool) -> Scan:
    found = [*_PREFIX.finditer(text, start)]
    if not final:
        found += [one for one in _PREFIX_BEGUN.finditer(text, max(start, len(text) - _WORD)) if one.group()]
    return _numbers_from("national-id", text, start, (one.start() for one in found), final=final)


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
    before = text[digit.end() if digit else max(low - 1, 0) : at]
    if "]" in before:
        before = before[max([found.end() for found in PLACEHOLDER.finditer(before)], default=0) :]
    return before


def _search_vehicles(text: str, start: int, *, final: bool) -> Scan:
    if _VEHICLE.search(kinds(text, start)) is None:  # the last word of a text that goes on is held in any case
        return [], len(text)
    traces, hold = _search("vehicle-id", text, start, final=final)
    return [one._replace(counts=not _KEY.search(text, max(one.low - _KEY_READ, 0), one.low)) for one in traces], hold


NATIONAL_IDS = (
    BuiltInRule("national-id", "[NATIONAL_ID]", r"\d", partial(_search, "national-id"), digits=6),
    BuiltInRule(
        "national-id",
        "[NATIONAL_ID]",
        _PREFIX_TRIGGER,
        _search_with_prefix,
    ),
)
"""Numbers of persons and of their documents, behind their labels."""

VEHICLE_IDS = (BuiltInRule("vehicle-id", "[VEHICLE_ID]", r"\d", _search_vehicles, digits=5),)
"""Numbers of vehicles (VIN), behind their labels."""

DEVICE_IDS = (BuiltInRule("device-id", "[DEVICE_ID]", r"\d", partial(_search, "device-id"), digits=15),)
"""Numbers of phones (IMEI), behind their labels."""


def of_countries_alone(countries: Container[str]) -> Sequence[BuiltInRule]:
    """Return the rules for numbers of some countries that count without a label, if their check digits are right."""
    return [
        pattern_rule(
            number.type,
            "[NATIONAL_ID]",
            rf"(?i)(?<![^\W_])(?<!\d[-./]){number.pattern}",
            trigger=r"\d",
            check=number.is_valid,
            longest=_LONGEST,
        )
        for number in of_countries(countries)
    ]
