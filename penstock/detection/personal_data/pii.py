"""The preset ``pii``: e-mail, phone, social security, card, IBAN, IP numbers. Shapes, check sums, words nearby."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import LETTER, BuiltIn
from penstock.detection.patterns.shapes import Shape, Trace
from penstock.detection.personal_data.phones import DASH, phones

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

    from penstock.detection.patterns.built_in import Search, Span
    from penstock.detection.patterns.shapes import Scan

_REACH = 40  # how far before a number the words that explain it may stand

_LOCAL = re.compile(rf"[{LETTER}0-9._%+-]")
_DOMAIN = re.compile(rf"@(?:[{LETTER}0-9_-]+\.)+(?:[Xx][Nn]--[A-Za-z0-9-]{{2,59}}|[{LETTER}]{{2,63}})")
_DOMAIN_CHARS = re.compile(rf"@[{LETTER}0-9_.-]*")
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 255  # RFC 5321, 4.5.3.1

_GROUPS = re.compile(r"(?<!\d)\d+")
_CARD_GAP = re.compile(rf"[ .\u00a0{DASH}]{{1,2}}")
_CARD_GAPS = re.compile(rf"[ .\u00a0{DASH}]{{0,2}}")
_CARD_SHAPES = re.compile(
    r"1?[2-9]|4,4,4,4(?:,[1-3])?|4,6,[45]|4,4,4,[1-7]|6,(?:6|7|8|9|10|11|12|13)|4,4,5|4,5,6|4,3,3,3"
)
_CARD_ZONE = re.compile(r"\d(?:[^\n\d]{0,2}\d){11,}")
_CARD_TAIL = re.compile(rf"{_CARD_ZONE.pattern}|\d(?:[^\n\d]{{0,2}}\d)*[^\n\d]{{0,2}}\Z")
_GLUED = re.compile(r"(?:[^\W_]|\d\.)$")  # part of a word, or behind a decimal point
_CARD_DIGITS = range(12, 20)
_MOST_GROUPS = 5

_SSN = Shape(rf"(?<!\d)(?<!\d[{DASH}.])\d{{3}}([{DASH} .]?)\d{{2}}([{DASH} .]?)\d{{4}}(?!\d)(?![{DASH}]\d)", flags=0)
_SSN_READ = 16  # no more characters than that are read from one place on
_ALL_SAME = 3  # one digit and two separators: 000-00-0000
_SSN_CUE = re.compile(r"(?i)\bssns?\b|social.{0,3}sec|\bsin\b|\bss ?#|\bss ?no")

_IPV4 = Shape(r"(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_VERSION_CUE = re.compile(r"(?i)(?:\bv|\bver|version|release|build|firmware|\bapi)[ .:#=]{0,3}$")
_IPV4_READ, _IPV6_READ = 20, 64
_IPV6 = Shape(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,8}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{1,4})?(?![\w:]|\.\d)", flags=0
)

_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d", re.ASCII)
_IBAN_AHEAD = 2  # characters that may have to be seen: a space, and a character behind it
_IBAN_CHAR = re.compile(r"[ -]?([A-Za-z0-9])")


def emails(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of e-mail addresses."""
    traces: list[Trace] = []
    at = text.find("@", start)
    while at >= 0:
        low, most = at, at + 1 + _LONGEST_DOMAIN
        while low and at - low < _LONGEST_LOCAL and _LOCAL.match(text, low - 1):
            low -= 1
        if not final and len(text) < most and _DOMAIN_CHARS.fullmatch(text, at):
            return traces, low
        domain = _DOMAIN.match(text, at, most)
        if domain and low < at:
            traces.append(Trace(low, domain.end(), low, domain.end()))
        at = text.find("@", at + 1)
    return traces, len(text)


