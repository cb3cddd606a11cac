"""The pipe of a lane: holds back what is not decided, and lets everything leave in the order it came.

It knows chunks and tracks, no step. Chunks that are no pieces of a text wait behind held text; only transient data
overtake. Neighbouring texts of an answer are one text to the lane, as its parts are in a message: of texts that are
written in turns, the later one and what comes behind it wait for the end of the first.
"""

from __future__ import annotations

import json
import re
from collections import deque
from typing import TYPE_CHECKING

from penstock.engine.streams.decided import Pending
from penstock.engine.streams.hooks import STEP_ENDS
from penstock.engine.streams.tracks import Subject, judge_chunk
from penstock.engine.streams.values import PROBE, chunk_texts, is_sealed, rewritten, without_copies
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.answers import named
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import freeze, thaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.streams.tracks import Lane, Track
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value


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

    __slots__ = ("_borders", "_track", "block", "closed", "decided", "fed", "gone", "id", "kind", "last")

    def __init__(self, kind: str, template: Chunk, track: Track) -> None:
        self.kind = kind
        self.id = template.id
        self.block = 0
        self.last = template
        self.fed = 0
        self.gone = 0
        self.closed = False
        self.decided = Pending()
        self._borders: tuple[int, ...] = ()  # where a block begins in what is fed next
        self._track = track

    async def feed(self, text: str) -> None:
        """Append to the text."""
        self.fed += len(text)
        borders, self._borders = self._borders, ()
        self.decided.add(await self._track.feed(text, borders, final=False))

    def begin_block(self, id: str) -> None:
        """Begin the next of neighbouring blocks."""
        self._borders = (0,)
        self.id = id
        self.block += 1
        self.last = self.last.with_id(id)

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


async def besides(lane: Lane, chunk: Chunk, kind: str) -> Chunk:
    """Return a chunk of a text as a lane leaves what it says besides the text; copies of the text are taken out."""
    if not chunk.payload:
        return chunk
    payload = without_copies(chunk.payload, chunk.text) if lane.guards else chunk.payload
    probe = Chunk(PROBE, id=chunk.id, payload=payload)
    made = rewritten(probe, await judge_chunk(lane, probe, chunk_texts(probe, lane.kinds, kind))).payload
    return chunk if made == chunk.payload else chunk.with_payload(made)


INPUTS = frozenset({"tool-input-start", "tool-input-delta", "tool-input-end"})


class Inputs:
    """The calls of tools that are being written. A string in JSON may be disguised, so it is judged as the value."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._held: dict[str, list[Chunk]] = {}

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Hold a chunk; return all of its call once it is written."""
        await judge_chunk(self._lane, chunk, ())
        chunk = await besides(self._lane, chunk, "tool")
        self._held.setdefault(chunk.id, []).append(chunk)
        return await self._judged(self._held.pop(chunk.id)) if chunk.type == "tool-input-end" else ()

    async def done(self) -> Sequence[Chunk]:
        """Return what was written of calls that nothing ended."""
        held, self._held = self._held, {}
        return [chunk for chunks in held.values() for chunk in await self._judged(chunks)]

    def give_up(self) -> Sequence[Chunk]:
        """Return what was written of calls that nothing ended, as it came."""
        held, self._held = self._held, {}
        return [chunk for chunks in held.values() for chunk in chunks]

    async def _judged(self, chunks: list[Chunk]) -> Sequence[Chunk]:
        written = "".join(chunk.text for chunk in chunks)
        read = _Reading(written)
        probe = Chunk(PROBE, id=chunks[0].id, payload={"arguments": read.value})
        edits = await judge_chunk(self._lane, probe, chunk_texts(probe, self._lane.kinds, "tool"))
        if not edits and not read.hides:
            return chunks
        made: Value = rewritten(probe, edits).payload["arguments"]
        return _rewritten(chunks, json.dumps(thaw(made), ensure_ascii=False) if read.is_json else str(made))


