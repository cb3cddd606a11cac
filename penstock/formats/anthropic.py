"""Read and write messages of Anthropic's Messages API.

Results of tools, which stand in a user's message, become a ``tool`` message; what stands beside them is a user message
of its own, and both are written as one message again. Tools that the provider runs itself stay in the assistant's
message, call and result apart. System messages are written with the role ``system``, where they stand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import FilePart, ImagePart, Message, ReasoningPart, TextPart, ToolPart, UnknownPart
from penstock.formats import blocks, parts as shared, wire
from penstock.formats.blocks import WireBlock, is_finished, with_unknown_keys
from penstock.formats.shape import notes_of, result_notes, with_result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.messages import Part
    from penstock.formats.blocks import Reader
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "TERMS", "read", "read_part", "write", "write_part"]

FORMAT = "anthropic"
LEAVES_OUT = frozenset({"audio", "source", "data", "step-start"})

_ROLES = ("user", "assistant", "system")
_KEYS = frozenset({"role", "id", "content"})
_BODY = frozenset({"system", "messages"})

_TEXT = WireBlock(FORMAT, TextPart, {"text": "text"}, head={"type": "text"})
_THINKING = WireBlock(FORMAT, ReasoningPart, {"thinking": "text"}, head={"type": "thinking"}, own=("signature",))
_UPLOAD_TYPE = {"type": "container_upload"}
_UPLOAD = WireBlock(FORMAT, FilePart, {"file_id": "file_id"}, head=_UPLOAD_TYPE, notes=_UPLOAD_TYPE)
_REDACTED = frozenset({"type", "data"})
_IMAGE = frozenset({"type", "source"})
_DOCUMENT = frozenset({"type", "source", "title"})
_SOURCE = frozenset({"type", "media_type", "data", "url", "file_id"})
_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})
_CALL = WireBlock(FORMAT, ToolPart, {"id": "call_id", "name": "name"}, head={"type": "tool_use"}, arguments="input")
_CALLS = {
    "tool_use": _CALL,
    **{kind: replace(_CALL, head={"type": kind}, notes={"type": kind}) for kind in ("server_tool_use", "mcp_tool_use")},
}
_RESULT_TYPE = "tool_result"
_SERVER_TOOLS = (
    *("code_execution", "bash_code_execution", "text_editor_code_execution"),
    *("mcp", "tool_search", "web_fetch", "web_search"),
)
TERMS = (*_CALLS, "container_upload", "document", "search_result", *(f"{n}_{_RESULT_TYPE}" for n in _SERVER_TOOLS))
"""The types of blocks that are noted."""


# Blocks


def read_part(value: Value, place: str) -> Part:
    """Return the part for a block.

    Raises:
        MessageError: it is malformed.
    """
    if wire.is_object(value) and "tool_use_id" in value and str(value.get("type")).endswith(_RESULT_TYPE):
        return _read_result(value, place)
    return blocks.read_block(value, place, _READERS)


def _read_redacted(item: Json, place: str) -> Part:
    """Read thinking that is encrypted, with a note under the name that the AI SDK gives it."""
    sealed = wire.expect_text(item, "data", place)
    extra = wire.unknown_keys(item, _REDACTED, {"data"})
    return ReasoningPart("", with_notes(FORMAT, {"redactedData": sealed, "extra": extra}))


def _read_media(item: Json, place: str) -> Part:
    where = f"{place}.source"
    source = wire.expect_object(item.get("source"), where, "an object with a type")
    kind, is_image = wire.expect_text(source, "type", where), item["type"] == "image"
    if not is_image and kind in ("text", "content"):
        return _read_text_document(item, source, kind)
    notes: Json = {
        "source": kind,
        "inner": wire.unknown_keys(source, _SOURCE),
        "extra": wire.unknown_keys(item, _IMAGE if is_image else _DOCUMENT, _IMAGE),
    }
    given = {key: wire.maybe_text(source, key, where) for key in ("data", "url", "media_type", "file_id")}
    if is_image and given["file_id"] is not None:
        notes["type"] = "image"
    name = None if is_image else wire.maybe_text(item, "title", place)
    return shared.media(
        kind=ImagePart if is_image else FilePart, name=name, metadata=with_notes(FORMAT, notes), **given
    )


def _read_text_document(item: Json, source: Json, kind: str) -> Part:
    """Return the text of a document; one with several texts or media stays as it is."""
    key = "data" if kind == "text" else "content"
    inner = {name: value for name, value in source.items() if name not in {"type", key}}
    return _read_only_text(item, source.get(key), "source", {"source": kind, "inner": inner})


def _read_search_result(item: Json, _place: str) -> Part:
    return _read_only_text(item, item.get("content"), "content", {})


def _read_only_text(item: Json, content: Value, key: str, notes: Json) -> Part:
    """Return the text of content that is a str or one text block, which is noted; other content stays as it is."""
    extra = wire.unknown_keys(item, {"type", key})
    notes = {**notes, "type": item["type"], "extra": extra}
    if isinstance(content, str):
        return TextPart(content, with_notes(FORMAT, notes))
    block: Value = content[0] if wire.is_array(content) and len(content) == 1 else None
    if not wire.is_object(block) or block.get("type") != "text" or not isinstance(block.get("text"), str):
        return UnknownPart(item)
    notes["block"] = [wire.unknown_keys(block, _TEXT.keys, _TEXT.keys)]
    return TextPart(block["text"], with_notes(FORMAT, notes))


def _read_result(item: Json, place: str) -> Part:
    kind, content = item["type"], item.get("content")
    if content is not None and not isinstance(content, (str, dict)):
        wire.expect_array(content, f"{place}.content", "a str or a list of blocks")
    flag = wire.maybe_flag(item, "is_error", place)
    state, result, error = shared.read_outcome(content, failed=flag is True)
    notes: Json = {
        "type": kind if kind != _RESULT_TYPE else None,
        "content": None if content is not None else "absent",
        "blocks": True if wire.is_array(content) else None,
        "flag": False if flag is False else None,
        "extra": wire.unknown_keys(item, _RESULT, {"is_error"} if flag is not None else ()),
    }
    call_id = wire.expect_text(item, "tool_use_id", place)
    return ToolPart(call_id, "", EMPTY, state, result, error, with_result_notes(FORMAT, notes))


_READERS: dict[str, Reader] = {
    "text": _TEXT.read,
    "thinking": _THINKING.read,
    "redacted_thinking": _read_redacted,
    "image": _read_media,
    "document": _read_media,
    "search_result": _read_search_result,
    "container_upload": _UPLOAD.read,
    **{kind: block.read for kind, block in _CALLS.items()},
}


def write_part(part: Part) -> Json:
    """Return the block for a part; for a tool's part, that of its call."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        return _write_text(part, notes)
    if isinstance(part, ReasoningPart):
        sealed = notes.get("redactedData")
        if sealed is None or part.text:
            return _THINKING.write(part, notes)
        return with_unknown_keys({"type": "redacted_thinking", "data": sealed}, notes, _REDACTED)
    if isinstance(part, (ImagePart, FilePart)):
        return _write_media(part, notes)
    if isinstance(part, ToolPart):
        return _CALLS.get(notes.get("type", ""), _CALL).write(part, notes)
    return blocks.raw_of(part)


