"""What a model writes to call a tool, held until it can be read as a value. It knows lanes and chunks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.chunks import Chunk
from penstock.engine.frozen import freeze, thaw
from penstock.engine.streams.values import PROBE, chunk_texts, rewritten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.frozen import Value
    from penstock.engine.streams.lanes import Lane

INPUTS = frozenset({"tool-input-start", "tool-input-delta", "tool-input-end"})


class Inputs:
    """The calls of tools that are being written. A string in JSON may be disguised, so it is judged as the value."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._held: dict[str, list[Chunk]] = {}

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Hold a chunk; return all of its call once it is written."""
        await self._lane.values(chunk, [])
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
        value, is_json = _read(written)
        probe = Chunk(PROBE, id=chunks[0].id, payload={"arguments": value})
        edits = await self._lane.values(probe, chunk_texts(probe, self._lane.kinds))
        if not edits:
            return chunks
        made: Value = rewritten(probe, edits).payload["arguments"]
        text = json.dumps(thaw(made), ensure_ascii=False) if is_json else str(made)
        deltas = [chunk for chunk in chunks if chunk.type == "tool-input-delta"]
        return [chunk.with_text(text) if chunk is deltas[0] else chunk for chunk in chunks if chunk not in deltas[1:]]


def _read(written: str) -> tuple[Value, bool]:
    """Return what was written, and whether it is JSON."""
    try:
        return freeze(json.loads(written)), True
    except ValueError:
        return written, False
