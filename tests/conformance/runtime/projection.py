"""The one projection under which what was recorded and what we do are compared; it was written before any rule.

It forgets what is spelling: names of hooks and chunks, the wording of errors, of default reasons and of feedback,
absent against empty fields of a tripwire; that a promise is rejected where a call raises; and an agent's own accounts.
"""

from __future__ import annotations

import re
from typing import Any

_HOOKS = {
    "processInputStep": "process_input_step",
    "processInput": "process_input",
    "processLLMRequest": "process_llm_request",
    "processLLMResponse": "process_llm_response",
    "processOutputStream": "process_output_stream",
    "processOutputStep": "process_output_step",
    "processToolResult": "process_tool_result",
    "processOutputResult": "process_output_result",
    "processAPIError": "process_api_error",
}
_HOOK = re.compile(
    r"\bprocess(?:InputStep|Input|LLMRequest|LLMResponse|OutputStream|OutputStep|ToolResult|OutputResult|APIError)\b"
)
_CHUNKS = {
    "tool-call-input-streaming-start": "tool-input-start",
    "tool-call-delta": "tool-input-delta",
    "tool-call-input-streaming-end": "tool-input-end",
}
_CHUNK = re.compile("|".join(_CHUNKS))
_FEEDBACK = (
    re.compile(r"\[Processor Feedback\] Your previous response was not accepted: (.*)\. Please try again .*"),
    re.compile(r"Your last answer was not accepted: (.*?)\.? Answer again, with that put right\."),
)
_DEFAULT_REASON = (re.compile(r"Tripwire triggered by (\S+)"), re.compile(r"stopped by (\S+)"))
_ERRORS = ("threw", "error", "error_property")
_FORGOTTEN = ("method", "runId", "from")
_TOKENS = ("inputTokens", "outputTokens")  # their sum, and the same in a provider's own words, say no more


def project(value: Any, key: str = "") -> Any:
    """Return the value without what is only spelling."""
    if isinstance(value, dict) and (key in _ERRORS or value.keys() == {"rejected"}):
        return "an error"
    if isinstance(value, dict) and key == "usage":
        return {name: value[name] for name in _TOKENS if name in value}
    if isinstance(value, dict) and value.get("type") == "error":
        return {"type": "error"}
    if isinstance(value, dict):
        kept = {snake(name): project(below, name) for name, below in value.items() if name not in _FORGOTTEN}
        return _tripwire(kept) if "reason" in kept and "processorId" in kept else kept
    if isinstance(value, (list, tuple)):
        entries = [project(item) for item in value if not _told(item)]
        return _without_open_step(entries) if key == "parts" else entries
    return _text(value) if isinstance(value, str) else value


def snake(text: str) -> str:
    """Return the text with names of hooks and chunks in our spelling."""
    spelled = _HOOK.sub(lambda match: _HOOKS[match.group()], text)
    return _CHUNK.sub(lambda match: _CHUNKS[match.group()], spelled)


def _text(text: str) -> str:
    for pattern in _FEEDBACK:
        if match := pattern.fullmatch(text):
            return f"<feedback: {match.group(1)}>"
    return snake(text)


def _tripwire(fields: dict[str, Any]) -> dict[str, Any]:
    for pattern in _DEFAULT_REASON:
        if match := pattern.fullmatch(str(fields["reason"])):
            fields = {**fields, "reason": f"<default, names {match.group(1)}>"}
    return {name: value for name, value in fields.items() if value or name in ("reason", "processorId")}


def _told(entry: Any) -> bool:
    """Tell whether a log entry is a callback's: ours are the observer's records."""
    return isinstance(entry, dict) and entry.keys() == {"onViolation"}


def _without_open_step(parts: list[Any]) -> list[Any]:
    """Drop the mark of a step that never answered."""
    return parts[:-1] if parts and parts[-1] == {"type": "step-start"} else parts
