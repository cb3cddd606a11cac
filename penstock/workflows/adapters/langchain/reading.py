"""Answers of a chat model as chunks, and as parts.

The data beside the texts and calls of an answer, such as citations, is one data part, which guards can edit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from pydantic_core import to_jsonable_python

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze
from penstock.engine.values.messages import DataPart, FilePart, ReasoningPart, TextPart, ToolPart
from penstock.formats.wire import without_empty
from penstock.workflows.adapters.langchain.blocks import (
    BlockPlace,
    are_counts,
    body_of,
    extras_of,
    key_of,
    listed,
    text_places,
    texts_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_core.outputs import ChatGeneration

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Json, Value

EXTRAS = "langchain-extras"
"""The name of the data part with what stands beside an answer."""
REASONING_FIELD = "reasoning_content"
CALLS_FIELD = "tool_calls"
"""The field with the calls of the message once more, in the provider's form."""
PLAIN_FACTS = frozenset(
    {
        "model_name",
        "model",
        "model_provider",
        "finish_reason",
        "stop_reason",
        "done_reason",
        "id",
        "created",
        "created_at",
        "object",
        "status",
        "service_tier",
        "system_fingerprint",
        "output_version",
    }
)
"""What providers report that repeats nothing of an answer; logprobs, for example, do."""


class LangChainAnswerReader:
    """Reads one answer of the inner model.

    Attributes:
        whole: the answer, when it was read.
        places: where its texts stand, by the ids of their chunks; a text that is not here is the content itself.
    """

    def __init__(self) -> None:
        self.whole: AIMessageChunk | None = None
        self.places: dict[str, BlockPlace] = {}
        self._begun: dict[str, str] = {}

    def read(self, generation: ChatGeneration) -> Iterator[Chunk]:
        """Yield the texts of a piece of the answer, or of a whole one."""
        message = generation.message
        told = {**(generation.generation_info or {}), **message.response_metadata}
        if not isinstance(message, AIMessageChunk):
            message = _as_chunk(cast("AIMessage", message))
        message = message.model_copy(update={"response_metadata": told})
        self.whole = message if self.whole is None else self.whole + message
        for kind, id, place, text in texts_in(message):
            if place is not None:
                self.places[id] = place
            if not text:
                continue
            if id not in self._begun:
                self._begun[id] = kind
                yield Chunk(f"{kind}-start", id=id)
            yield Chunk(f"{kind}-delta", text, id)

    def rest(self) -> Iterator[Chunk]:
        """Yield everything but the texts that were shown as they came, and the finish."""
        for id, kind in self._begun.items():
            yield Chunk(f"{kind}-end", id=id)
        whole = self.whole
        if whole is None:
            return
        told = whole.response_metadata
        yield Chunk("response-metadata", payload={"model": told.get("model_name") or told.get("model"), "id": whole.id})
        for file in _files(whole):
            yield Chunk("file", payload={"data": file.data, "media_type": file.media_type})
        extras = extras_in(whole)
        if extras:
            yield Chunk(f"data-{EXTRAS}", payload={"data": freeze(extras)})
        for call in _calls(whole):
            payload = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
            yield Chunk("tool-call", id=call.call_id, payload=payload)
        yield Chunk("finish", payload={"reason": _reason(whole), "usage": _usage(whole)})


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    fields: Json = {name: getattr(message, name) for name in AIMessage.model_fields}
    calls = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=number)
        for number, call in enumerate(message.tool_calls)
    ]
    broken = [
        tool_call_chunk(name=call["name"], args=call["args"], id=call["id"], index=len(calls) + number)
        for number, call in enumerate(message.invalid_tool_calls)
    ]
    given: Value = {**fields, "tool_calls": [], "invalid_tool_calls": [], "tool_call_chunks": [*calls, *broken]}
    return AIMessageChunk(**{name: item for name, item in given.items() if name != "type"})


# What an answer says


def parts_of(message: AIMessage) -> list[Part]:
    """Return the content of an answer, as parts."""
    texts: list[Part] = [
        ReasoningPart(text) if kind == "reasoning" else TextPart(text) for kind, _, _, text in texts_in(message) if text
    ]
    extras = extras_in(message)
    data = [DataPart(EXTRAS, freeze(extras))] if extras else []
    return [*texts, *_files(message), *data, *_calls(message)]


def texts_in(message: AIMessage) -> Iterator[tuple[str, str, BlockPlace | None, str]]:
    """Yield the kind, the id of the chunks, the place and the text of each text."""
    reasoning = message.additional_kwargs.get(REASONING_FIELD)
    if isinstance(reasoning, str) and reasoning:
        yield "reasoning", REASONING_FIELD, None, reasoning
    for number, block in enumerate(listed(message.content)):
        if isinstance(block, str):
            yield "text", "text", None, block
            continue
        for kind, place, text in text_places(block, number):
            yield kind, place.id, place, text


def extras_in(message: AIMessage) -> Json:
    """Return the texts that an answer holds beside its own: in blocks by their index, and in fields by their name."""
    beside = {key_of(block, number): extras_of(block) for number, block in enumerate(listed(message.content))}
    held = {
        "content": without_empty(beside),
        "additional_kwargs": texts_of(message.additional_kwargs, {REASONING_FIELD, CALLS_FIELD}),
        "response_metadata": texts_of(message.response_metadata, {*PLAIN_FACTS, "logprobs", *_counts(message)}),
    }
    return without_empty(held)


def _counts(message: AIMessage) -> set[str]:
    told = message.response_metadata
    return {name for name in ("token_usage", "usage") if name in told and are_counts(told[name])}


def said_in(parts: Iterable[Part]) -> tuple[object, ...]:
    """Return what parts say, however the text is cut into pieces, but for the data part."""
    held = list(parts)
    texts = "".join(part.text for part in held if isinstance(part, TextPart))
    reasoning = "".join(part.text for part in held if isinstance(part, ReasoningPart))
    calls = [(part.call_id, part.name, part.arguments) for part in held if isinstance(part, ToolPart)]
    return texts, reasoning, calls, [part.data for part in held if isinstance(part, FilePart)]


def _files(message: AIMessage) -> Iterator[FilePart]:
    for block in listed(message.content):
        if (body := body_of(block)) is not None:
            yield FilePart(body, media_type=block.get("mime_type"))


def _calls(message: AIMessage) -> Iterator[ToolPart]:
    for call in message.tool_calls:
        yield ToolPart(call["id"] or "", call["name"], freeze(to_jsonable_python(call["args"], fallback=str)))
    for broken in message.invalid_tool_calls:
        yield ToolPart(broken["id"] or "", broken["name"] or "", broken["args"] or "")


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
