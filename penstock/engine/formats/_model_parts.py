"""Texts, thoughts, images and files in the content of AI-SDK model messages; it knows no tools and no message.

``providerOptions`` of a part are its metadata. Both generations are read: ``mediaType`` today, ``mimeType`` before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._media import as_url, has_scheme
from penstock.engine.formats._notes import notes_of
from penstock.engine.formats.ai_sdk_notes import MODEL as FORMAT, OPTIONS, read_metadata, write_metadata
from penstock.engine.formats.wire import Json, Value, expect_text, maybe_text
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, ReasoningPart, TextPart, UnknownPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.messages import Part

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
    """Return URL, data, media type and metadata; None for content that is no text (bytes, an object)."""
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
"""What reads a part of the content, by its type."""


def write_content(part: Part) -> Json:
    """Return the content part for a text, a thought, an image, a sound, a file or an unknown part."""
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
