"""Read the facts of a failed model call from its error: status, codes, requested wait, and the kind (`ErrorKind`).

Errors come from many sources: `ModelError`, SDKs of providers, HTTP clients, and events of streams as mappings. They
are read by the names of their attributes, so none of these libraries is imported.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal, cast, get_args

from penstock.detection.deferred import deferred
from penstock.engine.values.errors import ModelError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.models.openai.failures import wait_in_body, wait_in_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from penstock.engine.values.frozen import Value, Values


_STATUS_NAMES = ("status", "status_code", "statusCode", "http_status", "code")
_CODE_NAMES = ("code", "type", "status", "reason", "error_code", "provider_error_code", "provider_error_type", "Code")
_BODY_NAMES = ("body", "data", "response_body", "responseBody", "error")
_HEADER_NAMES = ("headers", "response_headers", "responseHeaders")
_FLAG_NAMES = ("retryable", "is_retryable", "isRetryable")
_EVENTS = frozenset({"error", "response.failed"})

_STATUS_CODES = range(100, 600)
_BAD_REQUEST = 400
_MOST_CAUSES = 50  # more than any real chain of errors has
_MOST_READ = 20_000  # characters of a body: error messages stand at its beginning
_MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """The facts of one error.

    Attributes:
        status: the HTTP status; None if there is none.
        codes: its codes and types, with those in its body, in lower case, words joined by ``_``.
        text: its message, and the messages in its body.
        retryable: whether it reports that the same call may succeed; None if it does not report that.
        wait: the seconds that it asks the client to wait, 0 or more; None if it does not ask.
        is_event: whether it is an error event of a stream, or carries one.
        names: the names of its class and base classes.
    """

    status: int | None
    codes: frozenset[str]
    text: str
    retryable: bool | None
    wait: float | None
    is_event: bool
    names: frozenset[str]


def causes(error: object) -> Iterator[object]:
    """Yield an error, then its causes, contexts and group members, nearest first, each once."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _MOST_CAUSES:
        one = waiting.pop(0)
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting.extend(_direct_causes(one))


def _direct_causes(error: object) -> Iterator[object]:
    if isinstance(error, BaseException):
        yield error.__cause__
        if not error.__suppress_context__:
            yield error.__context__
    members = next(_values(error, "exceptions"), ())
    yield from members if is_items(members) else ()
    yield from _values(error, "cause")


def read_error(error: object, now: datetime) -> ErrorFacts:
    """Return the facts of an error. ``now`` is the current time, for waits that are given as a date."""
    bodies = list(_bodies(error))
    inner = [part for body in bodies for part in _errors_in(body)]
    sources = [error, *inner]
    return ErrorFacts(
        _status(error, inner),
        frozenset(_codes(sources)),
        "\n".join(_texts(sources)),
        _retryable(error),
        _wait(error, now),
        any(_is_event(body) for body in bodies),
        frozenset(kind.__name__ for kind in type(error).__mro__),
    )


def status_of(error: object) -> int | None:
    """Return the HTTP status of an error, whichever attribute its library uses; None if it has none."""
    return _status(error, [part for body in _bodies(error) for part in _errors_in(body)])


def is_bad_request_error(error: object) -> bool:
    """Return whether a provider refused the request as malformed (HTTP 400).

    Some providers do so by mistake and accept the same request later. Pass it to ``matchers`` of
    `StreamErrorRetryProcessor` to retry such calls.
    """
    return status_of(error) == _BAD_REQUEST


def message_and_body(error: BaseException) -> str:
    """Return the message of an error and, if it is about a provider's answer, the body of that answer."""
    texts = list(_texts([error]))
    is_answer = isinstance(error, ModelError) or status_of(error) is not None
    bodies = _body_texts(error) if is_answer else []
    return "\n".join([*texts, *(body[:_MOST_READ] for body in bodies)])


# Attributes and keys


def _values(thing: object, *names: str) -> Iterator[Value]:
    """Yield the values of those attributes, or of those keys of a mapping, that are not None."""
    for name in names:
        found = thing.get(name) if is_mapping(thing) else _attribute(thing, name)
        if found is not None:
            yield found


def _attribute(thing: object, name: str) -> Value:
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - properties of other libraries may raise: httpx's do if an error has no request
        return None


