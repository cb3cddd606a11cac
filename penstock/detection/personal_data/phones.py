"""Phone numbers: by their form, or by a word nearby that explains looser groups of digits.

Digits in a link, in a UUID and in an IP address are no phone number, whatever stands before them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import regex

from penstock.detection.patterns.kinds import DASH, digits_from, spans_of
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace, collected
from penstock.detection.personal_data import phone_cues

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ZONE = re.compile(rb"0(?:[^\n0]{0,3}+0){5,}+")  # in kinds: digits close together: no number is shorter or looser
_REACH = 40  # how far before a number the words that explain it may stand
_TAIL = regex.compile(rf"(?r)[^\d .\u00a0{DASH}/(),;:+eEiInNoOsS\u017ftTxX]")  # not in a number, nor right behind it
_LONGEST = 96  # characters of a number with its extension, and what is seen behind it
_BEHIND = 24  # characters of an extension, and what is seen behind it

# Letters that a number cannot touch: those of Chinese, Japanese, Korean, Thai and the like may stand right beside it.
_GLUED = r"[^\W\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff]"
_SEP = rf"[ .\u00a0{DASH}]"
_EXTENSION = r"(?:[ ,;]{0,2}(?:x|ext\.?|extension)[ .]?\d{1,6})?"
_PHONE = StreamPattern(
    rf"""(?ix)(?=[+(\d])(?<!{_GLUED})(?<![@#$%€£¥])(?<!\d[.,{DASH}/:])(?:
      (?P<intl>\+\(?\d(?:[ .\u00a0{DASH}/()]{{0,3}}\d){{7,14}})
    | (?P<exit>00[1-9]\d{{0,2}}(?:{_SEP}\(?\d{{1,5}}\)?){{2,6}})
    | (?P<nanp>(?:1{_SEP}?)?(?:\(\d{{3}}\){_SEP}?|\d{{3}}{_SEP})\d{{3}}{_SEP}\d{{4}})
    | (?P<area>\(\d{{2,5}}\){_SEP}?\d{{2,8}}(?:{_SEP}\d{{2,5}}){{0,3}})
    | (?P<trunk>0\d{{1,4}}(?:{_SEP}\d{{2,8}}){{1,4}})
    | (?P<slash>0[2-9]\d{{1,3}}[ ]?/[ ]?\d{{3,8}}(?:{_SEP}\d{{2,5}}){{0,2}}|0\d{{1,3}}\(\d{{2,4}}\)\d{{3,4}})
    | (?P<mobile>(?<![=/&?])0(?:[67]\d{{8}}|7\d{{9}}|4\d{{8}}|1[567]\d{{8,9}}))
    | (?P<bare>(?<![=/&?])1?[2-9]\d{{9}})
    ){_EXTENSION}(?!{_GLUED}|%|[.,{DASH}/:]\d)""",
    flags=0,
    by_re=True,
)
_LOOSE = StreamPattern(
    rf"(?<!{_GLUED})(?<![@#$%€£¥])(?<!\d[.,/:])\(?\+?\d(?:(?:[ ][{DASH}/][ ]|[ .\u00a0{DASH}/()]{{0,2}})\d){{5,14}}"
    rf"(?!{_GLUED}|%|[.,{DASH}/:]\d)",
    flags=0,
)
_DIGITS_OF = {"intl": range(8, 16), "exit": range(9, 17), "area": range(7, 13), "trunk": range(9, 12)}
_ANY = range(9, 13)
_UNFORMED = ("mobile", "bare")  # digits without anything between them

_NO_PHONE = re.compile(  # dates, spans of years, social security numbers
    r"(?<!\d)(?:\d{1,2}[-./ ]\d{1,2}[-./ ](?:19|20)\d\d|(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2})(?!\d)"
    rf"|^\(?(?:1[5-9]|20)\d\d\)?[ {DASH}]{{1,3}}(?:1[5-9]|20)\d\d"
    rf"|^\d{{3}}[{DASH}]\d{{2}}[{DASH}]\d{{4}}$"
)
_A_DATE = re.compile(r"(?<!\d)(?:19|20)\d\d (?:0?[1-9]|1[0-2]) (?:0?[1-9]|[12]\d|3[01])(?!\d)")
_GROUP = re.compile(r"\d+")
_MOST_GROUPS, _MOST_SINGLE = 7, 2  # more groups, or more digits that stand alone, are a row of figures
_FEW = 7  # fewer digits need a word for a phone close by
_FORMED = range(8, 14)  # digits that a number has if only a word for any number explains it
_GROUPS_FORMED = 3

_QUAD = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_LINK_REACH = 120  # how far before its digits a link may begin; no more than a rule may look back
_LINK = re.compile(r"""(?:://|\bwww\.)[^\s"'<>\[\]{}|\\^`]*\Z""")
_UUID = re.compile(r"(?i)(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])")
_UUID_LENGTH, _UUID_DASHES = 36, 4


def phones(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of phone numbers. Loose digits do not count where they overlap a number of a known form."""
    zones = spans_of(_ZONE, text, start)
    if not zones:
        return [], len(text) if final else digits_from(text, start)
    shaped, hold = _numbers(_PHONE, text, start, zones, final=final)
    loose, open_at = _numbers(_LOOSE, text, start, zones, final=final)
    if not final:  # a word may follow that explains a number, or the rest of a UUID
        late = [found.start() for found in shaped if _awaits(text, found, formed=True)]
        late += [found.start() for found in loose if _awaits(text, found, formed=False)]
        open_at = min([open_at, *late])
    traces = [Trace(*found.span(), *found.span(), _is_phone(text, found)) for found in shaped]
    known = iter([*(trace for trace in traces if trace.counts), Trace(len(text), len(text) + 1, 0, 0)])
    one = next(known)
    others: list[Trace] = []
    for found in loose:
        while one.end <= found.start():
            one = next(known)
        alone = one.start >= found.end()
        others.append(Trace(*found.span(), *found.span(), alone and _is_cued(text, found)))
    return [*traces, *others], min(hold, open_at)


def _awaits(text: str, found: regex.Match[str], *, formed: bool) -> bool:
    """Return whether more text may decide about a number."""
    low, high = found.span()
    dashed = "-" in (text[low - 1 : low], text[high : high + 1])
    if not dashed if formed else _has_other_form(found.group()):
        return False
    return high > len(text) - (_UUID_LENGTH if dashed else phone_cues.BEHIND_WIDTH)


def _numbers(
    shape: StreamPattern, text: str, start: int, zones: Sequence[tuple[int, int]], *, final: bool
) -> tuple[list[regex.Match[str]], int]:
    """Return the final matches of a pattern, searched only near enough digits, and the place where one is open."""
    found = _in_zones(shape, text, start, zones)
    if final:
        return collected(found), len(text)
    near = max(start, len(text) - _LONGEST)
    tail = _TAIL.search(text, near, concurrent=False)
    return shape.final_matches(found, text, start, since=tail.end() if tail else near)


def _in_zones(
    shape: StreamPattern, text: str, start: int, zones: Sequence[tuple[int, int]]
) -> Iterator[regex.Match[str]]:
    reach = start
    for begin, high in zones:
        low = max(begin - 2, reach)  # a sign before
        for found in shape.matches(text, low, high + _BEHIND):
            if found.start() >= high:
                break
            reach = found.end()
            yield found


class _Before(NamedTuple):
    """The text close before a number, in small letters; words begin at ``at`` or behind it."""

    text: str
    at: int

    def says(self, cue: re.Pattern[str]) -> bool:
        """Return whether such a word stands there."""
        return cue.search(self.text, self.at) is not None


def _before(text: str, found: regex.Match[str]) -> _Before:
    low = max(found.start() - _REACH, 0)
    seen = max(low - 1, 0)  # whether a word begins there
    return _Before(text[seen : found.start()].lower(), low - seen)


def _is_phone(text: str, found: regex.Match[str]) -> bool:
    kind = found.lastgroup or ""
    core = found.group(kind)
    size = sum(map(str.isdigit, core))
    if size not in _DIGITS_OF.get(kind, _ANY) or _NO_PHONE.search(core) or _is_part(text, found):
        return False
    if kind == "intl":
        return True
    before = _before(text, found)
    other = before.says(phone_cues.OTHER) or (kind in _UNFORMED and before.says(phone_cues.OTHER_THAN_ENGLISH))
    return not other or before.says(phone_cues.PHONE)


def _is_cued(text: str, found: regex.Match[str]) -> bool:
    """Return whether a word nearby says that digits are a phone number."""
    if _has_other_form(found.group()):
        return False
    before = _before(text, found)
    if not _is_explained(text, found, before) or _is_part(text, found):
        return False
    return not before.says(phone_cues.OTHER) and not before.says(phone_cues.OTHER_THAN_ENGLISH)


def _has_other_form(number: str) -> bool:
    """Return whether loose digits are a date or a row of figures, whatever stands around them."""
    groups = _GROUP.findall(number)
    if len(groups) > _MOST_GROUPS or [*map(len, groups)].count(1) > _MOST_SINGLE:
        return True
    return _NO_PHONE.search(number) is not None or _A_DATE.search(number) is not None


def _is_explained(text: str, found: regex.Match[str], before: _Before) -> bool:
    groups = _GROUP.findall(found.group())
    size = sum(map(len, groups))
    behind = phone_cues.BEHIND.match(text, found.end(), found.end() + phone_cues.BEHIND_WIDTH) is not None
    if size < _FEW:
        close = before.says(phone_cues.CLOSE) and not before.says(phone_cues.CODE)
        return close or (behind and len(groups) >= _GROUPS_FORMED)
    if behind or before.says(phone_cues.PHONE):
        return True
    if size not in _FORMED:
        return False
    if found.group()[0] in "0+(" or len(groups) >= _GROUPS_FORMED:
        return before.says(phone_cues.CONTACT) or before.says(phone_cues.NUMBER)
    return size in _ANY and before.says(phone_cues.CONTACT)


def _is_octet(number: str) -> bool:
    return number == str(int(number)) and int(number) < 256  # noqa: PLR2004 - the bound of a byte


def _is_part(text: str, found: regex.Match[str]) -> bool:
    """Return whether digits are an IP address, or part of a link or of a UUID."""
    if _QUAD.fullmatch(found.group()) and all(map(_is_octet, found.group().split("."))):
        return True
    low, high = found.span()
    begin = max(low - _LINK_REACH, 0)
    if (text.find("://", begin, low) >= 0 or text.find("www.", begin, low) >= 0) and _LINK.search(text, begin, low):
        return True
    begin, end = max(low - _UUID_LENGTH, 0), high + _UUID_LENGTH
    dashed = text.count("-", begin, end) >= _UUID_DASHES
    return dashed and any(one.start() < high and low < one.end() for one in _UUID.finditer(text, begin, end))
