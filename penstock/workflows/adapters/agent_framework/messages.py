"""The framework's messages both ways. What is unchanged is written as the very object that was read."""

from __future__ import annotations

import json
from copy import copy
from typing import TYPE_CHECKING, Any, cast

import agent_framework as theirs

from penstock.engine.formats.parts import media_type_of, split_data_url
from penstock.engine.formats.wire import notes_of, with_notes
from penstock.engine.values.frozen import EMPTY, freeze, thaw
from penstock.engine.values.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.models.openai.wire import checksum
from penstock.workflows.adapters.agent_framework.values import arguments_of, as_result, jsonable, result_value
from penstock.workflows.hosting import as_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Part, Role
    from penstock.workflows.hosting import HostRequest


FORMAT = "agent-framework"
"""The name under which metadata holds what only the framework knows."""


class Contents:
    """Reads and writes the framework's messages. What is unchanged is written as the very object that was read."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, tuple[Part, ...]], theirs.Message] = {}
        self._contents: dict[Part, theirs.Content] = {}
        self._calls: dict[str, theirs.Content] = {}
        self._results: dict[str, theirs.Content] = {}
        self._thoughts: dict[str, str] = {}  # the reasoning that has left, by its block

    def read(self, message: theirs.Message) -> Iterator[Message]:
        """Yield a message of the framework; results of tools as messages of their own."""
        role: Any = message.role if message.role in ("system", "user", "assistant", "tool") else "system"
        parts = tuple(map(self.part, message.contents))
        results = tuple(part for part in parts if isinstance(part, ToolPart) and part.state != "call")
        rest = tuple(part for part in parts if part not in results)
        notes: dict[str, Value] = {"id": message.message_id} if message.message_id else {}
        if message.additional_properties:
            notes["properties"] = jsonable(message.additional_properties)
        metadata: Any = with_notes(FORMAT, notes) if notes else EMPTY
        if results:
            yield Message("tool", results, metadata=metadata, name=message.author_name)
            self._messages["tool", results] = message
        if rest or not results:
            said: Role = "assistant" if role == "tool" else role
            yield Message(said, rest, metadata=metadata, name=message.author_name)
            if not results:
                self._messages[said, rest] = message

    def part(self, content: theirs.Content) -> Part:
        """Return a part."""
        raw = cast("dict[str, Any]", jsonable(content.to_dict()))
        made = self._part(content, raw)
        self._contents[made] = content
        return made

    def _part(self, content: theirs.Content, raw: dict[str, Any]) -> Part:
        kind = content.type
        if kind == "text":
            return TextPart(content.text or "", _notes(raw, "text"))
        if kind == "text_reasoning" and content.text:
            return ReasoningPart(content.text, _notes(raw, "text"))
        if kind == "function_call" and content.name and not getattr(content, "informational_only", False):
            self._calls[content.call_id or ""] = content
            return ToolPart(content.call_id or "", content.name, freeze(arguments_of(content)[0]))
        if kind == "function_result":
            call_id = content.call_id or ""
            self._results[call_id] = content
            value = result_value(getattr(content, "items", None) or content.result)
            if content.exception is None:
                return ToolPart(call_id, "", EMPTY, "result", freeze(value))
            return ToolPart(call_id, "", EMPTY, "error", None, value if isinstance(value, str) else json.dumps(value))
        if kind in ("data", "uri") and content.uri:
            return _media(content, raw)
        return UnknownPart(freeze(raw))

    def current(
        self, request: HostRequest, said: Sequence[tuple[theirs.Message, list[Message]]]
    ) -> list[theirs.Message]:
        """Return the framework's messages as the guards left them; those that they removed are left out."""
        left = iter(request.current([one for _, group in said for one in group]))
        made: list[theirs.Message] = []
        for message, group in said:
            now = [next(left) for _ in group]
            if all(after is not None and one.parts == after.parts for one, after in zip(group, now, strict=True)):
                made.append(message)
                continue
            parts = [part for one in now if one is not None for part in one.parts]
            if not parts:
                continue
            changed = copy(message)
            changed.contents = [content for part in parts for content in self.contents_of(part)]
            changed.raw_representation = None
            made.append(changed)
        return made

    def written(self, messages: Iterable[Message], *, after: str | None = None) -> list[theirs.Message]:
        """Return messages for the client; those up to the message ``after`` only if it does not keep them itself."""
        made: list[theirs.Message] = []
        for message in messages:
            results = [part for part in message.parts if isinstance(part, ToolPart) and part.state != "call"]
            if message.id == after and after is not None:
                made = []
            elif not results or message.role != "tool":
                made.append(self._message(as_asked(message)))
            if results:
                tool = self._messages.get(("tool", message.parts))
                made.append(tool or theirs.Message("tool", [self._result(part) for part in results]))
        return made

    def _message(self, message: Message) -> theirs.Message:
        known = self._messages.get((message.role, message.parts))
        if known is not None:
            return known
        notes = notes_of(message, FORMAT)
        return theirs.Message(
            message.role,
            [content for part in message.parts for content in self.contents_of(part)],
            author_name=message.name,
            message_id=notes.get("id"),
            additional_properties=thaw(notes.get("properties") or {}),
        )

    def contents_of(self, part: Part) -> Iterator[theirs.Content]:
        """Yield the content of a part."""
        known = self._contents.get(part)
        if known is not None:
            yield known
        elif isinstance(part, (TextPart, ReasoningPart)):
            kind = "text" if isinstance(part, TextPart) else "text_reasoning"
            sealed = _protected(part)
            yield _content(
                {**_extra(part), "type": kind, "text": part.text, **({"protected_data": sealed} if sealed else {})}
            )
        elif isinstance(part, ToolPart):
            yield self._call(part) if part.state == "call" else self._result(part)
        elif isinstance(part, (ImagePart, AudioPart, FilePart)):
            yield _media_content(part)
        elif isinstance(part, UnknownPart):
            yield _content(cast("dict[str, Any]", thaw(part.raw)))

    def _call(self, part: ToolPart) -> theirs.Content:
        known = self._calls.get(part.call_id)
        if known is not None and known.name == part.name and freeze(arguments_of(known)[0]) == part.arguments:
            return known
        arguments = thaw(part.arguments)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        made = theirs.Content.from_function_call(part.call_id, part.name, arguments=text)
        if known is not None:
            made.additional_properties = dict(known.additional_properties)
        return made

    def _result(self, part: ToolPart) -> theirs.Content:
        known = self._results.get(part.call_id)
        said = part.error if part.state == "error" else part.result
        if known is not None and freeze(result_value(getattr(known, "items", None) or known.result)) == said:
            return known
        failed = "error" if part.state == "error" else None
        return theirs.Content.from_function_result(part.call_id, result=as_result(said), exception=failed)

    def of_chunk(self, chunk: Chunk) -> Iterator[theirs.Content]:
        """Yield the contents of a chunk that a guard released."""
        if chunk.type == "text-delta":
            yield theirs.Content.from_text(chunk.text)
        elif chunk.type == "reasoning-delta":
            self._thoughts[chunk.id] = self._thoughts.get(chunk.id, "") + chunk.text
            yield theirs.Content.from_text_reasoning(text=chunk.text)
        elif chunk.type == "reasoning-end":
            notes = cast("Any", chunk.payload.get("provider_metadata") or EMPTY)
            sealed = _protected(ReasoningPart(self._thoughts.pop(chunk.id, ""), notes))
            if sealed is not None:
                yield _content({"type": "text_reasoning", "protected_data": sealed})
        elif chunk.type == "tool-call":
            yield self._call(ToolPart(chunk.id, cast("str", chunk.payload["name"]), chunk.payload["arguments"]))
        elif chunk.type == "file":
            data, media_type = chunk.payload.get("data"), chunk.payload.get("media_type")
            url = chunk.payload.get("url")
            yield from self.contents_of(FilePart(cast("Any", data), cast("Any", url), None, cast("Any", media_type)))
        elif chunk.type == "raw":
            raw = chunk.payload.get("provider_part") or chunk.payload.get("provider_sealed")
            if raw is not None:
                yield from self.contents_of(UnknownPart(raw))


