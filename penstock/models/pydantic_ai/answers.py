"""Answers of pydantic-ai's models as chunks."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

from pydantic_ai import messages as theirs

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import Value, is_mapping
from penstock.models.pydantic_ai.requests import answer_notes, arguments_text, dumped, part_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_ai.usage import RequestUsage

    from penstock.engine.values.frozen import Values

_REASONS = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}


class EventReader:
    """Reads one answer. Each method yields the chunks of its argument; a part is identified by its index."""

    __slots__ = ("_begun", "_count", "_ended", "_ids", "_waits")

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._count = 0
        self._waits = False

    def event(self, event: theirs.ModelResponseStreamEvent) -> Iterator[Chunk]:
        """Yield the chunks of an event; none for events that concern no part."""
        if isinstance(event, theirs.PartStartEvent):
            yield from self._start(event.index, event.part)
        elif isinstance(event, theirs.PartDeltaEvent):
            yield from self._delta(event.index, event.delta)
        elif isinstance(event, theirs.PartEndEvent) and not self._may_go_on(event.part):
            yield from self.end(event.index, event.part)

    def rest(self, answer: theirs.ModelResponse) -> Iterator[Chunk]:
        """Yield the rest of an answer (all of it, if it was not streamed), and its finish."""
        for index, part in enumerate(answer.parts):
            if index not in self._ids:
                yield from self._start(index, part)
            yield from self.end(index, part)
        yield from self._refusal(answer)
        yield _finish(answer)

    def _start(self, index: int, part: theirs.ModelResponsePart) -> Iterator[Chunk]:
        self._ids[index] = part.tool_call_id if isinstance(part, theirs.ToolCallPart) else f"{part.part_kind}-{index}"
        self._ended.discard(index)
        if isinstance(part, theirs.TextPart):
            yield from self._say("text", index, part.content)
        elif isinstance(part, theirs.ThinkingPart):
            yield from self._say("reasoning", index, part.content)
        elif isinstance(part, theirs.ToolCallPart):
            named = {"call_id": part.tool_call_id, "name": part.tool_name}
            yield Chunk("tool-input-start", id=part.tool_call_id, payload=named)
            self._begun.add(index)
            yield from self._say("tool-input", index, _written(part.args))

    def _may_go_on(self, part: theirs.ModelResponsePart) -> bool:
        """Return whether a call waits for the end of the answer.

        pydantic-ai ends a part where the next one starts, also if the pieces of both are mixed. A call behind one that
        waits does so too, so that calls keep their order.
        """
        if not isinstance(part, theirs.ToolCallPart):
            return False
        self._waits = self._waits or not (part.args and is_mapping(_read(part.args)[0]))
        return self._waits

    def _delta(self, index: int, delta: theirs.ModelResponsePartDelta) -> Iterator[Chunk]:
        if isinstance(delta, theirs.TextPartDelta):
            yield from self._say("text", index, delta.content_delta)
        elif isinstance(delta, theirs.ThinkingPartDelta):
            yield from self._say("reasoning", index, delta.content_delta or "")
        elif isinstance(delta, theirs.ToolCallPartDelta):
            yield from self._say("tool-input", index, _written(delta.args_delta))

    def _say(self, kind: str, index: int, text: str) -> Iterator[Chunk]:
        """Yield a piece of a text. A text starts with its first piece, and anew with a piece after its end."""
        if not text or (kind == "tool-input" and index in self._ended):
            return
        if index in self._ended:
            self._count += 1
            self._ids[index] = f"{self._ids[index]}-{self._count}"
            self._ended.discard(index)
        if index not in self._begun:
            self._begun.add(index)
            yield Chunk(f"{kind}-start", id=self._ids[index])
        yield Chunk(f"{kind}-delta", text, self._ids[index])

    def end(self, index: int, part: theirs.ModelResponsePart) -> Iterator[Chunk]:
        """Yield the end of a part; nothing if it has ended."""
        if index in self._ended:
            return
        self._ended.add(index)
        begun = index in self._begun
        self._begun.discard(index)
        id = self._ids[index]
        if isinstance(part, theirs.ToolCallPart):
            yield Chunk("tool-input-end", id=id)
            yield _call(part)
        elif isinstance(part, theirs.FilePart):
            notes = part_notes(part, "")
            yield Chunk("file", payload={**_file(part.content), "provider_metadata": notes})
        elif isinstance(part, theirs.SpeechPart):
            yield from _speech(part, id)
        elif begun and isinstance(part, (theirs.TextPart, theirs.ThinkingPart)):
            kind = "text" if isinstance(part, theirs.TextPart) else "reasoning"
            yield Chunk(f"{kind}-end", id=id, payload={"provider_metadata": part_notes(part, part.content)})
            yield from _sources(part)
        elif not isinstance(part, theirs.TextPart):
            sealed = isinstance(part, theirs.ThinkingPart) and not part.content
            yield Chunk("raw", payload={"provider_sealed" if sealed else "provider_part": dumped(part)})

    def _refusal(self, answer: theirs.ModelResponse) -> Iterator[Chunk]:
        said = (answer.provider_details or {}).get("refusal")
        if isinstance(said, str) and said:
            yield Chunk("text-start", id="refusal", payload={"refusal": True})
            yield Chunk("text-delta", said, "refusal")
            yield Chunk("text-end", id="refusal")


def started(model: str | None, provider: str | None, seconds: float) -> Chunk:
    """Return the first chunk of an answer."""
    said = {"model": model, "provider": provider, "created": seconds}
    return Chunk("response-metadata", payload={name: item for name, item in said.items() if item})


def _written(arguments: Value) -> str:
    return json.dumps(arguments) if is_mapping(arguments) else arguments or ""


def _call(part: theirs.ToolCallPart) -> Chunk:
    arguments, valid = _read(part.args)
    payload = {"call_id": part.tool_call_id, "name": part.tool_name, "arguments": arguments}
    broken = {} if valid else {"invalid": True}
    notes = part_notes(part, arguments_text(arguments))
    return Chunk("tool-call", id=part.tool_call_id, payload={**payload, **broken, "provider_metadata": notes})


def _read(arguments: str | Values | None) -> tuple[Value, bool]:
    """Return a call's arguments as a value, and whether they are valid JSON; no arguments are an empty object."""
    if not isinstance(arguments, str):
        return arguments or {}, True
    try:
        return json.loads(arguments) if arguments.strip() else {}, True
    except (ValueError, RecursionError):
        return arguments, False


