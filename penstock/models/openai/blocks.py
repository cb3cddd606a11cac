"""Streamed text, reasoning and tool calls of an answer, put together from their pieces, as chunks.

It reads the fields in which providers send them. Data that must go back to the provider with a part is noted at the
part's end, in the same form as in messages that are read by `penstock.formats.openai_chat`.

Pieces of a tool call belong together by their index; without an index, by their id. A piece with neither continues the
last call, unless it names a tool and the last call has a name already. A piece that names a tool begins another call if
the arguments so far are a complete JSON object. A name can come in pieces, too. Each call gets an id of its own, even
if the provider gives one id to several.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY, freeze, is_mapping
from penstock.engine.values.messages import ReasoningPart, ToolPart, UnknownPart
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.formats import openai_chat
from penstock.models.openai.wire import (
    FORMAT,
    PieceJoiner,
    checksum,
    gather,
    object_of,
    says,
    strict_json,
    text_of,
    well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Part
    from penstock.models.openai.wire import Json

    BlockKey = tuple[str | int, ...]

_SEALED_FIELDS = frozenset({"type", "id", "index", "format", "data", "signature", "closed"})
"""The fields beside a piece of reasoning that only its provider can read, and needs back. Guards must read all
others."""

_TEXTS = frozenset({"content", "refusal"})


@dataclass(slots=True)
class _OpenBlock:
    place: BlockKey
    kind: str
    delta: Chunk
    pieces: list[str] = field(default_factory=list[str])
    rest: Json = field(default_factory=dict[str, "object"])
    joiner: PieceJoiner = field(default_factory=PieceJoiner)


class Blocks:
    """The text and reasoning blocks of one answer; at most one is open.

    A key is a field, and what distinguishes the blocks in it. The chunks are added to the list ``made``.
    """

    __slots__ = ("_count", "_made", "_open")

    def __init__(self, made: list[Chunk]) -> None:
        self._made = made
        self._count = 0
        self._open: _OpenBlock | None = None

    def say(self, place: BlockKey, text: str, rest: Json | None = None) -> None:
        """Add the chunks of a piece of text.

        Args:
            place: the block that the text belongs to; another block ends before.
            text: the piece.
            rest: the further fields beside the text.
        """
        if not text and not rest:
            return
        block = self._open
        if block is None or block.place != place:
            self.close()
            block = self._open = self._new(place)
        if rest:
            gather(block.rest, rest, ())
        self._add(block, block.joiner.feed(text))

    def _new(self, place: BlockKey) -> _OpenBlock:
        kind = "text" if place[0] in _TEXTS else "reasoning"
        id = f"{kind}-{self._count}"
        self._count += 1
        return _OpenBlock(place, kind, Chunk(f"{kind}-delta", id=id))

    def _add(self, block: _OpenBlock, text: str) -> None:
        if not text:
            return
        if not block.pieces:
            refused = {"refusal": True} if block.place[0] == "refusal" else {}
            self._made.append(Chunk(f"{block.kind}-start", id=block.delta.id, payload=refused))
        block.pieces.append(text)
        self._made.append(block.delta.with_text(text))

    def close(self) -> None:
        """Add the end of the open block, if there is one."""
        block, self._open = self._open, None
        if block is None:
            return
        self._add(block, block.joiner.end())
        more = {name: value for name, value in block.rest.items() if name not in _SEALED_FIELDS}
        if not block.pieces:
            self._made += _raw_chunk(block, sealed=not more)
            return
        for name in more:
            del block.rest[name]
        part = _text_part(block)
        metadata = EMPTY if part is None else _part_metadata(part)
        payload: Json = {"provider_metadata": metadata} if metadata else {}
        payload |= {"metadata": more} if more else {}
        self._made.append(Chunk(f"{block.kind}-end", id=block.delta.id, payload=freeze(payload)))


def _raw_chunk(block: _OpenBlock, *, sealed: bool) -> Iterator[Chunk]:
    """Yield a part without text that must go back to the provider: a signature, or encrypted reasoning."""
    part = _text_part(block)
    if isinstance(part, UnknownPart):
        name = "provider_sealed" if sealed else "provider_part"
        yield Chunk("raw", id=block.delta.id, payload=freeze({name: part.raw, "provider_metadata": part.metadata}))


def _part_metadata(part: Part) -> Values:
    """Return a part's metadata. For signed reasoning, a checksum of the text shows whether it was edited."""
    notes = part.metadata.get(FORMAT, EMPTY)
    if isinstance(part, ReasoningPart) and notes.get("field") in openai_chat.DETAIL_KEYS:
        return {**part.metadata, FORMAT: {**notes, "of": checksum(part.text)}}
    return part.metadata


