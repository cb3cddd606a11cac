"""Answers of a chat model as chunks, and as parts: the places of texts in blocks, the data beside them, and the calls.

The data beside the texts and calls of an answer, such as citations, is one data part, which guards can edit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from pydantic_core import to_jsonable_python

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import DataPart, FilePart, ReasoningPart, TextPart, ToolPart
from penstock.formats.wire import has_text, is_array, is_object, without_empty

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages.content import InvalidToolCall
    from langchain_core.outputs import ChatGeneration

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Json, Value


@dataclass(frozen=True)
class BlockPlace:
    """Where a text stands in the blocks of LangChain's messages.

    Attributes:
        block: the type of the block.
        key: the key that holds the text, or the list of texts.
        index: the index of the block in the content.
        number: the index of the text in that list; None where the key holds the text.
    """

    block: str
    key: str
    index: Value
    number: Value = None

    @property
    def id(self) -> str:
        """The id of the text's chunks."""
        return f"{self.block}-{self.index}" if self.number is None else f"{self.block}-{self.index}-{self.number}"

    def holding(self, text: str) -> Json:
        """Return a block with a piece of the text."""
        listed = [{"type": "summary_text", "text": text, "index": self.number}]
        return {"type": self.block, self.key: text if self.number is None else listed, "index": self.index}


def text_places(block: Value, number: int) -> list[tuple[str, BlockPlace, str]]:
    """Return the kind, the place and the text of each text in a block; none for blocks of other kinds."""
    if not isinstance(block, dict):
        return []
    given = cast("Json", block)
    kind, index = given.get("type"), given.get("index", number)
    if kind == "text" and isinstance(given.get("text"), str):
        return [("text", BlockPlace("text", "text", index), given["text"])]
    for name in ("thinking", "reasoning"):
        if kind == name and isinstance(given.get(name), str):
            return [("reasoning", BlockPlace(name, name, index), given[name])]
    listed: Sequence[Value] = given["summary"] if kind == "reasoning" and is_array(given.get("summary")) else ()
    return [
        ("reasoning", BlockPlace("reasoning", "summary", index, one.get("index", place)), one["text"])
        for place, one in enumerate(listed)
        if is_object(one) and isinstance(one.get("text"), str)
    ]


def listed(content: str | list[Value]) -> list[Value]:
    """Return a content as a list of texts and blocks."""
    return ([content] if content else []) if isinstance(content, str) else content


def key_of(block: Value, number: int) -> str:
    """Return what names a block in its content: its index, which it keeps wherever it is, or else where it stands."""
    return str(block.get("index", number) if is_object(block) else number)


def in_order(content: str | list[Value]) -> str | list[Value]:
    """Return blocks in the order of their indexes, if each has one: in a stream, texts leave before other blocks."""
    blocks = listed(content)
    if all(is_object(block) and isinstance(block.get("index"), int) for block in blocks) and blocks:
        return sorted(blocks, key=lambda block: block["index"])
    return content


# What stands beside the texts


def extras_of(block: Value) -> Json:
    """Return the data with texts that a block holds beside its text, or beside the call that it repeats, as JSON.

    Of other blocks, that is all but their type, and what their provider alone can read.
    """
    if not is_object(block) or is_sealed(block):
        return {}
    places = text_places(block, 0)
    known = {place.key for _, place, _ in places} | {"type", "index", *SIGNS}
    if block.get("type") in CALL_BLOCKS:
        known |= _KEYS_OF_CALLS
    return texts_of(block, known | ({_body_key(block)} - {None}))


def texts_of(values: Mapping[str, Value], known: Collection[str | None] = ()) -> Json:
    """Return the values that hold texts, as JSON, but for the known names."""
    return {
        name: as_json(item)
        for name, item in values.items()
        if name not in known and not _is_signed(name, item) and (has_text(item) or not name.isidentifier())
    }


