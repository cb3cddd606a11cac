"""Read and write parts, bodies, heads and metadata of the AI SDK's UI messages and of stored messages.

Files, sources and reasoning exist in an older shape (``mimeType`` and ``data``) and a newer one (``mediaType`` and
``url``). Both formats read both shapes and write a part as it was read; a part that came from elsewhere is written in
the shape that the format uses today. The keys of a body (parts, copies, metadata) stand beside those of the head (id,
time) in a UI message, and within ``content`` in a stored one.

Metadata of a part stands under ``providerMetadata`` in these two formats and under ``providerOptions`` in the AI SDK's
model messages. What other formats noted is written there too, under their names, and read back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

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
from penstock.formats import blocks, parts as shared, wire
from penstock.formats.blocks import with_unknown_keys
from penstock.formats.shape import foreign, notes_of
from penstock.formats.wire import is_array, is_empty, is_object, with_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from penstock.engine.values.messages import ApprovalState, Message, Part, ToolState
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

STORED = "stored"
PROVIDER = "providerMetadata"
CALL_PROVIDER = "callProviderMetadata"
OPTIONS = "providerOptions"
_CHAT_FORMATS = frozenset({"openai-chat", "openai-responses"})


def read_metadata(item: Json, fmt: str, known: Collection[str], notes: Json | None = None, key: str = PROVIDER) -> Json:
    """Return a part's metadata: that of ``providerMetadata``, and notes on data for which Penstock has no field."""
    given = item.get(key)
    extra = wire.unknown_keys(item, {*known, key}, known)
    if is_object(given) and given and fmt not in given:
        return with_notes(fmt, {**(notes or {}), "extra": extra}, given)
    return with_notes(fmt, {**(notes or {}), "extra": extra, "metadata": None if is_empty(given) else given})


def write_metadata(body: Json, value: Message | Part, fmt: str, known: Collection[str], key: str = PROVIDER) -> Json:
    """Return a wire object with the part's metadata and unknown keys added."""
    notes = notes_of(value, fmt)
    metadata: Value = foreign(value, fmt) or notes.get("metadata")
    if metadata is not None:
        body = {**body, key: metadata}
    return with_unknown_keys(body, notes, {*known, key})


# Reasoning

_FIELDS = ("text", "reasoning")
_KEYS = frozenset({"type", "details", *_FIELDS})


def _read_reasoning(item: Json, place: str, fmt: str) -> ReasoningPart:
    fields = [key for key in _FIELDS if isinstance(item.get(key), str)]
    details: Value = item.get("details")
    pieces = [detail["text"] for detail in details if _is_piece(detail)] if is_array(details) else []
    if not fields and not is_array(details):
        wire.expect_text(item, _FIELDS[0], place)
    said: list[str] = [item[key] for key in fields]
    copy = len(said) == 1 and bool(pieces) and "".join(pieces) == said[0]
    handled = {"type", *fields, *(("details",) if is_array(details) else ())}
    lengths = [len(piece) for piece in (pieces if copy else [*said, *pieces])]
    notes: Json = {
        "fields": fields if fields != ["text"] or fmt == STORED else None,
        "details": [_without_text(detail) for detail in details] if is_array(details) else None,
        "copy": True if copy else None,
        "lengths": lengths if pieces or len(said) > 1 else None,
    }
    rest = {key: value for key, value in item.items() if key not in handled}
    return ReasoningPart("".join(said if copy else [*said, *pieces]), read_metadata(rest, fmt, (), notes))


def _is_piece(detail: Value) -> bool:
    return is_object(detail) and isinstance(detail.get("text"), str)


def _without_text(detail: Value) -> Value:
    """Return a detail without its text, wrapped so that it can be distinguished from one that had none."""
    if not _is_piece(detail):
        return {"raw": detail}
    return {"piece": {key: value for key, value in detail.items() if key != "text"}}


def _raw(detail: Value) -> Value:
    """Return a noted detail; one that says a text was never noted by us."""
    return None if _is_piece(detail) else detail


