"""E-mail, phone, social security, card, IBAN and IP numbers, UUIDs and MAC addresses: patterns and check sums.

`PII` is the preset ``pii``. `PersonalData` takes its rules for e-mail, phone, social security, card and IBAN numbers,
and these beside them:

- `CUED_IBANS` and `CUED_CARDS`: numbers behind a word for an IBAN or a card that look like one, though a digit is
  wrong. A mistyped number still belongs to somebody; without the word, only correct check digits count.
- `ADDRESSES`: IP addresses with their zone and prefix length. Private, loopback, link-local and documentation addresses
  are nobody's; those who want them hidden choose the type ``private-ip`` (`PRIVATE_ADDRESSES`).
- `UUIDS` and `MACS`: identifiers of things and of network cards.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import islice
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import LETTER, LOOKBACK, BuiltInRule, pattern_rule
from penstock.detection.patterns.kinds import DASH, GLUED, UNPARTED, in_numbers, kinds, zones
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace
from penstock.detection.personal_data.phones import names_phone, phones
from penstock.detection.places.labels import HeaderWords
from penstock.detection.stems import Stems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import regex

    from penstock.detection.patterns.built_in import RuleSearch, Span
    from penstock.detection.patterns.open_matches import Scan


_REACH = 40  # how far before a number the words that explain it may stand


class _Shape:
    """The kinds of the characters that a pattern needs: the whole text is searched for them first.

    Args:
        read: returns the kinds of the characters from a place on.
        shape: the characters in every match.
        tail: what every match that the end of a text cuts off has at the end, from its beginning on.
        longest: how many characters a match has at most.
    """

    def __init__(self, read: Callable[[str, int], bytes], shape: bytes, tail: bytes, longest: int) -> None:
        self._read = read
        self._shape = re.compile(shape)
        self._tail = re.compile(rb"(?:%b)\Z" % tail)
        self._longest = longest

    def hold(self, text: str, start: int, *, final: bool) -> int | None:
        """Return from where on more text may make a match in a text that has none; None if it may have one."""
        found = self._read(text, start)
        if self._shape.search(found) is not None:
            return None
        if final:
            return len(text)
        begun = self._tail.search(found, max(len(found) - self._longest, 0))
        return start + begun.start() if begun else len(text)


_LOCAL = deferred(rf"[{LETTER}0-9._%+-]")
_DOMAIN = deferred(rf"@(?:[{LETTER}0-9_-]+\.)+(?:[Xx][Nn]--[A-Za-z0-9-]{{2,59}}|[{LETTER}]{{2,63}})")
_DOMAIN_CHARS = deferred(rf"@[{LETTER}0-9_.-]*")
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 255  # RFC 5321, 4.5.3.1

_GROUPS = deferred(r"(?<!\d)\d+")
_CARD_BREAK = rf"[ .+\u00a0{DASH}]{{1,2}}"
_CARD_GAP = deferred(_CARD_BREAK)
_COORDINATES = deferred(r"[+-]\d{6}\+\d{7}")  # ISO 6709
_CARD_GAPS = deferred(rf"[ .+\u00a0{DASH}]{{0,2}}")
_CARD_SHAPES = deferred(
    r"1?[2-9]|4,4,4,4(?:,[1-3])?|4,6,[45]|4,4,4,[1-7]|6,(?:6|7|8|9|10|11|12|13)|4,4,5|4,5,6|4,3,3,3"
)
_ISSUED = r"(?=[456]|3[04-9]|2(?:131|[2-7])|1800|8[12]|9792)"  # how the numbers of all issuers begin
_CARD_START = deferred(  # the groups of each shape, seen from where they begin
    rf"(?<!\d)(?<!\d\.){_ISSUED}(?=\d(?:\d{{11}}|\d{{3}}{_CARD_BREAK}(?:\d{{4}}{_CARD_BREAK}\d{{4}}|\d{{6}}{_CARD_BREAK}\d{{4}}"
    rf"|\d{{5}}{_CARD_BREAK}\d{{6}}|\d{{3}}{_CARD_BREAK}\d{{3}}{_CARD_BREAK}\d{{3}})|\d{{5}}{_CARD_BREAK}\d{{6}}))"
)
_LONGEST_CARD = 40  # characters of its digits, of the gaps between, and what is seen behind it
_CARD_ZONE = deferred(rb"0(?: {0,2}+0){11,}+")  # as `in_numbers`
_CARD_BEGUN = deferred(rb"0(?: {0,2}+0)*+ {0,2}+\Z")
_CARD_FORMS = deferred(  # the same forms as `_CARD_START`, begun by a group or within one
    rb"0000(?:0{8}| {1,2}(?:0000 {1,2}0000|0{6} {1,2}0000|00000 {1,2}0{6}|000 {1,2}000 {1,2}000)|00 {1,2}0{6})"
)
_GLUED = deferred(rf"(?:[^\W_{UNPARTED}]|\d\.)\Z")  # part of a word, or behind a decimal point
_GOES_ON = deferred(rf"[^\W_{UNPARTED}]")
_BEHIND_ADDRESS = deferred(rf"@(?:[{LETTER}0-9_-]+\.)+[{LETTER}]{{2,63}}\Z")
_CARD_DIGITS = range(12, 20)
_MOST_GROUPS = 5

_SSN = StreamPattern(
    rf"\d(?<!\d.)(?<!\d[{DASH}.].)\d{{2}}([{DASH} .]?)\d{{2}}([{DASH} .]?)\d{{4}}(?!\d)(?![{DASH}]\d)",
    flags=0,
    by_re=True,
)
_SSN_READ = 16  # no more characters than that are read from one place on
_SSN_SHAPE = _Shape(in_numbers, rb"000(?<!0000) ?00 ?0000(?!0)", rb"0(?: ?0)*+ ?", _SSN_READ)
_ALL_SAME = 3  # one digit and two separators: 000-00-0000
_SSN_CUE = deferred(r"(?i)\bssns?\b|social.{0,3}sec|\bsin\b|\bss ?#|\bss ?no")

_IPV4 = StreamPattern(r"(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_VERSION_CUE = deferred(
    r"(?i)(?:\bv|\bver|version|release|build|firmware|\bapi|(?:バージョン|リリース|ビルド|版本号?|버전|릴리스)[は是为은는]?)"
    r"[ .:#=：(\"']{0,4}$"
)
_PART_OF_WORD = deferred(rf"(?:{GLUED}|\.)\Z")
_QUAD_TRIGGER = r"\.(?<=[0-9]\.)[0-9]{1,3}\.[0-9]{1,3}\.[0-9]"
_IPV4_READ, _IPV6_READ = 20, 64
_BROADCAST = "255.255.255.255"
_IPV6 = StreamPattern(
    rf"(?<!{GLUED})(?<![:.])(?:[0-9A-Fa-f]{{0,4}}:){{2,8}}(?:(?:\d{{1,3}}\.){{3}}\d{{1,3}}|[0-9A-Fa-f]{{1,4}})?"
    rf"(?!{GLUED}|:|\.\d)",
    flags=0,
)

_IBAN = deferred(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d", re.ASCII)
_IBAN_TRIGGER = r"[0-9](?<=[A-Za-z]{2}.)[0-9]"
_IBAN_AHEAD = 2  # characters that may have to be seen: a space, and a character behind it
_IBAN_CHAR = deferred(r"[ +-]?([A-Za-z0-9])")


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
    for begin in _card_starts(text, start, final=final):
        if begin < reach:
            continue
        stop = _card_end(text, begin, final=final)
        if stop > len(text):
            return traces, begin
        if stop:
            reach = stop
            traces.append(Trace(begin, stop, begin, stop))
    return traces, len(text)


def _card_starts(text: str, start: int, *, final: bool) -> Iterator[int]:
    """Yield where groups begin that a card may begin with, or that stand so near the end that one may follow."""
    near = len(text) if final else len(text) - _LONGEST_CARD
    digits = in_numbers(text, start)
    formed = _CARD_FORMS.search(digits) is not None
    for low, high in zones(_CARD_ZONE, None if final else _CARD_BEGUN, digits, start):
        for found in _CARD_START.finditer(text, low, high) if formed else ():
            if found.start() >= near:
                break
            yield found.start()
        for found in _GROUPS.finditer(text, max(low, near), high):
            yield found.start()


def _card_end(text: str, begin: int, *, final: bool) -> int:
    """Return where the longest card number ends that begins with a group; 0 if there is none.

    A place beyond the text means that more text must be seen.
    """
    stop, size, best = begin, 0, 0
    sizes: list[str] = []
    for found in islice(_GROUPS.finditer(text, begin, begin + _LONGEST_CARD), _MOST_GROUPS):
        low, high = found.span()
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
    if best and _COORDINATES.fullmatch(text, max(begin - 1, 0), best):
        return 0
    return 0 if _is_glued(text, begin) or _GOES_ON.match(text, best) else best


def _is_glued(text: str, begin: int) -> bool:
    """Return whether a number is part of a word; right behind an e-mail address, which ends in letters, it is not."""
    if _GLUED.search(text, max(begin - 2, 0), begin) is None:
        return False
    return _BEHIND_ADDRESS.search(text, max(begin - LOOKBACK, 0), begin) is None


def ssns(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of US social security numbers: with dashes, or in any form after words that announce one."""
    none = _SSN_SHAPE.hold(text, start, final=final)
    if none is not None:
        return [], none
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
    if _PART_OF_WORD.search(before) or _VERSION_CUE.search(before):
        return False
    return validators.ip_address(found.group()) and not _is_netmask(found.group())


