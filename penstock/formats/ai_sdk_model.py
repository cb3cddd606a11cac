"""Read and write the AI SDK's model messages, which it sends to a provider.

Messages of version 5 and of older ones are read. Each becomes one message; none are merged. When an assistant message
is written, each of its steps becomes a message, followed by one tool message with the results of its calls.

Version 6 asks for approval in a part behind the call (``tool-approval-request``), and the client answers in a tool
message (``tool-approval-response``). Both become `ToolPart.approval` of the call. A tool message with nothing else
becomes no message.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import (
    ROLES,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolPart,
)
from penstock.formats import blocks, parts as shared, wire
from penstock.formats.ai_sdk_parts import OPTIONS, read_approval, read_metadata, write_approval, write_metadata
from penstock.formats.blocks import is_finished, was_empty, with_unknown_keys
from penstock.formats.shape import as_shape, foreign, notes_of, result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, ToolState
    from penstock.formats.blocks import Reader
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "ai-sdk-model"
LEAVES_OUT = frozenset({"source", "data", "step-start"})


# Content

_TEXT_KEYS = frozenset({"type", "text"})
_TYPE_KEYS = ("mediaType", "mimeType")
_CONTENT_KEYS = {"image": "image", "file": "data"}
_ANY_TYPE: dict[type[Part], str] = {AudioPart: "audio/*", FilePart: "application/octet-stream"}


def _read_text(item: Json, place: str) -> Part:
    make = TextPart if item["type"] == "text" else ReasoningPart
    return make(wire.expect_text(item, "text", place), read_metadata(item, FORMAT, _TEXT_KEYS, key=OPTIONS))


def _read_media(item: Json, place: str) -> Part | None:
    """Read an image or a file; one whose content is no text (bytes, an object) stays as it is."""
    kind = item["type"]
    key = _CONTENT_KEYS[kind]
    content = item.get(key)
    if not isinstance(content, str):
        return None
    old = item.get(_TYPE_KEYS[0]) is None and item.get(_TYPE_KEYS[1]) is not None
    known = {"type", key, _TYPE_KEYS[old], *(("filename",) if kind == "file" else ())}
    rest = {name: value for name, value in item.items() if value is None or name not in known}
    metadata = read_metadata(rest, FORMAT, (), {"kind": kind, "old": old or None}, OPTIONS)
    url, data = (content, None) if shared.has_scheme(content) else (None, content)
    media_type = wire.maybe_text(item, _TYPE_KEYS[old], place)
    if kind == "image":
        return ImagePart(url, data, media_type, metadata)
    return FilePart(data, url, None, media_type, wire.maybe_text(item, "filename", place), metadata)


def _write_media(part: Media) -> Json:
    notes = notes_of(part, FORMAT)
    kind = "image" if isinstance(part, ImagePart) else "file"
    key, type_key = _CONTENT_KEYS[kind], _TYPE_KEYS[bool(notes.get("old"))]
    content = part.data if part.data is not None else shared.as_url(part, "")
    usual = None if notes.get("kind") == kind else _ANY_TYPE.get(type(part))
    given = {
        type_key: usual if part.media_type is None else part.media_type,
        "filename": part.name if isinstance(part, FilePart) else None,
    }
    known = {"type", key, type_key, *(("filename",) if kind == "file" else ())}
    return write_metadata({"type": kind, key: content or "", **wire.without_none(given)}, part, FORMAT, known, OPTIONS)


# Calls

_CALL = "tool-call"
_RESULTS = ("tool-result", "tool-error")
_SAID_KEYS = ("output", "result", "error")
"""The keys for a tool's output, the current one first."""

_CALL_KEYS = frozenset({"type", "toolCallId", "toolName"})
_OUTPUT_KEYS = frozenset({"type", "value"})
_ERRORS = ("error-text", "error-json")
_VENDOR, _COPY = "mastra", "modelOutput"


def _read_call(item: Json, place: str) -> ToolPart:
    key = "args" if "args" in item and "input" not in item else "input"
    notes = {"arguments": "args" if key == "args" else None if key in item else "absent"}
    metadata = read_metadata(item, FORMAT, {*_CALL_KEYS, key}, notes, OPTIONS)
    call_id, name = (wire.expect_text(item, name, place) for name in ("toolCallId", "toolName"))
    return ToolPart(call_id, name, item.get(key, EMPTY), metadata=metadata)


