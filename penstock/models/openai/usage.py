"""What providers count, and why answers end, in the words that Penstock has for it; it knows no stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.models.openai.wire import object_of

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import FinishReason
    from penstock.models.openai.wire import Json

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("cached_tokens",),  # Moonshot
    ("num_cached_tokens",),  # Mistral
)
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),  # Perplexity
)
_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "completed": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "tool_call": "tool-calls",
    "tool_use": "tool-calls",
    "content_filter": "content-filter",
    "safety": "content-filter",
    "sensitive": "content-filter",
    "refusal": "content-filter",
    "prohibited_content": "content-filter",
    "recitation": "content-filter",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}


def reason_of(raw: str, *, called: bool) -> FinishReason:
    """Return why an answer ended; some providers say ``stop``, or nothing, where tools are called."""
    reason = _REASONS.get(raw.lower(), "other")
    return "tool-calls" if called and (reason == "stop" or not raw) else reason


def usage_from(given: Json) -> Json:
    """Return the fields of a `Usage`; what has no field of its own stands in the details, under its own name."""
    fields: Json = {
        "input_tokens": _first(given, [(name,) for name in _INPUT]),
        "output_tokens": _first(given, [(name,) for name in _OUTPUT]),
        "cached_tokens": _first(given, _CACHED),
        "reasoning_tokens": _first(given, _REASONING),
    }
    own = {*_INPUT, *_OUTPUT, "total_tokens"}
    details = {key: value for key, value in given.items() if key not in own and value is not None}
    return {**fields, "details": details}


def _first(given: Json, paths: list[tuple[str, ...]] | tuple[tuple[str, ...], ...]) -> int | None:
    """Return the first whole number that stands at one of the places."""
    for *outer, name in paths:
        found: Value = object_of(given.get(outer[0])) if outer else given
        count = found.get(name)
        if isinstance(count, (int, float)) and not isinstance(count, bool):
            return int(count)
    return None
