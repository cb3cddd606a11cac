"""Makes a whole answer of a model's chunks. It knows chunks and answers, no model."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.values.answers import Assembly
from penstock.engine.values.frozen import EMPTY, FrozenDict
from penstock.engine.values.model import FINISH_REASONS, ModelAnswer, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.model import FinishReason


async def collected(stream: AsyncIterable[Chunk]) -> ModelAnswer:
    """Return a streamed answer whole; what the model raises comes out.

    An answer that has no ``finish`` has finished for the reason ``other``.
    """
    answer = Assembly()
    chunks: list[Chunk] = []
    async for chunk in stream:
        chunks.append(chunk)
        answer.add(chunk)
    end = next((chunk.payload for chunk in reversed(chunks) if chunk.type == "finish"), EMPTY)
    told = next((chunk.payload for chunk in chunks if chunk.type == "response-metadata"), EMPTY)
    reason = end.get("reason")
    return ModelAnswer(
        answer.message,
        cast("FinishReason", reason) if reason in FINISH_REASONS else "other",
        usage_of(end.get("usage")),
        FrozenDict({**told, **(end.get("provider_terms") or {}), **(end.get("metadata") or {})}),
        any(chunk.type == "text-start" and chunk.payload.get("refusal") is True for chunk in chunks),
        tuple(chunks),
    )


def usage_of(told: Values | None) -> Usage | None:
    """Return the usage that a ``finish`` chunk tells of."""
    return None if told is None else Usage(**told)
