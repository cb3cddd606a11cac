"""Read and write messages of Anthropic's Messages API.

Results of tools, which stand in a user's message, become a ``tool`` message; what stands beside them is a user message
of its own, and both are written as one message again. Tools that the provider runs itself stay in the assistant's
message, call and result apart. System messages are written with the role ``system``, where they stand.
"""

from __future__ import annotations

from dataclasses import replace
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
    as_json,
    is_finished,
    media_type_of,
    read_outcome,
    split_data_url,
    steps,
    write_outcome,
)
from penstock.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_array,
    expect_object,
    expect_role,
    expect_text,
    in_turns,
    is_array,
    is_object,
    maybe_text,
    named,
    notes_of,
    read_each,
    refuse_without_content,
    split_results,
    type_error,
    unknown_keys,
    with_notes,
    with_unknown_keys,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part


__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "anthropic"
LEAVES_OUT = frozenset({"audio", "source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_ROLES = ("user", "assistant", "system")
_KEYS = frozenset({"role", "id", "content"})
_BODY = frozenset({"system", "messages"})

_TEXT = frozenset({"type", "text"})
_THINKING = frozenset({"type", "thinking", "signature"})
_REDACTED = frozenset({"type", "data"})
_IMAGE = frozenset({"type", "source"})
_DOCUMENT = frozenset({"type", "source", "title"})
_SOURCE = frozenset({"type", "media_type", "data", "url", "file_id"})
_UPLOAD = frozenset({"type", "file_id"})
_CALL = frozenset({"type", "id", "name", "input"})
_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_RESULT_TYPE = "tool_result"


# Blocks


def read_part(value: Value, place: str) -> Part:
    """Return the part for a block.

    Raises:
        MessageError: it is malformed.
    """
    item = expect_object(value, place, "an object with a type")
    kind = expect_text(item, "type", place)
    if kind in _CALLS:
        return _read_call(item, place)
    if kind.endswith(_RESULT_TYPE) and "tool_use_id" in item:
        return _read_result(item, place)
    reader = _READERS.get(kind)
    return UnknownPart(item) if reader is None else reader(item, place)


def _read_text(item: Json, place: str) -> Part:
    return TextPart(expect_text(item, "text", place), with_notes(FORMAT, {"extra": unknown_keys(item, _TEXT, _TEXT)}))


def _read_thinking(item: Json, place: str) -> Part:
    notes: Json = {
        "signature": maybe_text(item, "signature", place) or None,
        "extra": unknown_keys(item, _THINKING, {"thinking"}),
    }
    return ReasoningPart(expect_text(item, "thinking", place), with_notes(FORMAT, notes))


def _read_redacted(item: Json, place: str) -> Part:
    """Read thinking that is encrypted, with a note under the name that the AI SDK gives it."""
    notes: Json = {"redactedData": expect_text(item, "data", place), "extra": unknown_keys(item, _REDACTED, {"data"})}
    return ReasoningPart("", with_notes(FORMAT, notes))


def _read_image(item: Json, place: str) -> Part:
    source, notes = _read_source(item, place)
    data, url, media_type = (maybe_text(source, key, f"{place}.source") for key in ("data", "url", "media_type"))
    file_id = maybe_text(source, "file_id", f"{place}.source")
    notes["extra"] = unknown_keys(item, _IMAGE, _IMAGE)
    if file_id is not None:
        return FilePart(data, url, file_id, media_type, None, with_notes(FORMAT, {**notes, "type": "image"}))
    return ImagePart(url, data, media_type, with_notes(FORMAT, notes))


def _read_document(item: Json, place: str) -> Part:
    source, notes = _read_source(item, place)
    if notes["source"] in ("text", "content"):
        return _read_text_document(item, source, notes)
    where = f"{place}.source"
    data, url, file_id, media_type = (
        maybe_text(source, key, where) for key in ("data", "url", "file_id", "media_type")
    )
    notes["extra"] = unknown_keys(item, _DOCUMENT, _IMAGE)
    return FilePart(data, url, file_id, media_type, maybe_text(item, "title", place), with_notes(FORMAT, notes))


def _read_source(item: Json, place: str) -> tuple[Json, Json]:
    """Return the source of an image or a document, and notes on its kind and its unknown keys."""
    source = expect_object(item.get("source"), f"{place}.source", "an object with a type")
    kind = expect_text(source, "type", f"{place}.source")
    return source, {"source": kind, "inner": unknown_keys(source, _SOURCE)}


def _read_text_document(item: Json, source: Json, notes: Json) -> Part:
    """Return the text of a document, or of a search result; one with several texts or media stays as it is."""
    key = "data" if notes["source"] == "text" else "content"
    text, blocks = _only_text(source.get(key))
    if text is None:
        return UnknownPart(item)
    inner = {name: value for name, value in source.items() if name not in {"type", key}}
    known = {"type", "source"}
    return TextPart(
        text,
        with_notes(
            FORMAT,
            {**notes, "type": item["type"], "inner": inner, "block": blocks, "extra": unknown_keys(item, known)},
        ),
    )


def _read_search_result(item: Json, _place: str) -> Part:
    text, block = _only_text(item.get("content"))
    if text is None:
        return UnknownPart(item)
    notes: Json = {"type": item["type"], "block": block, "extra": unknown_keys(item, {"type", "content"})}
    return TextPart(text, with_notes(FORMAT, notes))


def _only_text(content: Value) -> tuple[str | None, Value]:
    """Return content that is a str or one text block, and the block without its text; None for other content."""
    if isinstance(content, str):
        return content, None
    block: Value = content[0] if is_array(content) and len(content) == 1 else None
    if not is_object(block) or block.get("type") != "text" or not isinstance(block.get("text"), str):
        return None, None
    return block["text"], [unknown_keys(block, _TEXT, _TEXT)]


def _read_upload(item: Json, place: str) -> Part:
    notes: Json = {"type": item["type"], "extra": unknown_keys(item, _UPLOAD)}
    return FilePart(file_id=expect_text(item, "file_id", place), metadata=with_notes(FORMAT, notes))


_READERS: dict[str, Callable[[Json, str], Part]] = {
    "text": _read_text,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "image": _read_image,
    "document": _read_document,
    "search_result": _read_search_result,
    "container_upload": _read_upload,
}


def _read_call(item: Json, place: str) -> Part:
    kind = item["type"]
    notes: Json = {
        "type": kind if kind != _CALLS[0] else None,
        "input": "absent" if "input" not in item else None if is_object(item["input"]) else "bare",
        "extra": unknown_keys(item, _CALL, {"input"}),
    }
    call_id, name = (expect_text(item, key, place) for key in ("id", "name"))
    return ToolPart(call_id, name, item.get("input", EMPTY), metadata=with_notes(FORMAT, notes))


def _read_result(item: Json, place: str) -> Part:
    kind, content = item["type"], item.get("content")
    if content is not None and not isinstance(content, (str, dict)):
        expect_array(content, f"{place}.content", "a str or a list of blocks")
    flag = item.get("is_error")
    if flag is not None and not isinstance(flag, bool):
        raise type_error(flag, f"{place}.is_error", "a bool")
    state, result, error = read_outcome(content, failed=flag is True)
    notes: Json = {
        "type": kind if kind != _RESULT_TYPE else None,
        "content": None if content is not None else "absent",
        "blocks": True if is_array(content) else None,
        "flag": False if flag is False else None,
        "extra": unknown_keys(item, _RESULT, {"is_error"} if flag is not None else ()),
    }
    metadata = with_notes(FORMAT, {"result": without_empty(notes)})
    call_id = expect_text(item, "tool_use_id", place)
    return ToolPart(call_id, "", EMPTY, state, result, error, metadata)


def write_part(part: Part) -> Json:
    """Return the block for a part; for a tool's part, that of its call."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        return _write_text(part, notes)
    if isinstance(part, ReasoningPart):
        return _write_reasoning(part, notes)
    if isinstance(part, (ImagePart, FilePart)):
        return _write_media(part, notes)
    if isinstance(part, ToolPart):
        return _write_call(part, notes)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _write_text(part: TextPart, notes: Json) -> Json:
    kind = notes.get("type")
    block: Value = notes.get("block")
    said: Value = part.text
    if is_array(block):
        said = [{**(block[0] if block and is_object(block[0]) else {}), "type": "text", "text": part.text}]
    if kind == "search_result":
        return with_unknown_keys({"type": kind, "content": said}, notes, {"type", "content"})
    if kind == "document" and notes.get("source") in ("text", "content"):
        key = "data" if notes["source"] == "text" else "content"
        source = with_unknown_keys({"type": notes["source"], key: said}, notes, {"type", key}, "inner")
        return with_unknown_keys({"type": kind, "source": source}, notes, {"type", "source"})
    return with_unknown_keys({"type": "text", "text": part.text}, notes, _TEXT)


def _write_reasoning(part: ReasoningPart, notes: Json) -> Json:
    sealed, signature = notes.get("redactedData"), notes.get("signature")
    if isinstance(sealed, str) and not part.text:
        return with_unknown_keys({"type": "redacted_thinking", "data": sealed}, notes, _REDACTED)
    body: Json = {"type": "thinking", "thinking": part.text}
    if isinstance(signature, str):
        body["signature"] = signature
    return with_unknown_keys(body, notes, _THINKING)


def _write_media(part: ImagePart | FilePart, notes: Json) -> Json:
    if isinstance(part, FilePart) and notes.get("type") == "container_upload" and part.file_id is not None:
        return with_unknown_keys({"type": "container_upload", "file_id": part.file_id}, notes, _UPLOAD)
    is_image = isinstance(part, ImagePart) or notes.get("type") == "image" or _shows_image(part, notes)
    body: Json = {"type": "image" if is_image else "document", "source": _write_source(part, notes)}
    if isinstance(part, FilePart) and not is_image and part.name is not None:
        body["title"] = part.name
    return with_unknown_keys(body, notes, _IMAGE if is_image else _DOCUMENT)


def _shows_image(part: FilePart, notes: Json) -> bool:
    """Return whether a file from another format is a picture by its media type."""
    return media_type_of(part).startswith("image/") and "source" not in notes and part.file_id is None


def _write_source(part: ImagePart | FilePart, notes: Json) -> Json:
    own = isinstance(notes.get("source"), str)
    found = split_data_url(part.url) if part.url is not None and not own else None
    data, url, media_type = part.data, part.url, part.media_type
    if found is not None:
        data, url, media_type = found[1], None, found[0]
    if data is not None and media_type is None and not own:
        media_type = "image/png" if isinstance(part, ImagePart) else "application/pdf"
    file_id = part.file_id if isinstance(part, FilePart) else None
    given = {"data": data, "media_type": media_type if data is not None or own else None, "url": url}
    body: Json = {key: value for key, value in {**given, "file_id": file_id}.items() if value is not None}
    kind = "base64" if data is not None else "url" if url is not None else "file"
    return with_unknown_keys({**body, "type": notes["source"] if own else kind}, notes, _SOURCE, "inner")


def _write_call(part: ToolPart, notes: Json) -> Json:
    kind = notes.get("type")
    body: Json = {"type": kind if kind in _CALLS else _CALLS[0], "id": part.call_id, "name": part.name}
    if notes.get("input") != "absent" or part.arguments != {}:
        arguments = thaw(part.arguments)
        body["input"] = arguments if notes or is_object(arguments) else {"input": arguments}
    return with_unknown_keys(body, notes, _CALL)


def write_result(part: ToolPart) -> Json:
    """Return the block of a result."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    kind = notes.get("type")
    if not isinstance(kind, str) or not kind.endswith(_RESULT_TYPE):
        kind = _RESULT_TYPE
    body: Json = {"type": kind, "tool_use_id": part.call_id}
    said = write_outcome(part, own=bool(notes))
    if said is not None or notes.get("content") != "absent":
        fits = isinstance(said, str) or (said is not None and bool(notes))
        body["content"] = said if fits else as_json(said)
    if part.state == "error":
        body["is_error"] = True
    elif isinstance(notes.get("flag"), bool):
        body["is_error"] = notes["flag"]
    return with_unknown_keys(body, notes, _RESULT)


# Messages


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a request or an answer. An item may be a request's body, of ``system`` and ``messages``.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(read_each(items, place, start, _read_item))


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a message")
    if "role" in item or not ("messages" in item or "system" in item):
        yield from _read_message(item, place)
        return
    if not item.keys() <= _BODY:
        raise MessageError(place, "expected a message, or an object of system and messages only; leave out other keys")
    if "system" in item:
        parts = _read_content(item["system"], f"{place}.system")
        yield Message("system", tuple(parts), metadata=_shape(parts, item["system"]))
    given = expect_array(item.get("messages") or (), f"{place}.messages")
    yield from read_each(given, f"{place}.messages", 0, _read_item)


def _shape(parts: Sequence[Part], content: Value) -> Json:
    """Return the note on content that is a list though a str would do."""
    return with_notes(FORMAT, {"content": "parts" if parts and is_array(content) else None})


def _read_message(item: Json, place: str) -> list[Message]:
    role = expect_role(item, place, _ROLES)
    parts = _read_content(item.get("content"), f"{place}.content")
    message_id = maybe_text(item, "id", place) or ""
    notes: Json = {
        "id": message_id or None,
        "content": "absent" if "content" not in item else "parts" if parts and is_array(item["content"]) else None,
        "extra": unknown_keys(item, _KEYS, {"role"}),
    }
    refuse_without_content(item, place, parts, notes["extra"])
    if role == "assistant":
        parts = _alone(parts)
    message = Message(role, tuple(parts), id=message_id, metadata=with_notes(FORMAT, notes))  # type: ignore[arg-type]
    return split_results(message, FORMAT)


def _read_content(value: Value, place: str) -> list[Part]:
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [TextPart(value)]
    items = expect_array(value, place, "a str or a list of blocks")
    return [read_part(item, f"{place}[{index}]") for index, item in enumerate(items)]


def _alone(parts: Iterable[Part]) -> list[Part]:
    """Return an assistant's parts, the results of tools that the provider ran noted as such and named."""
    names = {part.call_id: part.name for part in parts if isinstance(part, ToolPart) and not is_finished(part)}
    made: list[Part] = []
    for part in parts:
        if not isinstance(part, ToolPart) or not is_finished(part):
            made.append(part)
            continue
        result = notes_of(part, FORMAT).get("result", {})
        name = names.get(part.call_id) or str(result.get("type", "")).removesuffix(_RESULT_TYPE).rstrip("_")
        made.append(replace(part, name=name, metadata=with_notes(FORMAT, {"alone": True, "result": result})))
    return made


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a request has them; system messages, which it may want apart, have the role ``system``.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    return in_turns((pair for message in messages for pair in _write_message(message)), FORMAT, "content")


_LEFT_OUT = (AudioPart, SourcePart, DataPart, StepStartPart)


def _write_message(message: Message) -> Iterator[tuple[Message, Json]]:
    notes = notes_of(message, FORMAT)
    cut = [list(message.parts)]
    if message.role == "assistant":
        cut = steps(message.parts, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)), _is_answered)
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            yield message, _write_step(message, parts, notes)
            notes = {}
        results = [write_result(part) for part in parts if isinstance(part, ToolPart) and _is_answered(part)]
        if results and message.role == "assistant":
            yield message, {"role": "user", "content": results}


