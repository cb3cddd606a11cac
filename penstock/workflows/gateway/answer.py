"""`PatchedAnswer`: an answer of a provider on its way through the guards, event by event, and the bytes that leave.

Each event is read with the endpoint's table. Its texts go to the guards as chunks that carry the number of the event as
``run_id``. Released texts come back with these numbers, in order. An event leaves when all of its texts have come back,
and all events before it have left. It leaves as the bytes that came, unless a text was changed, which is put in place.
A whole answer is a stream of one event.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import FrozenDict, thaw
from penstock.formats.wire import is_object
from penstock.workflows.gateway.answer_events import AnswerEvent, PieceEvent
from penstock.workflows.gateway.answer_reading import AGAIN, VALUES, AnswerIntake
from penstock.workflows.gateway.answer_replacing import replace_parts
from penstock.workflows.gateway.answer_writing import EventPatcher
from penstock.workflows.gateway.frames import written
from penstock.workflows.gateway.held_texts import HeldTexts
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.gateway.json_text import read_json
from penstock.workflows.gateway.skeletons import Skeleton, skeleton_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.blocks import CallBlock, TextBlock
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint, SentEvents
    from penstock.workflows.gateway.frames import EventFrame
    from penstock.workflows.gateway.tables import Spec

    Offer = Callable[[Chunk], Chunk | list[Chunk] | Literal[False] | None]

DONE = b"[DONE]"
_MOST_SKELETONS = 4


class PatchedAnswer:
    """One answer. Lives as long as it.

    Args:
        endpoint: its protocol.
        request: the request as the client sent it.
        sent: the request as it was sent to the provider.
        strict: whether an event or a field that the table does not know is refused; if not, guards read it.
        holds_calls: whether calls of tools wait until `settle` releases them.
        held: whether nothing leaves before all of it is judged.

    Attributes:
        state: the events that have left.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        request: Json,
        sent: Json,
        *,
        strict: bool,
        holds_calls: bool = False,
        held: bool = False,
    ) -> None:
        self.state = endpoint.begin(str(request.get("model") or ""))
        self._endpoint = endpoint
        self._holds_calls = holds_calls or held
        self._held = held
        self._count = 0
        self._queue: deque[AnswerEvent | PieceEvent] = deque()
        self._ahead: list[bytes] = []
        self._events: dict[int, AnswerEvent | PieceEvent] = {}
        self._skeletons: list[Skeleton] = []
        self._blocks: dict[str, TextBlock] = {}
        self.state.spelled = partial(_released, self._blocks)
        self._reader = AnswerIntake(endpoint, sent, self._blocks, strict=strict, held=held)
        self._writer = EventPatcher(endpoint, request, sent, self.state, self._blocks)
        self._latest = -1  # the greatest number that came back
        self._over = False
        self._spans = HeldTexts()  # the texts of the message; only of an answer that is held
        self._values: list[int] = []  # the events with values, in the order in which they came back

    @property
    def unknown(self) -> Iterable[str]:
        """The fields that the table does not know, by name."""
        return self._reader.unknown

    @property
    def usage(self) -> tuple[int, int] | None:
        """The tokens of the prompt and of the answer; None if nobody said."""
        return self._reader.usage

    @property
    def finish_reason(self) -> str:
        """Why it ended; ``other`` if nobody said."""
        return self._reader.finish_reason

    @property
    def edited(self) -> bool:
        """Whether anything was changed."""
        return self._writer.edited

    # What comes from the provider

    def feed(self, frame: EventFrame, offer: Offer | None = None) -> Sequence[Chunk]:
        """Read an event of a stream; return its texts for the guards.

        Args:
            frame: the event.
            offer: judges a piece of text at once, if it can; see `OutputStream.offer`.

        Raises:
            UpstreamError: it is no JSON, or it holds a field that the table does not know.
        """
        if frame.data is None:
            if frame.raw:
                self._add(AnswerEvent(self._count, frame.raw, "", {}))
            return ()
        if frame.data == DONE:
            mark = AnswerEvent(self._count, frame.raw or written("", DONE), "", {})
            mark.is_last = True
            self._add(mark)
            return ()
        for place, skeleton in enumerate(self._skeletons):
            text = skeleton.text(frame.data, frame) if frame.raw else None
            if text and skeleton.block.begun and skeleton.block.ends is None:
                if place:
                    self._skeletons.insert(0, self._skeletons.pop(place))
                made = self._piece(frame.raw, frame.event, frame.data, skeleton, text, offer)
                if made is not True:
                    return made
                self._ahead.append(frame.raw)
                return ()
        return self._parsed(frame, frame.data)

    def feed_next(self, raw: bytes, offer: Offer) -> Sequence[Chunk] | Literal[True] | None:
        """Read an event that differs from the one before it in nothing but its piece of text, as `feed` does.

        Args:
            raw: a piece of the stream, if it begins with an event.
            offer: judges the piece of text at once, if it can.

        Returns:
            The texts for the guards; True if the event leaves now as it came. None if it is another event, or none, or
            more than one: then it was not read.
        """
        if not self._skeletons:
            return None
        skeleton = self._skeletons[0]
        text = skeleton.next_text(raw) if skeleton.block.ends is None else None
        if text is None:
            return None
        return self._piece(raw, skeleton.kind, raw[skeleton.begin : -2], skeleton, text, offer)

    def _piece(
        self, raw: bytes, kind: str, data: bytes, skeleton: Skeleton, text: str, offer: Offer | None
    ) -> Sequence[Chunk] | Literal[True]:
        """Read an event with one piece of text; return that for the guards, or True if it leaves now as it came."""
        number, block = self._count, skeleton.block
        self._count = number + 1
        block.came(text)
        chunk = skeleton.chunk.with_text(text, str(number))
        made = False if offer is None else offer(chunk)
        if made is chunk and not self._queue and not block.late and not self._writer.added:
            block.latest = self._latest = number
            self._leave(skeleton, text, kind, data)
            return True
        event = self._events[number] = PieceEvent(number, raw, kind, data, skeleton, text)
        self._queue.append(event)
        if made is False:
            return (chunk,)
        if made is not None:
            for one in made if isinstance(made, list) else (made,):
                self._take_piece(one)
            self._ahead = self.ready()  # before any further text comes back, which might be put behind this event
        return ()

    def _leave(self, skeleton: Skeleton, text: str, kind: str, data: bytes) -> None:
        """Note that a piece leaves as it came."""
        block = skeleton.block
        block.pass_on(text)
        block.sample = skeleton
        skeleton.left_kind, skeleton.left = kind, data
        self.state.pass_on(data)

    def _parsed(self, frame: EventFrame, text: bytes) -> Sequence[Chunk]:
        data = self._json(text)
        kind = self._endpoint.event_type(frame.event, data)
        spec = None if kind is None else self._endpoint.events[kind]
        raw = frame.raw or written(frame.event, text.replace(b"\n", b" "))  # a JSON text has line breaks between words
        event = AnswerEvent(self._count, raw, frame.event, data)
        chunks = self._read(event, spec)
        if frame.raw and len(event.texts) == 1 and not self._is_more(event):
            path, block, _ = event.texts[0]
            made = skeleton_of(text, path, block)
            if made is not None:
                self._skeletons = [made, *self._skeletons[: _MOST_SKELETONS - 1]]
        return chunks

    def _is_more(self, event: AnswerEvent) -> bool:
        """Return whether an event is more than a piece of text."""
        endpoint, data = self._endpoint, event.data
        parts = event.values or event.repeats or event.seals or event.tokens or event.calls or event.echoes
        parts = parts or event.offsets
        return bool(
            parts or endpoint.ended(data) or endpoint.usage(data) or endpoint.finish_reason(data) or self.unknown
        )

    def whole(self, body: bytes) -> Sequence[Chunk]:
        """Read a whole answer; return its texts for the guards.

        Raises:
            UpstreamError: see `feed`.
        """
        data = self._json(body)
        self._writer.is_whole = True
        return self._read(AnswerEvent(0, body, "", data), self._endpoint.answer)

    def end(self) -> list[Chunk]:
        """Return the rest for the guards when the provider has sent everything."""
        rest = self._reader.end(self._count)
        told: dict[str, Value] = {"reason": self.finish_reason}
        if self.usage is not None:
            told["usage"] = FrozenDict({"input_tokens": self.usage[0], "output_tokens": self.usage[1]})
        rest.append(Chunk("finish", payload=FrozenDict(told), run_id=str(self._count)))
        return rest

    def _json(self, text: bytes) -> Json:
        try:
            data = read_json(text)
        except (ValueError, RecursionError):
            raise UpstreamError("malformed", "the provider sent an event that is no JSON, or ambiguous JSON") from None
        if not is_object(data):
            raise UpstreamError("malformed", f"the provider sent {type(data).__name__} in place of an object")
        return data

    def _read(self, event: AnswerEvent, spec: Spec | None) -> list[Chunk]:
        chunks = self._reader.read(event, spec)
        if self.state.events and event.is_empty and self._endpoint.overtakes(event.data):
            self._ahead.append(event.raw)
        else:
            self._add(event)
        return chunks

    def _add(self, event: AnswerEvent) -> None:
        self._events[event.number] = event
        self._queue.append(event)
        self._count = event.number + 1

    # What comes back from the guards

    def take(self, chunk: Chunk) -> None:
        """Take a chunk that the guards released."""
        number, nth = (int(chunk.run_id), 0) if chunk.run_id.isdigit() else self._within(chunk.run_id)
        kind = chunk.type
        if kind.endswith("-delta"):
            if chunk.run_id != AGAIN:
                self._took_text(self._block_of(chunk), number, nth, chunk.text)
        elif kind in ("text-end", "reasoning-end"):
            block = self._blocks.get(chunk.id)
            if block is not None:
                block.closed = number
                self._spans.end(block)
        elif kind == VALUES:
            event = self._events.get(number)
            if type(event) is AnswerEvent:
                event.left = thaw(chunk.payload.get("data"))
                self._values.append(number)
        elif kind == "tool-call":
            self._took_call(chunk)
        self._latest = max(self._latest, number)

    def _take_piece(self, chunk: Chunk) -> None:
        """Take a released piece of text, as `take` does; the quick way for one of an event that a skeleton has read."""
        number = chunk.run_id
        event = self._events.get(int(number)) if number.isdigit() else None
        if type(event) is not PieceEvent or self._held or event.skeleton.block.name != chunk.id:
            self.take(chunk)
            return
        event.got = chunk.text if not event.got else event.got + chunk.text
        block = event.skeleton.block
        block.latest = max(block.latest, event.number)
        self._latest = max(self._latest, event.number)

    def _within(self, run_id: str) -> tuple[int, int]:
        """Return the number of an event, and the place of a piece among those of one text there."""
        number, _, nth = run_id.partition(".")
        return (int(number), int(nth)) if number.isdigit() and nth.isdigit() else (self._latest, 0)

    def _block_of(self, chunk: Chunk) -> TextBlock:
        """Return the block of a released text; one that a processor made itself goes behind the last one of its kind.

        Raises:
            UsageError: there is none, so it has no place in the client's protocol.
        """
        own = self._blocks.get(chunk.id)
        if own is not None:
            return own
        kind = chunk.type.removesuffix("-delta")
        last = next((block for block in reversed(self._blocks.values()) if block.kind == kind), None)
        if last is None:
            raise UsageError(
                f"a processor sent {kind} of its own, where the provider's answer has none to put it behind"
            )
        return last

    def _took_text(self, block: TextBlock, number: int, nth: int, text: str) -> None:
        block.latest = max(block.latest, number)
        if self._held:
            self._spans.add(block, number, nth)
        event = self._events.get(number)
        if type(event) is PieceEvent:
            event.got += text
            return
        if type(event) is AnswerEvent:
            paths = [path for path, own, _ in event.texts if own is block]
            if paths:
                path = paths[nth]
                event.got[path] = event.got.get(path, "") + text
                return
        block.late += text

    def _took_call(self, chunk: Chunk) -> None:
        open_calls = [call for call in self.calls if call.back is None]  # an engine gives a repeated id anew
        call = next((call for call in open_calls if call.name == chunk.id), None) or next(iter(open_calls), None)
        if call is not None:
            call.back = chunk.payload.get("arguments")
            if not self._holds_calls:
                call.settled = True

    def over(self) -> None:
        """Note that the guards have released everything."""
        self._over = True

    def close(self) -> None:
        """Break reference cycles, so that its objects are freed at once. Call nothing else afterwards."""
        for block in self._blocks.values():
            block.sample = None
        for call in self._reader.calls.values():
            call.repeats.clear()

    # What later stages decide

    @property
    def calls(self) -> list[CallBlock]:
        """The calls of tools in the answer, in the order in which they were complete."""
        return list(self._reader.complete_calls)

    def settle(self) -> None:
        """Let the calls leave, as they are now."""
        for call in self._reader.calls.values():
            call.settled = True

    def replace(self, before: Message, after: Message | None) -> bool:
        """Take over an answer as a later stage left it; nothing of it has left yet.

        Args:
            before: the answer before the stage.
            after: the answer after it; None if it was removed.

        Returns:
            Whether it can be written in place: a part can change or vanish, but no call can be removed or added.
        """
        parts = () if after is None else after.parts
        if parts == before.parts:
            return True
        events = self._expanded()
        return replace_parts(before.parts, parts, events, self._blocks, self._spans, self.calls, self._values)

    def _expanded(self) -> Mapping[int, AnswerEvent]:
        """Parse all events that have not left."""
        events = {
            number: event.expanded() if type(event) is PieceEvent else event for number, event in self._events.items()
        }
        known = {number: event for number, event in events.items() if type(event) is AnswerEvent}
        self._events = {**known}
        self._queue = deque(known.values())
        return known

    # What leaves

    def ready(self) -> list[bytes]:
        """Return the events that may leave now, as bytes."""
        out, self._ahead = self._ahead, []
        queue = self._queue
        while queue:
            event = queue[0]
            if type(event) is PieceEvent:
                block = event.skeleton.block
                if event.got == event.text and not block.late and not self._writer.added:
                    queue.popleft()
                    del self._events[event.number]
                    self._leave(event.skeleton, event.text, event.type, event.data)
                    out.append(event.raw)
                    continue
                if event.got != event.text and not self._over and not self._is_past(block, event.number):
                    break
                event = self._events[event.number] = queue[0] = event.expanded()
            if type(event) is not AnswerEvent or not self._is_done(event):
                break
            queue.popleft()
            self._events.pop(event.number, None)
            out += self._writer.written(event)
        if self._over:  # a stream that has no end for a text
            for block in list(self._blocks.values()):
                if not block.late:
                    continue
                number = self._endpoint.number(self.state.last)
                out += self._writer.late_event(block, None if number is None else number + 1 - self._writer.added)
        return out

    def left(self) -> SentEvents:
        """Return a copy of the notes about the events that have left, which later ones do not change."""
        released = {name: block.released for name, block in self._blocks.items()}
        made = self.state.copied()
        made.spelled = lambda name: released.get(name, "")
        return made

    @property
    def in_words(self) -> bool:
        """Whether it is an answer of a model, which later stages judge."""
        return self._endpoint.has_answer

    @property
    def waits(self) -> bool:
        """Whether events wait for the guards."""
        return bool(self._queue)

    def _is_done(self, event: AnswerEvent) -> bool:
        if [call for call in event.calls if not call.settled]:
            return False
        if self._over:
            return True
        if self._endpoint.ends(event.data):
            return False
        if event.is_last or (event.values and event.left is None):
            return False
        for path, block, text in event.texts:
            if event.got.get(path) != text and not self._is_past(block, event.number):
                return False
        if any(block.closed < event.number for block in event.ending):
            return False
        waits_for = (*(block for _, block, _ in event.repeats), *(block for _, block in event.seals))
        return all(map(self._is_closed, waits_for))

    def _is_past(self, block: TextBlock, number: int) -> bool:
        """Return whether all of a block's text up to an event has come back."""
        return block.latest > number or self._is_closed(block)

    def _is_closed(self, block: TextBlock) -> bool:
        return block.ends is not None and block.closed >= block.ends


def _released(blocks: Mapping[str, TextBlock], name: str) -> str:
    """Return the part of a text that has left."""
    block = blocks.get(name)
    return "" if block is None else block.released