def _write_text(part: TextPart, notes: WireShape) -> Json:
    kind, source = notes.get("type"), notes.get("source")
    said: Value = part.text
    if "block" in notes:
        block = (*notes["block"], None)[0]
        said = [{**(block if wire.is_object(block) else {}), "type": "text", "text": part.text}]
    if kind == "search_result":
        return with_unknown_keys({"type": kind, "content": said}, notes, {"type", "content"})
    if kind == "document" and source in ("text", "content"):
        key = "data" if source == "text" else "content"
        inner = with_unknown_keys({"type": source, key: said}, notes, {"type", key}, "inner")
        return with_unknown_keys({"type": kind, "source": inner}, notes, _IMAGE)
    return _TEXT.write(part, notes)


def _write_media(part: ImagePart | FilePart, notes: WireShape) -> Json:
    file_id = part.file_id if isinstance(part, FilePart) else None
    if notes.get("type") == "container_upload" and file_id is not None:
        return _UPLOAD.write(part, notes)
    is_image = isinstance(part, ImagePart) or notes.get("type") == "image" or _shows_image(part, notes)
    body: Json = {"type": "image" if is_image else "document", "source": _write_source(part, file_id, notes)}
    if isinstance(part, FilePart) and not is_image and part.name is not None:
        body["title"] = part.name
    return with_unknown_keys(body, notes, _IMAGE if is_image else _DOCUMENT)


def _shows_image(part: FilePart, notes: WireShape) -> bool:
    """Return whether a file from another format is a picture by its media type."""
    return shared.media_type_of(part).startswith("image/") and "source" not in notes and part.file_id is None


