"""A workflow in LiteLLM: ``as_completion(guard)`` for its calls, ``as_guardrail(guard)`` for its proxy.

Needs the extra ``litellm``. Its hooks for guardrails run in its proxy, so code that calls LiteLLM itself is guarded
around the call: there, answers can also be requested again.
"""

from __future__ import annotations

from penstock.workflows.adapters.litellm.completion import (
    GuardedCompletion,
    GuardedRequest,
    as_completion,
)
from penstock.workflows.adapters.litellm.guardrail import GuardrailOfProxy, as_guardrail
from penstock.workflows.adapters.litellm.theirs import (
    GuardBlockedError,
    RefusalError,
    RequestRefusedError,
    StreamRefusedError,
)

__all__ = [
    "GuardBlockedError",
    "GuardedCompletion",
    "GuardedRequest",
    "GuardrailOfProxy",
    "RefusalError",
    "RequestRefusedError",
    "StreamRefusedError",
    "as_completion",
    "as_guardrail",
]
