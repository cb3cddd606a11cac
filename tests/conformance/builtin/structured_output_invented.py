"""Rows on objects of answers as others may have been recorded; what the reference does is after its spec.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS: Fields = {"error_strategy": "strict"}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "temp": {"type": "number"}},
    "required": ["city", "temp"],
}
PARIS = {"city": "Paris", "temp": 21}
UNKNOWN = {"city": "unknown", "temp": 0}
FAILED = {"tripwire": {"retry": True, "reason_prefix": "Structuring failed"}}
ERROR = [{"level": "error", "text": "Structuring failed"}]


def text(said: str) -> Fields:
    """Return a piece of text."""
    return {"type": "text-delta", "runId": "r", "from": "AGENT", "payload": {"id": "t1", "text": said}}


def end(reason: str = "stop") -> Fields:
    """Return the end of an answer."""
    return {"type": "finish", "runId": "r", "from": "AGENT", "payload": {"finishReason": reason}}


def sent(data: Any, **metadata: Any) -> Fields:
    """Return what the reference tells of the last object."""
    return {"type": "object-result", "object": data, "metadata": {"from": "structured-output", **metadata}}


def streamed(name: str, options: Fields, chunks: Sequence[Fields], script: Sequence[Fields], **expected: Any) -> Row:
    """Return a row on a stream; what the reference does by default is to make one object of one call."""
    given = {"method": "stream_then_output_step", "chunks": list(chunks), "model_script": list(script)}
    said = "".join(row["payload"].get("text", "") for row in chunks)
    usual = {
        "returns": ["emit"] * len(chunks),
        "last_object": sent(PARIS),
        "object_chunk_types": ["object", "object-result"],
        "output_step": "pass",
        "llm_calls": 1,
        "prompt_sections": f"# Assistant Response\n{said}",
        "logs": [],
    }
    complete = {**DEFAULTS, "schema": SCHEMA, **options}
    return Row("structured_output", name, Given(complete, given), {**usual, **expected})


def built(name: str, options: Fields, **expected: Any) -> Row:
    """Return a row on the constructor."""
    return Row("structured_output", name, Given({**DEFAULTS, **options}, {"method": "construct"}), expected)


def rows() -> Sequence[Row]:
    """Return the rows."""
    fallback = {"error_strategy": "fallback", "fallback_value": UNKNOWN}
    none = {"last_object": None, "object_chunk_types": []}
    odd: list[Fields] = [{"text": "not json"}]
    fixed: list[Fields] = [{"object": {"city": "Paris"}}, {"object": PARIS}]
    two_calls = [text("Let me see."), end("tool-calls")]
    return [
        built("no model", {"schema": SCHEMA}, error="StructuredOutputProcessor requires a model"),
        built("no model and no fallback", {"schema": SCHEMA, "error_strategy": "fallback"}, error="requires a model"),
        streamed("a fallback", fallback, [text("x"), end()], odd, last_object=sent(UNKNOWN, fallback=True),
                 object_chunk_types=["object-result"]),
        streamed("no fallback", {"error_strategy": "fallback"}, [text("x"), end()], odd, **none),
        streamed("an odd fallback", {**fallback, "fallback_value": {"city": 1}}, [text("x"), end()], odd,
                 last_object=sent({"city": 1}, fallback=True), object_chunk_types=["object-result"]),
        streamed("the model breaks", {}, [text("x"), end()], [{"error": "down"}], **none, output_step=FAILED,
                 logs=ERROR),
        streamed("the second attempt fits", {}, [text("x"), end()], fixed, last_object={"type": "object", "object": {}},
                 object_chunk_types=["object"], output_step=FAILED, logs=ERROR),
        streamed("the answer is the object", {}, [text('{"city": "Rome", '), text('"temp": 3}'), end()],
                 [{"object": PARIS}]),
        streamed("tools are called", {}, two_calls, [{"object": PARIS}]),
        streamed("tools are called in vain", {}, two_calls, odd, **none, output_step=FAILED, logs=ERROR),
        streamed("a warning", {"error_strategy": "warn"}, [text("x"), end()], [{"error": "down"}], **none,
                 logs=[{"level": "warn", "text": "failed"}]),
    ]  # fmt: skip
