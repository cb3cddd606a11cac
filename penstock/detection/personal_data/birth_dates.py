"""The rule ``date-of-birth``: a whole date after words such as *born*. Dates without such words do not count."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.long_texts import matches as matches_in
from penstock.detection.patterns.built_in import BuiltInRule
from penstock.detection.patterns.kinds import kinds
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

_REACH = 48  # how far before a date the words that explain it may stand
_CUE_READ = 16  # the longest word for birth
_READ = 40  # no more characters than that are read from one place on
_SEP = r"[-./\u2010-\u2013]"
_MONTH = (
    r"(?:jan(?:uar[yi]?|vier|uary|eiro)?|f(?:eb(?:ruar[yi]?|brero|braio|rero)?|[ée]vr(?:ier)?)|m(?:ar(?:ch|s|zo|[çc]o)?|[äa]rz)"
    r"|a(?:pr(?:il|ile)?|bril|vr(?:il)?)|ma[yioj]|maggio|mayo|jun[ie]?o?|juin|giugno|jul[yi]?o?|juil(?:let)?|luglio"
    r"|aug(?:ust)?|ao[ûu]t|agosto|sep(?:t(?:ember|embre|iembre)?)?|o[ckt]t(?:ober|obre|ubre)?|nov(?:ember|embre|iembre)?"
    r"|de[czs](?:ember|embre|iembre)?|d[ée]c(?:embre)?)"
)
_CAPITAL = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
"""Months that a date begins with; a capital letter must be there before they are searched for."""

_YEAR = r"(?:1[89]|20)\d\d"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_DATE = StreamPattern(
    rf"""(?ix)(?<!\d[.])(?:(?<![\w/-])(?:
      {_YEAR}(?P<a>{_SEP}){_DAY}(?P=a){_DAY}
    | {_DAY}(?P<b>{_SEP}|\ )[ ]?{_DAY}(?P=b)[ ]?(?:{_YEAR}|\d\d)
    | {_DAY}(?:st|nd|rd|th|\.|er|º)?[ -](?:of[ ]|de[ ])?{_MONTH}\.?,?[ -](?:de[ ])?{_YEAR}
    | (?-i:{_CAPITAL})\.?[ ]{_DAY}(?:st|nd|rd|th)?,?[ ]{_YEAR}
    )(?![\w/-])
    | (?<!\d){_YEAR}年\d{{1,2}}月\d{{1,2}}日)""",
    flags=0,
)
_CUE = re.compile(
    r"(?i)birth|\bborn\b|\bd\.?o\.?b\b|\bgeb(?:\.|oren)|geburt|nascimento|nascid[oa]\b|nacid[oa]\b|nacimiento|nascita"
    r"|\bnat[oa] il\b|naissance|\bnée? le\b|geboorte|födelse|\bfödd\b|\bfødt\b|fødsel|urodz|narozen|syntym|doğum"
    r"|рожд|родил|出生|生日|生年月日|생년월일"
)
_STEMS = [
    "birth",
    "born",
    "dob",
    "d.o",
    "do.b",
    "geb",
    "nasci",
    "naci",
    "nato",
    "nata",
    "naissance",
    "né",
    "föd",
    "fød",
    "urodz",
    "narozen",
    "syntym",
    "doğum",
    "рожд",
    "родил",
    "出生",
    "生日",
    "生年",
    "생년",
]
"""Each word for birth contains one of these; searching for them first is cheap."""
_DATED = re.compile(rb"000|0[^0\n]{1,2}00?[^0\n]{1,2}00")  # a year, or three numbers, in kinds; no date has neither
_BEGUN = re.compile(r"[0-9JFMASOND]")
_MOST_MONTHS = 12


def births(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of dates after a word for birth."""
    plain = text[max(start - _REACH - _CUE_READ, 0) :].lower()
    if not any(map(plain.__contains__, _STEMS)):
        return [], len(text)
    dated = _DATED.search(kinds(text, start))
    if dated is None:
        start = len(text) if final else max(start, len(text) - _READ)
        if not _BEGUN.search(text, start):
            return [], len(text)
    low = max(start + (max(dated.start() - _READ, 0) if dated else 0) - _REACH - _CUE_READ, 0)
    found = _behind_cues(text, low)
    if final:
        matches, hold = list(found), len(text)
    else:
        matches, hold = _DATE.final_matches(found, text, start, since=len(text) - _READ)
    return [Trace(*one.span(), *one.span(), _is_date(one.group())) for one in matches if one.start() >= start], hold


def _behind_cues(text: str, low: int) -> Iterator[regex.Match[str]]:
    """Yield the dates that begin close after a word for birth; each word is followed from its end on."""
    cues = [found.end() for found in matches_in(_CUE, text, low)]
    for cue, after in zip(cues, [*cues[1:], len(text)], strict=False):
        last = min(cue + _REACH, after)
        for found in _DATE.compiled.finditer(text, cue, min(last + _READ, len(text)), concurrent=False):
            if found.start() > last:
                break
            yield found


def _is_date(found: str) -> bool:
    numbers = [int(number) for number in re.findall(r"\d+", found) if len(number) <= 2]  # noqa: PLR2004 - day, month
    return len(numbers) < 2 or min(numbers[:2]) <= _MOST_MONTHS  # noqa: PLR2004 - one of them is the month


_TRIGGER = (
    r"[0-9](?:[-./\u2010-\u2013 ]|st|nd|rd|th|er|º|年)"
    r"|[JFMASOND](?:an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec)(?<![A-Za-z]...)"
)
BIRTHS: tuple[BuiltInRule, ...] = (BuiltInRule("date-of-birth", "[DATE_OF_BIRTH]", _TRIGGER, births),)
"""Dates of birth, in numbers or with the name of the month (English, German, French, Spanish, Italian, Portuguese)."""