def _write_reasoning(part: ReasoningPart, fmt: str) -> Json:
    """Return the part in the shape in which it was read, or else in the current one."""
    notes: WireShape = notes_of(part, fmt)
    if fmt == STORED and fmt not in part.metadata:
        notes = {"fields": ["reasoning"], "details": [{"piece": {"type": "text"}}], "copy": True, "lengths": []}
    given = notes.get("fields", ["text"])
    fields = [key for key in _FIELDS if key in given]
    details: list[Json] = list(filter(is_object, notes.get("details", ())))
    count = sum("piece" in detail for detail in details)
    copy = bool(notes.get("copy"))
    texts = wire.cut(part.text, notes.get("lengths", ()), count + (0 if copy else len(fields)))
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
class CallShape:
    """The keys and words by which a shape of the wire format writes a tool call.

    Attributes:
        arguments: the key of the arguments.
        result: the key of the result.
        states: the words for the states; of several words for one state the first is the usual one.
        approvals: the words for calls that a person was asked about, in some states; empty if it has none.
    """

    arguments: str
    result: str
    states: Mapping[str, ToolState]

    @property
    def keys(self) -> frozenset[str]:
        """The keys that have a meaning in the shape."""
        return frozenset({"toolCallId", "state", "errorText", self.arguments, self.result})

    approvals: Mapping[tuple[ToolState, ApprovalState | None], str]

    def usual_word(self, state: ToolState, approval: ApprovalState | None) -> str:
        """Return the usual word for the state of a call and the decision about it."""
        usual = next(word for word, meant in self.states.items() if meant == state)
        return self.approvals.get((state, approval), usual)


_INVOCATION = CallShape(
    "args", "result", {"partial-call": "partial", "call": "call", "result": "result", "output-error": "error"}, {}
)
_UI = CallShape(
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
    {
        ("call", "requested"): "approval-requested",
        ("call", "approved"): "approval-responded",
        ("call", "rejected"): "approval-responded",
        ("error", "rejected"): "output-denied",
    },
)
_APPROVAL: Final = "approval"
_PREFIX = "tool-"


def _read_tool(item: Json, place: str, fmt: str) -> ToolPart:
    """Return the part for any of the three shapes."""
    kind = item["type"]
    if kind == "tool-invocation" and "toolCallId" not in item:
        invocation = wire.expect_object(item.get("toolInvocation"), f"{place}.toolInvocation")
        part = _read_invocation(invocation, f"{place}.toolInvocation", fmt)
        metadata = read_metadata(item, fmt, {"type", "toolInvocation"}, {"shape": "invocation"})
        return _with_notes(part, metadata, fmt)
    dynamic = kind == "dynamic-tool"
    name = wire.expect_text(item, "toolName", place) if dynamic else kind.removeprefix(_PREFIX)
    part = _read_call(item, place, _UI, name, fmt)
    known = _UI.keys | {"type", *(["toolName"] if dynamic else []), *([_APPROVAL] if part.approval else [])}
    notes: Json = {"shape": "dynamic" if dynamic else "named"}
    return _with_notes(part, read_metadata(item, fmt, known, notes, CALL_PROVIDER), fmt)


def _with_notes(part: ToolPart, metadata: Json, fmt: str) -> ToolPart:
    """Return the part with the metadata, and the notes of both merged."""
    notes = {**notes_of(part, fmt), **metadata.get(fmt, {})}
    return replace(part, metadata=with_notes(fmt, notes, {**metadata}))


def _read_invocation(body: Json, place: str, fmt: str) -> ToolPart:
    """Return the part for a ``toolInvocation`` object, its unknown keys noted as the inner ones."""
    part = _read_call(body, place, _INVOCATION, wire.expect_text(body, "toolName", place), fmt)
    known = _INVOCATION.keys | {"toolName"}
    return _with_notes(part, with_notes(fmt, {"inner": wire.unknown_keys(body, known, known)}), fmt)


def _read_call(body: Json, place: str, shape: CallShape, name: str, fmt: str) -> ToolPart:
    said = wire.expect_text(body, "state", place)
    state = shape.states.get(said, "call")
    error = wire.maybe_text(body, "errorText", place)
    result = body.get(shape.result)
    approval, beside, reason = read_approval(body, said) if shape.approvals else (None, None, None)
    notes = {
        "state": said if said != shape.usual_word(state, approval) else None,
        _APPROVAL: beside,
        "arguments": None if shape.arguments in body else "absent",
        "result": _oddity(body, shape.result, state),
        "error": "null" if error is None and "errorText" in body else None,
    }
    call_id, arguments = wire.expect_text(body, "toolCallId", place), body.get(shape.arguments, EMPTY)
    return ToolPart(
        call_id, name, arguments, state, result, reason if error is None else error, with_notes(fmt, notes), approval
    )


