"""Write and read verdicts as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types
from pydantic_core import to_jsonable_python

from penstock.engine.values.frozen import is_mapping, thaw
from penstock.engine.values.tripwire import Tripwire

if TYPE_CHECKING:
    from google.adk.models.llm_response import LlmResponse

    from penstock.formats.wire import Json, Value

ERROR_CODE = "BLOCKED_BY_GUARD"
"""The ``error_code`` of the event that tells a verdict."""

KEY = "penstock"
"""The key of a verdict in the ``custom_metadata`` of its event."""

_FACTS = ("reason", "processor_id", "stage", "retry", "metadata")


def tripwire_of(event: LlmResponse) -> Tripwire | None:
    """Return the verdict that an event tells, or None."""
    said: Value = (event.custom_metadata or {}).get(KEY)
    return Tripwire(**said) if is_mapping(said) and event.error_code == ERROR_CODE else None


def told(verdict: Tripwire) -> Json:
    """Return the fields of the event that tells a verdict."""
    facts = {name: thaw(getattr(verdict, name)) for name in _FACTS}
    return {
        "error_code": ERROR_CODE,
        "error_message": verdict.reason,
        "finish_reason": types.FinishReason.SAFETY,
        "custom_metadata": {KEY: to_jsonable_python(facts, fallback=str)},
    }
