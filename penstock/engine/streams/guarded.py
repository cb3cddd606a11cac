"""The pipe of a lane: holds back what is not decided, and lets everything leave in the order it came.

It knows chunks and tracks, no step. Chunks that are no pieces of a text wait behind held text; only transient data
overtake. Neighbouring texts of an answer are one text to the lane, as its parts are in a message: of texts that are
written in turns, the later one and what comes behind it wait for the end of the first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.engine.streams.besides import besides
from penstock.engine.streams.hooks import STEP_ENDS
from penstock.engine.streams.inputs import INPUTS, Inputs
from penstock.engine.streams.units import Outgoing, Piece, Unit, leave, unjudged
from penstock.engine.streams.values import chunk_texts, is_sealed, rewritten
from penstock.engine.values.answers import named
from penstock.engine.values.chunks import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.streams.lanes import Lane

_KINDS = {f"{kind}-{what}": (kind, what) for kind in ("text", "reasoning") for what in ("start", "delta", "end")}
_TOOLS = frozenset({"tool-call", "tool-result", "tool-error"})


class GuardedPipe:
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
        if chunk.transient and chunk.is_data:
            return [*await self._judged(chunk), *self._leaving()]
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
            await unit.goes_on(chunk.id)
        else:
            await self._rest_closed()
            template = Chunk(f"{kind}-delta", "", chunk.id, run_id=chunk.run_id)
            unit = Unit(kind, template, self._lane.open(kind, template))
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
        edits = await self._lane.values(chunk, chunk_texts(chunk, self._lane.kinds))
        return [rewritten(chunk, edits)]

    def _leaving(self) -> list[Chunk]:
        """Return what may leave, in order: up to the first text that is not decided."""
        out = Outgoing(self._written[:])
        self._written.clear()
        queue = self._queue
        while queue:
            head = queue[0]
            if isinstance(head, Chunk):
                out.put(head)
            elif not leave(head, out):
                break
            queue.popleft()
        return out.all()
