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
from penstock.engine.values.messages import FilePart, Message, ReasoningPart, TextPart, ToolPart, UnknownPart
from penstock.formats import anthropic, blocks, openai_chat, parts as shared, wire
from penstock.formats.blocks import WireBlock, is_finished, with_unknown_keys
from penstock.formats.shape import as_shape, notes_of, result_notes, with_result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.blocks import Reader
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "TERMS", "TYPES", "read", "write", "write_part"]

FORMAT = "langchain"
LEAVES_OUT = frozenset({"source", "data", "step-start"})

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
_COPY = "additional_kwargs"

TERMS = ("human", "tool_call")
"""The types of messages and blocks that are noted."""

_TEXT = WireBlock(FORMAT, TextPart, {"text": "text"}, head={"type": "text"})
_PLAIN = replace(_TEXT, head={"type": "text-plain"}, notes={"type": "text-plain"})
_UNTYPED = replace(_TEXT, head={}, notes={"untyped": True})
_REASONING = WireBlock(FORMAT, ReasoningPart, {"reasoning": "text"}, head={"type": "reasoning"})
_CALL = frozenset({"type", "id", "name", "args"})
_SERVER_RESULT = frozenset({"type", "tool_call_id", "status", "output"})
_COPIES = {"tool_use": "input", "tool_call": "args"}
"""The types of blocks that repeat a call of ``tool_calls``, with their key for the arguments."""

_READ_BY = {openai_chat.FORMAT: openai_chat.read_part, anthropic.FORMAT: anthropic.read_part}
_WRITE_BY = {openai_chat.FORMAT: openai_chat.write_part, anthropic.FORMAT: anthropic.write_part}
_OF_CHAT = frozenset({"image_url", "input_audio", "refusal"})
_OF_ANTHROPIC = frozenset({"thinking", "redacted_thinking", "document", "search_result"})


# Blocks


def _read_part(value: Value, place: str) -> Part:
    """Return the part for a block of content, or for a str among the blocks."""
    if isinstance(value, str):
        return TextPart(value, with_notes(FORMAT, {"bare": True}))
    item = wire.expect_object(value, place, "a str, or an object with a type")
    if "type" not in item and isinstance(item.get("text"), str):
        return _UNTYPED.read(item, place)
    provider = _provider_of(item, wire.expect_text(item, "type", place))
    if provider is None:
        return blocks.read_block(item, place, _READERS)
    found = _READ_BY[provider](item, place)
    return replace(found, metadata={**found.metadata, **with_notes(FORMAT, {"as": provider})})


def _provider_of(item: Json, kind: str) -> str | None:
    """Return the format of a provider whose block this is; None for LangChain's own blocks."""
    if kind in _OF_CHAT or (kind == "file" and wire.is_object(item.get("file"))):
        return openai_chat.FORMAT
    if kind in _OF_ANTHROPIC or (kind == "image" and wire.is_object(item.get("source"))):
        return anthropic.FORMAT
    return None


def _read_media(item: Json, place: str) -> Part | None:
    """Read an image, a sound, a video or a file, in the current shape or in the older one with a ``source_type``."""
    old, kind = item.get("source_type") is not None, item["type"]
    given = {field: wire.maybe_text(item, key, place) for field, key in _media_keys(old=old).items()}
    handled = {"type", *(key for key in _media_keys(old=old).values() if item.get(key) is not None)}
    extra = {name: value for name, value in item.items() if name not in handled}
    metadata = with_notes(FORMAT, {"type": kind, "old": old or None, "extra": extra})
    return shared.media(kind=shared.CLASSES.get(kind, FilePart), metadata=metadata, **given)


def _media_keys(*, old: bool) -> dict[str, str]:
    """Return the key of each field."""
    data, file_id = ("data", "id") if old else ("base64", "file_id")
    return {"url": "url", "data": data, "file_id": file_id, "media_type": "mime_type"}


_DATA_TYPE = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


def _read_server_result(item: Json, place: str) -> Part | None:
    call_id, status = wire.expect_text(item, "tool_call_id", place), wire.maybe_text(item, "status", place)
    state, result, error = shared.read_outcome(item.get("output"), failed=status == "error")
    notes: Json = {
        "server": True,
        "output": None if "output" in item else "absent",
        "status": status if status != "error" else None,
        "extra": wire.unknown_keys(item, _SERVER_RESULT, {"output"}),
    }
    metadata = with_notes(FORMAT, {"alone": True, "result": wire.without_empty(notes)})
    return ToolPart(call_id, "", EMPTY, state, result, error, metadata)


