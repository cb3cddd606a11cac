"""Read and write the history of pydantic-ai, as its ``ModelMessagesTypeAdapter`` dumps it.

Each part of a request becomes a message with the role that it has: ``system``, ``user`` or ``tool``; so do the
request's instructions, first of all. They are written as one request again. A response becomes one assistant message.
Calls and results of tools that a provider ran, and what else only pydantic-ai knows, stay as they are, in unknown
parts, which guards read; `PydanticAIModel` sends them back in the same form.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, thaw
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
from penstock.formats.blocks import WireBlock, is_finished, with_unknown_keys
from penstock.formats.shape import as_shape, notes_of, result_notes, with_result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.blocks import Reader
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "OF_ANSWERS", "OF_PARTS", "TERMS", "read", "write"]

FORMAT = "pydantic-ai"
LEAVES_OUT = frozenset({"source", "data", "step-start"})

TERMS = ("binary", "document-url", "image-url", "retry-prompt", "system-prompt", "user-prompt")
"""The kinds of parts that are noted."""

_KINDS = ("request", "response")
_REQUEST = frozenset({"kind", "parts", "instructions"})
_RESPONSE = frozenset({"kind", "parts"})
_PROMPT = frozenset({"part_kind", "content"})
_RETURN = frozenset({"part_kind", "tool_name", "tool_call_id", "content", "outcome"})
_RETRY = frozenset({"part_kind", "tool_name", "tool_call_id", "content"})
_CALL = frozenset({"part_kind", "tool_name", "tool_call_id", "args"})
_SUCCESS, _FAILED = "success", "failed"
OF_PARTS = ("id", "signature", "provider_name", "provider_details")
"""The keys of a part that are noted under their own names, by `PydanticAIModel` too."""

OF_ANSWERS = ("provider_name", "provider_url", "canonical_system", "provider_response_id", "provider_details")
"""Those of a response."""


# What a user says


_TYPE = {"media_type": "media_type"}
_TEXT = WireBlock(FORMAT, TextPart, {"content": "text"}, head={"kind": "text-content"}, notes={"kind": "text-content"})
_LINK_OF: dict[type[Media], str] = {ImagePart: "image-url", AudioPart: "audio-url", FilePart: "document-url"}
_LINK_KEYS = {"url": "url", **_TYPE}
_LINKS = {
    kind: WireBlock(FORMAT, partial(shared.media, kind=part), {}, _LINK_KEYS, {"kind": kind}, {"kind": kind})
    for part, kind in (*_LINK_OF.items(), (FilePart, "video-url"))
}
_BINARY, _UPLOAD = (
    WireBlock(FORMAT, shared.media, {field: field}, _TYPE, {"kind": kind}, {"kind": kind})
    for field, kind in (("data", "binary"), ("file_id", "uploaded-file"))
)
_CONTENTS = {"text-content": _TEXT, **_LINKS, "binary": _BINARY, "uploaded-file": _UPLOAD}


def _read_content(value: Value, place: str) -> list[Part]:
    if isinstance(value, str):
        return [TextPart(value)] if value else []
    return blocks.read_list(value, place, _read_item_of_content, "a str or a list of contents")


def _read_item_of_content(value: Value, place: str) -> Part:
    if isinstance(value, str):
        return TextPart(value)
    item = wire.expect_object(value, place, "a str, or an object with a kind")
    block = _CONTENTS.get(wire.maybe_text(item, "kind", place) or "")
    part = None if block is None else block.maybe_read(item, place)
    return UnknownPart(item) if part is None else part


def _write_item_of_content(part: Part) -> Value:
    notes = notes_of(part, FORMAT)
    if isinstance(part, shared.MEDIA):
        return _write_media(part, notes)
    if isinstance(part, UnknownPart):
        return thaw(part.raw)
    if notes.get("kind") == "text-content" and isinstance(part, TextPart):
        return _TEXT.write(part, notes)
    return part.text if isinstance(part, (TextPart, ReasoningPart)) else ""


def _write_media(part: Media, notes: WireShape) -> Json:
    own = "kind" in notes
    data, url = shared.content_of(part, own=own)
    media_type = shared.media_type_of(part) or None
    if data is not None:
        usual = None if own else shared.USUAL_TYPE[type(part)]
        return _BINARY.write(part, notes, data=data, media_type=media_type or usual)
    if url is None and isinstance(part, FilePart) and part.file_id is not None:
        return _UPLOAD.write(part, notes, media_type=media_type)
    return (_LINKS.get(notes.get("kind", "")) or _LINKS[_LINK_OF[type(part)]]).write(part, notes, media_type=media_type)


# Parts of a request, each a message

_PROMPTS: dict[str, Role] = {
    "system-prompt": "system",
    "user-prompt": "user",
    "retry-prompt": "user",
    "retry-feedback": "user",
}


def _read_request_part(value: Value, place: str) -> Message:
    item = wire.expect_object(value, place, "an object with a part_kind")
    kind = wire.expect_text(item, "part_kind", place)
    if kind in _PROMPTS and (kind != "retry-prompt" or item.get("tool_name") is None):
        return _read_prompt(item, kind, place)
    if kind in ("tool-return", "retry-prompt"):
        return _read_return(item, kind, place)
    return Message("user", (UnknownPart(item),), metadata=with_notes(FORMAT, {"part": {"kind": kind}}))


def _read_prompt(item: Json, kind: str, place: str) -> Message:
    content = item.get("content")
    if kind != "user-prompt" and wire.is_array(content):
        # The errors of a validation: JSON, of which every string is read.
        return Message("user", (UnknownPart(item),), metadata=with_notes(FORMAT, {"part": {"kind": kind}}))
    if kind != "user-prompt":
        wire.expect_text(item, "content", place)
    parts = _read_content(content, f"{place}.content")
    notes: Json = {
        "kind": kind,
        "list": True if wire.is_array(content) else None,
        "extra": wire.unknown_keys(item, _PROMPT, _PROMPT),
    }
    return Message(_PROMPTS[kind], tuple(parts), metadata=with_notes(FORMAT, {"part": wire.without_empty(notes)}))


def _read_return(item: Json, kind: str, place: str) -> Message:
    outcome = wire.maybe_text(item, "outcome", place)
    failed = kind == "retry-prompt" or outcome not in (None, _SUCCESS)
    state, result, error = shared.read_outcome(item.get("content"), failed=failed)
    notes: Json = {
        "kind": kind if kind != "tool-return" else None,
        "outcome": outcome,
        "content": "absent" if "content" not in item else None,
        "extra": wire.unknown_keys(item, _RETURN if kind == "tool-return" else _RETRY),
    }
    call_id, name = wire.maybe_text(item, "tool_call_id", place), wire.maybe_text(item, "tool_name", place)
    metadata = with_result_notes(FORMAT, notes)
    return Message("tool", (ToolPart(call_id or "", name or "", EMPTY, state, result, error, metadata),))


def _write_return(part: ToolPart) -> Json:
    """Return the part of a request for a result."""
    notes = result_notes(part, FORMAT)
    failed = part.state == "error"
    retry = notes.get("kind") == "retry-prompt" and failed
    body: Json = {"part_kind": "retry-prompt" if retry else "tool-return"}
    body |= wire.without_none({"tool_name": part.name or None, "tool_call_id": part.call_id or None})
    said = shared.write_outcome(part, own=bool(notes))
    if said is not None or not notes:
        body["content"] = said
    if not retry:
        outcome = notes.get("outcome")
        if outcome is not None and failed == (outcome != _SUCCESS):
            body["outcome"] = outcome
        elif failed:
            body["outcome"] = _FAILED
    return with_unknown_keys(body, notes, _RETRY if retry else _RETURN)


def _write_request_parts(message: Message) -> list[Value]:
    notes = as_shape(notes_of(message, FORMAT).get("part"))
    parts = [part for part in message.parts if part.type not in LEAVES_OUT]
    returns: list[Value] = [_write_return(part) for part in blocks.tools(parts)]
    said = [part for part in parts if not is_finished(part)]
    if message.role == "system":
        return [*returns, *_write_system(said, notes)]
    if notes and len(said) == 1 and isinstance(said[0], UnknownPart) and "list" not in notes:
        return [*returns, thaw(said[0].raw)]
    if not said and (not notes or returns):
        return returns
    kind = notes.get("kind", "")
    items = [_write_item_of_content(part) for part in said]
    plain = len(items) == 1 and isinstance(items[0], str) and not notes.get("list")
    content: Value = items[0] if plain else "" if not items and not notes.get("list") else items
    body = {"part_kind": kind if _PROMPTS.get(kind) == "user" else "user-prompt", "content": content}
    return [*returns, with_unknown_keys(body, notes, _PROMPT)]


def _write_system(parts: Sequence[Part], notes: WireShape) -> Iterator[Json]:
    texts = [part.text for part in parts if isinstance(part, (TextPart, ReasoningPart))]
    yield from (thaw(part.raw) for part in parts if isinstance(part, UnknownPart))
    for text in texts or ([""] if notes and not parts else []):
        yield with_unknown_keys({"part_kind": "system-prompt", "content": text}, notes, _PROMPT)
        notes = {}


# Parts of a response


def _read_response_part(value: Value, place: str) -> Part:
    return blocks.read_block(value, place, _READERS, "part_kind")


def _own(item: Json, names: Sequence[str], known: frozenset[str], handled: Iterable[str]) -> Json:
    """Return notes: the keys that are sent back under their own names (texts, and one object), and unknown keys."""
    kinds = {key: dict if key == "provider_details" else str for key in names}
    own = {key: item[key] for key, kind in kinds.items() if item.get(key) and isinstance(item[key], kind)}
    return {**own, "extra": wire.unknown_keys(item, known | own.keys(), {*handled, *own})}


def _with_own(body: Json, notes: WireShape, names: Sequence[str], known: frozenset[str]) -> Json:
    own = {key: value for key, value in notes.items() if key in names and value is not None}
    return with_unknown_keys({**own, **body}, notes, known | own.keys())


def _read_text(item: Json, place: str) -> Part:
    make = TextPart if item["part_kind"] == "text" else ReasoningPart
    return make(wire.expect_text(item, "content", place), with_notes(FORMAT, _own(item, OF_PARTS, _PROMPT, _PROMPT)))


def _read_call(item: Json, place: str) -> Part:
    given = item.get("args")
    arguments, style = shared.read_arguments(given) if isinstance(given, str) else (given, None)
    notes = _own(item, OF_PARTS, _CALL, {"part_kind"})
    notes["arguments"] = {"style": style or "compact"} if isinstance(given, str) else None
    notes["args"] = None if given is not None else "null" if "args" in item else "absent"
    notes["odd"] = True if given is not None and not isinstance(given, (str, dict)) else None
    call_id, name = wire.maybe_text(item, "tool_call_id", place), wire.expect_text(item, "tool_name", place)
    arguments = EMPTY if arguments is None else arguments
    return ToolPart(call_id or "", name, arguments, metadata=with_notes(FORMAT, notes))


def _read_file(item: Json, place: str) -> Part | None:
    content: Value = item.get("content")
    if not wire.is_object(content):
        return None
    part = _read_item_of_content(content, f"{place}.content")
    if not isinstance(part, shared.MEDIA):
        return None
    notes = {**notes_of(part, FORMAT), "file": _own(item, OF_PARTS, _PROMPT, _PROMPT)}
    return replace(part, metadata=with_notes(FORMAT, notes))


_READERS: dict[str, Reader] = {
    "text": _read_text,
    "thinking": _read_text,
    "tool-call": _read_call,
    "file": _read_file,
}


def _write_response_part(part: Part) -> Json:
    notes = notes_of(part, FORMAT)
    if isinstance(part, (TextPart, ReasoningPart)):
        body: Json = {"part_kind": "text" if isinstance(part, TextPart) else "thinking", "content": part.text}
        return _with_own(body, notes, OF_PARTS, _PROMPT)
    if isinstance(part, ToolPart):
        return _write_call(part, notes)
    if isinstance(part, shared.MEDIA):
        body = {"part_kind": "file", "content": _write_media(part, notes)}
        return _with_own(body, as_shape(notes.get("file")), OF_PARTS, _PROMPT)
    return blocks.raw_of(part)


def _write_call(part: ToolPart, notes: WireShape) -> Json:
    body: Json = {"part_kind": "tool-call", "tool_name": part.name}
    if part.call_id:
        body["tool_call_id"] = part.call_id
    written = notes.get("arguments")
    arguments = thaw(part.arguments)
    if wire.is_object(written):
        body["args"] = shared.write_arguments(part.arguments, written.get("style"))
    elif arguments != {} or notes.get("args") not in ("null", "absent"):
        plain = isinstance(arguments, str) or wire.is_object(arguments) or notes.get("odd")
        body["args"] = arguments if plain else shared.write_arguments(arguments, None)
    return _with_own(body, notes, OF_PARTS, _CALL)


# Messages


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a request or a response")
    kind = wire.expect_text(item, "kind", place)
    if kind not in _KINDS:
        raise MessageError(f"{place}.kind", f"expected one of {', '.join(_KINDS)}, not another str")
    if kind == "response":
        parts = blocks.read_list(item.get("parts"), f"{place}.parts", _read_response_part, "a list of parts")
        notes = _own(item, OF_ANSWERS, _RESPONSE, _RESPONSE)
        return [Message("assistant", tuple(parts), metadata=with_notes(FORMAT, notes))]
    wire.expect_array(item.get("parts"), f"{place}.parts", "a list of parts")
    instructions = wire.maybe_text(item, "instructions", place)
    made = [Message.system(instructions, metadata=with_notes(FORMAT, {"instructions": True}))] if instructions else []
    made += blocks.read_list(item["parts"], f"{place}.parts", _read_request_part)
    made = made or [Message("user", metadata=with_notes(FORMAT, {"empty": True}))]
    own = wire.without_empty({"extra": wire.unknown_keys(item, _REQUEST, {"kind", "parts"})})
    return [_in_request(message, {"joined": True} if index else {"request": own}) for index, message in enumerate(made)]


read = wire.reader(_read_item)


def _in_request(message: Message, notes: Json) -> Message:
    """Return a message with the note that it goes on with a request, or that it begins one, with its unknown keys."""
    return replace(message, metadata={FORMAT: {**notes_of(message, FORMAT), **notes}})


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a history.

    What follows one another is put into one request, unless it was read from several.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    made: list[Json] = []
    for message in messages:
        if message.role == "assistant":
            made += _write_response(message)
            continue
        notes = notes_of(message, FORMAT)
        if "request" in notes or not made or made[-1]["kind"] != "request":
            own = as_shape(notes.get("request"))
            made.append(with_unknown_keys({"kind": "request", "parts": []}, own, _REQUEST))
        if notes.get("instructions") and message.role == "system":
            made[-1]["instructions"] = message.text
        elif not notes.get("empty") or message.parts:
            made[-1]["parts"].extend(_write_request_parts(message))
    return made


def _write_response(message: Message) -> Iterator[Json]:
    cut = blocks.steps(blocks.with_answers(message.parts, FORMAT))
    for parts, notes in blocks.written_steps(message, FORMAT, LEAVES_OUT, cut):
        body: Json = {"kind": "response", "parts": [_write_response_part(part) for part in parts]}
        yield _with_own(body, notes, OF_ANSWERS, _RESPONSE)
        results = [_write_return(part) for part in blocks.tools(parts)]
        if results:
            yield {"kind": "request", "parts": results}