def read_approval(body: Json, said: str) -> tuple[ApprovalState | None, Json | None, str | None]:
    """Return the decision about a call, the other keys of the approval, and the reason for a refusal.

    An approval of an unknown form is no decision; it is kept like unknown keys.
    """
    given = body.get(_APPROVAL)
    if not is_object(given) or not isinstance(given.get("reason", ""), str):
        return None, None, None
    approved = given.get("approved")
    beside = {key: value for key, value in given.items() if key != "approved"}
    if approved is True:
        return "approved", beside, None
    if approved is False:
        reason = None if body.get("errorText") is not None else beside.get("reason")
        if not reason:
            return "rejected", beside, None
        return "rejected", {**beside, "reason": True}, reason
    if said == "approval-requested" and "approved" not in given:
        return "requested", beside, None
    return None, None, None


def _oddity(body: Json, key: str, state: ToolState) -> str | None:
    """Return a note if a result is missing where one is expected, or null where none is."""
    if body.get(key) is not None or (key in body) == (state == "result"):
        return None
    return "null" if key in body else "absent"


def _write_tool(part: ToolPart, fmt: str) -> Json:
    """Return the part in the shape that it was read in, or else in the shape that the format uses today."""
    notes = notes_of(part, fmt)
    shape = notes.get("shape")
    if shape == "invocation" or (fmt == STORED and shape not in ("named", "dynamic")):
        body: Json = {"type": "tool-invocation", "toolInvocation": _write_invocation(part, notes)}
        return write_metadata(body, part, fmt, {"type", "toolInvocation"}, PROVIDER)
    kind = {"type": f"{_PREFIX}{part.name}"}
    if shape == "dynamic":
        kind = {"type": "dynamic-tool", "toolName": part.name}
    body = {**kind, **_write_call(part, _UI, notes)}
    if part.approval is not None:
        write_approval(body, part, notes)
    return write_metadata(body, part, fmt, _UI.keys | {"type", *kind, *body}, CALL_PROVIDER)


def write_approval(body: Json, part: ToolPart, notes: WireShape) -> None:
    """Add the decision about a call; it holds the reason for a refusal, unless that came as an error."""
    given = notes.get(_APPROVAL)
    beside: Json = {"id": part.call_id, "reason": True}
    if given is not None:
        beside = dict(given)
    reason = beside.pop("reason", None)
    if part.approval != "requested":
        beside["approved"] = part.approval == "approved"
    if reason is not True:
        beside |= {} if reason is None else {"reason": reason}
    elif part.approval == "rejected" and part.error is not None:
        beside["reason"] = body.pop("errorText")
    body[_APPROVAL] = beside


def _write_invocation(part: ToolPart, notes: WireShape) -> Json:
    """Return the ``toolInvocation`` object."""
    body: Json = {"toolName": part.name, **_write_call(part, _INVOCATION, notes)}
    return with_unknown_keys(body, notes, _INVOCATION.keys | {"toolName"}, "inner")


def _write_call(part: ToolPart, shape: CallShape, notes: WireShape) -> Json:
    said = notes.get("state")
    fits = said is not None and shape.states.get(said, "call") == part.state
    usual = shape.usual_word(part.state, part.approval)
    body: Json = {"state": said if fits else usual, "toolCallId": part.call_id}
    if notes.get("arguments") != "absent" or part.arguments != {}:
        body[shape.arguments] = thaw(part.arguments)
    due = part.state == "result" and notes.get("result") != "absent"
    if part.result is not None or due or notes.get("result") == "null":
        body[shape.result] = thaw(part.result)
    if part.error is not None or notes.get("error") == "null":
        body["errorText"] = part.error
    return body


def _same_call(one: ToolPart, other: ToolPart) -> bool:
    """Return whether both are the same call, apart from notes."""
    return replace(one, metadata=FrozenDict()) == replace(other, metadata=FrozenDict())


# Parts

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
    item = wire.expect_object(value, place, "an object with a type")
    kind = wire.expect_text(item, "type", place)
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(item, place, fmt)
    if kind.startswith("data-"):
        return _read_data(item, place, fmt)
    if kind in _MODEL_PARTS and "state" not in item:
        return _read_unknown(item)
    is_call = kind.startswith(_PREFIX) and ("toolCallId" in item or kind == "tool-invocation")
    return _read_tool(item, place, fmt) if is_call or kind == "dynamic-tool" else _read_unknown(item)


