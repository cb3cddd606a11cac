"""Read and write messages of OpenAI's chat completions.

A tool message becomes a ``tool`` message with one `ToolPart`, which gets its name from the earlier call. Messages are
not merged. When an assistant message is written, each of its steps becomes a message, followed by its calls' results.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw
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
from penstock.formats import blocks, parts as shared, wire
from penstock.formats.blocks import WireBlock, with_unknown_keys
from penstock.formats.shape import notes_of, result_notes, with_result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.blocks import Reader
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = [
    "DETAIL_KEYS",
    "FORMAT",
    "LEAVES_OUT",
    "read",
    "read_calls",
    "read_part",
    "write",
    "write_call",
    "write_part",
]

FORMAT = "openai-chat"
LEAVES_OUT = frozenset({"source", "data", "step-start"})


# Content

_TEXT = WireBlock(FORMAT, TextPart, {"text": "text"}, head={"type": "text"})
_REFUSAL = WireBlock(FORMAT, TextPart, {"refusal": "text"}, head={"type": "refusal"}, notes={"type": "refusal"})
_URL_KEYS = frozenset({"url"})


def read_part(value: Value, place: str) -> Part:
    """Return the part for a content part.

    Raises:
        MessageError: it is malformed.
    """
    return blocks.read_block(value, place, _READERS)


def _extra(item: Json) -> Json:
    """Return the unknown keys of a content part whose content stands under its type."""
    known = {"type", item["type"]}
    return wire.unknown_keys(item, known, known)


def _read_image(item: Json, place: str) -> Part:
    notes: Json = {"extra": _extra(item)}
    given = item.get("image_url")
    if isinstance(given, str):
        return shared.read_image(given, with_notes(FORMAT, {**notes, "bare": True}))
    inner = wire.expect_object(given, f"{place}.image_url", "an object with an url")
    notes["inner"] = wire.unknown_keys(inner, _URL_KEYS, _URL_KEYS)
    return shared.read_image(wire.expect_text(inner, "url", f"{place}.image_url"), with_notes(FORMAT, notes))


def _read_audio(item: Json, place: str) -> Part:
    return shared.read_audio(item.get("input_audio"), f"{place}.input_audio", FORMAT, _extra(item))


def _read_file(item: Json, place: str) -> Part:
    inner = wire.expect_object(item.get("file"), f"{place}.file", "an object with a file_id or file_data")
    notes: Json = {"extra": _extra(item), "inner": wire.unknown_keys(inner, shared.FILE_KEYS)}
    return shared.read_file(inner, f"{place}.file", FORMAT, notes)


def _read_thinking(item: Json, place: str) -> Part | None:
    """Read Mistral's reasoning, which is among the content, in text parts of its own."""
    inner = wire.expect_array(item.get("thinking"), f"{place}.thinking")
    if not inner or not all(wire.is_object(piece) and isinstance(piece.get("text"), str) for piece in inner):
        return None
    notes: Json = {
        "type": "thinking",
        "extra": _extra(item),
        "pieces": [{key: value for key, value in piece.items() if key != "text"} for piece in inner],
        "lengths": [len(piece["text"]) for piece in inner],
    }
    return ReasoningPart("".join(piece["text"] for piece in inner), with_notes(FORMAT, notes))


_READERS: dict[str, Reader] = {
    "text": _TEXT.read,
    "refusal": _REFUSAL.read,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
    "thinking": _read_thinking,
}


