"""Sorts errors by what providers are known to say: which kind, and whether that kind passes. It knows no option."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.processors.recovery.reading import Said

ErrorKind = Literal["rate-limit", "overloaded", "timeout", "server", "connection", "quota", "authorisation", "other"]
"""What an error is about:

- ``rate-limit``: too many requests (429)
- ``overloaded``: the provider has no room (503, 529)
- ``timeout``: no answer in time (408, 504, 524, a client's own time limit)
- ``server``: the provider's own failure (other 5xx, 409, 425)
- ``connection``: no answer, or none to its end
- ``quota``: the account is used up (402, ``insufficient_quota``): waiting does not help
- ``authorisation``: the key is refused (401, 403): neither does asking again
- ``other``: anything else
"""

KINDS: tuple[str, ...] = get_args(ErrorKind)
PASSING: frozenset[str] = frozenset({"rate-limit", "overloaded", "timeout", "server", "connection"})
"""The kinds that pass by themselves: the same call may succeed later."""

LASTING: frozenset[str] = frozenset({"quota", "authorisation"})
"""The kinds that do not pass: somebody must do something first."""

# Words of OpenAI, Anthropic, Google (gRPC) and AWS in codes and types, as `read` spells them; the first match wins.
_WORDS: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    (
        "authorisation",
        (
            "access_denied",
            "accessdenied",
            "authentication",
            "forbidden",
            "invalid_api_key",
            "permission_denied",
            "permission_error",
            "unauthenticated",
            "unauthorized",
        ),
    ),
    ("quota", ("insufficient_quota", "quota_exceeded", "quotaexceeded", "billing", "insufficient_credits")),
    (
        "rate-limit",
        ("rate_limit", "ratelimit", "too_many_requests", "toomanyrequests", "throttl", "resource_exhausted"),
    ),
    ("overloaded", ("overloaded", "unavailable", "capacity")),
    ("timeout", ("timeout", "timed_out", "deadline_exceeded")),
)
_SERVER_WORDS = ("server_error", "internal")  # what is said of a 503, too
_SERVER_CODES = frozenset({"api_error"})  # Anthropic's 500; a part of other codes elsewhere

_STATUSES: dict[int, ErrorKind] = {
    401: "authorisation",
    402: "quota",
    403: "authorisation",
    408: "timeout",
    409: "server",
    425: "server",
    429: "rate-limit",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}
_SERVER_ERROR, _CLIENT_ERROR = 500, 400

_FINAL = frozenset({"UnsupportedProtocol", "LocalProtocolError", "ProxyError", "SSLCertVerificationError"})
_TIMEOUTS = frozenset({"TimeoutError", "TimeoutException", "APITimeoutError", "ModelTimeoutError", "Timeout"})
_CONNECTIONS = frozenset(
    {
        "ConnectionError",  # Python's own, and requests'
        "TransportError",  # httpx
        "APIConnectionError",  # openai, anthropic
        "ModelConnectionError",  # pydantic-ai
        "ClientConnectionError",  # aiohttp
        "ClientPayloadError",
        "ChunkedEncodingError",  # requests
        "HTTPClientError",  # botocore
        "IncompleteRead",  # http.client
        "gaierror",
    }
)
_TIMED_OUT = re.compile(r"time limit|timed? ?out|within [\d.]+ seconds", re.IGNORECASE)
_INVITES = re.compile(
    r"(?<!not )(?:\bretry (?:your|the|this) request\b|\b(?:can|may|please|should) (?:retry|try again)\b"
    r"|\btry (?:your|the|this) request again\b|\btry again (?:later|shortly|soon|in \d))",
    re.IGNORECASE,
)


def kind_of(said: Said) -> ErrorKind | None:
    """Return the kind of what an error says: by its codes, its status, the names of its classes; None if none tells."""
    kind = _by_code(said) or _by_status(said.status)
    if kind is None and any(code in _SERVER_CODES or _has(code, _SERVER_WORDS) for code in said.codes):
        return "server"
    return kind or _by_name(said.names)


def kind_along(chain: Sequence[Said]) -> ErrorKind:
    """Return the kind of an error that is worth another try, from what it and its causes say."""
    for said in chain:
        kind = kind_of(said)
        if kind is not None:
            return kind
    if any(_TIMED_OUT.search(said.text) for said in chain):
        return "timeout"
    refused = any(said.status is not None and said.status >= _CLIENT_ERROR for said in chain)
    return "connection" if chain and chain[0].retryable is True and not refused else "other"


def passes(said: Said) -> bool:
    """Tell whether an error is one of those that pass: by its kind, or as an event that says so in words."""
    kind = kind_of(said)
    if kind is not None:
        return kind in PASSING
    refused = said.status is not None and _CLIENT_ERROR <= said.status < _SERVER_ERROR
    return said.is_event and not refused and _INVITES.search(said.text) is not None


def _by_code(said: Said) -> ErrorKind | None:
    for kind, words in _WORDS:
        if any(_has(code, words) for code in said.codes):
            return kind
    return None


def _has(code: str, words: Iterable[str]) -> bool:
    return any(word in code for word in words)


def _by_status(status: int | None) -> ErrorKind | None:
    if status is None:
        return None
    known = _STATUSES.get(status)
    if known is None and status >= _SERVER_ERROR:
        return "server"
    return known


def _by_name(names: frozenset[str]) -> ErrorKind | None:
    if not _FINAL.isdisjoint(names):
        return None
    if not _TIMEOUTS.isdisjoint(names):
        return "timeout"
    return None if _CONNECTIONS.isdisjoint(names) else "connection"