_READERS: dict[str, Reader] = {
    "text": _TEXT.read,
    "text-plain": _PLAIN.maybe_read,  # a document that has only a URL or data stays as it is
    "reasoning": _REASONING.maybe_read,
    **dict.fromkeys(_DATA_TYPE, _read_media),
    "server_tool_call": lambda item, place: _read_call(item, place, {"server": True}),
    "server_tool_result": _read_server_result,
}


def write_part(part: Part) -> Value:
    """Return the block for a part that is no call."""
    notes = notes_of(part, FORMAT)
    write_block = _WRITE_BY.get(notes.get("as", ""))
    if write_block is not None:
        return write_block(part)
    if isinstance(part, TextPart):
        if notes.get("bare"):
            return part.text
        block = _PLAIN if notes.get("type") == "text-plain" else _UNTYPED if notes.get("untyped") else _TEXT
        return block.write(part, notes)
    if isinstance(part, ReasoningPart):
        return _REASONING.write(part, notes)
    if isinstance(part, shared.MEDIA):
        return _write_media(part, notes)
    return blocks.raw_of(part)


def _write_media(part: Media, notes: WireShape) -> Json:
    kind, noted = str(part.type), notes.get("type", "")
    own = noted in _DATA_TYPE
    family = shared.media_type_of(part).partition("/")[0]
    if kind == "file":
        kind = noted if own else family if family in _DATA_TYPE else kind
    keys = _media_keys(old=bool(notes.get("old")))
    given = {key: getattr(part, field, None) for field, key in keys.items()}
    given["mime_type"] = part.media_type or (None if own or part.data is None else _DATA_TYPE[kind])
    body: Json = {"type": kind, **wire.without_none(given)}
    if isinstance(part, FilePart) and part.name is not None:
        body["extras"] = {"filename": part.name}
    return with_unknown_keys(body, notes, {"type", *given})


# Calls


def _read_call(item: Json, place: str, notes: Json) -> ToolPart:
    call_id, name = wire.maybe_text(item, "id", place), wire.expect_text(item, "name", place)
    notes = {
        **notes,
        "type": _odd_type(item, "server_tool_call" if notes.get("server") else "tool_call"),
        "extra": wire.unknown_keys(item, _CALL, {"type", "args"}),
        "args": blocks.input_notes(item, "args"),
    }
    return ToolPart(call_id or "", name, item.get("args", EMPTY), metadata=with_notes(FORMAT, notes))


def _odd_type(item: Json, usual: str) -> Value:
    """Return a note on the type of a call that is missing, or is not the usual one."""
    return "absent" if item.get("type") is None else None if item["type"] == usual else item["type"]


def _read_listed(value: Value, place: str) -> Part:
    """Read a call of ``tool_calls``. One in the form of OpenAI's chat, which LangChain takes too, stays as it is."""
    item = wire.expect_object(value, place, "a tool call")
    return _read_call(item, place, {}) if "name" in item else UnknownPart(item, with_notes(FORMAT, {"field": _LISTED}))


_LISTED = "tool_calls"


def _read_calls(item: Json, content: Sequence[Part], place: str) -> list[Part]:
    """Return the parts of the content, and behind them the calls that do not stand among it."""
    where = f"{place}.{_LISTED}"
    calls: dict[str, ToolPart] = {}
    others: list[Part] = []
    for call in blocks.read_list(item.get(_LISTED) or (), where, _read_listed, "a list of tool calls"):
        if isinstance(call, ToolPart) and call.call_id and call.call_id not in calls:
            calls[call.call_id] = call
        else:
            others.append(call)
    parts = [_with_listed(part, calls) for part in content]
    where = f"{place}.invalid_tool_calls"
    invalid = blocks.read_list(item.get("invalid_tool_calls") or (), where, _read_invalid, "a list of tool calls")
    return [*parts, *calls.values(), *others, *invalid]


def _with_listed(part: Part, calls: dict[str, ToolPart]) -> Part:
    """Return a block that repeats a call as that call; ``calls`` then no longer has it."""
    raw: Value = part.raw if isinstance(part, UnknownPart) else None
    kind: Value = raw.get("type") if wire.is_object(raw) else None
    key = _COPIES.get(kind) if isinstance(kind, str) else None
    if key is None or not isinstance(raw.get("id"), str):
        return part
    call = calls.get(raw["id"])
    if call is None or (raw.get("name"), raw.get(key)) != (call.name, call.arguments):
        return part
    extra = {name: given for name, given in raw.items() if name not in {"type", "id", "name", key}}
    notes = {**notes_of(call, FORMAT), "copy": {"type": raw["type"], "extra": extra}}
    return replace(calls.pop(raw["id"]), metadata=with_notes(FORMAT, notes))


