"""`AnswerIntake`: reads the events of an answer with the endpoint's table; texts and calls become chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import freeze
from penstock.formats.wire import is_object
from penstock.workflows.gateway.answer_events import type_of
from penstock.workflows.gateway.blocks import CallBlock, TextBlock
from penstock.workflows.gateway.echoes import agrees
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.gateway.prompt import dotted, shown
from penstock.workflows.gateway.tables import VALUE, Obj, Place, at, places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.answer_events import AnswerEvent
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint
    from penstock.workflows.gateway.tables import Path, Spec

VALUES = "data-gateway-values"
"""The chunk with the values of an event that guards read as a whole."""

AGAIN = "again"
"""The number of a piece that has left before."""

_TEXTS = ("text", "reasoning")
_CALLS = ("call_id", "call_name", "arguments")


class AnswerIntake:
    """Reads the events of one answer. Lives as long as it.

    Args:
        endpoint: its protocol.
        sent: the request as it was sent to the provider.
        blocks: gets the texts of the answer, by name.
        strict: whether an event or a field that the table does not know is refused; if not, guards read it.
        held: whether nothing leaves before all of it is judged.

    Attributes:
        unknown: the fields that the table does not know, by name.
        usage: the tokens of the prompt and of the answer; None if nobody said.
        finish_reason: why it ended; ``other`` if nobody said.
        calls: the calls of tools, by name.
        complete_calls: those of which all came, in that order.
    """

    def __init__(
        self, endpoint: Endpoint, sent: Json, blocks: dict[str, TextBlock], *, strict: bool, held: bool
    ) -> None:
        self.unknown: dict[str, None] = {}
        self.usage: tuple[int, int] | None = None
        self.finish_reason = "other"
        self.calls: dict[str, CallBlock] = {}
        self.complete_calls: list[CallBlock] = []
        self._endpoint = endpoint
        self._sent = sent
        self._blocks = blocks
        self._strict = strict
        self._held = held
        self._opened: set[str] = set()  # the parts that have begun
        self._latest: dict[str, int] = {}  # by what they are parts of, the number of the last one

    def read(self, event: AnswerEvent, spec: Spec | None) -> list[Chunk]:
        """Return the texts of an event, and note in it what else it holds.

        Args:
            event: the event.
            spec: its table; None if there is none, so that all of its fields are unknown.

        Raises:
            UpstreamError: it holds a field that the table does not know, or one that is refused; or it begins a part
                again, or behind a later one, so that readers would differ about what belongs together.
        """
        endpoint, data = self._endpoint, event.data
        found = places(Obj({}) if spec is None else spec, data)
        if found.unknown:
            self._refuse_unknown(type_of(event), [one.path for one in found.unknown])
        opened = endpoint.opened(data)
        if opened is not None:
            self._open(opened)
        out: list[Chunk] = []
        seals: list[Place] = []  # behind the texts that they belong to
        for place in found.known:
            if place.field.kind == "seal":
                seals.append(place)
            else:
                self._place(event, place, out)
        for place in (*found.unknown, *seals):
            self._place(event, place, out)
        for prefix in endpoint.ended(data):
            self._end_under(prefix, event, out)
        self._count_tokens(endpoint.usage(data))
        self.finish_reason = endpoint.finish_reason(data) or self.finish_reason
        if event.values:
            values = freeze({dotted(place.path): place.value for place in event.values})
            out.append(Chunk(VALUES, payload=freeze({"data": values}), run_id=str(event.number)))
        event.is_empty = not (found.known or found.unknown)
        return out

    def _open(self, part: str) -> None:
        """Begin a part, which may be empty yet: clients count the parts as they begin."""
        said = any(one.begun and one.is_under(part) for one in self._blocks.values())
        if said or part in self._opened or any(one.is_under(part) for one in self.calls.values()):
            raise UpstreamError("malformed", "the provider began a part of its answer twice")
        self._opened.add(part)
        self._in_order(part)

    def _in_order(self, part: str) -> None:
        """Note that a part begins, or goes on.

        Raises:
            UpstreamError: a later one has begun.
        """
        within, _, number = part.rpartition(".")
        if number.isdigit():
            if int(number) < self._latest.get(within, 0):
                raise UpstreamError("malformed", "the provider went back to an earlier part of its answer")
            self._latest[within] = int(number)

    def _end_under(self, prefix: str, event: AnswerEvent, out: list[Chunk]) -> None:
        """End the texts and the calls whose names are under a prefix."""
        for block in self._blocks.values():
            if block.begun and block.ends is None and block.is_under(prefix):
                self._end_block(block, event.number, out, event)
        for call in self.calls.values():
            if call.is_under(prefix):
                self._complete(call, event.number, out)

    def end(self, number: int) -> list[Chunk]:
        """Return the ends of all texts and calls, for the event with that number."""
        out: list[Chunk] = []
        for block in self._blocks.values():
            if block.begun and block.ends is None:
                self._end_block(block, number, out)
        for call in self.calls.values():
            self._complete(call, number, out)
        return out

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

    def _place(self, event: AnswerEvent, place: Place, out: list[Chunk]) -> None:
        kind = place.field.kind
        if kind == "value":
            event.values.append(place)
        elif kind in _TEXTS:
            self._text(event, place, out)
        elif kind in _CALLS:
            self._call_piece(event, place)
        elif kind == "repeat":
            self._repeat(event, place, out)
        elif kind == "seal":
            self._seal(event, place, out)
        elif kind == "tokens":
            if place.value:
                event.tokens.append((place.path, self._endpoint.block(place, event.data), place.value))
        elif kind == "echo":
            self._echo(event, place)
        elif kind == "offset":
            event.offsets.append(place)
        else:
            what = shown(place.path) or type_of(event)
            raise UpstreamError("refused", f"the provider sent {what}, which the gateway refuses")

    def _echo(self, event: AnswerEvent, place: Place) -> None:
        """Note a field of the request that the answer repeats; one that says something else is a value."""
        if agrees(place.value, self._sent.get(str(place.path[-1]))):
            event.echoes.append(place)
        else:
            event.values.append(Place(VALUE, place.path, place.value))

    def _text(self, event: AnswerEvent, place: Place, out: list[Chunk], name: str = "") -> None:
        number = str(event.number)
        kind = place.field.of if place.field.kind == "repeat" else place.field.kind
        name = name or self._endpoint.block(place, event.data)
        block = self._blocks.get(name)
        if block is None:
            block = self._blocks[name] = TextBlock(name, kind, self._endpoint.joined(name))
        if block.ends is not None or not block.begun:
            part = self._endpoint.part(name)
            if part is not None:
                self._in_order(part)
            self._note_going_on(block)
            self._begin(event, block, out)
        block.came(place.value)
        before = sum([one is block for _, one, _ in event.texts])
        event.texts.append((place.path, block, place.value))
        out.append(Chunk(block.delta, place.value, name, run_id=f"{number}.{before}" if before else number))

    def _note_going_on(self, block: TextBlock) -> None:
        """Let a text that goes on behind its end be read with its last piece: readers join the two.

        Raises:
            UpstreamError: it is held, and its parts are judged apart.
        """
        if not block.begun:
            return
        if self._held:
            raise UpstreamError("malformed", "the provider went on with a text that had ended")
        block.interrupted = True

    def _begin(self, event: AnswerEvent, block: TextBlock, out: list[Chunk]) -> None:
        """Begin a text, or go on with it. A reader joins the texts of one answer in the order of their beginnings.

        So the others end, unless nothing leaves before all is judged. A text that goes on behind another one is read
        with its last piece, which has left, so that nothing passes which is cut there.
        """
        for other in () if self._held else self._blocks.values():
            if other is not block and other.answer == block.answer:
                other.interrupted = other.interrupted or (other.begun and other.ends is None)
                self._end_block(other, event.number, out, event)
        block.begun, block.ends = True, None
        out.append(Chunk(f"{block.kind}-start", id=block.name, run_id=str(event.number)))
        if block.interrupted:
            out.append(Chunk(block.delta, block.tail, block.name, run_id=AGAIN))

    def _end_block(self, block: TextBlock, number: int, out: list[Chunk], event: AnswerEvent | None = None) -> None:
        if block.begun and block.ends is None:
            block.ends = number
            if event is not None:
                event.ending.append(block)
            out.append(Chunk(f"{block.kind}-end", id=block.name, run_id=str(block.ends)))

    def _repeat(self, event: AnswerEvent, place: Place, out: list[Chunk]) -> None:
        """Note a text or a piece of a call that went before; a text that says something else is read by itself."""
        if place.field.of in _CALLS:
            self._call_repeat(event, place, out)
        elif place.field.of not in _TEXTS:
            event.values.append(Place(VALUE, place.path, place.value))
        else:
            name = self._endpoint.block(place, event.data)
            block = self._blocks.get(name)
            if block is not None and place.value == block.original:
                self._end_block(block, event.number, out, event)
                event.repeats.append((place.path, block, place.value))
            elif place.value:
                own = name if block is None else f"{name}~{event.number}"
                self._text(event, place, out, own)
                self._end_block(self._blocks[own], event.number, out, event)

    def _seal(self, event: AnswerEvent, place: Place, out: list[Chunk]) -> None:
        """Note the signature of a text: it waits for all of that text."""
        block = self._blocks.get(self._endpoint.block(place, event.data))
        if block is not None:
            self._end_block(block, event.number, out, event)
            event.seals.append((place.path, block))

    def _call_repeat(self, event: AnswerEvent, place: Place, out: list[Chunk]) -> None:
        kind, name = place.field.of, self._endpoint.block(place, event.data)
        call = self.calls.get(name)
        if call is None or (not call.known(kind) and not call.complete):
            self._call_piece(event, place)
            return
        if not call.repeats_piece(kind, place.value):
            self._other_call(event, place, call, out)
            return
        if kind == "arguments":
            self._complete(call, event.number, out)
            call.repeats.append((event, place.path))
        if call not in event.calls:
            event.calls.append(call)

    def _other_call(self, event: AnswerEvent, place: Place, call: CallBlock, out: list[Chunk]) -> None:
        """Read what repeats a call, and says something else, as a call of its own: it is judged as one."""
        item: Value = at(event.data, place.path[:-1])
        name = f"{call.name}~{event.number}.{place.path[-1]}"
        other = self.calls[name] = CallBlock(name)
        for kind, key in (("call_id", "call_id"), ("call_name", "name")):
            said = item.get(key) if is_object(item) else None
            other.add(kind, said if isinstance(said, str) else call.known(kind), event.number, place.path)
        other.add("arguments", place.value if place.field.of == "arguments" else call.written, event.number, place.path)
        if place.field.of != "arguments":
            other.pieces.clear()  # these arguments stand elsewhere
        event.calls.append(other)
        self._complete(other, event.number, out)

    def _call_piece(self, event: AnswerEvent, place: Place) -> None:
        kind = place.field.of if place.field.kind == "repeat" else place.field.kind
        name = self._endpoint.block(place, event.data)
        call = self.calls.get(name)
        if call is None:
            call = self.calls[name] = CallBlock(name)
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

    def _complete(self, call: CallBlock, number: int, out: list[Chunk]) -> None:
        if call.complete:
            return
        call.complete = True
        self.complete_calls.append(call)
        try:
            arguments = call.read()
        except MessageError:
            raise UpstreamError("malformed", "the provider sent a call whose arguments nobody can read") from None
        payload = freeze({"call_id": call.id, "name": call.tool, "arguments": arguments})
        out.append(Chunk("tool-call", id=call.name, payload=payload, run_id=str(number)))