def _read_unknown(item: Json) -> UnknownPart:
    """Return the part unchanged, without other formats' notes about it."""
    given = item.get(PROVIDER)
    if is_object(given) and not _CHAT_FORMATS.isdisjoint(given):
        return UnknownPart({key: value for key, value in item.items() if key != PROVIDER}, given)
    return UnknownPart(item)


def _read_text(item: Json, place: str, fmt: str) -> Part:
    return TextPart(wire.expect_text(item, "text", place), read_metadata(item, fmt, {"type", "text"}))


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
    url, data = (image, None) if shared.has_scheme(image) else (None, image)
    metadata = read_metadata(item, fmt, _IMAGE, {"shape": "image"})
    return ImagePart(url, data, wire.maybe_text(item, "mimeType", place), metadata)


def _read_file(item: Json, place: str, fmt: str) -> Part:
    old = "data" in item or ("mimeType" in item and "url" not in item)
    content = item.get("data" if old else "url")
    if content is not None and not isinstance(content, str):
        return UnknownPart(item)
    media_type = wire.maybe_text(item, "mimeType" if old else "mediaType", place)
    name, file_id, transcript = (wire.maybe_text(item, key, place) for key in ("filename", "fileId", "transcript"))
    fields = (_OLD if old else _NEW) | (_OF_FILE if transcript is None else _OF_SOUND)
    rest = {key: value for key, value in item.items() if key not in fields or value is None}
    notes = {"shape": "old" if old else "new", "type": None if media_type is not None else "absent"}
    metadata = read_metadata(rest, fmt, (), notes)
    is_data = old and content is not None and not shared.has_scheme(content)
    url, data = (None, content) if is_data else (content, None)
    if transcript is not None:
        return AudioPart(data, url, media_type, transcript, metadata)
    return FilePart(data, url, file_id, media_type, name, metadata)


def _read_old_source(item: Json, place: str, fmt: str) -> Part:
    source = wire.expect_object(item.get("source"), f"{place}.source")
    given = source.get("sourceType")
    odd = None if given == "url" else "absent" if given is None else given
    rest = {key: value for key, value in source.items() if key not in _SOURCE or value is None}
    notes = {"shape": "old", "sourceType": odd, "inner": rest}
    metadata = read_metadata(item, fmt, {"type", "source"}, notes)
    source_id, url, title = (wire.maybe_text(source, key, f"{place}.source") for key in ("id", "url", "title"))
    return SourcePart(source_id, url, title, metadata)


def _read_source(item: Json, place: str, fmt: str) -> Part:
    rest = {key: value for key, value in item.items() if key not in _NEW_SOURCE or (value is None and key != "type")}
    metadata = read_metadata(rest, fmt, (), {"shape": item["type"]})
    source_id, url, title = (wire.maybe_text(item, key, place) for key in ("sourceId", "url", "title"))
    return SourcePart(source_id, url, title, metadata)


_READERS: dict[str, Callable[[Json, str, str], Part]] = {
    "text": _read_text,
    "reasoning": _read_reasoning,
    "step-start": _read_step_start,
    "image": _read_image,
    "file": _read_file,
    "source": _read_old_source,
    "source-url": _read_source,
    "source-document": _read_source,
}


def write_part(part: Part, fmt: str) -> Json:
    """Return the part in the format."""
    if isinstance(part, TextPart):
        return write_metadata({"type": "text", "text": part.text}, part, fmt, {"type", "text"})
    if isinstance(part, ReasoningPart):
        return _write_reasoning(part, fmt)
    if isinstance(part, ToolPart):
        return _write_tool(part, fmt)
    if isinstance(part, SourcePart):
        return _write_source(part, fmt)
    if isinstance(part, shared.MEDIA):
        return _write_media(part, fmt)
    if isinstance(part, DataPart):
        said = part.data is not None or notes_of(part, fmt).get("data") != "absent"
        body: Json = {"type": f"data-{part.name}", **({"data": thaw(part.data)} if said else {})}
        return write_metadata(body, part, fmt, {"type", "data"})
    if isinstance(part, StepStartPart):
        return write_metadata({"type": "step-start"}, part, fmt, {"type"})
    raw: Value = blocks.raw_of(part)
    noted = foreign(part, fmt)
    made: Json = {**raw, PROVIDER: noted} if noted and is_object(raw) and PROVIDER not in raw else raw
    return made


