"""What an encoded stretch may say: base64, hexadecimal, percent signs and the like, decoded. It judges nothing."""

from __future__ import annotations

import base64
import binascii
import html
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from penstock.detection.unicode import disguises

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LEAST = 12  # characters that a decoded stretch must have to be looked at
_TORN = 6  # bytes at a stretch's ends that belong to characters which are cut in two
_CHARACTERS = range(0x9, 0x250)  # from the tab to the last Latin letters
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}+={0,2}")
_BASE32 = re.compile(r"[A-Za-z2-7]{24,}+=*")
_NUMBER = re.compile(r"(?<![0-9A-Za-z])(?:0?x)?([0-9A-Fa-f]{1,8})(?![0-9A-Za-z])")
_HEX_RUN = re.compile(r"(?:(?:0x|\\x|\\u00|u\+00|%)?[0-9a-f]{2}[\s,:;_-]*){8,}+", re.IGNORECASE)
_HEX_MARK = re.compile(r"0x|\\x|\\u00|u\+00|[\s,:;%_-]", re.IGNORECASE)
_ESCAPED = re.compile(r"\\u00([0-9a-fA-F]{2})|\\x([0-9a-fA-F]{2})|=([0-9A-F]{2})")


def decoded(text: str) -> Iterator[str]:
    """Yield what a stretch says in the codes that it can be written in; nothing that is no text."""
    for decode in _CODES:
        yield from decode(text)


def _base64(text: str) -> Iterator[str]:
    """Yield what base64 says, with either alphabet, begun at whichever of its four places."""
    joined = re.sub(r"\s+", "", text).replace("-", "+").replace("_", "/")
    for found in _BASE64.finditer(joined):
        letters = found.group().rstrip("=")
        for skip in range(4):
            usable = letters[skip : len(letters) - (len(letters) - skip) % 4]
            rest = letters[skip + len(usable) :]
            padded = usable + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
            yield from _bytes(lambda padded=padded: base64.b64decode(padded))  # type: ignore[misc]


def _base32(text: str) -> Iterator[str]:
    for found in _BASE32.finditer(re.sub(r"\s+", "", text)):
        letters = found.group().rstrip("=").upper()
        padded = letters + "=" * (-len(letters) % 8)
        yield from _bytes(lambda padded=padded: base64.b32decode(padded))  # type: ignore[misc]


def _hex(text: str) -> Iterator[str]:
    for found in _HEX_RUN.finditer(text):
        digits = _HEX_MARK.sub("", found.group())
        for skip in (0, 1):
            even = digits[skip : len(digits) - (len(digits) - skip) % 2]
            yield from _bytes(lambda even=even: binascii.unhexlify(even))  # type: ignore[misc]


def _numbers(text: str) -> Iterator[str]:
    """Yield what characters' numbers say that stand one by one: decimal, octal or binary."""
    digits = _NUMBER.findall(text)
    for base in (10, 8, 2):
        fitting = [int(one, base) for one in digits if _fits(one, base)]
        if len(fitting) >= _LEAST:
            yield "".join(map(chr, fitting))
    if re.fullmatch(r"[01\s]{96,}+", text):
        bits = re.sub(r"\s+", "", text)
        yield "".join(chr(int(bits[at : at + 8], 2)) for at in range(0, len(bits) - 7, 8))


def _fits(digits: str, base: int) -> bool:
    try:
        return int(digits, base) in _CHARACTERS
    except ValueError:
        return False


def _escapes(text: str) -> Iterator[str]:
    """Yield what percent signs, character references and backslashes stand for."""
    if "%" in text:
        yield unquote_plus(text, errors="replace")
    if "&" in text:
        yield html.unescape(text)
    if "\\" in text or "=" in text:
        yield _ESCAPED.sub(lambda found: chr(int(next(filter(None, found.groups())), 16)), text)


_CODES: tuple[Callable[[str], Iterator[str]], ...] = (_base64, _hex, _escapes, _numbers, _base32)


def _bytes(decode: Callable[[], bytes]) -> Iterator[str]:
    """Yield the text that bytes hold; nothing if there are none, or if they are no text."""
    try:
        raw = decode()
    except (ValueError, binascii.Error):
        return
    coding = _coding(raw)
    text = raw.decode(coding, errors="ignore")
    lost = len(raw) - len(text.encode(coding))
    clear = text if text.isascii() else disguises.read(text).text  # what cannot be seen does not make it illegible
    legible = sum(map(str.isprintable, clear)) * 10 >= len(clear) * 8
    if legible and len(clear) >= _LEAST and lost * 10 <= len(raw) + _TORN * 10:
        yield text


def _coding(raw: bytes) -> str:
    """Return how bytes spell a text: every other one is zero in UTF-16, as far as letters are Latin."""
    if raw.count(0) * 3 <= len(raw):
        return "utf-8"
    return "utf-16-le" if raw[1::2].count(0) > raw[::2].count(0) else "utf-16-be"