def write_part(part: Part) -> Json:
    """Return the content part for a text, reasoning among the content, an image, a sound, a file or an unknown part."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        return (_REFUSAL if notes.get("type") == "refusal" else _TEXT).write(part, notes)
    if isinstance(part, ReasoningPart):
        pieces: list[Value] = list(filter(wire.is_object, notes.get("pieces", ()))) or [{"type": "text"}]
        texts = wire.cut(part.text, notes.get("lengths", ()), len(pieces))
        return _written("thinking", [{**piece, "text": text} for piece, text in zip(pieces, texts, strict=True)], notes)
    if isinstance(part, shared.MEDIA):
        return _write_media(part, notes)
    return blocks.raw_of(part)


def _written(kind: str, content: Value, notes: WireShape) -> Json:
    return with_unknown_keys({"type": kind, kind: content}, notes, {"type", kind})


def _write_media(part: Media, notes: WireShape) -> Json:
    shown = shared.shown_as(part, notes)
    if shown == "file" and isinstance(part, FilePart):
        inner = with_unknown_keys(shared.write_file(part, notes, "file_data"), notes, shared.FILE_KEYS, "inner")
        return _written("file", inner, notes)
    if shown == "audio":
        return _written("input_audio", shared.write_audio(part, notes), notes)
    url = shared.as_url(part, shared.USUAL_TYPE[ImagePart])
    if notes.get("bare"):
        return _written("image_url", url, notes)
    given = {} if url is None else {"url": url, **shared.detail_elsewhere(part, FORMAT)}
    return _written("image_url", with_unknown_keys(given, notes, _URL_KEYS, "inner"), notes)


# Reasoning, and what is spoken

REASONING = ("reasoning_content", "reasoning")
_AUDIO_KEYS = frozenset({"data", "transcript"})
DETAIL_KEYS: Mapping[str, tuple[str, ...]] = {
    "reasoning_details": ("text", "summary"),  # OpenRouter
    "thinking_blocks": ("thinking",),  # LiteLLM
}
"""The fields of reasoning in objects, which can be signed or encrypted, and the keys of its texts there."""

_FIELDS: dict[type[Part], tuple[str, ...]] = {
    TextPart: ("content", "refusal"),
    ReasoningPart: (*REASONING, *DETAIL_KEYS, "content"),
    AudioPart: ("content", "audio"),
    UnknownPart: ("content", *DETAIL_KEYS, "tool_calls"),
    ToolPart: ("tool_calls", "function_call"),
}


def _field_of(part: Part) -> str:
    """Return the message's field for a part; the usual one, unless the part was read from another."""
    fields = _FIELDS.get(type(part), ("content",))
    notes = notes_of(part, FORMAT)
    field = "content" if notes.get("type") == "thinking" else notes.get("field")
    return field if field in fields else fields[0]


def _read_reasoning(item: Json, place: str) -> tuple[list[Part], Json]:
    """Return the parts of the reasoning fields, and notes on those that only repeat the details."""
    details = [
        part
        for field in DETAIL_KEYS
        for part in blocks.read_list(item.get(field) or [], f"{place}.{field}", partial(_read_detail, field))
    ]
    said = [part.text for part in details if isinstance(part, ReasoningPart)]
    parts: list[Part] = []
    notes: Json = {}
    for key in REASONING:
        text = wire.maybe_text(item, key, place)
        rule = wire.rule_of(said, text) if text else None
        if rule is not None:
            notes[key] = rule
        elif text:
            parts.append(ReasoningPart(text, with_notes(FORMAT, {"field": key if key != REASONING[0] else None})))
    return parts + details, notes


def _read_detail(field: str, value: Value, place: str) -> Part:
    detail = wire.expect_object(value, place)
    for key in DETAIL_KEYS[field]:
        if isinstance(detail.get(key), str) and (detail[key] or field == "reasoning_details"):
            notes = {"field": field, "key": key, "extra": wire.unknown_keys(detail, {key}, {key})}
            return ReasoningPart(detail[key], with_notes(FORMAT, notes))
    return UnknownPart(detail, with_notes(FORMAT, {"field": field}))


def _write_reasoning(parts: Mapping[str, Sequence[Part]], notes: WireShape) -> Json:
    """Return the reasoning fields of a message, given its parts by their fields."""
    body: Json = {}
    for field in DETAIL_KEYS:
        if field in parts:
            body[field] = [_write_detail(field, part) for part in parts[field]]
    said = _texts([part for field in DETAIL_KEYS for part in parts.get(field, ())])
    for key in REASONING:
        own = _texts(parts.get(key, ()))
        if own:
            body[key] = "\n\n".join(own)
        elif said and key in notes:
            body[key] = wire.copied(said, notes.get(key))
    return body


def _texts(parts: Sequence[Part]) -> list[str]:
    return [part.text for part in parts if isinstance(part, (TextPart, ReasoningPart))]


def _write_detail(field: str, part: Part) -> Value:
    if not isinstance(part, ReasoningPart):
        return thaw(part.raw) if isinstance(part, UnknownPart) else None
    notes = notes_of(part, FORMAT)
    key = notes.get("key")
    key = key if key in DETAIL_KEYS[field] else DETAIL_KEYS[field][0]
    return with_unknown_keys({key: part.text}, notes, {key})


