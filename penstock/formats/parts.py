"""Read and write parts that several wire formats share: images, audio and files, and tool calls with their results."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, ToolPart
from penstock.formats.blocks import was_empty, with_unknown_keys
from penstock.formats.shape import notes_of
from penstock.formats.wire import expect_object, is_array, is_object, maybe_text, unknown_keys, with_notes, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.messages import Message, Part, ToolState
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value


_DATA_URL = re.compile(r"data:([a-zA-Z0-9.+/-]+);base64,([A-Za-z0-9+/=_-]*)", re.ASCII)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_BY_NAME = {"mp3": "audio/mpeg"}
_BY_TYPE = {media_type: name for name, media_type in _BY_NAME.items()}


def split_data_url(text: str) -> tuple[str | None, str] | None:
    """Return media type and base64 data of a ``data:`` URL; None for a text that could not be restored from them."""
    found = _DATA_URL.fullmatch(text)
    return None if found is None else (found[1], found[2])


def has_scheme(text: str) -> bool:
    """Return whether the text begins like a URL; base64 data cannot."""
    return _SCHEME.match(text) is not None


def as_url(part: ImagePart | AudioPart | FilePart, media_type: str) -> str | None:
    """Return the part's URL, made from its data if it has none; None if it has neither.

    ``media_type`` is used for data if the part has no media type.
    """
    if part.url is not None or part.data is None:
        return part.url
    return f"data:{part.media_type or media_type};base64,{part.data}"


def media_type_of(part: ImagePart | AudioPart | FilePart) -> str:
    """Return the part's media type, or that of its ``data:`` URL; empty if there is none."""
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
"""Parts that are shown or played rather than read."""

MEDIA = (ImagePart, AudioPart, FilePart)
"""Their classes."""

CLASSES: dict[str, type[Media]] = {"image": ImagePart, "audio": AudioPart}
"""The class for a family of media types; others are files."""

USUAL_TYPE: dict[type[Part], str] = {
    ImagePart: "image/png",
    AudioPart: "audio/wav",
    FilePart: "application/octet-stream",
}
"""The media type of a part that says none, where a format needs one."""


def media(
    *,
    kind: type[Media] | None = None,
    url: str | None = None,
    data: str | None = None,
    file_id: str | None = None,
    media_type: str | None = None,
    name: str | None = None,
    metadata: Json,
) -> Media:
    """Return an image, a sound or a file: of the given class, or by the media type. A provider's file is a file."""
    kind = kind or CLASSES.get((media_type or "").partition("/")[0], FilePart)
    if file_id is None and kind is ImagePart:
        return ImagePart(url, data, media_type, metadata)
    if file_id is None and kind is AudioPart:
        return AudioPart(data, url, media_type, metadata=metadata)
    return FilePart(data, url, file_id, media_type, name, metadata)


def content_of(part: Media, *, own: bool) -> tuple[str | None, str | None]:
    """Return a part's data and URL: for a ``data:`` URL from another format, the data that it holds."""
    found = split_data_url(part.url) if part.url is not None and not own else None
    return (part.data, part.url) if found is None else (found[1], None)


AUDIO_KEYS = frozenset({"data", "format", "url"})
FILE_KEYS = frozenset({"file_id", "file_data", "file_url", "filename"})


def read_image(url: str | None, metadata: Json) -> ImagePart:
    """Return the image at a URL; the media type is taken from a ``data:`` URL."""
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
    notes: Json = {"extra": extra, "inner": unknown_keys(inner, AUDIO_KEYS), "format": odd}
    return AudioPart(data, url, media_type, metadata=with_notes(fmt, notes))


def write_audio(part: Media, notes: WireShape) -> Json:
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
    return with_unknown_keys(body, notes, AUDIO_KEYS, "inner")


def read_file(item: Json, place: str, fmt: str, notes: Json) -> FilePart:
    """Return the file that an object with file_id, file_data, file_url and filename describes.

    Raises:
        MessageError: one of these is not a str.
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
        metadata=with_notes(fmt, notes),
    )


def write_file(part: FilePart, notes: WireShape, url_key: str) -> Json:
    """Return file_id, file_data, filename, and the file's URL under the given key; only those that exist."""
    body: Json = {"file_id": part.file_id, "filename": part.name}
    if part.data is not None:
        # Data without a type was no ``data:`` URL when it was read here, and must become one if it came from elsewhere.
        own = part.media_type is None and notes.get("type") == "file"
        body["file_data"] = part.data if own else f"data:{part.media_type or USUAL_TYPE[FilePart]};base64,{part.data}"
    if part.url is not None:
        body["file_url" if notes.get("file_url") or part.data is not None else url_key] = part.url
    return without_none(body)


def shown_as(part: Media, notes: WireShape) -> str:
    """Return how a part is shown: image, audio or file. A part that was not read as a file counts by its media type."""
    if isinstance(part, ImagePart):
        return "image"
    if isinstance(part, AudioPart):
        return "audio"
    if notes.get("type") != "file" and part.file_id is None:
        family = media_type_of(part).partition("/")[0]
        return family if family in {"image", "audio"} and (part.data or part.url) else "file"
    return "file"


