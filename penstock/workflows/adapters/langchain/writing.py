"""Chunks as LangChain's answers: pieces of text as the guards release them, and behind them the rest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from penstock.engine.formats import langchain as wire
from penstock.engine.formats.wire import has_text, is_object
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message, ReasoningPart, ToolPart, UnknownPart
from penstock.workflows.adapters.langchain.blocks import (
    CALL_BLOCKS,
    READ_FIELDS,
    REASONING_FIELD,
    as_json,
    beside,
    is_other,
    listed,
    repeats,
    text_places,
)
from penstock.workflows.adapters.langchain.reading import parts_of, said_in
from penstock.workflows.agent.results import calls_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Part
    from penstock.workflows.adapters.langchain.reading import AnswerReader
    from penstock.workflows.hosting import HostRequest


class AnswerWriter:
    """Writes the answer as the guards release it: pieces of text, and behind them the rest.

    Args:
        reader: returns the reader of the model's answer.
    """

    def __init__(self, reader: Callable[[], AnswerReader]) -> None:
        self._reader = reader
        self._shown = False

    def piece(self, chunk: Chunk) -> AIMessageChunk | None:
        """Return a piece of text as LangChain's; None for other chunks."""
        if chunk.type not in ("text-delta", "reasoning-delta") or not chunk.text:
            return None
        self._shown = True
        place = self._reader().places.get(chunk.id)
        if place is not None:
            return AIMessageChunk(content=[place.holding(chunk.text)])
        if chunk.type == "reasoning-delta":
            return AIMessageChunk(content="", additional_kwargs={REASONING_FIELD: chunk.text})
        return AIMessageChunk(content=chunk.text)

    def rest(self, request: HostRequest) -> AIMessageChunk:
        """Return what was not shown: the whole answer, if nothing was; and what the provider needs back."""
        reader, answer = self._reader(), request.answer or Message("assistant")
        whole = reader.whole or AIMessageChunk(content="")
        same = said_in(answer.parts) == said_in(parts_of(reader))
        told = whole.response_metadata
        return AIMessageChunk(
            content=self._content(whole, answer, same=same),
            additional_kwargs={
                name: item
                for name, item in _fields(whole, answer, same=same).items()
                if not (self._shown and name in READ_FIELDS)
            },
            response_metadata={name: item for name, item in told.items() if _is_fact(name, item, same=same)},
            tool_call_chunks=[
                tool_call_chunk(name=call.name, args=_arguments(call.arguments), id=call.call_id, index=number)
                for number, call in enumerate(calls_of(answer))
            ],
            usage_metadata=_used(request, whole),
            id=None if self._shown else whole.id,
            chunk_position="last",
        )

    def _content(self, whole: AIMessageChunk, answer: Message, *, same: bool) -> Any:
        if isinstance(whole.content, str) and not any(is_object(raw) and "type" in raw for raw in _others(answer)):
            return "" if self._shown else answer.text
        if not same:
            blocks = list(_blocks(answer.parts))
            return [block for block in blocks if is_other(block)] if self._shown else blocks
        kept = [one for block in listed(whole.content) for one in _left(block, answer)]
        return [one for block in kept for one in _unshown(block)] if self._shown else kept


def _left(block: Any, answer: Message) -> Iterator[Any]:
    """Yield what the guards left of a block, in an answer whose texts and calls are as they were."""
    others = _others(answer)
    extras = beside(block)
    if is_other(block):
        left = freeze(as_json(block)) in others
    else:
        left = not (is_object(block) and block.get("type") in CALL_BLOCKS) or repeats(block, calls_of(answer))
    if left and extras and freeze({"beside": as_json(extras)}) not in others:
        yield {name: item for name, item in block.items() if name not in extras}
    elif left:
        yield block


def _blocks(parts: Iterable[Part]) -> Iterator[Any]:
    """Yield parts as blocks of content; calls stand beside it."""
    for part in parts:
        if isinstance(part, UnknownPart):
            if is_object(raw := thaw(part.raw)) and "type" in raw:
                yield raw
        elif not isinstance(part, ToolPart):
            yield wire.write_part(part)


def _others(answer: Message) -> list[Value]:
    """Return what the guards left of blocks and fields that are neither texts nor calls."""
    return [part.raw for part in answer.parts if isinstance(part, UnknownPart)]


def _fields(whole: AIMessageChunk, answer: Message, *, same: bool) -> dict[str, Any]:
    """Return what is left of the fields of a provider: those without text stay if the answer is as it was."""
    left: dict[str, Any] = {}
    for raw in _others(answer):
        if is_object(fields := thaw(raw)) and not fields.keys() & {"type", "beside"}:
            left |= fields
    reasoning = "".join(part.text for part in answer.parts if isinstance(part, ReasoningPart))
    if reasoning and isinstance(whole.content, str):
        left[REASONING_FIELD] = reasoning
    plain = whole.additional_kwargs if same else {}
    return {**{name: item for name, item in plain.items() if not has_text(item)}, **left}


def _unshown(block: Any) -> Iterator[Any]:
    """Yield what is left of a block when its text was shown, such as a signature."""
    if isinstance(block, str):
        return
    places = text_places(block, 0)
    rest = {name: item for name, item in block.items() if not places or name != places[0][1].key}
    if not places or (rest.keys() - {"type", "index"} and "index" in rest):
        yield rest


def _arguments(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False)


_FACTS = frozenset(
    {"model_name", "model", "model_provider", "finish_reason", "stop_reason", "id", "created", "system_fingerprint"}
)


def _is_fact(name: str, item: Any, *, same: bool) -> bool:
    """Return whether a report of the provider says nothing that guards had to read: it names the model, or counts.

    ``logprobs`` repeat the answer, so they stay with one that is as it was.
    """
    return name in _FACTS or not has_text(item) or (name == "logprobs" and same)


def _used(request: HostRequest, whole: AIMessageChunk) -> Any:
    """Return the tokens of the call, rejected answers included."""
    used, last = request.usage, whole.usage_metadata
    spent = (used.input_tokens or 0, used.output_tokens or 0)
    if last is None or spent == (last["input_tokens"], last["output_tokens"]):
        return last
    return {"input_tokens": spent[0], "output_tokens": spent[1], "total_tokens": sum(spent)}
