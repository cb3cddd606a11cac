"""`Stems`: tells which of some words, or parts of words, stand in a text, by few looks at a text that has none of them.

Each is looked for only if the letter is there that texts have least often of its letters. Digits, codes in hexadecimal
and noise have hardly any of those letters, and a look for one character is much quicker than one for a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SELDOM_FIRST = "qjzxkvwypgmuhlrsnoitbfcdae"  # hexadecimal digits last: whatever has no other letter is a code
_BEYOND = -1  # characters that are no such letters come first


class Stems:
    """Stems in small letters, which are found in the order in which they are given."""

    __slots__ = ("_by_letter", "_order")

    def __init__(self, stems: Iterable[str]) -> None:
        self._order = {stem: at for at, stem in enumerate(stems)}
        self._by_letter: dict[str, list[str]] = {}
        for stem in self._order:
            self._by_letter.setdefault(min(stem, key=_SELDOM_FIRST.find), []).append(stem)

    def any_in(self, text: str) -> bool:
        """Return whether any of the stems stands in a text, which is in small letters."""
        return any(letter in text and any(map(text.__contains__, stems)) for letter, stems in self._by_letter.items())

    def standing_in(self, text: str) -> Sequence[str]:
        """Return the stems that stand in a text, which is in small letters."""
        found = [stem for letter, stems in self._by_letter.items() if letter in text for stem in stems if stem in text]
        return sorted(found, key=self._order.__getitem__) if len(found) > 1 else found
