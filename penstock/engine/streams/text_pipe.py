"""`TextPipe`: feeds chunks to a lane, holds text that is not decided yet, and releases chunks in order.

Chunks without text wait behind held text; only transient data chunks overtake it. All text of an answer is one text for
the lane, as its readers join it: the end of a block waits for the next block, or for the answer's end, if a finding
could begin in it. Reasoning is held up to the next part of another kind only, so that its end never waits for the text
of the answer. Reasoning behind that, and the text of a later step, is read together with the end of what has left: a
finding that begins there is hidden from the border on. If two texts are streamed in turns, the later one and everything
after it wait for the end of the first.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict, deque
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.streams.chunk_texts import (
    PROBE,
    is_sealed,
    rewritten,
    spelled_texts,
    without_copies,
    without_repeats_in,
)
from penstock.engine.streams.decisions import Pending, decided_by
from penstock.engine.streams.hooks import STEP_ENDS
from penstock.engine.streams.tracks import Subject, judge_chunk
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.answer_builder import named
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import ReasoningPart, TextPart
from penstock.engine.workers import moved_if_long

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from penstock.engine.streams.decisions import Fed as Decision
    from penstock.engine.streams.hooks import Fed
    from penstock.engine.streams.tracks import Lane, Track
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.texts import TextPlace


_EARLIER = 512
"""How many characters of the text of earlier steps are read together with that of a step."""


def earlier_texts(messages: MessageList) -> dict[str, str]:
    """Return the end of the text and of the reasoning of earlier steps, which readers join with what follows."""
    ends = {"text": "", "reasoning": ""}
    for message, source, _tag in reversed(messages.entries):
        if source in ("input", "memory") or all(len(end) >= _EARLIER for end in ends.values()):
            break
        for part in reversed(message.parts if source == "response" else ()):
            if isinstance(part, (TextPart, ReasoningPart)) and len(ends[part.type]) < _EARLIER:
                ends[part.type] = part.text[-_EARLIER:] + ends[part.type]
    return {kind: end[-_EARLIER:] for kind, end in ends.items() if end}


class TextBuffer:
    """The text that a track reads: one block, or several that are read as one.

    Attributes:
        kind: ``text`` or ``reasoning``.
        id: the id of the current block; a later block may reuse it.
        block: the number of the current block.
        last: a chunk of the text, used as a template for text inserted at its end.
        fed: the length of the text so far.
        closed: whether the text has ended.
        decided: the edits of the decided text.
        gone: the position up to which the text was released or deleted.
        end: the end of the text, with text before it; of reasoning only.
        track: the track that reads the text.
        borders: where a block begins in the next input.
    """

    __slots__ = ("block", "borders", "closed", "decided", "end", "fed", "gone", "id", "kind", "last", "track")

    def __init__(self, kind: str, template: Chunk, track: Track, earlier: str) -> None:
        self.kind = kind
        self.end = earlier
        self.id = template.id
        self.block = 0
        self.last = template
        self.fed = 0
        self.gone = 0
        self.closed = False
        self.decided = Pending()
        self.borders: tuple[int, ...] = ()
        self.track = track

    async def feed(self, text: str) -> None:
        """Append to the text."""
        self.fed += len(text)
        if self.kind == "reasoning":
            self.end = (self.end + text)[-_EARLIER:]
        borders, self.borders = self.borders, ()
        self.decided.add(await decided_by(self.track.feed(text, borders)))

    def begin_block(self, id: str) -> None:
        """Begin the next block."""
        self.borders = (0,)
        self.id = id
        self.block += 1
        self.last = self.last.with_id(id)

    async def close(self) -> None:
        """End the text."""
        self.decided.add(await decided_by(self.track.feed("", final=True)))
        self.closed = True


class Slice:
    """A span of a text that arrived in one chunk.

    A tail stands for the end of a block, where text may be inserted.
    """

    __slots__ = ("block", "buffer", "chunk", "end", "start", "tail", "text")

    def __init__(self, buffer: TextBuffer, chunk: Chunk, start: int, *, tail: bool = False) -> None:
        self.buffer = buffer
        self.chunk = chunk
        self.block = buffer.block
        self.text = "" if tail else chunk.text
        self.start = start
        self.end = start + len(self.text)
        self.tail = tail


def unreleased(item: Slice | Chunk) -> Chunk | None:
    """Return the unreleased rest of a slice, unedited; a chunk unchanged; None if nothing is left."""
    if not isinstance(item, Slice):
        return item
    text = item.text[max(item.buffer.gone - item.start, 0) :]
    if not text:
        return None
    return item.chunk if len(text) == len(item.chunk.text) else item.chunk.with_text(text)


class Outgoing:
    """Chunks that are released together. Consecutive slices of one text become one chunk.

    Otherwise each guard in a sequence would cut the chunks further, and the last would get many small ones. Chunks lose
    what may repeat a text that was edited.

    Attributes:
        edited: kind and id of the texts of the answer that were edited.
    """

    __slots__ = ("_chunk", "_chunks", "_texts", "edited")

    def __init__(self, chunks: list[Chunk], edited: set[tuple[str, str]]) -> None:
        self.edited = edited
        self._chunks = chunks
        self._texts: list[str] = []  # of the chunk that is being joined
        self._chunk: Chunk | None = None

    def put(self, chunk: Chunk) -> None:
        """Add a chunk as it is."""
        self._finish()
        if self.edited:
            chunk = without_repeats_in(chunk, is_edited=(chunk.type.partition("-")[0], chunk.id) in self.edited)
            if chunk.type in STEP_ENDS:
                self.edited.clear()
        self._chunks.append(chunk)

    def write(self, text: str, piece: Chunk) -> None:
        """Add text that came in the chunk ``piece``."""
        if self.edited and piece.payload:
            piece = without_repeats_in(piece, is_edited=(piece.type.partition("-")[0], piece.id) in self.edited)
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


def release(piece: Slice, out: Outgoing) -> bool:
    """Add the decided part of a slice to ``out``. Returns whether that is all of it."""
    buffer = piece.buffer
    until = buffer.decided.until
    if piece.tail:
        if not buffer.closed and buffer.block == piece.block and until <= piece.end:
            return False  # text may still be inserted there
        edits = buffer.decided.take(piece.end, final=True) if buffer.closed and buffer.block == piece.block else ()
        if edits:
            out.edited.add((buffer.kind, piece.chunk.id))
            out.write("".join(edit.text for edit in edits), piece.chunk)
        return True
    whole = until >= piece.end
    if not whole and until <= piece.start:
        return False
    stop = piece.end if whole else until
    edits = buffer.decided.take(stop, final=False)
    if edits or buffer.gone > piece.start:
        out.edited.add((buffer.kind, piece.chunk.id))
        out.write(_edited(piece, stop, edits), piece.chunk)
    else:
        out.write(piece.text if whole else piece.text[: stop - piece.start], piece.chunk)
        buffer.gone = stop
    if not whole:
        piece.text = piece.text[stop - piece.start :]
        piece.start = stop
    return whole


def _edited(piece: Slice, until: int, edits: Edits) -> str:
    """Return the edited slice up to a position, without text that an edit from before it has taken out."""
    buffer = piece.buffer
    begin = min(max(piece.start, buffer.gone), until)
    text = piece.text[begin - piece.start : until - piece.start]
    clipped: list[Edit] = []
    buffer.gone = max(buffer.gone, until)
    for edit in edits:
        buffer.gone = max(buffer.gone, edit.end)
        low, high = max(edit.start - begin, 0), max(min(edit.end, until) - begin, 0)
        clipped.append(Edit(low, high, edit.text, edit.kind, edit.step))
    return edit_ops.apply(text, tuple(clipped))


async def judge_side_payload(lane: Lane, chunk: Chunk, kind: str) -> Chunk:
    """Return a text chunk with its payload judged by the lane, without copies of the text."""
    if not chunk.payload:
        return chunk
    payload = without_copies(chunk.payload, chunk.text) if lane.guards else chunk.payload
    probe = Chunk(PROBE, id=chunk.id, payload=payload)
    if kind in lane.kinds and (pieces := spelled_texts(probe, kind)) and await judge_chunk(lane, probe, pieces):
        probe = without_repeats_in(probe, is_edited=True)
    made = rewritten(probe, await judge_chunk(lane, probe, lane.texts(probe, kind))).payload
    return chunk if made == chunk.payload else chunk.with_payload(made)


INPUTS = frozenset({"tool-input-start", "tool-input-delta", "tool-input-end"})


class ToolInputs:
    """Holds the arguments of tool calls while the model writes them.

    Strings in JSON may be escaped, so the arguments are judged as a value once they are complete.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._held: dict[str, list[Chunk]] = {}

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Hold a chunk. Returns all chunks of its call once the call is complete."""
        await judge_chunk(self._lane, chunk, ())
        chunk = await judge_side_payload(self._lane, chunk, "tool")
        self._held.setdefault(chunk.id, []).append(chunk)
        return await self._judged(self._held.pop(chunk.id)) if chunk.type == "tool-input-end" else ()

    async def flush(self) -> Sequence[Chunk]:
        """Judge and return the chunks of calls that have not ended."""
        held, self._held = self._held, {}
        return [chunk for chunks in held.values() for chunk in await self._judged(chunks)]

    def held(self) -> int:
        """Return how many characters of calls that have not ended are held."""
        return sum(len(chunk.text) for chunks in self._held.values() for chunk in chunks)

    def give_up(self) -> Sequence[Chunk]:
        """Return the chunks of calls that have not ended, unchanged."""
        held, self._held = self._held, {}
        return [chunk for chunks in held.values() for chunk in chunks]

    async def _judged(self, chunks: list[Chunk]) -> Sequence[Chunk]:
        written = "".join(chunk.text for chunk in chunks)
        read = await moved_if_long(partial(_Arguments, written), len(written))
        probe = Chunk(PROBE, id=chunks[0].id, payload={"arguments": read.value})
        edits = await judge_chunk(self._lane, probe, self._lane.texts(probe, "tool"))
        if not edits and not read.hides:
            return chunks
        return await moved_if_long(partial(_arguments_rewritten, chunks, probe, edits, read), len(written))


def _arguments_rewritten(
    chunks: list[Chunk], probe: Chunk, edits: Mapping[TextPlace, Edits], read: _Arguments
) -> Sequence[Chunk]:
    made: Value = rewritten(probe, edits).payload["arguments"]
    return _rewritten(chunks, json.dumps(thaw(made), ensure_ascii=False) if read.is_json else str(made))


class _Arguments:
    """The arguments of a call, read from the model's text.

    Attributes:
        value: the value; if the text is no JSON, the text without escapes that another reader could resolve.
        is_json: whether it is JSON.
        hides: whether something was written that is not in the value, such as a key that stands there twice.
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
    """Return the character that an escape stands for, unless it must stay escaped."""
    code = escape.group(1)
    char = chr(int(code, 16)) if code else escape.group()[1]
    plain = char.isprintable() and char not in '"\\' and (code is not None or char == "/")
    return char if plain else escape.group()


