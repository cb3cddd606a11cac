"""Answers of a chat client as chunks, and chunks as the framework's responses and updates."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, ToolPart, UnknownPart
from penstock.models.openai.wire import checksum
from penstock.workflows.adapters.agent_framework.messages import FORMAT, Contents
from penstock.workflows.adapters.agent_framework.values import arguments_of, jsonable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import agent_framework as theirs


_REASONS = {"stop": "stop", "length": "length", "content_filter": "content-filter", "tool_calls": "tool-calls"}
THEIR_REASONS = {ours: theirs_ for theirs_, ours in _REASONS.items()}


class AnswerReader:
    """Reads one answer of a client into chunks."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._open = ""  # the kind of the text that is being read
        self._text: list[str] = []
        self._protected: str | None = None
        self._count = 0

    def read(self, contents: Iterable[theirs.Content]) -> Iterator[Chunk]:
        """Yield the chunks of contents, without tool calls: those are complete at the end only."""
        for content in contents:
            kind = content.type
            if kind == "usage" or (kind == "function_call" and not getattr(content, "informational_only", False)):
                continue
            if kind in ("text", "text_reasoning") and (content.text or self._open == "reasoning"):
                yield from self._say("text" if kind == "text" else "reasoning", content)
                continue
            if kind == "text":
                continue
            yield from self._end()
            part = self._contents.part(without_raw(content))
            if isinstance(part, (ImagePart, AudioPart, FilePart)):
                yield Chunk("file", payload={"media_type": part.media_type, "data": part.data, "url": part.url})
            elif isinstance(part, UnknownPart):
                sealed = kind == "text_reasoning"
                yield Chunk("raw", payload={"provider_sealed" if sealed else "provider_part": part.raw})
            else:
                yield Chunk("raw", payload={"provider_part": jsonable(content.to_dict())})

    def _say(self, kind: str, content: theirs.Content) -> Iterator[Chunk]:
        if self._open != kind:
            yield from self._end()
            self._open, self._count = kind, self._count + 1
            yield Chunk(f"{kind}-start", id=f"{kind}-{self._count}")
        self._protected = content.protected_data or self._protected
        if content.text:
            self._text.append(content.text)
            yield Chunk(f"{kind}-delta", content.text, f"{kind}-{self._count}")

    def _end(self) -> Iterator[Chunk]:
        if not self._open:
            return
        said: dict[str, Any] = {}
        if self._protected is not None:
            notes = {"protected_data": self._protected, "of": checksum("".join(self._text))}
            said = {"provider_metadata": {FORMAT: notes}}
        yield Chunk(f"{self._open}-end", id=f"{self._open}-{self._count}", payload=said)
        self._open, self._text, self._protected = "", [], None

    def rest(self, said: theirs.ChatResponse[Any]) -> Iterator[Chunk]:
        """Yield the tool calls of an answer, and its finish."""
        yield from self._end()
        called = False
        for content in (content for message in said.messages for content in message.contents):
            part = self._contents.part(without_raw(content)) if content.type == "function_call" else None
            if not isinstance(part, ToolPart):
                continue
            called = True
            arguments, valid = arguments_of(content)
            named = {"call_id": part.call_id, "name": part.name}
            yield Chunk("tool-input-start", id=part.call_id, payload=named)
            yield Chunk("tool-input-end", id=part.call_id)
            broken = {} if valid else {"invalid": True}
            notes = {FORMAT: jsonable(content.additional_properties)}  # goes back to the client, so guards read it
            told = {"provider_metadata": notes} if content.additional_properties else {}
            yield Chunk("tool-call", id=part.call_id, payload={**named, "arguments": arguments, **broken, **told})
        usual = "tool-calls" if called else "stop"
        reason = _REASONS.get(str(said.finish_reason), "other") if said.finish_reason else usual
        metadata = {"id": said.response_id, "model": said.model}
        used: Any = said.usage_details or {}
        counts = {ours: used.get(name) for ours, name in COUNTS.items()}
        payload: dict[str, Any] = {
            "reason": reason,
            "metadata": {name: item for name, item in metadata.items() if item},
            "usage": counts if used else None,
        }
        yield Chunk("finish", payload={name: item for name, item in payload.items() if item})


def without_raw(content: theirs.Content) -> theirs.Content:
    """Return a content without the client's raw form, which may hold text that guards have not read."""
    made = copy(content)
    made.raw_representation = None
    return made


COUNTS = {"input_tokens": "input_token_count", "output_tokens": "output_token_count"}
