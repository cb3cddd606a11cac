"""A word list, as many guards have one: better-profanity's (MIT), each word looked up as it is written.

The package's own matching, with its misspellings, finds hardly more and reads a hundred and fifty texts a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path


class Words:
    """One if a word of the list occurs, else nought."""

    thresholds: Mapping[str, float] = {"any": 1.0}

    def __init__(self, words: Iterable[str]) -> None:
        listed = sorted((re.escape(word) for word in words), key=len, reverse=True)
        self._listed = re.compile(rf"\b(?:{'|'.join(listed)})\b")

    def scores(self, text: str) -> dict[str, float]:
        """Return whether one occurs."""
        return {"any": float(self._listed.search(text.lower()) is not None)}


def make() -> Words:
    """Return the list of the package that is installed."""
    import better_profanity

    file = Path(better_profanity.__file__).with_name("profanity_wordlist.txt")
    return Words(word.strip() for word in file.read_text(encoding="utf-8").splitlines() if word.strip())
