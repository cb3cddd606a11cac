"""Read and write messages of OpenAI's chat completions.

A tool message becomes a ``tool`` message with one `ToolPart`, which gets its name from the earlier call. Messages are
not merged. When an assistant message is written, each of its steps becomes a message, followed by its calls' results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw
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
from penstock.formats.parts import (
    AUDIO_KEYS,
    FILE_KEYS,
    Media,
    detail_elsewhere,
    image_url,
    is_finished,
    read_arguments,
    read_audio,
    read_file,
    read_image,
    result_text,
    shown_as,
    steps,
    system_role,
    with_answers,
    write_arguments,
    write_audio,
    write_file,
)
from penstock.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    array_in,
    copied,
    cut,
    expect_array,
    expect_object,
    expect_role,
    expect_text,
    is_array,
    is_empty,
    is_object,
    maybe_text,
    named,
    notes_of,
    read_each,
    refuse_without_content,
    rule_of,
    unknown_keys,
    with_notes,
    with_unknown_keys,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.values.messages import Part, Role


__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "openai-chat"
LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_PART_KEYS: dict[str, frozenset[str]] = {
    "text": frozenset({"type", "text"}),
    "refusal": frozenset({"type", "refusal"}),
    "image_url": frozenset({"type", "image_url"}),
    "input_audio": frozenset({"type", "input_audio"}),
    "file": frozenset({"type", "file"}),
    "thinking": frozenset({"type", "thinking"}),
}
_URL_KEYS = frozenset({"url"})


def read_content(value: Value, place: str) -> list[Part]:
    """Return the parts of a message's content: a str, a list of content parts, or null.

    Raises:
        MessageError: it is something else, or a part is malformed.
    """
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [TextPart(value)]
    items = expect_array(value, place, "a str or a list of content parts")
    return [read_part(item, f"{place}[{index}]") for index, item in enumerate(items)]


def read_part(item: Value, place: str) -> Part:
    """Return the part for a content part.

    Raises:
        MessageError: it is malformed.
    """
    part = expect_object(item, place, "an object with a type")
    kind = expect_text(part, "type", place)
    reader = _READERS.get(kind)
    return UnknownPart(part) if reader is None else reader(part, place)


def _extra(item: Json, kind: str) -> Json:
    return unknown_keys(item, _PART_KEYS[kind], _PART_KEYS[kind])


def _read_text(item: Json, place: str) -> Part:
    return TextPart(expect_text(item, "text", place), with_notes(FORMAT, {"extra": _extra(item, "text")}))


def _read_refusal(item: Json, place: str) -> Part:
    notes: Json = {"type": "refusal", "extra": _extra(item, "refusal")}
    return TextPart(expect_text(item, "refusal", place), with_notes(FORMAT, notes))


def _read_image(item: Json, place: str) -> Part:
    notes: Json = {"extra": _extra(item, "image_url")}
    given = item.get("image_url")
    if isinstance(given, str):
        return read_image(given, with_notes(FORMAT, {**notes, "bare": True}))
    inner = expect_object(given, f"{place}.image_url", "an object with an url")
    notes["inner"] = unknown_keys(inner, _URL_KEYS, _URL_KEYS)
    return read_image(expect_text(inner, "url", f"{place}.image_url"), with_notes(FORMAT, notes))


def _read_audio(item: Json, place: str) -> Part:
    return read_audio(item.get("input_audio"), f"{place}.input_audio", FORMAT, _extra(item, "input_audio"))


def _read_file(item: Json, place: str) -> Part:
    inner = expect_object(item.get("file"), f"{place}.file", "an object with a file_id or file_data")
    notes: Json = {"extra": _extra(item, "file"), "inner": unknown_keys(inner, FILE_KEYS)}
    return read_file(inner, f"{place}.file", FORMAT, notes)


def _read_thinking(item: Json, place: str) -> Part:
    """Read Mistral's reasoning, which is among the content, in text parts of its own."""
    inner = expect_array(item.get("thinking"), f"{place}.thinking")
    if not inner or not all(is_object(piece) and isinstance(piece.get("text"), str) for piece in inner):
        return UnknownPart(item)
    notes: Json = {
        "type": "thinking",
        "extra": _extra(item, "thinking"),
        "pieces": [{key: value for key, value in piece.items() if key != "text"} for piece in inner],
        "lengths": [len(piece["text"]) for piece in inner],
    }
    return ReasoningPart("".join(piece["text"] for piece in inner), with_notes(FORMAT, notes))