def _read_spoken(item: Json, place: str) -> list[Part]:
    """Return a message's refusal and audio."""
    refusal = wire.maybe_text(item, "refusal", place)
    parts: list[Part] = [TextPart(refusal, with_notes(FORMAT, {"field": "refusal"}))] if refusal else []
    if not wire.is_empty(item.get("audio")):
        audio = wire.expect_object(item["audio"], f"{place}.audio")
        data, transcript = (wire.maybe_text(audio, key, f"{place}.audio") for key in ("data", "transcript"))
        metadata = with_notes(FORMAT, {"field": "audio", "extra": wire.unknown_keys(audio, _AUDIO_KEYS)})
        parts.append(AudioPart(data=data, transcript=transcript, metadata=metadata))
    return parts


def _write_spoken(parts: Mapping[str, Sequence[Part]]) -> Json:
    """Return refusal and audio of a message, given its parts by their fields."""
    body: Json = {}
    refusals = _texts(parts.get("refusal", ()))
    if refusals:
        body["refusal"] = "\n".join(refusals)
    for part in parts.get("audio", ()):
        if isinstance(part, AudioPart):
            given = wire.without_none({"data": part.data, "transcript": part.transcript})
            body["audio"] = with_unknown_keys(given, notes_of(part, FORMAT), _AUDIO_KEYS)
    return body


# Calls

_FUNCTION_KEYS = frozenset({"name", "arguments"})
_CUSTOM_KEYS = frozenset({"name", "input"})
_RESULT_KEYS = frozenset({"role", "content", "tool_call_id", "id", "name"})


def read_calls(item: Json, place: str) -> list[Part]:
    """Return the calls of ``tool_calls`` and of the older ``function_call``.

    Raises:
        MessageError: one is malformed.
    """
    parts = blocks.read_list(item.get("tool_calls") or [], f"{place}.tool_calls", _read_call, "a list of tool calls")
    if not wire.is_empty(item.get("function_call")):
        function = wire.expect_object(item["function_call"], f"{place}.function_call")
        parts.append(_read_function(function, "", {"field": "function_call"}, f"{place}.function_call"))
    return parts


def _read_call(value: Value, place: str) -> Part:
    call = wire.expect_object(value, place, "a tool call")
    call_id, kind = wire.maybe_text(call, "id", place) or "", call.get("type")
    form = next((form for form in ("function", "custom") if wire.is_object(call.get(form))), None)
    if form is None:
        return UnknownPart(call, with_notes(FORMAT, {"field": "tool_calls"}))
    notes: Json = {
        "type": "absent" if "type" not in call else kind if kind != form else None,
        "extra": wire.unknown_keys(call, {"id", "type", form}, {form}),
    }
    inner, where = call[form], f"{place}.{form}"
    if form == "function":
        return _read_function(inner, call_id, notes, where)
    name, text = (wire.expect_text(inner, key, where) for key in ("name", "input"))
    notes |= {"field": "custom", "inner": wire.unknown_keys(inner, _CUSTOM_KEYS, _CUSTOM_KEYS)}
    return ToolPart(call_id, name, text, metadata=with_notes(FORMAT, notes))


def _read_function(function: Json, call_id: str, notes: Json, place: str) -> ToolPart:
    name = wire.expect_text(function, "name", place)
    arguments, notes["arguments"] = shared.read_call_arguments(function)
    notes["inner"] = wire.unknown_keys(function, _FUNCTION_KEYS, _FUNCTION_KEYS)
    return ToolPart(call_id, name, arguments, metadata=with_notes(FORMAT, notes))


def write_call(part: ToolPart) -> Json:
    """Return an entry of ``tool_calls``."""
    notes = notes_of(part, FORMAT)
    body: Json = {"id": part.call_id} if part.call_id else {}
    form = "custom" if notes.get("field") == "custom" and isinstance(part.arguments, str) else "function"
    kind = notes.get("type", form)
    if kind != "absent":
        body["type"] = kind
    if form == "function":
        body[form] = _write_function(part, notes)
    else:
        body[form] = with_unknown_keys({"name": part.name, "input": part.arguments}, notes, _CUSTOM_KEYS, "inner")
    return with_unknown_keys(body, notes, {"id", "type", form})


def _write_function(part: ToolPart, notes: WireShape) -> Json:
    body: Json = {"name": part.name, **shared.write_call_arguments(part, notes)}
    return with_unknown_keys(body, notes, _FUNCTION_KEYS, "inner")


# Results


