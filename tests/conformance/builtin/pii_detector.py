"""The vectors of `PIIDetector`: how values are hidden, what patterns find, what becomes of a judge's verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio

from penstock import Chunk, Message, MessageList, PIIDetector, Workflow
from penstock.detection.personal_data.detector import PersonalData
from penstock.engine.values.frozen import thaw
from penstock.processors.guards.detection import Detection
from penstock.processors.guards.pii_action import Redaction
from penstock.testing import ScriptedModel
from tests.conformance.builtin import pii_invented, pii_local_rules, pii_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.language_detector import FENCED, turn
from tests.conformance.builtin.shapes import chunk, constructed, joined, naming, read, spelt_as, streamed, told, write
from tests.conformance.builtin.streaming import told as told_of_stream

OPTIONS = (
    "detection_types", "threshold", "strategy", "redaction_method", "preserve_format", "include_detections",
    "buffer_size", "last_message_only", "instructions",
)  # fmt: skip
DEFAULTS = {
    "detection_types": [
        "email", "phone", "credit-card", "ssn", "api-key", "ip-address", "name", "address", "date-of-birth", "url",
        "uuid", "crypto-wallet", "iban",
    ],
    "threshold": 0.6,
    "strategy": "redact",
    "redaction_method": "mask",
    "preserve_format": True,
    "include_detections": False,
    "buffer_size": 200,
    "last_message_only": False,
    "error_strategy": "warn",
}  # fmt: skip
LEAST_BUFFER = 80  # what ours takes; where a text is cut for the judge is not compared
TYPES = re.compile(r"(?:Types: |may not pass: (?:\d+ found; )?)([\w, -]*)")
COUNT = re.compile(r"Detections: (\d+)|(\d+) found; ")


def run(given: Given) -> Fields:
    """Run the stage or the helper of the method; ``error_strategy`` says what a judge's failure means."""
    seen: list[Detection] = []
    model = ScriptedModel([turn(said(row)) for row in given.input.get("model_script", [{}])], repeat_last=True)
    options = {name: value for name, value in given.options.items() if name in OPTIONS}
    failure: Any = "embedded" if given.options["error_strategy"] == "warn" else "fail"
    if given.method != "construct" and options["buffer_size"] > 0:
        options["buffer_size"] = max(options["buffer_size"], LEAST_BUFFER)

    def made() -> PIIDetector:
        return PIIDetector(
            model, judge_failure=failure, retries=0, cache=None, hash_key=pii_rules.KEY, hash_length=pii_rules.DIGITS,
            on_detection=seen.append, parts=("text",), **options,
        )  # fmt: skip

    refused = constructed(made)
    if refused or given.method == "construct":
        return refused
    guard = made()
    if given.method == "redact_value":
        return {"text": redaction(guard).replacement(given.input["value"], given.input["type"])}
    if given.method == "detect_local":
        return local(guard, given.input["text"])
    workflow = Workflow("w").then(guard)
    fields = anyio.run(stages, workflow, given)
    if given.method == "verdict_schema":
        return asked(model)
    texts = [found[2] for request in model.requests if (found := FENCED.search(str(request.messages[-1].text)))]
    events = [{"strategyApplied": one.strategy, "flagged": one.flagged, "types": one.categories} for one in seen]
    return {**fields, "analyzed": texts, "llm_calls": len(model.requests), "detection_events": events}


def said(row: Fields) -> Fields:
    """Return a recorded verdict in our form: its values, or, where it names none, the types."""
    if not isinstance(row.get("object"), dict):
        return row
    verdict: Fields = row["object"]
    detections: list[Fields] = verdict.get("detections") or []
    categories: list[Fields] = verdict.get("categories") or []
    values = [{"type": one["type"], "value": one["value"], "score": one["confidence"]} for one in detections]
    types = [{"type": one["type"], "value": None, "score": one["score"]} for one in categories]
    return {"object": {"findings": values or types}}


async def stages(workflow: Workflow, given: Given) -> Fields:
    """Run the stage of the method on messages or chunks."""
    if given.method == "verdict_schema":
        await workflow.check("Who is this?")
        return {}
    if "chunks" in given.input:
        async with workflow.start() as run, run.process_output_stream(source(given.input["chunks"])) as chunks:
            return leaked(told_of_stream([piece async for piece in chunks]))
    messages: list[Message] = read(given.input["messages"])
    kind: Any = "input" if given.method == "process_input" else "response"
    outcome = await getattr(workflow.start(), given.method)(MessageList().add(messages, source=kind))
    return told(outcome) or {"messages": write(outcome.message_list)}