_OPENAI = ("openai-chat", "openai-responses")
"""The names of OpenAI's formats, which share some words."""


def system_role(message: Message) -> str:
    """Return the role of a system message in OpenAI's formats: ``developer`` if it was that in one of them."""
    return "developer" if any(notes_of(message, fmt).get("role") == "developer" for fmt in _OPENAI) else "system"


def detail_elsewhere(part: Media, fmt: str) -> Json:
    """Return the ``detail`` in which an image is to be seen, if the other one of OpenAI's formats has noted one."""
    if not isinstance(part, ImagePart) or fmt in part.metadata:
        return {}
    for name in _OPENAI:
        for noted in notes_of(part, name).values():
            if is_object(noted) and isinstance(noted.get("detail"), str):
                return {"detail": noted["detail"]}
    return {}


_STYLES: dict[str, Json] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {"separators": (", ", ": "), "ensure_ascii": False},
    "compact-ascii": {"separators": (",", ":"), "ensure_ascii": True},
    "spaced-ascii": {"separators": (", ", ": "), "ensure_ascii": True},
    "indented": {"indent": 2, "ensure_ascii": False},
}
"""Common styles of JSON text. The style that was read is noted, so that the same text can be written."""


def read_arguments(value: Value) -> tuple[Value, str | None]:
    """Return a call's arguments, and the style in which they were written if it was not compact.

    A JSON object is parsed. Anything else (broken JSON, another JSON value, a repeated key) stays a str, so that
    nothing is lost. An empty str, which models send for "no arguments", becomes an empty object.
    """
    if not isinstance(value, str):
        return value, "bare"
    if not value:
        return EMPTY, "blank"
    try:
        found = json.loads(value, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return value, None
    if not is_object(found):
        return value, None
    return found, _style_of(found, value)


def _no_repeats(pairs: list[tuple[str, Value]]) -> Json:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a repeated key")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _style_of(found: Json, text: str) -> str | None:
    """Return the style in which the text was written; None for the compact one, or an unknown one."""
    for style, options in _STYLES.items():
        if json.dumps(found, **options) == text:
            return None if style == "compact" else style
    return None


def write_arguments(arguments: Value, style: Value) -> Value:
    """Return a call's arguments in wire form: a JSON str, unless they were received as an object."""
    if style == "bare":
        return thaw(arguments)
    if isinstance(arguments, str):
        return arguments
    if style == "blank" and arguments == {}:
        return ""
    return as_json(arguments, style)


def read_call_arguments(item: Json) -> tuple[Value, str | None]:
    """Return the arguments of a call that has them as JSON text, and their style; ``absent`` if there are none."""
    arguments, style = read_arguments(item.get("arguments", ""))
    return arguments, style if "arguments" in item else "absent"


def write_call_arguments(part: ToolPart, notes: WireShape) -> Json:
    """Return the arguments of a call as JSON text, in the style in which they were read; nothing if none were there."""
    style = notes.get("arguments")
    return {} if style == "absent" and part.arguments == {} else {"arguments": write_arguments(part.arguments, style)}


def as_json(value: Value, style: Value = "compact") -> str:
    """Return a JSON value as text.

    Raises:
        MessageError: it holds something that JSON does not have.
    """
    options = _STYLES.get(style) if isinstance(style, str) else None
    try:
        return json.dumps(thaw(value), **(options or _STYLES["compact"]))
    except (TypeError, ValueError) as error:
        raise MessageError("", "a tool's arguments and result must be JSON values to be written") from error


def result_text(part: ToolPart) -> str:
    """Return a tool's output as text: its error, its text, or its result as JSON."""
    if part.state == "error":
        return part.error or ""
    return part.result if isinstance(part.result, str) else as_json(part.result)


def write_output(part: ToolPart, notes: WireShape, key: str) -> Json:
    """Return a tool's output as text under a key, or as the list that it was; nothing if there was none."""
    if notes.get(key) == "parts" and is_array(part.result):
        return {key: thaw(part.result)}
    is_open = part.state != "error" and part.result is None and was_empty(notes, key)
    return {} if is_open else {key: result_text(part)}


def read_outcome(value: Value, *, failed: bool) -> tuple[ToolState, Value, str | None]:
    """Return state, result and error of a tool's output.

    An error that is no text is kept as the result too; the error is then the texts in it, line by line.
    """
    if not failed or value is None:
        return "error" if failed else "result", value, None
    return ("error", None, value) if isinstance(value, str) else ("error", value, "\n".join(_texts_in(value)))


def _texts_in(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if is_object(value) else value if is_array(value) else ():
        yield from _texts_in(item)


def write_outcome(part: ToolPart, *, own: bool) -> Value:
    """Return a tool's output; None if it has none.

    ``own``: whether it was read in the format itself. An error that was no text is then written as what it was.
    """
    if part.state == "error" and (part.result is None or not own):
        return part.error
    return thaw(part.result)