def _is_netmask(found: str) -> bool:
    """Return whether it is a netmask; nobody has an address that begins so (RFC 1112, 4)."""
    return found.startswith("255.") and found != _BROADCAST


def ip_addresses_6(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of IPv6 addresses. Loopback and unspecified addresses do not count."""
    matches, hold = _IPV6.walk(text, start, final=final, longest=_IPV6_READ)
    return [Trace(*found.span(), *found.span(), _is_ipv6(found.group())) for found in matches], hold


def _is_ipv6(found: str) -> bool:
    return any(map(str.isdigit, found)) and validators.ip_address(found)


def _iban_starts(text: str, start: int) -> Iterator[Span]:
    """Yield where two letters and two digits stand that may begin an IBAN."""
    found = kinds(text, start)
    at = found.find(b"AA00")
    while at >= 0:
        begun = _IBAN.match(text, at + start)
        if begun:
            yield begun.span()
        at = found.find(b"AA00", at + 1)


def ibans(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of IBANs, in groups or in one piece, in either case."""
    traces: list[Trace] = []
    for begin, low in _iban_starts(text, start):
        at = low
        size = validators.iban_length(text[begin : begin + 2])
        for _ in range(size - 4):
            char = _IBAN_CHAR.match(text, at)
            if char is None:
                break
            at = char.end()
        if size and not final and len(text) - at < _IBAN_AHEAD:
            return traces, begin
        if size and not _GOES_ON.match(text, at) and validators.iban(text[begin:at]):
            traces.append(Trace(begin, at, begin, at))
    return traces, len(text)


def _rule(
    name: str, trigger: str, search: RuleSearch, digits: int = 0, headers: HeaderWords | None = None
) -> BuiltInRule:
    return BuiltInRule(name, f"[{name.upper().replace('-', '_')}]", trigger, search, digits=digits, headers=headers)


PII = (
    _rule("email", "@", emails),
    _rule("phone", r"\d", phones, 6, HeaderWords(names_phone)),
    _rule("ssn", r"\d", ssns, 9),
    _rule("credit-card", r"\d", cards, 12),
    _rule("iban", _IBAN_TRIGGER, ibans),
    _rule("ip-address", _QUAD_TRIGGER, ip_addresses_4),
    _rule("ip-address", ":[0-9A-Fa-f]{0,4}:", ip_addresses_6),
)
"""The rules in the order of the reference, then those that it does not have."""


_PREFIX = r"(?:/\d{1,3}(?!\d))?+"
_ADDRESS_4 = StreamPattern(
    rf"(?<!{GLUED})(?<!\.)(?P<ip>(?:\d{{1,3}}\.){{3}}\d{{1,3}})(?!{GLUED}|\.\d){_PREFIX}", flags=0
)
_ADDRESS_6 = StreamPattern(
    rf"(?<!{GLUED})(?<![:.])(?P<ip>(?:[0-9A-Fa-f]{{0,4}}:){{2,8}}(?:(?:\d{{1,3}}\.){{3}}\d{{1,3}}|[0-9A-Fa-f]{{1,4}})?)"
    rf"(?!{GLUED}|:|\.\d)"
    rf"(?:%[\w-]{{1,15}})?+{_PREFIX}",
    flags=0,
)
_READ4, _READ6 = 24, 84  # no more characters than that are read from one place on
_IPV6_CUE = deferred(r"(?i)\bip(?:v6)?\b")
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
    return not _is_netmask(found)


def _addresses(name: str, replacement: str) -> tuple[BuiltInRule, ...]:
    return (
        BuiltInRule(name, replacement, _QUAD_TRIGGER, _ipv4),
        BuiltInRule(name, replacement, ":[0-9A-Fa-f]{0,4}:", _ipv6),
    )


ADDRESSES: tuple[BuiltInRule, ...] = _addresses("ip-address", "[IP_ADDRESS]")
"""IPv4 and IPv6 addresses that can be a person's."""

PRIVATE_ADDRESSES: tuple[BuiltInRule, ...] = _addresses("private-ip", "[PRIVATE_IP]")
"""Private, loopback, link-local and documentation addresses."""


_IBAN_CUE = deferred(r"(?i)\biban|\bbank account|\baccount n(?:umber|o\b)|\bkontonummer")
_CARD_CUE = deferred(
    r"(?i)\b(?:credit|debit|payment|bank)[ -]?card|\bcard n(?:umber|o\b)|\bvisa\b|\bmaster ?card|\bamex\b"
    r"|american express|carte (?:bancaire|bleue|de cr[eé]dit)|tarjeta de|carta di credito|cart[aã]o de"
    r"|kreditkarte|karta (?:kredytowa|płatnicza)|\bкарт[аыу]\b|银行卡|信用卡|卡号|カード番号|クレジットカード"
    r"|신용카드|카드 ?번호|بطاقة|क्रेडिट कार्ड|kredi kart|betaalkaart|bankkort"
)


class _Mistyped:
    """Searches for numbers that are announced by a word, though their check digits are wrong."""

    def __init__(
        self,
        pattern: StreamPattern,
        shape: bytes,
        tail: bytes,
        longest: int,
        cue: re.Pattern[str],
        stems: str,
        check: Callable[[str], bool],
    ) -> None:
        self._pattern = pattern
        self._shape = _Shape(kinds, shape, tail, longest)
        self._longest = longest
        self._cue = cue
        self._stems = Stems(stems.split())
        self._check = check

    def search(self, text: str, start: int, *, final: bool) -> Scan:
        before = text[max(start - _REACH, 0) :].lower()
        if not self._stems.any_in(before):
            return [], len(text)
        none = self._shape.hold(text, start, final=final)
        if none is not None:
            return [], none
        matches, hold = self._pattern.walk(text, start, final=final, longest=self._longest)
        return [Trace(*found.span(), *found.span(), self._counts(text, found)) for found in matches], hold

    def _counts(self, text: str, found: regex.Match[str]) -> bool:
        cued = self._cue.search(text, max(found.start() - _REACH, 0), found.start())
        return cued is not None and self._check(found.group())


_LEAST_DIGITS = 8  # no country's IBAN has fewer
_BLANKS = deferred("[ -]")


def _like_iban(found: str) -> bool:
    plain = _BLANKS.sub("", found)
    length = validators.iban_length(plain[:2])
    fits = length == len(plain) if len(plain) < len(found) else length > 0  # groups may run into the next word
    return fits and sum(map(str.isdigit, plain)) >= _LEAST_DIGITS


def _like_card(found: str) -> bool:
    return len({char for char in found if char.isdigit()}) > 1


CUED_IBANS: tuple[BuiltInRule, ...] = (
    BuiltInRule(
        "iban",
        "[IBAN]",
        _IBAN_TRIGGER,
        _Mistyped(
            StreamPattern(
                r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?:[ -][A-Z0-9]{4}){2,7}(?:[ -][A-Z0-9]{1,3})?)"
                r"(?![A-Za-z0-9])"
            ),
            rb"AA00(?:[0A]{11}|[ !][0A]{4})",
            rb"AA00(?:[0A]*+|[ !][0A]*+)",
            48,
            _IBAN_CUE,
            "iban account kontonummer",
            _like_iban,
        ).search,
        headers=HeaderWords({"iban", "bank", "account", "kontonummer"}.__contains__),
    ),
)
"""In one piece or in groups of four, in capitals, of a country that has IBANs."""

