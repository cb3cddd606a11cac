"""Read and write LangChain's messages in the forms in which its functions dump them.

    {"type": "human", "content": …}                             ``message.model_dump()``
    {"type": "human", "data": {"content": …}}                   ``messages_to_dict``
    {"lc": 1, "id": [… "HumanMessage"], "kwargs": {…}}          ``dumpd``
    {"role": "human", "content": …}                             what ``convert_to_messages`` takes

A message is written in the form in which it was read; one from elsewhere in the first one. Blocks that belong to a
provider are read and written by the module of its format. A call that stands both in ``tool_calls`` and among the
content is read once, and written to both places.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats import anthropic, openai_chat
from penstock.formats.parts import (
    is_finished,
    media_type_of,
    read_outcome,
    result_text,
    steps,
    with_answers,
    write_outcome,
)
from penstock.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_array,
    expect_object,
    expect_text,
    is_array,
    is_object,
    maybe_text,
    named,
    notes_of,
    read_each,
    refuse_without_content,
    unknown_keys,
    with_notes,
    with_unknown_keys,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.messages import Part, Role


__all__ = ["FORMAT", "LEAVES_OUT", "TYPES", "read", "write"]

FORMAT = "langchain"
LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

TYPES: dict[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "tool",
}
"""The role for each type of message. The type ``chat`` says its role itself."""

_CHATS = ("chat", "ChatMessageChunk")
_CHAT_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
}
_USUAL_TYPE = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
_KEYS = frozenset({"type", "role", "name", "id", "content", "tool_calls", "invalid_tool_calls"})
_RESULT_KEYS = frozenset({"type", "name", "id", "content", "tool_call_id", "status"})
_FORMS = {"data": frozenset({"type", "data"}), "lc": frozenset({"lc", "type", "id", "kwargs"})}
_COPY = "additional_kwargs"

_TEXT = frozenset({"type", "text"})
_REASONING = frozenset({"type", "reasoning"})
_MEDIA = frozenset({"type", "url", "base64", "data", "file_id", "mime_type"})
_CALL = frozenset({"type", "id", "name", "args"})
_SERVER_RESULT = frozenset({"type", "tool_call_id", "status", "output"})
_INVALID = frozenset({"type", "id", "name", "args"})
_COPIES = {"tool_use": "input", "tool_call": "args"}
"""The types of blocks that repeat a call of ``tool_calls``, with their key for the arguments."""

_OF_CHAT = frozenset({"image_url", "input_audio", "refusal"})
_OF_ANTHROPIC = frozenset({"thinking", "redacted_thinking", "document", "search_result"})


# Blocks


def read_part(value: Value, place: str) -> Part:
    """Return the part for a block of content, or for a str among the blocks.

    Raises:
        MessageError: it is malformed.
    """
    if isinstance(value, str):
        return TextPart(value, with_notes(FORMAT, {"bare": True}))
    item = expect_object(value, place, "a str, or an object with a type")
    if "type" not in item and isinstance(item.get("text"), str):
        return TextPart(item["text"], with_notes(FORMAT, {"untyped": True, "extra": unknown_keys(item, _TEXT, _TEXT)}))
    kind = expect_text(item, "type", place)
    provider = _provider_of(item, kind)
    if provider is not None:
        read = openai_chat.read_part if provider == openai_chat.FORMAT else anthropic.read_part
        found: Part = read(item, place)
        return replace(found, metadata={**found.metadata, **with_notes(FORMAT, {"as": provider})})
    reader = _READERS.get(kind)
    part = reader(item, place) if reader is not None else None
    return UnknownPart(item) if part is None else part


def _provider_of(item: Json, kind: str) -> str | None:
    """Return the format of a provider whose block this is; None for LangChain's own blocks."""
    if kind in _OF_CHAT or (kind == "file" and is_object(item.get("file"))):
        return openai_chat.FORMAT
    if kind in _OF_ANTHROPIC or (kind == "image" and is_object(item.get("source"))):
        return anthropic.FORMAT
    return None


def _read_text(item: Json, place: str) -> Part | None:
    return TextPart(expect_text(item, "text", place), with_notes(FORMAT, {"extra": unknown_keys(item, _TEXT, _TEXT)}))


def _read_plain(item: Json, _place: str) -> Part | None:
    """Read a document of plain text. One that has only a URL or data stays as it is."""
    if not isinstance(item.get("text"), str):
        return None
    return TextPart(item["text"], with_notes(FORMAT, {"type": item["type"], "extra": unknown_keys(item, _TEXT, _TEXT)}))


