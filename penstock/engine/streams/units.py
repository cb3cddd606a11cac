"""A text on its way through a lane, and the pieces it came in: which may leave, and as what. It knows no lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine import edits as edit_ops
from penstock.engine.edits import Edit
from penstock.engine.streams.deltas import Pending

if TYPE_CHECKING:
    from penstock.engine.chunks import Chunk
    from penstock.engine.edits import Edits
    from penstock.engine.streams.tracks import Track


class Unit:
    """A text at work: one block, or several neighbouring ones.

    Attributes:
        kind: ``text`` or ``reasoning``.
        id: the id of the block at hand.
        last: a chunk of the text, for what is written behind its end.
        fed: how long the text is so far.
        closed: whether the text has ended.
        decided: the edits to what is decided.
        gone: up to where it has left, or was taken away.
    """

    __slots__ = ("_track", "closed", "decided", "fed", "gone", "id", "kind", "last")

    def __init__(self, kind: str, template: Chunk, track: Track) -> None:
        self.kind = kind
        self.id = template.id
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
        self.block = unit.id
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


def leave(piece: Piece, out: list[Chunk]) -> bool:
    """Let a piece leave, or as much of it as is decided; tell whether it has left whole."""
    unit = piece.unit
    until = unit.decided.until
    if piece.tail:
        if not unit.closed and unit.id == piece.block and until <= piece.end:
            return False  # something may be written there yet
        edits = unit.decided.take(piece.end, final=True) if unit.closed and unit.id == piece.block else ()
        _emit(piece, "".join(edit.text for edit in edits), out)
        return True
    if until >= piece.end:
        edits = unit.decided.take(piece.end, final=False)
        if not edits and unit.gone <= piece.start:
            if piece.text:
                out.append(
                    piece.chunk if len(piece.text) == len(piece.chunk.text) else piece.chunk.with_text(piece.text)
                )
            unit.gone = piece.end
        else:
            _emit(piece, _edited(piece, piece.end, edits), out)
        return True
    if until > piece.start:
        _emit(piece, _edited(piece, until, unit.decided.take(until, final=False)), out)
        piece.text = piece.text[until - piece.start :]
        piece.start = until
    return False


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


def _emit(piece: Piece, text: str, out: list[Chunk]) -> None:
    if text:
        out.append(piece.chunk.with_text(text))
