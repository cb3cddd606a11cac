"""Content parts of OpenAI chat messages: text, refusal, image, sound, file, thinking; knows no message around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._copies import cut
from penstock.engine.formats._notes import array_in, kept, notes_of, restored, unknown
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
from penstock.engine.formats.wire import Json, Value, expect_array, expect_object, expect_text, is_object
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, ReasoningPart, TextPart, UnknownPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.messages import Part

FORMAT = "openai-chat"

_KEYS: dict[str, frozenset[str]] = {
    "text": frozenset({"type", "text"}),
    "refusal": frozenset({"type", "refusal"}),
    "image_url": frozenset({"type", "image_url"}),
    "input_audio": frozenset({"type", "input_audio"}),
    "file": frozenset({"type", "file"}),
    "thinking": frozenset({"type", "thinking"}),
}
_URL_KEYS = frozenset({"url"})


def read_content(value: Value, place: str) -> list[Part]:
    """Return the parts of a message's content: a str, a list of content parts, or null.

    Raises:
        MessageError: it is something else, or a part is malformed.
    """
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [TextPart(value)]
    items = expect_array(value, place, "a str or a list of content parts")
    return [_read_part(item, f"{place}[{index}]") for index, item in enumerate(items)]


def _read_part(item: Value, place: str) -> Part:
    part = expect_object(item, place, "an object with a type")
    kind = expect_text(part, "type", place)
    reader = _READERS.get(kind)
    return UnknownPart(part) if reader is None else reader(part, place)


def _extra(item: Json, kind: str) -> Json:
    return unknown(item, _KEYS[kind], _KEYS[kind])


def _read_text(item: Json, place: str) -> Part:
    return TextPart(expect_text(item, "text", place), kept(FORMAT, {"extra": _extra(item, "text")}))


def _read_refusal(item: Json, place: str) -> Part:
    notes: Json = {"type": "refusal", "extra": _extra(item, "refusal")}
    return TextPart(expect_text(item, "refusal", place), kept(FORMAT, notes))


def _read_image(item: Json, place: str) -> Part:
    notes: Json = {"extra": _extra(item, "image_url")}
    given = item.get("image_url")
    if isinstance(given, str):
        return read_image(given, kept(FORMAT, {**notes, "bare": True}))
    inner = expect_object(given, f"{place}.image_url", "an object with an url")
    notes["inner"] = unknown(inner, _URL_KEYS, _URL_KEYS)
    return read_image(expect_text(inner, "url", f"{place}.image_url"), kept(FORMAT, notes))


def _read_audio(item: Json, place: str) -> Part:
    return read_audio(item.get("input_audio"), f"{place}.input_audio", FORMAT, _extra(item, "input_audio"))


def _read_file(item: Json, place: str) -> Part:
    inner = expect_object(item.get("file"), f"{place}.file", "an object with a file_id or file_data")
    notes: Json = {"extra": _extra(item, "file"), "inner": unknown(inner, FILE_KEYS)}
    return read_file(inner, f"{place}.file", FORMAT, notes)


def _read_thinking(item: Json, place: str) -> Part:
    """Read what Mistral sends: reasoning among the content, in text parts of its own."""
    inner = expect_array(item.get("thinking"), f"{place}.thinking")
    if not inner or not all(is_object(piece) and isinstance(piece.get("text"), str) for piece in inner):
        return UnknownPart(item)
    notes: Json = {
        "type": "thinking",
        "extra": _extra(item, "thinking"),
        "pieces": [{key: value for key, value in piece.items() if key != "text"} for piece in inner],
        "lengths": [len(piece["text"]) for piece in inner],
    }
    return ReasoningPart("".join(piece["text"] for piece in inner), kept(FORMAT, notes))


def _write_thinking(part: ReasoningPart, notes: Json) -> Json:
    """Return the part, cut where it was cut if it still has the length that it had."""
    pieces: list[Value] = [piece for piece in array_in(notes, "pieces") if is_object(piece)] or [{"type": "text"}]
    texts = cut(part.text, array_in(notes, "lengths"), len(pieces))
    thinking = [{**piece, "text": text} for piece, text in zip(pieces, texts, strict=True)]
    return restored({"type": "thinking", "thinking": thinking}, notes, _KEYS["thinking"])


_READERS: dict[str, Callable[[Json, str], Part]] = {
    "text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
    "thinking": _read_thinking,
}


def write_part(part: Part) -> Json:
    """Return the content part for a text, a thought among the content, an image, a sound, a file or an unknown part."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        kind = "refusal" if notes.get("type") == "refusal" else "text"
        return restored({"type": kind, kind: part.text}, notes, _KEYS[kind])
    if isinstance(part, ReasoningPart):
        return _write_thinking(part, notes)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, notes)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _write_media(part: Media, notes: Json) -> Json:
    shown = shown_as(part, notes)
    if shown == "file" and isinstance(part, FilePart):
        inner: Value = restored(write_file(part, notes, "file_data"), notes, FILE_KEYS, "inner")
        return restored({"type": "file", "file": inner}, notes, _KEYS["file"])
    if shown == "audio":
        inner = restored(write_audio(part, notes), notes, AUDIO_KEYS, "inner")
        return restored({"type": "input_audio", "input_audio": inner}, notes, _KEYS["input_audio"])
    url = image_url(part)
    inner = restored({} if url is None else {"url": url}, notes, _URL_KEYS, "inner")
    image = url if notes.get("bare") else inner
    return restored({"type": "image_url", "image_url": image}, notes, _KEYS["image_url"])