def _status(error: object, inner: list[Values]) -> int | None:
    answers = list(_values(error, "response"))
    metadata = [found for answer in answers for found in _values(answer, "ResponseMetadata")]
    given = [
        *_values(error, *_STATUS_NAMES),
        *(found for answer in answers for found in _values(answer, "status_code", "status")),
        *(found for one in metadata for found in _values(one, "HTTPStatusCode")),
        *(found for part in inner for found in _values(part, *_STATUS_NAMES)),
    ]
    return next((int(one) for one in given if _is_status(one)), None)


def _is_status(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given in _STATUS_CODES


def _codes(sources: list[object]) -> Iterator[str]:
    for thing in sources:
        for found in _values(thing, *_CODE_NAMES):
            if isinstance(found, str) and found not in _EVENTS:
                yield re.sub(r"[^a-z0-9]+", "_", found.lower())


def _texts(sources: list[object]) -> Iterator[str]:
    for thing in sources:
        if isinstance(thing, BaseException):
            yield _message_of(thing)
        yield from (found for found in _values(thing, "message") if isinstance(found, str))


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - see `_attribute`
        return ""


def _retryable(error: object) -> bool | None:
    flags = [*_values(error, *_FLAG_NAMES)]
    header = _headers(error).get("x-should-retry")
    if header in ("true", "false"):
        flags.append(header == "true")
    return next((flag for flag in flags if isinstance(flag, bool)), None)


# Bodies


def _bodies(error: object) -> Iterator[Values]:
    """Yield the mappings that an error carries, or is."""
    if is_mapping(error):
        yield error
    else:
        yield from _mappings(_values(error, *_BODY_NAMES))
    for answer in _values(error, "response"):
        if is_mapping(answer):
            yield from _mappings(_values(answer, "Error"))
        else:
            yield from _mappings([_body_text(answer)])


def _mappings(given: Iterator[Value] | list[Value]) -> Iterator[Values]:
    for one in given:
        found = _parsed(one) if isinstance(one, str) else one
        for item in found if is_items(found) else (found,):
            if is_mapping(item):
                yield item


def _parsed(text: str) -> Value:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_event(body: Values) -> bool:
    kind = body.get("type")
    return isinstance(kind, str) and kind in _EVENTS


def _errors_in(body: Values) -> Iterator[Values]:
    """Yield a body and the errors in it: in ``error``, or in the ``response`` of an event."""
    yield body
    for holder in (body, body.get("response")):
        inner = holder.get("error") if is_mapping(holder) else None
        if is_mapping(inner):
            yield inner


def _body_text(answer: object) -> str:
    """Return the text of an HTTP response that was read already. It is not read here, since that may block."""
    if _attribute(answer, "is_stream_consumed") is not True:
        return ""
    text = _attribute(answer, "text")
    return text[:_MOST_READ] if isinstance(text, str) else ""


# Waits


def _headers(error: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for place in (error, *_values(error, "response")):
        for headers in _values(place, *_HEADER_NAMES):
            if isinstance(headers, (Mapping, Message)):
                items = cast("Iterable[tuple[Value, Value]]", headers.items())
                found.update({str(name).lower(): str(value) for name, value in items})
    return found


def _wait(error: object, now: datetime) -> float | None:
    own = next(_values(error, "retry_after"), None)
    if isinstance(own, (int, float)) and not isinstance(own, bool) and math.isfinite(own):
        return max(float(own), 0.0)
    headers = _headers(error)
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    given = headers.get("retry-after", "")
    found = _seconds(given)
    if found is None:
        found = _seconds_until(given, now)
    return _wait_in_text(error) if found is None else found


def _seconds(given: str) -> float | None:
    try:
        number = float(given)
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _seconds_until(given: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(given)
    except (ValueError, IndexError, TypeError):  # what it raises for a text that is not a date
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)


def _wait_in_text(error: object) -> float | None:
    """Return the wait that a body names (Google), or a message (OpenAI, whose events have no headers)."""
    messages = _texts([error, *(part for body in _bodies(error) for part in _errors_in(body))])
    waits = (*map(wait_in_body, _body_texts(error)), *map(wait_in_message, messages))
    return next((wait for wait in waits if wait is not None), None)


def _body_texts(error: object) -> list[str]:
    """Return the bodies of an error as text."""
    bodies = [*_values(error, *_BODY_NAMES), *map(_body_text, _values(error, "response"))]
    return [body if isinstance(body, str) else _json(body) for body in bodies]


def _json(body: object) -> str:
    if not is_mapping(body) and not is_items(body):
        return ""
    try:
        return json.dumps(body)
    except (TypeError, ValueError, RecursionError):
        return ""


ErrorKind = Literal["rate-limit", "overloaded", "timeout", "server", "connection", "quota", "authorisation", "other"]
"""The kind of an error:

- ``rate-limit``: too many requests (429)
- ``overloaded``: the provider has no capacity (503, 529)
- ``timeout``: no answer in time (408, 504, 524, or the client's own timeout)
- ``server``: a failure of the provider (other 5xx, 409, 425)
- ``connection``: no answer, or an answer that broke off
- ``quota``: the account is used up (402, ``insufficient_quota``); waiting does not help
- ``authorisation``: the key is refused (401, 403); a retry does not help
- ``other``: anything else
"""

KINDS: tuple[str, ...] = get_args(ErrorKind)
PASSING: frozenset[str] = frozenset({"rate-limit", "overloaded", "timeout", "server", "connection"})
"""The kinds that pass by themselves: the same call may succeed later."""

LASTING: frozenset[str] = frozenset({"quota", "authorisation"})
"""The kinds that do not pass: somebody must act first."""

# Words of OpenAI, Anthropic, Google (gRPC) and AWS in codes and types, as `read_error` spells them; first match wins.
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
_SERVER_WORDS = ("server_error", "internal")  # also in codes of a 503
_SERVER_CODES = frozenset({"api_error"})  # Anthropic's 500; must match exactly, since it is a part of other codes

_KIND_OF_STATUS: dict[int, ErrorKind] = {
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
_TIMED_OUT = deferred(r"time limit|timed? ?out|within [\d.]+ seconds", re.IGNORECASE)
_INVITES = deferred(
    r"(?<!not )(?:\bretry (?:your|the|this) request\b|\b(?:can|may|please|should) (?:retry|try again)\b"
    r"|\btry (?:your|the|this) request again\b|\btry again (?:later|shortly|soon|in \d))",
    re.IGNORECASE,
)


def kind_of(facts: ErrorFacts) -> ErrorKind | None:
    """Return the kind of one error, by its codes, its status, or the names of its classes; None if unknown."""
    kind = _by_code(facts) or _by_status(facts.status)
    if kind is None and any(code in _SERVER_CODES or _contains(code, _SERVER_WORDS) for code in facts.codes):
        return "server"
    return kind or _by_name(facts.names)


def kind_along(chain: Sequence[ErrorFacts]) -> ErrorKind:
    """Return the kind of an error that is worth a retry, judged by the error and its causes."""
    for facts in chain:
        kind = kind_of(facts)
        if kind is not None:
            return kind
    if any(_TIMED_OUT.search(facts.text) for facts in chain):
        return "timeout"
    refused = any(facts.status is not None and facts.status >= _CLIENT_ERROR for facts in chain)
    return "connection" if chain and chain[0].retryable is True and not refused else "other"


def passes(facts: ErrorFacts) -> bool:
    """Return whether an error is temporary: by its kind, or because it is an event that invites a retry."""
    kind = kind_of(facts)
    if kind is not None:
        return kind in PASSING
    refused = facts.status is not None and _CLIENT_ERROR <= facts.status < _SERVER_ERROR
    return facts.is_event and not refused and _INVITES.search(facts.text) is not None


def _by_code(facts: ErrorFacts) -> ErrorKind | None:
    for kind, words in _WORDS:
        if any(_contains(code, words) for code in facts.codes):
            return kind
    return None


def _contains(code: str, words: Iterable[str]) -> bool:
    return any(word in code for word in words)


def _by_status(status: int | None) -> ErrorKind | None:
    if status is None:
        return None
    known = _KIND_OF_STATUS.get(status)
    if known is None and status >= _SERVER_ERROR:
        return "server"
    return known


def _by_name(names: frozenset[str]) -> ErrorKind | None:
    if not _FINAL.isdisjoint(names):
        return None
    if not _TIMEOUTS.isdisjoint(names):
        return "timeout"
    return None if _CONNECTIONS.isdisjoint(names) else "connection"
