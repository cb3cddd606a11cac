"""Answers of a chat generator as chunks, and chunks as Haystack's replies and pieces."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from haystack.dataclasses import ChatMessage, ComponentInfo, ReasoningContent, StreamingChunk, ToolCallDelta

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.messages import DataPart, FilePart, ImagePart, Message, ReasoningPart, TextPart, UnknownPart
from penstock.formats.wire import is_object
from penstock.workflows.adapters.haystack.messages import (
    OUTPUTS,
    PLAIN_FACTS,
    HaystackCallIds,
    jsonable,
    merged,
    parts_of,
    plain,
)
from penstock.workflows.hosting import HostRequest, as_asked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.values.frozen import Values
    from penstock.formats.wire import Json, Value


class HaystackAnswerReader:
    """Reads one answer of the generator."""

    def __init__(self) -> None:
        self._open: tuple[str, object] | None = None
        self._count = 0
        self._text = ""
        self._reasoning = ""

    def piece(self, piece: StreamingChunk) -> Iterator[Chunk]:
        """Yield the text of a piece."""
        if piece.content:
            self._text += piece.content
            yield from self._delta("text", piece.index, piece.content)
        if piece.reasoning is not None and piece.reasoning.reasoning_text:
            self._reasoning += piece.reasoning.reasoning_text
            yield from self._delta("reasoning", piece.index, piece.reasoning.reasoning_text)

    def rest(self, reply: ChatMessage, others: Json) -> Iterator[Chunk]:
        """Yield the rest of the reply that did not come in pieces, the texts of other outputs, and the finish."""
        seen = {"text": self._text, "reasoning": self._reasoning}
        for number, part in enumerate(parts_of(reply, HaystackCallIds())):
            if isinstance(part, (TextPart, ReasoningPart)):
                known = seen[part.type]
                if not known:
                    yield from self._delta(part.type, f"part-{number}", part.text)
                elif part.text.startswith(known):
                    yield from self._delta(part.type, self._open and self._open[1], part.text[len(known) :])
            elif isinstance(part, (ImagePart, FilePart)):
                yield Chunk("file", payload={"data": part.data, "media_type": part.media_type})
            elif isinstance(part, DataPart):
                yield Chunk(f"data-{part.name}", payload={"data": part.data})
            elif isinstance(part, UnknownPart):
                yield Chunk("raw", payload={"provider_part": part.raw})
        yield from self._close()
        model = reply.meta.get("model")
        yield Chunk("response-metadata", payload={"model": model if isinstance(model, str) else None})
        for call in reply.tool_calls:
            named = {"call_id": call.id or "", "name": call.tool_name, "arguments": jsonable(call.arguments)}
            yield Chunk("tool-call", id=call.id or "", payload=named)
        if others:
            yield Chunk(f"data-{OUTPUTS}", payload={"data": others})
        yield Chunk("finish", payload={"reason": _reason(reply), "usage": _usage(reply)})

    def _delta(self, kind: str, index: object, text: str) -> Iterator[Chunk]:
        if not text:
            return
        if self._open != (kind, index):
            yield from self._close()
            self._open = (kind, index)
            self._count += 1
            yield Chunk(f"{kind}-start", id=str(self._count))
        yield Chunk(f"{kind}-delta", text, str(self._count))

    def _close(self) -> Iterator[Chunk]:
        if self._open is not None:
            yield Chunk(f"{self._open[0]}-end", id=str(self._count))
        self._open = None


_REASONS = {"stop": "stop", "length": "length", "tool_calls": "tool-calls", "content_filter": "content-filter"}


def _reason(reply: ChatMessage) -> str:
    raw = reply.meta.get("finish_reason")
    if isinstance(raw, str):
        return _REASONS.get(raw, "other")
    return "tool-calls" if reply.tool_calls else "stop"


def _usage(reply: ChatMessage) -> Values | None:
    used: Value = plain(reply.meta.get("usage"))
    if not is_object(used):
        return None
    numbers = {name: item for name, item in used.items() if isinstance(item, int)}
    return {
        "input_tokens": numbers.get("prompt_tokens", numbers.get("input_tokens")),
        "output_tokens": numbers.get("completion_tokens", numbers.get("output_tokens")),
    }


def summed(usages: Sequence[Value]) -> Value:
    """Return the usage of all attempts, rejected ones included, in the form of the provider."""
    given = [one for one in usages if one]
    if len(given) <= 1:
        return given[0] if given else None
    last: Value = plain(given[-1])
    return last if not is_object(last) else {name: _total([plain(one).get(name) for one in given]) for name in last}


def _total(values: Sequence[Value]) -> Value:
    if all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values):
        return sum(values)
    return summed(values) if is_object(values[-1]) else values[-1]


def reply_of(said: ChatMessage | None, answer: Message, request: HostRequest, usage: Value) -> ChatMessage:
    """Return the reply as the guards left it."""
    made = merged(said, as_asked(answer).parts)
    if said is None:
        meta: Json = {"model": str(request.metadata.get("model") or ""), "finish_reason": "stop"}
        return replace(made, _meta=meta)
    return made if made.meta.get("usage") == usage else replace(made, _meta={**made.meta, "usage": usage})


class HaystackStreamWriter:
    """Writes the answer as the guards release it: pieces of text, then the calls, and the finish.

    Args:
        info: the component that is named in the pieces.
    """

    def __init__(self, info: ComponentInfo) -> None:
        self._info = info
        self._open: tuple[str, str] | None = None
        self._index = -1

    def pieces(self, chunk: Chunk) -> Iterator[StreamingChunk]:
        """Yield a piece of text as Haystack's; nothing for other chunks."""
        if chunk.type not in ("text-delta", "reasoning-delta") or not chunk.text:
            return
        start = self._open != (chunk.type, chunk.id)
        self._open = (chunk.type, chunk.id)
        self._index += start
        if chunk.type == "text-delta":
            yield StreamingChunk(chunk.text, component_info=self._info, index=self._index, start=start)
        else:
            thought = ReasoningContent(chunk.text)
            yield StreamingChunk("", component_info=self._info, index=self._index, start=start, reasoning=thought)

    def rest(self, replies: Sequence[ChatMessage]) -> Iterator[StreamingChunk]:
        """Yield the calls of a reply, and the finish."""
        for reply in replies:
            for call in reply.tool_calls:
                self._index += 1
                delta = ToolCallDelta(self._index, call.tool_name, json.dumps(call.arguments), call.id)
                yield StreamingChunk("", component_info=self._info, index=self._index, start=True, tool_calls=[delta])
            told = {name: item for name, item in reply.meta.items() if name in PLAIN_FACTS}
            reason = told.get("finish_reason")
            known: Any = reason if reason in _REASONS else "tool_calls" if reply.tool_calls else "stop"
            yield StreamingChunk("", told, self._info, finish_reason=known)
