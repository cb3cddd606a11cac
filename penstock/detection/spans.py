"""`Span`: a stretch of a text in which a detector found something; it knows no detector."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A stretch that something was found in.

    Attributes:
        start: where it begins, in code points.
        end: where it ends.
        type: what was found: ``email``, ``system-prompt`` …
        score: how sure that is, from 0 to 1.
    """

    start: int
    end: int
    type: str
    score: float = 1.0
