"""`Windows`: how a long text is cut into pieces that a detector or a judge reads one by one. Pure; it knows neither.

Where a text is cut depends on nothing but what stands before the cut and a few characters around it, so the pieces of
a stream are those of the whole text.
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
        least: how many characters a window has at least, but for a text's last.
        most: how many it has at most; where no sentence ends by then, it ends at the last space, or just there.
        overlap: how many characters before a window are shown with it.
    """

    least: int
    most: int
    overlap: int = 0

    def cuts(self, text: str, start: int = 0, *, final: bool = True) -> list[int]:
        """Return where the windows end that begin at ``start``; without the last if the text is not ``final``."""
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
        """Return where the window ends that begins there; None if more of the text must be seen."""
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
