"""Reads what an error says of itself: status, codes, headers, the wait it asks for; it decides nothing.

Errors come from anywhere: our own `ModelError`, the SDKs of providers, HTTP clients, events of a stream as mappings.
They are read by the names that those give their attributes; none of the libraries is imported.
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
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import ModelError
from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from penstock.engine.values.frozen import Value, Values

_STATUS_NAMES = ("status", "status_code", "statusCode", "http_status", "code")
_CODE_NAMES = ("code", "type", "status", "reason", "error_code", "provider_error_code", "provider_error_type", "Code")
_BODY_NAMES = ("body", "data", "response_body", "responseBody", "error")
_HEADER_NAMES = ("headers", "response_headers", "responseHeaders")
_FLAG_NAMES = ("retryable", "is_retryable", "isRetryable")
_EVENTS = frozenset({"error", "response.failed"})

_STATUSES = range(100, 600)
_MOST_CAUSES = 50  # a chain of errors that is longer is no accident
_MOST_READ = 20_000  # characters of a body: the error's own words stand at its beginning
_MILLISECONDS = 1000.0

_RETRY_DELAY = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')  # google.rpc.RetryInfo in JSON
_TRY_AGAIN_IN = re.compile(
    r"\btry again in (?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s)\b)?", re.IGNORECASE
)  # OpenAI's 429s


@dataclass(frozen=True, slots=True)
class Said:
    """What one error says.

    Attributes:
        status: the HTTP status, if it names one.
        codes: its codes and types, in lower case, words joined by ``_``; those in its body too.
        text: its message, and those in its body.
        retryable: whether it says that the same call may succeed; None: it does not say.
        wait: for how many seconds it asks to wait, if it does; 0 or more.
        is_event: whether it is an error event of a stream, or carries one.
        names: the names of its class and of that one's bases.
    """

    status: int | None
    codes: frozenset[str]
    text: str
    retryable: bool | None
    wait: float | None
    is_event: bool
    names: frozenset[str]


def causes(error: object) -> Iterator[object]:
    """Yield an error, then what it came of, nearest first: causes, contexts, members of groups; each once."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _MOST_CAUSES:
        one = waiting.pop(0)
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting.extend(_behind(one))


def _behind(error: object) -> Iterator[object]:
    if isinstance(error, BaseException):
        yield error.__cause__
        if not error.__suppress_context__:
            yield error.__context__
    members = next(_given(error, "exceptions"), ())
    yield from members if is_items(members) else ()
    yield from _given(error, "cause")


def read(error: object, now: datetime) -> Said:
    """Return what an error says; ``now`` is the time, for waits that are told as a date."""
    bodies = list(_bodies(error))
    inner = [part for body in bodies for part in _parts(body)]
    said = [error, *inner]
    return Said(
        _status(error, inner),
        frozenset(_codes(said)),
        "\n".join(_texts(said)),
        _retryable(error),
        _wait(error, now),
        any(_is_event(body) for body in bodies),
        frozenset(kind.__name__ for kind in type(error).__mro__),
    )


def status_of(error: object) -> int | None:
    """Return the HTTP status that an error names, whatever its library calls it; None if it names none."""
    return _status(error, [part for body in _bodies(error) for part in _parts(body)])


def said_in_answer(error: BaseException) -> str:
    """Return an error's message and, where it is about a provider's answer, the body of that as far as it is known."""
    texts = list(_texts([error]))
    is_answer = isinstance(error, ModelError) or status_of(error) is not None
    bodies = _written(error) if is_answer else []
    return "\n".join([*texts, *(body[:_MOST_READ] for body in bodies)])


# Attributes and keys


def _given(thing: object, *names: str) -> Iterator[Value]:
    """Yield what an object has under those names: attributes, or a mapping's keys."""
    for name in names:
        found = thing.get(name) if is_mapping(thing) else _attribute(thing, name)
        if found is not None:
            yield found


def _attribute(thing: object, name: str) -> Value:
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a stranger's property; httpx raises where an error has no request
        return None