def _notes(raw: Mapping[str, Any], *known: str) -> Any:
    """Return the metadata of a part: what its content has beside what the part holds."""
    extra = {name: item for name, item in raw.items() if name not in ("type", *known) and item not in ({}, None)}
    if "protected_data" in extra:
        extra["of"] = checksum(str(raw.get("text") or ""))
    return with_notes(FORMAT, extra) if extra else EMPTY


def _extra(part: Part) -> dict[str, Any]:
    """Return what a changed part keeps: not its signature, and no annotations, which point into the old text."""
    dropped = ("of", "protected_data", "annotations")
    return {name: thaw(item) for name, item in notes_of(part, FORMAT).items() if name not in dropped}


def _protected(part: Part) -> str | None:
    """Return what a provider needs back with a reasoning, unless the text was changed."""
    notes = notes_of(part, FORMAT)
    if not isinstance(part, ReasoningPart) or notes.get("of") != checksum(part.text):
        return None
    return cast("str | None", notes.get("protected_data"))


def _content(raw: dict[str, Any]) -> theirs.Content:
    return theirs.Content.from_dict(raw)


def _media(content: theirs.Content, raw: Mapping[str, Any]) -> Part:
    uri = content.uri or ""
    found = split_data_url(uri)
    data, url = (found[1], None) if found is not None else (None, uri)
    media_type = content.media_type or (found[0] if found is not None else None)
    notes = _notes(raw, "uri", "media_type")
    family = (media_type or "").partition("/")[0]
    if family == "image":
        return ImagePart(url, data, media_type, notes)
    if family == "audio":
        return AudioPart(data, url, media_type, metadata=notes)
    return FilePart(data, url, None, media_type, None, notes)


def _media_content(part: ImagePart | AudioPart | FilePart) -> theirs.Content:
    media_type = media_type_of(part) or "application/octet-stream"
    uri = part.url if part.data is None else f"data:{media_type};base64,{part.data}"
    kind = "data" if part.data is not None else "uri"
    return _content({**_extra(part), "type": kind, "uri": uri or "", "media_type": media_type})
