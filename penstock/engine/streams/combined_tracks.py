"""Tracks that consist of other tracks: sequences, parallels, policies and dags. This module calls no processor.

A combined track returns decided edits in positions of the text that it is fed, so tracks can be nested to any depth.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.merging.dag_state import DagState
from penstock.engine.processor.payload import Changes, Payload
from penstock.engine.streams.decisions import (
    Composer,
    Decided,
    Merger,
    by_part,
    decided_by,
    merged_parts,
    shifted,
    split_at,
)
from penstock.engine.streams.policy import run_concurrently
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import StepFailedError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.merging.dag_state import MergeBranches
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.streams.decisions import Fed, MergeEdits, Pending
    from penstock.engine.streams.policy import StreamPolicy
    from penstock.engine.streams.tracks import Subject, Track
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.message_list import MessageList


# In sequence


class FollowingTrack:
    """A track that is fed the output of the track before it.

    Its edits are composed with those of the track before, so they count from the text before both.

    Attributes:
        own: the track's own last edits, in positions of the text that it was fed.
    """

    __slots__ = ("_borders", "_composer", "_fed", "_text", "_track", "_until", "own")

    def __init__(self, track: Track) -> None:
        self.own = Decided((), 0)
        self._track = track
        self._composer = Composer()
        self._text = ""  # what the track before has not decided
        self._until = 0
        self._fed = 0
        self._borders: list[int] = []  # where parts begin that the track was not told of yet

    def feed(self, before: int, text: str) -> Fed:
        """Feed the track the text that the track before, with the input ``text``, decided up to ``before`` unedited."""
        if self._borders or self._composer.waits:
            return self.feed_edited(Decided((), before), text, (), final=False)
        self._fed += len(text)
        text = self._text + text
        size = before - self._until
        self._text, self._until = text[size:], before
        fed = self._track.feed(text[:size]) if size else self.own.until
        if not isinstance(fed, int):
            return self._composed(Decided((), before), fed)
        self.own = Decided((), fed)
        return self._composer.pass_on(before, fed)

    async def _composed(self, before: Decided, fed: Fed, *, final: bool = False) -> Decided:
        """Return what both tracks have decided, in positions of the text before both."""
        self._composer.add_first(before)
        self.own = await decided_by(fed)
        self._composer.add_second(self.own)
        return self._composer.take(final=final)

    async def feed_edited(self, before: Decided, text: str, borders: Sequence[int], *, final: bool) -> Decided:
        """Feed the track the decided output of the track before, whose input is ``text`` and ``borders``."""
        if borders:
            self._borders.extend([self._fed + border for border in borders])
        self._text += text
        self._fed += len(text)
        begin, self._until = self._until, before.until
        size = self._until - begin
        ready, self._text = self._text[:size], self._text[size:]
        at: Sequence[int] = ()
        if self._borders:
            known = [border - begin for border in self._borders if border <= self._until]
            self._borders = self._borders[len(known) :]
            ready, at = applied(ready, shifted(before.edits, -begin), known)
        elif before.edits:
            ready = edit_ops.apply(ready, shifted(before.edits, -begin))
        return await self._composed(before, self._track.feed(ready, at, final=final), final=final)


def applied(text: str, edits: Edits, borders: Sequence[int]) -> tuple[str, list[int]]:
    """Return a text after its edits, and where its parts begin then; text written across a border stands before it."""
    starts = [0, *borders]
    pieces = [
        edit_ops.apply(text[start:end], own)
        for start, end, own in zip(
            starts, [*borders, len(text)], by_part(split_at(edits, borders), starts), strict=True
        )
    ]
    at = 0
    moved: list[int] = []
    for piece in pieces[:-1]:
        at += len(piece)
        moved.append(at)
    return "".join(pieces), moved


class SequenceTrack:
    """Two tracks in sequence: the second is fed the output of the first."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Track, second: Track) -> None:
        self._first = first
        self._second = FollowingTrack(second)

    def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Fed:
        """Feed the first, then the second with the output of the first."""
        before = self._first.feed(text, borders, final=final)
        if isinstance(before, int) and not borders and not final:
            return self._second.feed(before, text)
        return self._feed_second(before, text, borders, final=final)

    async def _feed_second(self, before: Fed, text: str, borders: Sequence[int], *, final: bool) -> Decided:
        return await self._second.feed_edited(await decided_by(before), text, borders, final=final)


# In parallel


