"""Read and write the AI SDK's model messages, which it sends to a provider.

Messages of version 5 and of older ones are read. Each becomes one message; none are merged. When an assistant message
is written, each of its steps becomes a message, followed by one tool message with the results of its calls.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import (
    ROLES,
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
from penstock.formats.ai_sdk_parts import OPTIONS, read_metadata, write_metadata
from penstock.formats.parts import (
    as_json,
    as_url,
    has_scheme,
    is_finished,
    steps,
    with_answers,
)
from penstock.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_array,
    expect_object,
    expect_role,
    expect_text,
    foreign,
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
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.values.messages import Part, ToolState


__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "ai-sdk-model"
LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_TEXT_KEYS = frozenset({"type", "text"})
_TYPE_KEYS = ("mediaType", "mimeType")
_CONTENT_KEYS = {"image": "image", "file": "data"}
_ANY_TYPE: dict[type[Part], str] = {AudioPart: "audio/*", FilePart: "application/octet-stream"}


def _read_text(item: Json, place: str) -> Part:
    return TextPart(expect_text(item, "text", place), read_metadata(item, FORMAT, _TEXT_KEYS, key=OPTIONS))


def _read_reasoning(item: Json, place: str) -> Part:
    return ReasoningPart(expect_text(item, "text", place), read_metadata(item, FORMAT, _TEXT_KEYS, key=OPTIONS))


def _read_image(item: Json, place: str) -> Part:
    found = _read_media(item, place)
    if found is None:
        return UnknownPart(item)
    url, data, media_type, metadata = found
    return ImagePart(url, data, media_type, metadata)


def _read_file(item: Json, place: str) -> Part:
    found = _read_media(item, place)
    if found is None:
        return UnknownPart(item)
    url, data, media_type, metadata = found
    return FilePart(data, url, None, media_type, maybe_text(item, "filename", place), metadata)


def _read_media(item: Json, place: str) -> tuple[str | None, str | None, str | None, Json] | None:
    """Return URL, data, media type and metadata; None for content that is not a text (bytes, an object)."""
    key = _CONTENT_KEYS[item["type"]]
    content = item.get(key)
    if not isinstance(content, str):
        return None
    old = item.get(_TYPE_KEYS[0]) is None and item.get(_TYPE_KEYS[1]) is not None
    type_key = _TYPE_KEYS[old]
    named = {"filename"} if item["type"] == "file" else set[str]()
    rest = {name: value for name, value in item.items() if value is None or name not in {"type", key, type_key, *named}}
    metadata = read_metadata(rest, FORMAT, (), {"kind": item["type"], "old": old or None}, OPTIONS)
    url, data = (content, None) if has_scheme(content) else (None, content)
    return url, data, maybe_text(item, type_key, place), metadata


READERS: dict[str, Callable[[Json, str], Part]] = {
    "text": _read_text,
    "reasoning": _read_reasoning,
    "image": _read_image,
    "file": _read_file,
}
"""The function that reads a part of the content, by its type."""


def write_content(part: Part) -> Json:
    """Return the content part for a text, reasoning, an image, a sound, a file or an unknown part."""
    if isinstance(part, (TextPart, ReasoningPart)):
        return write_metadata({"type": part.type, "text": part.text}, part, FORMAT, _TEXT_KEYS, OPTIONS)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _write_media(part: ImagePart | AudioPart | FilePart) -> Json:
    notes = notes_of(part, FORMAT)
    kind = "image" if isinstance(part, ImagePart) else "file"
    key, type_key = _CONTENT_KEYS[kind], _TYPE_KEYS[bool(notes.get("old"))]
    content: Value = part.data if part.data is not None else as_url(part, "")
    body: Json = {"type": kind, key: content or ""}
    media_type = part.media_type
    if media_type is None and notes.get("kind") != kind:
        media_type = _ANY_TYPE.get(type(part))
    if media_type is not None:
        body[type_key] = media_type
    if isinstance(part, FilePart) and part.name is not None:
        body["filename"] = part.name
    known = {"type", key, type_key, *(("filename",) if kind == "file" else ())}
    return write_metadata(body, part, FORMAT, known, OPTIONS)


CALL = "tool-call"
RESULTS = ("tool-result", "tool-error")
_SAID_KEYS = ("output", "result", "error")
"""The keys for a tool's output, the current one first."""

