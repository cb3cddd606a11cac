"""The framework's messages both ways. Unchanged objects are written as they were read."""

from __future__ import annotations

import json
from copy import copy
from operator import is_
from typing import TYPE_CHECKING, cast

import agent_framework as theirs

from penstock.engine.values.frozen import EMPTY, freeze, thaw
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats.parts import media_type_of, split_data_url
from penstock.formats.wire import metadata_of as notes_of, with_notes
from penstock.models.openai.wire import checksum
from penstock.workflows.adapters.agent_framework.values import (
    BESIDE,
    FORMAT,
    Beside,
    are_texts,
    arguments_of,
    as_result,
    beside_content,
    beside_message,
    is_same,
    left_beside,
    own_properties,
    plain_content,
    put_beside,
    result_value,
    sealed_in,
)
from penstock.workflows.hosting import Originals
from penstock.workflows.hosting.answers import as_text
from penstock.workflows.hosting.matching import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Part, Role
    from penstock.workflows.hosting import HostRequest, Original

CONTENT = f"{FORMAT}-content"
"""The name of the data parts that hold a content of an answer that no other part can; guards can edit data."""

_ROLES = frozenset({"system", "user", "assistant", "tool"})


class Contents:
    """Reads and writes the framework's messages of one request. Unchanged contents stay the objects that were read."""

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._originals = Originals[theirs.Message](request, self._write)
        self._contents: dict[Part, theirs.Content] = {}
        self._calls: dict[str, theirs.Content] = {}
        self._results: dict[str, theirs.Content] = {}

    def read(self, message: theirs.Message) -> Iterator[Message]:
        """Yield a message of the framework; results of tools as messages of their own.

        The data beside its contents comes last, as data.
        """
        role: Role = cast("Role", message.role) if message.role in _ROLES else "system"
        results: list[Part] = []
        rest: list[Part] = []
        beside: Beside = beside_message(message)
        for number, content in enumerate(message.contents):
            part = self.part(content, role, str(number))
            if content.type == "function_result":
                results.append(part)
                continue
            rest.append(part)
            if content.type in _WITH_BESIDE:
                beside |= beside_content(place_of(part), content)
        if beside and (rest or not results):
            rest.append(DataPart(BESIDE, freeze(beside)))
        notes = {"id": message.message_id} if message.message_id else {}
        metadata: Values = with_notes(FORMAT, notes) if notes else EMPTY
        if results:
            yield Message("tool", tuple(results), metadata=metadata, name=message.author_name)
        if rest or not results:
            said: Role = "assistant" if role == "tool" else role
            provided = said == "system" and "_attribution" in message.additional_properties  # by a context provider
            yield Message(said, tuple(rest), metadata=metadata, name=message.author_name, from_client=provided)

    def read_call(self, messages: Iterable[theirs.Message]) -> list[Message]:
        """Return the messages of a model call; `written` gives back those that are unchanged."""
        groups = [(message, list(self.read(message))) for message in messages]
        whole = [(bare(message), group[0]) for message, group in groups if len(group) == 1]
        self._originals.note([message for message, _ in whole], [one for _, one in whole])
        return [one for _, group in groups for one in group]

    def part(self, content: theirs.Content, role: str, place: str) -> Part:
        """Return a part.

        Args:
            content: the content.
            role: the role of its message.
            place: its place in the message, for the data beside it.
        """
        made = self._part(content, role, place)
        self._contents[made] = content
        return made

    def _part(self, content: theirs.Content, role: str, place: str) -> Part:
        kind = content.type
        if kind == "text":
            return TextPart(content.text or "", notes_for(content, place))
        if kind == "text_reasoning" and content.text:
            return ReasoningPart(content.text, notes_for(content, place))
        if kind == "function_call" and content.name and not getattr(content, "informational_only", False):
            self._calls[content.call_id or ""] = content
            return ToolPart(content.call_id or "", content.name, freeze(arguments_of(content)[0]))
        if kind == "function_result":
            call_id = content.call_id or ""
            self._results[call_id] = content
            value = _said_by_tool(content)
            if content.exception is None:
                return ToolPart(call_id, "", EMPTY, "result", freeze(value))
            return ToolPart(call_id, "", EMPTY, "error", None, value if isinstance(value, str) else json.dumps(value))
        if kind in ("data", "uri") and content.uri:
            return _media(content, place)
        raw = freeze(plain_content(content))
        return DataPart(CONTENT, raw) if role == "assistant" and not is_sealed(content) else UnknownPart(raw)

    def current(self, said: Sequence[tuple[theirs.Message, list[Message]]]) -> list[theirs.Message]:
        """Return the framework's messages as the guards left them; those that they removed are left out."""
        left = iter(self._request.current([one for _, group in said for one in group]))
        made: list[theirs.Message] = []
        for message, group in said:
            now = [next(left) for _ in group]
            if all(after is not None and one.parts == after.parts for one, after in zip(group, now, strict=True)):
                made.append(bare(message))
                continue
            parts = [part for one in now if one is not None for part in one.parts]
            if parts:
                made.append(self._changed(message, parts))
        return made

    def _changed(self, message: theirs.Message, parts: Sequence[Part]) -> theirs.Message:
        """Return a message with other parts."""
        left = left_beside(parts)
        changed = copy(message)
        changed.contents = [content for part in parts for content in self.contents_of(part, left)]
        changed.additional_properties = {
            **own_properties(message),
            **left.get("message", {}).get("additional_properties", {}),
        }
        changed.raw_representation = None
        return changed

    def written(self, messages: Iterable[Message], *, after: str | None = None) -> list[theirs.Message]:
        """Return messages for the client; those up to the message ``after`` only if it does not keep them itself."""
        said = list(messages)
        at = next((at for at, message in enumerate(said) if message.id == after), None) if after else None
        if at is not None:
            said[: at + 1] = [Message("tool", tuple(filter(is_finished, said[at].parts)))]
        return self._originals.written(message for message in said if message.parts or message.role != "tool")

    def _write(self, message: Message, _original: Original[theirs.Message] | None) -> list[theirs.Message]:
        if message.role == "tool":
            return [
                theirs.Message("tool", [self._result(part) for part in message.parts if isinstance(part, ToolPart)])
            ]
        left = left_beside(message.parts)
        made = theirs.Message(
            message.role,
            [content for part in message.parts for content in self.contents_of(part, left)],
            author_name=message.name,
            message_id=notes_of(message, FORMAT).get("id"),
            additional_properties=left.get("message", {}).get("additional_properties"),
        )
        return [made]

    def contents_of(self, part: Part, left: Beside) -> Iterator[theirs.Content]:
        """Yield the content of a part.

        Args:
            part: the part.
            left: the guarded version of the data beside the parts of its message.
        """
        if isinstance(part, ToolPart):
            yield self.call(part, left) if part.state == "call" else self._result(part)
            return
        known = self._contents.get(part)
        if known is not None and is_same(known, place_of(part), left):
            yield known
        elif isinstance(part, (TextPart, ReasoningPart)):
            yield _text_content(part, left)
        elif isinstance(part, (ImagePart, AudioPart, FilePart)):
            yield put_beside(_media_content(part), place_of(part), left)
        elif isinstance(part, UnknownPart):
            yield theirs.Content.from_dict(thaw(part.raw))
        elif isinstance(part, DataPart) and part.name == CONTENT:
            yield theirs.Content.from_dict(thaw(part.data))

    def call(self, part: ToolPart, left: Beside) -> theirs.Content:
        """Return a call: the one that was read, with the arguments that the guards left."""
        known, place = self._calls.get(part.call_id), place_of(part)
        if known is None or known.name != part.name:
            made = theirs.Content.from_function_call(part.call_id, part.name, arguments=as_text(part.arguments))
        elif freeze(arguments_of(known)[0]) != part.arguments:
            made = copy(known)
            made.arguments, made.raw_representation = as_text(part.arguments), None
        elif is_same(known, place, left):
            return known
        else:
            made = copy(known)
        return put_beside(made, place, left)

    def _result(self, part: ToolPart) -> theirs.Content:
        known = self._results.get(part.call_id)
        said = part.error if part.state == "error" else part.result
        if known is not None and freeze(_said_by_tool(known)) == said:
            return bare_result(known)
        failed = "error" if part.state == "error" else None
        return theirs.Content.from_function_result(part.call_id, result=as_result(said), exception=failed)


