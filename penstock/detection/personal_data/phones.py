"""Phone numbers: by a form that nothing else has, or by a word nearby that explains other digits.

Forms of their own are a country's code behind a plus sign or two zeros, an area code in parentheses, the groups of
North America, and those behind a zero that are usual somewhere. All other digits, such as ten in a row, need a word, a
key or a phrase for a phone, and no word closer by that says something else. Digits in a link, in a UUID and in an IP
address are no phone number, whatever stands before them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import regex

from penstock.detection.deferred import deferred
from penstock.detection.patterns.kinds import DASH, GLUED, UNPARTED, in_numbers, number_from, zones
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace, collected
from penstock.detection.personal_data import phone_cues
from penstock.detection.places.labels import names_next

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence


_ZONE = deferred(rb"0(?: {0,3}+0){5,}+")  # as `in_numbers`: no number is shorter or looser
_REACH = 40  # how far before a number the words that explain it may stand
_TAIL = regex.compile(rf"(?r)[^\d .\u00a0{DASH}/(),;:+eEiInNoOsS\u017ftTxX]")  # not in a number, nor right behind it
_LONGEST = 96  # characters of a number with its extension, and what is seen behind it
_BEHIND = 24  # characters of an extension, and what is seen behind it

_SEP = rf"(?:[ .\u00a0{DASH}]|[ ][{DASH}][ ])"
_EXTENSION = r"(?:[ ,;]{0,2}(?:x|ext\.?|extension)[ .]?\d{1,6})?"
_NOT_BEHIND = rf"(?<!{GLUED})(?<![@#$%€£¥*])(?<![X*][ .\u00a0{DASH})/])"  # nor behind a mask
_BETWEEN = rf"(?![ ]{{3}})[ .\u00a0{DASH}/()]{{0,3}}"  # three blanks part the columns of a table
_CLOSED = "".join(rf"(?<!\(\d{{{size}}})" for size in range(1, 6))  # the area code of the next number
_PHONE = StreamPattern(
    rf"""(?ix)(?=[+(\d]){_NOT_BEHIND}(?:
      (?P<intl>\+\(?[1-9](?:{_BETWEEN}\d){{7,14}}{_CLOSED})
    | (?<!\d[.{DASH}/:])(?:
      (?P<exit>\(?(?:00|011[ ])[1-9](?:{_BETWEEN}\d){{7,14}}{_CLOSED})
    | (?P<nanp>(?:1{_SEP}?)?(?:\(\d{{3}}\){_SEP}?|\d{{3}}{_SEP})\d{{3}}{_SEP}\d{{4}})
    | (?P<area>(?:8{_SEP}?)?\(\d{{2,5}}\){_SEP}?\d{{2,8}}(?:{_SEP}\d{{2,5}}){{0,3}})
    | (?P<trunk>0\d{{1,4}}(?:{_SEP}\d{{2,8}}){{1,4}}(?:-\d{{1,4}})?)
    | (?P<slash>0[1-9]\d{{0,3}}[ ]?/[ ]?\d{{3,8}}(?:{_SEP}\d{{2,5}}){{0,2}}(?:-\d{{1,4}})?)
    | (?P<local>0\d{{1,3}}\(\d{{2,4}}\)\d{{3,4}})
    | (?P<mobile>(?<![=/&?])0(?:[67]\d{{8}}|7\d{{9}}|4\d{{8}}|1[567]\d{{8,9}}))
    | (?P<bare>(?<![=/&?])1?[2-9]\d{{9}})
    )){_EXTENSION}(?!{GLUED}|%|[.{DASH}/:]\d)""",
    flags=0,
    by_re=True,
)
_LOOSE = StreamPattern(
    rf"{_NOT_BEHIND}(?<!\d[./:])\(?\+?\d(?:(?:[ ][{DASH}/][ ]|[ .\u00a0{DASH}/()]{{0,2}})\d){{5,14}}{_CLOSED}"
    rf"(?!{GLUED}|%|[.{DASH}/:]\d)",
    flags=0,
    by_re=True,
)
_DIGITS_OF = {
    "intl": range(8, 16),
    "exit": range(10, 17),
    "area": range(7, 13),
    "trunk": range(9, 14),
    "slash": range(9, 14),
}
_ANY = range(9, 13)
_LEAST_FORMED = 9  # characters of a number without a plus sign or a bracket
_OF_FORM = deferred(
    rf"[+(]|0(?<![^\W_{UNPARTED}].)\d"
)  # what stands in each number of a form, unless it has many digits
_SIGN = deferred(r"[+(]")
_BEFORE_AREA = 4  # characters between the digit one and an area code in brackets
_MANY = deferred(rb"000(?: {1,3}000 {1,3}0000|0{7})")  # as `in_numbers`


# Forms that only phone numbers have. All others count if a word, a key or a phrase nearby says that they are one.
_OWN: Mapping[str, re.Pattern[str]] = {
    kind: deferred(form)
    for kind, form in {
        "intl": r"\+\D{0,2}(?:1\D{0,3}[2-9](?:\D*\d){9}|7(?:\D*\d){10}|[2-689])",
        "exit": r"\(?0011?\D{0,3}[2-9](?:\D*\d){9}|\(?(?:00|011 )[2-9]\d(?:\D*\d)?(?:\D*\(0\))?\D*[1-9](?:\D*\d){6}",
        "nanp": rf"(?:1{_SEP}?)?"
        rf"(?:\(\d{{3}}\){_SEP}?\d{{3}}[.{DASH}]|\([02-9]\d\d\)|[2-9]\d\d{_SEP}(?:[2-9]\d\d|123){_SEP}"
        r"|0[1-9]\d[ .\u00a0]\d{3}[ .\u00a0])",
        "area": rf"\(0|\([1-9]\d\){_SEP}?(?:9 ?)?\d{{4}}{_SEP}\d{{4}}\Z|\([1-9]\d\) \d{{3}} \d\d \d\d\Z"
        rf"|8{_SEP}?\(\d{{3}}\){_SEP}?\d{{3}}{_SEP}\d\d{_SEP}\d\d\Z",
        # Groups set apart by blanks or points, pairs, one dash, a dash and blanks, and the groups of Japan and Korea.
        "trunk": rf"0[1-9]\d*(?:[ .\u00a0]\d+)+(?:-\d+)?\Z|0[1-9](?:[{DASH}]\d\d){{4}}\Z|0\d+ ?[{DASH}] ?\d{{7,}}\Z"
        rf"|0\d+ ?[{DASH}] ?\d+(?: \d+)+\Z|0(?:\d|1\d|\d0)[{DASH}]\d{{3,4}}[{DASH}]\d{{4}}\Z"
        rf"|0\d+[{DASH}]\d{{4}}[{DASH}]\d{{4}}\Z",
        "slash": r"0\d{1,4} ?/ ?\d",
        "local": "0",
    }.items()
}
_FIGURES = deferred(r"1? ?(\d{3}) (\d{3}) (\d{4})")  # three figures in a row have this form, too
_ALONE_BEFORE = deferred(r"(?:\A|[^\d\s\]][ \t]*\n|[,;|\t\"'(\[>])[ \t]*\Z")
_ALONE_BEHIND = deferred(r"[ \t]{0,4}(?:\n(?![ \t]{0,4}[\d(+\[])|[,;|)\]<\"'.!?]|\Z)")
_PAIRS = deferred(r"\d\d(?:[ .]\d\d)+")
_STEPS = frozenset({1, 2, 5, 10})  # between hours or measures in a row
_IN_THOUSANDS = deferred(r"(?<!\d)\d{1,3},\d{3}(?:[ \u00a0]|\Z)")
_ARTICLE = range(13, 15)  # digits in a row that may number an article (GTIN)
_IN_ONE = range(12, 16)  # digits behind two zeros, in one piece
_EPOCH = deferred(r"1[67]\d{8}(?:\d{3})?")  # seconds or milliseconds of our time
PLACEHOLDER = deferred(  # or nothing, where a value was removed
    r"""(?:\[|\A)(?:[A-Z][A-Z_-]*(?:_\d+)?|HASH:[0-9a-f]*)\]|\*{4,}|[:=][ \t]?(?:""|''|null\b|(?=[,;:]))|[ \t](?=,)"""
)
OF_PLACEHOLDER = ("]", ",", ";", "****", '""', "''", "null", "=:", "= :", "::", ": :")  # one stands in each
_HIDDEN_BEFORE = deferred(r"\[[A-Z][A-Z_-]*(?:_\d+)?\][-./]?\Z")
_HIDDEN_BEHIND = deferred(r"[-./]?\[[A-Z][A-Z_-]*(?:_\d+)?\]")
_PLACEHOLDER_READ = 20
_NEW_WORD = deferred(r"_|(?<=[a-z])(?=[A-Z])")
_OTHERS = (phone_cues.OTHER, phone_cues.OTHER_THAN_ENGLISH, phone_cues.NUMBERED)
_SAYS = deferred(rf"[^\W\d_{phone_cues.SYMBOLS}]|[{phone_cues.SYMBOLS}]")

_NO_PHONE = deferred(  # dates, spans of years, social security numbers
    r"(?<!\d)(?:\d{1,2}[-./ ]\d{1,2}[-./ ](?:19|20)\d\d|(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2})(?!\d)"
    rf"|^\(?(?:1[5-9]|20)\d\d\)?[ {DASH}]{{1,3}}(?:1[5-9]|20)\d\d"
    rf"|^\d{{3}}[{DASH}]\d{{2}}[{DASH}]\d{{4}}$"
    r"|^\d{5}-\d{3}$|^\+\d\d\.\d{3,}-\d{3}\."  # postal codes of Brazil, coordinates (ISO 6709)
)
_COORDINATES = deferred(r"\+[0-8]\d[0-5]\d(?:-[01]\d\d[0-5]\d|[0-5]\d-[01]\d\d(?:[0-5]\d){2})")  # so do phones look
_A_DATE = deferred(r"(?<!\d)(?:19|20)\d\d (?:0?[1-9]|1[0-2]) (?:0?[1-9]|[12]\d|3[01])(?!\d)")
_GROUP = deferred(r"\d+")
_MOST_GROUPS, _MOST_SINGLE = 7, 2  # more groups, or more digits that stand alone, are a row of figures
_FEW = 7  # fewer digits need a word for a phone close by
_FORMED = range(8, 14)  # digits that a number has if only a word for any number explains it
_GROUPS_FORMED = 3
_NUMBER_BEFORE = deferred(rf"\d(?:[ .\u00a0{DASH}/()]{{0,3}}\d){{6,}}(\D+)\Z")
_OF_CUE = deferred(r"[A-Za-z][G-Zg-z]|[G-Zg-z][A-Fa-f]|[^\x00-\x7f]")  # stands in each word that explains a number

_QUAD = deferred(r"(?:\d{1,3}\.){3}\d{1,3}")
_LINK_REACH = 120  # how far before its digits a link may begin; no more than a rule may look back
_LINK = deferred(r"""(?:://|\bwww\.)[^\s"'<>\[\]{}|\\^`]*\Z""")
_UUID = deferred(r"(?i)(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])")
_UUID_LENGTH, _UUID_DASHES = 36, 4
_AWAITED = max(_UUID_LENGTH, phone_cues.BEHIND_WIDTH)


def names_phone(word: str) -> bool:
    """Return whether a word of a label is one for phones, calls or contacts."""
    return phone_cues.PHONE.search(word) is not None or phone_cues.CONTACT.search(word) is not None


def phones(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of phone numbers. Loose digits do not count where they overlap a number of a known form."""
    digits = in_numbers(text, start)
    close = [*zones(_ZONE, None, digits, start)]
    if not close:
        return [], len(text) if final else number_from(text, start)
    any_formed = _OF_FORM.search(text, max(start - 2, 0)) or _MANY.search(digits)
    formed = [zone for zone in close if any_formed and _may_have_form(text, digits, start, *zone)]
    shaped, hold = _numbers(_PHONE, text, start, formed, final=final)
    near = len(text) if final else len(text) - _BEHIND
    cued = _OF_CUE.search(text, max(start - _REACH, 0)) is not None
    explained = [zone for zone in close if zone[1] > near or (cued and _may_be_explained(text, *zone))]
    loose, open_at = _numbers(_LOOSE, text, start, explained, final=final)
    if not final:  # a word may follow that explains a number, or the rest of a UUID
        late = [found.start() for found in _last(shaped, text) if _awaits(text, found, formed=True)]
        late += [found.start() for found in _last(loose, text) if _awaits(text, found, formed=False)]
        open_at = min([open_at, *late])
    traces = [Trace(*found.span(), *found.span(), _is_phone(text, found)) for found in shaped]
    if not cued:
        spans = () if final else (found.span() for found in loose)
        return [*traces, *(Trace(low, high, low, high, counts=False) for low, high in spans)], min(hold, open_at)
    known = iter([*(trace for trace in traces if trace.counts), Trace(len(text), len(text) + 1, 0, 0)])
    one = next(known)
    for found in loose:
        low, high = found.span()
        while one.end <= low:
            one = next(known)
        counts = one.start >= high and _is_cued(text, found)
        if counts or not final:
            traces.append(Trace(low, high, low, high, counts))
    return traces, min(hold, open_at)


def _may_have_form(text: str, digits: bytes, start: int, low: int, high: int) -> bool:
    """Return whether some digits may have the form of a phone number; ``digits`` are those of `in_numbers`."""
    signed = _OF_FORM.search(text, max(low - 2, 0), high + _BEFORE_AREA)
    if high - low < _LEAST_FORMED:
        return signed is not None and _SIGN.search(text, max(low - 2, 0), high) is not None
    return signed is not None or _MANY.search(digits, low - start, high - start) is not None


def _may_be_explained(text: str, low: int, high: int) -> bool:
    """Return whether words that may explain some digits stand close to them."""
    return _OF_CUE.search(text, max(low - _REACH - 2, 0), high + _BEHIND) is not None


def _last(found: Sequence[regex.Match[str]], text: str) -> Iterator[regex.Match[str]]:
    """Yield the matches, from the last one back, that end so close to the end that more text may change them."""
    for one in reversed(found):
        if one.end() <= len(text) - _AWAITED:
            return
        yield one


def _awaits(text: str, found: regex.Match[str], *, formed: bool) -> bool:
    """Return whether more text may decide about a number."""
    low, high = found.span()
    dashed = "-" in (text[low - 1 : low], text[high : high + 1])
    if not dashed:
        kind = found.lastgroup or ""
        other = kind == "intl" or not _has_size(found.group(kind), kind) if formed else _has_other_form(found.group())
        if other:
            return False
    return high > len(text) - (_UUID_LENGTH if dashed else phone_cues.BEHIND_WIDTH)


def _numbers(
    shape: StreamPattern, text: str, start: int, close: Sequence[tuple[int, int]], *, final: bool
) -> tuple[Sequence[regex.Match[str]], int]:
    """Return the final matches of a pattern, searched only near enough digits, and the place where one is open."""
    found = _in_zones(shape, text, start, close)
    if final:
        return found, len(text)
    near = max(start, len(text) - _LONGEST)
    tail = _TAIL.search(text, near, concurrent=False)
    since = tail.end() if tail else near
    open_at = shape.open_at(text, since)
    known = next((at for at, one in enumerate(found) if one.end() > open_at), len(found))
    for at, one in enumerate(found[known:], known):
        if one.start() >= open_at:
            return found[:at], open_at
        if one.end() > open_at:
            open_at = shape.open_at(text, max(one.end(), since))
    return found, open_at


def _in_zones(
    shape: StreamPattern, text: str, start: int, close: Sequence[tuple[int, int]]
) -> Sequence[regex.Match[str]]:
    kept: list[regex.Match[str]] = []
    reach = start
    for begin, high in close:
        low = max(begin - 2, reach)  # a sign before
        found = collected(shape.matches(text, low, high + _BEHIND))
        while found and found[-1].start() >= high:
            found.pop()
        if found:
            kept += found
            reach = found[-1].end()
    return kept


class _Before(NamedTuple):
    """The text close before a number, in small letters, in which a dash parts the words of a name in code.

    Attributes:
        text: the text, without placeholders: no word for a phone is seen before the last of them.
        at: where the first word begins in it, or behind that.
        since: where words that explain the number may begin.
    """

    text: str
    at: int
    since: int

    def says(self, cue: re.Pattern[str]) -> bool:
        """Return whether such words stand there."""
        return cue.search(self.text, self.at) is not None

    def explained_by(self, cue: re.Pattern[str]) -> int:
        """Return where the last such words end that may explain the number; -1 if there are none."""
        return max([found.end() for found in cue.finditer(self.text, self.since)], default=-1)


def _before(text: str, found: regex.Match[str]) -> _Before:
    low = max(found.start() - _REACH, 0)
    seen = max(low - 1, 0)  # whether a word begins there
    raw = text[seen : found.start()]
    if _SAYS.search(raw) is None:
        return _Before("", 0, 0)
    *hidden, last = PLACEHOLDER.split(raw) if any(sign in raw for sign in OF_PLACEHOLDER) else (raw,)
    kept = _in_words("".join(hidden))
    at = low - seen
    return _Before(kept + _in_words(last), at, max(len(kept), at))


def _in_words(text: str) -> str:
    if text.islower() and "_" not in text:
        return text
    return _NEW_WORD.sub("-", text).lower()


def _is_phone(text: str, found: regex.Match[str]) -> bool:
    kind = found.lastgroup or ""
    if not _has_size(found.group(kind), kind) or _is_part(text, found):
        return False
    if not _has_own_form(text, found, kind):
        return _is_cued(text, found)
    if kind != "intl" and _touches_placeholder(text, *found.span()):
        return False
    before = _before(text, found)
    if kind == "intl":
        place = _COORDINATES.fullmatch(found.group(kind)) is not None and before.explained_by(phone_cues.PHONE) < 0
        return not (place or before.says(phone_cues.MEASURE))
    other = any(map(before.says, _OTHERS)) or _has_unit(text, found)
    return not other or before.explained_by(phone_cues.PHONE) >= 0


def _has_size(number: str, kind: str) -> bool:
    """Return whether it has as many digits as its kind has, and is no date."""
    return sum(map(str.isdigit, number)) in _DIGITS_OF.get(kind, _ANY) and _NO_PHONE.search(number) is None


def _has_own_form(text: str, found: regex.Match[str], kind: str) -> bool:
    """Return whether a number is a phone's by its form, without any words nearby."""
    core = found.group(kind)
    own = _OWN.get(kind)
    if own is None or own.match(core) is None:
        return False
    low = found.start()
    if kind == "exit" and core.isdigit():
        return len(core) in _IN_ONE and not (len(core) in _ARTICLE and _is_article(core))
    if kind == "area" and core[1] != "0":
        return not text[max(low - 2, 0) : low].strip().isdigit()  # the issue of a journal behind its volume
    if _PAIRS.fullmatch(core):
        pairs = [int(pair) for pair in _GROUP.findall(core)]
        steps = {after - one for one, after in pairwise(pairs)}
        return len(steps) > 1 or steps.isdisjoint(_STEPS)
    figures = _FIGURES.fullmatch(core)
    if figures is None:
        return True
    if any(group.startswith("0") for group in figures.groups()):
        return True
    alone = _ALONE_BEFORE.search(text, max(low - _REACH, 0), low) is not None
    return alone and _ALONE_BEHIND.match(text, found.end()) is not None and not _is_in_thousands(text, found)


def _is_article(number: str) -> bool:
    """Return whether the check digit is that of an article's number (EAN, GTIN)."""
    weighed = sum(int(digit) * (3 - 2 * (at % 2)) for at, digit in enumerate(number[-2::-1]))
    return (weighed + int(number[-1])) % 10 == 0


def _is_in_thousands(text: str, found: regex.Match[str]) -> bool:
    low = found.start()
    return text[max(low - 1, 0) : low] == "," and _IN_THOUSANDS.search(text, max(low - 4, 0), low + 4) is not None


def _touches_placeholder(text: str, low: int, high: int) -> bool:
    """Return whether digits are what is left of a longer run, of which a part was hidden before."""
    begin = max(low - _PLACEHOLDER_READ, 0)
    before = "]" in text[max(low - 2, 0) : low] and _HIDDEN_BEFORE.search(text, begin, low) is not None
    return before or ("[" in text[high : high + 2] and _HIDDEN_BEHIND.match(text, high) is not None)


def _has_unit(text: str, found: regex.Match[str]) -> bool:
    return phone_cues.UNIT.match(text, found.end(), found.end() + phone_cues.BEHIND_WIDTH) is not None


def _is_cued(text: str, found: regex.Match[str]) -> bool:
    """Return whether a word nearby says that digits are a phone number, and none closer by says something else."""
    low, high = found.span()
    if not _OF_CUE.search(text, max(low - _REACH, 0), low) and not _OF_CUE.search(text, high, high + _BEHIND):
        return False
    before = _before(text, found)
    at = _explained_at(text, found, before)
    if at < 0 or _has_other_form(found.group()) or _is_in_thousands(text, found) or _is_part(text, found):
        return False
    if _touches_placeholder(text, *found.span()):
        return False
    if _has_unit(text, found) or (_EPOCH.fullmatch(found.group()) and not before.says(phone_cues.CLOSE)):
        return False
    if len(_GROUP.findall(found.group())) < _GROUPS_FORMED or len(found.group()) > _FORMED.stop:
        one_before = _NUMBER_BEFORE.search(before.text, at)
        if one_before and names_next(one_before[1]) and not phone_cues.KIND.search(one_before[1]):
            return False
    return all(cue.search(before.text, at) is None for cue in (phone_cues.OTHER_CLOSER, phone_cues.NUMBERED))


def _has_other_form(number: str) -> bool:
    """Return whether loose digits are a date or a row of figures, whatever stands around them."""
    groups = _GROUP.findall(number)
    if len(groups) > _MOST_GROUPS or [*map(len, groups)].count(1) > _MOST_SINGLE:
        return True
    return _NO_PHONE.search(number) is not None or _A_DATE.search(number) is not None


def _explained_at(text: str, found: regex.Match[str], before: _Before) -> int:
    """Return from where on words before a number could say that it is none, since others say so; -1 if none do."""
    behind = phone_cues.BEHIND.match(text, found.end(), found.end() + phone_cues.BEHIND_WIDTH) is not None
    if not before.text and not behind:
        return -1
    groups = _GROUP.findall(found.group())
    size = sum(map(len, groups))
    near = max(len(before.text) - phone_cues.NEAR, 0)
    if size < _FEW:
        close = before.explained_by(phone_cues.CLOSE) >= 0 and not before.says(phone_cues.CODE)
        return near if close or (behind and len(groups) >= _GROUPS_FORMED) else -1
    at = before.explained_by(phone_cues.PHONE)
    if at >= 0:
        return at
    if behind:
        return near
    if size not in _FORMED:
        return -1
    formed = found.group()[0] in "0+(" or len(groups) >= _GROUPS_FORMED
    if formed or size in _ANY:
        named = before.explained_by(phone_cues.CONTACT) >= 0
        return near if named or (formed and before.explained_by(phone_cues.NUMBER) >= 0) else -1
    return -1


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
