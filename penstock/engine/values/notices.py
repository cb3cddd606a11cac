"""What a client is told of a verdict, as chunks; it knows chunks and tripwires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.tripwire import Tripwire


def tripwire_chunk(tripwire: Tripwire, run_id: str) -> Chunk:
    """Return the one chunk that tells a client of a verdict."""
    payload = {
        "reason": tripwire.reason,
        "retry": tripwire.retry,
        "metadata": tripwire.metadata,
        "processor_id": tripwire.processor_id,
        "stage": tripwire.stage,
    }
    return Chunk("tripwire", payload=freeze(payload), run_id=run_id)


def retry_chunk(tripwire: Tripwire, run_id: str) -> Chunk:
    """Return the chunk that ends a rejected attempt which the model may make again."""
    payload = {
        "reason": "retry",
        "retry_reason": tripwire.reason,
        "metadata": tripwire.metadata,
        "processor_id": tripwire.processor_id,
    }
    return Chunk("step-finish", payload=freeze(payload), run_id=run_id)


def retract_chunk(blocks: Iterable[str], run_id: str) -> Chunk:
    """Return the chunk that takes texts back which are out already."""
    return Chunk("retract", payload=freeze({"blocks": tuple(blocks)}), run_id=run_id)


def notices(tripwire: Tripwire, run_id: str, out: Iterable[str], *, retry: bool) -> tuple[Chunk, ...]:
    """Return what a client is told of a rejection: what is out is taken back where the answer goes on without it."""
    blocks = tuple(out)
    back = (retract_chunk(blocks, run_id),) if blocks else ()
    return (*back, retry_chunk(tripwire, run_id) if retry else tripwire_chunk(tripwire, run_id))
