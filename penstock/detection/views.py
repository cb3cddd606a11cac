"""`View`: a text as leaks are looked for in it, and the way back to its places. It knows no prompt."""

from __future__ import annotations

from functools import cached_property

from penstock.detection.unicode.disguises import Places, is_plain, read

_SINGLE = {0x130: "I", 0x1E9E: "s"}  # capitals whose small form is two characters long


class View:
    """A text without its disguise: plain letters, nothing that cannot be seen.

    Attributes:
        plain: how it reads.
        text: the same in small letters, place by place.
        source: how many characters of the text it is of; less than all where an escape sequence is unfinished.
    """

    __slots__ = ("__dict__", "_reading", "plain", "source", "text")

    def __init__(self, text: str, *, final: bool = True) -> None:
        self._reading = None if is_plain(text, 0) else read(text, final=final)
        self.plain = text if self._reading is None else self._reading.text.translate(_SINGLE)
        self.text = self.plain if self._reading is None and self.plain.islower() else small(self.plain)
        self.source = len(text) if self._reading is None else len(self._reading.source)

    @cached_property
    def _places(self) -> Places | None:
        return None if self._reading is None else Places(self._reading)

    def start(self, at: int) -> int:
        """Return where in the text the character begins that reads as the one at that place."""
        return at if self._places is None else min(self._places.start(at), self.source)

    def end(self, at: int) -> int:
        """Return where in the text the character ends that reads as the last before that place."""
        return at if self._places is None or not at else min(self._places.end(at), self.source)


def small(text: str) -> str:
    """Return a text in small letters, as long as it is."""
    lower = text.lower().replace("ς", "σ")
    return lower if len(lower) == len(text) else "".join(map(_small_one, text))


def _small_one(char: str) -> str:
    lower = char.lower()
    return lower if len(lower) == 1 else char
