"""What is wrong with an answer that was to be an object: places and kinds, never what stands there. Knows no form."""

from __future__ import annotations

from typing import NamedTuple

MOST_TOLD = 5
"""How many problems of one answer are told: a model that mends these is asked about the rest."""

WHOLE = "the whole"


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        place: the path of the field, with ``*`` for keys that the schema does not name.
        kind: what is wrong, in one word, as pydantic or JSON Schema calls it; ``json`` where nothing could be read.
        told: what is wrong, in words that quote the schema at most.
    """

    place: str
    kind: str
    told: str


class UnfitError(ValueError):
    """An answer that is no object of the form asked for.

    Attributes:
        problems: what is wrong, at least one.
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems[:MOST_TOLD]
        super().__init__("; ".join(f"{found.place}: {found.told}" for found in self.problems))


def unreadable(told: str, kind: str = "json") -> UnfitError:
    """Return the error of an answer as a whole."""
    return UnfitError(Problem(WHOLE, kind, told))
