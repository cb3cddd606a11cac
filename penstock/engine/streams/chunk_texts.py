"""Whole texts in chunks (tool arguments, results, sources, data): where they are, and chunks with other texts.

Names and ids that programs use, and a provider's metadata, are fixed texts: they are read, but not edited. At the end:
messages as chunks, for answers that were held.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.text_guards.known import TOOL_VALUES
from penstock.engine.text_guards.reading import (
    Text,
    Unread,
    fixed_texts,
    holds_unread,
    message_texts,
    unread_bodies,
    value_texts,
)
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.answer_builder import parts_of
from penstock.engine.values.chunks import CONTROL, Chunk
from penstock.engine.values.frozen import FrozenDict, freeze, is_items, is_mapping
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.engine.values.model import FINISH_REASONS
from penstock.engine.values.terms import (
    SEAL_KEYS,
    TOKEN_KEYS,
    is_code,
    is_model,
    is_word,
    without_keys,
    without_repeats,
)
from penstock.engine.values.texts import LEAST_NUMBER, KeyText, TextPlace, editable_texts, leaves, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import ImagePart, Part
    from penstock.engine.values.texts import Path

SNAPSHOT = "object"
"""The chunk that shows a value while it grows."""

PROBE = "data-penstock.probe"
"""An internal chunk, which hooks do not see: the arguments of a call while it is written, or the payload of a text."""

KIND_OF: Mapping[str, str] = {
    "tool-call": "tool",
    "tool-result": "tool",
    "tool-error": "tool",
    "tool-approval-request": "tool",
    "source": "source",
    "file": "file",
    "object": "text",
    "object-result": "text",
    "raw": "unknown",
}
"""By type of chunk, the kind of part that its texts are in."""

_PAYLOAD = ("payload",)  # the beginning of each path
_PLACE = TextPlace("", 0)
_WRAPPER = (*_PAYLOAD, KeyText("data"))  # the key under which a data chunk holds its value: a term, and no text
_NAME = re.compile(
    r"(?:^|_)id$|[a-z]Id$|^(?:tool_?[nN]ame|name|type|media_?[tT]ype|mime_?[tT]ype|data|state|provider.*)$"
)


def kind_of(chunk: Chunk) -> str | None:
    """Return the kind of part that the texts in a chunk are in; None if there are none.

    Control chunks can hold any text, for example in an error.
    """
    if chunk.is_data:
        return "data"
    return "text" if chunk.is_control else KIND_OF.get(chunk.type)


def chunk_texts(
    chunk: Chunk, kinds: Iterable[str], kind: str | None = None, *, least: int = LEAST_NUMBER
) -> list[Text]:
    """Return the texts in a chunk if their kind is among ``kinds``.

    Args:
        chunk: the chunk.
        kinds: the kinds of parts whose texts are read.
        kind: the kind of its texts, if it is known.
        least: the smallest number in a value that is read, without its sign.
    """
    kind = kind or kind_of(chunk)
    if kind is None or kind not in kinds:
        return []
    if _is_free(chunk):
        texts = value_texts(_value_of(chunk), _PAYLOAD, _PLACE, kind, least=least)
        return [text for text in texts if not (chunk.is_data and text.place.path == _WRAPPER)]
    return [*_named_texts(chunk, kind, least), *_ids_of(chunk, kind)]


def _value_of(chunk: Chunk) -> Value:
    return chunk.payload


def _named_texts(chunk: Chunk, kind: str, least: int) -> Iterator[Text]:
    """Yield the texts under each key of a payload; those under a name are fixed."""
    for name, value in chunk.payload.items():
        if chunk.type == "file" and name in _BODIES:
            continue
        if name not in _USUAL_KEYS:
            yield from fixed_texts(name, (*_PAYLOAD, KeyText(name)), _PLACE, kind)
        if chunk.is_control and name in _TERMS:
            yield from _odd_terms(name, value, kind)
            continue
        if name == "provider_headers" and chunk.is_control:
            yield from (text for text in fixed_texts(value, (*_PAYLOAD, name), _PLACE, kind) if not is_code(text.text))
            continue
        if kind == "tool" and name in TOOL_VALUES:
            yield from value_texts(value, (*_PAYLOAD, name), _PLACE, kind, least=least, root=2)
            continue
        read = fixed_texts if is_name(name, chunk.type) else partial(value_texts, least=least)
        for text in read(value, (*_PAYLOAD, name), _PLACE, kind):
            if not (chunk.is_control and text.fixed and text.text.isdigit()):
                yield text


def _odd_terms(name: str, value: Value, kind: str) -> Iterator[Text]:
    """Yield the texts in the value of a term that have not the form of one."""
    for text in value_texts(value, (*_PAYLOAD, name), _PLACE, kind):
        if not (text.fixed and text.text.isdigit()) and not _is_term(name, text):
            yield text


def _is_term(name: str, text: Text) -> bool:
    if name == "usage":
        return isinstance(text.place.path[-1], KeyText) and is_word(text.text)
    if name == "raw_reason":
        return is_word(text.text)
    return is_model(text.text) if name == "model" else text.text in _KNOWN_REASONS


_KNOWN_REASONS = frozenset({*FINISH_REASONS, "aborted", "retry", "suspended", "unknown"})


_USUAL_KEYS = frozenset(
    {
        "args",
        "arguments",
        "call_id",
        "created",
        "data",
        "error",
        "id",
        "input",
        "mediaType",
        "media_type",
        "metadata",
        "mimeType",
        "model",
        "name",
        "object",
        "output",
        "provider_metadata",
        "provider_part",
        "provider_sealed",
        "provider_terms",
        "reason",
        "refusal",
        "result",
        "sourceId",
        "state",
        "title",
        "toolCallId",
        "toolName",
        "tool_call_id",
        "tool_name",
        "transcript",
        "url",
        "usage",
    }
)
_BODIES = frozenset({"data", "url"})  # of a file


def _ids_of(chunk: Chunk, kind: str) -> Iterator[Text]:
    """Yield the texts of a chunk beside its payload: the id of a call; of a file, its address or the text in it."""
    if chunk.type in _CALLS and chunk.id not in chunk.payload.values():
        yield from fixed_texts(chunk.id, (*_PAYLOAD, "id"), _PLACE, kind)
    if chunk.type == "file":
        for part in parts_of(chunk):
            for text in message_texts(Message("assistant", (part,)), (part.type,)):
                if text.fixed and text.key in _BODIES:
                    yield text._replace(place=_PLACE._replace(path=(*_PAYLOAD, text.key)), kind=kind)


_CALLS = frozenset({"tool-call", "tool-result", "tool-error"})


def unread_in(chunk: Chunk) -> list[Unread]:
    """Return the body in a chunk that cannot be read, in a list; an empty list if there is none."""
    if chunk.type == "file":
        found = unread_bodies(Message("assistant", tuple(parts_of(chunk))), ("file", "audio"))
        return [Unread("", 0, part.kind) for part in found]
    kind = kind_of(chunk)
    if kind in ("tool", "data", "unknown") and chunk.type != PROBE and holds_unread(_value_of(chunk)):
        return [Unread("", 0, kind)]
    return []


def _is_free(chunk: Chunk) -> bool:
    """Tell whether the keys of the payload itself are free, so that none of them marks a name."""
    if chunk.type in _OBJECTS:
        return "object" not in chunk.payload
    return chunk.is_data and chunk.type != PROBE


_OBJECTS = frozenset({"object", "object-result"})


def is_name(first: object, type: str) -> bool:
    """Tell whether the value under a key of a chunk's payload is a name or a term, and no text."""
    if not isinstance(first, str):
        return True
    if type in ENDS and first in _TERMS:
        return True
    return _NAME.search(first) is not None and not (type == "file" and first == "name")


