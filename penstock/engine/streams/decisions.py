"""`Decided`: how much of a streamed text is decided, and with which edits; and how such values compose and merge.

All positions count from the beginning of the text that a graph is given. This module calls no processor.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.engine.text_guards.window import uncut
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.edits import Edit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from penstock.engine.values.edits import Edits

    MergeEdits = Callable[[str, Sequence[Edits]], Edits]
    """Takes a text and the edits of each branch to it; returns the edits of all as one."""


class Decided(NamedTuple):
    """What became decided: ``edits``, all before ``until``, which counts from the text's beginning.

    An insertion at ``until`` belongs to the text behind it, unless the text ends there.
    """

    edits: Edits
    until: int


Fed: TypeAlias = "int | Coroutine[object, None, Decided]"
"""The result of `Track.feed`: the position up to which the text is decided without edits, or a coroutine."""


async def decided_by(fed: Fed) -> Decided:
    """Return what became decided, once it is known."""
    return Decided((), fed) if isinstance(fed, int) else await fed


def shifted(edits: Sequence[Edit], by: int) -> Edits:
    """Return the edits with ``by`` added to their positions."""
    return tuple([edit_ops.shifted(edit, by) for edit in edits]) if edits else ()


def split_at(edits: Edits, borders: Sequence[int]) -> Edits:
    """Return the edits so that none crosses a border; an edit that did puts its text before the border."""
    made: list[Edit] = []
    for edit in edits:
        start, text = edit.start, edit.text
        for border in borders:
            if start < border < edit.end:
                made.append(Edit(start, border, text, edit.kind, edit.step, edit.hides))
                start, text = border, ""
        made.append(edit if start == edit.start else Edit(start, edit.end, text, edit.kind, edit.step, edit.hides))
    return tuple(made)


def by_part(edits: Edits, starts: Sequence[int]) -> list[Edits]:
    """Return the edits of each part, in positions of that part; no edit may cross from one part into the next.

    Args:
        edits: the edits, in order.
        starts: where each part begins, the first one too. An insertion there belongs to the part that begins.
    """
    parts: list[Edits] = []
    waiting = deque(edits)
    for begin, end in itertools.pairwise([*starts, -1]):
        own: list[Edit] = []
        while waiting and (end < 0 or waiting[0].start < end):
            own.append(waiting.popleft())
        parts.append(shifted(own, -begin))
    return parts


class Pending:
    """Decided edits that wait until other tracks have decided as far. Each is taken once.

    Attributes:
        edits: the edits that wait, in order.
        until: up to where the text is decided.
    """

    __slots__ = ("edits", "until")

    def __init__(self) -> None:
        self.edits: deque[Edit] = deque()
        self.until = 0

    def add(self, decided: Decided) -> None:
        """Add what became decided."""
        self.edits.extend(decided.edits)
        self.until = decided.until

    def safe(self, until: int) -> int:
        """Return the largest position up to ``until`` that lies within no waiting edit."""
        return uncut(self.edits, until) if self.edits else until

    def take(self, until: int, *, final: bool) -> Edits:
        """Remove and return the edits before a position, in order; with ``final`` also those at it."""
        if not self.edits:
            return ()
        taken: list[Edit] = []
        while self.edits and (self.edits[0].start < until or (final and self.edits[0].start == until)):
            taken.append(self.edits.popleft())
        return tuple(taken)


class Composer:
    """Composes the edits of two tracks in sequence; the second reads the output of the first."""

    __slots__ = ("_base", "_first", "_mid", "_second")

    def __init__(self) -> None:
        self._base = 0  # up to where both have decided, in the first's positions …
        self._mid = 0  # … and in the second's
        self._first = Pending()
        self._second = Pending()

    def add_first(self, decided: Decided) -> None:
        """Add the decisions of the first track."""
        self._first.add(decided)

    def add_second(self, decided: Decided) -> None:
        """Add the decisions of the second track about the output of the first."""
        self._second.add(decided)

    @property
    def waits(self) -> bool:
        """Whether edits wait, so that positions after them are not known yet."""
        return bool(self._first.edits or self._second.edits)

    def pass_on(self, first: int, second: int) -> int:
        """Add how far the two have decided without edits, where none waits; return that before the first."""
        self._first.until, self._second.until = first, second
        self._base += second - self._mid
        self._mid = second
        return self._base

    def take(self, *, final: bool) -> Decided:
        """Return what both have decided now, in positions of the text before both."""
        until, mid = (self._first.until, self._second.until) if final else self._boundary(self._second.until)
        first = shifted(self._first.take(until, final=final), -self._base)
        second = shifted(self._second.take(mid, final=final), -self._mid)
        made = shifted(edit_ops.compose(first, second), self._base)
        self._base, self._mid = until, mid
        return Decided(made, until)

    def _boundary(self, mid: int) -> tuple[int, int]:
        """Return the last position that both have decided and no edit crosses: before the first, and between both."""
        while True:
            until, mid = self._before(mid)
            safe = self._second.safe(mid)
            if safe == mid:
                return until, mid
            mid = safe

    def _before(self, mid: int) -> tuple[int, int]:
        """Return where a position between both lies before the first; within an edit's text, where that begins."""
        shift = self._mid - self._base
        place = begin = -1  # where the edits begin that stand at one position, insertions first: they leave together
        for edit in self._first.edits:
            start = edit.start + shift
            if mid <= start:
                break
            if edit.start != place:
                place, begin = edit.start, start
            stop = start + len(edit.text)
            if mid < stop or (mid == stop and edit.start == edit.end):  # an insertion leaves with what follows it
                return place, begin
            shift += len(edit.text) - (edit.end - edit.start)
        return mid - shift, mid