def _write_call(part: ToolPart) -> Json:
    said = notes_of(part, FORMAT).get("arguments")
    key = "args" if said == "args" else "input"
    body: Json = {"type": _CALL, "toolCallId": part.call_id, "toolName": part.name}
    if said != "absent" or part.arguments != {}:
        body[key] = thaw(part.arguments)
    return write_metadata(body, part, FORMAT, {*_CALL_KEYS, key}, OPTIONS)


# Results


def _read_result(item: Json, place: str, *, alone: bool) -> ToolPart:
    """Return the part of a ``tool-result`` or ``tool-error``. ``alone``: it is among an assistant's content."""
    key = next((key for key in _SAID_KEYS if key in item), _SAID_KEYS[0])
    state, result, error, shape = _read_output(item, key)
    notes: Json = {
        "type": item["type"] if item["type"] != _RESULTS[0] else None,
        "key": None if key == "output" else key,
        "name": None if item.get("toolName") is not None else "absent",
        **shape,
    }
    known = {*_CALL_KEYS, key, *(("isError",) if notes.get("shape") == "flagged" else ())}
    rest = {name: given for name, given in item.items() if name not in known or (given is None and name == "toolName")}
    metadata = read_metadata(rest, FORMAT, (), {"alone": alone or None}, OPTIONS)
    metadata = _without_copy(metadata, item.get(key), notes)
    own = metadata.get(FORMAT, {})
    metadata = with_notes(FORMAT, {**own, "result": wire.without_empty(notes)}, metadata)
    call_id, name = wire.expect_text(item, "toolCallId", place), wire.maybe_text(item, "toolName", place)
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
    kind = value.get("type") if wire.is_object(value) else None
    inner = wire.unknown_keys(value, _OUTPUT_KEYS, _OUTPUT_KEYS) if wire.is_object(value) else {}
    if wire.is_object(value) and "value" in value and _is_usual(kind, value["value"]):
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
    return wire.is_array(value) if kind == "content" else kind in ("json", "error-json")


def _as_error(value: Value) -> tuple[str, bool | None]:
    """Return an error as text, and whether it was a JSON value."""
    return (value, None) if isinstance(value, str) else (shared.as_json(value), True)


def _without_copy(metadata: Json, output: Value, notes: Json) -> Json:
    """Return the metadata with a vendor's copy of the output reduced to a mark, since guards do not read the copy."""
    vendor = metadata.get(_VENDOR)
    if not wire.is_object(vendor) or vendor.get(_COPY) is None or vendor[_COPY] != output:
        return metadata
    notes["copy"] = True
    return {**metadata, _VENDOR: {**vendor, _COPY: True}}


def _write_result(part: ToolPart) -> Json:
    notes = result_notes(part, FORMAT)
    kind = _RESULTS[1] if notes.get("type") == _RESULTS[1] else _RESULTS[0]
    body: Json = {"type": kind, "toolCallId": part.call_id}
    if part.name or notes.get("name") != "absent":
        body["toolName"] = part.name
    said = _write_output(part, notes)
    body.update(said)
    used = next((place for place, key in enumerate(_SAID_KEYS) if key in said), len(_SAID_KEYS))
    known = {*_CALL_KEYS, *said, *_SAID_KEYS[:used]}
    return _with_copy(write_metadata(body, part, FORMAT, known, OPTIONS), part, notes)


def _write_output(part: ToolPart, notes: WireShape) -> Json:
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
    if shape == "content" and wire.is_array(value):
        return "content"
    return "text" if isinstance(value, str) and shape != "json" else "json"


def _error_value(part: ToolPart, notes: WireShape) -> Value:
    """Return the error as text, or as the JSON value that it was, if it still is one."""
    if notes.get("json"):
        try:
            return json.loads(part.error or "")
        except (ValueError, RecursionError):
            pass
    return part.error or ""


def _with_copy(body: Json, part: ToolPart, notes: WireShape) -> Json:
    """Return the wire object with the vendor's copy of the output made anew."""
    vendor = foreign(part, FORMAT).get(_VENDOR)
    if not notes.get("copy") or not wire.is_object(vendor) or vendor.get(_COPY) is not True:
        return body
    said = next((body[key] for key in _SAID_KEYS if key in body), None)
    return {**body, OPTIONS: {**body[OPTIONS], _VENDOR: {**vendor, _COPY: said}}}


# Approvals

_REQUEST = "tool-approval-request"
_RESPONSE = "tool-approval-response"
_REQUEST_KEYS = frozenset({"type", "approvalId", "toolCallId"})
_OPEN = (None, "requested")


