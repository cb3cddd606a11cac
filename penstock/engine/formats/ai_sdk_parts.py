"""Parts of UI and stored messages, which have a history in common; it knows no message around them.

Files, sources and reasoning exist in an older shape (``mimeType`` and ``data``) and a newer one (``mediaType`` and
``url``). Both are read in both formats and written as they were read; what comes from elsewhere is written in the
shape that the format uses today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._media import as_url, has_scheme
from penstock.engine.formats._notes import notes_of, restored
from penstock.engine.formats._sdk_reasoning import read_reasoning, write_reasoning
from penstock.engine.formats._sdk_tools import read_tool, write_tool
from penstock.engine.formats.ai_sdk_notes import STORED, read_metadata, read_unknown, write_metadata, write_unknown
from penstock.engine.formats.wire import Json, Value, expect_object, expect_text, maybe_text
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.messages import Part

_MODEL_PARTS = ("tool-call", "tool-result", "tool-error")
"""Parts of the AI SDK's model messages, which look like the call of a tool named so, but have no state."""

_OLD = frozenset({"type", "mimeType", "data"})
_NEW = frozenset({"type", "mediaType", "url"})
_OF_SOUND = frozenset({"transcript"})
_OF_FILE = frozenset({"filename", "fileId"})
_IMAGE = frozenset({"type", "image", "mimeType"})
_SOURCE = frozenset({"id", "url", "title", "sourceType"})
_NEW_SOURCE = frozenset({"type", "sourceId", "url", "title"})


def read_part(value: Value, place: str, fmt: str) -> Part:
    """Return the part.

    Raises:
        MessageError: it is malformed.
    """
    item = expect_object(value, place, "an object with a type")
    kind = expect_text(item, "type", place)
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(item, place, fmt)
    if kind.startswith("data-"):
        return _read_data(item, place, fmt)
    if kind in _MODEL_PARTS and "state" not in item:
        return read_unknown(item)
    is_tool = kind == "dynamic-tool" or (
        kind.startswith("tool-") and ("toolCallId" in item or kind == "tool-invocation")
    )
    return read_tool(item, place, fmt) if is_tool else read_unknown(item)


def _read_text(item: Json, place: str, fmt: str) -> Part:
    return TextPart(expect_text(item, "text", place), read_metadata(item, fmt, {"type", "text"}))


def _read_step_start(item: Json, _place: str, fmt: str) -> Part:
    return StepStartPart(read_metadata(item, fmt, {"type"}))


def _read_data(item: Json, _place: str, fmt: str) -> Part:
    notes = {"data": None if "data" in item else "absent"}
    metadata = read_metadata(item, fmt, {"type", "data"}, notes)
    return DataPart(item["type"].removeprefix("data-"), item.get("data"), metadata)


def _read_image(item: Json, place: str, fmt: str) -> Part:
    image = item.get("image")
    if not isinstance(image, str):
        return UnknownPart(item)
    url, data = (image, None) if has_scheme(image) else (None, image)
    return ImagePart(
        url, data, maybe_text(item, "mimeType", place), read_metadata(item, fmt, _IMAGE, {"shape": "image"})
    )


def _read_file(item: Json, place: str, fmt: str) -> Part:
    old = "data" in item or ("mimeType" in item and "url" not in item)
    content = item.get("data" if old else "url")
    if content is not None and not isinstance(content, str):
        return UnknownPart(item)
    media_type = maybe_text(item, "mimeType" if old else "mediaType", place)
    name, file_id, transcript = (maybe_text(item, key, place) for key in ("filename", "fileId", "transcript"))
    fields = (_OLD if old else _NEW) | (_OF_FILE if transcript is None else _OF_SOUND)
    rest = {key: value for key, value in item.items() if key not in fields or value is None}
    notes = {"shape": "old" if old else "new", "type": None if media_type is not None else "absent"}
    metadata = read_metadata(rest, fmt, (), notes)
    is_data = old and content is not None and not has_scheme(content)
    url, data = (None, content) if is_data else (content, None)
    if transcript is not None:
        return AudioPart(data, url, media_type, transcript, metadata)
    return FilePart(data, url, file_id, media_type, name, metadata)


def _read_old_source(item: Json, place: str, fmt: str) -> Part:
    source = expect_object(item.get("source"), f"{place}.source")
    given = source.get("sourceType")
    odd = None if given == "url" else given if isinstance(given, str) else "absent"
    rest = {key: value for key, value in source.items() if key not in _SOURCE or value is None}
    notes = {"shape": "old", "sourceType": odd, "inner": rest}
    metadata = read_metadata(item, fmt, {"type", "source"}, notes)
    source_id, url, title = (maybe_text(source, key, f"{place}.source") for key in ("id", "url", "title"))
    return SourcePart(source_id, url, title, metadata)


