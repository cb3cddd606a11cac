"""Phone numbers: shapes of their own anywhere, loose digits only beside words that say so.

Which words make a number a phone number, and which say that it is something else, is listed here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import regex

from penstock.detection.patterns.shapes import Shape, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.detection.patterns.shapes import Scan

DASH = r"\-\u2010-\u2015\u2212"
"""Hyphens, dashes and the minus sign, as the inside of a character class, wherever in it."""

_ZONE = re.compile(r"\d(?:[^\n\d]{0,3}\d){6,}")  # digits close together: no number below is shorter or looser
_REACH = 40  # how far before a number the words that explain it may stand
_AFTER = 12  # how far behind it one may end
_TAIL = regex.compile(rf"(?r)[^\d .\u00a0{DASH}/(),;:+eEiInNoOsS\u017ftTxX]")  # not in a number, nor right behind it
_LONGEST = 96  # characters of a number with its extension, and what is seen behind it
_BEHIND = 24  # characters of an extension, and what is seen behind it

_SEP = rf"[ .\u00a0{DASH}]"
_EXTENSION = r"(?:[ ,;]{0,2}(?:x|ext\.?|extension)[ .]?\d{1,6})?"
_PHONE = Shape(
    rf"""(?ix)(?<![\w@#$%€£¥])(?<!\d[.,{DASH}/:])(?:
      (?P<intl>\+\(?\d(?:[ .\u00a0{DASH}/()]{{0,3}}\d){{7,14}})
    | (?P<exit>00[1-9]\d{{0,2}}(?:{_SEP}\(?\d{{1,5}}\)?){{2,6}})
    | (?P<nanp>(?:1{_SEP}?)?(?:\(\d{{3}}\){_SEP}?|\d{{3}}{_SEP})\d{{3}}{_SEP}\d{{4}})
    | (?P<area>\(\d{{2,5}}\){_SEP}?\d{{2,8}}(?:{_SEP}\d{{2,5}}){{0,3}})
    | (?P<trunk>0\d{{1,4}}(?:{_SEP}\d{{2,8}}){{1,4}})
    | (?P<bare>(?<![=/&?])1?[2-9]\d{{9}})
    ){_EXTENSION}(?![\w%]|[.,{DASH}/:]\d)""",
    flags=0,
)
_LOOSE = Shape(
    rf"(?<![\w@#$%€£¥])(?<!\d[.,/:])\(?\+?\d(?:[ .\u00a0{DASH}/()]{{0,2}}\d){{6,14}}(?![\w%]|[.,/:]\d)",
    flags=0,
)
_PHONE_CUE = re.compile(
    r"(?i)phone|\btel[eé:.=\s]|\btelef|\bmobile|\bcell|\bfax\b|\bcall(?:ed|ing|s)?\b|\bdial|\bring\b|\bdesk\b|\bhotline"
    r"|whats ?app|\bsms\b|\btext (?:me|us|him|her)\b|answering|receiving|reach (?:me|us|him|her)|registered"
    r"|contact (?:number|no)|\bm[oó]vil\b|\bhandy\b|\brufnummer|电话|電話|手机|手機|전화"
)
_CUE_BEHIND = re.compile(r"(?i)[ \t,]{0,2}\(?(?:office|fax|mobile|cell|home|work|desk)\b")
_OTHER_CUE = re.compile(
    r"(?i)\b(?:account|acct|a/c|order|invoice|isbn|issn|doi|tracking|ticket|ref(?:erence)?|serial|transaction|"
    r"time ?stamp|unix|epoch|case|policy|routing|passport|licen[cs]e|patent|version|sku|upc|ean|gtin|imei|vin|npi|tin|"
    r"ein|vat|tax|bank|iban|card|population|revenue|usd|eur|gbp|seed|port|pid|uid|hash|total|price|cost|amount|"
    r"budget)\b[^\n]{0,14}$"
)
_NO_PHONE = re.compile(  # dates, spans of years, social security numbers
    r"(?<!\d)(?:\d{1,2}[-./ ]\d{1,2}[-./ ](?:19|20)\d\d|(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2})(?!\d)"
    rf"|^\(?(?:1[5-9]|20)\d\d\)?[ {DASH}]{{1,3}}(?:1[5-9]|20)\d\d"
    rf"|^\d{{3}}[{DASH}]\d{{2}}[{DASH}]\d{{4}}$"
)
_DIGITS_OF = {"intl": range(8, 16), "exit": range(9, 17), "area": range(7, 13), "trunk": range(9, 12)}


def phones(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of phone numbers; loose digits do not count where they overlap a number of a known shape."""
    zones = [found.span() for found in _ZONE.finditer(text, start)]
    if not zones and final:
        return [], len(text)
    shaped, hold = _numbers(_PHONE, text, start, zones, final=final)
    loose, open_at = _numbers(_LOOSE, text, start, zones, final=final)
    if not final:  # a word may follow that explains a number
        late = (found.start() for found in loose if found.end() > len(text) - _AFTER)
        open_at = min(open_at, next(late, open_at))
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


def _numbers(
    shape: Shape, text: str, start: int, zones: Sequence[tuple[int, int]], *, final: bool
) -> tuple[list[regex.Match[str]], int]:
    """Return the settled matches of a shape, looked for only where enough digits stand, and where one is open."""
    found = _in_zones(shape.compiled, text, start, zones)
    if final:
        return list(found), len(text)
    near = max(start, len(text) - _LONGEST)
    tail = _TAIL.search(text, near)
    return shape.settled(found, text, start, since=tail.end() if tail else near)


def _in_zones(
    pattern: regex.Pattern[str], text: str, start: int, zones: Sequence[tuple[int, int]]
) -> Iterator[regex.Match[str]]:
    reach = start
    for begin, high in zones:
        low = max(begin - 2, reach)  # a sign before
        for found in pattern.finditer(text, low, high + _BEHIND):
            if found.start() >= high:
                break
            reach = found.end()
            yield found


def _is_phone(text: str, found: regex.Match[str]) -> bool:
    kind = found.lastgroup or ""
    core = found.group(kind)
    size = sum(map(str.isdigit, core))
    if size not in _DIGITS_OF.get(kind, range(10, 12)) or _NO_PHONE.search(core):
        return False
    return kind == "intl" or not _says(_OTHER_CUE, text, found.start()) or _says(_PHONE_CUE, text, found.start())


def _is_cued(text: str, found: regex.Match[str]) -> bool:
    cued = _says(_PHONE_CUE, text, found.start()) or _CUE_BEHIND.match(text, found.end(), found.end() + _AFTER)
    return bool(cued) and not _NO_PHONE.search(found.group()) and not _says(_OTHER_CUE, text, found.start())


def _says(cue: re.Pattern[str], text: str, at: int) -> bool:
    return cue.search(text, max(at - _REACH, 0), at) is not None