def is_sealed(chunk: Chunk) -> bool:
    """Tell whether only the provider can read a raw chunk: encrypted reasoning, which must be sent back."""
    return "provider_sealed" in chunk.payload and chunk.payload.keys() <= {"provider_sealed", "provider_metadata"}


ENDS = frozenset({"step-finish", "finish", "response-metadata"})
_TERMS = frozenset({"reason", "finish_reason", "finishReason", "raw_reason", "model", "usage", "created"})
"""Keys at the end of a step whose values are terms of the provider, such as ``tool-calls``."""


def rewritten(chunk: Chunk, edits: Mapping[TextPlace, Edits]) -> Chunk:
    """Return the chunk with edits made to the texts in it."""
    if not edits:
        return chunk
    texts = {_PLACE._replace(path=path): text for path, text in editable_texts(_value_of(chunk), _PAYLOAD)}
    return with_texts(chunk, {place: edit_ops.apply(texts.get(place, ""), made) for place, made in edits.items()})


def with_texts(chunk: Chunk, texts: Mapping[TextPlace, str]) -> Chunk:
    """Return the chunk with other texts at some places; a number becomes the text, or None if that is empty."""
    if not texts:
        return chunk
    made = {place.path: text for place, text in texts.items()}
    return chunk.with_payload(rewrite(_value_of(chunk), made, _PAYLOAD))


def without_copies(value: Value, text: str) -> Value:
    """Return the payload of a chunk of text without copies of its text, which would leave before the held text does."""
    if is_mapping(value):
        return {key: without_copies(item, text) for key, item in value.items() if key not in TOKEN_KEYS}
    if is_items(value):
        return [without_copies(item, text) for item in value]
    return "" if text and value == text else value


def spelled_texts(chunk: Chunk, kind: str) -> list[Text]:
    """Return the texts that the lists in a payload spell piece by piece: their strings under one key, joined."""
    pieces: dict[Path, list[str]] = {}
    for path, text in leaves(_value_of(chunk), _PAYLOAD):
        if not isinstance(path[-1], KeyText):
            pieces.setdefault(tuple(step for step in path if not isinstance(step, int)), []).append(text)
    spelled = ((path, "".join(texts)) for path, texts in pieces.items() if len(texts) > 1)
    return [Text(_PLACE._replace(path=path), text, kind) for path, text in spelled]


