"""Answers of a chat client as chunks, and chunks as the framework's responses and updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import agent_framework as theirs

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats.wire import without_empty
from penstock.workflows.adapters.agent_framework.messages import CONTENT, Contents, is_sealed, place_of
from penstock.workflows.adapters.agent_framework.values import (
    BESIDE,
    FORMAT,
    arguments_of,
    as_beside,
    beside_content,
    jsonable,
    left_beside,
    plain_content,
    put_beside,
    sealed_in,
    without_raw,
)
from penstock.workflows.hosting import as_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Json
    from penstock.workflows.adapters.agent_framework.values import Beside
    from penstock.workflows.hosting import HostRequest

_REASONS = {"stop": "stop", "length": "length", "content_filter": "content-filter", "tool_calls": "tool-calls"}
_THEIR_REASONS = {ours: theirs_ for theirs_, ours in _REASONS.items()}
_COUNTS = {"input_tokens": "input_token_count", "output_tokens": "output_token_count"}


class AgentFrameworkAnswerReader:
    """Reads one answer of a client into chunks.

    Attributes:
        texts: the texts so far, by the ids of their chunks.
        notes: their notes.
    """

    def __init__(self, contents: Contents) -> None:
        self.texts: dict[str, str] = {}
        self.notes: dict[str, Json] = {}
        self._contents = contents
        self._open = ""  # the kind of the text that is being read
        self._pieces: list[theirs.Content] = []  # of that text

    def read(self, contents: Iterable[theirs.Content]) -> Iterator[Chunk]:
        """Yield the chunks of contents, without tool calls: those are complete at the end only."""
        for content in contents:
            kind = content.type
            if kind == "usage" or _is_call(content):
                continue
            if kind == "text" or (kind == "text_reasoning" and (content.text or self._open == "reasoning")):
                yield from self._say("text" if kind == "text" else "reasoning", content)
                continue
            yield from self._end()
            if is_sealed(content):
                yield Chunk("raw", payload={"provider_sealed": plain_content(content)})
                continue
            part = self._contents.part(without_raw(content), "assistant", "") if kind in ("data", "uri") else None
            if isinstance(part, (ImagePart, AudioPart, FilePart)):
                yield Chunk("file", payload={"media_type": part.media_type, "data": part.data, "url": part.url})
            else:
                yield Chunk(f"data-{CONTENT}", payload={"data": plain_content(content)})

    def _say(self, kind: str, content: theirs.Content) -> Iterator[Chunk]:
        if self._open != kind and not content.text and not beside_content("", content):
            return
        if self._open != kind:
            yield from self._end()
            self._open = kind
            self.texts[f"{kind}-{len(self.texts) + 1}"] = ""
            yield Chunk(f"{kind}-start", id=self._id)
        self._pieces.append(content)
        if content.text:
            yield Chunk(f"{kind}-delta", content.text, self._id)

    @property
    def _id(self) -> str:
        return next(reversed(self.texts))

    def _end(self) -> Iterator[Chunk]:
        if not self._open:
            return
        kind, whole = self._open, _joined(self._pieces)
        self.texts[self._id] = whole.text or ""
        self._open, self._pieces = "", []
        beside = beside_content(self._id, whole)
        notes: Json = {"id": whole.id, "place": self._id if beside else None}
        if beside or whole.id or whole.protected_data:
            notes |= sealed_in(whole)
        found = self.notes[self._id] = without_empty(notes)
        yield Chunk(f"{kind}-end", id=self._id, payload={"provider_metadata": {FORMAT: found}} if found else EMPTY)
        if beside:
            yield _data(beside)

    def rest(self, said: theirs.ChatResponse) -> Iterator[Chunk]:
        """Yield the tool calls of an answer, the data beside it and them, and its finish."""
        yield from self._end()
        calls: list[tuple[ToolPart, theirs.Content]] = []
        beside: Beside = {}
        properties = {"message": {}, "response": dict(said.additional_properties or {})}
        for message in said.messages:
            properties["message"] |= message.additional_properties
            for content in filter(_is_call, message.contents):
                part = self._contents.part(without_raw(content), "assistant", "")
                if isinstance(part, ToolPart):
                    calls.append((part, content))
                    beside |= beside_content(place_of(part), content)
        beside |= {name: {"additional_properties": jsonable(one)} for name, one in properties.items() if one}
        if beside:
            yield _data(beside)
        for part, content in calls:
            yield from _call_chunks(part, content)
        yield _finish(said, "tool-calls" if calls else "stop")


def _is_call(content: theirs.Content) -> bool:
    return content.type == "function_call" and not getattr(content, "informational_only", False)


def _joined(pieces: Sequence[theirs.Content]) -> theirs.Content:
    """Return the pieces of a text as one, as the framework joins them."""
    if len(pieces) == 1:
        return pieces[0]
    text = "".join([piece.text or "" for piece in pieces])
    made = theirs.Content("text" if pieces[0].type == "text" else "text_reasoning", text=text)
    for piece in pieces:
        made.id = made.id or piece.id
        made.protected_data = piece.protected_data or made.protected_data
        if piece.annotations:
            made.annotations = [*(made.annotations or ()), *piece.annotations]
        if piece.additional_properties:
            made.additional_properties = {**piece.additional_properties, **made.additional_properties}
    return made


def _data(beside: Beside) -> Chunk:
    return Chunk(f"data-{BESIDE}", payload={"data": beside})


def _call_chunks(part: ToolPart, content: theirs.Content) -> Iterator[Chunk]:
    arguments, valid = arguments_of(content)
    named = {"call_id": part.call_id, "name": part.name}
    yield Chunk("tool-input-start", id=part.call_id, payload=named)
    yield Chunk("tool-input-end", id=part.call_id)
    broken = {} if valid else {"invalid": True}
    yield Chunk("tool-call", id=part.call_id, payload={**named, "arguments": arguments, **broken})


def _finish(said: theirs.ChatResponse, usual: str) -> Chunk:
    used = said.usage_details or {}
    payload = {
        "reason": _REASONS.get(str(said.finish_reason), "other") if said.finish_reason else usual,
        "metadata": without_empty({"id": said.response_id, "model": said.model}),
        "usage": {ours: used.get(name) for ours, name in _COUNTS.items()} if used else None,
    }
    return Chunk("finish", payload=without_empty(payload))


class AgentFrameworkAnswerWriter:
    """Writes one answer as the guards left it: as a response, or as updates while they release it.

    Attributes:
        said: the client's answer; None until then.
        message_id: the id of its message.
        reader: has read the last attempt.
    """

    def __init__(
        self, contents: Contents, request: HostRequest, form: type[BaseModel] | Mapping[str, Any] | None
    ) -> None:
        self.said: theirs.ChatResponse | None = None
        self.message_id: str | None = None
        self.reader = AgentFrameworkAnswerReader(contents)
        self._contents = contents
        self._request = request
        self._form = form
        self._texts: dict[str, str] = {}  # what was released, by the ids of the chunks
        self._left: Beside = {}

    def attempt(self) -> AgentFrameworkAnswerReader:
        """Return the reader of another attempt."""
        self.reader = AgentFrameworkAnswerReader(self._contents)
        return self.reader

    def end(self, said: theirs.ChatResponse) -> Iterator[Chunk]:
        """Take the client's answer; yield the chunks that are complete at the end only."""
        self.said = said
        if said.messages:
            self.message_id = self.message_id or said.messages[-1].message_id
        yield from self.reader.rest(said)

    def response(self, answer: Message) -> theirs.ChatResponse:
        """Return the answer as a response."""
        parts = as_asked(answer).parts
        left = left_beside(parts)
        said = "".join([part.text for part in parts if isinstance(part, (TextPart, ReasoningPart))])
        same = said == "".join(self.reader.texts.values())
        made = [content for part in parts for content in self._contents.contents_of(part, left)]
        message = theirs.Message("assistant", made, message_id=self.message_id)
        properties = _properties(left, same=same)
        message.additional_properties = properties["message"]
        return theirs.ChatResponse(
            messages=[message],
            usage_details=self._usage(),
            response_format=self._form,
            additional_properties=properties["response"],
            **self._about(),
        )

    def updates(self, chunk: Chunk) -> Iterator[theirs.ChatResponseUpdate]:
        """Yield the update of a chunk that a guard released; none if it is not shown."""
        contents = list(self._of_chunk(chunk))
        if contents:
            yield theirs.ChatResponseUpdate(contents=contents, role="assistant", message_id=self.message_id)

    def _of_chunk(self, chunk: Chunk) -> Iterator[theirs.Content]:
        kind, payload = chunk.type, chunk.payload
        if kind in ("text-delta", "reasoning-delta"):
            self._texts[chunk.id] = self._texts.get(chunk.id, "") + chunk.text
            made = theirs.Content.from_text if kind == "text-delta" else theirs.Content.from_text_reasoning
            yield made(text=chunk.text)
        elif kind == "reasoning-end":
            yield from self._sealed(chunk)
        elif kind == f"data-{BESIDE}":
            yield from self._beside(as_beside(payload.get("data")))
        elif kind == f"data-{CONTENT}":
            yield from self._contents.contents_of(DataPart(CONTENT, payload.get("data")), {})
        elif kind == "tool-call":
            part = ToolPart(chunk.id, str(payload["name"]), payload["arguments"])
            yield self._contents.call(part, self._left)
        elif kind == "file":
            data, url, media_type = [payload.get(name) for name in ("data", "url", "media_type")]
            yield from self._contents.contents_of(FilePart(data, url, None, media_type), {})
        elif kind == "raw":
            raw = payload.get("provider_part") or payload.get("provider_sealed")
            if raw is not None:
                yield from self._contents.contents_of(UnknownPart(raw), {})
        elif kind == "retract":
            self._texts, self._left = {}, {}

    def _sealed(self, chunk: Chunk) -> Iterator[theirs.Content]:
        """Yield the fields that a provider needs back with a reasoning; not its signature, if the text was changed."""
        notes: Values = chunk.payload.get("provider_metadata") or EMPTY
        part = ReasoningPart(self._texts.get(chunk.id, ""), notes)
        for content in self._contents.contents_of(part, {}) if notes else ():
            content.text = None
            yield content

    def _beside(self, left: Beside) -> Iterator[theirs.Content]:
        """Take the guarded version of the data beside parts; yield that of texts, which are out already."""
        self._left |= left
        for place in left.keys() & self.reader.texts.keys():
            same = self._texts.get(place, "") == self.reader.texts[place]
            empty = theirs.Content("text" if place.startswith("text") else "text_reasoning", text="")
            notes = self.reader.notes.get(place, {})
            yield put_beside(empty, place, left, notes, changed=not same)

    def last_update(self) -> theirs.ChatResponseUpdate:
        """Return the end of the stream: the report of the answer."""
        usage = self._usage()
        contents = [theirs.Content.from_usage(usage)] if usage else []
        said = {name: text for name, text in self.reader.texts.items() if text}
        properties = _properties(self._left, same={name: text for name, text in self._texts.items() if text} == said)
        return theirs.ChatResponseUpdate(
            contents=contents,
            role="assistant",
            message_id=self.message_id,
            additional_properties={**properties["message"], **properties["response"]} or None,
            **self._about(),
        )

    def joined(self, updates: Sequence[theirs.ChatResponseUpdate]) -> theirs.ChatResponse[Any]:
        """Return the response that updates make."""
        return theirs.ChatResponse.from_updates(updates, output_format_type=self._form)

    def _about(self) -> dict[str, Any]:
        """Return the report of an answer, without its raw form."""
        names = ("response_id", "conversation_id", "model", "created_at", "continuation_token")
        told = {name: getattr(self.said, name, None) for name in names}
        return {**told, "finish_reason": _THEIR_REASONS.get(self._request.finish_reason)}

    def _usage(self) -> theirs.UsageDetails | None:
        """Return the tokens of all attempts; the details of the last one."""
        used, own = self._request.usage, self.said.usage_details if self.said is not None else None
        if not own:
            return own
        made = own.copy()
        if used.input_tokens is not None:
            made["input_token_count"] = used.input_tokens
        if used.output_tokens is not None:
            made["output_token_count"] = used.output_tokens
        if used.total_tokens is not None:
            made["total_token_count"] = used.total_tokens
        return made


def _properties(left: Beside, *, same: bool) -> dict[str, Json]:
    """Return the properties of an answer; none if its text was changed, since they may repeat it in pieces."""
    return {
        name: left.get(name, {}).get("additional_properties", {}) if same else {} for name in ("message", "response")
    }