def _with_approvals(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages with requests for approval, and the responses to them, in the calls that they are about."""
    made: list[Message] = []
    asked: dict[str, tuple[int, int]] = {}  # by the id of an approval: the places of the message and of its call
    for message in messages:
        parts: list[Part] = []
        decided: list[tuple[int, int, ToolPart]] = []
        for before, part in zip((None, *message.parts), message.parts, strict=False):
            raw = blocks.raw_of(part)
            if raw.get("type") == _REQUEST and message.role == "assistant":
                place = next((place for place, each in enumerate(parts) if _is_asked(each, raw)), None)
                if place is not None:
                    parts[place] = _requested(cast("ToolPart", parts[place]), raw, apart=parts[place] is not before)
                    asked[raw["approvalId"]] = len(made), place
                    continue
            elif raw.get("type") == _RESPONSE and message.role == "tool" and raw.get("approvalId") in asked:
                index, place = asked[raw["approvalId"]]
                call = _responded(cast("ToolPart", made[index].parts[place]), raw)
                if call is not None:
                    del asked[raw["approvalId"]]
                    decided.append((index, place, call))
                    continue
            parts.append(part)
        for index, place, call in decided:
            there = list(made[index].parts)
            there[place] = _noted(call, {"joined": True} if parts else {"responses": notes_of(message, FORMAT)})
            made[index] = made[index].with_parts(there)
        if parts or not decided:
            made.append(message if len(parts) == len(message.parts) else message.with_parts(parts))
    return tuple(made)


def _is_asked(part: Part, request: Json) -> bool:
    """Return whether a part is the call that a request is about, and not asked about yet."""
    if not isinstance(part, ToolPart) or part.state != "call" or part.approval is not None:
        return False
    return part.call_id == request.get("toolCallId") and isinstance(request.get("approvalId"), str)


def _requested(call: ToolPart, request: Json, *, apart: bool) -> ToolPart:
    extra = {key: value for key, value in request.items() if key not in _REQUEST_KEYS}
    notes: Json = {"approval": {"id": request["approvalId"]}, "request": extra, "apart": apart or None}
    return replace(_noted(call, notes), approval="requested")


def _responded(call: ToolPart, response: Json) -> ToolPart | None:
    """Return the call with the decision about it; None if the response is of an unknown form."""
    given = {key: value for key, value in response.items() if key not in ("type", "approvalId")}
    approval, beside, reason = read_approval({"approval": {"id": response["approvalId"], **given}}, "")
    if approval is None:
        return None
    return replace(_noted(call, {"approval": beside}), approval=approval, error=reason)


def _noted(call: ToolPart, notes: Json) -> ToolPart:
    return replace(call, metadata=with_notes(FORMAT, {**notes_of(call, FORMAT), **notes}, {**call.metadata}))


def _write_request(part: Part, *, apart: bool) -> list[Json]:
    """Return the request for the approval of a call, in a list; an empty list if it has none, or has it elsewhere."""
    if not isinstance(part, ToolPart) or part.approval is None:
        return []
    notes = notes_of(part, FORMAT)
    if bool(notes.get("apart")) is not apart:
        return []
    extra = notes.get("request", {})
    return [{"type": _REQUEST, "approvalId": _approval_id(part), "toolCallId": part.call_id, **extra}]


def _approval_id(part: ToolPart) -> str:
    said = notes_of(part, FORMAT).get("approval", {}).get("id")
    return said if isinstance(said, str) else part.call_id


def _write_response(part: ToolPart) -> Json:
    body: Json = {"errorText": part.error}
    write_approval(body, part, notes_of(part, FORMAT))
    return {"type": _RESPONSE, "approvalId": body["approval"].pop("id"), **body["approval"]}


def _is_decided(part: Part, place: Literal["", "joined", "responses"]) -> bool:
    """Return whether it is a call with a decision, and where its response stands.

    That is with the results of the message, at the head of the tool message behind it, or in a message of its own.
    """
    if not isinstance(part, ToolPart) or part.approval in _OPEN:
        return False
    notes = notes_of(part, FORMAT)
    found = "responses" if "responses" in notes else "joined" if notes.get("joined") and not is_finished(part) else ""
    return found == place


# Messages

_KEYS = frozenset({"role", "name", "id", "content"})


def _read_message(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a model message")
    role = wire.expect_role(item, place, ROLES)
    given = item.get("content")
    message_id = wire.maybe_text(item, "id", place) or ""
    notes: Json = {
        "id": message_id or None,
        "content": "absent" if "content" not in item else "str" if isinstance(given, str) else "parts",
        "extra": wire.unknown_keys(item, _KEYS, {"role", *(() if given is None else ("content",))}),
    }
    parts = blocks.read_content(given, f"{place}.content", partial(_read_part, role=role))
    wire.refuse_without_content(item, place, parts, notes["extra"])
    name = wire.maybe_text(item, "name", place) or None
    metadata = with_notes(FORMAT, notes)
    return [Message(role, tuple(parts), id=message_id, metadata=metadata, name=name)]  # type: ignore[arg-type]


_read_each = wire.reader(_read_message)


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages; errors call the first item ``place[start]``.

    Raises:
        MessageError: an item is malformed.
    """
    return _with_approvals(_read_each(items, place, start))


def _read_part(value: Value, place: str, role: str) -> Part:
    if wire.is_object(value) and value.get("type") in _RESULTS:
        return _read_result(value, place, alone=role != "tool")
    return blocks.read_block(value, place, _READERS)


_READERS: dict[str, Reader] = {
    "text": _read_text,
    "reasoning": _read_text,
    "image": _read_media,
    "file": _read_media,
    _CALL: _read_call,
}


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as data.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    made: list[Json] = []
    waiting: list[Json] = []  # responses to requests for approval that were read from the message behind
    for message in messages:
        written = list(_write_message(message))
        if waiting and message.role == "tool" and written and wire.is_array(written[0].get("content")):
            written[0]["content"] = [*waiting, *written[0]["content"]]
        elif waiting:
            made.append({"role": "tool", "content": waiting})
        made += written
        waiting = [_write_response(part) for part in blocks.tools(message.parts, partial(_is_decided, place="joined"))]
    return [*made, {"role": "tool", "content": waiting}] if waiting else made


def _write_message(message: Message) -> Iterator[Json]:
    whole = blocks.with_answers(message.parts, FORMAT)
    cut = blocks.steps(whole, _is_answered) if message.role == "assistant" else None
    for parts, notes in blocks.written_steps(message, FORMAT, LEAVES_OUT, cut):
        body: Json = {"role": message.role, **({} if message.name is None else {"name": message.name})}
        body |= {**blocks.own_id(notes), **_write_content(message.role, parts, notes)}
        yield with_unknown_keys(body, notes, _KEYS)
        if message.role == "tool":
            continue
        own = blocks.tools(parts, partial(_is_decided, place="responses"))
        if own:
            said = as_shape(notes_of(own[0], FORMAT).get("responses"))
            body = {"role": "tool", **blocks.own_id(said), "content": [_write_response(part) for part in own]}
            yield with_unknown_keys(body, said, _KEYS)
        responses = blocks.tools(parts, partial(_is_decided, place=""))
        results = blocks.tools(parts, _is_answered)
        if responses or results:
            yield {"role": "tool", "content": [*map(_write_response, responses), *map(_write_result, results)]}


def _is_answered(part: Part) -> bool:
    """Return whether it is a call whose result is written after it: not one by itself among an assistant's content."""
    return is_finished(part) and not notes_of(part, FORMAT).get("alone")


def _write_content(role: str, parts: Sequence[Part], notes: WireShape) -> Json:
    """Return the content: a str for a system message and for content that was received as one, else a list."""
    if not parts and was_empty(notes, "content"):
        return {}
    own = role == "system" and "content" not in notes
    texts = [part for part in parts if isinstance(part, TextPart) and (own or not part.metadata)]
    if (own or notes.get("content") == "str") and len(texts) == len(parts):
        return {"content": "\n".join(part.text for part in texts)}
    written = [item for part in parts for item in (_write_part(part, role), *_write_request(part, apart=False))]
    return {"content": [*written, *(item for part in parts for item in _write_request(part, apart=True))]}


def _write_part(part: Part, role: str) -> Json:
    if isinstance(part, (TextPart, ReasoningPart)):
        return write_metadata({"type": part.type, "text": part.text}, part, FORMAT, _TEXT_KEYS, OPTIONS)
    if isinstance(part, shared.MEDIA):
        return _write_media(part)
    if not isinstance(part, ToolPart):
        return blocks.raw_of(part)
    is_result = is_finished(part) and (role == "tool" or not _is_answered(part))
    return _write_result(part) if is_result else _write_call(part)
