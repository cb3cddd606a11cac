"""Tracks made of tracks: in a row, beside each other, under a policy, in shadow. No step is called here.

They speak deltas in positions of the text that they themselves are fed, so they combine to any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.streams.deltas import Composer, Delta, Merger, shifted
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import StepFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.streams.policy import Aside, StreamPolicy
    from penstock.engine.streams.tracks import Track
    from penstock.engine.values.edits import Edits

    Settle = Callable[[str, Sequence[Edits]], Edits]
    Beside = Callable[[Sequence[Callable[[], Awaitable[object]]]], Awaitable[None]]


class Follower:
    """A track that is fed what something before it leaves; what both have decided counts from before both."""

    __slots__ = ("_borders", "_composer", "_seen", "_text", "_track", "_until")

    def __init__(self, track: Track) -> None:
        self._track = track
        self._composer = Composer()
        self._text = ""  # what is not decided before it
        self._until = 0
        self._seen = 0
        self._borders: list[int] = []  # where neighbours begin that the track does not know of yet

    async def feed(self, delta: Delta, text: str, *, final: bool) -> Delta:
        """Feed the track what the delta decides; ``text`` is what was added to the text before it."""
        self._text += text
        self._seen += len(text)
        size = delta.until - self._until
        decided, self._text = self._text[:size], self._text[size:]
        begin, self._until = self._until, delta.until
        self._composer.first(delta)
        pieces, self._borders = cut_at(decided, shifted(delta.edits, -begin), self._borders, begin)
        for piece in pieces[:-1]:
            self._composer.second(await self._track.feed(piece, final=False))
            await self._track.border()
        self._composer.second(await self._track.feed(pieces[-1], final=final))
        return self._composer.both(final=final)

    def border(self) -> None:
        """Note where a neighbour begins; the track learns it once what is before it has decided so far."""
        self._borders.append(self._seen)


class RowTrack:
    """Two tracks in a row: the second is fed what the first leaves."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Track, second: Track) -> None:
        self._first = first
        self._second = Follower(second)

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Feed the first, and the second with what the first leaves."""
        return await self._second.feed(await self._first.feed(text, final=final), text, final=final)

    async def border(self) -> None:
        """Tell both."""
        await self._first.border()
        self._second.border()


def cut_at(text: str, edits: Edits, borders: Sequence[int], begin: int) -> tuple[list[str], list[int]]:
    """Return a text after its edits, cut where neighbours begin, and the borders that lie further on.

    What an edit writes across a border stands before it. ``begin``: the text's place, which the borders count with.
    """
    pieces: list[str] = []
    at = 0
    ahead: list[int] = []
    for border in borders:
        place = border - begin
        if place > len(text):
            ahead.append(border)
            continue
        own = [edit for edit in edits if at <= edit.start < place]
        stop = max([at, place, *(edit.end for edit in own)])
        pieces.append(edit_ops.apply(text[at:stop], shifted(own, -at)))
        at = stop
    rest = [edit for edit in edits if edit.start >= at]
    pieces.append(edit_ops.apply(text[at:], shifted(rest, -at)))
    return pieces, ahead


class ForkTrack:
    """Tracks beside each other: what all have decided is decided, with the edits of all merged."""

    __slots__ = ("_beside", "_feeds", "_given", "_merger", "_settle", "_tracks")

    def __init__(self, tracks: Sequence[Track], settle: Settle, beside: Beside) -> None:
        self._tracks = tracks
        self._settle = settle
        self._beside = beside
        self._merger = Merger(len(tracks))
        self._given = _Given()
        self._feeds = [_feed_of(track, self._given, self._merger, index) for index, track in enumerate(tracks)]

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Feed all, and merge what they have decided."""
        self._given.text, self._given.final = text, final
        await self._beside(self._feeds)
        return self._merger.merged(text, self._settle, final=final)

    async def border(self) -> None:
        """Tell all."""
        self._merger.border()
        await self._beside([track.border for track in self._tracks])


class _Given:
    """What the tracks of a fork are to be fed."""

    __slots__ = ("final", "text")

    def __init__(self) -> None:
        self.text = ""
        self.final = False


def _feed_of(track: Track, given: _Given, merger: Merger, index: int) -> Callable[[], Awaitable[object]]:
    async def feed() -> None:
        merger.add(index, await track.feed(given.text, final=given.final))

    return feed


class PlacedTrack:
    """A track under a policy. If it fails, it is out for the text; its fallback begins where it had decided."""

    __slots__ = ("_begun", "_early", "_fallback", "_out", "_policy", "_track", "_until", "_waiting")

    def __init__(self, track: Track, policy: StreamPolicy, fallback: Track | None) -> None:
        self._track = track
        self._policy = policy
        self._fallback = fallback
        self._out = False
        self._begun = 0  # where the fallback began
        self._early: Edits = ()  # what it decided at a border, where nothing can leave
        self._waiting = ""  # what is not decided
        self._until = 0

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Feed the track; after its failure its fallback, or nobody."""
        self._waiting += text
        if not self._out:
            try:
                return self._told(await self._policy.limited(lambda: self._track.feed(text, final=final)))
            except StepFailedError as error:
                self._policy.failed(error)
                self._out = True
                self._begun = self._until
            text = self._waiting
        if self._fallback is None:
            return self._told(Delta((), self._until + len(self._waiting)))
        delta = await self._fallback.feed(text, final=final)
        edits, self._early = (*self._early, *delta.edits), ()
        return self._told(Delta(shifted(edits, self._begun), delta.until + self._begun))

    async def border(self) -> None:
        """Tell whoever is at work."""
        if not self._out:
            try:
                await self._policy.limited(self._track.border)
            except StepFailedError as error:
                self._policy.failed(error)
                self._out = True
                self._begun = self._until
                if self._fallback is not None:
                    self._early = (await self._fallback.feed(self._waiting, final=False)).edits
        if self._out and self._fallback is not None:
            await self._fallback.border()

    def _told(self, delta: Delta) -> Delta:
        self._waiting = self._waiting[delta.until - self._until :]
        self._until = delta.until
        return delta


class ShadowTrack:
    """Pipes that see a text and decide nothing: all of it is let go as it is."""

    __slots__ = ("_aside", "_fed", "_show", "_template")

    def __init__(self, show: Callable[[Chunk], Awaitable[object]], aside: Aside, template: Chunk) -> None:
        self._show = show
        self._aside = aside
        self._template = template
        self._fed = 0

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Show them the piece, and the end of the text, aside."""
        self._fed += len(text)
        if text:
            piece = self._template.with_text(text)
            await self._aside(lambda: self._show(piece))
        if final:
            end = Chunk(self._template.type.replace("-delta", "-end"), id=self._template.id)
            await self._aside(lambda: self._show(end))
        return Delta((), self._fed)

    async def border(self) -> None:
        """Do nothing: they see chunks, whatever they belong to."""