def _write_thinking(part: ReasoningPart, notes: Json) -> Json:
    """Return the part, split as it was received if it still has the same length."""
    pieces: list[Value] = [piece for piece in array_in(notes, "pieces") if is_object(piece)] or [{"type": "text"}]
    texts = cut(part.text, array_in(notes, "lengths"), len(pieces))
    thinking = [{**piece, "text": text} for piece, text in zip(pieces, texts, strict=True)]
    return with_unknown_keys({"type": "thinking", "thinking": thinking}, notes, _PART_KEYS["thinking"])


_READERS: dict[str, Callable[[Json, str], Part]] = {
    "text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
    "thinking": _read_thinking,
}


def write_part(part: Part) -> Json:
    """Return the content part for a text, reasoning among the content, an image, a sound, a file or an unknown part."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        kind = "refusal" if notes.get("type") == "refusal" else "text"
        return with_unknown_keys({"type": kind, kind: part.text}, notes, _PART_KEYS[kind])
    if isinstance(part, ReasoningPart):
        return _write_thinking(part, notes)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, notes)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _write_media(part: Media, notes: Json) -> Json:
    shown = shown_as(part, notes)
    if shown == "file" and isinstance(part, FilePart):
        inner: Value = with_unknown_keys(write_file(part, notes, "file_data"), notes, FILE_KEYS, "inner")
        return with_unknown_keys({"type": "file", "file": inner}, notes, _PART_KEYS["file"])
    if shown == "audio":
        inner = with_unknown_keys(write_audio(part, notes), notes, AUDIO_KEYS, "inner")
        return with_unknown_keys({"type": "input_audio", "input_audio": inner}, notes, _PART_KEYS["input_audio"])
    url = image_url(part)
    given = {} if url is None else {"url": url, **detail_elsewhere(part, FORMAT)}
    inner = with_unknown_keys(given, notes, _URL_KEYS, "inner")
    image = url if notes.get("bare") else inner
    return with_unknown_keys({"type": "image_url", "image_url": image}, notes, _PART_KEYS["image_url"])


REASONING = ("reasoning_content", "reasoning")
_AUDIO_KEYS = frozenset({"data", "transcript"})
_DETAIL_KEYS = ("text", "summary")
_FIELDS: dict[type[Part], tuple[str, ...]] = {
    TextPart: ("content", "refusal"),
    ReasoningPart: ("reasoning_content", "reasoning", "reasoning_details", "content"),
    AudioPart: ("content", "audio"),
    UnknownPart: ("content", "reasoning_details", "tool_calls"),
}


def field_of(part: Part) -> str:
    """Return the message's field for a part; the usual one, unless the part was read from another."""
    fields = _FIELDS.get(type(part), ("content",))
    notes = notes_of(part, FORMAT)
    field = "content" if notes.get("type") == "thinking" else notes.get("field")
    return field if field in fields else fields[0]


def read_reasoning(item: Json, place: str) -> tuple[list[Part], Json]:
    """Return the parts of the reasoning fields, and notes on those that only repeat ``reasoning_details``.

    Raises:
        MessageError: one is malformed.
    """
    given = expect_array(item.get("reasoning_details") or [], f"{place}.reasoning_details")
    details = [_read_detail(detail, f"{place}.reasoning_details[{index}]") for index, detail in enumerate(given)]
    said = [part.text for part in details if isinstance(part, ReasoningPart)]
    parts: list[Part] = []
    notes: Json = {}
    for key in REASONING:
        text = maybe_text(item, key, place)
        rule = rule_of(said, text) if text else None
        if rule is not None:
            notes[key] = rule
        elif text:
            parts.append(ReasoningPart(text, with_notes(FORMAT, {"field": key if key != REASONING[0] else None})))
    return parts + details, notes


