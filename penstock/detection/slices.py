"""Slices: a long stretch is judged part by part, and no part depends on later text.

`hidden_stretches` returns the findings in the slices that can be judged, and where the next one begins; so a stream
gives the same result as the whole text.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.detection.stretches import Stretch, Stretches
    from penstock.detection.words import PlainView


PIECE = 1024
"""How many characters of a long stretch are decided at once.

A stream holds these and `AHEAD`. With an invisible character behind each letter that is twice as much of the text, and
must not be more than a guard may hold (`penstock.engine.text_guards.text_guard.MAX_HOLD`).
"""

AHEAD = 1024
"""How many characters behind them they are judged together with; those are judged twice."""

_SEAM = deferred(r"[^\W_]*\Z")
SEAM_NEAR = 16
"""How far before a place a seam may lie, so that it is between two words."""


class Hidden(NamedTuple):
    """A part of a text that hides something, and what; places as in `Span`."""

    start: int
    end: int
    type: str


class StretchSeam(NamedTuple):
    """A place between two slices of a stretch.

    ``over`` holds the findings of the slices before it that lie behind it, counted from it; ``within`` tells whether it
    lies in a word.
    """

    at: int
    over: tuple[Hidden, ...]
    within: bool


class HiddenStretches(NamedTuple):
    """The findings in stretches.

    Attributes:
        hidden: the places of the findings.
        seams: the places between the slices of long stretches.
        hold: where the first stretch or slice begins that is not judged yet; the end of the text if there is none.
        found: the stretches.
    """

    hidden: Sequence[Hidden]
    seams: Sequence[StretchSeam]
    hold: int
    found: Sequence[Stretch]


def hidden_stretches(
    view: PlainView, found: Stretches, hides: Callable[[str], Iterable[Hidden]], before: Iterable[Hidden]
) -> HiddenStretches:
    """Return the findings in those slices of stretches that can be judged.

    Args:
        view: the text.
        found: its stretches.
        hides: returns the findings in a slice.
        before: the findings beyond the beginning of the text, if it begins within a stretch.
    """
    hidden: list[Hidden] = []
    seams: list[StretchSeam] = []
    hold = found.pending
    for start, end, is_open in found.found:
        at = start
        over = [*before] if start == 0 else []
        while end - at > PIECE + AHEAD:
            over += _within(view, at, at + PIECE + AHEAD, hides)
            seam = view.low(seam_before(view.plain, at + PIECE))
            lowered = _uncut(over, seam)
            if lowered <= at:  # a finding as long as a slice: it is hidden in pieces, to the end if it is cut off there
                over = [part for one in over for part in _split(one, seam, at + PIECE + AHEAD - SEAM_NEAR)]
            else:
                seam = lowered
            hidden += (one for one in over if one.start < seam)
            over = [one for one in over if one.start >= seam]
            seams.append(_seam_of(view.plain, seam, over))
            at = seam
        if is_open:
            hold = min(hold, at)
        else:
            over += _within(view, at, end, hides)
            hidden += (one._replace(end=min(one.end, end)) for one in over if one.start < end)
    return HiddenStretches(hidden, seams, hold, found.found)


def _within(view: PlainView, start: int, end: int, hides: Callable[[str], Iterable[Hidden]]) -> Iterator[Hidden]:
    """Yield the findings in a slice; it begins and ends between characters of the text."""
    for one in hides(view.plain[start:end]):
        yield Hidden(view.low(start + one.start), view.high(start + one.end), one.type)


def _uncut(found: Iterable[Hidden], at: int) -> int:
    """Return the last place up to the given one that lies within no finding."""
    for one in sorted(found, key=lambda one: one.end, reverse=True):
        if one.start < at < one.end:
            at = one.start
    return at


def _split(one: Hidden, at: int, cut_off: int) -> Iterator[Hidden]:
    """Yield the parts of a finding before a place and behind it.

    If it reaches the place from which on it counts as cut off, the part behind never ends.
    """
    if one.start < at < one.end:
        yield one._replace(end=at)
        yield one._replace(start=at, end=sys.maxsize if one.end >= cut_off else one.end)
    else:
        yield one


def _seam_of(text: str, at: int, over: Iterable[Hidden]) -> StretchSeam:
    moved = tuple(Hidden(one.start - at, one.end - at, one.type) for one in over)
    return StretchSeam(at, moved, text[at - 1].isalnum() and text[at].isalnum())


def seam_before(text: str, at: int) -> int:
    """Return a place close before the given one, between two words if there is one."""
    found = _SEAM.search(text, at - SEAM_NEAR, at)
    return at if found is None or found.start() == at - SEAM_NEAR else found.start()
