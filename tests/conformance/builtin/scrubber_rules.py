"""Where `SystemPromptScrubber` differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.conformance.builtin.calls import equal_texts_are_asked_about_once
from tests.conformance.builtin.frame import Fields

Span = tuple[int, int, str]

KINDS = {"system-prompt", "instructions", "system-structure", "canary"}


class Reading(NamedTuple):
    """What is found in a text: where, what stands nowhere, what the judge was shown, whether it failed."""

    spans: list[Span]
    lost: list[str]
    shown: list[str]
    failed: bool


def windows(text: str) -> Iterator[tuple[int, str]]:
    """Yield the pieces that a judge is asked about, cut behind sentences, with their places."""
    start = 0
    for found in re.finditer(r"[.!?\u2026]['\")\]]{0,3}\s|\n", text):
        if found.end() - start >= 40:
            yield start, text[start : found.end()]
            start = found.end()
    if text[start:].strip():
        yield start, text[start:]


def places(value: str | None, text: str) -> list[tuple[int, int]]:
    """Return where a value stands, as a word if it does."""
    words = r"\s+".join(map(re.escape, (value or "").split()))
    for pattern in (rf"(?<!\w){words}(?!\w)", words) if words else ():
        if found := [one.span() for one in re.finditer(pattern, text, re.IGNORECASE)]:
            return found
    return []


def entries(entry: Fields) -> tuple[list[tuple[str, str | None]], bool]:
    """Return the types and values that a judge names, and whether its verdict is none."""
    verdict = entry.get("object")
    if (
        not isinstance(verdict, dict)
        or not isinstance(verdict.get("detections", 0) or [], list)
        or "detections" not in verdict
    ):
        return [], True
    rows: list[Any] = verdict.get("detections") or []
    good = [one for one in rows if isinstance(one, dict) and isinstance(one.get("value", 0), str | None)]
    good = [one for one in good if isinstance(one.get("confidence", 1), int | float)]
    named = [(str(one.get("type", "")).strip().lower().replace("_", "-").replace(" ", "-"), one) for one in good]
    return [(name if name in KINDS else "system-prompt", one["value"]) for name, one in named], bool(rows) > bool(good)


def read(options: Fields, text: str, script: Iterator[Fields]) -> Reading:
    """Return what is found in a text by patterns, and by a judge who is asked about each piece of it."""
    spans = [(*found.span(), f"custom-pattern-{number}")
             for number, pattern in enumerate(options["custom_patterns"], 1)
             for found in re.finditer(pattern, text)]  # fmt: skip
    lost, shown, failed = list[str](), list[str](), False
    for start, piece in windows(text):
        view = text[max(start - 200, 0) : start + len(piece)]
        shown.append(view)
        said, broken = entries(next(script))
        failed = failed or broken
        for type, value in said:
            spans += [(low + start, high + start, type) for low, high in places(value, piece)]
            lost += [type] * (not places(value, view))
    return Reading(sorted(spans), lost, shown, failed)


def script_of(given: Fields) -> Iterator[Fields]:
    """Yield what the judge says, the last of it again and again."""
    rows = given.get("model_script") or [{}]
    yield from rows
    while True:
        yield rows[-1]


def united(spans: Sequence[Span]) -> list[Span]:
    """Return stretches that do not overlap."""
    made: list[Span] = []
    for start, end, type in spans:
        if made and start < made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]), made[-1][2])
        else:
            made.append((start, end, type))
    return made


def hides(options: Fields, size: int) -> str:
    """Return what stands in place of a stretch."""
    return {"mask": "*" * size, "placeholder": options["placeholder_text"], "remove": ""}[options["redaction_method"]]


def edited(options: Fields, text: str, reading: Reading) -> str:
    """Return what is left of a text."""
    if options["strategy"] == "filter" and (reading.spans or reading.lost):
        cuts = list(windows(text))
        return "".join(piece for low, piece in cuts if not taken(reading, low, low + len(piece)))
    if options["strategy"] == "redact":
        for start, end, _ in reversed(united(reading.spans)):
            text = text[:start] + hides(options, end - start) + text[end:]
    return text


def taken(reading: Reading, low: int, high: int) -> bool:
    """Tell whether something was found in a sentence; what stands nowhere may stand in any."""
    return bool(reading.lost) or any(start < high and low < end for start, end, _ in reading.spans)


def told(options: Fields, readings: Sequence[Reading]) -> Fields:
    """Return what is told about texts, with a verdict if it comes to one."""
    types = sorted(
        {span[2] for one in readings for span in one.spans} | {type for one in readings for type in one.lost}
    )
    named = ", ".join(types)
    counted = "1 found, " if options["include_detections"] else ""
    fields: Fields = {
        "analyzed": [piece for one in readings for piece in one.shown],
        "llm_calls": sum(len(one.shown) for one in readings),
        "logs": [{"text": f"found in x: {counted}{named}"}] if types and options["strategy"] == "warn" else [],
    }
    if any(one.failed for one in readings):
        return {
            **fields,
            "logs": [],
            **({"tripwire": {"reason": "failed"}} if options["error_strategy"] == "strict" else {}),
        }
    stuck = options["strategy"] == "redact" and any(one.lost for one in readings)
    if stuck or (types and options["strategy"] == "block"):
        fields["tripwire"] = {"reason": f"may not pass: {named}"}
    return fields


def parts_of(message: Fields) -> list[Fields]:
    """Return a stored message's parts; its flattened text alone is one."""
    content = message["content"]
    return content.get("parts") or [{"type": "text", "text": content["content"]}]


