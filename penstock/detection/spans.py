"""`Span`: a part of a text in which a detector found something."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A part of a text in which something was found.

    Attributes:
        start: where it begins, in code points.
        end: where it ends, exclusive.
        type: the type of the finding: ``email``, ``system-prompt`` …
        score: how certain that is, from 0 to 1.
    """

    start: int
    end: int
    type: str
    score: float = 1.0