def _read_reasoning(item: Json, _place: str) -> Part | None:
    text = item.get("reasoning")
    if not isinstance(text, str):
        return None
    return ReasoningPart(text, with_notes(FORMAT, {"extra": unknown_keys(item, _REASONING, _REASONING)}))


def _read_media(item: Json, place: str) -> Part | None:
    """Read an image, a sound, a video or a file, in the current shape or in the older one with a ``source_type``."""
    old = item.get("source_type") is not None
    key = "data" if old else "base64"
    file_key = "id" if old else "file_id"
    url, data, file_id, media_type = (maybe_text(item, name, place) for name in ("url", key, file_key, "mime_type"))
    handled = {"type", *(name for name in ("url", key, file_key, "mime_type") if item.get(name) is not None)}
    kind = item["type"]
    notes: Json = {
        "type": kind,
        "old": old or None,
        "extra": {name: given for name, given in item.items() if name not in handled},
    }
    metadata = with_notes(FORMAT, notes)
    if kind == "image" and file_id is None:
        return ImagePart(url, data, media_type, metadata)
    if kind == "audio" and file_id is None:
        return AudioPart(data, url, media_type, metadata=metadata)
    return FilePart(data, url, file_id, media_type, None, metadata)


def _read_server_call(item: Json, place: str) -> Part | None:
    return _call(item, place, {"server": True})


def _read_server_result(item: Json, place: str) -> Part | None:
    call_id, status = expect_text(item, "tool_call_id", place), maybe_text(item, "status", place)
    state, result, error = read_outcome(item.get("output"), failed=status == "error")
    notes: Json = {
        "server": True,
        "output": None if "output" in item else "absent",
        "status": status if status != "error" else None,
        "extra": unknown_keys(item, _SERVER_RESULT, {"output"}),
    }
    return ToolPart(
        call_id, "", EMPTY, state, result, error, with_notes(FORMAT, {"alone": True, "result": without_empty(notes)})
    )


_READERS: dict[str, Callable[[Json, str], Part | None]] = {
    "text": _read_text,
    "text-plain": _read_plain,
    "reasoning": _read_reasoning,
    "image": _read_media,
    "audio": _read_media,
    "video": _read_media,
    "file": _read_media,
    "server_tool_call": _read_server_call,
    "server_tool_result": _read_server_result,
}


def write_part(part: Part) -> Value:
    """Return the block for a part that is no call."""
    notes = notes_of(part, FORMAT)
    provider = notes.get("as")
    if provider == openai_chat.FORMAT:
        return openai_chat.write_part(part)
    if provider == anthropic.FORMAT:
        return anthropic.write_part(part)
    if isinstance(part, TextPart):
        return _write_text(part, notes)
    if isinstance(part, ReasoningPart):
        return with_unknown_keys({"type": "reasoning", "reasoning": part.text}, notes, _REASONING)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, notes)
    return thaw(part.raw) if isinstance(part, UnknownPart) else {}


def _write_text(part: TextPart, notes: Json) -> Value:
    if notes.get("bare"):
        return part.text
    body: Json = {"text": part.text}
    if not notes.get("untyped"):
        body["type"] = "text-plain" if notes.get("type") == "text-plain" else "text"
    return with_unknown_keys(body, notes, _TEXT)


def _write_media(part: ImagePart | AudioPart | FilePart, notes: Json) -> Json:
    old, own = bool(notes.get("old")), notes.get("type") in _DATA_TYPE
    family = media_type_of(part).partition("/")[0]
    kind = "image" if isinstance(part, ImagePart) else "audio" if isinstance(part, AudioPart) else "file"
    if kind == "file":
        kind = notes["type"] if own else family if family in _DATA_TYPE else kind
    body: Json = {"type": kind}
    file_id = part.file_id if isinstance(part, FilePart) else None
    given = {
        "url": part.url,
        "data" if old else "base64": part.data,
        "id" if old else "file_id": file_id,
        "mime_type": part.media_type or (None if own or part.data is None else _DATA_TYPE[kind]),
    }
    body |= {key: value for key, value in given.items() if value is not None}
    if isinstance(part, FilePart) and part.name is not None:
        body["extras"] = {"filename": part.name}
    return with_unknown_keys(body, notes, {"type", *given})


_DATA_TYPE = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


# Calls


