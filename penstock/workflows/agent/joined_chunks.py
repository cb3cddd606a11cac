"""`JoinedChunks`: the chunks of an answer that is still open, in as little memory as its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.chunks import DELTAS, Chunk
from penstock.engine.values.growing_text import GrowingText

if TYPE_CHECKING:
    from collections.abc import Iterator


class JoinedChunks:
    """The chunks of an answer, in order. Pieces of one text that follow one another are joined into one chunk."""

    __slots__ = ("_chunks", "_last", "_text")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._last: Chunk | None = None  # the first piece of the text at the end
        self._text = GrowingText()  # that text

    def append(self, chunk: Chunk) -> None:
        """Add a chunk."""
        if chunk.type not in DELTAS:
            self._end_text()
            self._chunks.append(chunk)
            return
        if self._last is None or not chunk.differs_in_text(self._last):
            self._end_text()
            self._last = chunk
        self._text.write(chunk.text)

    def _end_text(self) -> None:
        if self._last is not None:
            self._chunks.append(self._last.with_text(self._text.getvalue()))
            self._last, self._text = None, GrowingText()

    def __iter__(self) -> Iterator[Chunk]:
        """Iterate over the chunks."""
        self._end_text()
        return iter(self._chunks)

    def __reversed__(self) -> Iterator[Chunk]:
        """Iterate over the chunks, the last one first."""
        self._end_text()
        return reversed(self._chunks)

    def __bool__(self) -> bool:
        """Return whether there is a chunk."""
        return self._last is not None or bool(self._chunks)
