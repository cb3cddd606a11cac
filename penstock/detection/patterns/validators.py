"""Validators: decide by check digits, range, length or randomness whether a match is genuine."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import math
from collections import Counter
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NOT_DIGITS = deferred(r"\D")
_NOT_ALNUM = deferred(r"[^0-9A-Za-z]")
# Issuer prefixes and the lengths of their numbers (ISO/IEC 7812; the networks' own pages): Visa, Mastercard, American
# Express, Diners Club, Discover, UnionPay, JCB, Maestro, Mir, RuPay, Troy.
_CARDS = deferred(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:2(?:2[1-9]|[3-9]\d)|[3-6]\d\d|7(?:[01]\d|20))\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11,16}|(?:2131|1800|35\d\d)\d{11,15}|6\d{11,18}|5[06-9]\d{10,17}"
    r"|220[0-4]\d{12,15}|8[12]\d{14}|9792\d{12}"
)
# Lengths of IBANs by country (the SWIFT registry, release 99).
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE BI",
        18: "DK FO FK GL NL SD FI AX",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK MN",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA IM JE GG",
        23: "AE GI IL IQ TL OM SO",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR DJ",
        27: "FR GR IT MC MR SM BI GP MQ RE PM YT NC PF",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}
_PLACEHOLDER = deferred(
    r"""(?ix) ^(?: [$%<{(\[] | \.\.\. | xxx | \*\*\* | (?:your|my|the|some|any|insert|enter|put|add|example|sample|
    dummy|fake|placeholder|changeme|change|replace|todo|redacted|hidden|none|null|nil|true|false|undefined|string|
    process|os|env|getenv|config|settings|self|this|request|password|passwd|secret|token|test|default|optional|
    required)(?![A-Za-z0-9]) )"""
)
_SSN = deferred(r"(?!000|666|9)\d{3}(?!00)\d{2}(?!0000)\d{4}")
_MIXED = 3  # different characters; fewer are xxxx and ****
_LONG_TOKEN = 20
_TOKEN_BITS = 2.7  # per character; English words reach about 2.5 at this length, hex 3.2 and more


def luhn(text: str) -> bool:
    """Return whether the digits pass the Luhn check (ISO/IEC 7812-1) and are not all the same."""
    known = _NOT_DIGITS.sub("", text)
    digits = (known if known.isascii() else "".join(str(int(digit)) for digit in known)).encode()
    total = sum(digits[::-2]) + sum(digits[-2::-2].translate(_DOUBLED)) - len(digits) * ord("0")
    return len({*digits}) > 1 and total % 10 == 0


_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # the sum of the digits of twice the number


def card(text: str) -> bool:
    """Return whether the digits are a payment card's: issuer, length and check digit."""
    digits = _NOT_DIGITS.sub("", text)
    return bool(_CARDS.fullmatch(digits)) and luhn(digits)


def ssn(text: str) -> bool:
    """Return whether the digits can be a US social security number.

    Areas 000, 666 and 900 up, and groups and serials of zeros were never given out.
    """
    return bool(_SSN.fullmatch(_NOT_DIGITS.sub("", text)))


def iban_length(country: str) -> int:
    """Return how many characters an IBAN of the country has; 0 for a country that has none."""
    return _IBAN_LENGTHS.get(country.upper(), 0)


def iban(text: str) -> bool:
    """Return whether it is an IBAN: its country's length, and the check digits (ISO 13616, modulo 97)."""
    plain = _NOT_ALNUM.sub("", text).upper()
    if not plain or len(plain) != iban_length(plain[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def ip_address(text: str) -> bool:
    """Return whether it is an IPv4 or IPv6 address that could be a person's: not loopback, not unspecified."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def entropy(text: str) -> float:
    """Return the Shannon entropy of the text's characters, in bits per character."""
    size = len(text)
    return -sum(count / size * math.log2(count / size) for count in Counter(text).values()) if size else 0.0


def token(text: str) -> bool:
    """Return whether a word is a token: with digits or mixed case, and random enough for its length."""
    if placeholder(text) or "://" in text:
        return False
    kinds = (any(map(str.islower, text)), any(map(str.isupper, text)), any(map(str.isdigit, text)))
    return sum(kinds) > 1 and entropy(text) >= min(_TOKEN_BITS, math.log2(len(text)) * 0.75)


def password(text: str) -> bool:
    """Return whether a value that stands where a password is expected can be one, and is no placeholder or code."""
    return not placeholder(text) and len(set(text)) > _MIXED and text[0] not in "/+#.? " and "://" not in text


def placeholder(text: str) -> bool:
    """Return whether a value only says that something belongs there."""
    return bool(_PLACEHOLDER.match(text)) or len(set(text.casefold())) <= _MIXED - 1


def bearer(text: str) -> bool:
    """Return whether the word behind ``Bearer`` is a credential; English words are not."""
    value = text[len("bearer") :].lstrip(": \t\r\n\f\v")
    has_digit = any(map(str.isdigit, value))
    mixed = any(map(str.isupper, value[1:])) and any(map(str.islower, value))
    return not placeholder(value) and (has_digit or mixed or len(value) >= _LONG_TOKEN)


def basic_credentials(text: str) -> bool:
    """Return whether it is base64 of ``name:password``."""
    encoded = text.rsplit(maxsplit=1)[-1]
    try:
        plain = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    name, colon, secret = plain.partition(":")
    return bool(name and colon and secret) and plain.isprintable()


VALIDATORS: Mapping[str, Callable[[str], bool]] = {
    "card": card,
    "iban": iban,
    "ip-address": ip_address,
    "luhn": luhn,
    "password": password,
    "ssn": ssn,
    "token": token,
}
"""The validators that a rule may name."""