_WITH_BESIDE = frozenset({"text", "text_reasoning", "function_call", "data", "uri"})
"""The kinds of contents of which a part does not hold everything."""


def is_sealed(content: theirs.Content) -> bool:
    """Return whether only the provider can read a content: encrypted reasoning, which must be sent back."""
    return content.type == "text_reasoning" and not content.text and not beside_content("", content)


def place_of(part: Part) -> str:
    """Return the name under which data holds the data beside a part."""
    if isinstance(part, ToolPart):
        return f"call {part.call_id}"
    notes: Values = part.metadata.get(FORMAT) or EMPTY
    return str(notes.get("place", ""))


def notes_for(content: theirs.Content, place: str) -> Values:
    """Return the metadata of a part: its place, if there is data beside it, and text that only a provider can read."""
    if not (content.annotations or content.additional_properties or content.id or content.protected_data):
        return EMPTY
    beside = beside_content(place, content)
    return with_notes(FORMAT, {"place": place if beside else None, "id": content.id, **sealed_in(content)})


def bare(message: theirs.Message) -> theirs.Message:
    """Return a message without the data beside results of tools, which no part can hold."""
    contents = [bare_result(content) if content.type == "function_result" else content for content in message.contents]
    only_results = bool(contents) and all(content.type == "function_result" for content in contents)
    unread = bool(only_results and beside_message(message))
    if not unread and all(map(is_, contents, message.contents)):
        return message
    made = copy(message)
    made.contents = contents
    if unread:
        made.additional_properties = own_properties(message)
    return made


