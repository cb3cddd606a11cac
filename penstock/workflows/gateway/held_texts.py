"""`HeldTexts`: the events that hold each text of the message of an answer, so that a later stage can change it.

A text begins and ends more than once where a provider sends others between; each time is a part of the message. The
parts stand in the order in which they come back from the guards, which read the texts of one answer by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.edits import difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.workflows.gateway.blocks import TextBlock


@dataclass(slots=True, eq=False)
class HeldText:
    """A text of the message.

    Attributes:
        block: the block that it belongs to.
        places: the events with a piece of it, each with the place of that piece among those of the block there.
    """

    block: TextBlock
    places: dict[tuple[int, int], None] = field(default_factory=dict[tuple[int, int], None])


class HeldTexts:
    """The texts of the message, in order. Lives as long as the answer."""

    __slots__ = ("_open", "all")

    def __init__(self) -> None:
        self.all: list[HeldText] = []
        self._open: dict[str, HeldText] = {}

    def add(self, block: TextBlock, number: int, nth: int) -> None:
        """Note that a piece of a block came back: the number of its event, and its place among the pieces there."""
        span = self._open.get(block.name)
        if span is None:
            span = self._open[block.name] = HeldText(block)
            self.all.append(span)
        span.places[number, nth] = None

    def end(self, block: TextBlock) -> None:
        """Note that a block ended."""
        self._open.pop(block.name, None)


def aligned(before: Sequence[str], after: Sequence[str]) -> list[str | None]:
    """Return each text as it is now; None if it was removed. More texts go into the last one."""
    if len(after) > len(before):
        return [*after[: len(before) - 1], "".join(after[len(before) - 1 :])] if before else []
    found: list[str | None] = []
    at = 0
    for place, text in enumerate(before):
        left, here = len(after) - at, len(before) - place
        same_later = at < len(after) and after[at] != text and after[at] in before[place + 1 :]
        if left == 0 or (left < here and same_later):
            found.append(None)
        else:
            found.append(after[at])
            at += 1
    return found


def spread(pieces: Sequence[str], text: str) -> list[str]:
    """Return the pieces of a text after a change of it. Unchanged text stays in its piece."""
    edits = difference("".join(pieces), text)
    if not edits:
        return list(pieces)
    begin, behind, new = edits[0].start, edits[0].end, edits[0].text
    made: list[str] = []
    start = 0
    for place, piece in enumerate(pieces, 1):
        end = start + len(piece)
        head, tail = piece[: max(begin - start, 0)], piece[max(behind - start, 0) :]
        if begin < end or place == len(pieces):
            head, new = head + new, ""
        made.append(head + tail)
        start = end
    return made