def _read_detail(value: Value, place: str) -> Part:
    detail = expect_object(value, place)
    for key in _DETAIL_KEYS:
        if isinstance(detail.get(key), str):
            notes = {"field": "reasoning_details", "key": key, "extra": unknown_keys(detail, {key}, {key})}
            return ReasoningPart(detail[key], with_notes(FORMAT, notes))
    return UnknownPart(detail, with_notes(FORMAT, {"field": "reasoning_details"}))


def write_reasoning(parts: Sequence[Part], notes: Json) -> Json:
    """Return the reasoning fields of a message."""
    body: Json = {}
    details = [part for part in parts if field_of(part) == "reasoning_details"]
    if details:
        body["reasoning_details"] = [_write_detail(part) for part in details]
    said = [part.text for part in details if isinstance(part, ReasoningPart)]
    for key in REASONING:
        own = [part.text for part in parts if isinstance(part, ReasoningPart) and field_of(part) == key]
        if own:
            body[key] = "\n\n".join(own)
        elif said and key in notes:
            body[key] = copied(said, notes[key])
    return body


def _write_detail(part: Part) -> Value:
    if not isinstance(part, ReasoningPart):
        return thaw(part.raw) if isinstance(part, UnknownPart) else None
    notes = notes_of(part, FORMAT)
    key = notes["key"] if notes.get("key") in _DETAIL_KEYS else _DETAIL_KEYS[0]
    return with_unknown_keys({key: part.text}, notes, {key})


def read_spoken(item: Json, place: str) -> list[Part]:
    """Return a message's refusal and audio.

    Raises:
        MessageError: one of them is malformed.
    """
    refusal = maybe_text(item, "refusal", place)
    parts: list[Part] = [TextPart(refusal, with_notes(FORMAT, {"field": "refusal"}))] if refusal else []
    if not is_empty(item.get("audio")):
        audio = expect_object(item["audio"], f"{place}.audio")
        data, transcript = (maybe_text(audio, key, f"{place}.audio") for key in ("data", "transcript"))
        metadata = with_notes(FORMAT, {"field": "audio", "extra": unknown_keys(audio, _AUDIO_KEYS)})
        parts.append(AudioPart(data=data, transcript=transcript, metadata=metadata))
    return parts


def write_spoken(parts: Sequence[Part]) -> Json:
    """Return refusal and audio of a message."""
    body: Json = {}
    refusals = [part.text for part in parts if isinstance(part, TextPart) and field_of(part) == "refusal"]
    if refusals:
        body["refusal"] = "\n".join(refusals)
    for part in parts:
        if isinstance(part, AudioPart) and field_of(part) == "audio":
            said = {"data": part.data, "transcript": part.transcript}
            given = {key: value for key, value in said.items() if value is not None}
            body["audio"] = with_unknown_keys(given, notes_of(part, FORMAT), _AUDIO_KEYS)
    return body


_CALL_KEYS = frozenset({"id", "type", "function"})
_CUSTOM_CALL_KEYS = frozenset({"id", "type", "custom"})
_FUNCTION_KEYS = frozenset({"name", "arguments"})
_CUSTOM_KEYS = frozenset({"name", "input"})
_RESULT_KEYS = frozenset({"role", "content", "tool_call_id", "id", "name"})


# Calls


def read_calls(item: Json, place: str) -> list[Part]:
    """Return the calls of ``tool_calls`` and of the older ``function_call``.

    Raises:
        MessageError: one is malformed.
    """
    calls = expect_array(item.get("tool_calls") or [], f"{place}.tool_calls", "a list of tool calls")
    parts = [_read_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls)]
    if not is_empty(item.get("function_call")):
        function = expect_object(item["function_call"], f"{place}.function_call")
        parts.append(_read_function(function, "", {"field": "function_call"}, f"{place}.function_call"))
    return parts