def _read_invalid(value: Value, place: str) -> ToolPart:
    """Read a call whose arguments are no JSON object."""
    call = wire.expect_object(value, place, "a tool call")
    call_id, name, text = (wire.maybe_text(call, key, place) for key in ("id", "name", "args"))
    kind = _odd_type(call, "invalid_tool_call")
    notes: Json = {"invalid": True, "type": kind, "extra": wire.unknown_keys(call, _CALL)}
    return ToolPart(call_id or "", name or "", EMPTY if text is None else text, metadata=with_notes(FORMAT, notes))


def _write_calls(parts: Sequence[Part]) -> Json:
    """Return ``tool_calls`` and ``invalid_tool_calls``, without those that have no entries."""
    made: dict[str, list[Json]] = {}
    for part in parts:
        notes = notes_of(part, FORMAT)
        if isinstance(part, UnknownPart) and notes.get("field") == _LISTED:
            made.setdefault(_LISTED, []).append(blocks.raw_of(part))
        elif isinstance(part, ToolPart) and not _is_block(part):
            invalid = notes.get("invalid") or isinstance(part.arguments, str)
            call = _write_invalid(part, notes) if invalid else _write_call(part, notes)
            made.setdefault("invalid_tool_calls" if invalid else _LISTED, []).append(call)
    return {**made}


def _write_call(part: ToolPart, notes: WireShape) -> Json:
    body: Json = {"name": part.name}
    body |= blocks.write_input(part, "args", notes.get("args"), own="args" in notes)
    if part.call_id:
        body["id"] = part.call_id
    kind = notes.get("type", "server_tool_call" if notes.get("server") else "tool_call")
    if kind != "absent":
        body["type"] = kind
    return with_unknown_keys(body, notes, _CALL)


def _write_invalid(part: ToolPart, notes: WireShape) -> Json:
    given = {"id": part.call_id or None, "name": part.name or None}
    text = None if part.arguments == {} else part.arguments
    kind = notes.get("type", "invalid_tool_call")
    body = {"type": None if kind == "absent" else kind, **given, "args": text}
    return with_unknown_keys(wire.without_none(body), notes, _CALL)


def _is_block(part: Part) -> bool:
    """Return whether a tool's part stands among the content only, since the provider ran it."""
    notes = notes_of(part, FORMAT)
    return bool(notes.get("server") or notes.get("alone"))


def _write_block(part: Part) -> Value:
    """Return a part as a block of the content; None for a call that stands only in ``tool_calls``."""
    notes = notes_of(part, FORMAT)
    if not isinstance(part, ToolPart):
        return None if notes.get("field") == _LISTED else write_part(part)
    if notes.get("alone"):
        return _write_server_result(part)
    if notes.get("server"):
        return _write_call(part, notes)
    copy = as_shape(notes.get("copy"))
    kind = copy.get("type", "")
    if kind not in _COPIES:
        return None
    key = _COPIES[kind]
    body: Json = {"type": kind, "id": part.call_id, "name": part.name, key: thaw(part.arguments)}
    return with_unknown_keys(body, copy, body.keys())


def _write_status(part: ToolPart, notes: WireShape) -> Json:
    status = "error" if part.state == "error" else notes.get("status")
    return {} if status is None else {"status": status}


def _write_server_result(part: ToolPart) -> Json:
    notes = result_notes(part, FORMAT)
    body: Json = {"type": "server_tool_result", "tool_call_id": part.call_id, **_write_status(part, notes)}
    said = shared.write_outcome(part, own=bool(notes))
    if said is not None or notes.get("output") != "absent":
        body["output"] = said
    return with_unknown_keys(body, notes, _SERVER_RESULT)


# The copy of the calls in the form of OpenAI's chat


def _without_copy(item: Json, parts: Sequence[Part]) -> tuple[Json, Value]:
    """Return the message without the copy of its calls in ``additional_kwargs``, and notes to write it again."""
    kwargs: Value = item.get(_COPY)
    copies: Value = kwargs.get("tool_calls") if wire.is_object(kwargs) else None
    calls = [part for part in parts if isinstance(part, ToolPart)]
    if not wire.is_array(copies) or not copies or len(copies) != len(calls):
        return item, None
    try:
        read = openai_chat.read_calls({"tool_calls": copies}, "")
    except MessageError:
        return item, None
    if list(map(_said, read)) != list(map(_said, calls)):
        return item, None
    rest = {key: value for key, value in kwargs.items() if key != "tool_calls"}
    return {**item, _COPY: rest}, [notes_of(copy, openai_chat.FORMAT) for copy in read]


