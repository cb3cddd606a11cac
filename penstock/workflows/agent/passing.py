"""Chunks that belong to no answer on their way to the client: what hooks and tools write, and how steps end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.messages import DataPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.chunks import Chunk


def is_for_client(chunk: Chunk) -> bool:
    """Tell whether a chunk is sent to the client: a model's own end and what it says of itself are not."""
    return chunk.type not in ("finish", "response-metadata")


class Passed(NamedTuple):
    """Chunks that belong to no answer, as they left the stream's stage.

    Attributes:
        chunks: what may leave now.
        let: what the guards let pass: it leaves now, or behind an answer that is held.
        outcome: their verdict, if there was a stage.
    """

    chunks: Sequence[Chunk]
    let: Sequence[Chunk] = ()
    outcome: Outcome | None = None

    @property
    def blocked(self) -> bool:
        """Whether a verdict was given about them."""
        return self.outcome is not None and self.outcome.blocked


async def passed(run: Run, chunks: Iterable[Chunk]) -> Passed:
    """Return chunks that belong to no answer as the guards of the stream let them leave."""
    made = list(chunks)
    if not made:
        return Passed(())
    if not run.serves("process_output_stream"):
        return Passed(run.let_out(made), made)
    async with run.process_output_chunks(made) as stream:
        left = [chunk async for chunk in stream]
    blocked = stream.outcome is not None and stream.outcome.blocked
    return Passed(left, (), stream.outcome) if blocked else Passed(run.let_out(left), left, stream.outcome)


def keep_data(run: Run, answer: str, chunks: Iterable[Chunk], *, before: Iterable[Chunk] = ()) -> None:
    """Keep data with the answer of that id, unless it is only to be shown; ``before``: what was written before it."""
    message = run.message_list.get(answer)
    first, last = _data_parts(before), _data_parts(chunks)
    if message is not None and (first or last):
        run.message_list = run.message_list.replace(message.with_parts((*first, *message.parts, *last)))


def _data_parts(chunks: Iterable[Chunk]) -> tuple[DataPart, ...]:
    return tuple(
        [
            DataPart(chunk.type.removeprefix("data-"), chunk.payload.get("data", chunk.payload))
            for chunk in chunks
            if chunk.is_data and not chunk.transient
        ]
    )
