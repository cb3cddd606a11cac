"""`BatchPartsProcessor`: sends the text of a stream in fewer, larger pieces. What a text says, it does not know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.processor.processor import EditsClaim, ErrorPolicy, Processor, ProcessorRole, flag
from penstock.engine.values.errors import OptionError
from penstock.processors.streaming._batch import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import OutputStreamContext
    from penstock.engine.values.chunks import Chunk

Batches: TypeAlias = "dict[OutputStreamContext[Any], Batch]"
"""What waits, by stream: what one attempt of the model left unsent must not turn up in the next one."""

_ASIDE = frozenset({"raw", "response-metadata"})
"""The chunks that have no place in an answer, so that text may leave behind them."""


class BatchPartsProcessor(Processor[Batches]):
    """Joins pieces of streamed text; a batch is sent when the first of its limits is reached.

    Only pieces of one text are joined. Other chunks are never held: text that came before them is sent ahead of them.
    At the end of each text, of the step, and of a source that ends or breaks, what is left is sent.
    """

    id = "batch-parts"
    role: ProcessorRole = "transform"
    edits: EditsClaim | None = "anything"
    on_error: ErrorPolicy = "allow"

    def __init__(
        self,
        *,
        batch_size: int | None = 5,
        batch_characters: int | None = None,
        batch_sentences: bool = False,
        max_wait_time: float | None = None,
        emit_on_non_text: bool = True,
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            batch_size: send once so many pieces are there; empty ones do not count. None: however many.
            batch_characters: send once at least so many characters are there; None: however many.
            batch_sentences: send whole sentences and lines as they end; what is begun stays.
            max_wait_time: send at the latest so many seconds after the first piece came. None or 0: no limit. Without
                an event loop, time is looked at when the next chunk comes.
            emit_on_non_text: send before every other chunk. Otherwise chunks that have no place in an answer (``raw``,
                ``response-metadata``, transient data) pass by, and text goes on collecting.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.batch_size = _positive(name, "batch_size", batch_size)
        self.batch_characters = _positive(name, "batch_characters", batch_characters)
        self.batch_sentences = flag(name, "batch_sentences", batch_sentences)
        self.max_wait_time = _seconds(name, max_wait_time)
        self.emit_on_non_text = flag(name, "emit_on_non_text", emit_on_non_text)
        if self.max_wait_time is not None:
            self.timed = True  # only then is a source read by a task of its own

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext[Batches]) -> Chunk | Sequence[Chunk]:
        """Keep a piece of text, and return what is to be sent."""
        if chunk.type != "text-delta":
            if not self.emit_on_non_text and (chunk.transient or chunk.type in _ASIDE):
                return chunk
            held = self.flush(ctx)
            return [*held, chunk] if held else chunk
        batch = ctx.state.get(ctx)
        if batch is None:
            batch = ctx.state[ctx] = Batch()
        sent = [] if batch.takes(chunk) else batch.take()
        begins = not batch.count
        sent += self._added(batch, chunk)
        if self.max_wait_time is not None and (sent or begins):
            ctx.wake_after(self.max_wait_time if batch.count else None)
        return sent

    def flush(self, ctx: OutputStreamContext[Batches]) -> Sequence[Chunk]:
        """Return what is held."""
        batch = ctx.state.pop(ctx, None)
        if batch is None:
            return ()
        if self.max_wait_time is not None:
            ctx.wake_after(None)
        return batch.take()

    def wake(self, ctx: OutputStreamContext[Batches]) -> Sequence[Chunk]:
        """Return what is held: its time has come."""
        return self.flush(ctx)

    def _added(self, batch: Batch, chunk: Chunk) -> list[Chunk]:
        """Put a piece into the batch; return what is full, or has ended."""
        end = batch.end_in(chunk) if self.batch_sentences else None
        batch.add(chunk)
        if self._full(batch):
            return batch.take()
        return [] if end is None else batch.take_until(end)

    def _full(self, batch: Batch) -> bool:
        size, characters = self.batch_size, self.batch_characters
        return (size is not None and batch.count >= size) or (characters is not None and batch.length >= characters)


def _positive(processor: str, option: str, given: int | None) -> int | None:
    if given is not None and (type(given) is not int or given < 1):
        raise OptionError(processor, option, given, "an int of 1 or more, or None")
    return given


def _seconds(processor: str, given: float | None) -> float | None:
    """Return the seconds; None for no limit."""
    if given is None:
        return None
    if type(given) not in (int, float) or not math.isfinite(given) or given < 0:  # a bool is no number of seconds
        raise OptionError(processor, "max_wait_time", given, "a number of seconds above 0; or None or 0 for no limit")
    return float(given) or None