def _file(content: theirs.BinaryContent) -> Values:
    return {"media_type": content.media_type, "data": b64encode(content.data).decode()}


def _speech(part: theirs.SpeechPart, id: str) -> Iterator[Chunk]:
    if part.audio is not None:
        yield Chunk("file", payload={**_file(part.audio), "transcript": part.transcript})
    elif part.transcript:
        yield Chunk("text-start", id=id)
        yield Chunk("text-delta", part.transcript, id)
        yield Chunk("text-end", id=id)


def _sources(part: theirs.TextPart | theirs.ThinkingPart) -> Iterator[Chunk]:
    """Yield the sources that a text cites, each once."""
    cited = (part.citations or []) if isinstance(part, theirs.TextPart) else []
    found: dict[tuple[str | None, ...], Chunk] = {}
    for source in (source for citation in cited for source in citation.sources):
        url = source.url if isinstance(source, theirs.WebCitationSource) else None
        id = source.document_id if isinstance(source, theirs.DocumentCitationSource) else None
        found.setdefault(
            (url, id, source.title), Chunk("source", payload={"id": id, "url": url, "title": source.title})
        )
    yield from found.values()


def _finish(answer: theirs.ModelResponse) -> Chunk:
    raw = (answer.provider_details or {}).get("finish_reason")
    payload = {
        "reason": _reason(answer),
        "raw_reason": raw if isinstance(raw, str) else answer.finish_reason,
        "usage": _usage(answer.usage),
        "metadata": {"id": answer.provider_response_id} if answer.provider_response_id else {},
        "provider_metadata": answer_notes(answer),
    }
    return Chunk("finish", payload={name: item for name, item in payload.items() if item})


def _reason(answer: theirs.ModelResponse) -> str:
    """Return why an answer ended. Not every model says; then it is ``tool-calls`` or ``stop``."""
    if answer.finish_reason is not None:
        return _REASONS.get(answer.finish_reason, "other")
    if answer.state != "complete":
        return "other"
    return "tool-calls" if any(isinstance(part, theirs.ToolCallPart) for part in answer.parts) else "stop"


def _usage(usage: RequestUsage) -> Values | None:
    if usage.unmeasured_requests or not usage.has_values():
        return None
    more = {
        "cache_write_tokens": usage.cache_write_tokens,
        "input_audio_tokens": usage.input_audio_tokens,
        "cache_audio_read_tokens": usage.cache_audio_read_tokens,
        "output_audio_tokens": usage.output_audio_tokens,
        **usage.details,
    }
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
        "reasoning_tokens": usage.output_reasoning_tokens,
        "details": {name: count for name, count in more.items() if count},
    }
