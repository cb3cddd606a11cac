"""Which names somebody may have meant who named none that there is. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 3
"""How many names are suggested at most (the reference's figure, builtins.md §13.2)."""

_LONGEST = 200  # characters: what is longer is no slip of a name
_CLOSE = 0.75  # one slip in a name of four letters, two in one of eight


def near_misses(meant: str, names: Iterable[str]) -> list[str]:
    """Return the names that hold what was said, or are held by it; where there are none, those that are spelt alike."""
    known = list(names)
    said = meant.strip().casefold()
    if not said or len(said) > _LONGEST:
        return []
    holding = [name for name in known if said in name.casefold() or name.casefold() in said]
    return (holding or difflib.get_close_matches(meant, known, n=MOST, cutoff=_CLOSE))[:MOST]