_CALL_KEYS = frozenset({"type", "toolCallId", "toolName"})
_OUTPUT_KEYS = frozenset({"type", "value"})
_ERRORS = ("error-text", "error-json")
_VENDOR, _COPY = "mastra", "modelOutput"


# Calls


def read_call(item: Json, place: str) -> ToolPart:
    """Return the part of a ``tool-call``.

    Raises:
        MessageError: it is malformed.
    """
    key = "args" if "args" in item and "input" not in item else "input"
    notes = {"arguments": "args" if key == "args" else None if key in item else "absent"}
    metadata = read_metadata(item, FORMAT, {*_CALL_KEYS, key}, notes, OPTIONS)
    call_id, name = (expect_text(item, name, place) for name in ("toolCallId", "toolName"))
    return ToolPart(call_id, name, item.get(key, EMPTY), metadata=metadata)


def write_call(part: ToolPart) -> Json:
    """Return the ``tool-call`` of a part."""
    said = notes_of(part, FORMAT).get("arguments")
    key = "args" if said == "args" else "input"
    body: Json = {"type": CALL, "toolCallId": part.call_id, "toolName": part.name}
    if said != "absent" or part.arguments != {}:
        body[key] = thaw(part.arguments)
    return write_metadata(body, part, FORMAT, {*_CALL_KEYS, key}, OPTIONS)


# Results


def read_result(item: Json, place: str, *, alone: bool) -> ToolPart:
    """Return the part of a ``tool-result`` or ``tool-error``. ``alone``: it is among an assistant's content.

    Raises:
        MessageError: it is malformed.
    """
    key = next((key for key in _SAID_KEYS if key in item), _SAID_KEYS[0])
    state, result, error, shape = _read_output(item, key)
    notes: Json = {
        "type": item["type"] if item["type"] != RESULTS[0] else None,
        "key": None if key == "output" else key,
        "name": None if item.get("toolName") is not None else "absent",
        **shape,
    }
    known = {*_CALL_KEYS, key, *(("isError",) if notes.get("shape") == "flagged" else ())}
    rest = {name: given for name, given in item.items() if name not in known or (given is None and name == "toolName")}
    metadata = read_metadata(rest, FORMAT, (), {"alone": alone or None}, OPTIONS)
    metadata = _without_copy(metadata, item.get(key), notes)
    own = metadata.get(FORMAT)
    metadata = with_notes(FORMAT, {**(own if is_object(own) else {}), "result": without_empty(notes)}, metadata)
    call_id, name = expect_text(item, "toolCallId", place), maybe_text(item, "toolName", place)
    return ToolPart(call_id, name or "", EMPTY, state, result, error, metadata)


def _read_output(item: Json, key: str) -> tuple[ToolState, Value, str | None, Json]:
    """Return state, result, error and notes on the shape."""
    value: Value = item.get(key)
    if key not in item:
        return "result", None, None, {"shape": "absent"}
    if key != "output":
        if item.get("isError") is not True and key != "error":
            return "result", value, None, {"shape": "bare"}
        error, is_json = _as_error(value)
        return "error", None, error, {"shape": "flagged" if key == "result" else "bare", "json": is_json}
    kind = value.get("type") if is_object(value) else None
    inner = unknown_keys(value, _OUTPUT_KEYS, _OUTPUT_KEYS) if is_object(value) else {}
    if is_object(value) and "value" in value and _is_usual(kind, value["value"]):
        if kind in _ERRORS:
            error, is_json = _as_error(value["value"])
            odd = kind if kind == "error-json" and not is_json else None
            return "error", None, error, {"json": is_json, "shape": odd, "inner": inner}
        given = value["value"]
        odd = kind if kind == "content" or (kind == "json" and isinstance(given, str)) else None
        return "result", given, None, {"shape": odd, "inner": inner}
    return "result", value, None, {"shape": "raw"}