def _read_result(item: Json, place: str) -> Message:
    """Return a ``tool`` message with the result; content in parts is kept as a list."""
    given = item.get("content")
    if given is not None and not isinstance(given, str):
        wire.expect_array(given, f"{place}.content", "a str or a list of content parts")
    name, call_id = wire.maybe_text(item, "name", place), wire.maybe_text(item, "tool_call_id", place)
    notes: Json = {
        "role": "function" if item["role"] == "function" else None,
        "content": "parts" if wire.is_array(given) else None if "content" in item else "absent",
        "name": True if name else None,
        "extra": wire.unknown_keys(item, _RESULT_KEYS, {"role"} if given is None else {"role", "content"}),
    }
    metadata = with_result_notes(FORMAT, notes)
    part = ToolPart(call_id or "", name or "", state="result", result=given, metadata=metadata)
    message_id = wire.maybe_text(item, "id", place) or ""
    return Message("tool", (part,), id=message_id, metadata=with_notes(FORMAT, {"id": message_id or None}))


def write_result(part: ToolPart) -> Json:
    """Return the tool message for a result."""
    notes = result_notes(part, FORMAT)
    body: Json = {"role": "function" if notes.get("role") == "function" else "tool"}
    if part.call_id:
        body["tool_call_id"] = part.call_id
    if notes.get("name") and part.name:
        body["name"] = part.name
    body |= shared.write_output(part, notes, "content")
    return with_unknown_keys(body, notes, _RESULT_KEYS)


# Messages

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_PLAIN_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
_KEYS = frozenset(
    {
        "role",
        "name",
        "id",
        "content",
        "refusal",
        "audio",
        "tool_calls",
        "function_call",
        *DETAIL_KEYS,
        *REASONING,
    }
)


def _read_message(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a chat message")
    if len(item) == 2:  # noqa: PLR2004 - role and content: almost all, and read by a tenth of the calls
        plain, text = item.get("role"), item.get("content")
        if isinstance(plain, str) and plain in _PLAIN_ROLES and isinstance(text, str) and text:
            return [Message(_PLAIN_ROLES[plain], (TextPart(text),))]
    role = _ROLES[wire.expect_role(item, place, _ROLES)]
    if role == "tool":
        return [_read_result(item, place)]
    reasoning, notes = _read_reasoning(item, place)
    content = blocks.read_content(item.get("content"), f"{place}.content", read_part)
    parts = (*reasoning, *content, *_read_spoken(item, place), *read_calls(item, place))
    message_id = wire.maybe_text(item, "id", place) or ""
    notes["id"] = message_id or None
    notes["role"] = "developer" if item["role"] == "developer" else None
    notes["content"] = blocks.content_notes(item, content)
    notes["extra"] = wire.unknown_keys(item, _KEYS, {"role"})
    wire.refuse_without_content(item, place, parts, notes["extra"])
    name = wire.maybe_text(item, "name", place) or None
    return [Message(role, parts, id=message_id, metadata=with_notes(FORMAT, notes), name=name)]


read = wire.reader(_read_message)


def _write_message(message: Message) -> Iterator[Json]:
    if message.role == "tool":
        yield from _write_tool_message(message)
        return
    cut = blocks.steps(blocks.with_answers(message.parts, FORMAT))
    for parts, notes in blocks.written_steps(message, FORMAT, LEAVES_OUT, cut):
        yield _write_step(message, parts, notes)
        yield from (write_result(part) for part in blocks.tools(parts))


write = wire.writer(_write_message)


def _write_tool_message(message: Message) -> Iterator[Json]:
    own_id = blocks.own_id(notes_of(message, FORMAT))
    said = [part for part in message.parts if not isinstance(part, ToolPart) and part.type not in LEAVES_OUT]
    if said:
        items = [write_part(part) for part in said]
        yield {"role": "tool", **blocks.write_content(items, {}), **own_id}
    yield from ({**write_result(part), **own_id} for part in message.parts if isinstance(part, ToolPart))


def _write_step(message: Message, parts: Sequence[Part], notes: WireShape) -> Json:
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(_field_of(part), []).append(part)
    spoken = _write_spoken(found)
    for part in blocks.tools(found.get("function_call", ()), lambda _: True):
        spoken["function_call"] = _write_function(part, notes_of(part, FORMAT))
    if "tool_calls" in found:
        calls = found["tool_calls"]
        spoken["tool_calls"] = [write_call(part) if isinstance(part, ToolPart) else write_part(part) for part in calls]
    content = [write_part(part) for part in found.get("content", ())]
    body: Json = {"role": shared.system_role(message) if message.role == "system" else message.role}
    body |= {**({} if message.name is None else {"name": message.name}), **_write_reasoning(found, notes)}
    body |= {**blocks.write_content(content, notes, None if spoken else ""), **spoken}
    return {**with_unknown_keys(body, notes, _KEYS), **blocks.own_id(notes)}
