"""`Windows`: cuts a long text into windows that a detector or a judge reads one by one.

Where a text is cut depends only on the text before the cut and a few characters around it, so a stream is cut where the
whole text is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Iterable

# A sentence's end with the quotes and brackets that close behind it; scripts without spaces need none behind theirs.
# All begin with one set of characters, which `re` looks for much faster than for the beginnings of three patterns.
_END = deferred(r"[.!?…。！？\n](?:(?<=[.!?…])['\"”’»)\]]{0,3}\s|(?<=[。！？\n]))")
_LONGEST_END = 5
_SPACE = deferred(r"\s")


@dataclass(frozen=True, slots=True)
class Windows:
    """Cuts texts at the ends of sentences.

    Attributes:
        least: how many characters a window has at least, except the last one of a text.
        most: how many characters it has at most. If no sentence ends within them, it ends at the last space, or right
            there.
        overlap: how many characters before a window are shown together with it.
        shown: how many characters are shown at least, as far as there are so many: the last window of a text may be
            short.
    """

    least: int
    most: int
    overlap: int = 0
    shown: int = 0

    def cuts(self, text: str, start: int = 0, *, final: bool = True) -> list[int]:
        """Return the ends of the windows from ``start`` on; without the last one if the text is not ``final``."""
        ends: list[int] = []
        while (end := self.end(text, start)) is not None:
            ends.append(end)
            start = end
        if final and start < len(text):
            ends.append(len(text))
        return ends

    def view(self, text: str, start: int, end: int) -> str:
        """Return a window with the text shown before it."""
        return text[self.begin(start, end) : end]

    def begin(self, start: int, end: int) -> int:
        """Return the place where the view of a window begins."""
        return max(min(start - self.overlap, end - self.shown), 0)

    def views(self, text: str) -> list[str]:
        """Return the windows of a whole text, each with the text shown before it; one for an empty text."""
        ends = self.cuts(text) or [0]
        return [self.view(text, start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def end(self, text: str, start: int) -> int | None:
        """Return the end of the window that begins at a place; None if that depends on more text."""
        if len(text) - start < self.least:
            return None
        limit = start + self.most
        # An earlier end is too early, and hides no later one: two ends overlap only in a line break, where both end.
        found = _END.search(text, start + max(self.least - _LONGEST_END, 0), limit)
        while found is not None:
            if found.end() - start >= self.least:
                return found.end()
            found = _END.search(text, found.end(), limit)
        if len(text) <= limit:
            return None
        for at in range(limit - 1, start + self.most // 2, -1):
            if _SPACE.match(text, at):
                return at + 1
        return limit


def unfinished(text: str, start: int, windows: Iterable[Windows], *, final: bool) -> int | None:
    """Return where a window begins if more text decides where it ends; None if there is a window to read.

    Args:
        text: the text so far.
        start: where the window begins.
        windows: the ways in which the text may be cut; each must wait for more text.
        final: whether the text ends here.
    """
    if final and start < len(text):
        return None
    for each in windows:
        if each.end(text, start) is not None:
            return None
    return start
