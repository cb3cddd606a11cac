"""Texts that a format holds twice or in pieces: how to make the copy anew, and the pieces; it knows no format.

A copy that repeats the pieces is not read as a piece: it would be read twice, and go stale when a piece is redacted.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.formats.wire import Value

_JOINERS = {"lines": "\n", "plain": "", "words": " ", "paragraphs": "\n\n"}


def rule_of(pieces: Sequence[str], copy: str) -> str | None:
    """Return the rule by which a copy follows from its pieces, None if it does not."""
    if not pieces:
        return None
    for rule, joiner in _JOINERS.items():
        if joiner.join(pieces) == copy:
            return rule
    if copy == pieces[-1]:
        return "last"
    return "first" if copy == pieces[0] else None


def copied(pieces: Sequence[str], rule: Value) -> str:
    """Return the copy that a rule makes from the pieces; lines, if it is no rule of ours."""
    if pieces and rule in ("last", "first"):
        return pieces[-1] if rule == "last" else pieces[0]
    return _JOINERS.get(rule if isinstance(rule, str) else "", "\n").join(pieces)


def cut(text: str, lengths: Sequence[Value], count: int) -> list[str]:
    """Return the text in that many pieces: of the given lengths, if they fit, else all of it in the first."""
    fits = all(isinstance(length, int) and length >= 0 for length in lengths)
    if count and fits and len(lengths) == count and sum(lengths) == len(text):
        return [text[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]
    return [text, *[""] * (count - 1)][:count]
