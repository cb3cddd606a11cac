"""What chunks of a text say besides it, judged as values, since it leaves with them. It knows lanes and chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.streams.values import PROBE, chunk_texts, rewritten, without_copies
from penstock.engine.values.chunks import Chunk

if TYPE_CHECKING:
    from penstock.engine.streams.lanes import Lane


async def besides(lane: Lane, chunk: Chunk, kind: str) -> Chunk:
    """Return a chunk of a text as a lane leaves what it says besides the text; copies of the text are taken out."""
    if not chunk.payload:
        return chunk
    payload = without_copies(chunk.payload, chunk.text) if lane.guards else chunk.payload
    probe = Chunk(PROBE, id=chunk.id, payload=payload)
    made = rewritten(probe, await lane.values(probe, chunk_texts(probe, lane.kinds, kind))).payload
    return chunk if made == chunk.payload else chunk.with_payload(made)
