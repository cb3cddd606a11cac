"""Messages as JSON for span attributes, in the form of OpenTelemetry's GenAI conventions. Off by default."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.workflows.telemetry.names import CONTENT_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part

_ON = frozenset({"true", "span_only", "span_and_event"})


def is_wanted(content: bool | None) -> bool:  # noqa: FBT001 - an option, passed on
    """Return whether spans have texts: the option if it is given, else the environment variable decides."""
    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() in _ON if content is None else content


def json_of(value: object) -> str:
    """Return a frozen value as JSON. Values that JSON does not have are shown as a str."""
    frozen: Value = value
    return _json(thaw(frozen))


def messages_json(messages: Iterable[Message]) -> str:
    """Return messages as JSON. The data of pictures, sounds and files is left out."""
    made: list[dict[str, object]] = []
    for message in messages:
        parts = [_part(part) for part in message.parts if part.type != "step-start"]
        made.append({"role": message.role, "parts": parts})
        results = [_result(part) for part in message.parts if isinstance(part, ToolPart) and _has_result(part)]
        if results:
            made.append({"role": "tool", "parts": results})
    return _json(made)


def instructions_json(messages: Iterable[Message]) -> str:
    """Return the texts of system messages as JSON."""
    parts = [_part(part) for message in messages for part in message.parts if isinstance(part, TextPart)]
    return _json(parts)


def _json(value: object) -> str:
    """Return a value as JSON. Half a surrogate pair is escaped: exporters could not encode it."""
    made = json.dumps(value, ensure_ascii=False, default=str)
    return made.encode("utf-8", "backslashreplace").decode("utf-8")


def _part(part: Part) -> dict[str, object]:
    if isinstance(part, (TextPart, ReasoningPart)):
        return {"type": part.type, "content": part.text}
    if isinstance(part, ToolPart):
        return {"type": "tool_call", "id": part.call_id, "name": part.name, "arguments": thaw(part.arguments)}
    return {"type": part.type}


def _has_result(part: ToolPart) -> bool:
    return part.state in ("result", "error")


def _result(part: ToolPart) -> dict[str, object]:
    answer: Value = part.error if part.state == "error" else thaw(part.result)
    return {"type": "tool_call_response", "id": part.call_id, "response": answer}