def _rewritten(chunks: Sequence[Chunk], text: str) -> Sequence[Chunk]:
    """Return the chunks of a call with another text, all of it in the first that had some."""
    made: list[Chunk] = []
    for chunk in chunks:
        if chunk.text:
            chunk, text = chunk.with_text(text), ""  # noqa: PLW2901 - the chunk in its place
        if chunk.text or chunk.type != "tool-input-delta":
            made.append(chunk)
    return made


_KINDS = {f"{kind}-{what}": (kind, what) for kind in ("text", "reasoning") for what in ("start", "delta", "end")}
_TOOLS = frozenset({"tool-call", "tool-result", "tool-error"})


class WaitingChunks:
    """Chunks that wait for the end of a text, in order. Those of one text can be taken before the others."""

    __slots__ = ("_by_number", "_count", "_texts")

    def __init__(self) -> None:
        self._by_number: OrderedDict[int, Chunk] = OrderedDict()  # a dict would look for its first item anew
        self._texts: dict[str, deque[int]] = {}  # by id, the numbers of the chunks of a text
        self._count = 0

    def __bool__(self) -> bool:
        """Return whether any chunk waits."""
        return bool(self._by_number)

    @property
    def all(self) -> list[Chunk]:
        """All chunks, in order."""
        return list(self._by_number.values())

    @property
    def first(self) -> tuple[int, Chunk]:
        """The first chunk, with its number."""
        return next(iter(self._by_number.items()))

    def first_of(self, id: str) -> tuple[int, Chunk] | None:
        """Return the first chunk of a text, with its number; None if none waits."""
        numbers = self._texts.get(id)
        while numbers and numbers[0] not in self._by_number:
            numbers.popleft()
        return (numbers[0], self._by_number[numbers[0]]) if numbers else None

    def add(self, chunk: Chunk) -> None:
        """Add a chunk at the end."""
        self._by_number[self._count] = chunk
        if _is_of(chunk, chunk.id):
            self._texts.setdefault(chunk.id, deque()).append(self._count)
        self._count += 1

    def remove(self, number: int) -> None:
        """Remove the chunk with that number."""
        del self._by_number[number]


