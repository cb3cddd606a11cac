"""The preset ``pii``: e-mail, phone, social security, card, IBAN and IP numbers. Shapes, check sums and words nearby.

Numbers are looked for only where digits stand close together, so prose costs one search. Which words make a number a
phone number, and which say that it is something else, is listed here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.processors.text import validators
from penstock.processors.text.patterns import BuiltIn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.processors.text.patterns import Span

_DASH = r"\-\u2010-\u2015\u2212"  # the inside of a character class, wherever in it
_ZONE = re.compile(r"\d(?:[^\n\d]{0,3}\d){5,}")  # digits close together: no number below is shorter or looser
_REACH = 40  # how far before a number the words that explain it may stand
_AFTER = 24

# E-mail: ASCII, Latin, Greek and Cyrillic letters; others are written without spaces, so a word would not end.
_LETTER = "A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff"
_LOCAL = re.compile(rf"[{_LETTER}0-9._%+-]")
_DOMAIN = re.compile(rf"@(?:[{_LETTER}0-9_-]+\.)+(?:[Xx][Nn]--[A-Za-z0-9-]{{2,59}}|[{_LETTER}]{{2,63}})")

_GROUPS = re.compile(r"\d+")
_CARD_GAP = re.compile(rf"[ .\u00a0{_DASH}]{{1,2}}")
_CARD_SHAPES = re.compile(
    r"1?[2-9]|4,4,4,4(?:,[1-3])?|4,6,[45]|4,4,4,[1-7]|6,(?:6|7|8|9|10|11|12|13)|4,4,5|4,5,6|4,3,3,3"
)
_GLUED = re.compile(r"(?:[^\W_]|\d\.)$")  # part of a word, or behind a decimal point
_CARD_DIGITS = range(12, 20)

_SSN = re.compile(rf"(?<!\d)(?<!\d[{_DASH}.])\d{{3}}([{_DASH} .]?)\d{{2}}([{_DASH} .]?)\d{{4}}(?!\d)(?![{_DASH}]\d)")
_ALL_SAME = 3  # one digit and two separators: 000-00-0000
_SSN_CUE = re.compile(r"(?i)\bssns?\b|social.{0,3}sec|\bsin\b|\bss ?#|\bss ?no")

_IPV4 = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)", re.ASCII)
_VERSION_CUE = re.compile(r"(?i)(?:\bv|\bver|version|release|build|firmware|\bapi)[ .:#=]{0,3}$")
_COLONS = re.compile(r":(?<!::)[0-9A-Fa-f]{0,4}:")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,8}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{1,4})?(?![\w:]|\.\d)")

_IBAN = re.compile(r"\d\d(?<=(?<![A-Za-z0-9])[A-Za-z]{2}\d\d)(?=[ -]?[A-Za-z0-9])", re.ASCII)
_IBAN_CHAR = re.compile(r"[ -]?([A-Za-z0-9])")


def _zones(text: str) -> Iterator[Span]:
    for zone in _ZONE.finditer(text):
        yield zone.span()


def emails(text: str) -> Iterator[Span]:
    """Yield e-mail addresses."""
    for domain in _DOMAIN.finditer(text):
        start = domain.start()
        while start and _LOCAL.match(text, start - 1):
            start -= 1
        if start < domain.start():
            yield start, domain.end()


def cards(text: str) -> Iterator[Span]:
    """Yield payment card numbers: grouped as cards are, of a known issuer, with the right check digit."""
    for start, end in _zones(text):
        groups = [found.span() for found in _GROUPS.finditer(text, start, end)]
        reach = -1
        for index, (begin, _) in enumerate(groups):
            stop = _card_end(text, groups, index) if begin >= reach else 0
            if stop:
                reach = stop
                yield begin, stop


def _card_end(text: str, groups: list[Span], index: int) -> int:
    """Return where the longest card number that begins with that group ends; 0 if none does."""
    begin, stop, size, best = groups[index][0], groups[index][0], 0, 0
    sizes: list[str] = []
    for low, high in groups[index : index + 5]:
        if low > begin and not _CARD_GAP.fullmatch(text, stop, low):
            break
        size, stop = size + high - low, high
        sizes.append(str(high - low))
        if size >= _CARD_DIGITS.stop:
            break
        if size in _CARD_DIGITS and _CARD_SHAPES.fullmatch(",".join(sizes)) and validators.card(text[begin:high]):
            best = high
    glued = _GLUED.search(text, max(begin - 2, 0), begin) or text[best : best + 1].isalnum()
    return 0 if glued else best


def ssns(text: str) -> Iterator[Span]:
    """Yield US social security numbers: three groups parted by dashes, or any way after words that say so."""
    for start, end in _zones(text):
        for found in _SSN.finditer(text, start, end):
            one, two = found.groups()
            grouped = one != "" and one == two
            reach = _REACH if grouped else _REACH // 2
            cued = _SSN_CUE.search(text, max(found.start() - reach, 0), found.start())
            if (grouped and validators.ssn(found.group())) or (cued and len(set(found.group())) > _ALL_SAME):
                yield found.span()


def ip_addresses(text: str) -> Iterator[Span]:
    """Yield IP addresses, of both kinds; loopback, unspecified ones and version numbers are none."""
    for found in _IPV4.finditer(text):
        before = text[max(found.start() - 12, 0) : found.start()]
        part_of_word = before and (before[-1] in "._" or before[-1].isalnum())
        if not part_of_word and not _VERSION_CUE.search(before) and validators.ip_address(found.group()):
            yield found.span()
    reach = 0
    for colons in _COLONS.finditer(text):
        found_6 = _IPV6.search(text, max(colons.start() - 4, reach), min(colons.end() + 48, len(text)))
        if found_6 is not None and colons.start() >= reach:
            reach = found_6.end()
            if any(map(str.isdigit, found_6.group())) and validators.ip_address(found_6.group()):
                yield found_6.span()


def ibans(text: str) -> Iterator[Span]:
    """Yield IBANs, in groups or in one piece, in either case."""
    for found in _IBAN.finditer(text):
        start, at = found.start() - 2, found.end()
        size = validators.iban_length(text[start : start + 2])
        for _ in range(size - 4):
            char = _IBAN_CHAR.match(text, at)
            if char is None:
                break
            at = char.end()
        if size and not text[at : at + 1].isalnum() and validators.iban(text[start:at]):
            yield start, at


# Phones

_SEP = rf"[ .\u00a0{_DASH}]"
_EXTENSION = r"(?:[ ,;]{0,2}(?:x|ext\.?|extension)[ .]?\d{1,6})?"
_PHONE = re.compile(
    rf"""(?ix)(?<![\w@#$%€£¥])(?<!\d[.,{_DASH}/:])(?:
      (?P<intl>\+\(?\d(?:[ .\u00a0{_DASH}/()]{{0,3}}\d){{7,14}})
    | (?P<exit>00[1-9]\d{{0,2}}(?:{_SEP}\(?\d{{1,5}}\)?){{2,6}})
    | (?P<nanp>(?:1{_SEP}?)?(?:\(\d{{3}}\){_SEP}?|\d{{3}}{_SEP})\d{{3}}{_SEP}\d{{4}})
    | (?P<area>\(\d{{2,5}}\){_SEP}?\d{{2,8}}(?:{_SEP}\d{{2,5}}){{0,3}})
    | (?P<trunk>0\d{{1,4}}(?:{_SEP}\d{{2,8}}){{1,4}})
    | (?P<bare>(?<![=/&?])1?[2-9]\d{{9}})
    ){_EXTENSION}(?![\w%]|[.,{_DASH}/:]\d)"""
)
_LOOSE = re.compile(
    rf"(?<![\w@#$%€£¥])(?<!\d[.,/:])\(?\+?\d(?:[ .\u00a0{_DASH}/()]{{0,2}}\d){{6,14}}(?![\w%]|[.,/:]\d)"
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
    rf"|^\(?(?:1[5-9]|20)\d\d\)?[ {_DASH}]{{1,3}}(?:1[5-9]|20)\d\d"
    rf"|^\d{{3}}[{_DASH}]\d{{2}}[{_DASH}]\d{{4}}$"
)
_DIGITS_OF = {"intl": range(8, 16), "exit": range(9, 17), "area": range(7, 13), "trunk": range(9, 12)}


def phones(text: str) -> Iterator[Span]:
    """Yield phone numbers: shapes of their own anywhere, loose digits only beside words that say so."""
    for start, end in _zones(text):
        low, high = max(start - 2, 0), min(end + 16, len(text))  # a sign before, an extension behind
        shaped = [span for span in _shaped_phones(text, low, high) if span[0] < end]
        yield from shaped or (span for span in _cued_phones(text, low, high) if span[0] < end)


def _shaped_phones(text: str, low: int, high: int) -> Iterator[Span]:
    for found in _PHONE.finditer(text, low, high):
        kind = found.lastgroup or ""
        core = found.group(kind)
        size = sum(map(str.isdigit, core))
        if size not in _DIGITS_OF.get(kind, range(10, 12)) or _NO_PHONE.search(core):
            continue
        if kind != "intl" and _says(_OTHER_CUE, text, found.start()) and not _says(_PHONE_CUE, text, found.start()):
            continue
        yield found.span()


def _cued_phones(text: str, low: int, high: int) -> Iterator[Span]:
    for found in _LOOSE.finditer(text, low, high):
        cued = _says(_PHONE_CUE, text, found.start()) or _CUE_BEHIND.match(text, found.end(), found.end() + _AFTER)
        if cued and not _NO_PHONE.search(found.group()) and not _says(_OTHER_CUE, text, found.start()):
            yield found.span()


def _says(cue: re.Pattern[str], text: str, at: int) -> bool:
    return cue.search(text, max(at - _REACH, 0), at) is not None


def _rule(name: str, find: Callable[[str], Iterable[Span]]) -> BuiltIn:
    return BuiltIn(name, f"[{name.upper().replace('-', '_')}]", find)


PII = (
    _rule("email", emails),
    _rule("phone", phones),
    _rule("ssn", ssns),
    _rule("credit-card", cards),
    _rule("iban", ibans),
    _rule("ip-address", ip_addresses),
)
"""In the reference's order, then what it has not."""
