"""`ModelError`s for requests that failed, from statuses, headers and bodies, with every key removed."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.engine.values.errors import ModelError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.models.openai.wire import object_of, parsed, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.models.openai.wire import Json

RETRYABLE = frozenset({408, 409, 425, 429})
"""The statuses below 500 after which the same request may succeed: timeout, conflict, too early, too many requests."""

MOST_OF_A_FAILURE = 64 * 1024
"""How many bytes are read of an answer that is an error."""

_SERVER_ERROR, _FIRST_ERROR, _STATUSES = 500, 400, range(400, 600)
_MILLISECONDS = 1000.0
_HIDDEN = "[key]"
_KEPT = frozenset({"retry-after", "retry-after-ms", "request-id", "cf-ray", "content-type", "date", "server", "via"})
_KEPT_BEGINNINGS = (
    "x-ratelimit",
    "ratelimit",
    "x-request",
    "x-should-retry",
    "openai-",
    "x-groq",
    "x-ms-",
    "apim-",
    "anthropic-",
)


class Failures:
    """Makes the errors of one model, and removes its secrets from them. It lives as long as the model."""

    __slots__ = ("_latest", "_model", "_secrets")

    def __init__(self, model: str, secrets: Iterable[str]) -> None:
        self._model = model
        self._secrets = _spelled(secrets)
        self._latest: dict[str, list[str]] = {}  # the spellings of secrets of single requests

    def __repr__(self) -> str:
        return f"Failures({self._model!r})"

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide further secrets, which belong to single requests: the latest 100 of them."""
        for secret in secrets:
            self._latest[secret] = self._latest.pop(secret, []) or _spelled([secret])
        for secret in list(self._latest)[:-_MOST_LATEST]:
            del self._latest[secret]

    def hidden(self, text: str) -> str:
        """Return a text with every secret in it replaced."""
        for spellings in (self._secrets, *self._latest.values()):
            for secret in spellings:
                text = text.replace(secret, _HIDDEN)
        return text

    def made(
        self,
        problem: str,
        *,
        status: int | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
        retryable: bool = False,
    ) -> ModelError:
        """Return an error with these facts."""
        kept = {name: self.hidden(value) for name, value in kept_headers(headers or {}).items()}
        return ModelError(
            self._model,
            self.hidden(problem),
            status=status,
            code=None if code is None else self.hidden(code),
            retry_after=_first_wait(headers or {}, body, problem),
            headers=kept,
            body=self.hidden(body),
            retryable=retryable,
        )

    def of_status(self, status: int, headers: Mapping[str, str], body: str, value: Value) -> ModelError:
        """Return the error for an answer whose status is an error, from its body as text and as JSON."""
        message, code = told(value)
        message = message or (_plain_text(body) if value is None else "")
        problem = f"the provider says: {message}" if message else _SAYS.get(status, "the provider did not answer")
        retryable = is_retryable(status) and headers.get("x-should-retry") != "false" and not is_spent(value)
        return self.made(problem, status=status, code=code, headers=headers, body=body, retryable=retryable)

    def of_error(self, status: int, headers: Mapping[str, str], body: str, value: Value) -> ModelError:
        """Return the error that a provider put into an answer with a status of success."""
        message, code = told(value)
        number = int(code) if code is not None and code.isdigit() and int(code) in _STATUSES else None
        return self.made(
            f"the provider says: {message or 'there was an error'}",
            status=number or status,
            code=code,
            headers=headers,
            body=body,
            retryable=(_may_pass(code) if number is None else is_retryable(number)) and not is_spent(value),
        )


_MOST_LATEST = 100


def _spelled(secrets: Iterable[str]) -> list[str]:
    """Return all forms of the secrets, the longest first."""
    found = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
    return sorted(found, key=len, reverse=True)


def _spellings(secret: str) -> Iterator[str]:
    """Yield the forms in which an answer may repeat a secret: unchanged, or escaped for JSON, HTML or a URL."""
    in_json = json.dumps(secret)[1:-1]
    yield from (secret, in_json, in_json.replace("/", "\\/"), html.escape(secret), html.escape(secret, quote=False))
    for quoted in (quote(secret, safe=""), quote(secret)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)


_SAYS = {401: "the key was refused", 403: "the key may not do this", 404: "the model or the address does not exist"}
_PASSING = ("rate_limit", "overloaded", "server_error", "timeout", "unavailable", "internal", "capacity")


