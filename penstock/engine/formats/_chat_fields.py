"""Fields beside the content of OpenAI chat messages: reasoning, refusal, sound; it knows no calls.

``reasoning_content``, ``reasoning`` and ``reasoning_details`` are what compatible providers send (DeepSeek, OpenRouter,
Groq, Ollama and others). They carry text, so they become parts, which guards read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._chat_parts import FORMAT
from penstock.engine.formats._copies import copied, rule_of
from penstock.engine.formats._notes import kept, notes_of, restored, unknown
from penstock.engine.formats.wire import Json, Value, expect_array, expect_object, is_empty, maybe_text
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import AudioPart, ReasoningPart, TextPart, UnknownPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Part

REASONING = ("reasoning_content", "reasoning")
_AUDIO_KEYS = frozenset({"data", "transcript"})
_DETAIL_KEYS = ("text", "summary")
_FIELDS: dict[type[Part], tuple[str, ...]] = {
    TextPart: ("content", "refusal"),
    ReasoningPart: ("reasoning_content", "reasoning", "reasoning_details", "content"),
    AudioPart: ("content", "audio"),
    UnknownPart: ("content", "reasoning_details", "tool_calls"),
}


def field_of(part: Part) -> str:
    """Return the message's field in which a part stands; the usual one, unless it was read from another."""
    fields = _FIELDS.get(type(part), ("content",))
    notes = notes_of(part, FORMAT)
    field = "content" if notes.get("type") == "thinking" else notes.get("field")
    return field if field in fields else fields[0]


def read_reasoning(item: Json, place: str) -> tuple[list[Part], Json]:
    """Return the parts of the reasoning fields, and notes on those that only repeat ``reasoning_details``.

    Raises:
        MessageError: one is malformed.
    """
    given = expect_array(item.get("reasoning_details") or [], f"{place}.reasoning_details")
    details = [_read_detail(detail, f"{place}.reasoning_details[{index}]") for index, detail in enumerate(given)]
    said = [part.text for part in details if isinstance(part, ReasoningPart)]
    parts: list[Part] = []
    notes: Json = {}
    for key in REASONING:
        text = maybe_text(item, key, place)
        rule = rule_of(said, text) if text else None
        if rule is not None:
            notes[key] = rule
        elif text:
            parts.append(ReasoningPart(text, kept(FORMAT, {"field": key if key != REASONING[0] else None})))
    return parts + details, notes


def _read_detail(value: Value, place: str) -> Part:
    detail = expect_object(value, place)
    for key in _DETAIL_KEYS:
        if isinstance(detail.get(key), str):
            notes = {"field": "reasoning_details", "key": key, "extra": unknown(detail, {key}, {key})}
            return ReasoningPart(detail[key], kept(FORMAT, notes))
    return UnknownPart(detail, kept(FORMAT, {"field": "reasoning_details"}))


def write_reasoning(parts: Sequence[Part], notes: Json) -> Json:
    """Return the reasoning fields of a message."""
    body: Json = {}
    details = [part for part in parts if field_of(part) == "reasoning_details"]
    if details:
        body["reasoning_details"] = [_write_detail(part) for part in details]
    said = [part.text for part in details if isinstance(part, ReasoningPart)]
    for key in REASONING:
        own = [part.text for part in parts if isinstance(part, ReasoningPart) and field_of(part) == key]
        if own:
            body[key] = "\n\n".join(own)
        elif said and key in notes:
            body[key] = copied(said, notes[key])
    return body


def _write_detail(part: Part) -> Value:
    if not isinstance(part, ReasoningPart):
        return thaw(part.raw) if isinstance(part, UnknownPart) else None
    notes = notes_of(part, FORMAT)
    key = notes["key"] if notes.get("key") in _DETAIL_KEYS else _DETAIL_KEYS[0]
    return restored({key: part.text}, notes, {key})


def read_spoken(item: Json, place: str) -> list[Part]:
    """Return a message's refusal and sound.

    Raises:
        MessageError: one is malformed.
    """
    refusal = maybe_text(item, "refusal", place)
    parts: list[Part] = [TextPart(refusal, kept(FORMAT, {"field": "refusal"}))] if refusal else []
    if not is_empty(item.get("audio")):
        audio = expect_object(item["audio"], f"{place}.audio")
        data, transcript = (maybe_text(audio, key, f"{place}.audio") for key in ("data", "transcript"))
        metadata = kept(FORMAT, {"field": "audio", "extra": unknown(audio, _AUDIO_KEYS)})
        parts.append(AudioPart(data=data, transcript=transcript, metadata=metadata))
    return parts


def write_spoken(parts: Sequence[Part]) -> Json:
    """Return refusal and sound of a message."""
    body: Json = {}
    refusals = [part.text for part in parts if isinstance(part, TextPart) and field_of(part) == "refusal"]
    if refusals:
        body["refusal"] = "\n".join(refusals)
    for part in parts:
        if isinstance(part, AudioPart) and field_of(part) == "audio":
            said = {"data": part.data, "transcript": part.transcript}
            given = {key: value for key, value in said.items() if value is not None}
            body["audio"] = restored(given, notes_of(part, FORMAT), _AUDIO_KEYS)
    return body