def _is_usual(kind: Value, value: Value) -> bool:
    """Return whether an output of that kind may hold such a value."""
    if kind in ("text", "error-text"):
        return isinstance(value, str)
    return is_array(value) if kind == "content" else kind in ("json", "error-json")


def _as_error(value: Value) -> tuple[str, bool | None]:
    """Return an error as text, and whether it was a JSON value."""
    return (value, None) if isinstance(value, str) else (as_json(value), True)


def _without_copy(metadata: Json, output: Value, notes: Json) -> Json:
    """Return the metadata with a vendor's copy of the output reduced to a mark, since guards do not read the copy."""
    vendor = metadata.get(_VENDOR)
    if not is_object(vendor) or vendor.get(_COPY) is None or vendor[_COPY] != output:
        return metadata
    notes["copy"] = True
    return {**metadata, _VENDOR: {**vendor, _COPY: True}}


def write_result(part: ToolPart) -> Json:
    """Return the ``tool-result`` of a part."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    kind = RESULTS[1] if notes.get("type") == RESULTS[1] else RESULTS[0]
    body: Json = {"type": kind, "toolCallId": part.call_id}
    if part.name or notes.get("name") != "absent":
        body["toolName"] = part.name
    said = _write_output(part, notes)
    body.update(said)
    used = next((place for place, key in enumerate(_SAID_KEYS) if key in said), len(_SAID_KEYS))
    known = {*_CALL_KEYS, *said, *_SAID_KEYS[:used]}
    return _with_copy(write_metadata(body, part, FORMAT, known, OPTIONS), part, notes)


def _write_output(part: ToolPart, notes: Json) -> Json:
    """Return the tool's output in the shape in which it was read if that still fits, else in the current one."""
    shape, key = notes.get("shape"), notes.get("key")
    failed = part.state == "error"
    value = _error_value(part, notes) if failed else thaw(part.result)
    if shape == "absent" and not failed and value is None:
        return {}
    if failed and ((shape, key) == ("flagged", "result") or (shape, key) == ("bare", "error")):
        return {str(key): value, **({"isError": True} if shape == "flagged" else {})}
    if not failed and (shape, key) == ("bare", "result"):
        return {"result": value}
    if not failed and shape == "raw":
        return {"output": value}
    body = {"type": _output_type(part, value, shape), "value": value}
    return {"output": with_unknown_keys(body, notes, _OUTPUT_KEYS, "inner")}


def _output_type(part: ToolPart, value: Value, shape: Value) -> str:
    if part.state == "error":
        return _ERRORS[not isinstance(value, str) or shape == "error-json"]
    if shape == "content" and is_array(value):
        return "content"
    return "text" if isinstance(value, str) and shape != "json" else "json"


def _error_value(part: ToolPart, notes: Json) -> Value:
    """Return the error as text, or as the JSON value that it was, if it still is one."""
    if notes.get("json"):
        try:
            return json.loads(part.error or "")
        except (ValueError, RecursionError):
            pass
    return part.error or ""


def _with_copy(body: Json, part: ToolPart, notes: Json) -> Json:
    """Return the wire object with the vendor's copy of the output made anew."""
    vendor = foreign(part, FORMAT).get(_VENDOR)
    if not notes.get("copy") or not is_object(vendor) or vendor.get(_COPY) is not True:
        return body
    said = next((body[key] for key in _SAID_KEYS if key in body), None)
    return {**body, OPTIONS: {**body[OPTIONS], _VENDOR: {**vendor, _COPY: said}}}