CUED_CARDS: tuple[BuiltInRule, ...] = (
    BuiltInRule(
        "credit-card",
        "[CREDIT_CARD]",
        r"\d",
        _Mistyped(
            StreamPattern(
                r"(?<![\w.-])(?<!\d )(?:[2-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|3[47]\d{2}([ -]?)\d{6}\2\d{5})"
                r"(?!\w|[ .-]\d)",
                by_re=True,
            ),
            rb"0000[ !]?0000",
            rb"0(?:[ !]?0)*+[ !]?",
            24,
            _CARD_CUE,
            "card visa amex american cart tarjeta kart kaart kort карт 银行 信用 卡号 カード 카드 بطاقة क्रेडिट",
            _like_card,
        ).search,
        digits=15,
    ),
)
"""Of an issuer's length, in the groups of cards."""


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


def _macs(name: str, replacement: str) -> tuple[BuiltInRule, ...]:
    return (
        *(
            pattern_rule(
                name,
                replacement,
                rf"(?<![\w:.-])(?:{_HEX2}{sep}){{5}}{_HEX2}(?![\w:-]|\.\w)",
                trigger=rf"{sep}{_HEX2}{sep}{_HEX2}{sep}",
                check=_mac,
            )
            for sep in ":-"
        ),
        pattern_rule(
            name,
            replacement,
            rf"(?<![\w.:-])(?:{_HEX4}\.){{2}}{_HEX4}(?![\w-]|\.\w)",
            trigger=rf"\.{_HEX4}\.",
            check=lambda found: _mac(found) and any(map(str.isdigit, found)) | any(map(str.isalpha, found)),
        ),
    )


MACS: tuple[BuiltInRule, ...] = _macs("mac", "[MAC]")
"""Addresses of network cards (EUI-48), in pairs, or in groups of four as Cisco writes them, that somebody tells."""

DEVICE_MACS: tuple[BuiltInRule, ...] = _macs("device-mac", "[MAC]")
"""Those that devices and their tools write."""
