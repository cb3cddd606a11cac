"""`PatchedAnswer`: an answer of a provider on its way through the guards, event by event, and the bytes that leave.

Each event is read with the endpoint's table. Its texts go to the guards as chunks that carry the number of the event as
``run_id``. Released texts come back with these numbers, in order. An event leaves when all of its texts have come back,
and all events before it have left. It leaves as the bytes that came, unless a text was changed, which is put in place.
A whole answer is a stream of one event.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import DataPart, ReasoningPart, TextPart, ToolPart
from penstock.engine.values.terms import is_word
from penstock.formats.wire import is_object
from penstock.workflows.gateway.blocks import CallBlock, TextBlock
from penstock.workflows.gateway.echoes import agrees, given_back
from penstock.workflows.gateway.frames import written
from penstock.workflows.gateway.held_texts import HeldTexts, aligned, spread
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.gateway.json_text import read_json, write_json
from penstock.workflows.gateway.prompt import dotted, shown
from penstock.workflows.gateway.skeletons import Skeleton, skeleton_of
from penstock.workflows.gateway.tables import GONE, VALUE, Obj, Place, at, places, with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.engine.values.messages import Message, Part
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint
    from penstock.workflows.gateway.frames import EventFrame
    from penstock.workflows.gateway.held_texts import HeldText
    from penstock.workflows.gateway.tables import Path, Spec

    Offer = Callable[[Chunk], Chunk | list[Chunk] | Literal[False] | None]

VALUES = "data-gateway-values"
"""The chunk with the values of an event that guards read as a whole."""

DONE = b"[DONE]"
_TEXTS = ("text", "reasoning")
_CALLS = ("call_id", "call_name", "arguments")
AGAIN = "again"
"""The number of a piece that has left before."""

_MOST_SKELETONS = 4


class _Event:
    """An event that has not left yet.

    Attributes:
        number: its number in the answer, from 0.
        raw: the bytes that came.
        type: the type that its ``event:`` line names.
        data: its data.
        texts: its pieces of texts: where, of which block, and the piece.
        got: by path, the pieces as they came back from the guards.
        values: the values that guards read whole.
        left: these as the guards left them, by dotted path; None before that.
        repeats: the texts that went before: where, of which block, and the text.
        seals: the signatures of texts: where, and of which block.
        tokens: the tokens beside texts: where, of which block, and the tokens.
        calls: the calls that it holds a piece of.
        echoes: the fields of the request that it repeats.
        offsets: the places in texts that it names.
        ending: the blocks that end with it, or before it.
        is_last: whether it is the mark behind the last event of a stream.
    """

    __slots__ = (
        "calls",
        "data",
        "echoes",
        "ending",
        "got",
        "is_last",
        "left",
        "number",
        "offsets",
        "raw",
        "repeats",
        "seals",
        "texts",
        "tokens",
        "type",
        "values",
    )

    def __init__(self, number: int, raw: bytes, kind: str, data: Json) -> None:
        self.number = number
        self.raw = raw
        self.type = kind
        self.data = data
        self.texts: list[tuple[Path, TextBlock, str]] = []
        self.got: dict[Path, str] = {}
        self.values: list[Place] = []
        self.left: Value = None
        self.repeats: list[tuple[Path, TextBlock, Value]] = []
        self.seals: list[tuple[Path, TextBlock]] = []
        self.tokens: list[tuple[Path, str, Value]] = []
        self.calls: list[CallBlock] = []
        self.echoes: list[Place] = []
        self.offsets: list[Place] = []
        self.ending: list[TextBlock] = []
        self.is_last = False


class _Piece:
    """An event that was read by its skeleton: one piece of text, and nothing else that somebody reads."""

    __slots__ = ("data", "got", "number", "raw", "skeleton", "text", "type")

    def __init__(self, number: int, raw: bytes, kind: str, data: bytes, skeleton: Skeleton, text: str) -> None:
        self.number = number
        self.raw = raw
        self.type = kind
        self.data = data
        self.skeleton = skeleton
        self.text = text
        self.got = ""

    def expanded(self) -> _Event:
        """Return the event, parsed."""
        event = _Event(self.number, self.raw, self.type, read_json(self.data))
        event.texts.append((self.skeleton.path, self.skeleton.block, self.text))
        if self.got:
            event.got[self.skeleton.path] = self.got
        return event


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
        unknown: the fields that the table does not know, by name.
        usage: the tokens of the prompt and of the answer; None if nobody said.
        finish_reason: why it ended; ``other`` if nobody said.
        edited: whether anything was changed.
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
        self.state.spelled = self._spelled
        self.unknown: dict[str, None] = {}
        self.usage: tuple[int, int] | None = None
        self.finish_reason = "other"
        self.edited = False
        self._endpoint = endpoint
        self._is_whole = False
        self._request = request
        self._sent = sent
        self._strict = strict
        self._holds_calls = holds_calls or held
        self._held = held
        self._count = 0
        self._added = 0
        self._queue: deque[_Event | _Piece] = deque()
        self._ahead: list[bytes] = []
        self._events: dict[int, _Event | _Piece] = {}
        self._skeletons: list[Skeleton] = []
        self._blocks: dict[str, TextBlock] = {}
        self._calls: dict[str, CallBlock] = {}
        self._latest = -1  # the greatest number that came back
        self._over = False
        self._spans = HeldTexts()  # the texts of the message; only of an answer that is held
        self._values: list[int] = []  # the events with values, in the order in which they came back
        self._complete_calls: list[CallBlock] = []

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
                self._add(_Event(self._count, frame.raw, "", {}))
            return ()
        if frame.data == DONE:
            mark = _Event(self._count, frame.raw or written("", DONE), "", {})
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
        if made is chunk and not self._queue and not block.late and not self._added:
            block.latest = self._latest = number
            self._leave(skeleton, text, kind, data)
            return True
        event = self._events[number] = _Piece(number, raw, kind, data, skeleton, text)
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
        event = _Event(self._count, raw, frame.event, data)
        chunks = list(self._read(event, spec))  # none is out before all of them are known
        if frame.raw and len(event.texts) == 1 and not self._is_more(event):
            path, block, _ = event.texts[0]
            made = skeleton_of(text, path, block)
            if made is not None:
                self._skeletons = [made, *self._skeletons[: _MOST_SKELETONS - 1]]
        return chunks

    def _is_more(self, event: _Event) -> bool:
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
        self._is_whole = True
        return list(self._read(_Event(0, body, "", data), self._endpoint.answer))

    def end(self) -> Iterator[Chunk]:
        """Yield the rest for the guards when the provider has sent everything."""
        for block in self._blocks.values():
            yield from self._end_block(block)
        for call in self._calls.values():
            yield from self._complete(call, self._count)
        usage = {} if self.usage is None else {"usage": {"input_tokens": self.usage[0], "output_tokens": self.usage[1]}}
        yield Chunk("finish", payload=freeze({"reason": self.finish_reason, **usage}), run_id=str(self._count))

    def _json(self, text: bytes) -> Json:
        try:
            data = read_json(text)
        except (ValueError, RecursionError):
            raise UpstreamError("malformed", "the provider sent an event that is no JSON, or ambiguous JSON") from None
        if not is_object(data):
            raise UpstreamError("malformed", f"the provider sent {type(data).__name__} in place of an object")
        return data

    def _read(self, event: _Event, spec: Spec | None) -> Iterator[Chunk]:
        endpoint, data = self._endpoint, event.data
        found = places(Obj({}) if spec is None else spec, data)
        if found.unknown:
            self._refuse_unknown(_type_of(event), [one.path for one in found.unknown])
        number = str(event.number)
        seals = [place for place in found.known if place.field.kind == "seal"]  # behind the texts that they belong to
        for place in (*(one for one in found.known if one.field.kind != "seal"), *found.unknown, *seals):
            yield from self._place(event, place)
        for prefix in endpoint.ended(data):
            for block in [block for block in self._blocks.values() if block.is_under(prefix)]:
                yield from self._end_block(block, event)
            for call in [call for call in self._calls.values() if call.is_under(prefix)]:
                yield from self._complete(call, event.number)
        self._count_tokens(endpoint.usage(data))
        self.finish_reason = endpoint.finish_reason(data) or self.finish_reason
        if event.values:
            values = freeze({dotted(place.path): place.value for place in event.values})
            yield Chunk(VALUES, payload=freeze({"data": values}), run_id=number)
        if self.state.events and not (found.known or found.unknown) and endpoint.overtakes(data):
            self._ahead.append(event.raw)
        else:
            self._add(event)

    def _count_tokens(self, counts: tuple[int, int] | None) -> None:
        """Note counts of tokens; those of later events go on where earlier ones ended."""
        if counts is not None:
            before = self.usage or (0, 0)
            self.usage = max(before[0], counts[0]), max(before[1], counts[1])

    def _refuse_unknown(self, kind: str, paths: Sequence[Path]) -> None:
        names = [f"{kind}: {shown(path)}" if path else kind for path in paths]
        self.unknown |= dict.fromkeys(names)
        if self._strict:
            raise UpstreamError(
                "unknown",
                f"the provider sent what the gateway's table of {self._endpoint.name} does not know ({names[0]})",
            )

    def _add(self, event: _Event) -> None:
        self._events[event.number] = event
        self._queue.append(event)
        self._count = event.number + 1

    def _place(self, event: _Event, place: Place) -> Iterator[Chunk]:
        kind = place.field.kind
        if kind == "value":
            event.values.append(place)
        elif kind in _TEXTS:
            yield from self._text(event, place)
        elif kind in _CALLS:
            self._call_piece(event, place)
        elif kind == "repeat":
            yield from self._repeat(event, place)
        elif kind == "seal":
            yield from self._seal(event, place)
        elif kind == "tokens":
            if place.value:
                event.tokens.append((place.path, self._endpoint.block(place, event.data), place.value))
        elif kind == "echo":
            self._echo(event, place)
        elif kind == "offset":
            event.offsets.append(place)
        else:
            what = shown(place.path) or _type_of(event)
            raise UpstreamError("refused", f"the provider sent {what}, which the gateway refuses")

    def _echo(self, event: _Event, place: Place) -> None:
        """Note a field of the request that the answer repeats; one that says something else is a value."""
        if agrees(place.value, self._sent.get(str(place.path[-1]))):
            event.echoes.append(place)
        else:
            event.values.append(Place(VALUE, place.path, place.value))

    def _text(self, event: _Event, place: Place, name: str = "") -> Iterator[Chunk]:
        number = str(event.number)
        kind = place.field.of if place.field.kind == "repeat" else place.field.kind
        name = name or self._endpoint.block(place, event.data)
        block = self._blocks.get(name)
        if block is None:
            block = self._blocks[name] = TextBlock(name, kind, self._endpoint.joined(name))
        if block.ends is not None or not block.begun:
            yield from self._begin(event, block)
        block.came(place.value)
        before = sum(one is block for _, one, _ in event.texts)
        event.texts.append((place.path, block, place.value))
        yield Chunk(block.delta, place.value, name, run_id=f"{number}.{before}" if before else number)

    def _begin(self, event: _Event, block: TextBlock) -> Iterator[Chunk]:
        """Begin a text, or go on with it. A reader joins the texts of one answer in the order of their beginnings.

        So the others end, unless nothing leaves before all is judged. A text that goes on behind another one is read
        with its last piece, which has left, so that nothing passes which is cut there.
        """
        for other in () if self._held else self._blocks.values():
            if other is not block and other.answer == block.answer:
                other.interrupted = other.interrupted or (other.begun and other.ends is None)
                yield from self._end_block(other, event)
        block.begun, block.ends = True, None
        yield Chunk(f"{block.kind}-start", id=block.name, run_id=str(event.number))
        if block.interrupted:
            yield Chunk(block.delta, block.tail, block.name, run_id=AGAIN)

    def _end_block(self, block: TextBlock, event: _Event | None = None) -> Iterator[Chunk]:
        if block.begun and block.ends is None:
            block.ends = self._count if event is None else event.number
            if event is not None:
                event.ending.append(block)
            yield Chunk(f"{block.kind}-end", id=block.name, run_id=str(block.ends))

    def _repeat(self, event: _Event, place: Place) -> Iterator[Chunk]:
        """Note a text or a piece of a call that went before; a text that says something else is read by itself."""
        if place.field.of in _CALLS:
            yield from self._call_repeat(event, place)
        elif place.field.of not in _TEXTS:
            event.values.append(Place(VALUE, place.path, place.value))
        else:
            name = self._endpoint.block(place, event.data)
            block = self._blocks.get(name)
            if block is not None and place.value == block.original:
                yield from self._end_block(block, event)
                event.repeats.append((place.path, block, place.value))
            elif place.value:
                own = name if block is None else f"{name}~{event.number}"
                yield from self._text(event, place, own)
                yield from self._end_block(self._blocks[own], event)

    def _seal(self, event: _Event, place: Place) -> Iterator[Chunk]:
        """Note the signature of a text: it waits for all of that text."""
        block = self._blocks.get(self._endpoint.block(place, event.data))
        if block is not None:
            yield from self._end_block(block, event)
            event.seals.append((place.path, block))

    def _call_repeat(self, event: _Event, place: Place) -> Iterator[Chunk]:
        kind, name = place.field.of, self._endpoint.block(place, event.data)
        call = self._calls.get(name)
        if call is None or (not call.known(kind) and not call.complete):
            self._call_piece(event, place)
            return
        if not call.repeats_piece(kind, place.value):
            yield from self._other_call(event, place, call)
            return
        if kind == "arguments":
            yield from self._complete(call, event.number)
            call.repeats.append((event, place.path))
        if call not in event.calls:
            event.calls.append(call)

    def _other_call(self, event: _Event, place: Place, call: CallBlock) -> Iterator[Chunk]:
        """Read what repeats a call, and says something else, as a call of its own: it is judged as one."""
        item: Value = at(event.data, place.path[:-1])
        name = f"{call.name}~{event.number}.{place.path[-1]}"
        other = self._calls[name] = CallBlock(name)
        for kind, key in (("call_id", "call_id"), ("call_name", "name")):
            said = item.get(key) if is_object(item) else None
            other.add(kind, said if isinstance(said, str) else call.known(kind), event.number, place.path)
        other.add("arguments", place.value if place.field.of == "arguments" else call.written, event.number, place.path)
        if place.field.of != "arguments":
            other.pieces.clear()  # these arguments stand elsewhere
        event.calls.append(other)
        yield from self._complete(other, event.number)

    def _call_piece(self, event: _Event, place: Place) -> None:
        kind = place.field.of if place.field.kind == "repeat" else place.field.kind
        name = self._endpoint.block(place, event.data)
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = CallBlock(name)
            if place.field.tool:
                call.add("call_name", place.field.tool, event.number, place.path)
        if call.complete:
            if not call.repeats_piece(kind, place.value):
                event.values.append(Place(VALUE, place.path, place.value))
            return
        if kind == "call_id" or (kind == "call_name" and self._endpoint.names_come_whole):
            self._refuse_another(call.known(kind), place.value)
        call.add(kind, place.value, event.number, place.path)
        if call not in event.calls:
            event.calls.append(call)

    @staticmethod
    def _refuse_another(known: Value, value: Value) -> None:
        if known and value != known:  # a client would take one of them, and guards read the other
            raise UpstreamError("malformed", "the provider sent two calls of tools in the place of one")

    def _complete(self, call: CallBlock, number: int) -> Iterator[Chunk]:
        if call.complete:
            return
        call.complete = True
        self._complete_calls.append(call)
        try:
            arguments = call.read()
        except MessageError:
            raise UpstreamError("malformed", "the provider sent a call whose arguments nobody can read") from None
        payload = freeze({"call_id": call.id, "name": call.tool, "arguments": arguments})
        yield Chunk("tool-call", id=call.name, payload=payload, run_id=str(number))

    def _spelled(self, name: str) -> str:
        """Return the part of a text that has left."""
        block = self._blocks.get(name)
        return "" if block is None else block.released

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
            if type(event) is _Event:
                event.left = thaw(chunk.payload.get("data"))
                self._values.append(number)
        elif kind == "tool-call":
            self._took_call(chunk)
        self._latest = max(self._latest, number)

    def _take_piece(self, chunk: Chunk) -> None:
        """Take a released piece of text, as `take` does; the quick way for one of an event that a skeleton has read."""
        number = chunk.run_id
        event = self._events.get(int(number)) if number.isdigit() else None
        if type(event) is not _Piece or self._held or event.skeleton.block.name != chunk.id:
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
        if type(event) is _Piece:
            event.got += text
            return
        if type(event) is _Event:
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

    # What later stages decide

    @property
    def calls(self) -> list[CallBlock]:
        """The calls of tools in the answer, in the order in which they were complete."""
        return list(self._complete_calls)

    def settle(self) -> None:
        """Let the calls leave, as they are now."""
        for call in self._calls.values():
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
        kinds = [_kind(part) for part in parts]
        known = [_kind(part) for part in before.parts]
        if kinds != known and any(kinds.count(kind) != known.count(kind) for kind in ("call", "data")):
            return False
        for kind in ("text", "reasoning"):
            now = [part.text for part in parts if isinstance(part, (TextPart, ReasoningPart)) and part.type == kind]
            self._replace_texts(events, kind, now)
        calls = [part.arguments for part in parts if isinstance(part, ToolPart)]
        for call, arguments in zip(self.calls, calls, strict=False):
            call.back = arguments
        values = [part.data for part in parts if isinstance(part, DataPart)]
        for number, data in zip(self._values, values, strict=False):
            events[number].left = thaw(data)
        return True

    def _expanded(self) -> Mapping[int, _Event]:
        """Parse all events that have not left."""
        events = {
            number: event.expanded() if type(event) is _Piece else event for number, event in self._events.items()
        }
        known = {number: event for number, event in events.items() if type(event) is _Event}
        self._events = {**known}
        self._queue = deque(known.values())
        return known

    def _replace_texts(self, events: Mapping[int, _Event], kind: str, texts: Sequence[str]) -> None:
        """Write the texts of a kind into the events that hold them; a text that was removed becomes empty."""
        for block in self._blocks.values():
            self._settle_late(events, block)
        spans = [(span, self._pieces(events, span)) for span in self._spans.all if span.block.kind == kind]
        before = ["".join(event.got.get(path, "") for event, path in pieces) for _, pieces in spans]
        for (span, pieces), now in zip(spans, aligned(before, texts), strict=True):
            if now is None:
                self._spans.all.remove(span)
            made = spread([event.got.get(path, "") for event, path in pieces], now or "")
            for (event, path), text in zip(pieces, made, strict=True):
                event.got[path] = text

    def _settle_late(self, events: Mapping[int, _Event], block: TextBlock) -> None:
        """Put the late text of a block into its last piece; nothing has left yet."""
        span = next((span for span in reversed(self._spans.all) if span.block is block), None)
        pieces = [] if span is None else self._pieces(events, span)
        if block.late and pieces:
            event, path = pieces[-1]
            event.got[path] = event.got.get(path, "") + block.take_late()

    @staticmethod
    def _pieces(events: Mapping[int, _Event], span: HeldText) -> list[tuple[_Event, Path]]:
        """Return the places of a text of the message."""
        found: list[tuple[_Event, Path]] = []
        for number, nth in span.places:
            event = events.get(number)
            paths = [] if event is None else [path for path, one, _ in event.texts if one is span.block]
            if event is not None and paths:
                found.append((event, paths[nth]))
        return found

    # What leaves

    def ready(self) -> list[bytes]:
        """Return the events that may leave now, as bytes."""
        out, self._ahead = self._ahead, []
        queue = self._queue
        while queue:
            event = queue[0]
            if type(event) is _Piece:
                block = event.skeleton.block
                if event.got == event.text and not block.late and not self._added:
                    queue.popleft()
                    del self._events[event.number]
                    self._leave(event.skeleton, event.text, event.type, event.data)
                    out.append(event.raw)
                    continue
                if event.got != event.text and not self._over and not self._is_past(block, event.number):
                    break
                event = self._events[event.number] = queue[0] = event.expanded()
            if type(event) is not _Event or not self._is_done(event):
                break
            queue.popleft()
            self._events.pop(event.number, None)
            out += self._written(event)
        if self._over:  # a stream that has no end for a text
            for block in [block for block in self._blocks.values() if block.late]:
                number = self._endpoint.number(self.state.last)
                out += self._late_event(block, None if number is None else number + 1 - self._added)
        return out

    @property
    def in_words(self) -> bool:
        """Whether it is an answer of a model, which later stages judge."""
        return self._endpoint.has_answer

    @property
    def waits(self) -> bool:
        """Whether events wait for the guards."""
        return bool(self._queue)

    def _is_done(self, event: _Event) -> bool:
        if any(not call.settled for call in event.calls):
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

    def _written(self, event: _Event) -> list[bytes]:
        """Return an event as it leaves, with the events that are added before it."""
        changes: dict[Path, Value] = {}
        first = self._endpoint.number(event.data)
        added = [piece for block in self._ending(event) for piece in self._late_event(block, first)]
        for path, block, text in event.texts:
            now = block.take_late() + event.got.get(path, "")
            block.left(text, now)
            if now != text:
                changes[path] = now
        for path, block, _ in event.repeats:
            if block.edited:
                changes[path] = block.released
        for path, block in event.seals:
            if block.edited:
                changes[path] = self._endpoint.broken_seal
        changes |= self._calls_written(event)
        changes |= self._values_written(event)
        changes |= self._tokens_written(event, changes)
        changes |= self._echoes_written(event)
        changes |= self._offsets_written(event)
        if self._added and first is not None:
            changes |= self._endpoint.renumbered(first + self._added)
        made: Json = with_values(event.data, changes)
        self._note_sent(event, made)
        if not changes:
            return [*added, event.raw]
        self.edited = True
        line = write_json(made)
        return [*added, line if self._is_whole else written(event.type, line)]

    def _note_sent(self, event: _Event, made: Json) -> None:
        """Note an event as it leaves: nothing that guards have not released is kept for later events."""
        self.state.pass_on(made)
        if made:
            self._endpoint.left(self.state, made)
        for path, block, _ in event.texts:
            self.state.open[block.name] = None
            known = block.sample
            if isinstance(known, tuple) and len(path) > len(cast("tuple[str, Json, Path]", known)[2]):
                continue  # an event that opens the block, or that repeats it
            others: Mapping[Path, Value] = {other: "" for other, _, _ in event.texts if other != path}
            block.sample = event.type, with_values(made, others), path
        for block in self._blocks.values():
            if block.ends is not None and block.ends <= event.number:
                self.state.open.pop(block.name, None)

    def _ending(self, event: _Event) -> list[TextBlock]:
        """Return the blocks with text behind their last event, where it is time for it: one that ends here."""
        own = {id(block) for _, block, _ in event.texts}
        return [
            block
            for block in self._blocks.values()
            if block.late and id(block) not in own and block.ends is not None and block.ends <= event.number
        ]

    def _late_event(self, block: TextBlock, number: int | None) -> Iterator[bytes]:
        """Yield an event for text that guards added behind the last event of a block, before one with this number."""
        sample = block.sample
        if isinstance(sample, Skeleton):
            sample = sample.left_kind, read_json(sample.left), sample.path
        if not isinstance(sample, tuple):
            return
        kind, data, path = cast("tuple[str, Json, Path]", sample)
        text = block.take_late()
        self.edited = True
        block.add_released(text)
        kind, made = self._endpoint.added(kind, data, path, text)
        if number is not None:
            made = with_values(made, self._endpoint.renumbered(number + self._added))
        self._added += 1
        self.state.pass_on(made)
        yield written(kind, write_json(made))

    def _calls_written(self, event: _Event) -> Mapping[Path, Value]:
        changes: dict[Path, Value] = {}
        for call in event.calls:
            text = call.new_text()
            if text is None:
                continue
            for path in call.pieces.get(event.number, ()):
                changes[path] = call.take_text(text)
            for own, path in call.repeats:
                if own is event:
                    changes[path] = text
        return changes

    def _values_written(self, event: _Event) -> Mapping[Path, Value]:
        left: Json = event.left if is_object(event.left) else {}
        changes: dict[Path, Value] = {}
        for place in event.values:
            name = dotted(place.path)
            now = left.get(name, GONE) if event.left is not None else GONE
            if now is GONE or now != place.value:
                changes[place.path] = now
        return changes

    def _tokens_written(self, event: _Event, changes: Mapping[Path, Value]) -> Mapping[Path, Value]:
        """Return the tokens that are dropped: of a text that was changed, or that they do not spell."""
        dropped: dict[Path, Value] = {}
        for path, name, value in event.tokens:
            again = next((text for _, one, text in event.repeats if one.is_under(name) and not one.edited), None)
            if again is not None and self._endpoint.tokens(value) == again:
                continue
            own = [(where, text) for where, one, text in event.texts if one.kind == "text" and one.is_under(name)]
            text = "".join(text for _, text in own)
            same = not any(where in changes for where, _ in own)
            if self._endpoint.tokens(value) not in ("", text if same else ""):
                dropped[path] = [] if isinstance(value, list) else None
        return dropped

    def _echoes_written(self, event: _Event) -> Mapping[Path, Value]:
        """Return the fields of the request that an answer repeats: the client gets its own back."""
        changes: dict[Path, Value] = {}
        for place in event.echoes:
            key = str(place.path[-1])
            now = given_back(place.value, self._sent.get(key), self._request.get(key))
            if now != place.value:
                changes[place.path] = now
        return changes

    def _offsets_written(self, event: _Event) -> Mapping[Path, Value]:
        """Return the places in texts that have moved, since guards changed the text before them."""
        changes: dict[Path, Value] = {}
        for place in event.offsets:
            block = self._blocks.get(self._endpoint.block(place, event.data))
            if block is not None and isinstance(place.value, int):
                now = block.moved(place.value, is_end=str(place.path[-1]).startswith("end"))
                if now != place.value:
                    changes[place.path] = now
        return changes


def _type_of(event: _Event) -> str:
    """Return the type of an event, if it is a word."""
    kind = event.type or event.data.get("type")
    return kind if isinstance(kind, str) and is_word(kind) else "event"


def _kind(part: Part) -> str:
    return "call" if isinstance(part, ToolPart) else "data" if isinstance(part, DataPart) else part.type
