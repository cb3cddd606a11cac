"""An answer put together from the chunks that leave a stream: its text, and the message they make. It knows no driver.

A chunk's payload may name things as the reference does (``toolCallId``) or as Penstock does (``call_id``).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

from penstock.engine.frozen import EMPTY
from penstock.engine.json_values import json_value
from penstock.engine.messages import (
    DataPart,
    FilePart,
    Message,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolPart,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.engine.chunks import Chunk
    from penstock.engine.frozen import Value
    from penstock.engine.messages import Part

_DELTAS: Mapping[str, Literal["text", "reasoning"]] = {"text-delta": "text", "reasoning-delta": "reasoning"}
_NAMES: Mapping[str, tuple[str, ...]] = {
    "call_id": ("call_id", "tool_call_id", "toolCallId"),
    "name": ("name", "tool_name", "toolName"),
    "arguments": ("arguments", "args", "input"),
    "result": ("result", "output"),
    "error": ("error",),
    "media_type": ("media_type", "mediaType", "mimeType"),
    "id": ("id", "sourceId"),
}


class Assembly:
    """What has left a stream so far. Lives as long as the stream."""

    __slots__ = ("_announced", "_parts", "_writing")

    def __init__(self) -> None:
        self._announced: set[tuple[str, str]] = set()
        self._parts: list[Block | Part] = []
        self._writing: dict[tuple[str, str], Callable[[str], object]] = {}

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk that leaves."""
        if chunk.type in _DELTAS:
            self.write(chunk)
        else:
            self._other(chunk)

    def write(self, chunk: Chunk) -> None:
        """Take in a piece of a text."""
        key = (chunk.type, chunk.id)
        write = self._writing.get(key)
        if write is None:
            self._end_bare(chunk.type)
            block = Block(_DELTAS[chunk.type], chunk.id)
            write = self._writing[key] = block.text.write
            self._parts.append(block)
        write(chunk.text)

    def _end_bare(self, type: str) -> None:
        """Take it that texts which nothing announced have ended: nothing else will end them."""
        for key in [key for key in self._writing if key[0] == type and key not in self._announced]:
            del self._writing[key]

    @property
    def at_hand(self) -> tuple[str | None, Callable[[str], object]]:
        """The id of the text that was written to last, and what writes to it; no id before and between texts."""
        key, write = next(reversed(self._writing.items()), (("", None), _unwritten))
        return (key[1], write) if key[0] == "text-delta" else (None, write)

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(part.text.getvalue() for part in self._parts if isinstance(part, Block) and part.kind == "text")

    @property
    def blocks(self) -> tuple[str, ...]:
        """The ids of the texts that are out."""
        return tuple(dict.fromkeys(part.id for part in self._parts if isinstance(part, Block)))

    @property
    def empty(self) -> bool:
        """Whether nothing of an answer is out."""
        return not self._parts

    @property
    def message(self) -> Message:
        """The answer as a message; without parts where nothing has left."""
        parts = tuple(part.part() if isinstance(part, Block) else part for part in self._parts)
        return Message("assistant", parts)

    def _other(self, chunk: Chunk) -> None:
        if chunk.type in ("text-start", "reasoning-start"):
            self._announced.add((chunk.type.replace("-start", "-delta"), chunk.id))
        elif chunk.type in ("text-end", "reasoning-end"):
            key = (chunk.type.replace("-end", "-delta"), chunk.id)
            self._announced.discard(key)
            self._writing.pop(key, None)
        elif chunk.type in ("tool-call", "tool-result", "tool-error"):
            self._tool(chunk)
        elif chunk.type == "source":
            self._parts.append(SourcePart(named(chunk, "id"), chunk.payload.get("url"), chunk.payload.get("title")))
        elif chunk.type == "file":
            get = chunk.payload.get
            self._parts.append(
                FilePart(data=get("data"), url=get("url"), media_type=named(chunk, "media_type"), name=get("name"))
            )
        elif chunk.is_data and not chunk.transient:
            self._parts.append(DataPart(chunk.type.removeprefix("data-"), chunk.payload.get("data", chunk.payload)))

    def _tool(self, chunk: Chunk) -> None:
        """Note a call; a result or an error completes the call that it answers."""
        call_id = str(named(chunk, "call_id") or chunk.id)
        known = next(
            (part for part in self._parts if isinstance(part, ToolPart) and part.call_id == call_id),
            None,
        )
        name = str(named(chunk, "name") or (known.name if known is not None else ""))
        arguments = named(chunk, "arguments") if known is None else known.arguments
        made = _tool_part(chunk, call_id, name, EMPTY if arguments is None else arguments)
        if known is None:
            self._parts.append(made)
        else:
            self._parts[self._parts.index(known)] = made


class Block:
    """A text that is being written: what it is, its id, and what is there."""

    __slots__ = ("id", "kind", "text")

    def __init__(self, kind: Literal["text", "reasoning"], id: str) -> None:
        self.kind = kind
        self.id = id
        self.text = io.StringIO()

    def part(self) -> Part:
        """Return the part of a message that it is."""
        text = self.text.getvalue()
        return TextPart(text) if self.kind == "text" else ReasoningPart(text)


def named(chunk: Chunk, what: str) -> Value:
    """Return what a chunk's payload says under any of the names it goes by; None if it says nothing."""
    return next((chunk.payload[name] for name in _NAMES[what] if name in chunk.payload), None)


def _tool_part(chunk: Chunk, call_id: str, name: str, arguments: Value) -> ToolPart:
    arguments = json_value(arguments, "arguments")
    if chunk.type == "tool-call":
        return ToolPart(call_id, name, arguments)
    if chunk.type == "tool-error":
        return ToolPart(call_id, name, arguments, state="error", error=str(named(chunk, "error")))
    return ToolPart(call_id, name, arguments, state="result", result=json_value(named(chunk, "result"), "result"))


def _unwritten(text: str) -> None:
    """Write nowhere: there is no text."""
