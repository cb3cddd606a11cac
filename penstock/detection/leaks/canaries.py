"""`Canaries`: tokens that stand in a prompt for no other reason than to be recognised. It knows no prompt."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEAST = 6
"""How many letters and digits a canary must have."""

_BETWEEN = r"[\W_]{0,3}"


class Canaries:
    """Tokens, found however their letters are spaced, turned round or rotated."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """Take tokens in small letters, of `LEAST` letters and digits or more."""
        spelled = ["".join(filter(str.isalnum, token)) for token in tokens]
        variants = {way for one in spelled for way in (one, one[::-1], codecs.encode(one, "rot13"))}
        self._patterns = [regex.compile(_BETWEEN.join(map(regex.escape, way))) for way in sorted(variants)]

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the tokens stand in a text in small letters."""
        for pattern in self._patterns:
            for found in pattern.finditer(text):
                yield found.span()

    def hold(self, text: str) -> int:
        """Return where the first token begins that the text may hold the beginning of; its end if there is none."""
        return min((_begun(pattern, text) for pattern in self._patterns), default=len(text))


def _begun(pattern: regex.Pattern[str], text: str) -> int:
    at = 0
    while (found := pattern.search(text, at, partial=True)) is not None:
        if found.partial:
            return found.start()
        at = max(found.end(), at + 1)
    return len(text)
