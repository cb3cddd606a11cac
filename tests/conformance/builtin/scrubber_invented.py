"""Rows for the scrubber as others may have been recorded; what the reference does is after its spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS: Fields = {
    "strategy": "redact",
    "custom_patterns": [],
    "include_detections": False,
    "redaction_method": "mask",
    "placeholder_text": "[SYSTEM_PROMPT]",
    "last_message_only": False,
    "error_strategy": "warn",
}
TEXT = "My rules are: be terse. Bye."


def answer(*parts: Fields | str, id: str = "a1") -> Fields:
    """Return a stored answer."""
    made = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"id": id, "role": "assistant", "content": {"format": 2, "parts": made}}


def says(*found: tuple[str, str, int, int], **more: Any) -> Fields:
    """Return a judge's verdict."""
    detections = [{"type": type, "value": value, "confidence": 0.9, "start": start, "end": end, "redacted_value": None}
                  for type, value, start, end in found]  # fmt: skip
    return {"object": {"detections": detections, "reason": None, "redacted_content": None, **more}}


def whole(name: str, options: Fields, sent: list[Fields], script: list[Fields], **expected: Any) -> Row:
    """Return a row of a finished answer."""
    given = {"method": "process_output_result", "messages": sent, "model_script": script}
    return Row("system_prompt_scrubber", name, Given({**DEFAULTS, **options}, given), expected)


def stream(name: str, options: Fields, texts: list[str], script: list[Fields], **expected: Any) -> Row:
    """Return a row of a stream."""
    chunks = [{"type": "text-delta", "runId": "r", "from": "AGENT", "payload": {"id": "t1", "text": text}}
              for text in texts]  # fmt: skip
    given = {"method": "process_output_stream", "chunks": chunks, "model_script": script}
    return Row("system_prompt_scrubber", name, Given({**DEFAULTS, **options}, given), expected)


def rows() -> Sequence[Row]:
    """Return them all."""
    found = says(("system-prompt", "be terse", 14, 22))
    named = {"reason": "System prompt detected: system-prompt"}
    return [
        whole("it blocks", {"strategy": "block"}, [answer(TEXT)], [found],
              tripwire=named, llm_calls=1, analyzed=[TEXT], logs=[]),
        whole("it filters", {"strategy": "filter"}, [answer(TEXT)], [found],
              messages=[], llm_calls=1, analyzed=[TEXT], logs=[]),
        whole("it removes", {"redaction_method": "remove"}, [answer(TEXT)], [found],
              messages=[answer("My rules are: . Bye.")], llm_calls=1, analyzed=[TEXT], logs=[]),
        whole("overlaps are one", {}, [answer(TEXT)],
              [says(("system-prompt", "rules are: be terse", 3, 22), ("instructions", "be terse. Bye", 14, 27))],
              messages=[answer("My *******************")], llm_calls=1, analyzed=[TEXT], logs=[]),
        whole("a failure passes", {}, [answer(TEXT)], [{"error": "boom"}],
              messages=[answer(TEXT)], llm_calls=1, analyzed=[TEXT], logs=[]),
        whole("a failure stops", {"error_strategy": "strict"}, [answer(TEXT)], [{"error": "boom"}],
              tripwire={"reason": "System prompt detection failed because the internal model call failed"},
              llm_calls=1, analyzed=[TEXT], logs=[]),
        whole("equal texts", {}, [answer(TEXT), {**answer(TEXT), "id": "a2"}], [says()],
              messages=[answer(TEXT), {**answer(TEXT), "id": "a2"}], llm_calls=2, analyzed=[TEXT, TEXT], logs=[]),
        whole("patterns are prose", {"custom_patterns": [r"ACME-\d+"]}, [answer("It is ACME-42.")], [says()],
              messages=[answer("It is ACME-42.")], llm_calls=1, analyzed=["It is ACME-42."], logs=[]),
        whole("a blank answer is not judged", {}, [answer(" ")], [found],
              messages=[answer(" ")], llm_calls=0, analyzed=[], logs=[]),
        stream("what is split is missed", {}, ["My rules are: be te", "rse. Bye."], [says(), says()],
               returns=[{"type": "text-delta", "payload": {"id": "t1", "text": text}}
                        for text in ("My rules are: be te", "rse. Bye.")],
               llm_calls=2, analyzed=["My rules are: be te", "rse. Bye."], logs=[]),
        stream("a stream is redacted", {}, ["be terse"], [says(("system-prompt", "be terse", 0, 8))],
               returns=[{"type": "text-delta", "payload": {"id": "t1", "text": "********"}}],
               llm_calls=1, analyzed=["be terse"], logs=[]),
        Row("system_prompt_scrubber", "a form for warnings",
            Given({**DEFAULTS, "strategy": "warn"}, {"method": "verdict_schema"}),
            {"json_schema": {"type": "object"}, "temperature": None}),
    ]  # fmt: skip