def with_left(values: Mapping[str, Value], given: Mapping[str, Value], left: Mapping[str, Value]) -> Json:
    """Return values with the guarded version of the texts among them; unchanged values stay as they are.

    Args:
        values: the values.
        given: their texts, as the guards were given them.
        left: these, as the guards left them.
    """
    return {
        name: item if name not in given or left[name] == given[name] else left[name]
        for name, item in values.items()
        if name not in given or name in left
    }


def body_of(block: Value) -> str | None:
    """Return the picture, sound or file in a block, as base64; None for blocks of other kinds."""
    key = _body_key(block) if is_object(block) else None
    return block[key] if key is not None else None


def _body_key(block: Mapping[str, Value]) -> str | None:
    if block.get("type") not in ("image", "audio", "video", "file"):
        return None
    return next((name for name in ("base64", "data") if isinstance(block.get(name), str)), None)


SIGNS = ("signature", "id", "encrypted_content")
"""What providers put beside a text to know it again, or to read it themselves."""


def are_counts(value: Value) -> bool:
    """Return whether a value holds numbers only, such as tokens that were used, under the provider's names."""
    if is_object(value):
        return all(map(are_counts, value.values()))
    return value is None or isinstance(value, (int, float))


def _is_signed(name: str, item: Value) -> bool:
    """Return whether a value holds nothing but signs: LangChain keeps those of some providers in ``extras``."""
    return name == "extras" and is_object(item) and item.keys() <= set(SIGNS)


def is_sealed(block: Value) -> bool:
    """Return whether a block is reasoning that its provider alone can read."""
    given: Mapping[str, Value] = block if is_object(block) else {}
    reasons = given.get("type") in ("thinking", "reasoning", "redacted_thinking")
    rest = {name for name, item in given.items() if not _is_signed(name, item)}
    return reasons and rest <= {"type", "index", "data", "summary", *SIGNS} and not given.get("summary")


def without_signs(block: Mapping[str, Value]) -> Json:
    """Return a block without what its provider knows its text by, which was changed."""
    return {name: item for name, item in block.items() if name not in SIGNS and not _is_signed(name, item)}


# Calls


CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"})
"""The blocks that repeat calls of ``tool_calls``."""
_ARGUMENTS = ("input", "args", "arguments", "partial_json")
_KEYS_OF_CALLS = frozenset({"type", "index", "id", "call_id", "name", "status", *_ARGUMENTS})


def repeating(block: Json, calls: Iterable[ToolPart]) -> Json | None:
    """Return a block with the arguments of the call that it repeats, as the guards left them; None if there is none."""
    call = next((call for call in calls if call.call_id == (block.get("call_id") or block.get("id"))), None)
    if call is None or block.get("name", call.name) != call.name:
        return None
    said = {name: block[name] for name in _ARGUMENTS if block.get(name)}
    if all(freeze(_read_arguments(one)) == call.arguments for one in said.values()):
        return block
    arguments = thaw(call.arguments)
    written = {name: json.dumps(arguments) if isinstance(one, str) else arguments for name, one in said.items()}
    return {**block, **written}


def _read_arguments(value: Value) -> Value:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def as_json(value: Value) -> Value:
    """Return a value as JSON; objects of unknown types as text."""
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


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
    given: Value = {**fields, "tool_calls": [], "invalid_tool_calls": [], "tool_call_chunks": calls}
    made = AIMessageChunk(**{name: item for name, item in given.items() if name != "type"})
    return with_broken_calls(made, message.invalid_tool_calls)


def with_broken_calls(message: AIMessageChunk, calls: Iterable[InvalidToolCall]) -> AIMessageChunk:
    """Return a piece of an answer with calls whose arguments are no JSON.

    They cannot be pieces of calls: LangChain completes their arguments, which makes valid calls of them.
    """
    broken = list(calls)
    return message.model_copy(update={"invalid_tool_calls": broken}) if broken else message


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