def without_repeats_in(chunk: Chunk, *, is_edited: bool) -> Chunk:
    """Return a chunk of an answer some text of which was edited, without what may repeat that text in another cut.

    Args:
        chunk: the chunk.
        is_edited: whether it belongs to a text that was edited: then signatures of it go, too.
    """
    if not chunk.payload or not (chunk.is_control or chunk.type.startswith(("text-", "reasoning-", PROBE))):
        return chunk
    payload = without_keys(chunk.payload, SEAL_KEYS) if is_edited else chunk.payload
    own = {name: value for name, value in payload.items() if name.startswith("provider_")}
    rest = without_repeats({name: value for name, value in payload.items() if name not in own})
    return chunk.with_payload(FrozenDict({**rest, **{name: without_keys(own[name], TOKEN_KEYS) for name in own}}))


# Answers as chunks


def resent(chunks: list[Chunk], before: Message, after: Message | None) -> list[Chunk]:
    """Return held chunks after the answer was judged: the same, or made anew of the answer if that was changed."""
    if after is not None and after.parts == before.parts:
        return chunks
    kept = [
        _bare(chunk)
        for chunk in chunks
        if chunk.type in CONTROL or chunk.type == "response-metadata" or chunk.transient
    ]
    ends = next((index for index, chunk in enumerate(kept) if chunk.type in ("step-finish", "finish")), len(kept))
    run_id = chunks[0].run_id if chunks else ""
    made = [] if after is None else sent(after, run_id)
    return [*kept[:ends], *made, *kept[ends:]]


def sent(message: Message, run_id: str = "") -> list[Chunk]:
    """Return a message as the chunks that a model would stream."""
    return [chunk for part in _numbered(message) for chunk in _sent(*part, run_id)]


def _bare(chunk: Chunk) -> Chunk:
    """Return a chunk at the end of an answer without texts, which may repeat the answer as it was."""
    if chunk.type not in ENDS:
        return chunk
    return chunk.with_payload(
        FrozenDict(
            {
                name: value
                for name, value in chunk.payload.items()
                if is_name(name, chunk.type) and not (name in _TERMS and any(_odd_terms(name, value, "text")))
            }
        )
    )


def _numbered(message: Message) -> Iterator[tuple[str, Part]]:
    for number, part in enumerate(message.parts):
        yield f"{message.id}:{number}", part  # unique within the run


def _sent(id: str, part: Part, run_id: str) -> Iterator[Chunk]:
    """Yield the chunks of a part; none for unknown parts and for step starts."""
    if isinstance(part, (TextPart, ReasoningPart)):
        if part.text:
            yield Chunk(f"{part.type}-start", id=id, run_id=run_id)
            yield Chunk(f"{part.type}-delta", part.text, id, run_id=run_id)
            yield Chunk(f"{part.type}-end", id=id, run_id=run_id)
    elif isinstance(part, ToolPart):
        yield from _call_sent(part, run_id)
    elif not isinstance(part, (UnknownPart, StepStartPart)):
        yield _value_sent(part, run_id)


def _call_sent(part: ToolPart, run_id: str) -> Iterator[Chunk]:
    call = {"call_id": part.call_id, "name": part.name, "arguments": part.arguments}
    yield Chunk("tool-call", id=part.call_id, payload=freeze(call), run_id=run_id)
    if part.state == "call" and part.approval == "requested":
        yield approval_request(part, run_id)
    if part.state in ("result", "error"):
        own = {"result": part.result} if part.state == "result" else {"error": part.error}
        answer = {"call_id": part.call_id, "name": part.name, **own}
        yield Chunk(f"tool-{part.state}", id=part.call_id, payload=freeze(answer), run_id=run_id)


def approval_request(call: ToolPart, run_id: str) -> Chunk:
    """Return the chunk that asks a client whether a call may run."""
    payload = FrozenDict({"call_id": call.call_id, "name": call.name})
    return Chunk("tool-approval-request", id=call.call_id, payload=payload, run_id=run_id)


def _value_sent(part: SourcePart | FilePart | ImagePart | AudioPart | DataPart, run_id: str) -> Chunk:
    if isinstance(part, SourcePart):
        return Chunk("source", payload=freeze({"id": part.id, "url": part.url, "title": part.title}), run_id=run_id)
    if isinstance(part, DataPart):
        return Chunk(f"data-{part.name}", payload=freeze({"data": part.data}), run_id=run_id)
    file: dict[str, Value] = {"data": part.data, "url": part.url, "media_type": part.media_type}
    if isinstance(part, FilePart):
        file["name"] = part.name
    elif isinstance(part, AudioPart):
        file["transcript"] = part.transcript
    return Chunk("file", payload=freeze(file), run_id=run_id)