def _write_media(part: Media, fmt: str) -> Json:
    notes = notes_of(part, fmt)
    if isinstance(part, ImagePart) and (fmt == STORED or notes.get("shape") == "image"):
        image: Json = {"type": "image", "image": part.url if part.url is not None else part.data}
        return write_metadata({**image, **wire.without_none({"mimeType": part.media_type})}, part, fmt, _IMAGE)
    shape = notes.get("shape")
    old = shape == "old" or (fmt == STORED and shape != "new")
    usual = _USUAL_TYPE[type(part)]
    media_type = usual if part.media_type is None and notes.get("type") != "absent" else part.media_type
    given = {
        "mimeType" if old else "mediaType": media_type,
        "data" if old else "url": part.data if old and part.data is not None else shared.as_url(part, usual),
        **{key: getattr(part, name, None) for key, name in _MEDIA_KEYS.items()},
    }
    own = _OF_SOUND if isinstance(part, AudioPart) else _OF_FILE
    return write_metadata({"type": "file", **wire.without_none(given)}, part, fmt, own | (_OLD if old else _NEW))


_MEDIA_KEYS = {"transcript": "transcript", "filename": "name", "fileId": "file_id"}


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
        kind = notes.get("sourceType", "url")
        said = {"id": part.id, "url": part.url, "title": part.title, "sourceType": None if kind == "absent" else kind}
        body: Json = {"source": with_unknown_keys(wire.without_none(said), notes, _SOURCE, "inner")}
        return write_metadata({"type": "source", **body}, part, fmt, {"type", "source"})
    said = {"sourceId": part.id, "url": part.url, "title": part.title}
    body = {"type": shape, **wire.without_none(said)}
    if shape == "source-document" and not notes:
        body["mediaType"] = "application/octet-stream"
    return write_metadata(body, part, fmt, _NEW_SOURCE)


# Copies of the texts and the calls in a field of their own

_TEXT_COPIES: dict[str, type[TextPart | ReasoningPart]] = {"content": TextPart, "reasoning": ReasoningPart}
_CALLS = "toolInvocations"


def _read_copies(body: Json, parts: Sequence[Part], place: str, fmt: str) -> tuple[list[Part], Json]:
    """Return the parts with content that only the copies have, and notes on the copies; empty copies are ignored.

    A part that stands only in a copy is noted with ``copy_in``, the name of the field.
    """
    made = list(parts)
    notes: Json = {}
    for key, kind in _TEXT_COPIES.items():
        copy = body.get(key)
        if isinstance(copy, str) and copy:
            rule = wire.rule_of([part.text for part in parts if isinstance(part, kind)], copy)
            notes[key] = rule or "own"
            if rule is None:
                made.append(kind(copy, with_notes(fmt, {"copy_in": key})))
    calls = body.get(_CALLS)
    if is_array(calls) and calls:
        known: dict[str, list[ToolPart]] = {}
        for part in parts:
            if isinstance(part, ToolPart):
                known.setdefault(part.call_id, []).append(part)
        notes[_CALLS] = []

        def read_call(value: Value, where: str) -> ToolPart:
            return _read_invocation(wire.expect_object(value, where), where, fmt)

        for read in blocks.read_list(calls, f"{place}.{_CALLS}", read_call):
            if any(_same_call(part, read) for part in known.get(read.call_id, ())):
                notes[_CALLS].append(read.call_id)
            else:
                made.append(_with_notes(read, with_notes(fmt, {"copy_in": _CALLS}), fmt))
    return made, notes


def _copy_of(part: Part, fmt: str) -> str | None:
    """Return the field of the copy in which alone a part stands; None if it stands among the parts."""
    field = notes_of(part, fmt).get("copy_in", "")
    kind = ToolPart if field == _CALLS else _TEXT_COPIES.get(field)
    return field if kind is not None and isinstance(part, kind) else None


