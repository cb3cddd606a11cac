"""Chunks that were held, as they are sent once the answer was judged: as they came, or anew where it was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.streams.values import ENDS, is_name
from penstock.engine.values.chunks import CONTROL, Chunk
from penstock.engine.values.frozen import FrozenDict, freeze
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import ImagePart, Message, Part


def resent(chunks: list[Chunk], before: Message, after: Message | None) -> list[Chunk]:
    """Return held chunks as they are to be sent after the answer was judged: anew where it was changed."""
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
    """Return a message as the chunks of an answer."""
    return [chunk for part in _numbered(message) for chunk in _sent(*part, run_id)]


def _bare(chunk: Chunk) -> Chunk:
    """Return a chunk that ends an answer without what may repeat the answer as it was."""
    if chunk.type not in ENDS:
        return chunk
    return chunk.with_payload(
        FrozenDict({name: value for name, value in chunk.payload.items() if is_name(name, chunk.type)})
    )


def _numbered(message: Message) -> Iterator[tuple[str, Part]]:
    for number, part in enumerate(message.parts):
        yield f"{message.id}:{number}", part  # unlike those of any other answer of the run


def _sent(id: str, part: Part, run_id: str) -> Iterator[Chunk]:
    """Yield the chunks that a part is sent as; none for one that only its provider can read, and for a mark."""
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
    if part.state in ("result", "error"):
        own = {"result": part.result} if part.state == "result" else {"error": part.error}
        answer = {"call_id": part.call_id, "name": part.name, **own}
        yield Chunk(f"tool-{part.state}", id=part.call_id, payload=freeze(answer), run_id=run_id)


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
