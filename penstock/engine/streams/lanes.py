"""Lanes: places of the graph where texts are judged. A lane opens a track for each text, and judges what is no text.

A lane lives as long as the stream. It knows tracks and steps; what is held, and in which order it leaves, is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.streams.combined import ForkTrack, PlacedTrack, RowTrack, ShadowTrack
from penstock.engine.streams.tracks import GuardTrack, HookTrack, PassTrack
from penstock.engine.streams.values import PROBE, SNAPSHOT, applied, rewritten
from penstock.engine.text_guards.guard import in_places, window_of
from penstock.engine.text_guards.whole_texts import PART_KINDS, UNREADABLE, Unread
from penstock.engine.text_guards.window import Hit
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import StepFailedError
from penstock.engine.values.texts import KeyText

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from penstock.engine.graph.plan import HookCall
    from penstock.engine.streams.combined import Beside, Settle
    from penstock.engine.streams.policy import Aside, StreamPolicy
    from penstock.engine.streams.steps import StreamStep
    from penstock.engine.streams.tracks import Track
    from penstock.engine.text_guards.guard import TextGuard
    from penstock.engine.text_guards.whole_texts import Text
    from penstock.engine.text_guards.window import Found, TextWindow
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.texts import TextPlace

    PlaceEdits = Mapping[TextPlace, Edits]

EVERY_KIND = frozenset(PART_KINDS)


class Lane(Protocol):
    """What a graph, or a part of one, does with the texts of a stream.

    Attributes:
        kinds: the kinds of parts it looks at.
        guards: whether a guard is in it.
    """

    kinds: frozenset[str]
    guards: bool

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text of that kind; ``template``: a chunk of it."""
        ...

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Return the edits to a chunk that is no piece of a text; ``texts`` are those in it that it may look at."""
        ...


class GuardLane:
    """A `TextGuard`'s place."""

    def __init__(self, step: StreamStep, guard: TextGuard, scan: HookCall, *, waits: bool) -> None:
        self.kinds = frozenset(guard.kinds)
        self.guards = step.step.role == "guard"
        self._step = step
        self._guard = guard
        self._scan = scan
        self._waits = waits

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        del template
        if kind not in self.kinds:
            return PassTrack()
        return GuardTrack(self._step, self._guard, self._scan, kind, waits=self._waits)

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Judge a value whole; a snapshot of one that still grows, as far as it is decided."""
        mine = [text for text in texts if text.kind in self.kinds]
        if not mine and chunk.type not in UNREADABLE:
            return {}
        try:
            if chunk.type in UNREADABLE:
                self._guard.unread(self._step.ctx, [Unread("", 0, chunk.type)])
            if chunk.type == SNAPSHOT:
                edits = await self._so_far(mine)
            else:
                edits = await self._guard.judged(self._step.ctx, mine)
            self._step.judged()
            if chunk.type != SNAPSHOT:
                _check_editable(mine, edits)
            edits = self._checked(mine, edits)
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            self._step.broke(error)
            return {}
        for place, made in edits.items():
            self._step.note_edits(place, made)
        return edits

    def _checked(self, texts: list[Text], edits: PlaceEdits) -> PlaceEdits:
        """Return edits in order, under the step's name."""
        known = {text.place: text.text for text in texts}
        path, hides = self._step.step.path, self._step.step.role == "guard"
        return {
            place: edit_ops.stamp(edit_ops.normalise(made, known[place]), path, hides=hides)
            for place, made in edits.items()
        }

    async def _so_far(self, texts: list[Text]) -> PlaceEdits:
        """Return what a snapshot becomes: edits as far as its texts are decided, and what is not is cut off."""
        hits: list[Hit] = []
        cuts: dict[TextPlace, Edits] = {}
        for text in texts:
            window = window_of([text])
            window.final = isinstance(text.place.path[-1], KeyText)  # the value of a key that is there stands behind it
            settled, held = await self._found(window)
            if held < len(text.text):
                cuts[text.place] = (edit_ops.Edit(held, len(text.text), "", "redact", self._step.step.path),)
            if text.fixed:  # it cannot be cut, so it is gone or stays
                settled, _ = await self._found(window_of([text]))
            if settled:
                hits.append(Hit(window, settled))
        made = in_places(hits, self._guard.act(hits, self._step.ctx)) if hits else {}
        _check_editable(texts, made)
        return {place: (*made.get(place, ()), *cuts.get(place, ())) for place in {**made, **cuts}}

    async def _found(self, window: TextWindow) -> tuple[list[Found], int]:
        """Return what is found that stays so, and up to where that is."""
        result = self._scan(window, self._step.ctx)
        found, held = await result if self._waits else result
        return [item for item in found if item.end <= held], held