def _said(call: Part) -> tuple[str, str, Value] | None:
    return (call.call_id, call.name, call.arguments) if isinstance(call, ToolPart) else None


def _write_copy(parts: Sequence[Part], notes: Sequence[Value]) -> list[Json]:
    calls = [part for part in parts if isinstance(part, ToolPart)]
    return [
        openai_chat.write_call(replace(call, metadata=with_notes(openai_chat.FORMAT, as_shape(note))))
        for call, note in zip_longest(calls, notes[: len(calls)])
    ]


# Messages


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a message")
    if "lc" in item:
        kwargs = wire.expect_object(item.get("kwargs"), f"{place}.kwargs", "an object with the message's fields")
        frame: Json = {"lc": {key: given for key, given in item.items() if key != "kwargs"}}
        return [_read_message(kwargs, _type_of(item, kwargs, place), frame, f"{place}.kwargs")]
    if "data" in item and "content" not in item:
        data = wire.expect_object(item["data"], f"{place}.data", "an object with the message's fields")
        frame = {"data": {key: given for key, given in item.items() if key != "data"}}
        return [_read_message(data, _type_of(item, data, place), frame, f"{place}.data")]
    if "type" in item:
        return [_read_message(item, wire.expect_text(item, "type", place), {}, place)]
    return [_read_message(item, _known(item, place, "role", _BY_ROLE), {"by_role": item.get("role")}, place)]


read = wire.reader(_read_item)


_BY_ROLE = {"human": "human", "ai": "ai", "user": "human", "assistant": "ai", "system": "system", "tool": "tool"}


def _known(item: Json, place: str, key: str, known: Mapping[str, str]) -> str:
    """Return the value in a table for the text under a key.

    Raises:
        MessageError: the text is missing, or not in the table.
    """
    found = known.get(wire.expect_text(item, key, place))
    if found is None:
        raise MessageError(f"{place}.{key}", f"expected one of {', '.join(known)}, not another str")
    return found


def _type_of(item: Json, fields: Json, place: str) -> str:
    """Return the type of a message in a frame: its own, the frame's, or that of the class that the frame names."""
    if fields.get("type") is not None:
        return wire.expect_text(fields, "type", place)
    return _class_type(item.get("id")) if "lc" in item else wire.expect_text(item, "type", place)


def _class_type(path: Value) -> str:
    """Return the type of the messages of a class, given its path; empty for another class."""
    name = path[-1] if wire.is_array(path) and path and isinstance(path[-1], str) else ""
    kind = name.removesuffix("Message").lower() if name.endswith("Message") else name
    return kind if kind in TYPES or kind in _CHATS else ""


def _read_message(item: Json, kind: str, frame: Json, place: str) -> Message:
    if kind in _CHATS:
        role: Role = _CHAT_ROLES[_known(item, place, "role", dict(zip(_CHAT_ROLES, _CHAT_ROLES, strict=True)))]
    elif kind in TYPES:
        role = TYPES[kind]
    else:
        known = ", ".join((*TYPES, *_CHATS))
        raise MessageError(f"{place}.type", f"expected one of {known}, not another str")
    content, message_id = item.get("content"), wire.maybe_text(item, "id", place) or ""
    notes: Json = {**frame, "type": _noted_type(item, kind, frame)}
    if role == "tool":
        part = _read_result(item, notes, place)
        return Message(role, (part,), id=message_id, metadata=with_notes(FORMAT, {"id": message_id or None}))
    parts = _read_calls(item, blocks.read_content(content, f"{place}.content", _read_part, "blocks"), place)
    rest, copies = _without_copy(item, parts)
    notes |= {
        "role": item["role"] if kind in _CHATS else None,
        "id": message_id or None,
        "content": "absent" if "content" not in item else "list" if wire.is_array(content) else None,
        "calls": copies,
        "extra": wire.unknown_keys(rest, _KEYS if kind in _CHATS or "by_role" in frame else _KEYS - {"role"}, {"type"}),
    }
    wire.refuse_without_content(item, place, parts, {key: item[key] for key in item.keys() - _KEYS - _USUAL_KEYS})
    name = wire.maybe_text(item, "name", place) or None
    return Message(role, tuple(parts), id=message_id, metadata=with_notes(FORMAT, notes), name=name)


_USUAL_KEYS = frozenset({_COPY, "response_metadata", "usage_metadata"})


def _noted_type(item: Json, kind: str, frame: Json) -> str | None:
    """Return a note on the type: that there is none, or the one that would not be written by itself."""
    if "type" not in item:
        return None if "by_role" in frame else "absent"
    return kind if kind not in _USUAL_TYPE.values() else None


