"""Kinds of values that an owner may allow by name: ``allow=["uuid", "example-domain"]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_AUTHORITY = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?([^/?#\s]+)", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d*)?", re.IGNORECASE)
EXAMPLE_DOMAINS = (
    *(f"example.{top}" for top in ("com", "net", "org", "edu")),
    *("example", "test", "invalid", "localhost"),
)
"""The domains that stand for others in documents."""

_EXAMPLES = deferred(rf"(?:.+\.)?(?:{'|'.join(map(re.escape, EXAMPLE_DOMAINS))})\.?", re.IGNORECASE)
_DIGITS = deferred(r"\D+")
_TEST_CARDS = frozenset(
    {
        "4111111111111111",
        "4012888888881881",
        "4242424242424242",
        "4000056655665556",
        "4000000000000002",
        "5555555555554444",
        "5105105105105100",
        "5200828282828210",
        "2223003122003222",
        "378282246310005",
        "371449635398431",
        "6011111111111117",
        "6011000990139424",
        "30569309025904",
        "38520000023237",
        "3566002020360505",
        "6200000000000005",
    }
)


def host_of(text: str) -> str:
    """Return the host of a web address without a user, or of an e-mail address; an empty text for other texts."""
    authority = _AUTHORITY.match(text)
    said = authority[1] if authority else ""
    is_link = authority is not None and authority.start(1) > 0
    user, at, behind = said.partition("@")
    if is_link == bool(at):  # neither, or a user, behind whom another host stands than the first name says
        return ""
    found = _HOST.fullmatch(said if is_link else behind)
    return found[1].lower() if found and (is_link or user) else ""


def _is_private_address(text: str) -> bool:
    import ipaddress  # loaded where the kind is allowed

    try:
        address = ipaddress.ip_address(text.strip("[]").partition("/")[0].partition("%")[0])
    except ValueError:
        return False
    return not address.is_global


def _form(pattern: str) -> Callable[[str], bool]:
    compiled = deferred(pattern, re.IGNORECASE | re.ASCII)

    def fits(text: str) -> bool:
        return compiled.fullmatch(text) is not None

    return fits


KINDS: Mapping[str, Callable[[str], bool]] = {
    "digest": _form(
        r"(?:(?:md5|sha\d{1,3})[:=-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96,128})"
    ),
    "example-domain": lambda text: _EXAMPLES.fullmatch(host_of(text) or text) is not None,
    "fictional-phone": _form(r"(?:\+?1[ .-]?)?\(?\d{3}\)?[ .-]?555[ .-]?01\d\d"),
    "git-sha": _form(r"[0-9a-f]{40}|[0-9a-f]{64}"),
    "no-reply": _form(r"(?:no|do[._-]?not|donot)[._-]?reply[^@\s]*@\S+"),
    "object-id": _form(r"[0-9a-f]{24}"),
    "private-ip": _is_private_address,
    "sri-hash": _form(r"sha(?:256|384|512)-[a-z0-9+/]{43,86}={0,2}"),
    "test-card": lambda text: _DIGITS.sub("", text) in _TEST_CARDS,
    "ulid": _form(r"[0-7][0-9a-hjkmnp-tv-z]{25}"),
    "unix-time": _form(r"1[0-9]{9}(?:\.\d+)?|1[0-9]{12}|1[0-9]{15}|1[0-9]{18}"),
    "uuid": _form(r"\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?"),
    "version": _form(r"v?\d{1,5}(?:\.\d{1,6}){1,4}(?:[-+.][0-9a-z.+-]*)?"),
}
"""The kinds by name: each tells whether the whole of a value is of it."""