def bare_result(result: theirs.Content) -> theirs.Content:
    """Return a result of a tool without the data beside it."""
    items = getattr(result, "items", None) or ()
    texts = items if are_texts(items) else ()
    if not any(one.annotations or one.additional_properties or one.raw_representation for one in (result, *texts)):
        return result
    made = _without_beside(result)
    if texts:
        made.items = [_without_beside(text) for text in texts]
    return made


def _without_beside(content: theirs.Content) -> theirs.Content:
    made = copy(content)
    made.annotations = made.raw_representation = None
    made.additional_properties = {}
    return made


def _said_by_tool(result: theirs.Content) -> Value:
    return result_value(getattr(result, "items", None) or result.result)


def _text_content(part: TextPart | ReasoningPart, left: Beside) -> theirs.Content:
    """Return a text; a changed one without its signature, and without what points into the old text."""
    notes = notes_of(part, FORMAT)
    made = theirs.Content(
        "text" if isinstance(part, TextPart) else "text_reasoning", text=part.text, id=notes.get("id")
    )
    same = checksum(part.text) == notes.get("of")
    if same:
        made.protected_data = notes.get("protected_data")
    return put_beside(made, place_of(part), left, notes, changed=not same)


def _media(content: theirs.Content, place: str) -> Part:
    uri = content.uri or ""
    found = split_data_url(uri)
    data, url = (found[1], None) if found is not None else (None, uri)
    media_type = content.media_type or (found[0] if found is not None else None)
    notes = notes_for(content, place)
    family = (media_type or "").partition("/")[0]
    if family == "image":
        return ImagePart(url, data, media_type, notes)
    if family == "audio":
        return AudioPart(data, url, media_type, metadata=notes)
    return FilePart(data, url, None, media_type, None, notes)


def _media_content(part: ImagePart | AudioPart | FilePart) -> theirs.Content:
    media_type = media_type_of(part) or "application/octet-stream"
    uri = part.url if part.data is None else f"data:{media_type};base64,{part.data}"
    return theirs.Content("uri" if part.data is None else "data", uri=uri or "", media_type=media_type)