class _Reading:
    """What was written, as a value.

    Attributes:
        value: the value; what is no JSON, as text without escapes that could be read elsewhere.
        is_json: whether it is JSON.
        hides: whether something was written that is not in the value.
    """

    def __init__(self, written: str) -> None:
        self.hides = False
        self.is_json = True
        try:
            self.value: Value = freeze(json.loads(written, object_pairs_hook=self._mapping))
        except (ValueError, RecursionError, MessageError):
            self.value = _ESCAPE.sub(_plain, written)
            self.is_json = self.hides = False

    def _mapping(self, pairs: list[tuple[str, Value]]) -> dict[str, Value]:
        made = dict(pairs)
        self.hides = self.hides or len(made) < len(pairs)
        return made


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def _plain(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for, if it may stand there by itself."""
    code = escape.group(1)
    char = chr(int(code, 16)) if code else escape.group()[1]
    plain = char.isprintable() and char not in '"\\' and (code is not None or char == "/")
    return char if plain else escape.group()


def _rewritten(chunks: Sequence[Chunk], text: str) -> Sequence[Chunk]:
    """Return the chunks of a call with another text, all of it in the first that had some."""
    made: list[Chunk] = []
    for chunk in chunks:
        if chunk.text:
            chunk, text = chunk.with_text(text), ""  # noqa: PLW2901 - what stands in its place
        if chunk.text or chunk.type != "tool-input-delta":
            made.append(chunk)
    return made


_KINDS = {f"{kind}-{what}": (kind, what) for kind in ("text", "reasoning") for what in ("start", "delta", "end")}
_TOOLS = frozenset({"tool-call", "tool-result", "tool-error"})


class TextPipe:
    """A lane, and what it holds back."""

    def __init__(self, lane: Lane, written: list[Chunk]) -> None:
        self._lane = lane
        self._written = written
        self._queue: deque[Piece | Chunk] = deque()
        self._open: dict[tuple[str, str], Unit] = {}
        self._announced: set[tuple[str, str]] = set()
        self._at_hand: Unit | None = None  # the text that is being written, one at a time
        self._later: list[Chunk] = []  # what waits for its end: another text that has begun, and all behind that
        self._resting: Unit | None = None  # its block has ended, and a neighbour may follow
        self._latest: Unit | None = None  # the text that is the message's last part so far
        self._parts: set[tuple[str, str]] = set()  # calls, and thoughts that nobody judges
        self._inputs = Inputs(lane)

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Take in a chunk; return what may leave."""
        unit = self._at_hand
        if unit is not None and chunk.type == "text-delta" and chunk.id == unit.id and chunk.text and not chunk.payload:
            self._queue.append(Piece(unit, chunk, unit.fed))  # what `_taken` comes to for most chunks
            await unit.feed(chunk.text)
        elif chunk.transient and chunk.is_data:
            return [*await self._judged(chunk), *self._leaving()]
        else:
            await self._taken([chunk])
        return self._leaving()

    async def end(self) -> Sequence[Chunk]:
        """Close all texts; return what is left."""
        await self._all_ended()
        await self._rest_closed()
        return self._leaving()

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Return nothing: it has no timers."""
        del now
        return ()

    def deadline(self) -> float | None:
        """Return None: it has no timers."""
        return None

    async def give_up(self) -> Sequence[Chunk]:
        """Return what is held as it came: something else is to judge it."""
        held = [chunk for item in self._queue if (chunk := unjudged(item)) is not None]
        self._queue.clear()
        self._open.clear()
        self._at_hand = self._resting = self._latest = None
        later, self._later = self._later, []
        return [*held, *self._inputs.give_up(), *later]

    async def _taken(self, chunks: list[Chunk]) -> None:
        """Take in chunks, and those that waited for what they end."""
        todo = deque(chunks)
        while todo:
            chunk = todo.popleft()
            kind, what = _KINDS.get(chunk.type, ("", ""))
            if self._waits(kind, what, chunk):
                self._later.append(chunk)
            elif kind in self._lane.kinds:
                await self._text(kind, what, chunk)
            else:
                await self._other(chunk)
            if self._later and self._at_hand is None:
                todo.extendleft(reversed(self._later))
                self._later = []

    def _waits(self, kind: str, what: str, chunk: Chunk) -> bool:
        """Tell whether a chunk must wait for the end of the text at hand."""
        unit = self._at_hand
        if unit is None or (kind == "text" and chunk.id == unit.id) or chunk.type in STEP_ENDS:
            return False
        another = kind == "text" and what == "delta" and chunk.text != ""
        return bool(self._later) or (another and (kind, unit.id) in self._announced)

    # Texts

    async def _text(self, kind: str, what: str, chunk: Chunk) -> None:
        key = (kind, chunk.id)
        chunk = await besides(self._lane, chunk, kind) if chunk.payload else chunk
        unit = self._open.get(key)
        if what == "delta" and chunk.text:
            if unit is None:
                unit = await self._begun(kind, chunk)
            self._queue.append(Piece(unit, chunk, unit.fed))
            await unit.feed(chunk.text)
            return
        if what != "delta":
            if unit is not None:
                await self._ended(unit)
            if what == "start":
                await self._bare_ended(kind)
                self._announced.add(key)
            else:
                self._announced.discard(key)
        self._queue.append(chunk)

    async def _bare_ended(self, kind: str) -> None:
        """Close the texts of a kind that nothing announced: nothing will end them, either."""
        for unit in list(self._open.values()):
            if unit.kind == kind and (kind, unit.id) not in self._announced:
                await self._ended(unit)

    async def _begun(self, kind: str, chunk: Chunk) -> Unit:
        """Return the unit of a block whose first piece this is: its neighbour's, or a new one."""
        await self._bare_ended(kind)
        unit = self._resting
        if unit is not None and unit is self._latest and kind == "text":
            self._resting = None
            unit.begin_block(chunk.id)
        else:
            await self._rest_closed()
            template = Chunk(f"{kind}-delta", "", chunk.id, run_id=chunk.run_id)
            unit = Unit(kind, template, self._lane.open(Subject(template, kind)))
        self._latest = self._open[kind, chunk.id] = unit
        if kind == "text":
            self._at_hand = unit
        return unit

    async def _ended(self, unit: Unit) -> None:
        """Close a block. Text rests until it is known whether a neighbour follows."""
        del self._open[unit.kind, unit.id]
        self._queue.append(Piece(unit, unit.last, unit.fed, tail=True))
        if unit.kind != "text":
            await unit.close()
            return
        self._at_hand, self._resting = None, unit

    async def _rest_closed(self) -> None:
        unit, self._resting = self._resting, None
        if unit is not None:
            await unit.close()

    async def _all_ended(self) -> None:
        while self._open:
            for unit in list(self._open.values()):
                await self._ended(unit)
            later, self._later = self._later, []
            await self._taken(later)
        self._queue.extend(await self._inputs.done())

    # Everything else

    async def _other(self, chunk: Chunk) -> None:
        if self._is_part(chunk):
            self._latest = None
            await self._rest_closed()
        if chunk.type in STEP_ENDS:
            await self._all_ended()  # the last one rests: who reads what follows a step's end puts it behind the text
        if chunk.type in INPUTS and "tool" in self._lane.kinds:
            self._queue.extend(await self._inputs.feed(chunk))
            return
        if chunk.type == "tool-call":
            self._queue.extend(await self._inputs.done())
        self._queue.extend(await self._judged(chunk))

    def _is_part(self, chunk: Chunk) -> bool:
        """Tell whether it becomes a part of the message, so that texts around it are no neighbours."""
        if chunk.type in _TOOLS:
            return self._is_new("tool", str(named(chunk, "call_id") or chunk.id))
        if chunk.type == "reasoning-delta":
            return bool(chunk.text) and self._is_new("reasoning", chunk.id)
        if chunk.type == "reasoning-end":
            self._parts.discard(("reasoning", chunk.id))
        return chunk.type in ("source", "file") or (chunk.is_data and not chunk.transient)

    def _is_new(self, kind: str, id: str) -> bool:
        key = (kind, id)
        known = key in self._parts
        self._parts.add(key)
        return not known

    async def _judged(self, chunk: Chunk) -> list[Chunk]:
        """Return a chunk as the lane leaves it; a provider's raw chunks pass no guard, which cannot read them."""
        if chunk.type == "raw" and self._lane.guards and not is_sealed(chunk):
            return []
        edits = await judge_chunk(self._lane, chunk, chunk_texts(chunk, self._lane.kinds))
        return [rewritten(chunk, edits)]

    def _leaving(self) -> list[Chunk]:
        """Return what may leave, in order: up to the first text that is not decided."""
        queue = self._queue
        if not queue and not self._written:
            return []
        out = Outgoing(self._written[:])
        self._written.clear()
        while queue:
            head = queue[0]
            if isinstance(head, Chunk):
                out.put(head)
            elif not leave(head, out):
                break
            queue.popleft()
        return out.all()
