"""Images, sounds and files as both of OpenAI's formats hold them; it knows no parts around the nested objects."""

from __future__ import annotations

import re
from typing import TypeAlias

from penstock.engine.formats.wire import Json, Value, expect_object, kept, maybe_text, unknown
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart

_DATA_URL = re.compile(r"data:([a-zA-Z0-9.+/-]+);base64,([A-Za-z0-9+/=_-]*)", re.ASCII)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_BY_NAME = {"mp3": "audio/mpeg"}
_BY_TYPE = {media_type: name for name, media_type in _BY_NAME.items()}


def split_data_url(text: str) -> tuple[str | None, str] | None:
    """Return media type and base64 data of a ``data:`` URL, None if the text is none that can be put together again."""
    found = _DATA_URL.fullmatch(text)
    return None if found is None else (found[1], found[2])


def has_scheme(text: str) -> bool:
    """Whether the text begins like an URL; base64 data cannot."""
    return _SCHEME.match(text) is not None


def as_url(part: ImagePart | AudioPart | FilePart, media_type: str) -> str | None:
    """Return the part's URL, made from its data if need be (of that type, if it says none); None if it has neither."""
    if part.url is not None or part.data is None:
        return part.url
    return f"data:{part.media_type or media_type};base64,{part.data}"


def media_type_of(part: ImagePart | AudioPart | FilePart) -> str:
    """Return the media type: as said, or as its ``data:`` URL says; empty if neither does."""
    if part.media_type is not None:
        return part.media_type
    found = split_data_url(part.url) if part.url is not None else None
    return found[0] or "" if found is not None else ""


def audio_type(name: str) -> str:
    """Return the media type for a sound format's name (``mp3``)."""
    return _BY_NAME.get(name, f"audio/{name}")


def audio_name(media_type: str) -> str:
    """Return the sound format's name for a media type."""
    return _BY_TYPE.get(media_type, media_type.removeprefix("audio/"))


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
