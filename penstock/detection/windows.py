"""`Windows`: cuts a long text into windows that a detector or a judge reads one by one.

Where a text is cut depends only on the text before the cut and a few characters around it, so a stream is cut where the
whole text is cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A sentence's end with the quotes and brackets that close behind it; scripts without spaces need none behind theirs.
_END = re.compile(r"[.!?…]['\"”’»)\]]{0,3}\s|[。！？]|\n")
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Windows:
    """Cuts texts at the ends of sentences.

    Attributes:
        least: how many characters a window has at least, except the last one of a text.
        most: how many characters it has at most. If no sentence ends within them, it ends at the last space, or right
            there.
        overlap: how many characters before a window are shown together with it.
    """

    least: int
    most: int
    overlap: int = 0

    def cuts(self, text: str, start: int = 0, *, final: bool = True) -> list[int]:
        """Return the ends of the windows from ``start`` on; without the last one if the text is not ``final``."""
        ends: list[int] = []
        while (end := self._end(text, start)) is not None:
            ends.append(end)
            start = end
        if final and start < len(text):
            ends.append(len(text))
        return ends

    def view(self, text: str, start: int, end: int) -> str:
        """Return a window with the overlap before it."""
        return text[max(start - self.overlap, 0) : end]

    def views(self, text: str) -> list[str]:
        """Return the windows of a whole text, each with the overlap before it; one for an empty text."""
        ends = self.cuts(text) or [0]
        return [self.view(text, start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def _end(self, text: str, start: int) -> int | None:
        """Return the end of the window that begins at a place; None if that depends on more text."""
        if len(text) - start < self.least:
            return None
        limit = start + self.most
        for found in _END.finditer(text, start, min(limit, len(text))):
            if found.end() - start >= self.least:
                return found.end()
        if len(text) <= limit:
            return None
        for at in range(limit - 1, start + self.most // 2, -1):
            if _SPACE.match(text, at):
                return at + 1
        return limit
