"""A dag at work on the texts of a stream: each stop is fed what those before it leave, carried back to the entry.

It knows lanes and tracks, no condition: which stops run was decided before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.streams.combined import Follower
from penstock.engine.streams.deltas import Delta
from penstock.engine.streams.lineage import Meeting
from penstock.engine.streams.values import applied, rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.streams.lanes import Lane, PlaceEdits
    from penstock.engine.streams.lineage import Family
    from penstock.engine.streams.tracks import Track
    from penstock.engine.text_guards.whole_texts import Text
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.texts import TextPlace


class MeshStop(NamedTuple):
    """One stop that runs: its lane, and the stops it is fed by (their places in the row; none: the entry)."""

    lane: Lane
    sources: tuple[int, ...]


class MeshLane:
    """Stops in topological order; where several meet, what they did adds up as `Family` says."""

    def __init__(self, stops: Sequence[MeshStop], family: Family) -> None:
        self._stops = stops
        self._family = family
        self._ends = ends_of(stops)
        self.kinds = frozenset[str]().union(*(stop.lane.kinds for stop in stops))
        self.guards = any(stop.lane.guards for stop in stops)

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        return MeshTrack(self._stops, [stop.lane.open(kind, template) for stop in self._stops], self._family)

    async def values(self, chunk: Chunk, texts: list[Text]) -> PlaceEdits:
        """Judge stop by stop."""
        known = {text.place: text.text for text in texts}
        own: list[PlaceEdits] = []
        for index, stop in enumerate(self._stops):
            before = self._met(self._family.stops[index].above, own, known)
            seen = rewritten(chunk, before) if before else chunk
            own.append(await stop.lane.values(seen, applied(texts, before) if before else texts))
        return self._met((1 << len(own)) - 1, own, known)

    def _met(self, above: int, own: Sequence[PlaceEdits], known: Mapping[TextPlace, str]) -> PlaceEdits:
        """Return what stops did together, place by place."""
        met = [index for index in range(len(own)) if above >> index & 1]
        places = dict.fromkeys(place for index in met for place in own[index])
        return {
            place: self._family.met(known[place], {index: own[index].get(place, ()) for index in met})
            for place in places
        }


def ends_of(stops: Sequence[MeshStop]) -> tuple[int, ...]:
    """Return the stops that feed no other."""
    feeding = {source for stop in stops for source in stop.sources}
    return tuple(index for index in range(len(stops)) if index not in feeding)


class MeshTrack:
    """The stops at work on one text."""

    def __init__(self, stops: Sequence[MeshStop], tracks: Sequence[Track], family: Family) -> None:
        self._heard = [_Heard(track) for track in tracks]
        self._stops = [(stop.sources, Follower(heard)) for stop, heard in zip(stops, self._heard, strict=True)]
        self._meetings = {
            index: Meeting(family, family.stops[index].above)
            for index, stop in enumerate(stops)
            if len(stop.sources) > 1
        }
        self._ends = ends_of(stops)
        if len(self._ends) > 1:
            self._meetings[len(stops)] = Meeting(family, (1 << len(stops)) - 1)
        self._fed = 0

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Feed each stop what those before it have decided; return what the last have."""
        self._fed += len(text)
        made: list[Delta] = []
        for index, (sources, follower) in enumerate(self._stops):
            before = self._met(index, sources, made, text, final=final)
            made.append(await follower.feed(before, text, final=final))
            own = self._heard[index].taken()
            for meeting in self._meetings.values():
                meeting.add(index, before, own)
        return self._met(len(made), self._ends, made, text, final=final)

    async def border(self) -> None:
        """Tell each stop, and where they meet."""
        for meeting in self._meetings.values():
            meeting.border(self._fed)
        for _, follower in self._stops:
            follower.border()

    def _met(self, index: int, sources: Sequence[int], made: Sequence[Delta], text: str, *, final: bool) -> Delta:
        """Return what comes to a stop."""
        if not sources:
            return Delta((), self._fed)
        if len(sources) == 1:
            return made[sources[0]]
        return self._meetings[index].merged(text, final=final)


class _Heard:
    """A track that is listened to: what it decides is what its stop did itself."""

    def __init__(self, track: Track) -> None:
        self._track = track
        self._deltas: list[Delta] = []
        self.border = track.border

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Feed the track."""
        delta = await self._track.feed(text, final=final)
        self._deltas.append(delta)
        return delta

    def taken(self) -> Sequence[Delta]:
        """Return what it decided since the last call."""
        deltas, self._deltas = self._deltas, []
        return deltas