def _call(item: Json, place: str, notes: Json, key: str = "args") -> ToolPart:
    call_id, name = maybe_text(item, "id", place), expect_text(item, "name", place)
    known = {"type", "id", "name", key}
    usual = "server_tool_call" if notes.get("server") else "tool_call"
    notes = {
        **notes,
        "type": _odd_type(item, usual),
        "extra": unknown_keys(item, known, {"type", key}),
        "args": "absent" if key not in item else None if is_object(item[key]) else "bare",
    }
    return ToolPart(call_id or "", name, item.get(key, EMPTY), metadata=with_notes(FORMAT, notes))


def _odd_type(item: Json, usual: str) -> Value:
    """Return a note on the type of a call that is missing, or is not the usual one."""
    return "absent" if item.get("type") is None else None if item["type"] == usual else item["type"]


def _read_calls(item: Json, content: Sequence[Part], place: str) -> list[Part]:
    """Return the parts of the content, and behind them the calls that do not stand among it."""
    listed = expect_array(item.get("tool_calls") or (), f"{place}.tool_calls", "a list of tool calls")
    calls: dict[str, ToolPart] = {}
    others: list[Part] = []
    for index, value in enumerate(listed):
        where = f"{place}.tool_calls[{index}]"
        given = expect_object(value, where, "a tool call")
        # Calls in the form of OpenAI's chat, which `convert_to_messages` takes too, stay as they are.
        call: Part = _call(given, where, {}) if "name" in given else UnknownPart(given, with_notes(FORMAT, _LISTED))
        if isinstance(call, ToolPart) and call.call_id and call.call_id not in calls:
            calls[call.call_id] = call
        else:
            others.append(call)
    parts = [_with_listed(part, calls) for part in content]
    return [*parts, *calls.values(), *others, *_read_invalid(item, place)]


_LISTED: Json = {"field": "tool_calls"}


def _with_listed(part: Part, calls: dict[str, ToolPart]) -> Part:
    """Return a block that repeats a call as that call; ``calls`` then no longer has it."""
    raw: Value = part.raw if isinstance(part, UnknownPart) else None
    kind: Value = raw.get("type") if is_object(raw) else None
    key = _COPIES.get(kind) if isinstance(kind, str) else None
    if key is None or not isinstance(raw.get("id"), str):
        return part
    call = calls.get(raw["id"])
    if call is None or (raw.get("name"), raw.get(key)) != (call.name, call.arguments):
        return part
    copy = {"type": raw["type"], "extra": {name: given for name, given in raw.items() if name not in _OF_COPY[key]}}
    metadata = with_notes(FORMAT, {**notes_of(call, FORMAT), "copy": copy})
    return replace(calls.pop(raw["id"]), metadata=metadata)


_OF_COPY = {key: frozenset({"type", "id", "name", key}) for key in _COPIES.values()}


def _read_invalid(item: Json, place: str) -> Iterator[Part]:
    """Yield the calls whose arguments are no JSON object."""
    given = expect_array(item.get("invalid_tool_calls") or (), f"{place}.invalid_tool_calls", "a list of tool calls")
    for index, value in enumerate(given):
        where = f"{place}.invalid_tool_calls[{index}]"
        call = expect_object(value, where, "a tool call")
        call_id, name, text = (maybe_text(call, key, where) for key in ("id", "name", "args"))
        kind = _odd_type(call, "invalid_tool_call")
        notes: Json = {"invalid": True, "type": kind, "extra": unknown_keys(call, _INVALID)}
        yield ToolPart(call_id or "", name or "", EMPTY if text is None else text, metadata=with_notes(FORMAT, notes))


def _write_calls(parts: Sequence[Part]) -> Json:
    """Return ``tool_calls`` and ``invalid_tool_calls``, without those that have no entries."""
    calls: list[Json] = []
    invalid: list[Json] = []
    for part in parts:
        if isinstance(part, UnknownPart) and notes_of(part, FORMAT).get("field") == "tool_calls":
            calls.append(thaw(part.raw))
        if not isinstance(part, ToolPart) or _is_block(part):
            continue
        notes = notes_of(part, FORMAT)
        if notes.get("invalid") or isinstance(part.arguments, str):
            invalid.append(_write_invalid(part, notes))
        else:
            calls.append(_write_call(part, notes))
    return without_empty({"tool_calls": calls or None, "invalid_tool_calls": invalid or None})


