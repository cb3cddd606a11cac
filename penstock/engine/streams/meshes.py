"""A dag at work on the texts of a stream: each stop is fed what those before it leave, carried back to the entry.

It knows lanes and tracks, no condition: which stops run was decided before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine import edits as edit_ops
from penstock.engine.streams.combined import Follower
from penstock.engine.streams.deltas import Delta, Merger
from penstock.engine.streams.values import applied, rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.chunks import Chunk
    from penstock.engine.edits import Edits
    from penstock.engine.streams.combined import Settle
    from penstock.engine.streams.lanes import Lane, PlaceEdits
    from penstock.engine.streams.tracks import Track
    from penstock.engine.texts import TextPlace
    from penstock.engine.whole_texts import Text


class MeshStop(NamedTuple):
    """One stop that runs: its lane, and the stops it is fed by (their places in the row; none: the entry)."""

    lane: Lane
    sources: tuple[int, ...]


class MeshLane:
    """Stops in topological order; where several meet, their edits are merged as branches' are."""

    def __init__(self, stops: Sequence[MeshStop], settle: Settle) -> None:
        self._stops = stops
        self._settle = settle
        self._ends = ends_of(stops)
        self.kinds = frozenset[str]().union(*(stop.lane.kinds for stop in stops))
        self.guards = any(stop.lane.guards for stop in stops)

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        return MeshTrack(self._stops, [stop.lane.open(kind, template) for stop in self._stops], self._settle)

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Judge stop by stop."""
        known = {text.place: text.text for text in texts}
        made: list[PlaceEdits] = []
        for stop in self._stops:
            before = self._met([made[source] for source in stop.sources], known)
            seen = rewritten(chunk, before) if before else chunk
            own = await stop.lane.values(seen, applied(texts, before) if before else texts)
            made.append(
                {place: edit_ops.compose(before.get(place, ()), own.get(place, ())) for place in {**before, **own}}
            )
        return self._met([made[end] for end in self._ends], known)

    def _met(self, sources: Sequence[PlaceEdits], known: Mapping[TextPlace, str]) -> PlaceEdits:
        if len(sources) <= 1:
            return sources[0] if sources else {}
        places = dict.fromkeys(place for edits in sources for place in edits)
        return {place: self._settle(known[place], [edits.get(place, ()) for edits in sources]) for place in places}


def ends_of(stops: Sequence[MeshStop]) -> tuple[int, ...]:
    """Return the stops that feed no other."""
    feeding = {source for stop in stops for source in stop.sources}
    return tuple(index for index in range(len(stops)) if index not in feeding)


class MeshTrack:
    """The stops at work on one text."""

    def __init__(self, stops: Sequence[MeshStop], tracks: Sequence[Track], settle: Settle) -> None:
        self._stops = [(stop.sources, Follower(track)) for stop, track in zip(stops, tracks, strict=True)]
        self._joins = [Merger(len(stop.sources)) for stop in stops]
        self._ends = ends_of(stops)
        self._end = Merger(len(self._ends))
        self._settle = settle
        self._fed = 0

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Feed each stop what those before it have decided; return what the last have."""
        self._fed += len(text)
        made: list[Delta] = []
        for (sources, follower), join in zip(self._stops, self._joins, strict=True):
            before = self._met(join, [made[source] for source in sources], text, final=final)
            made.append(await follower.feed(before, text, final=final))
        return self._met(self._end, [made[end] for end in self._ends], text, final=final)

    async def border(self) -> None:
        """Tell each stop."""
        for _, follower in self._stops:
            follower.border()

    def _met(self, join: Merger, sources: Sequence[Delta], text: str, *, final: bool) -> Delta:
        if not sources:
            return Delta((), self._fed)
        if len(sources) == 1:
            return sources[0]
        for index, delta in enumerate(sources):
            join.add(index, delta)
        return join.merged(text, self._settled, final=final)

    def _settled(self, text: str, branches: Sequence[Edits]) -> Edits:
        return self._settle(text, branches)
