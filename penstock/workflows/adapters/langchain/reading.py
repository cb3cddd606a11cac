"""Answers of a chat model as chunks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from pydantic_core import to_jsonable_python

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.workflows.adapters.langchain.blocks import (
    REASONING_FIELD,
    TextPlace,
    as_json,
    beside,
    is_other,
    is_other_field,
    listed,
    text_places,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_core.outputs import ChatGeneration

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Part


class AnswerReader:
    """Reads one answer of the inner model.

    Attributes:
        whole: the answer, when it was read.
        places: where its texts stand, by the ids of their chunks; a text that is not here is the content itself.
    """

    def __init__(self) -> None:
        self.whole: AIMessageChunk | None = None
        self.places: dict[str, TextPlace] = {}
        self._begun: dict[str, str] = {}

    def read(self, generation: ChatGeneration) -> Iterator[Chunk]:
        """Yield the texts of a piece of the answer, or of a whole one."""
        message = generation.message
        told = {**(generation.generation_info or {}), **message.response_metadata}
        if not isinstance(message, AIMessageChunk):
            message = _as_chunk(cast("AIMessage", message))
        message = message.model_copy(update={"response_metadata": told})
        self.whole = message if self.whole is None else self.whole + message
        for kind, id, text in self.texts(message):
            if id not in self._begun:
                self._begun[id] = kind
                yield Chunk(f"{kind}-start", id=id)
            yield Chunk(f"{kind}-delta", text, id)

    def rest(self) -> Iterator[Chunk]:
        """Yield what is no text that was shown as it came, and the finish."""
        for id, kind in self._begun.items():
            yield Chunk(f"{kind}-end", id=id)
        whole = self.whole
        if whole is None:
            return
        told = whole.response_metadata
        yield Chunk("response-metadata", payload={"model": told.get("model_name") or told.get("model"), "id": whole.id})
        for raw in self.others():
            yield Chunk("raw", payload={"provider_part": freeze(raw)})
        for call in whole.tool_calls:
            yield _call(call["id"], call["name"], to_jsonable_python(call["args"], fallback=str))
        for broken in whole.invalid_tool_calls:
            yield _call(broken["id"], broken["name"] or "", broken["args"] or "")
        yield Chunk("finish", payload={"reason": _reason(whole), "usage": _usage(whole)})

    def others(self) -> list[Any]:
        """Return what the answer holds beside texts and calls, as JSON."""
        if self.whole is None:
            return []
        content = listed(self.whole.content)
        blocks = [block for block in content if is_other(block)]
        extras = [{"beside": found} for block in content if (found := beside(block))]
        fields = {name: item for name, item in self.whole.additional_kwargs.items() if is_other_field(name, item)}
        return list(map(as_json, [*blocks, *extras, *([fields] if fields else [])]))

    def texts(self, message: AIMessageChunk) -> Iterator[tuple[str, str, str]]:
        """Yield the kind, the id and the text of each piece."""
        reasoning = message.additional_kwargs.get(REASONING_FIELD)
        if isinstance(reasoning, str) and reasoning:
            yield "reasoning", REASONING_FIELD, reasoning
        for number, block in enumerate(listed(message.content)):
            if isinstance(block, str):
                yield "text", "text", block
                continue
            for kind, place, text in text_places(block, number):
                self.places[place.id] = place
                if text:
                    yield kind, place.id, text


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    fields: dict[str, Any] = {name: getattr(message, name) for name in AIMessage.model_fields}
    calls = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=number)
        for number, call in enumerate(message.tool_calls)
    ]
    broken = [
        tool_call_chunk(name=call["name"], args=call["args"], id=call["id"], index=len(calls) + number)
        for number, call in enumerate(message.invalid_tool_calls)
    ]
    given: Any = {**fields, "tool_calls": [], "invalid_tool_calls": [], "tool_call_chunks": [*calls, *broken]}
    return AIMessageChunk(**{name: item for name, item in given.items() if name != "type"})


def parts_of(reader: AnswerReader) -> list[Part]:
    """Return what the model said, as parts."""
    whole = reader.whole
    if whole is None:
        return []
    texts: list[Part] = [
        ReasoningPart(text) if kind == "reasoning" else TextPart(text) for kind, _, text in reader.texts(whole)
    ]
    return [*texts, *_model_calls(whole)]


def _model_calls(whole: AIMessageChunk) -> Iterator[ToolPart]:
    for call in whole.tool_calls:
        yield ToolPart(call["id"] or "", call["name"], freeze(to_jsonable_python(call["args"], fallback=str)))
    for broken in whole.invalid_tool_calls:
        yield ToolPart(broken["id"] or "", broken["name"] or "", broken["args"] or "")


def said_in(parts: Iterable[Part]) -> tuple[object, ...]:
    """Return what parts say, however the text is cut into pieces."""
    held = list(parts)
    texts = "".join(part.text for part in held if isinstance(part, TextPart))
    reasoning = "".join(part.text for part in held if isinstance(part, ReasoningPart))
    calls = [(part.call_id, part.name, part.arguments) for part in held if isinstance(part, ToolPart)]
    return texts, reasoning, calls


def _call(id: str | None, name: str, arguments: Value) -> Chunk:
    payload = {"call_id": id or "", "name": name, "arguments": freeze(arguments)}
    return Chunk("tool-call", id=id or "", payload=payload)


_REASONS = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "safety": "content-filter",
}


def _reason(message: AIMessage) -> str:
    """Return why an answer ended. Not every model says; then it is ``tool-calls`` or ``stop``."""
    told = message.response_metadata
    raw = told.get("finish_reason") or told.get("stop_reason") or told.get("done_reason")
    if isinstance(raw, str):
        return _REASONS.get(raw.lower(), "other")
    return "tool-calls" if message.tool_calls else "stop"


def _usage(message: AIMessage) -> Values | None:
    used = message.usage_metadata
    if used is None:
        return None
    return {
        "input_tokens": used["input_tokens"],
        "output_tokens": used["output_tokens"],
        "cached_tokens": used.get("input_token_details", {}).get("cache_read"),
        "reasoning_tokens": used.get("output_token_details", {}).get("reasoning"),
    }
