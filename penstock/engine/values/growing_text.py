"""`GrowingText`: a text that comes in many small pieces, in about as much memory as its characters take."""

from __future__ import annotations

_MOST = 64
"""How many pieces are kept apart. A str of a few characters takes ten times as much memory as they do."""


class GrowingText:
    """A text that pieces are added to. `io.StringIO` would keep each piece as an object until it is read."""

    __slots__ = ("_joined", "_pieces")

    def __init__(self) -> None:
        self._joined: list[str] = []  # each longer than the next, so that a character is rarely copied
        self._pieces: list[str] = []

    def write(self, text: str) -> None:
        """Add a piece."""
        pieces = self._pieces
        pieces.append(text)
        if len(pieces) >= _MOST:
            self._join()

    def _join(self) -> None:
        text, joined = "".join(self._pieces), self._joined
        self._pieces.clear()
        while joined and len(joined[-1]) <= len(text):
            text = joined.pop() + text
        joined.append(text)

    def getvalue(self) -> str:
        """Return the text."""
        return "".join([*self._joined, *self._pieces])