def what_is_named_is_searched_for(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Values, not places; each part is rewritten in place; patterns are run; entries are read one by one."""
    if given["method"] != "process_output_result":
        return None
    script, readings, messages = script_of(given), list[Reading](), list[Fields]()
    for index, message in enumerate(given["messages"]):
        passed = message["role"] == "system" or (options["last_message_only"] and index < len(given["messages"]) - 1)
        parts = list[Fields]()
        for part in parts_of(message):
            if passed or part["type"] != "text":
                parts.append(part)
                continue
            readings.append(reading := read(options, part["text"], script))
            parts.append({**part, "text": edited(options, part["text"], reading)})
        messages.append({**message, "content": {"format": 2, "parts": parts}})
    new = told(options, readings)
    kept = given["messages"] if any(one.failed for one in readings) else messages
    return {name: it for name, it in expected.items() if name not in ("messages", "tripwire", *new)} | (
        new if "tripwire" in new else {**new, "messages": kept}
    )


def a_stream_says_what_the_whole_would(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Chunks are read as one text; nothing leaves before it is judged."""
    if given["method"] != "process_output_stream":
        return None
    text = "".join(row["payload"]["text"] for row in given["chunks"] if row["type"] == "text-delta")
    reading = read(options, text, script_of(given))
    new = told(options, [reading])
    rest = {name: it for name, it in expected.items() if name not in ("returns", *new)}
    return {**rest, **new} if "tripwire" in new else {
        **rest, **new, "out": text if reading.failed else edited(options, text, reading),
    }  # fmt: skip


def no_model_is_needed(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What shows the prompt is found by comparing with it."""
    return {"made": True} if given["method"] == "construct" and "model" in expected.get("error", "") else None


def the_judge_is_asked_for_values(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Not for places or the text again; fenced; at temperature 0; patterns are not its business."""
    if given["method"] != "verdict_schema":
        return None
    score = {"type": "number", "minimum": 0, "maximum": 1}
    value = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    form = {
        "type": "object",
        "properties": {"findings": {"type": "array", "items": {"$ref": "#/$defs/LeakEntry"}}},
        "required": ["findings"],
        "$defs": {
            "LeakEntry": {
                "type": "object",
                "properties": {"type": {"type": "string"}, "value": value, "score": score},
                "required": ["type", "value", "score"],
            }
        },
    }
    asks = {"custom_patterns_only_in_prompt": False, "content_sent_raw_as_user_message": False}
    return {
        **expected,
        "json_schema": form,
        "temperature": 0,
        **{name: it for name, it in asks.items() if name in expected},
    }


RULES: tuple[Callable[[Fields, Fields, Fields], Fields | None], ...] = (
    what_is_named_is_searched_for,
    a_stream_says_what_the_whole_would,
    no_model_is_needed,
    the_judge_is_asked_for_values,
    equal_texts_are_asked_about_once,
)