def _read_source(item: Json, place: str, fmt: str) -> Part:
    rest = {key: value for key, value in item.items() if key not in _NEW_SOURCE or (value is None and key != "type")}
    metadata = read_metadata(rest, fmt, (), {"shape": item["type"]})
    source_id, url, title = (maybe_text(item, key, place) for key in ("sourceId", "url", "title"))
    return SourcePart(source_id, url, title, metadata)


_READERS: dict[str, Callable[[Json, str, str], Part]] = {
    "text": _read_text,
    "reasoning": read_reasoning,
    "step-start": _read_step_start,
    "image": _read_image,
    "file": _read_file,
    "source": _read_old_source,
    "source-url": _read_source,
    "source-document": _read_source,
}


def write_part(part: Part, fmt: str) -> Json:
    """Return the part as the format has it."""
    if isinstance(part, TextPart):
        return write_metadata({"type": "text", "text": part.text}, part, fmt, {"type", "text"})
    if isinstance(part, ReasoningPart):
        return write_reasoning(part, fmt)
    if isinstance(part, ToolPart):
        return write_tool(part, fmt, "invocation" if fmt == STORED else "named")
    if isinstance(part, SourcePart):
        return _write_source(part, fmt)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, fmt)
    if isinstance(part, DataPart):
        said = part.data is not None or notes_of(part, fmt).get("data") != "absent"
        body: Json = {"type": f"data-{part.name}", **({"data": thaw(part.data)} if said else {})}
        return write_metadata(body, part, fmt, {"type", "data"})
    if isinstance(part, StepStartPart):
        return write_metadata({"type": "step-start"}, part, fmt, {"type"})
    return write_unknown(part, fmt)


def _write_media(part: ImagePart | AudioPart | FilePart, fmt: str) -> Json:
    notes = notes_of(part, fmt)
    if isinstance(part, ImagePart) and (fmt == STORED or notes.get("shape") == "image"):
        body: Json = {"type": "image", "image": part.url if part.url is not None else part.data}
        if part.media_type is not None:
            body["mimeType"] = part.media_type
        return write_metadata(body, part, fmt, _IMAGE)
    old = fmt == STORED if notes.get("shape") not in ("old", "new") else notes["shape"] == "old"
    usual = _USUAL_TYPE[type(part)]
    body = {"type": "file", "mimeType" if old else "mediaType": usual if part.media_type is None else part.media_type}
    if part.media_type is None and notes.get("type") == "absent":
        del body["mimeType" if old else "mediaType"]
    content = part.data if old and part.data is not None else as_url(part, usual)
    if content is not None:
        body["data" if old else "url"] = content
    if isinstance(part, AudioPart) and part.transcript is not None:
        body["transcript"] = part.transcript
    if isinstance(part, FilePart):
        named = {"filename": part.name, "fileId": part.file_id}
        body.update((key, value) for key, value in named.items() if value is not None)
    own = _OF_SOUND if isinstance(part, AudioPart) else _OF_FILE
    return write_metadata(body, part, fmt, own | (_OLD if old else _NEW))


_USUAL_TYPE: dict[type[Part], str] = {
    ImagePart: "image/*",
    AudioPart: "audio/*",
    FilePart: "application/octet-stream",
}


def _write_source(part: SourcePart, fmt: str) -> Json:
    notes = notes_of(part, fmt)
    shape = notes.get("shape")
    if shape not in ("old", "source-url", "source-document"):
        shape = "old" if fmt == STORED else "source-url" if part.url is not None else "source-document"
    if shape == "old":
        said = {"id": part.id, "url": part.url, "title": part.title}
        source = {key: value for key, value in said.items() if value is not None}
        kind = notes.get("sourceType", "url")
        if kind != "absent":
            source["sourceType"] = kind if isinstance(kind, str) else "url"
        body: Json = {"type": "source", "source": restored(source, notes, _SOURCE, "inner")}
        return write_metadata(body, part, fmt, {"type", "source"})
    said = {"sourceId": part.id, "url": part.url, "title": part.title}
    body = {"type": shape, **{key: value for key, value in said.items() if value is not None}}
    if shape == "source-document" and not notes:
        body["mediaType"] = "application/octet-stream"
    return write_metadata(body, part, fmt, _NEW_SOURCE)
