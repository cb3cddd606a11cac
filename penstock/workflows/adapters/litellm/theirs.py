"""LiteLLM itself, and a verdict as the errors that its users know: in code that calls it, and in its proxy.

It is imported by name, since the tools that check our types run where it is not installed.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.engine.values.errors import MissingExtraError
from penstock.engine.values.tripwire import BlockedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.engine.values.tripwire import Tripwire


try:
    litellm: Any = import_module("litellm")
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.litellm", "litellm") from error

types: Any = import_module("litellm.types.utils")
"""The classes of its answers: `ModelResponse`, `ModelResponseStream` …"""

PRE_CALL: Any = import_module("litellm.types.guardrails").GuardrailEventHooks.pre_call
"""The mode of guardrails that run before the model is called."""

if TYPE_CHECKING:

    class CustomGuardrail:
        """LiteLLM's base class of guardrails."""

        guardrail_name: str

        def __init__(self, *, guardrail_name: str, event_hook: object, default_on: bool, **kwargs: object) -> None: ...
        def should_run_guardrail(self, data: object, event_type: object) -> bool: ...

    class GuardrailRaisedError(Exception):
        """LiteLLM's error for guardrails."""

    class HTTPError(Exception):
        """FastAPI's error for clients."""

else:
    CustomGuardrail = import_module("litellm.integrations.custom_guardrail").CustomGuardrail
    GuardrailRaisedError = litellm.exceptions.GuardrailRaisedException
    try:
        HTTPError = import_module("fastapi").HTTPException
    except ImportError:  # the extra of LiteLLM's proxy is not installed, so no proxy runs

        class HTTPError(Exception):
            """Stands for FastAPI's error."""


BAD_REQUEST, FAILED = 400, 500

BLOCKED_TEXT = "The request was blocked by a guard."
"""What a client of the proxy gets to read; the reason may help an attacker."""

FAILED_TEXT = "A guard failed, so the request was not let through."


class GuardBlockedError(BlockedError, GuardrailRaisedError):
    """A guard stopped a request. It is LiteLLM's ``GuardrailRaisedException``, and carries the verdict.

    Attributes:
        tripwire: the verdict.
        guardrail_name: the id of the processor that stopped the request.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        Exception.__init__(self, str(BlockedError(tripwire)))
        self.tripwire = tripwire
        self.guardrail_name = tripwire.processor_id
        self.message = str(self)
        self.status_code = BAD_REQUEST
        self.blocked_content = True


class RefusalError(Exception):
    """LiteLLM's proxy did not let a request through.

    Attributes:
        message: the text that the client gets.
        status_code: 400 if the client can change something, 500 if a guard failed.
        type: why, as a code for programs.
        tripwire: the verdict, if a guard gave one; for callbacks on the server.
    """

    def __init__(self, text: str, *, code: str, status: int = BAD_REQUEST, tripwire: Tripwire | None = None) -> None:
        Exception.__init__(self, text)
        self.message = text
        self.status_code = status
        self.type = code
        self.param = None
        self.tripwire = tripwire
        self.detail = {"error": text, "code": code}
        self.headers = None

    def __str__(self) -> str:
        """Return the text that the client gets."""
        return self.message


class RequestRefusedError(RefusalError, HTTPError):
    """A request or a whole answer was not let through. It is FastAPI's ``HTTPException``."""


class StreamRefusedError(RefusalError, GuardrailRaisedError):
    """A stream was not let through: LiteLLM ends it with an event. At an ``HTTPException`` it would break it off."""


def blocked(tripwire: Tripwire) -> RefusalError:
    """Return the refusal for a verdict."""
    return RefusalError(BLOCKED_TEXT, code="blocked_by_guard", tripwire=tripwire)


def failed() -> RefusalError:
    """Return the refusal for a guard that broke."""
    return RefusalError(FAILED_TEXT, code="guard_failed", status=FAILED)


@contextmanager
def refused_as(kind: type[RefusalError]) -> Generator[None]:
    """Raise a refusal as an error that LiteLLM sends to the client.

    Raises:
        RefusalError: of that kind: the request was not let through.
    """
    try:
        yield
    except kind:
        raise
    except RefusalError as error:
        made = kind(error.message, code=error.type, status=error.status_code, tripwire=error.tripwire)
        raise made from error.__cause__
