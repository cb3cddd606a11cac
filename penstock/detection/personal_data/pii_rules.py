"""E-mail, phone, social security, card, IBAN and IP numbers, UUIDs and MAC addresses: patterns and check sums.

`PII` is the preset ``pii``. `PersonalData` takes its rules for e-mail, phone, social security, card and IBAN numbers,
and these beside them:

- `CUED_IBANS`: what follows the word IBAN and looks like one, though a digit is wrong. A mistyped number still belongs
  to somebody; without the word, only correct check digits count.
- `ADDRESSES`: every IP address, with its zone and prefix length. The preset leaves out addresses that cannot be a
  person's, such as loopback; a search for personal data had better find one too many.
- `UUIDS` and `MACS`: identifiers of things and of network cards.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

import regex

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import LETTER, BuiltInRule, pattern_rule
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace, collected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.detection.patterns.built_in import RuleSearch, Span
    from penstock.detection.patterns.open_matches import Scan


DASH = r"\-\u2010-\u2015\u2212"
"""Hyphens, dashes and the minus sign, for use anywhere inside a character class."""

_ZONE = re.compile(r"\d(?:[^\n\d]{0,3}\d){6,}")  # digits close together: no number below is shorter or looser
_REACH = 40  # how far before a number the words that explain it may stand
_AFTER = 12  # how far behind it one may end
_TAIL = regex.compile(rf"(?r)[^\d .\u00a0{DASH}/(),;:+eEiInNoOsS\u017ftTxX]")  # not in a number, nor right behind it
_LONGEST = 96  # characters of a number with its extension, and what is seen behind it
_BEHIND = 24  # characters of an extension, and what is seen behind it

_SEP = rf"[ .\u00a0{DASH}]"
_EXTENSION = r"(?:[ ,;]{0,2}(?:x|ext\.?|extension)[ .]?\d{1,6})?"
_PHONE = StreamPattern(
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
_LOOSE = StreamPattern(
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
    """Return the traces of phone numbers. Loose digits do not count where they overlap a number of a known form."""
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
    shape: StreamPattern, text: str, start: int, zones: Sequence[tuple[int, int]], *, final: bool
) -> tuple[list[regex.Match[str]], int]:
    """Return the final matches of a pattern, searched only near enough digits, and the place where one is open."""
    found = _in_zones(shape.compiled, text, start, zones)
    if final:
        return collected(found), len(text)
    near = max(start, len(text) - _LONGEST)
    tail = _TAIL.search(text, near, concurrent=False)
    return shape.final_matches(found, text, start, since=tail.end() if tail else near)


def _in_zones(
    pattern: regex.Pattern[str], text: str, start: int, zones: Sequence[tuple[int, int]]
) -> Iterator[regex.Match[str]]:
    reach = start
    for begin, high in zones:
        low = max(begin - 2, reach)  # a sign before
        for found in pattern.finditer(text, low, high + _BEHIND, concurrent=False):
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
    return (
        kind == "intl"
        or not _is_explained(_OTHER_CUE, text, found.start())
        or _is_explained(_PHONE_CUE, text, found.start())
    )


def _is_cued(text: str, found: regex.Match[str]) -> bool:
    cued = _is_explained(_PHONE_CUE, text, found.start()) or _CUE_BEHIND.match(text, found.end(), found.end() + _AFTER)
    return bool(cued) and not _NO_PHONE.search(found.group()) and not _is_explained(_OTHER_CUE, text, found.start())


def _is_explained(cue: re.Pattern[str], text: str, at: int) -> bool:
    return cue.search(text, max(at - _REACH, 0), at) is not None


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
_GLUED = re.compile(r"(?:[^\W_]|\d\.)\Z")  # part of a word, or behind a decimal point
_CARD_DIGITS = range(12, 20)
_MOST_GROUPS = 5

_SSN = StreamPattern(
    rf"(?<!\d)(?<!\d[{DASH}.])\d{{3}}([{DASH} .]?)\d{{2}}([{DASH} .]?)\d{{4}}(?!\d)(?![{DASH}]\d)", flags=0
)
_SSN_READ = 16  # no more characters than that are read from one place on
_ALL_SAME = 3  # one digit and two separators: 000-00-0000
_SSN_CUE = re.compile(r"(?i)\bssns?\b|social.{0,3}sec|\bsin\b|\bss ?#|\bss ?no")

_IPV4 = StreamPattern(r"(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_VERSION_CUE = re.compile(r"(?i)(?:\bv|\bver|version|release|build|firmware|\bapi)[ .:#=]{0,3}$")
_IPV4_READ, _IPV6_READ = 20, 64
_IPV6 = StreamPattern(
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
    """Yield groups of digits that are enough for a card, or so near the end that more of the card may follow."""
    for zone in (_CARD_ZONE if final else _CARD_TAIL).finditer(text, start):
        yield [found.span() for found in _GROUPS.finditer(text, *zone.span())]


def _card_end(text: str, groups: list[Span], index: int, *, final: bool) -> int:
    """Return where the longest card number ends that begins with a group; 0 if there is none.

    A place beyond the text means that more text must be seen.
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
    """Return the traces of US social security numbers: with dashes, or in any form after words that announce one."""
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
    """Return the traces of IPv4 addresses. Loopback, unspecified addresses and version numbers do not count."""
    matches, hold = _IPV4.walk(text, start, final=final, longest=_IPV4_READ)
    return [Trace(*found.span(), *found.span(), _is_ipv4(text, found)) for found in matches], hold


