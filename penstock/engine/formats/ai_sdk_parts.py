"""Parts of UI and stored messages, which have a history in common; it knows no message around them.

Files, sources and reasoning exist in an older shape (``mimeType`` and ``data``) and a newer one (``mediaType`` and
``url``). Both are read in both formats and written as they were read; what comes from elsewhere is written in the
shape that the format uses today.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.formats.ai_sdk_notes import (
    CALL_PROVIDER,
    PROVIDER,
    STORED,
    cut,
    read_metadata,
    read_unknown,
    write_metadata,
    write_unknown,
)
from penstock.engine.formats.openai_media import as_url, has_scheme
from penstock.engine.formats.wire import (
    Json,
    Value,
    array_in,
    expect_object,
    expect_text,
    is_array,
    is_object,
    kept,
    maybe_text,
    notes_of,
    restored,
    unknown,
)
from penstock.engine.values.frozen import EMPTY, FrozenDict, thaw
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
    from collections.abc import Callable, Mapping

    from penstock.engine.values.messages import Part, ToolState


_FIELDS = ("text", "reasoning")
_KEYS = frozenset({"type", "details", *_FIELDS})


def read_reasoning(item: Json, place: str, fmt: str) -> ReasoningPart:
    """Return the part.

    Raises:
        MessageError: it says no text at all.
    """
    fields = [key for key in _FIELDS if isinstance(item.get(key), str)]
    details: Value = item.get("details")
    pieces = [detail["text"] for detail in details if _is_piece(detail)] if is_array(details) else []
    if not fields and not is_array(details):
        expect_text(item, _FIELDS[0], place)
    said: list[str] = [item[key] for key in fields]
    copy = len(said) == 1 and bool(pieces) and "".join(pieces) == said[0]
    handled = {"type", *fields, *(("details",) if is_array(details) else ())}
    notes: Json = {
        "fields": fields if fields != ["text"] or fmt == STORED else None,
        "details": [_without_text(detail) for detail in details] if is_array(details) else None,
        "copy": True if copy else None,
        "lengths": [len(piece) for piece in (pieces if copy else [*said, *pieces])]
        if pieces or len(said) > 1
        else None,
    }
    rest = {key: value for key, value in item.items() if key not in handled}
    return ReasoningPart("".join(said if copy else [*said, *pieces]), read_metadata(rest, fmt, (), notes))


def _is_piece(detail: Value) -> bool:
    return is_object(detail) and isinstance(detail.get("text"), str)


def _without_text(detail: Value) -> Value:
    """Return what a detail says beside its text, wrapped so that it can be told from one that has none."""
    if not _is_piece(detail):
        return {"raw": detail}
    return {"piece": {key: value for key, value in detail.items() if key != "text"}}


def _raw(detail: Value) -> Value:
    """Return a noted detail; one that says a text was never noted by us."""
    return None if _is_piece(detail) else detail


def write_reasoning(part: ReasoningPart, fmt: str) -> Json:
    """Return the part in the shape that it was read in, else in the one that the format uses today."""
    notes = notes_of(part, fmt)
    if fmt == STORED and fmt not in part.metadata:
        notes = {"fields": ["reasoning"], "details": [{"piece": {"type": "text"}}], "copy": True, "lengths": []}
    given: Value = notes.get("fields")
    fields = [key for key in _FIELDS if key in given] if is_array(given) else ["text"]
    details = [detail for detail in array_in(notes, "details") if is_object(detail)]
    count = sum("piece" in detail for detail in details)
    copy = bool(notes.get("copy"))
    texts = cut(part.text, array_in(notes, "lengths"), count + (0 if copy else len(fields)))
    body: Json = {"type": "reasoning"}
    for key in fields:
        body[key] = part.text if copy or not texts else texts.pop(0)
    if "details" in notes:
        body["details"] = [
            {**detail["piece"], "text": texts.pop(0)} if is_object(detail.get("piece")) else _raw(detail.get("raw"))
            for detail in details
        ]
    return write_metadata(body, part, fmt, _KEYS)


@dataclass(frozen=True)
class Words:
    """What a shape calls arguments and result, and the states; of several words for a state the first is usual."""

    arguments: str
    result: str
    states: Mapping[str, ToolState]

    @property
    def keys(self) -> frozenset[str]:
        """The keys that the shape gives a meaning."""
        return frozenset({"toolCallId", "state", "errorText", self.arguments, self.result})

    def word(self, state: ToolState) -> str:
        """Return the usual word for a state."""
        return next(word for word, meant in self.states.items() if meant == state)


INVOCATION = Words(
    "args", "result", {"partial-call": "partial", "call": "call", "result": "result", "output-error": "error"}
)
UI = Words(
    "input",
    "output",
    {
        "input-streaming": "partial",
        "input-available": "call",
        "output-available": "result",
        "output-error": "error",
        "approval-requested": "call",
        "approval-responded": "call",
        "output-denied": "error",
    },
)
_PREFIX = "tool-"


def read_tool(item: Json, place: str, fmt: str) -> ToolPart:
    """Return the part for any of the three shapes.

    Raises:
        MessageError: it is malformed.
    """
    kind = item["type"]
    if kind == "tool-invocation" and "toolCallId" not in item:
        invocation = expect_object(item.get("toolInvocation"), f"{place}.toolInvocation")
        part = read_invocation(invocation, f"{place}.toolInvocation", fmt)
        metadata = read_metadata(item, fmt, {"type", "toolInvocation"}, {"shape": "invocation"})
        return _with_notes(part, metadata, fmt)
    dynamic = kind == "dynamic-tool"
    name = expect_text(item, "toolName", place) if dynamic else kind.removeprefix(_PREFIX)
    known = UI.keys | {"type", "toolName"} if dynamic else UI.keys | {"type"}
    part = _read_call(item, place, UI, name, fmt)
    notes: Json = {"shape": "dynamic" if dynamic else "named"}
    return _with_notes(part, read_metadata(item, fmt, known, notes, CALL_PROVIDER), fmt)


def _with_notes(part: ToolPart, metadata: Json, fmt: str) -> ToolPart:
    """Return the part with the metadata, the notes of both laid together."""
    notes = {**notes_of(part, fmt), **metadata.get(fmt, {})}
    return replace(part, metadata=kept(fmt, notes, {**metadata}))


def read_invocation(body: Json, place: str, fmt: str) -> ToolPart:
    """Return the part for a ``toolInvocation`` object, its unknown keys noted as the inner ones.

    Raises:
        MessageError: it is malformed.
    """
    part = _read_call(body, place, INVOCATION, expect_text(body, "toolName", place), fmt)
    known = INVOCATION.keys | {"toolName"}
    return replace(part, metadata=kept(fmt, {**notes_of(part, fmt), "inner": unknown(body, known, known)}))


def _read_call(body: Json, place: str, words: Words, name: str, fmt: str) -> ToolPart:
    said = expect_text(body, "state", place)
    state = words.states.get(said, "call")
    error = maybe_text(body, "errorText", place)
    result = body.get(words.result)
    notes = {
        "state": said if said != words.word(state) else None,
        "arguments": None if words.arguments in body else "absent",
        "result": _oddity(body, words.result, state),
        "error": "null" if error is None and "errorText" in body else None,
    }
    return ToolPart(
        expect_text(body, "toolCallId", place),
        name,
        body.get(words.arguments, EMPTY),
        state,
        result,
        error,
        kept(fmt, notes),
    )


def _oddity(body: Json, key: str, state: ToolState) -> str | None:
    """Return a note if a result is missing where one is due, or null where none is."""
    if body.get(key) is not None or (key in body) == (state == "result"):
        return None
    return "null" if key in body else "absent"


def write_tool(part: ToolPart, fmt: str, usual: str) -> Json:
    """Return the part in the shape that it was read in, else in the usual one: invocation, named or dynamic."""
    shape = notes_of(part, fmt).get("shape")
    if shape not in ("invocation", "named", "dynamic"):
        shape = usual
    if shape == "invocation":
        body: Json = {"type": "tool-invocation", "toolInvocation": write_invocation(part, fmt)}
        return write_metadata(body, part, fmt, {"type", "toolInvocation"}, PROVIDER)
    kind: Json = {"type": f"{_PREFIX}{part.name}"}
    if shape == "dynamic":
        kind = {"type": "dynamic-tool", "toolName": part.name}
    body = {**kind, **_write_call(part, UI, notes_of(part, fmt))}
    return write_metadata(body, part, fmt, UI.keys | {"type", *kind}, CALL_PROVIDER)


def write_invocation(part: ToolPart, fmt: str) -> Json:
    """Return the ``toolInvocation`` object."""
    notes = notes_of(part, fmt)
    body: Json = {"toolName": part.name, **_write_call(part, INVOCATION, notes)}
    return restored(body, notes, INVOCATION.keys | {"toolName"}, "inner")


def _write_call(part: ToolPart, words: Words, notes: Json) -> Json:
    said = notes.get("state")
    known = isinstance(said, str) and words.states.get(said, "call") == part.state
    body: Json = {"state": said if known else words.word(part.state), "toolCallId": part.call_id}
    if notes.get("arguments") != "absent" or part.arguments != {}:
        body[words.arguments] = thaw(part.arguments)
    due = part.state == "result" and notes.get("result") != "absent"
    if part.result is not None or due or notes.get("result") == "null":
        body[words.result] = thaw(part.result)
    if part.error is not None or notes.get("error") == "null":
        body["errorText"] = part.error
    return body


def same_call(one: ToolPart, other: ToolPart) -> bool:
    """Whether both say the same, whatever was noted about them."""
    return replace(one, metadata=FrozenDict()) == replace(other, metadata=FrozenDict())


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