def _text_part(block: _OpenBlock) -> Part | None:
    """Return the part that the same block gives in a message that is not streamed; None if it is only text."""
    name, text = str(block.place[0]), "".join(block.pieces)
    if name in ("content", "think"):
        return None
    message: Json = {"role": "assistant", name: text}
    if name == "thinking":
        piece: Json = {"type": "thinking", "thinking": [{"type": "text", "text": text}], **block.rest}
        message = {"role": "assistant", "content": [piece]}
    elif name in openai_chat.DETAIL_KEYS:
        signed = "signature" in block.rest and name == "thinking_blocks"  # Claude signs thinking that it does not show
        message[name] = [{**block.rest, str(block.place[1]): text} if text or signed else block.rest]
    (made,) = openai_chat.read([message])
    return next(iter(made.parts), None)


_CALL_FIELDS = frozenset({"extra_content", "thought_signature"})
"""The fields beside a call that only its provider (Gemini) can read, and needs back. Guards must read all others."""


_JSON_SIGNS = re.compile(r'\\(?:.|\Z)|["{}\[\]]', re.DOTALL)


class _ObjectEnd:
    """Sees where a JSON object ends that comes in pieces."""

    __slots__ = ("_depth", "_escaped", "_quoted", "reached")

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False
        self._quoted = False
        self.reached = False

    def feed(self, piece: str) -> None:
        """Read a piece."""
        signs: list[str] = _JSON_SIGNS.findall(piece, int(self._escaped))
        self._escaped = self._escaped and not piece
        for sign in signs:
            if sign == "\\":
                self._escaped = True  # the character that it escapes is in the next piece
            elif sign == '"':
                self._quoted = not self._quoted
            elif len(sign) == 1 and not self._quoted:
                self._depth += 1 if sign in "{[" else -1
                self.reached = self._depth <= 0


@dataclass(slots=True)
class _StreamedCall:
    own_id: str = ""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    size: int = 0
    end: _ObjectEnd = field(default_factory=_ObjectEnd)
    joiner: PieceJoiner = field(default_factory=PieceJoiner)
    rest: Json = field(default_factory=dict[str, "object"])
    inner: Json = field(default_factory=dict[str, "object"])
    kind: str = "function"
    begun: bool = False

    def add_name(self, name: str) -> None:
        """Add a piece of the name, or the name again, as some providers send it with each piece of the arguments."""
        if not self.begun and name != self.name:
            self.name += name

    def add_arguments(self, piece: str) -> str:
        """Add a piece of the arguments; return the text of it that is complete."""
        text = self.joiner.feed(piece)
        if text:
            self.arguments.append(text)
            self.size += len(text)
            self.end.feed(text)
        return text


