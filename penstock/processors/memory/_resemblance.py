"""Whether two texts say nearly the same, word for word. Pure; it knows no meaning."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+")
_LONGEST = 20_000  # characters that are compared; texts that are the same so far are the same
_IN_A_ROW = 3


def words(text: str) -> list[str]:
    """Return the words of a text in small letters; where words are not parted, its letters."""
    return _WORDS.findall(unicodedata.normalize("NFKC", text[:_LONGEST]).casefold())


def outline(text: str) -> frozenset[tuple[str, ...]]:
    """Return what a text is compared by: its words, three in a row; with signs alone, the text."""
    said = words(text)
    if not said:
        return frozenset({(text[:_LONGEST],)})
    size = min(_IN_A_ROW, len(said))
    return frozenset(tuple(said[at : at + size]) for at in range(len(said) - size + 1))


def is_near(one: frozenset[tuple[str, ...]], others: Sequence[frozenset[tuple[str, ...]]], share: float) -> bool:
    """Tell whether one of the others has at least that share in common with it, of all that both have."""
    return any(len(one & other) >= share * len(one | other) for other in others)
