"""pydantic-ai's exceptions as `ModelError`s, with every key removed."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, cast

from pydantic_ai import exceptions as theirs

from penstock.models.openai.failures import Failures, is_retryable, is_spent, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.errors import ModelError
    from penstock.engine.values.frozen import Value

_PASSING = (
    theirs.ModelConnectionError,
    theirs.ModelRequestTimeout,
    theirs.ModelRateLimitError,
    theirs.ModelUnavailableError,
    theirs.ModelServerError,
)
_LASTING = (theirs.ModelRequestRejectedError, theirs.ModelQuotaExceededError)
_SHORTEST = 8  # characters of a key; servers without keys are given a short word, which may occur anywhere
_SECRETS = ("api_key", "auth_token", "_api_key", "admin_api_key", "_token")


def secrets_of(model: object) -> Iterator[str]:
    """Yield the keys that a model's client holds, as far as they can be found: no error may show them."""
    for inner in (*getattr(model, "models", ()), getattr(model, "wrapped", None)):
        if inner is not None:
            yield from secrets_of(inner)
    provider = getattr(model, "provider", None)
    for place in (getattr(provider, "client", None), provider, getattr(model, "client", None)):
        for name in _SECRETS:
            found = getattr(place, name, None)
            if isinstance(found, str) and len(found) >= _SHORTEST:
                yield found


class ErrorConverter:
    """Makes the errors of one model. It lives as long as the model."""

    __slots__ = ("_failures",)

    def __init__(self, name: str, model: object) -> None:
        self._failures = Failures(name, secrets_of(model))

    def made(self, error: Exception) -> ModelError:
        """Return the `ModelError` for an exception.

        The exception becomes its cause, unless its traceback shows a key.
        """
        made = self._converted(_last(error))
        shown = "".join(traceback.format_exception(error))
        if self._failures.hidden(shown) == shown:
            made.__cause__ = error
        return made

    def broken_off(self) -> ModelError:
        """Return the error for an answer without an end."""
        return self._failures.made("the answer ended before it was complete", retryable=True)

    def _converted(self, error: Exception) -> ModelError:
        if isinstance(error, theirs.ModelAPIError):
            return self._of_api(error)
        filtered = isinstance(error, theirs.ContentFilterError)
        odd = isinstance(error, theirs.UnexpectedModelBehavior) and not filtered  # the next answer may be complete
        said = error.message if isinstance(error, (theirs.AgentRunError, theirs.UserError)) else type(error).__name__
        return self._failures.made(
            f"pydantic-ai says: {said}", code="content_filter" if filtered else None, retryable=odd
        )

    def _of_api(self, error: theirs.ModelAPIError) -> ModelError:
        status = error.status_code if isinstance(error, theirs.ModelHTTPError) else None
        headers = dict((error.headers if isinstance(error, theirs.ModelHTTPError) else None) or {})
        if error.retry_after is not None:
            headers = {**headers, "retry-after": str(error.retry_after)}
            headers.pop("retry-after-ms", None)
        message, code = told(error.body)
        return self._failures.made(
            _problem(message, status, error),
            status=status,
            code=error.provider_error_code or error.provider_error_type or code,
            headers=headers,
            body=_text(error.body),
            retryable=_may_pass(error, status),
        )


def _may_pass(error: theirs.ModelAPIError, status: int | None) -> bool:
    if is_spent(error.body):
        return False
    if isinstance(error, _PASSING):
        return True
    return not isinstance(error, _LASTING) and status is not None and is_retryable(status)


def _problem(message: str, status: int | None, error: theirs.ModelAPIError) -> str:
    if message:
        return f"the provider says: {message}"
    return f"pydantic-ai says: {error.message}" if status is None else "the provider did not answer"


def _last(error: Exception) -> Exception:
    """Return the last exception of a group: that of the last model that was tried."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[-1]
    return error


def _text(body: Value) -> str:
    if body is None or isinstance(body, str):
        return body or ""
    try:
        return json.dumps(body)
    except (TypeError, ValueError):
        return str(body)