class ParallelTrack:
    """Parallel tracks. Text is decided once all of them have decided it, with their merged edits."""

    __slots__ = ("_arms", "_concurrent", "_merger")

    def __init__(self, subject: Subject, tracks: Sequence[Track], merge: MergeEdits, *, concurrent: bool) -> None:
        """Merge edits with ``merge``; ``concurrent``: whether the tracks are fed concurrently, or one after another."""
        self._concurrent = concurrent
        self._merger = Merger(len(tracks), merge, subject.gap)
        self._arms = tuple(zip(range(len(tracks)), tracks, self._merger.tracks, strict=True))

    def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Fed:
        """Feed all tracks, and merge their decisions."""
        if self._concurrent:
            return self._feed_concurrently(text, borders, final=final)
        for index, track, decided in self._arms:
            fed = track.feed(text, borders, final=final)
            if not isinstance(fed, int):
                return self._feed_rest(index, fed, text, borders, final=final)
            decided.until = fed
        until = None if borders else self._merger.take_fast(text)
        return self._feed_rest(len(self._arms), 0, text, borders, final=final) if until is None else until

    async def _feed_rest(self, begin: int, fed: Fed, text: str, borders: Sequence[int], *, final: bool) -> Decided:
        """Feed the tracks behind ``begin``, which has returned ``fed``. The first failure is raised at the end."""
        failures: list[StepFailedError] = []
        for index, track, decided in self._arms[begin:]:
            try:
                made = fed if index == begin else track.feed(text, borders, final=final)
                decided.add(Decided((), made) if isinstance(made, int) else await made)
            except StepFailedError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return self._merger.take(text, borders, final=final)

    async def _feed_concurrently(self, text: str, borders: Sequence[int], *, final: bool) -> Decided:
        async def feed(track: Track, decided: Pending) -> None:
            decided.add(await decided_by(track.feed(text, borders, final=final)))

        await run_concurrently([partial(feed, track, decided) for _, track, decided in self._arms])
        return self._merger.take(text, borders, final=final)


# Under a policy


class PolicyTrack:
    """A track under a policy. If it fails, the fallback, if there is one, reads the rest of the text.

    The fallback begins where the track had decided.
    """

    __slots__ = ("_begun", "_borders", "_fallback", "_out", "_policy", "_track", "_until", "_waiting")

    def __init__(self, track: Track, policy: StreamPolicy, fallback: Track | None) -> None:
        self._track = track
        self._policy = policy
        self._fallback = fallback
        self._out = False
        self._begun = 0  # where the fallback began
        self._until = 0
        self._waiting = ""  # what is not decided …
        self._borders: list[int] = []  # … and where parts begin in it

    def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Fed:
        """Feed the track; after its failure, feed the fallback, or pass the text on."""
        if borders:
            self._borders.extend([len(self._waiting) + border for border in borders])
        self._waiting += text
        fed = None if self._out else self._track.feed(text, borders, final=final)
        if not isinstance(fed, int) or self._borders:
            return self._decided(fed, text, borders, final=final)
        self._waiting = self._waiting[fed - self._until :]
        self._until = fed
        return fed

    async def _decided(self, fed: Fed | None, text: str, borders: Sequence[int], *, final: bool) -> Decided:
        if fed is not None:
            decided = await self._policy.attempt(partial(decided_by, fed))
            if decided is not None:
                return self._noted(decided)
            self._out = True
            self._begun = self._until
            text, borders = self._waiting, tuple(self._borders)
        if self._fallback is None:
            return self._noted(Decided((), self._until + len(self._waiting)))
        decided = await decided_by(self._fallback.feed(text, borders, final=final))
        return self._noted(Decided(shifted(decided.edits, self._begun), decided.until + self._begun))

    def _noted(self, decided: Decided) -> Decided:
        size = decided.until - self._until
        self._waiting = self._waiting[size:]
        if self._borders:
            self._borders = [border - size for border in self._borders if border > size]
        self._until = decided.until
        return decided


# In a dag

TEXT = "text"
"""The field of a payload that holds a streamed text while its edits are merged."""

PLACE = TextPlace("", 0, (TEXT,))
"""The place of that text in a merge."""


class StreamDagMember(NamedTuple):
    """A member of a dag that runs in a stream.

    Attributes:
        name: its name in merge policies.
        path: the path under which its changes are recorded.
        above: the members that ran before it, as bits.
        sources: the numbers of the members that feed it; none if the entry does.
    """

    name: str
    path: str
    above: int
    sources: tuple[int, ...]


class StreamDag(NamedTuple):
    """A dag in a stream: the members that run, in topological order, and how their edits are merged."""

    members: Sequence[StreamDagMember]
    policy: MergePolicy
    merge_branches: MergeBranches
    messages: MessageList

    @property
    def ends(self) -> tuple[int, ...]:
        """The members that feed no other."""
        feeding = {source for member in self.members for source in member.sources}
        return tuple(index for index in range(len(self.members)) if index not in feeding)

    def merged(self, text: str, own: Mapping[int, Edits]) -> Edits:
        """Return the merged edits of members, in positions of the text before all of them.

        Args:
            text: the text before all of them.
            own: by member, its own edits of the text as the members above it left it; all of these are included.

        Raises:
            StepFailedError: they cannot be merged; or any other error of ``merge_branches``.
        """
        if not any(own.values()):
            return ()
        state = DagState(
            Payload(self.messages, fields=FrozenDict({TEXT: text})).tracked(), self.policy, self.merge_branches
        )
        for index in sorted(own):
            member = self.members[index]
            seen = state.state(member.above)
            if own[index]:
                after = edit_ops.apply(str(seen.fields[TEXT]), own[index])
                changes = Changes({PLACE: own[index]}, {})
                end = Payload(self.messages, fields=FrozenDict({TEXT: after}), changes=changes)
            else:
                end = seen
            state.add(index, member.name, member.path, member.above, end)
        edits = state.changes(0, state.live).texts.get(PLACE)
        after = str(state.state(state.live).fields[TEXT])
        return edit_ops.difference(text, after) if edits is None else edits