class HookLane:
    """The place of a hook that edits nothing: it sees every chunk."""

    kinds = EVERY_KIND

    def __init__(self, step: StreamStep, call: HookCall, *, waits: bool) -> None:
        self.guards = step.step.role == "guard"
        self._step = step
        self._call = call
        self._waits = waits

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        del kind
        return HookTrack(self._step, self._call, template, waits=self._waits)

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Show it the chunk."""
        del texts
        if chunk.type == PROBE:
            return {}
        await HookTrack(self._step, self._call, chunk, waits=self._waits).show(chunk)
        return {}


class PassLane:
    """Nothing: a way of the graph that no step of this stage stands on."""

    kinds: frozenset[str] = frozenset()
    guards = False

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track that lets all pass."""
        del kind, template
        return PassTrack()

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Let it pass."""
        del chunk, texts
        return {}


class RowLane:
    """Two lanes in a row."""

    def __init__(self, first: Lane, second: Lane) -> None:
        self._first = first
        self._second = second
        self.kinds = first.kinds | second.kinds
        self.guards = first.guards or second.guards

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        return RowTrack(self._first.open(kind, template), self._second.open(kind, template))

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Judge by the first, and what it leaves by the second."""
        first = await self._first.values(chunk, texts)
        if first:
            chunk, texts = rewritten(chunk, first), applied(texts, first)
        second = await self._second.values(chunk, texts)
        return {place: edit_ops.compose(first.get(place, ()), second.get(place, ())) for place in {**first, **second}}


class ForkLane:
    """Lanes beside each other, and the join where they meet."""

    def __init__(self, lanes: Sequence[Lane], settle: Settle, beside: Beside) -> None:
        self._lanes = lanes
        self._settle = settle
        self._beside = beside
        self.kinds = frozenset[str]().union(*(lane.kinds for lane in lanes))
        self.guards = any(lane.guards for lane in lanes)

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        return ForkTrack([lane.open(kind, template) for lane in self._lanes], self._settle, self._beside)

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Judge by all, and merge their edits place by place."""
        found: list[PlaceEdits] = [{}] * len(self._lanes)

        async def judge(index: int, lane: Lane) -> None:
            found[index] = await lane.values(chunk, texts)

        await self._beside([_later(judge, index, lane) for index, lane in enumerate(self._lanes)])
        known = {text.place: text.text for text in texts}
        places = dict.fromkeys(place for edits in found for place in edits)
        return {place: self._settle(known[place], [edits.get(place, ()) for edits in found]) for place in places}


class PlacedLane:
    """A lane under a policy."""

    def __init__(self, lane: Lane, policy: StreamPolicy, fallback: Lane | None) -> None:
        self._lane = lane
        self._policy = policy
        self._fallback = fallback
        self.kinds = lane.kinds if fallback is None else lane.kinds | fallback.kinds
        self.guards = lane.guards or (fallback is not None and fallback.guards)

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        fallback = None if self._fallback is None else self._fallback.open(kind, template)
        return PlacedTrack(self._lane.open(kind, template), self._policy, fallback)

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Judge within the limits; after a failure by the fallback, if there is one."""
        try:
            return await self._policy.limited(lambda: self._lane.values(chunk, texts))
        except StepFailedError as error:
            self._policy.failed(error)
        return {} if self._fallback is None else await self._fallback.values(chunk, texts)


class ShadowLane:
    """Pipes that see everything and change nothing."""

    kinds = EVERY_KIND
    guards = False

    def __init__(self, show: Callable[[Chunk], Awaitable[object]], aside: Aside) -> None:
        self._show = show
        self._aside = aside

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        del kind
        return ShadowTrack(self._show, self._aside, template)

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Show them the chunk, aside."""
        del texts
        if chunk.type != PROBE:
            await self._aside(lambda: self._show(chunk))
        return {}


def _check_editable(texts: list[Text], edits: PlaceEdits) -> None:
    if any(text.fixed and text.place in edits for text in texts):
        raise WrongReturnError("it edits a number, which cannot be edited as text; abort instead")


def _later(work: Callable[..., Awaitable[object]], *given: object) -> Callable[[], Awaitable[object]]:
    return lambda: work(*given)