def _status(error: object, inner: list[Values]) -> int | None:
    answers = list(_given(error, "response"))
    metadata = [found for answer in answers for found in _given(answer, "ResponseMetadata")]
    given = [
        *_given(error, *_STATUS_NAMES),
        *(found for answer in answers for found in _given(answer, "status_code", "status")),
        *(found for one in metadata for found in _given(one, "HTTPStatusCode")),
        *(found for part in inner for found in _given(part, *_STATUS_NAMES)),
    ]
    return next((int(one) for one in given if _is_status(one)), None)


def _is_status(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given in _STATUSES


def _codes(said: list[object]) -> Iterator[str]:
    for thing in said:
        for found in _given(thing, *_CODE_NAMES):
            if isinstance(found, str) and found not in _EVENTS:
                yield re.sub(r"[^a-z0-9]+", "_", found.lower())


def _texts(said: list[object]) -> Iterator[str]:
    for thing in said:
        if isinstance(thing, BaseException):
            yield _message(thing)
        yield from (found for found in _given(thing, "message") if isinstance(found, str))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - see `_attribute`
        return ""


def _retryable(error: object) -> bool | None:
    flags = [*_given(error, *_FLAG_NAMES)]
    told = _headers(error).get("x-should-retry")
    if told in ("true", "false"):
        flags.append(told == "true")
    return next((flag for flag in flags if isinstance(flag, bool)), None)


# Bodies


def _bodies(error: object) -> Iterator[Values]:
    """Yield the mappings that an error carries, or is."""
    if is_mapping(error):
        yield error
    else:
        yield from _mappings(_given(error, *_BODY_NAMES))
    for answer in _given(error, "response"):
        if is_mapping(answer):
            yield from _mappings(_given(answer, "Error"))
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


def _parts(body: Values) -> Iterator[Values]:
    """Yield a body and the errors in it: in ``error``, or in the ``response`` of an event."""
    yield body
    for holder in (body, body.get("response")):
        inner = holder.get("error") if is_mapping(holder) else None
        if is_mapping(inner):
            yield inner


def _body_text(answer: object) -> str:
    """Return the text of an HTTP answer that was read already; no answer is read here, for that may wait."""
    if _attribute(answer, "is_stream_consumed") is not True:
        return ""
    text = _attribute(answer, "text")
    return text[:_MOST_READ] if isinstance(text, str) else ""


# Waits


def _headers(error: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for place in (error, *_given(error, "response")):
        for headers in _given(place, *_HEADER_NAMES):
            if isinstance(headers, (Mapping, Message)):
                items = cast("Iterable[tuple[Value, Value]]", headers.items())
                found.update({str(name).lower(): str(value) for name, value in items})
    return found


def _wait(error: object, now: datetime) -> float | None:
    told = next(_given(error, "retry_after"), None)
    if isinstance(told, (int, float)) and not isinstance(told, bool) and math.isfinite(told):
        return max(float(told), 0.0)
    headers = _headers(error)
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    given = headers.get("retry-after", "")
    found = _seconds(given)
    if found is None:
        found = _until(given, now)
    return _in_words(error) if found is None else found


def _seconds(given: str) -> float | None:
    try:
        number = float(given)
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _until(given: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(given)
    except (ValueError, IndexError, TypeError):  # what it raises for a text that is no date
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)


def _in_words(error: object) -> float | None:
    """Return the wait that a body tells, as Google's do, or a message, as OpenAI's: events have no headers."""
    for text in _written(error):
        found = _RETRY_DELAY.search(text[:_MOST_READ])
        if found is not None:
            return float(found[1])
    for text in _texts([error, *(part for body in _bodies(error) for part in _parts(body))]):
        found = _TRY_AGAIN_IN.search(text[:_MOST_READ])
        if found is not None and (found[1] or found[2]):
            seconds = float(found[2] or 0) / (_MILLISECONDS if (found[3] or "").lower() == "ms" else 1.0)
            return float(found[1] or 0) * 60 + seconds
    return None


def _written(error: object) -> list[str]:
    """Return the bodies that an error carries, as text."""
    bodies = [*_given(error, *_BODY_NAMES), *map(_body_text, _given(error, "response"))]
    return [body if isinstance(body, str) else _json(body) for body in bodies]


def _json(body: object) -> str:
    if not is_mapping(body) and not is_items(body):
        return ""
    try:
        return json.dumps(body)
    except (TypeError, ValueError, RecursionError):
        return ""