def _write_call(part: ToolPart, notes: Json) -> Json:
    body: Json = {"name": part.name}
    if notes.get("args") != "absent" or part.arguments != {}:
        arguments = thaw(part.arguments)
        body["args"] = arguments if notes.get("args") or is_object(arguments) else {"input": arguments}
    if part.call_id:
        body["id"] = part.call_id
    kind = notes.get("type", "server_tool_call" if notes.get("server") else "tool_call")
    if kind != "absent":
        body["type"] = kind
    return with_unknown_keys(body, notes, _CALL)


def _write_invalid(part: ToolPart, notes: Json) -> Json:
    given = {"id": part.call_id or None, "name": part.name or None}
    text = None if part.arguments == {} else part.arguments
    kind = notes.get("type", "invalid_tool_call")
    body = {"type": None if kind == "absent" else kind, **given, "args": text}
    return with_unknown_keys({key: value for key, value in body.items() if value is not None}, notes, _INVALID)


def _is_block(part: ToolPart) -> bool:
    """Return whether a tool's part stands among the content only, since the provider ran it."""
    notes = notes_of(part, FORMAT)
    return bool(notes.get("server") or notes.get("alone"))


def _write_block(part: Part) -> Value:
    """Return a part as a block of the content; None for a call that stands only in ``tool_calls``."""
    notes = notes_of(part, FORMAT)
    if not isinstance(part, ToolPart):
        return None if notes.get("field") == "tool_calls" else write_part(part)
    if notes.get("alone"):
        return _write_server_result(part)
    if notes.get("server"):
        return _write_call(part, notes)
    copy: Value = notes.get("copy")
    if not is_object(copy) or copy.get("type") not in _COPIES:
        return None
    key = _COPIES[copy["type"]]
    body: Json = {"type": copy["type"], "id": part.call_id, "name": part.name, key: thaw(part.arguments)}
    return with_unknown_keys(body, copy, _OF_COPY[key])


def _write_server_result(part: ToolPart) -> Json:
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    body: Json = {"type": "server_tool_result", "tool_call_id": part.call_id}
    if part.state == "error":
        body["status"] = "error"
    elif isinstance(notes.get("status"), str):
        body["status"] = notes["status"]
    said = write_outcome(part, own=bool(notes))
    if said is not None or notes.get("output") != "absent":
        body["output"] = said
    return with_unknown_keys(body, notes, _SERVER_RESULT)


# The copy of the calls in the form of OpenAI's chat


def _without_copy(item: Json, parts: Sequence[Part]) -> tuple[Json, Value]:
    """Return the message without the copy of its calls in ``additional_kwargs``, and notes to write it again."""
    kwargs: Value = item.get(_COPY)
    copies: Value = kwargs.get("tool_calls") if is_object(kwargs) else None
    calls = [part for part in parts if isinstance(part, ToolPart)]
    if not is_array(copies) or not copies or len(copies) != len(calls):
        return item, None
    try:
        read = openai_chat.read_calls({"tool_calls": copies}, "")
    except MessageError:
        return item, None
    for copy, call in zip(read, calls, strict=True):
        if not isinstance(copy, ToolPart) or _said(copy) != _said(call):
            return item, None
    rest = {key: value for key, value in kwargs.items() if key != "tool_calls"}
    return {**item, _COPY: rest}, [notes_of(copy, openai_chat.FORMAT) for copy in read]


def _said(call: ToolPart) -> tuple[str, str, Value]:
    return call.call_id, call.name, call.arguments


def _write_copy(parts: Sequence[Part], notes: Sequence[Value]) -> list[Json]:
    calls = [part for part in parts if isinstance(part, ToolPart)]
    found: list[Json] = [note if is_object(note) else {} for note in notes]
    return [
        openai_chat.write_call(replace(call, metadata=with_notes(openai_chat.FORMAT, note or {})))
        for call, note in zip_longest(calls, found[: len(calls)])
    ]


# Messages


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(read_each(items, place, start, _read_item))


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a message")
    if "lc" in item:
        kwargs = expect_object(item.get("kwargs"), f"{place}.kwargs", "an object with the message's fields")
        frame: Json = {"lc": {key: given for key, given in item.items() if key != "kwargs"}}
        return [_read_message(kwargs, _type_of(item, kwargs, place), frame, f"{place}.kwargs")]
    if "data" in item and "content" not in item:
        data = expect_object(item["data"], f"{place}.data", "an object with the message's fields")
        extra = {key: given for key, given in item.items() if key != "data"}
        return [_read_message(data, _type_of(item, data, place), {"data": extra}, f"{place}.data")]
    if "type" in item:
        return [_read_message(item, expect_text(item, "type", place), {}, place)]
    return [_read_message(item, _known(item, place, "role", _BY_ROLE), {"by_role": item.get("role")}, place)]