class Calls:
    """The tool calls of one answer, in the order in which they began. Each piece takes time proportional to itself.

    The chunks are added to the list ``made``.
    """

    __slots__ = ("_by_id", "_by_index", "_calls", "_ids", "_made", "_waiting")

    def __init__(self, made: list[Chunk]) -> None:
        self._made = made
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int, _StreamedCall] = {}
        self._by_id: dict[str, _StreamedCall] = {}
        self._ids: set[str] = set()
        self._waiting: _StreamedCall | None = None  # the last one, if the rest of its name may follow

    def __bool__(self) -> bool:
        """Whether a tool is called."""
        return bool(self._calls)

    def add(self, piece: Json) -> None:
        """Add the chunks of a piece of a call."""
        custom = object_of(piece.get("custom"))
        kind = "custom" if says(custom) else "function"
        inner = custom if kind == "custom" else object_of(piece.get("function"))
        name, text = (
            text_of(inner.get("name")),
            _arguments_text(inner.get("input" if kind == "custom" else "arguments")),
        )
        call = self._of(piece, name, text)
        if call is None:
            return
        if self._waiting is not call:
            self._begin_waiting()
        call.kind = kind if says(inner) else call.kind
        call.own_id = call.own_id or well_formed(text_of(piece.get("id")))
        self._by_id.setdefault(call.own_id, call)
        call.add_name(name)
        gather(call.rest, piece, {"index", "id", "type", "function", "custom"})
        gather(call.inner, inner, {"name", "arguments", "input"})
        self._add(call, call.add_arguments(text))

    def _of(self, piece: Json, name: str, text: str) -> _StreamedCall | None:
        """Return the call that a piece belongs to, a new one if there is none; None if it repeats a whole call."""
        index, own_id = piece.get("index"), well_formed(text_of(piece.get("id")))
        if isinstance(index, int):
            found = self._by_index.get(index)
        elif own_id:
            found = self._by_id.get(own_id)
        else:
            found = self._calls[-1] if self._calls else None
            found = None if found is not None and name and found.name else found
        if found is not None and name:
            if found.end.reached and own_id and own_id == found.own_id and _repeats(found, name, text):
                return None
            found = None if _is_another(found, own_id, text) else found
        return found if found is not None else self._added(index)

    def _added(self, index: Value) -> _StreamedCall:
        made = _StreamedCall()
        self._calls.append(made)
        if isinstance(index, int):
            self._by_index[index] = made
        return made

    def end(self) -> None:
        """Add the ends of all calls, each with the whole call."""
        for call in self._calls:
            self._add(call, call.joiner.end(), named=True)
            self._made += (Chunk("tool-input-end", id=call.id), _call_chunk(call))

    def _begin_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._add(waiting, "", named=True)

    def _add(self, call: _StreamedCall, text: str, *, named: bool = False) -> None:
        """Add the start of a call once its name is known, and the arguments as they come.

        The name is known when arguments follow it, or a piece of another call.
        """
        if call.begun:
            written = text
        elif named or (call.name and call.arguments):
            call.begun, written = True, "".join(call.arguments)
            call.id = self._own_id(call.own_id)
            payload = freeze({"call_id": call.id, "name": call.name})
            self._made.append(Chunk("tool-input-start", id=call.id, payload=payload))
        else:
            self._waiting = call if call.name else self._waiting
            return
        if written:
            self._made.append(Chunk("tool-input-delta", written, call.id))

    def _own_id(self, given: str) -> str:
        """Return the id that the provider gave to a call; a new one if it gave none, or gave it to another call too."""
        while not given or given in self._ids:
            given = f"call_{RANDOM_IDS.next()}"
        self._ids.add(given)
        return given


def _repeats(call: _StreamedCall, name: str, text: str) -> bool:
    """Whether a piece is a whole call once more."""
    return name == call.name and len(text) == call.size and text == "".join(call.arguments)


def _is_another(call: _StreamedCall, own_id: str, text: str) -> bool:
    """Whether a piece that names a tool begins another call than the one with its index or its id."""
    if own_id and call.own_id and own_id != call.own_id:
        return True
    return call.end.reached and bool(text.strip())


def _call_chunk(call: _StreamedCall) -> Chunk:
    """Return the whole call, read as in a message. Arguments that are not a JSON object stay text."""
    part = _tool_part(call)
    payload: Json = {"call_id": call.id, "name": call.name, "arguments": part.arguments}
    more = {name: value for name, value in {**call.inner, **call.rest}.items() if name not in _CALL_FIELDS}
    payload |= {"metadata": more} if more else {}
    if call.kind == "function" and isinstance(part.arguments, str):
        payload |= _odd_arguments(part.arguments)
    if part.metadata:
        payload["provider_metadata"] = part.metadata
    return Chunk("tool-call", id=call.id, payload=freeze(payload))


def _odd_arguments(text: str) -> Json:
    """Return the note about arguments that are not a JSON object: another value, nothing, or invalid JSON."""
    if text.strip() in ("", "null"):
        return {"arguments": {}}
    value = strict_json(text)
    return {"invalid": True} if value is None or is_mapping(value) else {"arguments": value}


def _tool_part(call: _StreamedCall) -> ToolPart:
    text = "".join(call.arguments)
    said = {"input": text} if call.kind == "custom" else {"arguments": text}
    rest = {name: value for name, value in call.rest.items() if name in _CALL_FIELDS}
    wire: Json = {**rest, "id": call.id, "type": call.kind, call.kind: {"name": call.name, **said}}
    (message,) = openai_chat.read([{"role": "assistant", "tool_calls": [wire]}])
    (part,) = message.parts
    assert isinstance(part, ToolPart)  # noqa: S101 - an entry with a function or a custom tool is one
    return part


def _arguments_text(arguments: object) -> str:
    """Return arguments as text; some providers send an object."""
    return arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
