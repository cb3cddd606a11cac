"""`EventPatcher`: writes the events of an answer as they leave: as the bytes that came, or patched in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.formats.wire import is_object
from penstock.workflows.gateway.echoes import given_back
from penstock.workflows.gateway.frames import written as as_event
from penstock.workflows.gateway.json_text import read_json, write_json
from penstock.workflows.gateway.prompt import dotted
from penstock.workflows.gateway.skeletons import Skeleton
from penstock.workflows.gateway.tables import GONE, with_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.answer_events import AnswerEvent
    from penstock.workflows.gateway.blocks import TextBlock
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint, SentEvents
    from penstock.workflows.gateway.tables import Path


class EventPatcher:
    """Writes the events of one answer. Lives as long as it.

    Args:
        endpoint: its protocol.
        request: the request as the client sent it.
        sent: the request as it was sent to the provider.
        state: takes the events that have left.
        blocks: the texts of the answer, by name.

    Attributes:
        added: how many events were added.
        edited: whether anything was changed.
        is_whole: whether the answer is one event, without the lines of a stream.
    """

    def __init__(
        self, endpoint: Endpoint, request: Json, sent: Json, state: SentEvents, blocks: Mapping[str, TextBlock]
    ) -> None:
        self.added = 0
        self.edited = False
        self.is_whole = False
        self._endpoint = endpoint
        self._request = request
        self._sent = sent
        self._state = state
        self._blocks = blocks

    def written(self, event: AnswerEvent) -> list[bytes]:
        """Return an event as it leaves, with the events that are added before it."""
        changes: dict[Path, Value] = {}
        first = self._endpoint.number(event.data)
        late = [block for block in self._blocks.values() if block.late]
        added = [piece for block in self._ending(event) for piece in self.late_event(block, first)] if late else []
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
        if event.calls or event.values or event.tokens or event.echoes or event.offsets:
            changes |= self._calls_written(event)
            changes |= self._values_written(event)
            changes |= self._tokens_written(event, changes)
            changes |= self._echoes_written(event)
            changes |= self._offsets_written(event)
        if self.added and first is not None:
            changes |= self._endpoint.renumbered(first + self.added)
        made: Json = with_values(event.data, changes) if changes else event.data
        self._note_sent(event, made)
        if not changes:
            return [*added, event.raw]
        self.edited = True
        line = write_json(made)
        return [*added, line if self.is_whole else as_event(event.type, line)]

    def _ending(self, event: AnswerEvent) -> list[TextBlock]:
        """Return the blocks with text behind their last event, where it is time for it: one that ends here."""
        own = {id(block) for _, block, _ in event.texts}
        return [
            block
            for block in self._blocks.values()
            if block.late and id(block) not in own and block.ends is not None and block.ends <= event.number
        ]

    def late_event(self, block: TextBlock, number: int | None) -> Iterator[bytes]:
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
            made = with_values(made, self._endpoint.renumbered(number + self.added))
        self.added += 1
        self._state.pass_on(made)
        yield as_event(kind, write_json(made))

    def _note_sent(self, event: AnswerEvent, made: Json) -> None:
        """Note an event as it leaves: nothing that guards have not released is kept for later events."""
        self._state.pass_on(made)
        if made:
            self._endpoint.left(self._state, made)
        for path, block, _ in event.texts:
            self._state.open[block.name] = None
            known = block.sample
            if isinstance(known, tuple) and len(path) > len(cast("tuple[str, Json, Path]", known)[2]):
                continue  # an event that opens the block, or that repeats it
            others: Mapping[Path, Value] = (
                {other: "" for other, _, _ in event.texts if other != path} if len(event.texts) > 1 else {}
            )
            block.sample = event.type, with_values(made, others) if others else made, path
        for block in self._blocks.values():
            if block.ends is not None and block.ends <= event.number:
                self._state.open.pop(block.name, None)

    def _calls_written(self, event: AnswerEvent) -> Mapping[Path, Value]:
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

    def _values_written(self, event: AnswerEvent) -> Mapping[Path, Value]:
        left: Json = event.left if is_object(event.left) else {}
        changes: dict[Path, Value] = {}
        for place in event.values:
            name = dotted(place.path)
            now = left.get(name, GONE) if event.left is not None else GONE
            if now is GONE or now != place.value:
                changes[place.path] = now
        return changes

    def _tokens_written(self, event: AnswerEvent, changes: Mapping[Path, Value]) -> Mapping[Path, Value]:
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

    def _echoes_written(self, event: AnswerEvent) -> Mapping[Path, Value]:
        """Return the fields of the request that an answer repeats: the client gets its own back."""
        changes: dict[Path, Value] = {}
        for place in event.echoes:
            key = str(place.path[-1])
            now = given_back(place.value, self._sent.get(key), self._request.get(key))
            if now != place.value:
                changes[place.path] = now
        return changes

    def _offsets_written(self, event: AnswerEvent) -> Mapping[Path, Value]:
        """Return the places in texts that have moved, since guards changed the text before them."""
        changes: dict[Path, Value] = {}
        for place in event.offsets:
            block = self._blocks.get(self._endpoint.block(place, event.data))
            if block is not None and isinstance(place.value, int):
                now = block.moved(place.value, is_end=str(place.path[-1]).startswith("end"))
                if now != place.value:
                    changes[place.path] = now
        return changes
