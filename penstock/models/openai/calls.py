"""The tool calls of an answer, put together from their pieces, as chunks; it knows no text and no connection.

Pieces belong together by their index; where that is missing, by their id; a piece without both goes on with the last
call, unless it names a tool after that one has one with arguments.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.formats import openai_chat
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze, is_mapping
from penstock.engine.values.messages import ToolPart
from penstock.engine.values.ports import RANDOM_IDS
from penstock.models.openai.wire import gather, object_of, parsed, says, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.models.openai.wire import Json


_SENT_BACK = frozenset({"extra_content", "thought_signature"})
"""What stands beside a call that only its provider (Gemini) can read, and needs back; the rest guards must read."""


@dataclass(slots=True)
class _Call:
    index: int | None
    own_id: str = ""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    rest: Json = field(default_factory=dict[str, "object"])
    inner: Json = field(default_factory=dict[str, "object"])
    kind: str = "function"
    begun: bool = False


class Calls:
    """The calls of one answer, in the order in which they began."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def __bool__(self) -> bool:
        """Whether any tool is called."""
        return bool(self._calls)

    def add(self, piece: Json) -> Iterator[Chunk]:
        """Yield the chunks of a piece of a call."""
        custom = object_of(piece.get("custom"))
        kind = "custom" if says(custom) else "function"
        inner = custom if kind == "custom" else object_of(piece.get("function"))
        name, text = text_of(inner.get("name")), _written(inner.get("input" if kind == "custom" else "arguments"))
        call = self._of(piece, name)
        call.kind = kind if says(inner) else call.kind
        call.own_id = call.own_id or text_of(piece.get("id"))
        call.name = call.name or name
        gather(call.rest, piece, {"index", "id", "type", "function", "custom"})
        gather(call.inner, inner, {"name", "arguments", "input"})
        yield from _told(call, text)

    def _of(self, piece: Json, name: str) -> _Call:
        """Return the call that a piece belongs to."""
        index, own_id = piece.get("index"), text_of(piece.get("id"))
        if isinstance(index, int):
            found = next((call for call in reversed(self._calls) if call.index == index), None)
            anew = found is not None and own_id and found.own_id not in ("", own_id) and name
            found = None if anew else found  # two whole calls under one index
        elif own_id:
            found = next((call for call in self._calls if call.own_id == own_id), None)
        else:
            last = self._calls[-1] if self._calls else None
            found = None if last is not None and name and last.name else last
        if found is None:
            found = _Call(index if isinstance(index, int) else None)
            self._calls.append(found)
        return found

    def end(self) -> Iterator[Chunk]:
        """Yield the ends of all calls, and the calls."""
        for call in self._calls:
            yield from _told(call, "", named=True)
            yield Chunk("tool-input-end", id=call.id)
            yield _whole(call)


def _told(call: _Call, text: str, *, named: bool = False) -> Iterator[Chunk]:
    """Yield the start of a call as soon as its name is known, and what is written of its arguments."""
    call.arguments += [text] if text else []
    if call.begun:
        written = text
    elif call.name or named:
        call.begun, written = True, "".join(call.arguments)
        call.id = call.own_id or f"call_{RANDOM_IDS.next()}"
        yield Chunk("tool-input-start", id=call.id, payload=freeze({"call_id": call.id, "name": call.name}))
    else:
        return
    if written:
        yield Chunk("tool-input-delta", written, call.id)


def _whole(call: _Call) -> Chunk:
    """Return the call, read as the chat format reads it: what is no JSON object stays the text that it is."""
    part = _part(call)
    payload: Json = {"call_id": call.id, "name": call.name, "arguments": part.arguments}
    more = {name: value for name, value in {**call.inner, **call.rest}.items() if name not in _SENT_BACK}
    payload |= {"metadata": more} if more else {}
    if call.kind == "function" and isinstance(part.arguments, str):
        payload |= _odd(part.arguments)
    if part.metadata:
        payload["provider_metadata"] = part.metadata
    return Chunk("tool-call", id=call.id, payload=freeze(payload))


def _odd(text: str) -> Json:
    """Return what is said of arguments that are no JSON object: another value, nothing, or no (unambiguous) JSON."""
    if text.strip() in ("", "null"):
        return {"arguments": {}}
    value = parsed(text)
    return {"invalid": True} if value is None or is_mapping(value) else {"arguments": value}


def _part(call: _Call) -> ToolPart:
    text = "".join(call.arguments)
    said = {"input": text} if call.kind == "custom" else {"arguments": text}
    rest = {name: value for name, value in call.rest.items() if name in _SENT_BACK}
    wire: Json = {**rest, "id": call.id, "type": call.kind, call.kind: {"name": call.name, **said}}
    (message,) = openai_chat.read([{"role": "assistant", "tool_calls": [wire]}])
    (part,) = message.parts
    assert isinstance(part, ToolPart)  # noqa: S101 - an entry with a function or a custom tool is one
    return part


def _written(arguments: object) -> str:
    """Return arguments as the text that they are meant to be; some providers send the object itself."""
    return arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