class DagTrack:
    """The members of a dag. Each is fed the output of those before it. Where several meet, their edits are merged."""

    __slots__ = ("_dag", "_ends", "_fed", "_joins", "_tracks")

    def __init__(self, subject: Subject, tracks: Sequence[Track], dag: StreamDag) -> None:
        self._dag = dag
        self._tracks = [FollowingTrack(track) for track in tracks]
        self._joins = {
            index: _DagJoin(dag, member.above, subject.gap)
            for index, member in enumerate(dag.members)
            if len(member.sources) > 1
        }
        self._ends = dag.ends
        if len(self._ends) > 1:
            self._joins[len(tracks)] = _DagJoin(dag, (1 << len(tracks)) - 1, subject.gap)
        self._fed = 0

    async def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Decided:
        """Feed each member the decided output of those before it; return the decisions of the last members."""
        for join in self._joins.values():
            join.add_text(text, borders)
        self._fed += len(text)
        made: list[Decided] = []
        for index, (member, track) in enumerate(zip(self._dag.members, self._tracks, strict=True)):
            before = self._before(index, member.sources, made, final=final)
            made.append(await track.feed_edited(before, text, borders, final=final))
            for join in self._joins.values():
                join.add(index, before, track.own)
        return self._before(len(made), self._ends, made, final=final)

    def _before(self, index: int, sources: Sequence[int], made: Sequence[Decided], *, final: bool) -> Decided:
        """Return the decisions before a member."""
        if not sources:
            return Decided((), self._fed)
        if len(sources) == 1:
            return made[sources[0]]
        return self._joins[index].take(final=final)


class _DagJoin:
    """Where several members of a dag meet: as far as all above have decided, with the edits of all of them."""

    __slots__ = ("_base", "_borders", "_branches", "_dag", "_gap", "_text")

    def __init__(self, dag: StreamDag, above: int, gap: int) -> None:
        self._dag = dag
        self._gap = gap
        self._branches = {index: _DagBranch() for index in range(len(dag.members)) if above >> index & 1}
        self._base = 0
        self._text = ""
        self._borders: list[int] = []

    def add_text(self, text: str, borders: Sequence[int]) -> None:
        """Append to the text before all members."""
        if borders:
            begin = self._base + len(self._text)
            self._borders.extend([begin + border for border in borders])
        self._text += text

    def add(self, index: int, before: Decided, own: Decided) -> None:
        """Add the input of a member and its decisions about it, if it stands above."""
        branch = self._branches.get(index)
        if branch is not None:
            branch.add_first(before)
            branch.add_second(own)

    def take(self, *, final: bool) -> Decided:
        """Return the new decisions of all."""
        until = self._base + len(self._text)
        if not final:
            until = self._reach(until)
        borders = [border for border in self._borders if border < until + final]
        indexes = list(self._branches)
        own = [branch.own(until, borders, final=final) for branch in self._branches.values()]
        edits = merged_parts(
            self._text[: until - self._base],
            [border - self._base for border in borders],
            own,
            lambda text, branches: self._dag.merged(text, dict(zip(indexes, branches, strict=True))),
            self._gap,
        )
        made = Decided(shifted(edits, self._base), until)
        self._text = self._text[until - self._base :]
        self._base = until
        self._borders = [border for border in self._borders if border > until]
        return made

    def _reach(self, until: int) -> int:
        while True:
            reach = min(branch.reach(until) for branch in self._branches.values())
            if reach == until:
                return until
            until = reach


class _DagBranch(Composer):
    """The input of one member, and its own edits."""

    __slots__ = ()

    def reach(self, until: int) -> int:
        """Return the last position up to ``until`` that it has decided and no edit crosses, before all members."""
        until = self._first.safe(min(until, self._first.until))
        mid = until + _growth(self._first.edits, until) + self._mid - self._base
        return self._boundary(min(mid, self._second.until))[0]

    def own(self, until: int, borders: Sequence[int], *, final: bool) -> list[Edits]:
        """Return its own edits up to a position, for each part in positions of that part as the member was fed it."""
        first = split_at(self._first.take(until, final=final), borders)
        shift = self._mid - self._base
        starts = [self._mid, *(border + shift + _growth(first, border) for border in borders)]
        mid = until + shift + _growth(first, until + final)
        own = self._second.take(mid, final=final)
        self._base, self._mid = until, mid
        return by_part(split_at(own, starts[1:]), starts)


def _growth(edits: Iterable[Edit], until: int) -> int:
    """Return how much longer a text becomes by the edits that begin before a position."""
    return sum(len(edit.text) - edit.end + edit.start for edit in edits if edit.start < until)
