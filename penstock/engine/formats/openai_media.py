"""Images, sounds and files as both of OpenAI's formats hold them; it knows no parts around the nested objects."""

from __future__ import annotations

from typing import TypeAlias

from penstock.engine.formats._media import as_url, audio_name, audio_type, has_scheme, media_type_of, split_data_url
from penstock.engine.formats._notes import kept, unknown
from penstock.engine.formats.wire import Json, Value, expect_object, maybe_text
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart

Media: TypeAlias = ImagePart | AudioPart | FilePart
"""What is shown or played rather than read."""

AUDIO_KEYS = frozenset({"data", "format", "url"})
FILE_KEYS = frozenset({"file_id", "file_data", "file_url", "filename"})
_ANY_IMAGE = "image/png"
_ANY_FILE = "application/octet-stream"


def read_image(url: str | None, metadata: Json) -> ImagePart:
    """Return the image at an URL; the media type is taken from a ``data:`` URL."""
    found = split_data_url(url) if url is not None else None
    return ImagePart(url=url, media_type=found[0] if found is not None else None, metadata=metadata)


def read_audio(value: Value, place: str, fmt: str, extra: Json) -> AudioPart:
    """Return the sound of an ``input_audio`` object.

    Raises:
        MessageError: it is malformed.
    """
    inner = expect_object(value, place)
    data, url = maybe_text(inner, "data", place), maybe_text(inner, "url", place)
    name = maybe_text(inner, "format", place)
    media_type = None if name is None else audio_type(name)
    odd = name if media_type is not None and audio_name(media_type) != name else None
    notes: Json = {"extra": extra, "inner": unknown(inner, AUDIO_KEYS), "format": odd}
    return AudioPart(data, url, media_type, metadata=kept(fmt, notes))


def write_audio(part: Media, notes: Json) -> Json:
    """Return the ``input_audio`` object of a sound."""
    found = split_data_url(part.url) if part.url is not None else None
    body: Json = {}
    data = part.data if found is None else found[1]
    if data is not None:
        body["data"] = data
    if part.url is not None and found is None:
        body["url"] = part.url
    media_type = media_type_of(part)
    if media_type:
        odd = notes.get("format")
        body["format"] = odd if isinstance(odd, str) and audio_type(odd) == media_type else audio_name(media_type)
    return body


def read_file(item: Json, place: str, fmt: str, notes: Json) -> FilePart:
    """Return the file that an object with file_id, file_data, file_url and filename describes.

    Raises:
        MessageError: one of these is no str.
    """
    data, url = maybe_text(item, "file_data", place), maybe_text(item, "file_url", place)
    found = split_data_url(data) if data is not None else None
    notes = {**notes, "type": "file", "file_url": True if url is not None else None}
    if data is not None and found is None and url is None and has_scheme(data):
        data, url = None, data
    return FilePart(
        data=data if found is None else found[1],
        url=url,
        file_id=maybe_text(item, "file_id", place),
        media_type=None if found is None else found[0],
        name=maybe_text(item, "filename", place),
        metadata=kept(fmt, notes),
    )


def write_file(part: FilePart, notes: Json, url_key: str) -> Json:
    """Return file_id, file_data, filename and the file's URL under the given key, those that there are."""
    body: Json = {"file_id": part.file_id, "filename": part.name}
    if part.data is not None:
        # Data without a type was no ``data:`` URL when it was read here, and must become one if it came from elsewhere.
        own = part.media_type is None and notes.get("type") == "file"
        body["file_data"] = part.data if own else f"data:{part.media_type or _ANY_FILE};base64,{part.data}"
    if part.url is not None:
        body["file_url" if notes.get("file_url") or part.data is not None else url_key] = part.url
    return {key: value for key, value in body.items() if value is not None}


def image_url(part: Media) -> str | None:
    """Return an image as URL."""
    return as_url(part, _ANY_IMAGE)


def shown_as(part: Media, notes: Json) -> str:
    """Return as what a part is shown: image, audio or file; one not read as a file counts by its media type."""
    if isinstance(part, ImagePart):
        return "image"
    if isinstance(part, AudioPart):
        return "audio"
    if notes.get("type") != "file" and part.file_id is None:
        family = media_type_of(part).partition("/")[0]
        return family if family in {"image", "audio"} and (part.data or part.url) else "file"
    return "file"