def _is_of(chunk: Chunk, id: str) -> bool:
    """Return whether a chunk begins, continues or ends the text with that id."""
    return chunk.id == id and _KINDS.get(chunk.type, ("", ""))[0] == "text"


class TextPipe:
    """A lane in a stream, and the chunks that it holds back."""

    def __init__(self, lane: Lane, written: list[Chunk], earlier: dict[str, str]) -> None:
        self._lane = lane
        self._written = written
        self._earlier = earlier  # by kind, the end of the text before the next one, which has left
        self._queue: deque[Slice | Chunk] = deque()
        self._open: dict[tuple[str, str], TextBuffer] = {}
        self._unannounced: dict[str, dict[str, TextBuffer]] = {}  # of those, the ones without a start chunk, by kind
        self._announced: set[tuple[str, str]] = set()
        self._current: TextBuffer | None = None  # the text that is being written, one at a time
        self._later = WaitingChunks()  # what waits for its end: another text that has begun, and all behind that
        self._resting: dict[str, TextBuffer] = {}  # by kind: its block has ended, and another may go on with it
        self._thought: TextBuffer | None = None  # the reasoning that is the message's last part so far
        self._last_thought: TextBuffer | None = None  # the reasoning that began last; its block may be open
        self._edited: set[tuple[str, str]] = set()  # kind and id of the texts that were edited
        self._calls: set[str] = set()  # the ids of the tool calls so far
        self._inputs = ToolInputs(lane)

    def feed(self, chunk: Chunk) -> Fed:
        """Take a chunk; return the chunks that may be released."""
        buffer = self._current
        if (
            buffer is None
            or chunk.type != "text-delta"
            or chunk.id != buffer.id
            or not chunk.text
            or chunk.payload
            or buffer.borders
        ):
            return self._feed(chunk)
        start, size = buffer.fed, len(chunk.text)
        buffer.fed += size
        until = buffer.track.feed(chunk.text)
        queue = self._queue
        if not isinstance(until, int):
            queue.append(Slice(buffer, chunk, start))
            return self._release(buffer, until)
        held = queue[-1] if queue else None
        if type(held) is Slice and held.buffer is buffer and not held.tail and chunk.differs_in_text(held.chunk):
            held.chunk = chunk
            held.text += chunk.text
            held.end += size
        else:
            held = Slice(buffer, chunk, start)
            queue.append(held)
        buffer.decided.until = until
        if len(queue) > 1 or self._written or buffer.decided.edits or buffer.gone > held.start:
            return self._released() if len(queue) != 2 or self._written else self._released_two(buffer, until)  # noqa: PLR2004 - as its name says
        cut = until - held.start
        if cut <= 0:
            return None
        text = held.text[:cut]
        held.text = held.text[cut:]
        held.start = buffer.gone = until
        if not held.text:
            queue.clear()
        return chunk if text == chunk.text else chunk.with_text(text)

    async def _release(self, buffer: TextBuffer, decision: Decision) -> Sequence[Chunk]:
        buffer.decided.add(await decided_by(decision))
        return self._released()

    async def _feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Take a chunk, unless it has to wait for the end of a text, and then those that waited for an end."""
        if chunk.transient and chunk.is_data:
            edits = await judge_chunk(self._lane, chunk, self._lane.texts(chunk))
            return [rewritten(chunk, edits), *self._released()]
        buffer = self._current
        goes_on = buffer is None or _is_of(chunk, buffer.id) or chunk.type in STEP_ENDS
        if not goes_on and (self._later or self._is_another(chunk)):
            self._later.add(chunk)
            return self._released()
        await self._take(chunk)
        if self._later and self._current is None:
            await self._take_waiting()
        return self._released()

    async def end(self) -> Sequence[Chunk]:
        """End all texts; return the remaining chunks."""
        await self._end_all()
        for kind in list(self._resting):
            await self._close_resting(kind)
        return self._released()

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Return nothing: there are no timers."""
        del now
        return ()

    def deadline(self) -> float | None:
        """Return None: there are no timers."""
        return None

    async def give_up(self) -> Sequence[Chunk]:
        """Return all held chunks unchanged, and start afresh."""
        held = [chunk for item in self._queue if (chunk := unreleased(item)) is not None]
        self._queue.clear()
        self._open.clear()
        self._unannounced.clear()
        self._resting.clear()
        self._current = self._thought = self._last_thought = None
        later, self._later = self._later, WaitingChunks()
        return [*held, *self._inputs.give_up(), *later.all]

    def held(self) -> int:
        """Return how many characters are not decided yet, or wait behind such text."""
        pieces = sum(item.end - max(item.start, item.buffer.gone) for item in self._queue if isinstance(item, Slice))
        return max(pieces, 0) + sum(len(chunk.text) for chunk in self._later.all)

    def unended(self) -> int:
        """Return how many characters of texts, and of arguments of tool calls, were read that have not ended."""
        buffers = [*self._open.values(), *self._resting.values()]
        return sum(buffer.fed for buffer in buffers) + self._inputs.held()

    def _take(self, chunk: Chunk) -> Coroutine[object, None, None]:
        kind, what = _KINDS.get(chunk.type, ("", ""))
        return self._take_text(kind, what, chunk) if kind in self._lane.kinds else self._take_other(chunk)

    async def _take_waiting(self) -> None:
        """Take the chunks that need not wait any more: the first ones, and those of the current text."""
        while self._later:
            number, chunk = self._later.first
            if self._current is not None and self._is_another(chunk):
                own = self._later.first_of(self._current.id)
                if own is None:
                    return
                number, chunk = own
            self._later.remove(number)
            await self._take(chunk)

    def _is_another(self, chunk: Chunk) -> bool:
        """Tell whether a chunk is a piece of another text, while the current one still waits for its end chunk."""
        buffer = self._current
        if buffer is None or chunk.type != "text-delta" or chunk.id == buffer.id or not chunk.text:
            return False
        return ("text", buffer.id) in self._announced

    # Texts

    async def _take_text(self, kind: str, what: str, chunk: Chunk) -> None:
        key = (kind, chunk.id)
        chunk = await judge_side_payload(self._lane, chunk, kind) if chunk.payload else chunk
        buffer = self._open.get(key)
        if what == "delta" and chunk.text:
            if buffer is None:
                buffer = await self._begin(kind, chunk)
            self._queue.append(Slice(buffer, chunk, buffer.fed))
            await buffer.feed(chunk.text)
            return
        if what != "delta":
            if buffer is not None:
                await self._end(buffer)
            if what == "start":
                await self._end_unannounced(kind)
                self._announced.add(key)
            else:
                self._announced.discard(key)
        self._queue.append(chunk)

    async def _end_unannounced(self, kind: str) -> None:
        """End the texts of a kind that began without a start chunk: no end chunk will come for them."""
        for buffer in list(self._unannounced.get(kind, {}).values()):
            await self._end(buffer)

    async def _begin(self, kind: str, chunk: Chunk) -> TextBuffer:
        """Return the buffer of a block whose first chunk this is: that of the block before it, or a new one."""
        await self._end_unannounced(kind)
        if kind == "text":
            await self._begin_part()
        buffer = self._resting.pop(kind, None)
        if buffer is None:
            template = Chunk(f"{kind}-delta", "", chunk.id, run_id=chunk.run_id)
            earlier = self._earlier.pop(kind, "")
            if kind == "reasoning" and self._last_thought is not None:
                earlier = self._last_thought.end
            buffer = TextBuffer(kind, template, self._lane.open(Subject(template, kind, earlier)), earlier)
        else:
            buffer.begin_block(chunk.id)
        self._open[kind, chunk.id] = buffer
        if (kind, chunk.id) not in self._announced:
            self._unannounced.setdefault(kind, {})[chunk.id] = buffer
        if kind == "text":
            self._current = buffer
        else:
            self._thought = self._last_thought = buffer
        return buffer

    async def _end(self, buffer: TextBuffer) -> None:
        """End a block. Its text stays open for the next block: text always, reasoning if no other part has begun."""
        del self._open[buffer.kind, buffer.id]
        self._unannounced.get(buffer.kind, {}).pop(buffer.id, None)
        self._queue.append(Slice(buffer, buffer.last, buffer.fed, tail=True))
        if buffer.kind == "text":
            self._current = None
        elif buffer is not self._thought:
            await self._close(buffer)
            return
        self._resting[buffer.kind] = buffer

    async def _begin_part(self) -> None:
        """Note that a part begins that is no reasoning: what rests of that is decided, and is not waited for."""
        self._thought = None
        await self._close_resting("reasoning")

    async def _close_resting(self, kind: str) -> None:
        buffer = self._resting.pop(kind, None)
        if buffer is not None:
            await self._close(buffer)

    async def _close(self, buffer: TextBuffer) -> None:
        await buffer.close()
        self._earlier[buffer.kind] = buffer.end

    async def _end_all(self) -> None:
        while self._open:
            for buffer in list(self._open.values()):
                await self._end(buffer)
            await self._take_waiting()
        self._queue.extend(await self._inputs.flush())

    # Everything else

    async def _take_other(self, chunk: Chunk) -> None:
        if self._is_part(chunk):
            await self._begin_part()
        if chunk.type in STEP_ENDS:
            await self._end_all()  # the last text stays open: a reader puts text that follows a step's end behind it
        if chunk.type in INPUTS and "tool" in self._lane.kinds:
            self._queue.extend(await self._inputs.feed(chunk))
            return
        if chunk.type == "tool-call":
            self._queue.extend(await self._inputs.flush())
        if chunk.type == "raw" and self._lane.guards and not is_sealed(chunk):
            return  # what no guard can read does not pass it
        edits = await judge_chunk(self._lane, chunk, self._lane.texts(chunk))
        self._queue.append(rewritten(chunk, edits))

    def _is_part(self, chunk: Chunk) -> bool:
        """Return whether a chunk begins a part of the message."""
        if chunk.type in _TOOLS:
            id = str(named(chunk, "call_id") or chunk.id)
            known = id in self._calls
            self._calls.add(id)
            return not known
        if chunk.type == "text-delta":  # in a lane that reads reasoning only
            return bool(chunk.text)
        return chunk.type in ("source", "file") or (chunk.is_data and not chunk.transient)

    def _released_two(self, buffer: TextBuffer, until: int) -> Chunk | list[Chunk] | None:
        """Return the chunks to release of a piece that was held and the one that follows; as `_released` does."""
        first, second = self._queue
        if (
            type(first) is not Slice
            or type(second) is not Slice
            or first.buffer is not buffer
            or first.tail
            or buffer.decided.edits
            or self._edited
            or buffer.gone > first.start
            or first.chunk.run_id == second.chunk.run_id  # they leave as one
        ):
            return self._released()
        if until <= first.start:
            return None
        whole = min(until, first.end)
        text = first.text[: whole - first.start]
        buffer.gone = whole
        left = first.chunk if text == first.chunk.text else first.chunk.with_text(text)
        if whole < first.end:
            first.text, first.start = first.text[whole - first.start :], whole
            return left
        self._queue.popleft()
        size = until - second.start
        if size <= 0:
            return left
        text, second.text = second.text[:size], second.text[size:]
        second.start = buffer.gone = until
        if not second.text:
            self._queue.clear()
        return [left, second.chunk if text == second.chunk.text else second.chunk.with_text(text)]

    def _released(self) -> list[Chunk]:
        """Return the chunks that may be released, in order, up to the first undecided text."""
        queue = self._queue
        if not queue and not self._written:
            return []
        out = Outgoing(self._written[:], self._edited)
        self._written.clear()
        while queue:
            head = queue[0]
            if isinstance(head, Chunk):
                out.put(head)
            elif not release(head, out):
                break
            queue.popleft()
        return out.all()
