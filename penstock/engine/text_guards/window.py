"""`TextWindow`: the stretch of a text that a guard looks at, and what it finds there, as values. It knows no stage.

Of a whole text the window is all of it; of a stream it is what is not decided yet, with a little of what was before.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock.engine.values.edits import Edit
from penstock.engine.values.frozen import Value
from penstock.engine.values.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self


class Found(Protocol):
    """What a guard found: a stretch of the text; an `Edit`, or a named tuple of the guard's own that begins so."""

    @property
    def start(self) -> int:
        """Where it begins, in characters from the window's first."""
        ...

    @property
    def end(self) -> int:
        """Where it ends."""
        ...


class Spot(NamedTuple):
    """Where a piece of the text stands: it begins at ``start``, counted from the text's own beginning."""

    start: int
    place: TextPlace


NOWHERE = TextPlace("", 0)


@dataclass(slots=True)
class TextWindow:
    """A text, or the part of a streamed one that is not decided yet.

    Attributes:
        text: what can be seen: some of what is decided, and all that is not.
        start: where in ``text`` begins what is not decided; findings that begin before it are not asked for.
        base: how many characters of the text stand before the window.
        begins: whether nothing stands before the window.
        final: whether the text ends with the window.
        kind: the kind of part the text stands in: ``text``, ``reasoning``, ``tool`` …
        key: the name that the text is the value of, in tools' arguments and results; else empty.
        fixed: whether it is a number's digits, which cannot be edited as text.
        notes: the guard's own, kept as long as the text lasts.
        spots: where the pieces stand that were read as one text, in order.
    """

    text: str
    start: int = 0
    base: int = 0
    begins: bool = True
    final: bool = True
    kind: str = "text"
    key: str = ""
    fixed: bool = False
    notes: dict[str, Value] = field(default_factory=dict[str, Value])
    spots: Sequence[Spot] = (Spot(0, NOWHERE),)

    def locate(self, at: int) -> tuple[TextPlace, int]:
        """Return the place in which a character of the window stands, and how far from the place's beginning."""
        whole = self.base + at
        spot = self.spots[max(bisect_right(self.spots, whole, key=_start) - 1, 0)]
        return spot.place, whole - spot.start

    def pieces(self, start: int, end: int) -> Iterable[tuple[TextPlace, int, int]]:
        """Yield the stretches, place by place, that a stretch of the window lies on; one of no width on one place."""
        low, high = start + self.base, end + self.base
        first = max(bisect_right(self.spots, low, key=_start) - 1, 0)
        for index in range(first, len(self.spots)):
            begin, place = self.spots[index]
            limit = self.spots[index + 1].start if index + 1 < len(self.spots) else high
            if index > first and begin >= high:
                return
            yield place, max(low, begin) - begin, min(high, limit) - begin


def _start(spot: Spot) -> int:
    return spot.start


class Hit(NamedTuple):
    """What a guard found in one text."""

    window: TextWindow
    found: Sequence[Found]


class _Movable(Found, Protocol):
    def _replace(self, **changes: int) -> Self: ...


def moved(found: Found, by: int) -> Found:
    """Return a finding as it is called from another place, ``by`` characters further."""
    if by == 0:
        return found
    if isinstance(found, Edit):
        return replace(found, start=found.start + by, end=found.end + by)
    named = cast("_Movable", found)
    return named._replace(start=found.start + by, end=found.end + by)  # pyright: ignore[reportPrivateUsage] - public in named tuples