class Merger:
    """Merges what parallel tracks decide: as far as all have decided, with the edits of all, part by part.

    Attributes:
        tracks: the edits that each track has decided, and up to where.
    """

    __slots__ = ("_base", "_borders", "_gap", "_merge", "_text", "tracks")

    def __init__(self, count: int, merge: MergeEdits, gap: int) -> None:
        """Merge the edits of ``count`` tracks with ``merge``; ``gap``: how many characters stand between parts."""
        self._merge = merge
        self._gap = gap
        self.tracks = [Pending() for _ in range(count)]
        self._base = 0
        self._text = ""
        self._borders: list[int] = []

    def take_fast(self, text: str) -> int | None:
        """Return up to where all have decided, if no edit waits and no part begins; None: call `take`."""
        if self._borders or any([track.edits for track in self.tracks]):  # noqa: C419 - faster than a generator
            return None
        until = min([track.until for track in self.tracks])
        self._text = (self._text + text)[until - self._base :]
        self._base = until
        return until

    def take(self, text: str, borders: Sequence[int], *, final: bool) -> Decided:
        """Return the new decisions of all.

        Args:
            text: the text added since the last call.
            borders: where new parts begin in ``text``.
            final: whether the text ends here.
        """
        if borders:
            begin = self._base + len(self._text)
            self._borders.extend([begin + border for border in borders])
        self._text += text
        until = min([track.until for track in self.tracks])
        edits: Edits = ()
        if any(track.edits for track in self.tracks):
            until = until if final else self._safe(until)
            edits = self._merged(until, final=final)
        self._text = self._text[until - self._base :]
        self._base = until
        if self._borders:
            self._borders = [border for border in self._borders if border > until]
        return Decided(edits, until)

    def _merged(self, until: int, *, final: bool) -> Edits:
        taken = [track.take(until, final=final) for track in self.tracks]
        if not any(taken):
            return ()
        borders = [border for border in self._borders if border < until + final]  # the last part may be empty
        made = merged_parts(
            self._text[: until - self._base],
            [border - self._base for border in borders],
            [by_part(split_at(edits, borders), [self._base, *borders]) for edits in taken],
            self._merge,
            self._gap,
        )
        return shifted(made, self._base)

    def _safe(self, until: int) -> int:
        while True:
            safe = min(track.safe(until) for track in self.tracks)
            if safe == until:
                return until
            until = safe


def merged_parts(
    text: str, borders: Sequence[int], branches: Sequence[Sequence[Edits]], merge: MergeEdits, gap: int
) -> Edits:
    """Return the edits of all branches as one, merged part by part.

    Args:
        text: the text of all parts.
        borders: where the second and later parts begin.
        branches: for each branch the edits to each part, in positions of that part.
        merge: merges the edits of all branches to one part.
        gap: how many characters at the end of each part but the last only separate it from the next.
    """
    if not borders:
        return merge(text, [parts[0] for parts in branches]) if any(parts[0] for parts in branches) else ()
    made: list[Edit] = []
    starts = [0, *borders]
    ends = [*(border - gap for border in borders), len(text)]
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        own = [parts[index] for parts in branches]
        if any(own):
            made.extend(shifted(merge(text[start:end], own), start))
    return tuple(made)