_BY_ROLE = {"human": "human", "ai": "ai", "user": "human", "assistant": "ai", "system": "system", "tool": "tool"}


def _known(item: Json, place: str, key: str, known: Mapping[str, str]) -> str:
    """Return what is known for the text under a key.

    Raises:
        MessageError: it is missing, or not known.
    """
    found = known.get(expect_text(item, key, place))
    if found is None:
        raise MessageError(f"{place}.{key}", f"expected one of {', '.join(known)}, not another str")
    return found


def _type_of(item: Json, fields: Json, place: str) -> str:
    """Return the type of a message in a frame: its own, the frame's, or that of the class that the frame names."""
    if fields.get("type") is not None:
        return expect_text(fields, "type", place)
    return _class_type(item.get("id")) if "lc" in item else expect_text(item, "type", place)


def _class_type(path: Value) -> str:
    """Return the type of the messages of a class, given its path; empty for what is no class of messages."""
    name = path[-1] if is_array(path) and path and isinstance(path[-1], str) else ""
    kind = name.removesuffix("Message").lower() if name.endswith("Message") else name
    return kind if kind in TYPES or kind in _CHATS else ""


def _read_message(item: Json, kind: str, frame: Json, place: str) -> Message:
    if kind in _CHATS:
        role = _CHAT_ROLES[_known(item, place, "role", {name: name for name in _CHAT_ROLES})]
    elif kind in TYPES:
        role = TYPES[kind]
    else:
        known = ", ".join((*TYPES, *_CHATS))
        raise MessageError(f"{place}.type", f"expected one of {known}, not another str")
    if role == "tool":
        return _read_result(item, kind, frame, place)
    content = _read_content(item.get("content"), f"{place}.content")
    parts = _read_calls(item, content, place)
    rest, copies = _without_copy(item, parts)
    message_id = maybe_text(item, "id", place) or ""
    known_keys = _KEYS if kind in _CHATS or "by_role" in frame else _KEYS - {"role"}
    notes: Json = {
        **frame,
        "type": _noted_type(item, kind, frame),
        "role": item["role"] if kind in _CHATS else None,
        "id": message_id or None,
        "content": "absent" if "content" not in item else "list" if is_array(item["content"]) else None,
        "calls": copies,
        "extra": unknown_keys(rest, known_keys, {"type"}),
    }
    refuse_without_content(item, place, parts, {key: item[key] for key in item.keys() - _KEYS - _USUAL_KEYS})
    name = maybe_text(item, "name", place) or None
    return Message(role, tuple(parts), id=message_id, metadata=with_notes(FORMAT, notes), name=name)


_USUAL_KEYS = frozenset({_COPY, "response_metadata", "usage_metadata"})


def _noted_type(item: Json, kind: str, frame: Json) -> str | None:
    """Return a note on the type: that there is none, or the one that would not be written by itself."""
    if "type" not in item:
        return None if "by_role" in frame else "absent"
    return kind if kind not in _USUAL_TYPE.values() else None


def _read_content(value: Value, place: str) -> list[Part]:
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [TextPart(value)]
    items = expect_array(value, place, "a str or a list of blocks")
    return [read_part(item, f"{place}[{index}]") for index, item in enumerate(items)]


def _read_result(item: Json, kind: str, frame: Json, place: str) -> Message:
    content, status = item.get("content"), maybe_text(item, "status", place)
    if content is not None and not isinstance(content, str):
        expect_array(content, f"{place}.content", "a str or a list of blocks")
    state, result, error = read_outcome(content, failed=status == "error")
    call_id, name = maybe_text(item, "tool_call_id", place), maybe_text(item, "name", place)
    notes: Json = {
        **frame,
        "type": _noted_type(item, kind, frame),
        "named": True if name else None,
        "blocks": True if is_array(content) else None,
        "content": "absent" if "content" not in item else None,
        "status": status if status != "error" else None,
        "extra": unknown_keys(item, _RESULT_KEYS | ({"role"} if "by_role" in frame else set[str]()), {"type"}),
    }
    part = ToolPart(
        call_id or "", name or "", EMPTY, state, result, error, with_notes(FORMAT, {"result": without_empty(notes)})
    )
    message_id = maybe_text(item, "id", place) or ""
    return Message("tool", (part,), id=message_id, metadata=with_notes(FORMAT, {"id": message_id or None}))


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as LangChain dumps them.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


