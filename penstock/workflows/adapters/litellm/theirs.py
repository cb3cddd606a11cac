"""LiteLLM itself. It is imported by name, since the tools that check our types run where it is not installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.engine.values.errors import MissingExtraError

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
