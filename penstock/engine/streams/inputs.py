"""What a model writes to call a tool, held until it can be read as a value. It knows lanes and chunks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from penstock.engine.streams.besides import besides
from penstock.engine.streams.values import PROBE, chunk_texts, rewritten
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import freeze, thaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.streams.lanes import Lane
    from penstock.engine.values.frozen import Value

INPUTS = frozenset({"tool-input-start", "tool-input-delta", "tool-input-end"})


class Inputs:
    """The calls of tools that are being written. A string in JSON may be disguised, so it is judged as the value."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._held: dict[str, list[Chunk]] = {}

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Hold a chunk; return all of its call once it is written."""
        await self._lane.values(chunk, [])
        chunk = await besides(self._lane, chunk, "tool")
        self._held.setdefault(chunk.id, []).append(chunk)
        return await self._judged(self._held.pop(chunk.id)) if chunk.type == "tool-input-end" else ()

    async def done(self) -> Sequence[Chunk]:
        """Return what was written of calls that nothing ended."""
        held, self._held = self._held, {}
        return [chunk for chunks in held.values() for chunk in await self._judged(chunks)]

    def give_up(self) -> Sequence[Chunk]:
        """Return what was written of calls that nothing ended, as it came."""
        held, self._held = self._held, {}
        return [chunk for chunks in held.values() for chunk in chunks]

    async def _judged(self, chunks: list[Chunk]) -> Sequence[Chunk]:
        written = "".join(chunk.text for chunk in chunks)
        read = _Reading(written)
        probe = Chunk(PROBE, id=chunks[0].id, payload={"arguments": read.value})
        edits = await self._lane.values(probe, chunk_texts(probe, self._lane.kinds, "tool"))
        if not edits and not read.hides:
            return chunks
        made: Value = rewritten(probe, edits).payload["arguments"]
        return _rewritten(chunks, json.dumps(thaw(made), ensure_ascii=False) if read.is_json else str(made))


class _Reading:
    """What was written, as a value.

    Attributes:
        value: the value; what is no JSON, as text without escapes that could be read elsewhere.
        is_json: whether it is JSON.
        hides: whether something was written that is not in the value.
    """

    def __init__(self, written: str) -> None:
        self.hides = False
        self.is_json = True
        try:
            self.value: Value = freeze(json.loads(written, object_pairs_hook=self._mapping))
        except (ValueError, RecursionError, MessageError):
            self.value = _ESCAPE.sub(_plain, written)
            self.is_json = self.hides = False

    def _mapping(self, pairs: list[tuple[str, Value]]) -> dict[str, Value]:
        made = dict(pairs)
        self.hides = self.hides or len(made) < len(pairs)
        return made


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def _plain(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for, if it may stand there by itself."""
    code = escape.group(1)
    char = chr(int(code, 16)) if code else escape.group()[1]
    plain = char.isprintable() and char not in '"\\' and (code is not None or char == "/")
    return char if plain else escape.group()


def _rewritten(chunks: Sequence[Chunk], text: str) -> Sequence[Chunk]:
    """Return the chunks of a call with another text, all of it in the first that had some."""
    made: list[Chunk] = []
    for chunk in chunks:
        if chunk.text:
            chunk, text = chunk.with_text(text), ""  # noqa: PLW2901 - what stands in its place
        if chunk.text or chunk.type != "tool-input-delta":
            made.append(chunk)
    return made
