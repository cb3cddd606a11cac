"""How a value is hidden: masks that keep its form, keyed hashes, placeholders. Pure; it knows no guard.

Lengths are in characters (code points).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Method = Literal["mask", "hash", "remove", "placeholder", "token"]

_DIGIT = re.compile(r"\d")
_HEX = re.compile(r"[0-9A-Fa-f]")
_SHOWN = 4  # characters at the end of a number that stay readable
_FLAT = 8  # characters of a mask that keeps no form, at most
_WALLET, _IBAN, _OTHER = 8, 6, 3  # values of no more characters are hidden whole
_LOCAL = 2  # a local part of no more characters is hidden whole


def mask(type: str, value: str, *, preserve_format: bool = True) -> str:
    """Return a value with most of it starred out; its form stays visible with ``preserve_format``."""
    if not preserve_format:
        return _flat(value)
    return _MASKS.get(type, _other)(value)


def keyed_hash(value: str, key: bytes, length: int) -> str:
    """Return the first ``length`` hexadecimal digits of the value's HMAC-SHA-256, as ``[HASH:…]``."""
    return f"[HASH:{hmac.new(key, value.encode('utf-8', 'surrogatepass'), hashlib.sha256).hexdigest()[:length]}]"


def placeholder(type: str) -> str:
    """Return the type's name in its stead."""
    return f"[{type.upper()}]"


def _flat(value: str) -> str:
    return "*" * min(len(value), _FLAT)


def _email(value: str) -> str:
    if value.count("@") != 1:
        return _flat(value)
    local, domain = value.split("@")
    first, dot, rest = domain.partition(".")
    shown = f"{local[0]}{'*' * (len(local) - 2)}{local[-1]}" if len(local) > _LOCAL else "***"
    return f"{shown}@{'*' * len(first)}{dot}{rest}" if dot else f"{shown}@***"


def _number(star: str) -> Callable[[str], str]:
    """Return a mask that leaves the digits among the last characters, if there are others to hide."""

    def masked(value: str) -> str:
        shown = _SHOWN if len(_DIGIT.findall(value)) > _SHOWN else 0
        cut = len(value) - shown
        return _DIGIT.sub(star, value[:cut]) + value[cut:]

    return masked


def _ends(first: int, last: int, least: int) -> Callable[[str], str]:
    """Return a mask that leaves the ends of values that are longer than ``least``."""

    def masked(value: str) -> str:
        if len(value) <= least:
            return "*" * len(value)
        return f"{value[:first]}{'*' * (len(value) - first - last)}{value[len(value) - last :]}"

    return masked


_other = _ends(1, 1, _OTHER)

_MASKS: Mapping[str, Callable[[str], str]] = {
    "email": _email,
    "phone": _number("X"),
    "credit-card": _number("*"),
    "ssn": _number("*"),
    "uuid": lambda value: _HEX.sub("*", value),
    "crypto-wallet": _ends(4, 4, _WALLET),
    "iban": _ends(2, 4, _IBAN),
}