def cards(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of card numbers: grouped as cards are, of a known issuer, with the right check digit."""
    traces: list[Trace] = []
    reach = start
    for groups in _card_groups(text, start, final=final):
        for index, (begin, _) in enumerate(groups):
            if begin < reach:
                continue
            stop = _card_end(text, groups, index, final=final)
            if stop > len(text):
                return traces, begin
            if stop:
                reach = stop
                traces.append(Trace(begin, stop, begin, stop))
    return traces, len(text)


def _card_groups(text: str, start: int, *, final: bool) -> Iterator[list[Span]]:
    """Yield groups of digits that stand close together, enough for a card or so near the end that it may yet come."""
    for zone in (_CARD_ZONE if final else _CARD_TAIL).finditer(text, start):
        yield [found.span() for found in _GROUPS.finditer(text, *zone.span())]


def _card_end(text: str, groups: list[Span], index: int, *, final: bool) -> int:
    """Return where the longest card number that begins with that group ends; 0 if none does.

    A place beyond the text says that more of it must be seen.
    """
    begin, stop, size, best = groups[index][0], groups[index][0], 0, 0
    sizes: list[str] = []
    for low, high in groups[index : index + _MOST_GROUPS]:
        if low > begin and not _CARD_GAP.fullmatch(text, stop, low):
            break
        size, stop = size + high - low, high
        sizes.append(str(high - low))
        if size >= _CARD_DIGITS.stop:
            break
        if size in _CARD_DIGITS and _CARD_SHAPES.fullmatch(",".join(sizes)) and validators.card(text[begin:high]):
            best = high
    else:
        if not final and (stop == len(text) or (len(sizes) < _MOST_GROUPS and _CARD_GAPS.fullmatch(text, stop))):
            return len(text) + 1
    glued = _GLUED.search(text, max(begin - 2, 0), begin) or text[best : best + 1].isalnum()
    return 0 if glued else best


def ssns(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of US social security numbers: parted by dashes, or any way after words that say so."""
    matches, hold = _SSN.walk(text, start, final=final, longest=_SSN_READ)
    return [Trace(*found.span(), *found.span(), _is_ssn(text, found)) for found in matches], hold


def _is_ssn(text: str, found: regex.Match[str]) -> bool:
    one, two = found.groups()
    grouped = one != "" and one == two
    if grouped and validators.ssn(found.group()):
        return True
    reach = _REACH if grouped else _REACH // 2
    cued = _SSN_CUE.search(text, max(found.start() - reach, 0), found.start())
    return cued is not None and len(set(found.group())) > _ALL_SAME


def ip_addresses_4(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of IP addresses of version 4; loopback, unspecified ones and version numbers are none."""
    matches, hold = _IPV4.walk(text, start, final=final, longest=_IPV4_READ)
    return [Trace(*found.span(), *found.span(), _is_ipv4(text, found)) for found in matches], hold


def _is_ipv4(text: str, found: regex.Match[str]) -> bool:
    before = text[max(found.start() - 12, 0) : found.start()]
    part_of_word = before and (before[-1] in "._" or before[-1].isalnum())
    return not part_of_word and not _VERSION_CUE.search(before) and validators.ip_address(found.group())


def ip_addresses_6(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of IP addresses of version 6; loopback and unspecified ones are none."""
    matches, hold = _IPV6.walk(text, start, final=final, longest=_IPV6_READ)
    return [Trace(*found.span(), *found.span(), _is_ipv6(found.group())) for found in matches], hold


def _is_ipv6(found: str) -> bool:
    return any(map(str.isdigit, found)) and validators.ip_address(found)


def ibans(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of IBANs, in groups or in one piece, in either case."""
    traces: list[Trace] = []
    for found in _IBAN.finditer(text, start):
        begin, at = found.span()
        size = validators.iban_length(text[begin : begin + 2])
        for _ in range(size - 4):
            char = _IBAN_CHAR.match(text, at)
            if char is None:
                break
            at = char.end()
        if size and not final and len(text) - at < _IBAN_AHEAD:
            return traces, begin
        if size and not text[at : at + 1].isalnum() and validators.iban(text[begin:at]):
            traces.append(Trace(begin, at, begin, at))
    return traces, len(text)


def _rule(name: str, trigger: str, search: Search) -> BuiltIn:
    return BuiltIn(name, f"[{name.upper().replace('-', '_')}]", trigger, search)


PII = (
    _rule("email", "@", emails),
    _rule("phone", r"\d", phones),
    _rule("ssn", r"\d", ssns),
    _rule("credit-card", r"\d", cards),
    _rule("iban", r"\d", ibans),
    _rule("ip-address", r"\.(?<=[0-9]\.)[0-9]", ip_addresses_4),
    _rule("ip-address", ":[0-9A-Fa-f]{0,4}:", ip_addresses_6),
)
"""In the reference's order, then what it has not."""
