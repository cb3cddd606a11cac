"""Assemble an answer from the chunks of a stream: its text, its message, and a whole `ModelAnswer`.

Keys of a chunk's payload may have the names of Penstock (``call_id``) or of the reference system (``toolCallId``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.call_ids import CALL_ID_KEYS, NAME_KEYS, CallIds
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_mapping, json_value
from penstock.engine.values.growing_text import GrowingText
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    Message,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.engine.values.model import FINISH_REASONS, ModelAnswer, Usage
from penstock.engine.values.terms import counts_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Mapping

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Part
    from penstock.engine.values.model import FinishReason


_DELTAS: Mapping[str, Literal["text", "reasoning"]] = {"text-delta": "text", "reasoning-delta": "reasoning"}
_NAMES: Mapping[str, tuple[str, ...]] = {
    "call_id": CALL_ID_KEYS,
    "name": NAME_KEYS,
    "arguments": ("arguments", "args", "input"),
    "result": ("result", "output"),
    "error": ("error",),
    "media_type": ("media_type", "mediaType", "mimeType"),
    "id": ("id", "sourceId"),
}
_RAW = ("provider_part", "provider_sealed")
_ENDS: Mapping[str, str] = {"text-end": "text-delta", "reasoning-end": "reasoning-delta"}


class Assembly:
    """The answer assembled from the chunks so far. Lives as long as the stream."""

    __slots__ = ("_announced", "_bare", "_calls", "_metadata", "_parts", "_writing")

    def __init__(self) -> None:
        self._announced: dict[tuple[str, str], None] = {}  # texts that began with a start chunk
        self._bare: dict[str, tuple[str, str]] = {}  # by type, the text that began without a start chunk
        self._calls: dict[str, int] = {}  # where in the parts a call stands, by its id
        self._metadata: Values = EMPTY
        self._parts: list[AnswerBlock | Part] = []
        self._writing: dict[tuple[str, str], AnswerBlock] = {}

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        if chunk.type in _DELTAS:
            self.write(chunk)
        else:
            self._other(chunk)

    def write(self, chunk: Chunk) -> None:
        """Add a chunk with text."""
        key = (chunk.type, chunk.id)
        block = self._writing.get(key)
        if block is None:
            block = self._begun(key)
        block.text.write(chunk.text)

    def _begun(self, key: tuple[str, str]) -> AnswerBlock:
        """Begin a text. One of its type that began without a start chunk ends: no end chunk will come for it."""
        bare = self._bare.pop(key[0], None)
        if bare is not None and bare not in self._announced:
            self._writing.pop(bare, None)
        if key not in self._announced:
            self._bare[key[0]] = key
        block = self._writing[key] = AnswerBlock(_DELTAS[key[0]], key[1])
        self._parts.append(block)
        return block

    @property
    def at_hand(self) -> tuple[str | None, Callable[[str], object]]:
        """The id of the text that was written to last, and the function that appends to it; None if no text is open."""
        for (type, id), block in reversed(self._writing.items()):
            return (id if type == "text-delta" else None), block.text.write
        return None, _unwritten

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(
            part.text.getvalue() for part in self._parts if isinstance(part, AnswerBlock) and part.kind == "text"
        )

    @property
    def blocks(self) -> tuple[str, ...]:
        """The ids of the texts so far."""
        return tuple(dict.fromkeys(part.id for part in self._parts if isinstance(part, AnswerBlock)))

    @property
    def message(self) -> Message:
        """The answer so far as a message, which may have no parts."""
        parts = tuple(part.part() if isinstance(part, AnswerBlock) else part for part in self._parts)
        return Message("assistant", parts, metadata=self._metadata)

    def _other(self, chunk: Chunk) -> None:
        if chunk.type in ("text-start", "reasoning-start"):
            self._announced[chunk.type.replace("-start", "-delta"), chunk.id] = None
        elif chunk.type in _ENDS:
            self._end(chunk)
        elif chunk.type in ("tool-call", "tool-result", "tool-error"):
            self._tool(chunk)
        elif chunk.type == "tool-approval-request":
            self._ask(chunk)
        elif chunk.type == "finish":
            self._metadata = _values(chunk, "provider_metadata")
        else:
            self._parts += parts_of(chunk)

    def _end(self, chunk: Chunk) -> None:
        """End a text, and take its metadata from the end chunk."""
        key = (_ENDS[chunk.type], chunk.id)
        self._announced.pop(key, None)
        block = self._writing.pop(key, None)
        if block is not None and chunk.payload:
            block.metadata = metadata_of(chunk)

    def _tool(self, chunk: Chunk) -> None:
        """Add a tool call, or the result or error of one."""
        call_id = str(named(chunk, "call_id") or chunk.id)
        # A call never changes another one, whatever their ids; a result belongs to the first call with its id.
        place = len(self._parts) if chunk.type == "tool-call" else self._calls.get(call_id, len(self._parts))
        self._calls.setdefault(call_id, place)
        known = cast("ToolPart", self._parts[place]) if place < len(self._parts) else None
        name = str(named(chunk, "name") or (known.name if known is not None else ""))
        arguments = named(chunk, "arguments") if known is None else known.arguments
        metadata = metadata_of(chunk) if known is None else known.metadata
        made = _tool_part(chunk, ToolPart(call_id, name, EMPTY if arguments is None else arguments, metadata=metadata))
        self._parts[place : place + 1] = [made]

    def _ask(self, chunk: Chunk) -> None:
        """Note that a call waits for approval."""
        place = self._calls.get(str(named(chunk, "call_id") or chunk.id))
        call = None if place is None else self._parts[place]
        if place is not None and isinstance(call, ToolPart) and call.state == "call":
            self._parts[place] = replace(call, approval="requested")


class AnswerBlock:
    """A text or reasoning that is being written."""

    __slots__ = ("id", "kind", "metadata", "text")

    def __init__(self, kind: Literal["text", "reasoning"], id: str) -> None:
        self.kind = kind
        self.metadata: Values = EMPTY
        self.id = id
        self.text = GrowingText()

    def part(self) -> Part:
        """Return it as a part of a message."""
        text = self.text.getvalue()
        return TextPart(text, self.metadata) if self.kind == "text" else ReasoningPart(text, self.metadata)


def parts_of(chunk: Chunk) -> list[Part]:
    """Return the part that a chunk makes on its own, in a list; an empty list for other chunks."""
    get, metadata = chunk.payload.get, metadata_of(chunk)
    if chunk.type == "source":
        return [SourcePart(named(chunk, "id"), get("url"), get("title"), metadata)]
    if chunk.type == "file" and "transcript" in chunk.payload:
        return [AudioPart(get("data"), get("url"), named(chunk, "media_type"), get("transcript"), metadata)]
    if chunk.type == "file":
        kind = named(chunk, "media_type")
        return [FilePart(get("data"), get("url"), media_type=kind, name=get("name"), metadata=metadata)]
    if chunk.type == "raw":
        return [UnknownPart(get(name), metadata) for name in _RAW if name in chunk.payload]
    if chunk.is_data and not chunk.transient:
        return [DataPart(chunk.type.removeprefix("data-"), get("data", chunk.payload))]
    return []


def metadata_of(chunk: Chunk) -> Values:
    """Return the metadata of a chunk's part, including what its provider needs to get back."""
    said, provider = _values(chunk, "metadata"), _values(chunk, "provider_metadata")
    return FrozenDict({**said, **provider}) if said and provider else said or provider