def _read_call(value: Value, place: str) -> Part:
    call = expect_object(value, place, "a tool call")
    call_id, kind = maybe_text(call, "id", place) or "", call.get("type")
    function, custom = call.get("function"), call.get("custom")
    if is_object(function):
        notes: Json = {"extra": unknown_keys(call, _CALL_KEYS, {"function"})}
        notes["type"] = "absent" if "type" not in call else kind if kind != "function" else None
        return _read_function(function, call_id, notes, f"{place}.function")
    if is_object(custom):
        name, text = (expect_text(custom, key, f"{place}.custom") for key in ("name", "input"))
        extra, inner = (
            unknown_keys(call, _CUSTOM_CALL_KEYS, {"custom"}),
            unknown_keys(custom, _CUSTOM_KEYS, _CUSTOM_KEYS),
        )
        notes = {"field": "custom", "extra": extra, "inner": inner}
        notes["type"] = "absent" if "type" not in call else kind if kind != "custom" else None
        return ToolPart(call_id, name, text, metadata=with_notes(FORMAT, notes))
    return UnknownPart(call, with_notes(FORMAT, {"field": "tool_calls"}))


def _read_function(function: Json, call_id: str, notes: Json, place: str) -> ToolPart:
    name = expect_text(function, "name", place)
    arguments, style = read_arguments(function.get("arguments", ""))
    notes["arguments"] = style if "arguments" in function else "absent"
    notes["inner"] = unknown_keys(function, _FUNCTION_KEYS, _FUNCTION_KEYS)
    return ToolPart(call_id, name, arguments, metadata=with_notes(FORMAT, notes))


def write_call(part: ToolPart) -> Json:
    """Return an entry of ``tool_calls``."""
    notes = notes_of(part, FORMAT)
    body: Json = {"id": part.call_id} if part.call_id else {}
    is_custom = notes.get("field") == "custom" and isinstance(part.arguments, str)
    kind = notes.get("type", "custom" if is_custom else "function")
    if isinstance(kind, str) and kind != "absent":
        body["type"] = kind
    if is_custom:
        custom = with_unknown_keys({"name": part.name, "input": part.arguments}, notes, _CUSTOM_KEYS, "inner")
        return with_unknown_keys({**body, "custom": custom}, notes, _CUSTOM_CALL_KEYS)
    return with_unknown_keys({**body, "function": write_function(part)}, notes, _CALL_KEYS)


def write_function(part: ToolPart) -> Json:
    """Return name and arguments of a call."""
    notes = notes_of(part, FORMAT)
    body: Json = {"name": part.name}
    style = notes.get("arguments")
    if style != "absent" or part.arguments != {}:
        body["arguments"] = write_arguments(part.arguments, style)
    return with_unknown_keys(body, notes, _FUNCTION_KEYS, "inner")


def is_function_call(part: ToolPart) -> bool:
    """Return whether the call was received in the older ``function_call``."""
    return notes_of(part, FORMAT).get("field") == "function_call"


# Results


def read_result(item: Json, place: str) -> Message:
    """Return a ``tool`` message with the result; content in parts is kept as a list.

    Raises:
        MessageError: it is malformed.
    """
    given = item.get("content")
    if given is not None and not isinstance(given, str):
        expect_array(given, f"{place}.content", "a str or a list of content parts")
    name, call_id = maybe_text(item, "name", place), maybe_text(item, "tool_call_id", place)
    notes: Json = {
        "role": "function" if item["role"] == "function" else None,
        "content": "parts" if is_array(given) else None if "content" in item else "absent",
        "name": True if name else None,
        "extra": unknown_keys(item, _RESULT_KEYS, {"role"} if given is None else {"role", "content"}),
    }
    metadata = with_notes(FORMAT, {"result": without_empty(notes)})
    part = ToolPart(call_id or "", name or "", state="result", result=given, metadata=metadata)
    message_id = maybe_text(item, "id", place) or ""
    return Message("tool", (part,), id=message_id, metadata=with_notes(FORMAT, {"id": message_id or None}))


def write_result(part: ToolPart) -> Json:
    """Return the tool message for a result."""
    found = notes_of(part, FORMAT).get("result")
    notes: Json = found if is_object(found) else {}
    body: Json = {"role": "function" if notes.get("role") == "function" else "tool"}
    if part.call_id:
        body["tool_call_id"] = part.call_id
    if notes.get("name") and part.name:
        body["name"] = part.name
    if notes.get("content") == "parts" and is_array(part.result):
        body["content"] = thaw(part.result)
    elif part.state == "error" or part.result is not None or not _is_open(notes):
        body["content"] = result_text(part)
    return with_unknown_keys(body, notes, _RESULT_KEYS)