async def source(rows: list[Fields]) -> AsyncIterator[Chunk]:
    """Yield the chunks of recorded ones."""
    for row in rows:
        yield chunk(row)


def leaked(fields: Fields) -> Fields:
    """Add to a verdict what left of the text from the first thing found on; nothing may."""
    spans = fields.get("tripwire", {}).get("metadata", {}).get("spans", ())
    if spans:
        fields["tripwire"]["leaked"] = joined(fields["emitted"])[spans[0]["start"] :]
    return fields


def redaction(guard: PIIDetector) -> Redaction:
    """Return how a guard replaces values."""
    action: Any = guard.action
    return action.redaction


def local(guard: PIIDetector, text: str) -> Fields:
    """Return what patterns find in a text, and the text with it hidden."""
    found = PersonalData(DEFAULTS["detection_types"]).find(text)  # type: ignore[arg-type]
    rows: list[Fields] = []
    redacted = text
    for span in reversed(found):
        value = text[span.start : span.end]
        hides = redaction(guard).replacement(value, span.type)
        place = {"start": span.start, "end": span.end}
        rows.insert(0, {"type": span.type, "value": value, **place, "redacted_value": hides})
        redacted = redacted[: span.start] + hides + redacted[span.end :]
    return {"detections": rows, "redacted": redacted if rows else None}


def asked(model: ScriptedModel) -> Fields:
    """Return the form that a judge was asked for, and how."""
    request = model.requests[0]
    assert request.response_format is not None
    form: Any = request.response_format.schema
    return {"json_schema": thaw(form), "temperature": request.settings["temperature"]}


def same(fields: Fields) -> Fields:
    """Return the fields as they are."""
    return fields


def found(fields: Fields) -> Fields:
    """Of detections their order does not count."""
    fields["detections"] = sorted(fields["detections"], key=lambda one: (one["start"], one["end"]))
    return fields


def judged(fields: Fields) -> Fields:
    """Of messages the parts; of verdicts and events the types they name; whether a check failed.

    How text was cut on its way through a stream, and what was out when a verdict came, is a matter of time; what left
    from the first thing found on is compared.
    """
    if "error" in fields:
        return naming(*OPTIONS)(fields)
    if "tripwire" in fields:
        fields["tripwire"] = verdict(fields["tripwire"])
        fields.pop("emitted", None)
        fields.pop("text", None)
    if "messages" in fields:
        fields["messages"] = [shown(message) for message in fields["messages"]]
    if "emitted" in fields:
        fields["emitted"] = streamed(fields["emitted"])
    if "detection_events" in fields:
        events = [one for one in fields["detection_events"] if one["flagged"]]
        types = sorted({type for one in events for type in types_of(one)})
        fields["detection_events"] = [sorted({one["strategyApplied"] for one in events}), types]
    return fields


def types_of(event: Fields) -> list[str]:
    """Return the types that an event names."""
    result = event.get("detectionResult", {})
    return [*event.get("types", ()), *(one["type"] for one in result.get("detections") or ())]


def verdict(tripwire: Fields) -> Fields:
    """Return the types that a verdict names, whether it is about a failure, and whether it says how much was found."""
    reason = tripwire["reason"]
    counted = COUNT.search(reason) is not None
    named = TYPES.search(reason)
    types = sorted(filter(None, named[1].split(", "))) if named else []
    return {"types": types, "failed": "failed" in reason, "counted": counted, "leaked": tripwire.get("leaked", "")}


def shown(message: Fields) -> Fields:
    """Return a stored message without the flattened copy of its text."""
    return {"id": message["id"], "role": message["role"], "parts": message["content"]["parts"]}


def schema(fields: Fields) -> Fields:
    """Return the form without its titles and descriptions."""
    if "error" in fields:
        return naming(*OPTIONS)(fields)
    fields["json_schema"] = json.loads(json.dumps(fields["json_schema"]), object_hook=bare)
    return fields


def bare(form: Fields) -> Fields:
    """Return a piece of a form without what is only for readers."""
    return {name: it for name, it in form.items() if name not in ("description", "title", "additionalProperties")}


STAGES = ("process_input", "process_output_result", "stream_through_runner")
FAMILY = Family(
    files=("pii_detector",),
    run=run,
    projections={
        "redact_value": same,
        "detect_local": found,
        "verdict_schema": schema,
        **dict.fromkeys(STAGES, judged),
        "construct": naming(*OPTIONS),
    },
    spelling=spelt_as("stream_through_runner"),
    rules=(*pii_rules.RULES, *pii_local_rules.RULES),
    neutral=dict.fromkeys([(method, "logs") for method in STAGES], "how a log line is worded"),
    defaults=DEFAULTS,
    invented=pii_invented.rows,
)