_LEFT_OUT = (SourcePart, DataPart, StepStartPart)
_KEYS = frozenset({"role", "name", "id", "content"})


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a prompt.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(read_each(items, place, start, _read_message))


def _read_message(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a model message")
    role = expect_role(item, place, ROLES)
    given = item.get("content")
    message_id = maybe_text(item, "id", place) or ""
    notes: Json = {
        "id": message_id or None,
        "content": _shape_of(item),
        "extra": unknown_keys(item, _KEYS, {"role", *(() if given is None else ("content",))}),
    }
    parts = _read_content(given, role, f"{place}.content")
    refuse_without_content(item, place, parts, notes["extra"])
    name = maybe_text(item, "name", place) or None
    made = Message(role, parts, id=message_id, metadata=with_notes(FORMAT, notes), name=name)  # type: ignore[arg-type]
    return [made]


def _shape_of(item: Json) -> str:
    if "content" not in item:
        return "absent"
    return "str" if isinstance(item["content"], str) else "parts"


def _read_content(value: Value, role: str, place: str) -> tuple[Part, ...]:
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (TextPart(value),)
    items = expect_array(value, place, "a str or a list of content parts")
    return tuple(_read_part(item, role, f"{place}[{index}]") for index, item in enumerate(items))


def _read_part(value: Value, role: str, place: str) -> Part:
    item = expect_object(value, place, "an object with a type")
    kind = expect_text(item, "type", place)
    if kind == CALL:
        return read_call(item, place)
    if kind in RESULTS:
        return read_result(item, place, alone=role != "tool")
    reader = READERS.get(kind)
    return UnknownPart(item) if reader is None else reader(item, place)


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a prompt has them.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


def _write_message(message: Message) -> list[Json]:
    notes = notes_of(message, FORMAT)
    made: list[Json] = []
    whole = with_answers(message.parts, FORMAT)
    cut = steps(whole, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)), _is_answered)
    if message.role != "assistant":
        cut = [list(message.parts)]
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            made.append(_write_step(message, parts, notes))
            made += _write_answers(message.role, parts)
            notes = {}
    return made


def _is_alone(part: Part) -> bool:
    """Return whether it is a result by itself among an assistant's content, as providers' own tools have it."""
    return isinstance(part, ToolPart) and bool(notes_of(part, FORMAT).get("alone"))


def _is_answered(part: Part) -> bool:
    """Return whether it is a call whose result is written after it."""
    return is_finished(part) and not _is_alone(part)


def _write_answers(role: str, parts: Sequence[Part]) -> list[Json]:
    if role == "tool":
        return []
    results = [write_result(part) for part in parts if isinstance(part, ToolPart) and _is_answered(part)]
    return [{"role": "tool", "content": results}] if results else []


def _write_step(message: Message, parts: Sequence[Part], notes: Json) -> Json:
    body: Json = {"role": message.role}
    if message.name is not None:
        body["name"] = message.name
    if isinstance(notes.get("id"), str):
        body["id"] = notes["id"]
    body.update(_write_content(message.role, parts, notes))
    return with_unknown_keys(body, notes, _KEYS)


def _write_content(role: str, parts: Sequence[Part], notes: Json) -> Json:
    """Return the content: a str for a system message and for content that was received as one, else a list."""
    extra, shape = notes.get("extra"), notes.get("content", "str" if role == "system" else "parts")
    if not parts and (shape == "absent" or (is_object(extra) and "content" in extra)):
        return {}
    own = role == "system" and "content" not in notes
    texts = [part for part in parts if isinstance(part, TextPart) and (own or not part.metadata)]
    if shape == "str" and len(texts) == len(parts):
        return {"content": "\n".join(part.text for part in texts)}
    return {"content": [_write_part(part, role) for part in parts]}


def _write_part(part: Part, role: str) -> Json:
    if not isinstance(part, ToolPart):
        return write_content(part)
    is_result = is_finished(part) and (role == "tool" or _is_alone(part))
    return write_result(part) if is_result else write_call(part)
