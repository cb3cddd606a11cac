"""A dag at work on the texts of a stream: each stop is fed what those before it leave, carried back to the entry.

It knows lanes and tracks, no condition: which stops run was decided before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.merging.dag_state import DagState
from penstock.engine.processor.payload import Changes, Payload
from penstock.engine.streams.combined import Follower
from penstock.engine.streams.deltas import Composer, Delta, cut_apart, shifted, uncut
from penstock.engine.streams.values import applied, rewritten
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.merging.dag_state import MergeBranches
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.streams.lanes import Lane, PlaceEdits
    from penstock.engine.streams.tracks import Track
    from penstock.engine.text_guards.whole_texts import Text
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.message_list import MessageList


TEXT = "text"
"""The field that a stretch of text is, while it is merged."""

PLACE = TextPlace("", 0, (TEXT,))
"""Where that text stands, for the merge."""


class Member(NamedTuple):
    """A stop that ran: what merge policies call it, the path its changes go under, and all it came after, as bits."""

    name: str
    path: str
    above: int


class Family(NamedTuple):
    """All stops that ran, in order, and how they are merged."""

    stops: Sequence[Member]
    policy: MergePolicy
    unite: MergeBranches
    messages: MessageList

    def met(self, text: str, own: Mapping[int, Edits]) -> Edits:
        """Return what stops did to a text together, as edits of it.

        Args:
            text: the text before all of them.
            own: by stop what it did itself, to the text as those above it had left it; all those above are among them.

        Raises:
            StepFailedError: they cannot be merged; or whatever else ``unite`` raises then.
        """
        made = [index for index in sorted(own) if own[index]]
        if not made:
            return ()
        history = DagState(Payload(self.messages, fields=FrozenDict({TEXT: text})).tracked(), self.policy, self.unite)
        for index in sorted(own):
            stop = self.stops[index]
            seen = history.state(stop.above)
            after = edit_ops.apply(str(seen.fields[TEXT]), own[index])
            end = seen
            if own[index]:
                changes = Changes({PLACE: own[index]}, {})
                end = Payload(self.messages, fields=FrozenDict({TEXT: after}), changes=changes)
            history.add(index, stop.name, stop.path, stop.above, end)
        edits = history.changes(0, history.live).texts.get(PLACE)
        after = str(history.state(history.live).fields[TEXT])
        return edit_ops.difference(text, after) if edits is None else edits


class Meeting:
    """Where several stops meet: as far as all above have decided, with what all of them did."""

    __slots__ = ("_base", "_borders", "_family", "_strands", "_text")

    def __init__(self, family: Family, above: int) -> None:
        self._family = family
        self._strands = {index: _Strand() for index in range(len(family.stops)) if above >> index & 1}
        self._base = 0
        self._text = ""
        self._borders: list[int] = []

    def border(self, at: int) -> None:
        """Note that a neighbour begins at a place of the text: edits are merged text by text."""
        self._borders.append(at)

    def add(self, index: int, before: Delta, own: Sequence[Delta]) -> None:
        """Take in what a stop was fed, and what it decided about that, if it stands above."""
        strand = self._strands.get(index)
        if strand is not None:
            strand.first(before)
            for delta in own:
                strand.second(delta)

    def merged(self, text: str, *, final: bool) -> Delta:
        """Return what all have decided now; ``text`` is what was added to the text since the last call."""
        self._text += text
        until = self._base + len(self._text)
        if not final:
            until = self._reach(until)
        own = {index: strand.own(until, self._borders, final=final) for index, strand in self._strands.items()}
        edits = shifted(self._family.met(self._text[: until - self._base], own), self._base)
        self._text = self._text[until - self._base :]
        self._base = until
        return Delta(edits, until)

    def _reach(self, until: int) -> int:
        while True:
            reach = min(strand.reach(until) for strand in self._strands.values())
            if reach == until:
                return until
            until = reach


class _Strand(Composer):
    """What one stop was fed, and what it did itself."""

    __slots__ = ()

    def reach(self, until: int) -> int:
        """Return the last place up to ``until`` that it has decided and no edit straddles, before all stops."""
        until = self._first.safe(min(until, self._first.until))
        mid = until + _grown(self._first.waiting(), until) + self._mid - self._base
        return self._boundary(min(mid, self._second.until))[0]

    def own(self, until: int, borders: Sequence[int], *, final: bool) -> Edits:
        """Return what it did itself up to a place, counted from where the last call ended, and cut at borders."""
        first = self._first.take(until, final=final)
        moved = [at + self._mid - self._base + _grown(first, at) for at in borders if uncut(first, at) == at]
        mid = until + self._mid - self._base + _grown(first, until + final)
        own = shifted(cut_apart(self._second.take(mid, final=final), moved), -self._mid)
        self._base, self._mid = until, mid
        return own


def _grown(edits: Iterable[Edit], until: int) -> int:
    """Return how much longer a text becomes by the edits that begin before a place."""
    return sum(len(edit.text) - edit.end + edit.start for edit in edits if edit.start < until)


class DagMemberTrack(NamedTuple):
    """One stop that runs: its lane, and the stops it is fed by (their places in the row; none: the entry)."""

    lane: Lane
    sources: tuple[int, ...]


class DagLane:
    """Stops in topological order; where several meet, what they did adds up as `Family` says."""

    def __init__(self, stops: Sequence[DagMemberTrack], family: Family) -> None:
        self._stops = stops
        self._family = family
        self._ends = ends_of(stops)
        self.kinds = frozenset[str]().union(*(stop.lane.kinds for stop in stops))
        self.guards = any(stop.lane.guards for stop in stops)

    def open(self, kind: str, template: Chunk) -> Track:
        """Return a track for a new text."""
        return DagTrack(self._stops, [stop.lane.open(kind, template) for stop in self._stops], self._family)

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


def ends_of(stops: Sequence[DagMemberTrack]) -> tuple[int, ...]:
    """Return the stops that feed no other."""
    feeding = {source for stop in stops for source in stop.sources}
    return tuple(index for index in range(len(stops)) if index not in feeding)


class DagTrack:
    """The stops at work on one text."""

    def __init__(self, stops: Sequence[DagMemberTrack], tracks: Sequence[Track], family: Family) -> None:
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
