"""Content of OpenAI responses items: ``input_text``, ``output_text``, refusal, image, file, sound; knows no item."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._notes import kept, notes_of, restored, unknown
from penstock.engine.formats.openai_media import (
    AUDIO_KEYS,
    FILE_KEYS,
    Media,
    image_url,
    read_audio,
    read_file,
    read_image,
    shown_as,
    write_audio,
    write_file,
)
from penstock.engine.formats.wire import Json, Value, expect_array, expect_object, expect_text, maybe_text
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, TextPart, UnknownPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.messages import Part

FORMAT = "openai-responses"

_TEXTS = ("input_text", "output_text", "text", "refusal")
_IMAGE = frozenset({"type", "image_url"})
_FILE = FILE_KEYS | {"type"}
_AUDIO = frozenset({"type", "input_audio"})


def usual_text(role: str) -> str:
    """Return the type of a text in a message of that role."""
    return "output_text" if role == "assistant" else "input_text"


def read_content(value: Value, role: str, place: str) -> list[Part]:
    """Return the parts of an item's content: a str, a list of content parts, or null.

    Raises:
        MessageError: it is something else, or a part is malformed.
    """
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [TextPart(value)]
    items = expect_array(value, place, "a str or a list of content parts")
    return [_read_part(item, role, f"{place}[{index}]") for index, item in enumerate(items)]


def _read_part(value: Value, role: str, place: str) -> Part:
    item = expect_object(value, place, "an object with a type")
    kind = expect_text(item, "type", place)
    if kind in _TEXTS:
        key = "refusal" if kind == "refusal" else "text"
        notes: Json = {"type": kind if kind != usual_text(role) else None}
        notes["extra"] = unknown(item, {"type", key}, {"type", key})
        return TextPart(expect_text(item, key, place), kept(FORMAT, notes))
    reader = _MEDIA.get(kind)
    return UnknownPart(item) if reader is None else reader(item, place)


def _read_image(item: Json, place: str) -> Part:
    rest = unknown(item, _IMAGE, {"type"})
    return read_image(maybe_text(item, "image_url", place) or None, kept(FORMAT, {"extra": rest}))


def _read_file(item: Json, place: str) -> Part:
    return read_file(item, place, FORMAT, {"extra": unknown(item, _FILE, {"type"})})


def _read_audio(item: Json, place: str) -> Part:
    return read_audio(item.get("input_audio"), f"{place}.input_audio", FORMAT, unknown(item, _AUDIO, _AUDIO))


_MEDIA: dict[str, Callable[[Json, str], Part]] = {
    "input_image": _read_image,
    "input_file": _read_file,
    "input_audio": _read_audio,
}


def write_part(part: Part, role: str) -> Json:
    """Return the content part for a text, an image, a sound, a file or an unknown part."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        kind = notes["type"] if notes.get("type") in _TEXTS else usual_text(role)
        key = "refusal" if kind == "refusal" else "text"
        return restored({"type": kind, key: part.text}, notes, {"type", key})
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, notes)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _write_media(part: Media, notes: Json) -> Json:
    shown = shown_as(part, notes)
    if shown == "file" and isinstance(part, FilePart):
        return restored({"type": "input_file", **write_file(part, notes, "file_url")}, notes, _FILE)
    if shown == "audio":
        inner = restored(write_audio(part, notes), notes, AUDIO_KEYS, "inner")
        return restored({"type": "input_audio", "input_audio": inner}, notes, _AUDIO)
    url = image_url(part)
    return restored({"type": "input_image", **({} if url is None else {"image_url": url})}, notes, _IMAGE)
