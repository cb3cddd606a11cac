"""Read and write what the Model Context Protocol passes as messages: those of prompts and of sampling, and results.

A message holds one block of content, or, in sampling, a list of them. The result of a tool call, which names neither
its call nor its tool, becomes a ``tool`` message with a result without an id. Keys are read in camelCase, as on the
wire, and in snake_case, as Python's classes have them.
"""

from __future__ import annotations

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
from penstock.formats.parts import (
    is_finished,
    media_type_of,
    read_outcome,
    result_text,
    split_data_url,
    write_outcome,
)
from penstock.formats.wire import (
    Json,
    Value,
    expect_array,
    expect_object,
    expect_role,
    expect_text,
    is_array,
    is_object,
    maybe_text,
    named,
    notes_of,
    read_each,
    refuse_without_content,
    respelled,
    spelled_back,
    type_error,
    unknown_keys,
    with_notes,
    with_unknown_keys,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, Role


__all__ = ["FORMAT", "LEAVES_OUT", "RESULT_KEYS", "read", "write"]

FORMAT = "mcp"
LEAVES_OUT = frozenset({"reasoning", "source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_ROLES = ("user", "assistant")
_KEYS = frozenset({"role", "content"})
_SPELLINGS = {
    "mime_type": "mimeType",
    "tool_use_id": "toolUseId",
    "structured_content": "structuredContent",
    "is_error": "isError",
}
RESULT_KEYS = frozenset({"structuredContent", "isError", "structured_content", "is_error"})
"""The keys that only a result has, beside its content."""

_TEXT = frozenset({"type", "text"})
_MEDIA = frozenset({"type", "data", "mimeType"})
_RESOURCE = frozenset({"type", "resource"})
_CONTENTS = frozenset({"uri", "mimeType", "blob"})
_LINK = frozenset({"type", "uri", "name", "mimeType"})
_CALL = frozenset({"type", "id", "name", "input"})
_RESULT = frozenset({"type", "toolUseId", "content", "structuredContent", "isError"})
_BOTH = frozenset({"content", "structuredContent"})


# Blocks


def read_part(value: Value, place: str) -> Part:
    """Return the part for a block of content.

    Raises:
        MessageError: it is malformed.
    """
    item = expect_object(value, place, "an object with a type")
    found, snake = respelled(item, _SPELLINGS, place)
    reader = _READERS.get(expect_text(item, "type", place))
    part = reader(found, {"snake": snake}, place) if reader is not None else None
    return UnknownPart(item) if part is None else part


def _read_text(item: Json, notes: Json, place: str) -> Part | None:
    notes["extra"] = unknown_keys(item, _TEXT, _TEXT)
    return TextPart(expect_text(item, "text", place), with_notes(FORMAT, notes))


def _read_media(item: Json, notes: Json, place: str) -> Part | None:
    data, media_type = maybe_text(item, "data", place), maybe_text(item, "mimeType", place)
    notes |= {"mimeType": "absent" if media_type is None else None, "extra": unknown_keys(item, _MEDIA)}
    metadata = with_notes(FORMAT, notes)
    if item["type"] == "image":
        return ImagePart(None, data, media_type, metadata)
    return AudioPart(data, None, media_type, metadata=metadata)


def _read_resource(item: Json, notes: Json, place: str) -> Part | None:
    """Read a resource: its text, or a file with its data."""
    where = f"{place}.resource"
    inner, snake = respelled(expect_object(item.get("resource"), where), _SPELLINGS, where)
    notes |= {"type": "resource", "inner_snake": snake, "extra": unknown_keys(item, _RESOURCE, _RESOURCE)}
    text = maybe_text(inner, "text", where)
    if text is not None:
        notes["inner"] = {key: value for key, value in inner.items() if key != "text"}
        return TextPart(text, with_notes(FORMAT, notes))
    uri, media_type, blob = (maybe_text(inner, key, where) for key in ("uri", "mimeType", "blob"))
    notes["inner"] = unknown_keys(inner, _CONTENTS)
    return FilePart(blob, uri, None, media_type, None, with_notes(FORMAT, notes))


def _read_link(item: Json, notes: Json, place: str) -> Part | None:
    uri, name, media_type = (maybe_text(item, key, place) for key in ("uri", "name", "mimeType"))
    notes |= {"type": "resource_link", "extra": unknown_keys(item, _LINK)}
    return FilePart(None, uri, None, media_type, name, with_notes(FORMAT, notes))


def _read_call(item: Json, notes: Json, place: str) -> Part | None:
    notes["input"] = "absent" if "input" not in item else None if is_object(item["input"]) else "bare"
    notes["extra"] = unknown_keys(item, _CALL, {"input"})
    call_id, name = (expect_text(item, key, place) for key in ("id", "name"))
    return ToolPart(call_id, name, item.get("input", EMPTY), metadata=with_notes(FORMAT, notes))


def _read_result(item: Json, notes: Json, place: str) -> Part | None:
    """Read a result, in a block or by itself. Structured content is kept beside the blocks."""
    flag = item.get("isError")
    if flag is not None and not isinstance(flag, bool):
        raise type_error(flag, f"{place}.isError", "a bool")
    content = item.get("content")
    if content is not None:
        expect_array(content, f"{place}.content", "a list of blocks")
    structured = item.get("structuredContent")
    said = content if structured is None else {"content": content, "structuredContent": structured}
    state, result, error = read_outcome(said, failed=flag is True)
    notes["structured"] = True if structured is not None else None
    notes["content"] = "absent" if "content" not in item else None
    notes["blocks"] = True if content is not None else None
    notes["flag"] = False if flag is False else None
    notes["bare"] = True if "type" not in item else None
    notes["extra"] = unknown_keys(item, _RESULT, {"isError", "content"} if flag is not None else {"content"})
    call_id = maybe_text(item, "toolUseId", place) or ""
    metadata = with_notes(FORMAT, {"result": without_empty(notes)})
    return ToolPart(call_id, "", EMPTY, state, result, error, metadata)


_READERS: dict[str, Callable[[Json, Json, str], Part | None]] = {
    "text": _read_text,
    "image": _read_media,
    "audio": _read_media,
    "resource": _read_resource,
    "resource_link": _read_link,
    "tool_use": _read_call,
    "tool_result": _read_result,
}


def write_part(part: Part) -> Json:
    """Return the block for a part; for a tool's part, that of its call."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        return spelled_back(_write_text(part, notes), _SPELLINGS, notes.get("snake"))
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return spelled_back(_write_media(part, notes), _SPELLINGS, notes.get("snake"))
    if isinstance(part, ToolPart):
        body: Json = {"type": "tool_use", "id": part.call_id, "name": part.name}
        if notes.get("input") != "absent" or part.arguments != {}:
            arguments = thaw(part.arguments)
            body["input"] = arguments if notes or is_object(arguments) else {"input": arguments}
        return with_unknown_keys(body, notes, _CALL)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _write_text(part: TextPart, notes: Json) -> Json:
    if notes.get("type") != "resource":
        return with_unknown_keys({"type": "text", "text": part.text}, notes, _TEXT)
    inner = with_unknown_keys({"text": part.text}, notes, {"text"}, "inner")
    inner = spelled_back(inner, _SPELLINGS, notes.get("inner_snake"))
    return with_unknown_keys({"type": "resource", "resource": inner}, notes, _RESOURCE)


def _write_media(part: ImagePart | AudioPart | FilePart, notes: Json) -> Json:
    found = split_data_url(part.url) if part.url is not None and not notes else None
    data, url = (part.data, part.url) if found is None else (found[1], None)
    media_type = media_type_of(part) or None
    if not isinstance(part, FilePart) and url is None:
        kind = "image" if isinstance(part, ImagePart) else "audio"
        usual = None if notes else f"{kind}/{'png' if kind == 'image' else 'wav'}"
        given = {"data": data, "mimeType": media_type or usual}
        return with_unknown_keys({"type": kind, **_present(given)}, notes, _MEDIA)
    name = part.name if isinstance(part, FilePart) else None
    if data is None and notes.get("type") != "resource":
        given = {"uri": url, "name": name if name is not None or notes else "file", "mimeType": media_type}
        return with_unknown_keys({"type": "resource_link", **_present(given)}, notes, _LINK)
    own = notes.get("type") == "resource"
    uri = url if url is not None or own else f"file:///{name or 'file'}"
    inner = with_unknown_keys(_present({"uri": uri, "blob": data, "mimeType": media_type}), notes, _CONTENTS, "inner")
    inner = spelled_back(inner, _SPELLINGS, notes.get("inner_snake"))
    return with_unknown_keys({"type": "resource", "resource": inner}, notes, _RESOURCE)


def _present(given: Json) -> Json:
    return {key: value for key, value in given.items() if value is not None}


def write_result(part: ToolPart) -> Json:
    """Return the block of a result, or the result by itself if it was read so."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    said = write_outcome(part, own=bool(notes))
    body: Json = {} if notes.get("bare") else {"type": "tool_result"}
    if part.call_id and not notes.get("bare"):
        body["toolUseId"] = part.call_id
    if notes.get("structured") and is_object(said) and said.keys() <= _BOTH:
        body |= said
    elif is_array(said) and notes.get("blocks"):
        body["content"] = list(said)
    elif said is not None or notes.get("content") != "absent":
        body["content"] = [] if said is None else [{"type": "text", "text": result_text(part)}]
        if not isinstance(said, str) and is_object(said) and not notes:
            body["structuredContent"] = said
    if notes.get("content") == "absent" and body.get("content") is None:
        body.pop("content", None)
    if part.state == "error":
        body["isError"] = True
    elif isinstance(notes.get("flag"), bool):
        body["isError"] = notes["flag"]
    return spelled_back(with_unknown_keys(body, notes, _RESULT), _SPELLINGS, notes.get("snake"))


# Messages


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a prompt or of sampling, or those of results of tools.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(read_each(items, place, start, _read_item))


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a message or a result")
    if "role" in item:
        return _read_message(item, place)
    if "messages" in item:
        raise MessageError(place, "expected a message or a result, not a whole prompt; pass its messages")
    found, snake = respelled(item, _SPELLINGS, place)
    if "content" not in found or "type" in found:
        raise MessageError(place, "expected a message with a role, or a result with content")
    part = _read_result(found, {"snake": snake}, place)
    return [Message("tool", () if part is None else (part,), metadata=with_notes(FORMAT, {"role": "result"}))]


def _read_message(item: Json, place: str) -> Iterable[Message]:
    role = expect_role(item, place, _ROLES)
    content = item.get("content")
    where = f"{place}.content"
    parts = [read_part(content, where)] if is_object(content) else []
    if content is not None and not is_object(content):
        items = expect_array(content, where, "an object with a type, or a list of such")
        parts = [read_part(block, f"{where}[{index}]") for index, block in enumerate(items)]
    notes: Json = {
        "content": "list" if is_array(content) else None if "content" in item else "absent",
        "extra": unknown_keys(item, _KEYS, {"role"} if content is None else _KEYS),
    }
    refuse_without_content(item, place, parts, notes["extra"])
    return [Message(_role(role, parts, place), tuple(parts), metadata=with_notes(FORMAT, notes))]


def _role(role: str, parts: Sequence[Part], place: str) -> Role:
    """Return the role of a message: ``tool`` for a user's that holds results, as the protocol wants, alone."""
    results = sum(is_finished(part) for part in parts)
    if role == "assistant" or not results:
        return "assistant" if role == "assistant" else "user"
    if results < len(parts):
        raise MessageError(
            f"{place}.content", "expected results of tools or other content, not both; split the message"
        )
    return "tool"


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as those of a prompt: each part in a message of its own, unless they were a list before.

    System messages become those of a user: the protocol has no other role that speaks for them.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


_LEFT_OUT = (ReasoningPart, SourcePart, DataPart, StepStartPart)


def _write_message(message: Message) -> Iterator[Json]:
    notes = notes_of(message, FORMAT)
    parts = [part for part in message.parts if not isinstance(part, _LEFT_OUT)]
    role = "assistant" if message.role == "assistant" else "user"
    blocks = [(said_by, block) for part in parts for said_by, block in _write_blocks(part, role)]
    if notes.get("content") == "list" or (notes and not parts):
        extra = notes.get("extra")
        is_open = notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
        body: Json = {} if not blocks and is_open else {"content": [block for _, block in blocks]}
        yield with_unknown_keys({"role": role, **body}, notes, _KEYS)
        return
    for said_by, block in blocks:
        yield block if "type" not in block else with_unknown_keys({"role": said_by, "content": block}, notes, _KEYS)
        notes = {}


def _write_blocks(part: Part, role: str) -> Iterator[tuple[str, Json]]:
    """Yield the blocks of a part, each with the role that says it: results are the user's."""
    if not isinstance(part, ToolPart) or not is_finished(part):
        yield role, write_part(part)
        return
    if role == "assistant":
        yield role, write_part(part)
    yield "user", write_result(part)
