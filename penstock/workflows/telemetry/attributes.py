"""Attributes and events of OpenTelemetry spans, from records, run events and model requests.

Texts are written as JSON in the form of OpenTelemetry's GenAI conventions. They are off by default.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opentelemetry.trace import StatusCode

from penstock.engine.values.frozen import is_items, thaw
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.engine.values.model import ModelRequest, Usage
from penstock.workflows.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from penstock.engine.tracing.events import RunEvent
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.tripwire import Record, Tripwire


MOST_EDIT_EVENTS = 32
"""How many edits of a step are shown with their positions. All are counted."""


def about_step(step: str, processor: str, stage: str, *, shadow: bool) -> dict[str, AttributeValue]:
    """Return the attributes that name a step."""
    about: dict[str, AttributeValue] = {names.STEP: step, names.PROCESSOR: processor, names.STAGE: stage}
    return {**about, names.SHADOW: True} if shadow else about


def describe(span: Span, record: Record) -> None:
    """Describe a step in its span: verdict, edits with positions, findings, notes, failure. It quotes no text."""
    span.set_attribute(names.STATUS, record.status)
    if record.edits:
        span.set_attribute(names.EDITS, len(record.edits))
    for place, edit in record.edits[:MOST_EDIT_EVENTS]:
        span.add_event(
            names.EDIT_EVENT,
            {
                names.EDIT_KIND: edit.kind,
                names.EDIT_MESSAGE: place.message_id,
                names.EDIT_PART: place.part,
                names.EDIT_FIELD: ".".join(map(str, place.path)),
                names.EDIT_START: edit.start,
                names.EDIT_END: edit.end,
            },
        )
    if record.flagged:
        span.set_attribute(names.FLAGGED, record.flagged)
    for name, value in record.details.items():
        if isinstance(value, (str, bool, int, float)):
            span.set_attribute(names.DETAIL + name, value)
    if record.tripwire is not None:
        span.add_event(names.TRIPWIRE_EVENT, verdict_attributes(record.tripwire))
    if record.error is not None:
        span.set_attribute(names.ERROR_TYPE, record.error)
        span.set_status(StatusCode.ERROR)


def verdict_attributes(tripwire: Tripwire) -> dict[str, AttributeValue]:
    """Return the attributes of a verdict, without its metadata, which may quote the judged text."""
    return {
        names.TRIPWIRE_REASON: tripwire.reason,
        names.TRIPWIRE_PROCESSOR: tripwire.processor_id,
        names.TRIPWIRE_STAGE: tripwire.stage,
        names.TRIPWIRE_RETRY: tripwire.retry,
    }


def end_attributes(event: RunEvent) -> dict[str, AttributeValue]:
    """Return the attributes of the end event of a part."""
    found = event.details
    made: dict[str, AttributeValue] = dict(usage_attributes(found.get("usage")))
    if event.what == "model" and "finish_reason" in found:
        made[names.FINISH_REASONS] = [str(found["finish_reason"])]
    elif found.get("finish_reason") is not None:
        made[names.FINISH_REASON] = str(found["finish_reason"])
    for detail, name in _PLAIN.items():
        value = found.get(detail)
        if isinstance(value, (str, int, float)):
            made[name] = value
    taken: Value = found.get("taken")
    if is_items(taken):
        made[names.ARMS] = [int(arm) for arm in taken]
    return made


_PLAIN = {
    "status": names.STATUS,
    "processor": names.PROCESSOR,
    "held": names.HELD,
    "first_chunk": names.FIRST_CHUNK,
    "response_id": names.RESPONSE_ID,
    "response_model": names.RESPONSE_MODEL,
}


def counts_of(usage: object) -> dict[str, Value]:
    """Return the counts of a usage; none if there is no usage."""
    return {name: getattr(usage, name) for name in names.USAGE} if isinstance(usage, Usage) else {}


def usage_attributes(usage: Mapping[str, Value] | None) -> dict[str, AttributeValue]:
    """Return the attributes of the counts that are known."""
    if usage is None:
        return {}
    return {name: usage[count] for count, name in names.USAGE.items() if isinstance(usage.get(count), int)}


def call_attributes(called: Values, *, content: bool) -> dict[str, AttributeValue]:
    """Return the attributes of a call: of a request to a model, or of the id and the arguments for a tool."""
    request: object = called.get("request")
    if isinstance(request, ModelRequest):
        return _request_attributes(request, content=content)
    if "call_id" not in called:
        return {}
    made: dict[str, AttributeValue] = {names.TOOL_CALL_ID: str(called["call_id"])}
    return {**made, names.TOOL_ARGUMENTS: json_of(called["arguments"])} if content else made


def _request_attributes(request: ModelRequest, *, content: bool) -> dict[str, AttributeValue]:
    """Return the attributes of a request to a model."""
    made: dict[str, AttributeValue] = {names.REQUEST_STREAM: True}
    for setting, (name, kind) in names.SETTINGS.items():
        value: Value = request.settings.get(setting)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            made[name] = kind(value)
    stop: Value = request.settings.get("stop")
    if stop:
        made[names.STOP_SEQUENCES] = [stop] if isinstance(stop, str) else [str(word) for word in stop]
    if request.response_format is not None:
        made[names.OUTPUT_TYPE] = "json"
    if content:
        system = [message for message in request.messages if message.role == "system"]
        made[names.INPUT_MESSAGES] = messages_json([one for one in request.messages if one.role != "system"])
        if system:
            made[names.SYSTEM_INSTRUCTIONS] = instructions_json(system)
    return made


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
        results = [
            _result(part) for part in message.parts if isinstance(part, ToolPart) and part.state in ("result", "error")
        ]
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


def _result(part: ToolPart) -> dict[str, object]:
    answer: Value = part.error if part.state == "error" else thaw(part.result)
    return {"type": "tool_call_response", "id": part.call_id, "response": answer}
