"""A text on its way through a lane, and the pieces it came in: which may leave, and as what. It knows no lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.streams.deltas import Pending
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.edits import Edit

if TYPE_CHECKING:
    from penstock.engine.streams.tracks import Track
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edits


class Unit:
    """A text at work: one block, or several neighbouring ones.

    Attributes:
        kind: ``text`` or ``reasoning``.
        id: the id of the block at hand; a later block may bear it again.
        block: the number of the block at hand.
        last: a chunk of the text, for what is written behind its end.
        fed: how long the text is so far.
        closed: whether the text has ended.
        decided: the edits to what is decided.
        gone: up to where it has left, or was taken away.
    """

    __slots__ = ("_track", "block", "closed", "decided", "fed", "gone", "id", "kind", "last")

    def __init__(self, kind: str, template: Chunk, track: Track) -> None:
        self.kind = kind
        self.id = template.id
        self.block = 0
        self.last = template
        self.fed = 0
        self.gone = 0
        self.closed = False
        self.decided = Pending()
        self._track = track

    async def feed(self, text: str) -> None:
        """Take in more of the text."""
        self.fed += len(text)
        self.decided.add(await self._track.feed(text, final=False))

    async def goes_on(self, block: str) -> None:
        """Note that a neighbouring block begins."""
        await self._track.border()
        self.id = block
        self.block += 1
        self.last = self.last.with_id(block)

    async def close(self) -> None:
        """Note that the text has ended."""
        self.decided.add(await self._track.feed("", final=True))
        self.closed = True


class Piece:
    """A stretch of a text, as it came in one chunk; a tail is the end of a block, for what is written there."""

    __slots__ = ("block", "chunk", "end", "start", "tail", "text", "unit")

    def __init__(self, unit: Unit, chunk: Chunk, start: int, *, tail: bool = False) -> None:
        self.unit = unit
        self.chunk = chunk
        self.block = unit.block
        self.text = "" if tail else chunk.text
        self.start = start
        self.end = start + len(self.text)
        self.tail = tail


def unjudged(item: Piece | Chunk) -> Chunk | None:
    """Return what has not left of a piece, as it came; a chunk as it is; None if there is nothing."""
    if not isinstance(item, Piece):
        return item
    text = item.text[max(item.unit.gone - item.start, 0) :]
    if not text:
        return None
    return item.chunk if len(text) == len(item.chunk.text) else item.chunk.with_text(text)


class Outgoing:
    """Chunks that leave at once; stretches of one text among them as one chunk, if nothing else tells them apart.

    Without that every guard in a row would cut the chunks anew, and the last would be given many small ones.
    """

    __slots__ = ("_chunk", "_chunks", "_texts")

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        self._texts: list[str] = []  # of the chunk that is being put together
        self._chunk: Chunk | None = None

    def put(self, chunk: Chunk) -> None:
        """Let a chunk leave as it is."""
        self._finish()
        self._chunks.append(chunk)

    def write(self, text: str, piece: Chunk) -> None:
        """Let text leave that came in a chunk."""
        if self._chunk is not None and not piece.differs_in_text(self._chunk):
            self._finish()
        self._chunk = piece
        self._texts.append(text)

    def all(self) -> list[Chunk]:
        """Return the chunks."""
        self._finish()
        return self._chunks

    def _finish(self) -> None:
        if self._chunk is None:
            return
        text = "".join(self._texts)
        if text:
            self._chunks.append(self._chunk if text == self._chunk.text else self._chunk.with_text(text))
        self._chunk, self._texts = None, []


def leave(piece: Piece, out: Outgoing) -> bool:
    """Let a piece leave, or as much of it as is decided; tell whether it has left whole."""
    unit = piece.unit
    until = unit.decided.until
    if piece.tail:
        if not unit.closed and unit.block == piece.block and until <= piece.end:
            return False  # something may be written there yet
        edits = unit.decided.take(piece.end, final=True) if unit.closed and unit.block == piece.block else ()
        if edits:
            out.write("".join(edit.text for edit in edits), piece.chunk)
        return True
    whole = until >= piece.end
    if not whole and until <= piece.start:
        return False
    stop = piece.end if whole else until
    edits = unit.decided.take(stop, final=False)
    if edits or unit.gone > piece.start:
        out.write(_edited(piece, stop, edits), piece.chunk)
    else:
        out.write(piece.text if whole else piece.text[: stop - piece.start], piece.chunk)
        unit.gone = stop
    if not whole:
        piece.text = piece.text[stop - piece.start :]
        piece.start = stop
    return whole


def _edited(piece: Piece, until: int, edits: Edits) -> str:
    """Return what a piece becomes up to a place: what an edit that began before takes away is gone."""
    unit = piece.unit
    begin = min(max(piece.start, unit.gone), until)
    text = piece.text[begin - piece.start : until - piece.start]
    clipped: list[Edit] = []
    unit.gone = max(unit.gone, until)
    for edit in edits:
        unit.gone = max(unit.gone, edit.end)
        low, high = max(edit.start - begin, 0), max(min(edit.end, until) - begin, 0)
        clipped.append(Edit(low, high, edit.text, edit.kind, edit.step))
    return edit_ops.apply(text, tuple(clipped))
