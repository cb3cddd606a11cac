"""An answer that streams: a text in pieces, as a model sends it, and how much of it leaves the workflow."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.chunks import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run

PIECE = 4
"""How many characters of an answer come at once by default: those of a usual token."""

ANSWER: ContextVar[str] = ContextVar("penstock_streamed_answer", default="")
"""The id of the answer that streams in this task: findings in a stream name no message."""


class StreamedAnswer(NamedTuple):
    """The end of a streamed answer.

    Attributes:
        outcome: how the stream ended; None if nobody judged it.
        released: how many characters of text left the workflow before that.
    """

    outcome: Outcome | None
    released: int


def pieces_of(text: str, id: str, piece: int = PIECE) -> Iterator[Chunk]:
    """Yield a text as the chunks of one answer, ``piece`` characters at a time."""
    yield Chunk("text-start", id=id)
    for start in range(0, len(text), piece):
        yield Chunk("text-delta", text[start : start + piece], id)
    yield Chunk("text-end", id=id)


async def stream_answer(run: Run, text: str, id: str, piece: int = PIECE) -> StreamedAnswer:
    """Stream a text through a run, and return how that ended.

    Chunks leave as they do in production: live, unless a guard judges only the whole answer.

    Args:
        run: the run, entered.
        text: the answer.
        id: the id of the text in the stream.
        piece: how many characters come at once.
    """
    released = 0
    before = ANSWER.set(id)
    try:
        async with run.process_output_stream(pieces_of(text, id, piece)) as chunks:
            async for chunk in chunks:
                if chunk.type == "text-delta":
                    released += len(chunk.text)
            return StreamedAnswer(chunks.outcome, released)
    finally:
        ANSWER.reset(before)