def _is_answered(part: Part) -> bool:
    """Return whether it is a call whose result stands in the user's next message."""
    notes = notes_of(part, FORMAT)
    result = notes.get("result")
    is_own = bool(notes.get("alone")) or (is_object(result) and "type" in result)
    return is_finished(part) and not is_own


def _write_step(message: Message, parts: Sequence[Part], notes: Json) -> Json:
    body: Json = {"role": "user" if message.role == "tool" else message.role}
    if isinstance(notes.get("id"), str):
        body["id"] = notes["id"]
    blocks = [block for part in parts for block in _write_blocks(part, message.role)]
    extra = notes.get("extra")
    is_open = notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
    plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and notes.get("content") != "parts"
    if blocks or not is_open:
        body["content"] = "" if not blocks else blocks[0]["text"] if plain else blocks
    return with_unknown_keys(body, notes, _KEYS)


def _write_blocks(part: Part, role: str) -> list[Json]:
    """Return the blocks of a part: a tool that the provider ran has one for its call, and one for its result."""
    if not isinstance(part, ToolPart) or not is_finished(part):
        return [write_part(part)]
    if role != "assistant" or notes_of(part, FORMAT).get("alone"):
        return [write_result(part)]
    return [write_part(part)] if _is_answered(part) else [write_part(part), write_result(part)]
