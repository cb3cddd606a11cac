"""Media as OpenAI's formats carry them: ``data:`` URLs and names of sound formats; it knows no message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