def _may_pass(code: str | None) -> bool:
    return code is None or any(word in code.lower() for word in _PASSING)


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed after this status."""
    return status in RETRYABLE or status >= _SERVER_ERROR


def is_failure(status: int) -> bool:
    """Whether a status means that there is no answer."""
    return status >= _FIRST_ERROR or status < 200 or status >= 300  # noqa: PLR2004 - the class of statuses that say yes


_SPENT = frozenset(
    {
        "insufficient_quota",
        "insufficient_balance",
        "insufficient_funds",
        "insufficient_credits",
        "billing_hard_limit_reached",
        "billing_not_active",
        "quota_exceeded",
        "quota_exhausted",
        "credits_exhausted",
        "exceeded_current_quota_error",
        "access_terminated",
        "account_deactivated",
    }
)
"""Codes that say that the account must be paid or unlocked first: waiting does not help."""


def is_spent(value: Value) -> bool:
    """Whether an error says that nothing more can be spent, which some providers report like too many requests."""
    item = _error_of(value)
    found = object_of(item.get("error", item))
    said = [found.get(key) for key in ("code", "type", "status", "reason")]
    return any(str(word).lower().replace("-", "_") in _SPENT for word in said)


def told(value: Value) -> tuple[str, str | None]:
    """Return the message and the code of an error.

    It is an object, an object in ``error``, a list of them, or a text; what FastAPI's servers (vLLM, LiteLLM, TGI) say
    of a wrong request is a list in ``detail``.
    """
    item = _error_of(value)
    inner = item.get("error", item)
    if isinstance(inner, str):
        return inner, _code(item)
    found = object_of(inner)
    message = next((text for key in ("message", "detail", "msg") if (text := _said(found.get(key)))), "")
    raw = text_of(object_of(found.get("metadata")).get("raw"))
    return f"{message}: {raw}" if message and raw else message, _code(found)


def _error_of(value: Value) -> Json:
    """Return the object of an error: the first of a list, and the contents of ``errors`` or of an object ``detail``."""
    item = _first_object(value)
    detail = object_of(item.get("detail"))
    if "error" in detail:
        return detail
    bare = "error" not in item and "message" not in item
    return _first_object(item.get("errors")) or item if bare else item


def _first_object(value: Value) -> Json:
    if is_items(value):
        value = next(iter(value), None)
    return object_of(value)


def _said(value: Value) -> str:
    """Return a message: a text, or one for each entry of a list, with the place of the fault."""
    if isinstance(value, str):
        return value
    if is_mapping(value):
        return _said(value.get("message") or value.get("msg"))
    entries: list[Value] = list(value)[:_MOST_ENTRIES] if is_items(value) else []
    return "; ".join(filter(None, map(_entry, entries)))


def _entry(value: Value) -> str:
    if isinstance(value, str):
        return value
    item = object_of(value)
    place = item.get("loc")
    named = ".".join(map(str, place)) if is_items(place) else text_of(place)
    text = text_of(item.get("msg")) or text_of(item.get("message"))
    return f"{named}: {text}" if named and text else text


def _plain_text(body: str) -> str:
    """Return the first line of a body that is a short text, and no page."""
    line = body.strip().partition("\n")[0].strip()
    return "" if line.startswith(("<", "{", "[")) or len(body) > _MOST_SHOWN else line


_MOST_ENTRIES, _MOST_SHOWN = 5, 500


def _code(item: Json) -> str | None:
    given = next((item[key] for key in ("code", "type", "status") if item.get(key)), None)
    return str(given) if isinstance(given, (str, int)) else None


_REFUSING = frozenset({400, 404, 405, 415, 422, 501})
_UNSUPPORTED = re.compile(
    r"support|unrecognized|unrecognised|unknown|unexpected|not allowed|not permitted|not available|not implemented"
    r"|deprecated|invalid|extra inputs|forbidden|only the default",
    re.IGNORECASE,
)


def refused_field(error: ModelError, names: Iterable[str]) -> str | None:
    """Return which of these fields of the request the provider refused; None if it refused none of them."""
    if error.status not in _REFUSING:
        return None
    names = list(names)
    item = _error_of(parsed(error.body))
    blamed = object_of(item.get("error", item)).get("param")
    if blamed:
        return blamed if blamed in names else None
    if not _UNSUPPORTED.search(error.problem):
        return None
    found = (name for name in names if re.search(rf"(?<![\w]){re.escape(name)}(?:ing)?(?![\w])", error.problem))
    return next(found, None)


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that describe an answer, such as request ids and rate limits, by their lower-case names."""
    named = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in named.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}


def _first_wait(headers: Mapping[str, str], body: str, problem: str) -> float | None:
    """Return the seconds that an answer asks to wait: in a header, in a field of its body, or in its message."""
    asked = retry_after(headers)
    asked = wait_in_body(body) if asked is None else asked
    return wait_in_message(problem) if asked is None else asked


_MOST_READ = 20_000  # characters of a body: error messages stand at its beginning
_DELAY = re.compile(
    r'"retry_?(?:delay|after)(_?ms)?\\*"\s*:\s*(?:\{\s*\\*"seconds\\*"\s*:\s*)?\\*"?(\d{1,9}(?:\.\d+)?)(ms)?s?\\*"?\s*[,}\]]',
    re.IGNORECASE,
)
"""google.rpc.RetryInfo in JSON, ``"retryDelay": "13s"``; and a gateway's ``retry_after``, in seconds."""

_TRY_AGAIN = re.compile(
    r"\b(?:try again|retry) (?:in|after) (?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d+)?)\s?(ms|s|seconds?)\b)?",
    re.IGNORECASE,
)
"""The messages of OpenAI, Azure and Google."""


def wait_in_body(body: str) -> float | None:
    """Return the seconds that a field in the JSON text of an error asks to wait; None if there is no such field."""
    found = _DELAY.search(body[:_MOST_READ])
    return None if found is None else float(found[2]) / (_MILLISECONDS if found[1] or found[3] else 1.0)


def wait_in_message(message: str) -> float | None:
    """Return the seconds that the message of an error asks to wait; None if it asks for none."""
    found = _TRY_AGAIN.search(message[:_MOST_READ])
    if found is None or not (found[1] or found[2]):
        return None
    seconds = float(found[2] or 0) / (_MILLISECONDS if (found[3] or "").lower() == "ms" else 1.0)
    return float(found[1] or 0) * 60 + seconds


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a header asks to wait, from a number or a date, 0 or more; None if it asks for none."""
    named = {name.lower(): value for name, value in headers.items()}
    milliseconds = _seconds(named.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    given = named.get("retry-after", "")
    seconds = _seconds(given)
    return seconds if seconds is not None else _until(given)


def _seconds(given: str) -> float | None:
    try:
        number = float(given)
    except ValueError:
        return None
    return max(number, 0.0) if number == number and number != float("inf") else None  # noqa: PLR0124 - not a number


def _until(given: str) -> float | None:
    try:
        moment = parsedate_to_datetime(given)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
