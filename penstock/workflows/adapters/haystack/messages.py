"""Haystack's messages both ways. Unchanged messages stay the objects that were read."""

# pyright: reportPrivateUsage=false
# Haystack's messages have no other list of all that they hold than ``_content``.

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from haystack.dataclasses import (
    ChatMessage,
    ChatRole,
    FileContent,
    ImageContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolCallResult,
)
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import (
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats.wire import has_text, is_array, is_object, without_empty
from penstock.workflows.agent.results import calls_of
from penstock.workflows.hosting import Original, Originals
from penstock.workflows.hosting.answers import data_left
from penstock.workflows.hosting.matching import is_finished

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from haystack.dataclasses.chat_message import ChatMessageContentT, ToolCallResultContentT

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostRequest


class HaystackMessages(Originals[ChatMessage]):
    """The messages of one request, both ways."""

    def __init__(self, request: HostRequest) -> None:
        super().__init__(request, self._forms_of)
        self._results: dict[str, ChatMessage] = {}

    def read(self, messages: Iterable[ChatMessage], trusted: str | None = None) -> list[Message]:
        """Return each message as one of ours. System messages count as input, except the trusted one."""
        ids = HaystackCallIds()
        return [self._read(message, ids, trusted) for message in messages]

    def read_call(self, messages: Sequence[ChatMessage], trusted: str | None) -> list[Message]:
        """Return the messages of a model call; `written` gives back those that are unchanged."""
        said = self.read(messages, trusted)
        self.note(messages, said)
        return said

    def _read(self, message: ChatMessage, ids: HaystackCallIds, trusted: str | None) -> Message:
        for result in message.tool_call_results:
            if result.origin.id:
                self._results[result.origin.id] = message
        role: Role = message.role.value
        own = role == "system" and message.text == trusted
        parts = tuple(parts_of(message, ids))
        return Message(role, parts, name=message.name or None, from_client=role == "system" and not own)

    def _forms_of(self, message: Message, original: Original[ChatMessage] | None) -> Iterator[ChatMessage]:
        if original is not None and message.role != "assistant":
            yield _changed(original, message.parts)
        elif message.role == "assistant":
            yield merged(None if original is None else original.given, message.parts)
        elif message.role == "tool":
            yield from (self._result(part) for part in calls_of(message) if is_finished(part))
        else:
            yield _new(message.role, map(_content, message.parts))

    def _result(self, part: ToolPart) -> ChatMessage:
        """Return the message with a result."""
        known = self._results.get(part.call_id)
        result = known.tool_call_result if known is not None and len(known) == 1 else None
        if known is None or result is None or result.error != (part.state == "error"):
            return _new("tool", [_content(part)])
        left = part.error if result.error else thaw(part.result)
        if plain(result.result) == left:
            return known
        return replace(known, _content=[replace(result, result=content_of(put(result.result, left)))])


def _changed(original: Original[ChatMessage], after: Iterable[Part]) -> ChatMessage:
    """Return a message with other parts; content of which the part is the same stays as it is."""
    contents = list(zip(original.said.parts, original.given._content, strict=True))
    left: list[ChatMessageContentT] = []
    for part in after:
        known = next((pair for pair in contents if pair[0] == part), None)
        if known is not None:
            contents.remove(known)
        left.append(_changed_content(part, contents) if known is None else known[1])
    return replace(original.given, _content=left)


class HaystackCallIds:
    """Gives calls ids where the model gave none; results get those of the calls of the same tool, in order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, list[str]] = {}

    def of_call(self, call: ToolCall) -> str:
        """Return the id of a call."""
        if call.id:
            return call.id
        self._count += 1
        made = f"call-{self._count}"
        self._open.setdefault(call.tool_name, []).append(made)
        return made

    def of_result(self, result: ToolCallResult) -> str:
        """Return the id of the call that a result belongs to."""
        waiting = self._open.get(result.origin.tool_name)
        return result.origin.id or (waiting.pop(0) if waiting else self.of_call(result.origin))


def parts_of(message: ChatMessage, ids: HaystackCallIds) -> Iterator[Part]:
    """Yield the parts of a message, and as data the texts that stand beside them."""
    for item in message._content:
        yield _part(item, ids)
    refusal = message.meta.get("refusal")
    if message.is_from(ChatRole.ASSISTANT) and isinstance(refusal, str) and refusal:  # generators send it to the model
        yield UnknownPart({"refusal": refusal})
    extras = _extras(message) if message.is_from(ChatRole.ASSISTANT) else None
    if extras:
        yield DataPart(_EXTRAS, extras)


def _part(item: object, ids: HaystackCallIds) -> Part:
    if isinstance(item, TextContent):
        return TextPart(item.text)
    if isinstance(item, ReasoningContent):
        return ReasoningPart(item.reasoning_text)
    if isinstance(item, ImageContent):
        return ImagePart(data=item.base64_image, media_type=item.mime_type)
    if isinstance(item, FileContent):
        return FilePart(data=item.base64_data, media_type=item.mime_type, name=item.filename)
    if isinstance(item, ToolCall):
        return ToolPart(ids.of_call(item), item.tool_name, jsonable(item.arguments))
    if isinstance(item, ToolCallResult):
        said, call = plain(item.result), item.origin
        made = ToolPart(ids.of_result(item), call.tool_name, jsonable(call.arguments))
        if item.error:
            return replace(made, state="error", error=said if isinstance(said, str) else json.dumps(said))
        return replace(made, state="result", result=said)
    return UnknownPart(freeze(plain(item)))


def _content(part: Part) -> ChatMessageContentT:
    """Return a part as Haystack's content.

    Raises:
        UsageError: Haystack has no content of that kind.
    """
    if isinstance(part, TextPart):
        return TextContent(part.text)
    if isinstance(part, ReasoningPart):
        return ReasoningContent(part.text)
    if isinstance(part, ImagePart) and part.data is not None:
        return ImageContent(part.data, part.media_type, validation=False)
    if isinstance(part, FilePart) and part.data is not None:
        return FileContent(part.data, part.media_type, part.name, validation=False)
    if isinstance(part, ToolPart):
        call = ToolCall(part.name, cast("Json", thaw(part.arguments)), part.call_id)
        if part.state == "call":
            return call
        failed = part.state == "error"
        return ToolCallResult(part.error or "" if failed else content_of(thaw(part.result)), call, failed)
    raise UsageError(f"a processor made a part of the type {part.type!r}, which Haystack's messages do not have")


def _changed_content(part: Part, contents: Iterable[tuple[Part, ChatMessageContentT]]) -> ChatMessageContentT:
    """Return a changed part as content, with the fields beside the text of its original."""
    for before, content in contents:
        if isinstance(part, FilePart) and isinstance(content, FileContent) and part.data == content.base64_data:
            return replace(content, filename=part.name)
        if isinstance(part, ToolPart) and isinstance(before, ToolPart) and part.call_id == before.call_id:
            made = _content(part)
            if not (isinstance(made, ToolCallResult) and isinstance(content, ToolCallResult)):
                return made
            said = made.result if made.error else content_of(put(content.result, thaw(part.result)))
            return replace(
                made, result=said, origin=made.origin if part.arguments != before.arguments else content.origin
            )
    return _content(part)


def _new(role: str, contents: Iterable[ChatMessageContentT]) -> ChatMessage:
    return ChatMessage(ChatRole(role), list(contents))


def content_of(value: Value) -> ToolCallResultContentT:
    """Return a value as the result in a message: contents as they are, and other values as JSON."""
    if isinstance(value, str):
        return value
    items: Sequence[Value] = value if is_array(value) else ()
    if items and all(isinstance(one, (TextContent, ImageContent, FileContent)) for one in items):
        return items
    return json.dumps(plain(value), ensure_ascii=False)


def jsonable(value: object) -> Value:
    """Return a value as JSON; objects of unknown types as text."""
    return to_jsonable_python(value, fallback=str)


def plain(value: Value) -> Value:
    """Return a value of the framework as JSON: dataclasses and models as objects, bytes as the text in them."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, BaseModel):
        return jsonable(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if is_object(value):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in cast("Iterable[Value]", value)]
    return jsonable(value)


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def put(value: Value, left: Value) -> Value:
    """Return a value of the framework with the guarded version of its JSON; unchanged values stay as they are."""
    if plain(value) == left:
        return value
    if isinstance(value, bytes) and isinstance(left, str):
        return left.encode()
    if isinstance(value, BaseModel) and is_object(left):
        return type(value).model_validate(left)
    if is_dataclass(value) and not isinstance(value, type) and is_object(left):
        changed = {
            one.name: put(getattr(value, one.name), left[one.name])
            for one in fields(value)
            if one.init and one.name in left and plain(getattr(value, one.name)) != left[one.name]
        }
        return replace(cast("Any", value), **changed)
    if is_object(value) and is_object(left):
        by_name = {str(name): item for name, item in value.items()}
        return {name: put(by_name[name], item) if name in by_name else item for name, item in left.items()}
    if isinstance(value, (list, tuple, set, frozenset)) and is_array(left):
        items, kind = list(cast("Iterable[Value]", value)), cast("type[Any]", type(cast("object", value)))
        if len(items) == len(left):
            return kind(map(put, items, left))
    return left


def merged(said: ChatMessage | None, parts: Sequence[Part]) -> ChatMessage:
    """Return an answer with these parts; parts that equal the model's stay its objects."""
    if said is None:
        return _new("assistant", [_content(part) for part in parts if not isinstance(part, (DataPart, UnknownPart))])
    same = _said(parts_of(said, HaystackCallIds())) == _said(parts)
    given, left = _extras(said), data_left(parts, _EXTRAS)
    if same and left == given:
        return said
    told = {name: item for name, item in said.meta.items() if name in PLAIN_FACTS}
    if same:
        told = _with_left(said.meta, given, left, "meta")
    for part in parts:
        if isinstance(part, UnknownPart) and is_object(part.raw):  # a refusal
            told |= part.raw
    data = {part.data for part in parts if isinstance(part, (FilePart, ImagePart))}
    thoughts = [
        replace(one, extra=_with_left(one.extra, given, left, f"reasoning {at}"))
        for at, one in enumerate(said.reasonings)
    ]
    calls = [
        replace(call, extra=call.extra and _with_left(call.extra, given, left, f"call {call.id}"))
        for call in said.tool_calls
    ]
    contents = [
        *_same_texts(thoughts, parts, ReasoningPart),
        *_same_texts([TextContent(text) for text in said.texts], parts, TextPart),
        *(item for item in said._content if isinstance(item, ImageContent) and item.base64_image in data),
        *(item for item in said._content if isinstance(item, FileContent) and item.base64_data in data),
        *_same_calls(calls, parts),
    ]
    return ChatMessage(ChatRole.ASSISTANT, contents, said.name, told)


_EXTRAS, OUTPUTS = "haystack-extras", "haystack-outputs"
"""The names of the data parts with what stands beside an answer, and beside the replies; guards can edit data."""


def _extras(reply: ChatMessage) -> Json:
    """Return the texts that stand beside those of an answer: citations in ``meta``, and notes of its provider.

    Returns:
        The texts by where they stand: ``meta``, ``reasoning`` with its place, ``call`` with its id.
    """
    held = {"meta": texts_of(reply.meta, PLAIN_FACTS | {"logprobs", "refusal"})}
    held |= {f"reasoning {at}": texts_of(one.extra, _SEALED) for at, one in enumerate(reply.reasonings)}
    held |= {f"call {call.id}": texts_of(call.extra, _SEALED) for call in reply.tool_calls}
    return without_empty(held)


_SEALED = frozenset({"id", "type", "status", "call_id", "item_id", "signature", "encrypted_content"})
"""What providers note that is no text, or that only they can read."""


def texts_of(values: Mapping[str, Value] | None, known: Collection[str] = ()) -> Json:
    """Return the values that hold texts, as JSON, but for the known names."""
    found = {name: plain(item) for name, item in (values or {}).items() if name not in known}
    return {name: item for name, item in found.items() if has_text(item)}


def _with_left(values: Json, given: Json, left: Json, place: str) -> Json:
    """Return values with the guarded version of the texts among them."""
    before, after = given.get(place, {}), left.get(place, {})
    return {
        name: put(item, after[name]) if name in before else item
        for name, item in values.items()
        if name not in before or name in after
    }


def _same_texts(
    before: Sequence[TextContent | ReasoningContent], parts: Iterable[Part], kind: type[TextPart | ReasoningPart]
) -> Sequence[ChatMessageContentT]:
    """Return the texts of a kind; those of before if they say the same, however the text is cut."""
    old = [one.reasoning_text if isinstance(one, ReasoningContent) else one.text for one in before]
    texts = [part.text for part in parts if isinstance(part, kind)]
    if "".join(old) == "".join(texts):
        return before
    return [_content(kind(text)) for text in (texts if len(texts) == len(old) else ["".join(texts)]) if text]


def _same_calls(before: Sequence[ToolCall], parts: Iterable[Part]) -> Iterator[ToolCall]:
    """Yield the calls, with what their provider has noted at those that are the same."""
    for part in parts:
        if isinstance(part, ToolPart) and isinstance(call := _content(part), ToolCall):
            yield next((one for one in before if replace(one, extra=None) == call), call)


PLAIN_FACTS = frozenset({"model", "index", "finish_reason", "usage", "completion_start_time", "id", "created", "type"})
"""What generators report that repeats nothing of an answer; logprobs, for example, do."""


def _said(parts: Iterable[Part]) -> tuple[object, ...]:
    """Return what parts say, however the text is cut into pieces."""
    held = list(parts)
    texts = "".join(part.text for part in held if isinstance(part, TextPart))
    reasoning = "".join(part.text for part in held if isinstance(part, ReasoningPart))
    calls = [
        (part.call_id, part.name, part.arguments, part.state, part.result, part.error)
        for part in held
        if isinstance(part, ToolPart)
    ]
    data = [part.data for part in held if isinstance(part, (FilePart, ImagePart))]
    return texts, reasoning, calls, data, [part.raw for part in held if isinstance(part, UnknownPart)]
