"""What a contestant is, by what it answers, and which of them are there; it knows none of them.

An adapter is a module of this folder with a function ``make`` that returns its contestant and imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from penstock.detection.spans import Span
from penstock.engine.values.errors import PenstockError

OURS = "penstock"
FLOOR = "floor"


class Finder(Protocol):
    """Finds stretches of a text; the types are ours."""

    def find(self, text: str) -> Sequence[Span]:
        """Return what stands where."""
        ...


def reader(finder: Finder) -> Callable[[str], object]:
    """Return what is timed: how an application reads a text (``read``), where that says less than ``find``."""
    read: Callable[[str], object] = getattr(finder, "read", finder.find)
    return read


class Scorer(Protocol):
    """Scores a whole text."""

    @property
    def thresholds(self) -> Mapping[str, float]:
        """From which score on a category is flagged by default."""
        ...

    def scores(self, text: str) -> Mapping[str, float]:
        """Return a score a category, 0 to 1; one that has no categories calls its score ``any``."""
        ...


class Identifier(Protocol):
    """Tells the language of a text."""

    def identify(self, text: str) -> str | None:
        """Return a code of ISO 639-1; None if it does not know."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """One that can be measured if it is installed.

    Attributes:
        name: what the report calls it.
        module: its adapter in this folder.
        package: what to install; empty for what is part of this repository.
        maker: the adapter's function that makes it.
    """

    name: str
    module: str
    package: str = ""
    maker: str = "make"

    def made(self) -> object:
        """Return the contestant.

        Raises:
            ImportError: if it is not installed.
            PenstockError: if what it needs is not installed.
            OSError: if its tables are not there.
        """
        return getattr(import_module(f"benchmarks.quality.contestants.{self.module}"), self.maker)()


def line_up(candidates: Iterable[Candidate], notes: list[str], *, peers: bool) -> dict[str, object]:
    """Return those that are there, by name; a note for each that is not. Without ``peers``, none of other packages."""
    there: dict[str, object] = {}
    for each in candidates:
        if each.package and not peers:
            continue
        try:
            there[each.name] = each.made()
        except (ImportError, OSError, PenstockError) as absent:
            why = f"it is not installed (pip install {each.package})" if each.package else str(absent)
            notes.append(f"{each.name} is left out: {why.removesuffix('.')}.")
    return there


def flags(scorer: Scorer, scores: Mapping[str, float]) -> dict[str, bool]:
    """Return for each category that has a default threshold whether its score reaches that."""
    limits = scorer.thresholds
    return {category: scores[category] >= limit for category, limit in limits.items() if category in scores}
