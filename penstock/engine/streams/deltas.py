"""What is decided of a text, in positions of the text that a graph is given: deltas, how they compose and merge.

A delta says up to where the text is decided, and with which edits. This module knows edits and nothing that runs.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values import edits as edit_ops
from penstock.engine.values.edits import Edit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from penstock.engine.text_guards.window import Found
    from penstock.engine.values.edits import Edits


class Delta(NamedTuple):
    """What became decided: ``edits``, all before ``until``, which counts from the text's beginning.

    An insertion at ``until`` belongs to what follows, unless the text ends there.
    """

    edits: Edits
    until: int


def shifted(edits: Iterable[Edit], by: int) -> Edits:
    """Return edits as they are called from another place, ``by`` characters further."""
    return tuple([edit_ops.shifted(edit, by) for edit in edits])


def uncut(stretches: Iterable[Found], until: int) -> int:
    """Return the largest place up to ``until`` that lies within none of the stretches."""
    cut = True
    while cut:
        cut = False
        for stretch in stretches:
            if stretch.start < until < stretch.end:
                until, cut = stretch.start, True
    return until


def cut_apart(edits: Edits, borders: Sequence[int]) -> Edits:
    """Return edits of which none lies on both sides of a border: what one writes stands before it."""
    made: list[Edit] = []
    for edit in edits:
        start, text = edit.start, edit.text
        for border in borders:
            if start < border < edit.end:
                made.append(Edit(start, border, text, edit.kind, edit.step))
                start, text = border, ""
        made.append(edit if start == edit.start else Edit(start, edit.end, text, edit.kind, edit.step))
    return tuple(made)


class Pending:
    """Decided edits that wait until others have decided as far; each leaves once."""

    __slots__ = ("_edits", "until")

    def __init__(self) -> None:
        self._edits: deque[Edit] = deque()
        self.until = 0

    def add(self, delta: Delta) -> None:
        """Take in what became decided."""
        self._edits.extend(delta.edits)
        self.until = delta.until

    def waiting(self) -> Collection[Edit]:
        """Return the edits that wait, in order."""
        return self._edits

    def safe(self, until: int) -> int:
        """Return the largest place up to ``until`` that lies within none of the edits that wait."""
        return uncut(self._edits, until)

    def take(self, until: int, *, final: bool) -> Edits:
        """Return the edits before a place, in order; with ``final`` those at it, too."""
        if not self._edits:
            return ()
        taken: list[Edit] = []
        while self._edits and (self._edits[0].start < until or (final and self._edits[0].start == until)):
            taken.append(self._edits.popleft())
        return tuple(taken)


class Composer:
    """Makes one delta of two in a row: what the second decides about the text that the first leaves."""

    __slots__ = ("_base", "_first", "_mid", "_second")

    def __init__(self) -> None:
        self._base = 0  # up to where both have decided, in the first's positions …
        self._mid = 0  # … and in the second's
        self._first = Pending()
        self._second = Pending()

    def first(self, delta: Delta) -> None:
        """Take in what the first decided."""
        self._first.add(delta)

    def second(self, delta: Delta) -> None:
        """Take in what the second decided about what the first leaves."""
        self._second.add(delta)

    def both(self, *, final: bool) -> Delta:
        """Return what both have decided now, in positions of the text before both."""
        until, mid = (self._first.until, self._second.until) if final else self._boundary(self._second.until)
        first = shifted(self._first.take(until, final=final), -self._base)
        second = shifted(self._second.take(mid, final=final), -self._mid)
        made = shifted(edit_ops.compose(first, second), self._base)
        self._base, self._mid = until, mid
        return Delta(made, until)

    def _boundary(self, mid: int) -> tuple[int, int]:
        """Return the last place that both have decided and no edit straddles: before the first, and between both."""
        while True:
            until, mid = self._before(mid)
            safe = self._second.safe(mid)
            if safe == mid:
                return until, mid
            mid = safe

    def _before(self, mid: int) -> tuple[int, int]:
        """Return where a place between both lies before the first; if within what it wrote, where that begins."""
        shift = self._mid - self._base
        place = begin = -1  # where the edits begin that stand at one place, insertions first: they leave together
        for edit in self._first.waiting():
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
    """Makes one delta of several beside each other: as far as all have decided, with the edits of all."""

    __slots__ = ("_base", "_borders", "_parts", "_text")

    def __init__(self, count: int) -> None:
        self._borders: list[int] = []
        self._parts = [Pending() for _ in range(count)]
        self._base = 0
        self._text = ""

    def add(self, index: int, delta: Delta) -> None:
        """Take in what one of them decided."""
        self._parts[index].add(delta)

    def border(self) -> None:
        """Note that a neighbour begins where the text ends so far: edits are merged text by text."""
        self._borders.append(self._base + len(self._text))

    def merged(self, text: str, settle: Callable[[str, Sequence[Edits]], Edits], *, final: bool) -> Delta:
        """Return what all have decided now.

        Args:
            text: what was added to the text since the last call.
            settle: merges the edits of all over a stretch; they are in its positions.
            final: whether the text ends here.
        """
        self._text += text
        until = min([part.until for part in self._parts])
        edits: Edits = ()
        if any(part.waiting() for part in self._parts):
            until = until if final else self._safe(until)
            edits = self._settled(until, settle, final=final)
        self._text = self._text[until - self._base :]
        self._base = until
        return Delta(edits, until)

    def _settled(self, until: int, settle: Callable[[str, Sequence[Edits]], Edits], *, final: bool) -> Edits:
        taken = [part.take(until, final=final) for part in self._parts]
        if not any(taken):
            return ()
        if self._borders:
            taken = [cut_apart(edits, self._borders) for edits in taken]
        stretch = self._text[: until - self._base]
        return shifted(settle(stretch, [shifted(made, -self._base) for made in taken]), self._base)

    def _safe(self, until: int) -> int:
        while True:
            safe = min(part.safe(until) for part in self._parts)
            if safe == until:
                return until
            until = safe
