"""`BatchPartsProcessor`: join small pieces of streamed text into fewer, larger chunks.

It holds the buffer of one text (`TextBatch`) and the search for the ends of sentences in a text that arrives in pieces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.detection.deferred import deferred
from penstock.engine.processor.option_checks import check_number, check_optional_count
from penstock.engine.processor.processor import EditsClaim, ErrorPolicy, Processor, ProcessorRole, flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import OutputStreamContext
    from penstock.engine.values.chunks import Chunk


Batches: TypeAlias = "dict[OutputStreamContext[Any], TextBatch]"
"""The open batch of each stream. Text that one attempt of the model left unsent must not appear in the next attempt."""

_ASIDE = frozenset({"raw", "response-metadata"})
"""Chunks that are not part of the answer: they may overtake text that still waits."""


class BatchPartsProcessor(Processor[Batches]):
    """Join pieces of streamed text into larger chunks. A batch is sent when it reaches the first of its limits.

    Only pieces of the same text block are joined. Other chunks are never held back: the waiting text is sent before
    them (see ``emit_on_non_text``). The rest is sent at the end of each text block, at the end of the model step, and
    when the source ends or fails.

    Args:
        batch_size: send a batch once it holds this many pieces, 1 or more; empty pieces do not count. None: no limit.
        batch_characters: send a batch once it holds at least this many characters, 1 or more. None: no limit.
        batch_sentences: send whole sentences and lines as soon as they end; an unfinished sentence waits.
        max_wait_time: send a batch at the latest this many seconds after its first piece arrived. None or 0: no limit.
            Without an event loop, the time is checked only when the next chunk arrives.
        emit_on_non_text: send the waiting text before every other chunk. If False, chunks that are not part of the
            answer (``raw``, ``response-metadata``, transient data) pass by and the text goes on collecting.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option has a value that is not allowed.
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
        name = type(self).__name__
        if id is not None:
            self.id = id
        allowed = "an int of 1 or more, or None"
        self.batch_size = check_optional_count(name, "batch_size", batch_size, allowed, 1)
        self.batch_characters = check_optional_count(
            name, "batch_characters", batch_characters, "an int of 1 or more, or None", 1
        )
        self.batch_sentences = flag(name, "batch_sentences", batch_sentences)
        self.max_wait_time = _seconds(name, max_wait_time)
        self.emit_on_non_text = flag(name, "emit_on_non_text", emit_on_non_text)
        if self.max_wait_time is not None:
            self.timed = True  # only then is a source read by a task of its own

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext[Batches]) -> Chunk | Sequence[Chunk]:
        """Add a piece of text to its batch, and return the chunks to send now."""
        if chunk.type != "text-delta":
            if not self.emit_on_non_text and (chunk.transient or chunk.type in _ASIDE):
                return chunk
            held = self.flush(ctx)
            return [*held, chunk] if held else chunk
        batch = ctx.state.get(ctx)
        if batch is None:
            batch = ctx.state[ctx] = TextBatch()
        sent = [] if batch.takes(chunk) else batch.take()
        begins = not batch.count
        sent += self._added(batch, chunk)
        if self.max_wait_time is not None and (sent or begins):
            ctx.wake_after(self.max_wait_time if batch.count else None)
        return sent

    def flush(self, ctx: OutputStreamContext[Batches]) -> Sequence[Chunk]:
        """Return the text that is still waiting, as one chunk or none."""
        batch = ctx.state.pop(ctx, None)
        if batch is None:
            return ()
        if self.max_wait_time is not None:
            ctx.wake_after(None)
        return batch.take()

    def wake(self, ctx: OutputStreamContext[Batches]) -> Sequence[Chunk]:
        """Return the text that is still waiting: ``max_wait_time`` has passed."""
        return self.flush(ctx)

    def _added(self, batch: TextBatch, chunk: Chunk) -> list[Chunk]:
        """Add a piece to the batch; return the batch if it is full, or its sentences that have ended."""
        end = batch.end_in(chunk) if self.batch_sentences else None
        batch.add(chunk)
        if self._full(batch):
            return batch.take()
        return [] if end is None else batch.take_until(end)

    def _full(self, batch: TextBatch) -> bool:
        size, characters = self.batch_size, self.batch_characters
        return (size is not None and batch.count >= size) or (characters is not None and batch.length >= characters)


