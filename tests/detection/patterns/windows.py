"""What a stream does with a finder: it shows it a window of the text, piece by piece."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.patterns.matching import Finder, FinderState, Match

if TYPE_CHECKING:
    from collections.abc import Iterable


class Streamed(NamedTuple):
    """What came of a text in pieces: the matches, and how many characters were held after each piece."""

    matches: list[Match]
    held: list[int]


def streamed(finder: Finder, pieces: Iterable[str], *, grown: int = 0) -> Streamed:
    """Return what a finder finds in a text that comes in pieces, of which it never sees more than a window.

    ``grown``: look again only when what is held has grown by that part of it (8: an eighth), as the engine does.
    """
    state, context, text, base = FinderState(), "", "", 0
    found: list[Match] = []
    held: list[int] = []
    due = 0
    for piece in pieces:
        text += piece
        if len(text) < due:
            continue
        matches, hold = finder.scan(context + text, len(context), state)
        assert len(context) <= hold <= len(context) + len(text)
        assert all(len(context) <= match.start and match.end <= hold for match in matches)
        found.extend(_moved(matches, base - len(context)))
        whole = context + text
        base += hold - len(context)
        text, context = whole[hold:], whole[max(hold - finder.lookback, 0) : hold]
        held.append(len(text))
        due = len(text) + len(text) // grown if grown else 0
    found.extend(_moved(finder.finish(context + text, len(context), state), base - len(context)))
    return Streamed(found, held)


def _moved(matches: Iterable[Match], by: int) -> list[Match]:
    return [match._replace(start=match.start + by, end=match.end + by) for match in matches]


def cut(text: str, *places: int) -> list[str]:
    """Return the text in pieces, cut at those places."""
    edges = [0, *sorted(places), len(text)]
    return [text[low:high] for low, high in itertools.pairwise(edges)]


def in_order(matches: Iterable[Match]) -> list[Match]:
    """Return matches rule by rule, as `Finder.find` does."""
    return sorted(matches, key=lambda match: (match.rule, match.start))
