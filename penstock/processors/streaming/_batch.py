"""`Batch`: pieces of one text that wait to leave as one. It knows chunks; when one is full, it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.processors.streaming._sentences import last_end, pending_after

if TYPE_CHECKING:
    from penstock.engine.values.chunks import Chunk


class Batch:
    """Pieces of one text. Lives from its first piece until a stream's batcher has sent what is left.

    Attributes:
        length: how many characters it holds.
    """

    __slots__ = ("_last", "_pending", "_texts", "length")

    def __init__(self) -> None:
        self._last: Chunk | None = None  # with all that the pieces before it say besides their text
        self._texts: list[str] = []
        self._pending = ""
        self.length = 0

    @property
    def count(self) -> int:
        """How many pieces it holds; those without text do not count."""
        return len(self._texts)

    def takes(self, chunk: Chunk) -> bool:
        """Tell whether a piece is of the same text as those it holds."""
        last = self._last
        return last is None or (last.id == chunk.id and last.run_id == chunk.run_id)

    def add(self, chunk: Chunk) -> None:
        """Take in a piece. What pieces say besides their text is kept; of equal names the last one counts."""
        last, text = self._last, chunk.text
        if text:
            self._texts.append(text)
            self.length += len(text)
            self._pending = pending_after(text, self._pending)
        if last is not None and last.payload and last.payload != chunk.payload:
            chunk = chunk.with_payload({**last.payload, **chunk.payload})
        self._last = chunk

    def end_in(self, chunk: Chunk) -> int | None:
        """Return where in a piece that is to come the last sentence ends; None if none does."""
        return last_end(chunk.text, self._pending) if chunk.text else None

    def take(self) -> list[Chunk]:
        """Give away all that it holds, as one chunk: the very one that came, if it was the only one."""
        last, texts = self._last, self._texts
        self._last, self._texts, self._pending, self.length = None, [], "", 0
        if last is None:
            return []
        text = "".join(texts)
        return [last if last.text == text else last.with_text(text)]

    def take_until(self, end: int) -> list[Chunk]:
        """Give away what it holds up to a place in its last piece; the rest of that piece stays."""
        last, text = self._last, self._texts.pop()
        if text[:end]:
            self._texts.append(text[:end])
        made = self.take()
        if last is not None and text[end:]:
            self.add(last.with_text(text[end:]))
        return made
