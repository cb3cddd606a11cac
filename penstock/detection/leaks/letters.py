"""Finds what a text has in common with passages letter by letter, however its letters are spaced. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LETTERS_A_WORD = 3
_MOST = 8  # places in the passages that are compared; what is repeated more often tells little


class Letters:
    """The letters of some passages, without anything between them."""

    def __init__(self, texts: Iterable[str], least: int) -> None:
        """Take passages in small letters; as many letters in a row must be found as ``least`` words have."""
        self.least = least * _LETTERS_A_WORD
        self._all = "\0".join("".join(filter(str.isalnum, text)) for text in texts)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the stretches of a text in small letters that are a passage's, each as long as it can be."""
        places = [at for at, char in enumerate(text) if char.isalnum()]
        letters = "".join(text[at] for at in places)
        step = max(self.least // 2, 1)  # whatever is twice as long holds one of these steps
        done = 0
        for at in range(0, len(letters) - step + 1, step):
            if at >= done:
                low, high = self._longest(letters, at, step)
                if high - low >= self.least:
                    yield places[max(low, done)], places[high - 1] + 1
                    done = high

    def _longest(self, letters: str, at: int, step: int) -> tuple[int, int]:
        """Return the longest stretch around a place that is a passage's somewhere; one of no width if it is nowhere."""
        best = (at, at)
        for place in self._places(letters[at : at + step]):
            low, high = at, at + step
            by = place - at
            while high < len(letters) and high + by < len(self._all) and letters[high] == self._all[high + by]:
                high += 1
            while low > 0 and low + by > 0 and letters[low - 1] == self._all[low - 1 + by]:
                low -= 1
            best = max(best, (low, high), key=_width)
        return best

    def _places(self, piece: str) -> Iterator[int]:
        at = -1
        for _ in range(_MOST):
            at = self._all.find(piece, at + 1)
            if at < 0:
                return
            yield at


def _width(stretch: tuple[int, int]) -> int:
    return stretch[1] - stretch[0]