def _seconds(processor: str, given: float | None) -> float | None:
    """Return ``max_wait_time`` in seconds; None for no limit."""
    if given is None:
        return None
    allowed = "a number of seconds above 0; or None or 0 for no limit"
    return float(check_number(processor, "max_wait_time", given, allowed)) or None


class TextBatch:
    """The pieces of one text that wait to be sent as one chunk.

    Attributes:
        length: the number of characters that it holds.
    """

    __slots__ = ("_last", "_pending", "_texts", "length")

    def __init__(self) -> None:
        self._last: Chunk | None = None  # its payload includes the payloads of the pieces before it
        self._texts: list[str] = []
        self._pending = ""
        self.length = 0

    @property
    def count(self) -> int:
        """The number of pieces that it holds; pieces without text do not count."""
        return len(self._texts)

    def takes(self, chunk: Chunk) -> bool:
        """Tell whether a piece belongs to the same text as the pieces that it holds."""
        last = self._last
        return last is None or (last.id == chunk.id and last.run_id == chunk.run_id)

    def add(self, chunk: Chunk) -> None:
        """Add a piece. Payloads are merged; the later piece wins where both have the same name."""
        last, text = self._last, chunk.text
        if text:
            self._texts.append(text)
            self.length += len(text)
            self._pending = pending_after(text, self._pending)
        if last is not None and last.payload and last.payload != chunk.payload:
            chunk = chunk.with_payload({**last.payload, **chunk.payload})
        self._last = chunk

    def end_in(self, chunk: Chunk) -> int | None:
        """Return where in the next piece the last sentence ends; None if none does."""
        return last_end(chunk.text, self._pending) if chunk.text else None

    def take(self) -> list[Chunk]:
        """Empty the batch, and return it as one chunk: the original chunk if there was only one."""
        last, texts = self._last, self._texts
        self._last, self._texts, self._pending, self.length = None, [], "", 0
        if last is None:
            return []
        text = "".join(texts)
        return [last if last.text == text else last.with_text(text)]

    def take_until(self, end: int) -> list[Chunk]:
        """Return the batch up to a place in its last piece, and keep the rest of that piece."""
        last, text = self._last, self._texts.pop()
        if text[:end]:
            self._texts.append(text[:end])
        made = self.take()
        if last is not None and text[end:]:
            self.add(last.with_text(text[end:]))
        return made


_MARKS = ".!?…"  # end a sentence if white space follows
_WIDE = "。！？"  # end a sentence by themselves: Chinese and Japanese put no space after them
_CLOSERS = "\"')]}*_»”’›」』）】》"

_CLOSING = re.escape(_CLOSERS)
# A run of wide marks is tried from its start only, and the quantifiers are possessive: the search stays linear.
_END = deferred(
    rf"[{re.escape(_MARKS)}][{_CLOSING}]*+(?=\s)"
    rf"|(?<![{_WIDE}])[{_WIDE}]++[{_CLOSING}]*+(?=[^{_WIDE}{_CLOSING}])"
    r"|\n"
)


def last_end(text: str, pending: str = "") -> int | None:
    """Return the index in a piece of text at which its last finished sentence ends; None if no sentence ends there.

    The end of a sentence is known only from the text behind it: ``3.`` may go on as ``3.14``, and a quote may close
    after a full stop. White space after a sentence belongs to the next one; a line break ends a sentence. Abbreviations
    are not
    recognised: to take one for an end cuts the text once more and loses nothing.

    Args:
        text: the piece.
        pending: what `pending_after` returned for the text before.
    """
    last = None
    for found in _END.finditer(text):
        last = found.end()
    if last is None and pending:
        rest = text.lstrip(_CLOSERS)
        if rest and (rest[0] not in _WIDE if pending in _WIDE else rest[0].isspace()):
            return len(text) - len(rest)
    return last


def pending_after(text: str, pending: str = "") -> str:
    """Return the punctuation mark at the end of a text that may end a sentence; empty if there is none.

    Args:
        text: a piece, not empty.
        pending: the result of this function for the text before.
    """
    bare = text.rstrip(_CLOSERS)
    if not bare:
        return pending
    return bare[-1] if bare[-1] in _MARKS + _WIDE else ""
