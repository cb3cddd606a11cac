"""The text or thought that an answer is at, as chunks: where it begins and ends, whatever field it comes in.

It knows the fields in which providers send text and thoughts, no calls and no connection. What must go back with a
thought is noted at its end, as the format would have noted it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.formats import openai_chat
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.messages import ReasoningPart, UnknownPart
from penstock.models.openai.wire import FORMAT, checksum, gather

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Part
    from penstock.models.openai.wire import Json

    Place = tuple[str | int, ...]

_SENT_BACK = frozenset({"type", "id", "index", "format", "data", "signature", "closed"})
"""What stands beside a thought that only its provider can read, and needs back; anything else guards must read."""

_TEXTS = frozenset({"content", "refusal"})


@dataclass(slots=True)
class _Open:
    place: Place
    id: str
    pieces: list[str] = field(default_factory=list[str])
    rest: Json = field(default_factory=dict[str, "object"])

    @property
    def kind(self) -> str:
        return "text" if self.place[0] in _TEXTS else "reasoning"


class Blocks:
    """The blocks of one answer; at most one is open. A place is a field, and what tells apart the blocks in it."""

    __slots__ = ("_count", "_open")

    def __init__(self) -> None:
        self._count = 0
        self._open: _Open | None = None

    def say(self, place: Place, text: str, rest: Json | None = None) -> Iterator[Chunk]:
        """Yield the chunks of a piece of text at a place; ``rest`` is what else is said there."""
        if not text and not rest:
            return
        if self._open is None or self._open.place != place:
            yield from self.close()
            self._open = _Open(place, f"{'text' if place[0] in _TEXTS else 'reasoning'}-{self._count}")
            self._count += 1
        block = self._open
        gather(block.rest, rest or {}, ())
        if text:
            if not block.pieces:
                yield Chunk(f"{block.kind}-start", id=block.id, payload=_start(place))
            block.pieces.append(text)
            yield Chunk(f"{block.kind}-delta", text, block.id)

    def close(self) -> Iterator[Chunk]:
        """Yield the end of what is open."""
        block, self._open = self._open, None
        if block is None:
            return
        more = {name: value for name, value in block.rest.items() if name not in _SENT_BACK}
        if not block.pieces:
            yield from _raw(block, sealed=not more)
            return
        for name in more:
            del block.rest[name]
        part = _part(block)
        metadata = EMPTY if part is None else _metadata(part)
        payload: Json = {"provider_metadata": metadata} if metadata else {}
        yield Chunk(f"{block.kind}-end", id=block.id, payload=freeze(payload | ({"metadata": more} if more else {})))


def _raw(block: _Open, *, sealed: bool) -> Iterator[Chunk]:
    """Yield what has nothing to read, but must go back: a signature, an encrypted thought."""
    part = _part(block)
    if isinstance(part, UnknownPart):
        name = "provider_sealed" if sealed else "provider_part"
        yield Chunk("raw", id=block.id, payload=freeze({name: part.raw, "provider_metadata": part.metadata}))


def _metadata(part: Part) -> Values:
    """Return a part's metadata; a thought that the provider has signed is told by it from one that was edited."""
    notes = part.metadata.get(FORMAT, EMPTY)
    if isinstance(part, ReasoningPart) and notes.get("field") == "reasoning_details":
        return {**part.metadata, FORMAT: {**notes, "of": checksum(part.text)}}
    return part.metadata


def _start(place: Place) -> Json:
    return {"refusal": True} if place[0] == "refusal" else {}


def _part(block: _Open) -> Part | None:
    """Return the part that the format makes of the block, had it come whole; None for what is nothing but a text."""
    name, text = str(block.place[0]), "".join(block.pieces)
    if name in ("content", "think"):
        return None
    message: Json = {"role": "assistant", name: text}
    if name == "thinking":
        piece: Json = {"type": "thinking", "thinking": [{"type": "text", "text": text}], **block.rest}
        message = {"role": "assistant", "content": [piece]}
    elif name == "reasoning_details":
        message[name] = [{**block.rest, str(block.place[1]): text} if text else block.rest]
    (made,) = openai_chat.read([message])
    return next(iter(made.parts), None)