def _write_source(part: ImagePart | FilePart, file_id: str | None, notes: WireShape) -> Json:
    own = notes.get("source")
    data, url = shared.content_of(part, own=own is not None)
    media_type = part.media_type if url == part.url else shared.media_type_of(part)
    if own is None:
        usual = "image/png" if isinstance(part, ImagePart) else "application/pdf"
        media_type = None if data is None else usual if media_type is None else media_type
    kind = "base64" if data is not None else "url" if url is not None else "file"
    body = wire.without_none({"data": data, "media_type": media_type, "url": url, "file_id": file_id})
    return with_unknown_keys({**body, "type": kind if own is None else own}, notes, _SOURCE, "inner")


def write_result(part: ToolPart) -> Json:
    """Return the block of a result."""
    notes = result_notes(part, FORMAT)
    kind = notes.get("type", "")
    body: Json = {"type": kind if kind.endswith(_RESULT_TYPE) else _RESULT_TYPE, "tool_use_id": part.call_id}
    said = shared.write_outcome(part, own=bool(notes))
    if said is not None or notes.get("content") != "absent":
        fits = isinstance(said, str) or (said is not None and bool(notes))
        body["content"] = said if fits else shared.as_json(said)
    flag = part.state == "error" or notes.get("flag")
    if flag is not None:
        body["is_error"] = flag
    return with_unknown_keys(body, notes, _RESULT)


# Messages


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a message")
    if "role" in item or not ("messages" in item or "system" in item):
        yield from _read_message(item, place)
        return
    if not item.keys() <= _BODY:
        raise MessageError(place, "expected a message, or an object of system and messages only; leave out other keys")
    if "system" in item:
        parts = blocks.read_content(item["system"], f"{place}.system", read_part, "blocks")
        noted = blocks.content_notes({"content": item["system"]}, parts)
        yield Message("system", tuple(parts), metadata=with_notes(FORMAT, {"content": noted}))
    given = wire.expect_array(item.get("messages") or (), f"{place}.messages")
    yield from wire.read_each(given, f"{place}.messages", 0, _read_item)


read = wire.reader(_read_item)


def _read_message(item: Json, place: str) -> list[Message]:
    role = wire.expect_role(item, place, _ROLES)
    parts = blocks.read_content(item.get("content"), f"{place}.content", read_part, "blocks")
    message_id = wire.maybe_text(item, "id", place) or ""
    notes: Json = {
        "id": message_id or None,
        "content": blocks.content_notes(item, parts),
        "extra": wire.unknown_keys(item, _KEYS, {"role"}),
    }
    wire.refuse_without_content(item, place, parts, notes["extra"])
    if role == "assistant":
        parts = _alone(parts)
    message = Message(role, tuple(parts), id=message_id, metadata=with_notes(FORMAT, notes))  # type: ignore[arg-type]
    return blocks.split_results(message, FORMAT)


def _alone(parts: Iterable[Part]) -> list[Part]:
    """Return an assistant's parts, the results of tools that the provider ran noted as such and named."""
    names = {part.call_id: part.name for part in parts if isinstance(part, ToolPart) and not is_finished(part)}
    made: list[Part] = []
    for part in parts:
        if not isinstance(part, ToolPart) or not is_finished(part):
            made.append(part)
            continue
        result = result_notes(part, FORMAT)
        name = names.get(part.call_id) or result.get("type", "").removesuffix(_RESULT_TYPE).rstrip("_")
        made.append(replace(part, name=name, metadata=with_notes(FORMAT, {"alone": True, "result": result})))
    return made


def _write_message(message: Message) -> Iterator[tuple[Message, Json]]:
    turns = blocks.written_turns(message, FORMAT, LEAVES_OUT, _is_answered, write_part, write_result)
    for items, results, notes in turns:
        body: Json = {"role": "user" if message.role == "tool" else message.role}
        body |= {**blocks.own_id(notes), **blocks.write_content(items, notes)}
        yield message, with_unknown_keys(body, notes, _KEYS)
        if results:
            yield message, {"role": "user", "content": results}


write = blocks.turn_writer(_write_message, FORMAT, "content")


def _is_answered(part: Part) -> bool:
    """Return whether it is a call whose result stands in the user's next message."""
    notes = notes_of(part, FORMAT)
    return is_finished(part) and not notes.get("alone") and "type" not in result_notes(part, FORMAT)
