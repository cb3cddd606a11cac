"""better-profanity: a word list with common misspellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from better_profanity import Profanity


class BetterProfanity:
    """One if a word of the list occurs, else nought."""

    thresholds: Mapping[str, float] = {"any": 1.0}

    def __init__(self, words: Profanity) -> None:
        self._words = words

    def scores(self, text: str) -> dict[str, float]:
        """Return whether one occurs."""
        return {"any": float(self._words.contains_profanity(text))}


def make() -> BetterProfanity:
    """Return it with its own list."""
    from better_profanity import Profanity

    return BetterProfanity(Profanity())
