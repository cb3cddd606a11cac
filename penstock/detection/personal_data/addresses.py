"""The rule ``ip-address`` where every address counts, loopback and all, with its zone and the length of its prefix.

The preset ``pii`` leaves out what can be nobody's; who looks for personal data would rather see one too many.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from penstock.detection.patterns.built_in import BuiltIn
from penstock.detection.patterns.shapes import Scan, Shape, Trace

if TYPE_CHECKING:
    import regex

_PREFIX = r"(?:/\d{1,3}(?!\d))?+"
_IPV4 = Shape(rf"(?<![\w.])(?P<ip>(?:\d{{1,3}}\.){{3}}\d{{1,3}})(?![\w]|\.\d){_PREFIX}", flags=0)
_IPV6 = Shape(
    r"(?<![\w:.])(?P<ip>(?:[0-9A-Fa-f]{0,4}:){2,8}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{1,4})?)(?![\w:]|\.\d)"
    rf"(?:%[\w-]{{1,15}})?+{_PREFIX}",
    flags=0,
)
_READ4, _READ6 = 24, 84  # no more characters than that are read from one place on
_VERSION_CUE = re.compile(r"(?i)(?:\bv|\bver|version|release|build|firmware|\bapi)[ .:#=]{0,3}$")
_IPV6_CUE = re.compile(r"(?i)\bip(?:v6)?\b")
_REACH = 12


def _ipv4(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _IPV4.walk(text, start, final=final, longest=_READ4)
    return [_trace(found, counts=not _says(_VERSION_CUE, text, found)) for found in matches], hold


def _ipv6(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _IPV6.walk(text, start, final=final, longest=_READ6)
    return [_trace(found, counts=not _is_operator(text, found)) for found in matches], hold


def _trace(found: regex.Match[str], *, counts: bool) -> Trace:
    return Trace(*found.span(), *found.span(), counts and _is_address(found.group("ip")))


def _is_operator(text: str, found: regex.Match[str]) -> bool:
    """Tell whether it may be two colons of a program: no digit in it, and nothing says that it is an address."""
    return not any(map(str.isdigit, found.group())) and not _says(_IPV6_CUE, text, found)


def _says(cue: re.Pattern[str], text: str, found: regex.Match[str]) -> bool:
    return cue.search(text, max(found.start() - _REACH, 0), found.start()) is not None


def _is_address(found: str) -> bool:
    try:
        ipaddress.ip_address(found)
    except ValueError:
        return False
    return True


ADDRESSES: tuple[BuiltIn, ...] = (
    BuiltIn("ip-address", "[IP_ADDRESS]", r"\.(?<=[0-9]\.)[0-9]", _ipv4),
    BuiltIn("ip-address", "[IP_ADDRESS]", ":[0-9A-Fa-f]{0,4}:", _ipv6),
)
"""Versions 4 and 6."""
