"""OpenAI's responses as a provider would send them: a whole one, and the stream that spells it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
Event = tuple[str, Json]
Cut = "Callable[[str], list[str]]"

PARTS = {
    "output_text": ("text", "response.output_text", "response.content_part", "content_index"),
    "refusal": ("refusal", "response.refusal", "response.content_part", "content_index"),
    "reasoning_text": ("text", "response.reasoning_text", "response.content_part", "content_index"),
    "summary_text": ("text", "response.reasoning_summary_text", "response.reasoning_summary_part", "summary_index"),
}
CALLS = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "mcp_call": ("arguments", "response.mcp_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
    "code_interpreter_call": ("code", "response.code_interpreter_call_code"),
}


def response(output: list[Json], status: str = "completed", **more: Any) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5",
        "output": output,
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "usage": None if status == "in_progress" else {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        **more,
    }


def message(*texts: str, id: str = "msg_1", **more: Any) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    return {"id": id, "type": "message", "status": "completed", "role": "assistant", "content": content, **more}


def in_two(text: str) -> list[str]:
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]


def stream_of(whole: Json, cut: Any = in_two) -> list[Event]:
    """Return the events that spell a response; ``cut`` cuts a text into deltas."""
    made: list[Event] = []

    def add(kind: str, **fields: Any) -> None:
        made.append((kind, {"type": kind, **copy.deepcopy(fields), "sequence_number": len(made)}))

    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    add("response.created", response=begun)
    add("response.in_progress", response=begun)
    for place, item in enumerate(whole["output"]):
        for kind, fields in _item_events(item, cut):
            add(kind, **fields, output_index=place)
    add(f"response.{whole['status']}", response=whole)
    return made


def _item_events(item: Json, cut: Any) -> Iterator[Event]:
    begun = {**item, "status": "in_progress"}
    parts = {key: item[key] for key in ("summary", "content") if isinstance(item.get(key), list)}
    begun |= {key: [] for key in parts}
    key, call = CALLS.get(item["type"], ("", ""))
    if call:
        begun[key] = ""
    yield "response.output_item.added", {"item": begun}
    own = {"item_id": item["id"]}
    for entries in parts.values():
        for index, part in enumerate(entries):
            yield from _part_events(part, index, own, cut)
    if call:
        for piece in cut(item[key]):
            yield f"{call}.delta", {**own, "delta": piece}
        yield f"{call}.done", {**own, key: item[key]}
    yield "response.output_item.done", {"item": item}


def _part_events(part: Json, index: int, own: Json, cut: Any) -> Iterator[Event]:
    key, text, event, place = PARTS[part["type"]]
    where = {**own, place: index}
    tokens: Json = {"logprobs": []} if part["type"] == "output_text" else {}
    empty = {**part, key: "", **({"annotations": [], "logprobs": []} if tokens else {})}
    yield f"{event}.added", {**where, "part": empty}
    for piece in cut(part[key]):
        yield f"{text}.delta", {**where, "delta": piece, **tokens, "obfuscation": "a1B2c3"}
    for number, annotation in enumerate(part.get("annotations", [])):
        yield f"{text}.annotation.added", {**where, "annotation_index": number, "annotation": annotation}
    yield f"{text}.done", {**where, key: part[key], **({"logprobs": part["logprobs"]} if tokens else {})}
    yield f"{event}.done", {**where, "part": part}