def _read_result(item: Json, notes: Json, place: str) -> ToolPart:
    content, status = item.get("content"), wire.maybe_text(item, "status", place)
    if content is not None and not isinstance(content, str):
        wire.expect_array(content, f"{place}.content", "a str or a list of blocks")
    state, result, error = shared.read_outcome(content, failed=status == "error")
    call_id, name = wire.maybe_text(item, "tool_call_id", place), wire.maybe_text(item, "name", place)
    known = {*_RESULT_KEYS, "role"} if "by_role" in notes else _RESULT_KEYS
    notes |= {
        "named": True if name else None,
        "blocks": True if wire.is_array(content) else None,
        "content": "absent" if "content" not in item else None,
        "status": status if status != "error" else None,
        "extra": wire.unknown_keys(item, known, {"type"}),
    }
    return ToolPart(call_id or "", name or "", EMPTY, state, result, error, with_result_notes(FORMAT, notes))


def _write_message(message: Message) -> Iterator[Json]:
    if message.role == "tool":
        yield from _write_tool_message(message)
        return
    cut = blocks.steps(blocks.with_answers(message.parts, FORMAT), _is_answered)
    for parts, notes in blocks.written_steps(message, FORMAT, LEAVES_OUT, cut):
        yield _write_step(message, parts, notes)
        yield from (_write_result(part) for part in blocks.tools(parts, _is_answered))


write = wire.writer(_write_message)


def _is_answered(part: Part) -> bool:
    return is_finished(part) and not _is_block(part)


def _write_tool_message(message: Message) -> Iterator[Json]:
    own_id = blocks.own_id(notes_of(message, FORMAT))
    said = [part for part in message.parts if not isinstance(part, ToolPart) and part.type not in LEAVES_OUT]
    if said:
        yield {"type": "human", "content": [write_part(part) for part in said]}
    for part in message.parts:
        if isinstance(part, ToolPart):
            item = _write_result(part)
            next((item[key] for key in ("data", "kwargs") if wire.is_object(item.get(key))), item).update(own_id)
            yield item


def _write_step(message: Message, parts: Sequence[Part], notes: WireShape) -> Json:
    found = [block for part in parts if (block := _write_block(part)) is not None]
    body = blocks.write_content(found, notes, [] if notes.get("content") == "list" else "")
    body |= {**_write_calls(parts), **({} if message.name is None else {"name": message.name}), **blocks.own_id(notes)}
    if "calls" in notes:
        kwargs: Value = notes.get("extra", {}).get(_COPY)
        body[_COPY] = {**(kwargs if wire.is_object(kwargs) else {}), "tool_calls": _write_copy(parts, notes["calls"])}
    role = notes.get("role", "")
    if _CHAT_ROLES.get(role) == message.role:
        body["role"] = role
    return _framed(body, message.role, notes, _KEYS)


def _write_result(part: ToolPart) -> Json:
    notes = result_notes(part, FORMAT)
    body: Json = {}
    said = shared.write_outcome(part, own=bool(notes))
    if said is not None or not notes:
        fits = isinstance(said, str) or (wire.is_array(said) and bool(notes.get("blocks")))
        body["content"] = said if fits else shared.result_text(part)
    if part.call_id:
        body["tool_call_id"] = part.call_id
    if part.name and (notes.get("named") or not notes):
        body["name"] = part.name
    return _framed({**body, **_write_status(part, notes)}, "tool", notes, _RESULT_KEYS)


def _framed(body: Json, role: str, notes: WireShape, known: frozenset[str]) -> Json:
    """Return the fields of a message with their unknown ones, in the form in which it was read."""
    usual = _USUAL_TYPE[role]
    kind, by_role = notes.get("type", usual), notes.get("by_role")
    if by_role is not None and TYPES[_BY_ROLE.get(by_role, "tool")] == role:
        body = {"role": by_role, **body}
    elif kind != "absent":
        body = {"type": kind if kind in _CHATS or TYPES.get(kind) == role else usual, **body}
    item = with_unknown_keys(body, notes, known)
    frame: Value = notes.get("lc")
    if frame and TYPES.get(found := _class_type(frame.get("id")), role if found in _CHATS else None) == role:
        return {**frame, "kwargs": item}
    frame = notes.get("data")
    if wire.is_object(frame) and isinstance(frame.get("type"), str) and TYPES.get(frame["type"], role) == role:
        return {**{key: given for key, given in frame.items() if key != "content"}, "data": item}
    return item
