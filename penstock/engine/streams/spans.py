"""`Span`: what one guard has before it of one text: what is not decided, and what it still looks back at."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from penstock.engine.text_guards.window import TextWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.text_guards.window import Spot
    from penstock.engine.values.frozen import Value

_TRIM = 512  # context is forgotten in pieces of this size: cutting costs


class Span:
    """A window that moves over a text. Lives as long as the text.

    Attributes:
        base: how many characters of the text stand before it.
        kind: the kind of part that the text stands in.
    """

    __slots__ = ("_begins", "_fresh", "_held", "_notes", "_start", "_text", "base", "kind")

    def __init__(self, kind: str, base: int = 0) -> None:
        self.kind = kind
        self.base = base
        self._text = ""
        self._start = 0
        self._begins = True
        self._notes: dict[str, Value] = {}
        self._fresh = self._held = 0

    def copy(self) -> Span:
        """Return one like it, to go on by itself."""
        made = Span(self.kind, self.base)
        made._text, made._start, made._begins = self._text, self._start, self._begins
        made._notes = deepcopy(self._notes)
        return made

    def add(self, text: str) -> None:
        """Take in more of the text."""
        self._text += text
        self._fresh += len(text)

    @property
    def due(self) -> bool:
        """Whether enough is new to look again: an eighth of what was held, so that looking stays linear."""
        return self._fresh > 0 and self._fresh >= self._held >> 3

    @property
    def until(self) -> int:
        """Up to where the text is decided."""
        return self.base + self._start

    def window(self, *, final: bool, spots: Sequence[Spot]) -> TextWindow:
        """Return it as a guard is to see it."""
        self._fresh = 0
        return TextWindow(
            self._text, self._start, self.base, self._begins, final, self.kind, notes=self._notes, spots=spots
        )

    def decide(self, until: int, lookback: int) -> None:
        """Move on: what stands before a place of the window is decided; what is no longer looked back at, forgotten."""
        self._start = until
        self._held = len(self._text) - self._start
        cut = self._start - lookback
        if cut > _TRIM:
            self._text = self._text[cut:]
            self._start -= cut
            self.base += cut
            self._begins = False