def _values(chunk: Chunk, name: str) -> Values:
    found = chunk.payload.get(name)
    return cast("Values", found) if isinstance(found, FrozenDict) else EMPTY


def named(chunk: Chunk, what: str) -> Value:
    """Return a value of a chunk's payload, under any of its names; None if it is missing."""
    return next((chunk.payload[name] for name in _NAMES[what] if name in chunk.payload), None)


def _tool_part(chunk: Chunk, call: ToolPart) -> ToolPart:
    """Return the tool call after a chunk with its result or error."""
    if chunk.type == "tool-call":
        return call
    if chunk.type == "tool-error":
        return replace(call, state="error", error=str(named(chunk, "error")))
    return replace(call, state="result", result=json_value(named(chunk, "result"), "result"))


def _unwritten(text: str) -> None:
    """Ignore a text that belongs nowhere."""


async def collected(stream: AsyncIterable[Chunk]) -> ModelAnswer:
    """Return a streamed answer as a whole. Errors of the model are raised.

    An answer without a ``finish`` chunk gets the finish reason ``other``. Each tool call has an id of its own.
    """
    answer, call_ids = Assembly(), CallIds()
    chunks: list[Chunk] = []
    async for sent in stream:
        chunk = call_ids.own(sent)
        chunks.append(chunk)
        answer.add(chunk)
    end = next((chunk.payload for chunk in reversed(chunks) if chunk.type == "finish"), EMPTY)
    begin = next((chunk.payload for chunk in chunks if chunk.type == "response-metadata"), EMPTY)
    reason = end.get("reason")
    return ModelAnswer(
        answer.message,
        cast("FinishReason", reason) if reason in FINISH_REASONS else "other",
        usage_of(end.get("usage")),
        FrozenDict({**begin, **(end.get("provider_terms") or {}), **(end.get("metadata") or {})}),
        any(chunk.type == "text-start" and chunk.payload.get("refusal") is True for chunk in chunks),
        tuple(chunks),
    )


def usage_of(reported: Values | None) -> Usage | None:
    """Return the usage that a ``finish`` chunk reports, numbers only; None if it reports none.

    Raises:
        TypeError: it is no usage.
    """
    if reported is None:
        return None
    Usage(**reported)  # for its check of the names
    counts: Values = counts_of(reported)
    return Usage(**{name: count for name, count in counts.items() if is_mapping(count) == (name == "details")})
