"""Read and write messages of the Model Context Protocol: those of prompts and of sampling, and results of tools.

A message holds one block of content, or, in sampling, a list of them. The result of a tool call, which names neither
its call nor its tool, becomes a ``tool`` message with a result without an id. Keys are read in camelCase, as on the
wire, and in snake_case, as Python's classes have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, Message, TextPart, ToolPart, UnknownPart
from penstock.formats import blocks, parts as shared, wire
from penstock.formats.blocks import WireBlock, is_finished, was_empty, with_unknown_keys
from penstock.formats.shape import notes_of, result_notes, with_result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "mcp"
LEAVES_OUT = frozenset({"reasoning", "source", "data", "step-start"})

_ROLES = ("user", "assistant")
_KEYS = frozenset({"role", "content"})
_SPELLINGS = {
    "mime_type": "mimeType",
    "tool_use_id": "toolUseId",
    "structured_content": "structuredContent",
    "is_error": "isError",
}
_TEXT = WireBlock(FORMAT, TextPart, {"text": "text"}, head={"type": "text"})
_LINK = WireBlock(
    FORMAT,
    FilePart,
    {},
    {"uri": "url", "name": "name", "mimeType": "media_type"},
    {"type": "resource_link"},
    {"type": "resource_link"},
)
_CALL = WireBlock(FORMAT, ToolPart, {"id": "call_id", "name": "name"}, head={"type": "tool_use"}, arguments="input")
_MEDIA = frozenset({"type", "data", "mimeType"})
_RESOURCE = frozenset({"type", "resource"})
_CONTENTS = frozenset({"uri", "mimeType", "blob"})
_RESULT = frozenset({"type", "toolUseId", "content", "structuredContent", "isError"})
_BOTH = frozenset({"content", "structuredContent"})


# Blocks


def _read_part(value: Value, place: str) -> Part:
    item = wire.expect_object(value, place, "an object with a type")
    found, snake = wire.respelled(item, _SPELLINGS, place)
    reader = _READERS.get(wire.expect_text(item, "type", place))
    return UnknownPart(item) if reader is None else reader(found, place, {"snake": snake})


def _read_media(item: Json, place: str, notes: Json) -> Part:
    data, media_type = wire.maybe_text(item, "data", place), wire.maybe_text(item, "mimeType", place)
    notes |= {"mimeType": "absent" if media_type is None else None, "extra": wire.unknown_keys(item, _MEDIA)}
    kind = ImagePart if item["type"] == "image" else AudioPart
    return shared.media(kind=kind, data=data, media_type=media_type, metadata=with_notes(FORMAT, notes))


def _read_resource(item: Json, place: str, notes: Json) -> Part:
    """Read a resource: its text, or a file with its data."""
    where = f"{place}.resource"
    inner, snake = wire.respelled(wire.expect_object(item.get("resource"), where), _SPELLINGS, where)
    notes |= {"type": "resource", "inner_snake": snake, "extra": wire.unknown_keys(item, _RESOURCE, _RESOURCE)}
    text = wire.maybe_text(inner, "text", where)
    if text is not None:
        notes["inner"] = {key: value for key, value in inner.items() if key != "text"}
        return TextPart(text, with_notes(FORMAT, notes))
    uri, media_type, blob = (wire.maybe_text(inner, key, where) for key in ("uri", "mimeType", "blob"))
    notes["inner"] = wire.unknown_keys(inner, _CONTENTS)
    return FilePart(blob, uri, None, media_type, None, with_notes(FORMAT, notes))


def _read_result(item: Json, place: str, notes: Json) -> Part:
    """Read a result, in a block or by itself. Structured content is kept beside the blocks."""
    flag = wire.maybe_flag(item, "isError", place)
    content = item.get("content")
    if content is not None:
        wire.expect_array(content, f"{place}.content", "a list of blocks")
    structured = item.get("structuredContent")
    said = content if structured is None else {"content": content, "structuredContent": structured}
    state, result, error = shared.read_outcome(said, failed=flag is True)
    notes |= {
        "structured": True if structured is not None else None,
        "content": "absent" if "content" not in item else None,
        "blocks": True if content is not None else None,
        "flag": False if flag is False else None,
        "bare": True if "type" not in item else None,
        "extra": wire.unknown_keys(item, _RESULT, {"isError", "content"} if flag is not None else {"content"}),
    }
    call_id = wire.maybe_text(item, "toolUseId", place) or ""
    return ToolPart(call_id, "", EMPTY, state, result, error, with_result_notes(FORMAT, notes))


_READERS: dict[str, Callable[[Json, str, Json], Part]] = {
    "text": _TEXT.read,
    "image": _read_media,
    "audio": _read_media,
    "resource": _read_resource,
    "resource_link": _LINK.read,
    "tool_use": _CALL.read,
    "tool_result": _read_result,
}


def _write_part(part: Part) -> Json:
    notes = notes_of(part, FORMAT)
    if isinstance(part, ToolPart):
        return _CALL.write(part, notes)
    if isinstance(part, TextPart) and notes.get("type") == "resource":
        block = _in_resource({"text": part.text}, notes, {"text"})
    elif isinstance(part, TextPart):
        block = _TEXT.write(part, notes)
    elif isinstance(part, shared.MEDIA):
        block = _write_media(part, notes)
    else:
        return blocks.raw_of(part)
    return wire.spelled_back(block, _SPELLINGS, notes.get("snake"))


def _in_resource(body: Json, notes: WireShape, known: Collection[str]) -> Json:
    inner = with_unknown_keys(body, notes, known, "inner")
    inner = wire.spelled_back(inner, _SPELLINGS, notes.get("inner_snake"))
    return with_unknown_keys({"type": "resource", "resource": inner}, notes, _RESOURCE)


def _write_media(part: Media, notes: WireShape) -> Json:
    data, url = shared.content_of(part, own=bool(notes))
    media_type = shared.media_type_of(part) or None
    if not isinstance(part, FilePart) and url is None:
        usual = None if notes else shared.USUAL_TYPE[type(part)]
        given = {"type": part.type, **wire.without_none({"data": data, "mimeType": media_type or usual})}
        return with_unknown_keys(given, notes, _MEDIA)
    name, own = part.name if isinstance(part, FilePart) else None, notes.get("type") == "resource"
    if data is None and not own:
        return _LINK.write(part, notes, name=name if name is not None or notes else "file", media_type=media_type)
    uri = url if url is not None or own else f"file:///{name or 'file'}"
    return _in_resource(wire.without_none({"uri": uri, "blob": data, "mimeType": media_type}), notes, _CONTENTS)


def _write_result(part: ToolPart) -> Json:
    """Return the block of a result, or the result by itself if it was read so."""
    notes = result_notes(part, FORMAT)
    said = shared.write_outcome(part, own=bool(notes))
    body: Json = {} if notes.get("bare") else {"type": "tool_result"}
    if part.call_id and not notes.get("bare"):
        body["toolUseId"] = part.call_id
    if notes.get("structured") and wire.is_object(said) and said.keys() <= _BOTH:
        body |= said
    elif wire.is_array(said) and notes.get("blocks"):
        body["content"] = list(said)
    elif said is not None or notes.get("content") != "absent":
        body["content"] = [] if said is None else [{"type": "text", "text": shared.result_text(part)}]
        if wire.is_object(said) and not notes:
            body["structuredContent"] = said
    if notes.get("content") == "absent" and body.get("content") is None:
        body.pop("content", None)
    flag = part.state == "error" or notes.get("flag")
    if flag is not None:
        body["isError"] = flag
    return wire.spelled_back(with_unknown_keys(body, notes, _RESULT), _SPELLINGS, notes.get("snake"))


# Messages


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a message or a result")
    if "role" in item:
        return _read_message(item, place)
    if "messages" in item:
        raise MessageError(place, "expected a message or a result, not a whole prompt; pass its messages")
    found, snake = wire.respelled(item, _SPELLINGS, place)
    if "content" not in found or "type" in found:
        raise MessageError(place, "expected a message with a role, or a result with content")
    part = _read_result(found, place, {"snake": snake})
    return [Message("tool", (part,), metadata=with_notes(FORMAT, {"role": "result"}))]


read = wire.reader(_read_item)


def _read_message(item: Json, place: str) -> Iterable[Message]:
    role = wire.expect_role(item, place, _ROLES)
    content = item.get("content")
    where = f"{place}.content"
    if content is None:
        parts: list[Part] = []
    elif wire.is_object(content):
        parts = [_read_part(content, where)]
    else:
        parts = blocks.read_list(content, where, _read_part, "an object with a type, or a list of such")
    notes: Json = {
        "content": "list" if wire.is_array(content) else None if "content" in item else "absent",
        "extra": wire.unknown_keys(item, _KEYS, {"role"} if content is None else _KEYS),
    }
    wire.refuse_without_content(item, place, parts, notes["extra"])
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


def _write_message(message: Message) -> Iterator[Json]:
    notes: WireShape = notes_of(message, FORMAT)
    role = "assistant" if message.role == "assistant" else "user"
    found = [block for part in message.parts if part.type not in LEAVES_OUT for block in _write_blocks(part, role)]
    if notes.get("content") == "list" or (notes and not found):
        body: Json = {} if not found and was_empty(notes, "content") else {"content": [block for _, block in found]}
        yield with_unknown_keys({"role": role, **body}, notes, _KEYS)
        return
    for said_by, block in found:
        made: Value = block  # an unknown part may hold any JSON value
        is_result = wire.is_object(made) and "type" not in made  # by itself, as it was read
        yield block if is_result else with_unknown_keys({"role": said_by, "content": block}, notes, _KEYS)
        notes = {}


write = wire.writer(_write_message)


def _write_blocks(part: Part, role: str) -> Iterator[tuple[str, Json]]:
    """Yield the blocks of a part, each with the role that says it: results are the user's."""
    results = blocks.tools((part,))
    if not results or role == "assistant":
        yield role, _write_part(part)
    yield from (("user", _write_result(result)) for result in results)