def _is_ipv4(text: str, found: regex.Match[str]) -> bool:
    before = text[max(found.start() - 12, 0) : found.start()]
    part_of_word = before and (before[-1] in "._" or before[-1].isalnum())
    return not part_of_word and not _VERSION_CUE.search(before) and validators.ip_address(found.group())


def ip_addresses_6(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of IPv6 addresses. Loopback and unspecified addresses do not count."""
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


def _rule(name: str, trigger: str, search: RuleSearch) -> BuiltInRule:
    return BuiltInRule(name, f"[{name.upper().replace('-', '_')}]", trigger, search)


PII = (
    _rule("email", "@", emails),
    _rule("phone", r"\d", phones),
    _rule("ssn", r"\d", ssns),
    _rule("credit-card", r"\d", cards),
    _rule("iban", r"\d", ibans),
    _rule("ip-address", r"\.(?<=[0-9]\.)[0-9]", ip_addresses_4),
    _rule("ip-address", ":[0-9A-Fa-f]{0,4}:", ip_addresses_6),
)
"""The rules in the order of the reference, then those that it does not have."""


_PREFIX = r"(?:/\d{1,3}(?!\d))?+"
_ADDRESS_4 = StreamPattern(rf"(?<![\w.])(?P<ip>(?:\d{{1,3}}\.){{3}}\d{{1,3}})(?![\w]|\.\d){_PREFIX}", flags=0)
_ADDRESS_6 = StreamPattern(
    r"(?<![\w:.])(?P<ip>(?:[0-9A-Fa-f]{0,4}:){2,8}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{1,4})?)(?![\w:]|\.\d)"
    rf"(?:%[\w-]{{1,15}})?+{_PREFIX}",
    flags=0,
)
_READ4, _READ6 = 24, 84  # no more characters than that are read from one place on
_IPV6_CUE = re.compile(r"(?i)\bip(?:v6)?\b")
_ADDRESS_REACH = 12


def _ipv4(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _ADDRESS_4.walk(text, start, final=final, longest=_READ4)
    return [_trace(found, counts=not _follows(_VERSION_CUE, text, found)) for found in matches], hold


def _ipv6(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _ADDRESS_6.walk(text, start, final=final, longest=_READ6)
    return [_trace(found, counts=not _is_operator(text, found)) for found in matches], hold


def _trace(found: regex.Match[str], *, counts: bool) -> Trace:
    return Trace(*found.span(), *found.span(), counts and _is_address(found.group("ip")))


def _is_operator(text: str, found: regex.Match[str]) -> bool:
    """Return whether it may be two colons in a program: without a digit, and not announced as an address."""
    return not any(map(str.isdigit, found.group())) and not _follows(_IPV6_CUE, text, found)


def _follows(cue: re.Pattern[str], text: str, found: regex.Match[str]) -> bool:
    return cue.search(text, max(found.start() - _ADDRESS_REACH, 0), found.start()) is not None


def _is_address(found: str) -> bool:
    try:
        ipaddress.ip_address(found)
    except ValueError:
        return False
    return True


ADDRESSES: tuple[BuiltInRule, ...] = (
    BuiltInRule("ip-address", "[IP_ADDRESS]", r"\.(?<=[0-9]\.)[0-9]", _ipv4),
    BuiltInRule("ip-address", "[IP_ADDRESS]", ":[0-9A-Fa-f]{0,4}:", _ipv6),
)
"""IPv4 and IPv6."""


_SHAPE = StreamPattern(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}[A-Z0-9]{11,30}(?![A-Za-z0-9])")
_READ = 36
_CUE = re.compile(r"(?i)\biban|\bbank account|\baccount n(?:umber|o\b)|\bkontonummer")
_DIGITS = 8  # no country's has fewer


def _cued(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _SHAPE.walk(text, start, final=final, longest=_READ)
    return [Trace(*found.span(), *found.span(), _counts(text, found)) for found in matches], hold


def _counts(text: str, found: regex.Match[str]) -> bool:
    plain = found.group()
    shaped = validators.iban_length(plain[:2]) > 0 and sum(map(str.isdigit, plain)) >= _DIGITS
    return shaped and _CUE.search(text, max(found.start() - _REACH, 0), found.start()) is not None


CUED_IBANS: tuple[BuiltInRule, ...] = (BuiltInRule("iban", "[IBAN]", "[0-9]{2}(?<=[A-Z]{2}..)[A-Z0-9]{11}", _cued),)
"""In one piece, in capitals, of a country that has IBANs."""


_HEX2, _HEX4 = "[0-9A-Fa-f]{2}", "[0-9A-Fa-f]{4}"


def _uuid(found: str) -> bool:
    """Return whether it can identify something: the nil and the max UUID (RFC 9562, 5.9 and 5.10) cannot."""
    return len(set(found.lower())) > 2  # noqa: PLR2004 - one digit and the dash


def _mac(found: str) -> bool:
    """Return whether it can be the address of a card: not all zeros, and not the broadcast address."""
    return set(found.lower()) - set(":-.") not in ({"0"}, {"f"})


UUIDS: tuple[BuiltInRule, ...] = (
    pattern_rule(
        "uuid",
        "[UUID]",
        rf"(?<![\w-])[0-9A-Fa-f]{{8}}(?:-{_HEX4}){{3}}-[0-9A-Fa-f]{{12}}(?![\w-])",
        trigger=rf"-{_HEX4}-{_HEX4}-",
        check=_uuid,
    ),
)
"""Universally unique identifiers of any version (RFC 9562)."""

MACS: tuple[BuiltInRule, ...] = (
    pattern_rule(
        "mac",
        "[MAC]",
        rf"(?<![\w:.-]){_HEX2}(?P<sep>[:-])(?:{_HEX2}(?P=sep)){{4}}{_HEX2}(?![\w:-]|\.\w)",
        trigger=rf"[:-]{_HEX2}[:-]{_HEX2}[:-]",
        check=_mac,
    ),
    pattern_rule(
        "mac",
        "[MAC]",
        rf"(?<![\w.:-])(?:{_HEX4}\.){{2}}{_HEX4}(?![\w-]|\.\w)",
        trigger=rf"\.{_HEX4}\.",
        check=lambda found: _mac(found) and any(map(str.isdigit, found)) | any(map(str.isalpha, found)),
    ),
)
"""Addresses of network cards (EUI-48), in pairs, or in groups of four as Cisco writes them."""