def _write_copies(parts: Sequence[Part], noted: Json, fmt: str) -> Json:
    """Return the copies that there were, made from the parts as they are now."""
    body: Json = {}
    for key, kind in _TEXT_COPIES.items():
        texts = [(part.text, _copy_of(part, fmt)) for part in parts if isinstance(part, kind)]
        own = [text for text, field in texts if field == key]
        if own:
            body[key] = "\n".join(own)
        elif key in noted:
            body[key] = wire.copied([text for text, field in texts if field is None], noted[key])
    given = noted.get(_CALLS)
    ids = {item for item in given if isinstance(item, str)} if is_array(given) else set[str]()
    listed = [
        _write_invocation(part, notes_of(part, fmt))
        for part in parts
        if isinstance(part, ToolPart) and (part.call_id in ids or _copy_of(part, fmt))
    ]
    if listed or _CALLS in noted:
        body[_CALLS] = listed
    return body


# Bodies and heads

_BODY_KEYS = frozenset({"parts", "metadata", _CALLS, *_TEXT_COPIES})
HEAD_KEYS = frozenset({"id", "role", "name", "createdAt", "threadId", "resourceId"})


def read_body(body: Json, place: str, fmt: str, extra: str) -> tuple[list[Part], Json, Json]:
    """Return the parts, the notes (unknown keys under the name ``extra`` gives) and the metadata of a body.

    Raises:
        MessageError: a part or a copied call is malformed.
    """
    given = body.get("parts")
    items = () if given is None else given
    parts = blocks.read_list(items, f"{place}.parts", partial(read_part, fmt=fmt), "a list of parts")
    whole, copies = _read_copies(body, parts, place, fmt)
    metadata = body.get("metadata")
    is_own = is_object(metadata) and fmt not in metadata
    notes: Json = {
        "parts": None if "parts" in body else "absent",
        "copies": copies,
        "metadata": None if is_own or is_empty(metadata) else metadata,
        "odd": {key: value for key, value in body.items() if _is_odd(key, value)},
        extra: wire.unknown_keys(body, _BODY_KEYS, {"parts"} if is_array(given) else ()),
    }
    return whole, notes, metadata if is_object(metadata) and is_own else {}


def _is_odd(key: str, value: Value) -> bool:
    """Return whether it is a copy with an unexpected type."""
    expected = is_array(value) if key == _CALLS else isinstance(value, str)
    return key in (_CALLS, *_TEXT_COPIES) and not is_empty(value) and not expected


def write_body(message: Message, fmt: str, extra: str) -> Json:
    """Return the body of a message."""
    notes = notes_of(message, fmt)
    odd: Value = notes.get("odd")
    body: Json = {key: value for key, value in odd.items() if _is_odd(key, value)} if is_object(odd) else {}
    body |= _write_copies(message.parts, notes.get("copies", {}), fmt)
    parts = [write_part(part, fmt) for part in message.parts if not _copy_of(part, fmt)]
    if parts or not (notes.get("parts") == "absent" or "parts" in with_unknown_keys({}, notes, (), extra)):
        body["parts"] = parts
    body |= wire.without_none({"metadata": foreign(message, fmt) or notes.get("metadata")})
    return with_unknown_keys(body, notes, _BODY_KEYS, extra)


def read_head(item: Json, place: str) -> tuple[str, datetime | None, Json]:
    """Return id, time, and notes: on an invalid time, and on keys of the head that are present but empty.

    Raises:
        MessageError: the id is not a str.
    """
    given = item.get("createdAt")
    created_at = wire.read_time(given)
    notes: Json = {
        "odd_time": given if created_at is None else None,
        "head": {key: value for key, value in item.items() if key in HEAD_KEYS and is_empty(value)},
    }
    return wire.maybe_text(item, "id", place) or "", created_at, notes


def write_head(message: Message, fmt: str, *, timed: bool) -> Json:
    """Return the id and, if the format has one or the message came with one, the time."""
    notes = notes_of(message, fmt)
    head = {key: value for key, value in notes.get("head", {}).items() if key in HEAD_KEYS and is_empty(value)}
    head |= wire.without_none({"id": message.id or None, "name": message.name})
    if "odd_time" in notes:
        head["createdAt"] = notes["odd_time"]
    elif message.created_at is not None and (timed or notes.get("time") == "given"):
        head["createdAt"] = wire.write_time(message.created_at)
    return head


def together(messages: Iterable[Message], fmt: str) -> list[Message]:
    """Return the messages with calls and results in one part, except for tool messages that the format itself had."""
    whole = (
        message.with_parts(blocks.with_answers(message.parts, fmt)) if message.role == "assistant" else message
        for message in messages
    )
    return blocks.folded(whole, lambda message: notes_of(message, fmt).get("role") == "tool")