def _is_open(notes: Json) -> bool:
    """Return whether the message's content was null or missing."""
    extra = notes.get("extra")
    return notes.get("content") == "absent" or (is_object(extra) and "content" in extra)


_LEFT_OUT = (SourcePart, DataPart, StepStartPart)
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
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
        "reasoning_details",
        *REASONING,
    }
)


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a chat request or answer.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(read_each(items, place, start, _read_message))


def _read_message(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a chat message")
    role = _ROLES[expect_role(item, place, _ROLES)]
    if role == "tool":
        return [read_result(item, place)]
    reasoning, notes = read_reasoning(item, place)
    content = read_content(item.get("content"), f"{place}.content")
    parts = (*reasoning, *content, *read_spoken(item, place), *read_calls(item, place))
    message_id = maybe_text(item, "id", place) or ""
    notes["id"] = message_id or None
    notes["role"] = "developer" if item["role"] == "developer" else None
    notes["content"] = "absent" if "content" not in item else "parts" if content and is_array(item["content"]) else None
    notes["extra"] = unknown_keys(item, _KEYS, {"role"})
    refuse_without_content(item, place, parts, notes["extra"])
    name = maybe_text(item, "name", place) or None
    return [Message(role, parts, id=message_id, metadata=with_notes(FORMAT, notes), name=name)]


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a chat request has them.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


def _write_message(message: Message) -> list[Json]:
    if message.role == "tool":
        return _write_tool_message(message)
    notes = notes_of(message, FORMAT)
    made: list[Json] = []
    cut = steps(with_answers(message.parts, FORMAT), lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)))
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            made.append(_write_step(message, parts, notes))
            made += [write_result(part) for part in parts if isinstance(part, ToolPart) and is_finished(part)]
            notes = {}
    return made


def _write_tool_message(message: Message) -> list[Json]:
    made: list[Json] = []
    said = [part for part in message.parts if not isinstance(part, (ToolPart, *_LEFT_OUT))]
    if said:
        made.append({"role": "tool", **_write_content(said, {}, "")})
    made += [write_result(part) for part in message.parts if isinstance(part, ToolPart)]
    return [_with_id(item, notes_of(message, FORMAT)) for item in made]


def _with_id(item: Json, notes: Json) -> Json:
    """Return the item with the message's original id, if the message was received in this format."""
    return {**item, "id": notes["id"]} if isinstance(notes.get("id"), str) else item


def _write_step(message: Message, parts: Sequence[Part], notes: Json) -> Json:
    calls: Json = {}
    tools = [part for part in parts if isinstance(part, ToolPart)]
    listed = [write_call(part) for part in tools if not is_function_call(part)]
    listed += [thaw(part.raw) for part in parts if isinstance(part, UnknownPart) and field_of(part) == "tool_calls"]
    if listed:
        calls["tool_calls"] = listed
    for part in tools:
        if is_function_call(part):
            calls["function_call"] = write_function(part)
    spoken = {**write_spoken(parts), **calls}
    body = {**write_reasoning(parts, notes), **spoken}
    content = [part for part in parts if not isinstance(part, ToolPart) and field_of(part) == "content"]
    body.update(_write_content(content, notes, None if spoken else ""))
    body["role"] = system_role(message) if message.role == "system" else message.role
    if message.name is not None:
        body["name"] = message.name
    return _with_id(with_unknown_keys(body, notes, _KEYS), notes)


def _write_content(parts: Sequence[Part], notes: Json, nothing: str | None) -> Json:
    """Return the content: a str if that is enough, else a list; the noted empty form if there is none."""
    items: list[Value] = [write_part(part) for part in parts]
    if not items:
        extra = notes.get("extra")
        said = notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
        return {} if said else {"content": nothing}
    plain = (
        len(items) == 1 and is_object(items[0]) and items[0].keys() == {"type", "text"} and items[0]["type"] == "text"
    )
    return {"content": items[0]["text"] if plain and notes.get("content") != "parts" else items}