_LEFT_OUT = (SourcePart, DataPart, StepStartPart)


def _write_message(message: Message) -> Iterator[Json]:
    notes = notes_of(message, FORMAT)
    if message.role == "tool":
        yield from _write_tool_message(message, notes)
        return
    whole = with_answers(message.parts, FORMAT)
    cut = steps(whole, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)), _is_answered)
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            yield _write_step(message, parts, notes)
            notes = {}
        yield from (_write_result(part) for part in parts if isinstance(part, ToolPart) and _is_answered(part))


def _is_answered(part: Part) -> bool:
    return isinstance(part, ToolPart) and is_finished(part) and not _is_block(part)


def _write_tool_message(message: Message, notes: Json) -> Iterator[Json]:
    said = [part for part in message.parts if not isinstance(part, (ToolPart, *_LEFT_OUT))]
    if said:
        yield {"type": "human", "content": [write_part(part) for part in said]}
    for part in message.parts:
        if isinstance(part, ToolPart):
            item = _write_result(part)
            fields = next((item[key] for key in ("data", "kwargs") if is_object(item.get(key))), item)
            if isinstance(notes.get("id"), str):
                fields["id"] = notes["id"]
            yield item


def _write_step(message: Message, parts: Sequence[Part], notes: Json) -> Json:
    blocks = [block for part in parts if (block := _write_block(part)) is not None]
    plain = len(blocks) == 1 and is_object(blocks[0]) and blocks[0].keys() == {"type", "text"}
    plain = plain and blocks[0]["type"] == "text" and notes.get("content") != "list"
    body: Json = {}
    extra = notes.get("extra")
    is_open = notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
    if blocks or not is_open:
        nothing: Value = [] if notes.get("content") == "list" else ""
        body["content"] = nothing if not blocks else blocks[0]["text"] if plain else blocks
    body |= _write_calls(parts)
    if message.name is not None:
        body["name"] = message.name
    if isinstance(notes.get("id"), str):
        body["id"] = notes["id"]
    copies: Value = notes.get("calls")
    kwargs: Value = extra.get(_COPY) if is_object(extra) else None
    if is_array(copies):
        body[_COPY] = {**(kwargs if is_object(kwargs) else {}), "tool_calls": _write_copy(parts, copies)}
    role = notes.get("role")
    if isinstance(role, str) and _CHAT_ROLES.get(role) == message.role:
        body["role"] = role
    return _framed(body, message.role, notes, _KEYS)


def _write_result(part: ToolPart) -> Json:
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    body: Json = {}
    said = write_outcome(part, own=bool(notes))
    if said is not None or not notes:
        fits = isinstance(said, str) or (is_array(said) and bool(notes.get("blocks")))
        body["content"] = said if fits else result_text(part)
    if part.call_id:
        body["tool_call_id"] = part.call_id
    if part.name and (notes.get("named") or not notes):
        body["name"] = part.name
    if part.state == "error":
        body["status"] = "error"
    elif isinstance(notes.get("status"), str):
        body["status"] = notes["status"]
    return _framed(body, "tool", notes, _RESULT_KEYS)


def _framed(body: Json, role: str, notes: Json, known: frozenset[str]) -> Json:
    """Return the fields of a message with their unknown ones, in the form in which it was read."""
    kind = notes.get("type", _USUAL_TYPE[role])
    fits = kind in _CHATS or TYPES.get(kind) == role if isinstance(kind, str) else False
    by_role = notes.get("by_role")
    if isinstance(by_role, str) and TYPES[_BY_ROLE.get(by_role, "tool")] == role:
        body = {"role": by_role, **body}
    elif kind != "absent":
        body = {"type": kind if fits else _USUAL_TYPE[role], **body}
    item = with_unknown_keys(body, notes, known)
    frame = notes.get("lc")
    if is_object(frame) and TYPES.get(found := _class_type(frame.get("id")), role if found in _CHATS else None) == role:
        return {**frame, "kwargs": item}
    frame = notes.get("data")
    if is_object(frame) and isinstance(frame.get("type"), str) and TYPES.get(frame["type"], role) == role:
        return {**{key: given for key, given in frame.items() if key != "content"}, "data": item}
    return item
