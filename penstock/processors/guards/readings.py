"""`Reading`: what was found out about one window of a text, and `Verdict`, where it stands; they know no guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.model import JudgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.values.frozen import Value, Values

UNLISTED = "unlisted"
"""The category under which a judge's findings go that it gave a category which it was not offered."""


class ScoreDetector(Protocol):
    """An embedded detector that gives scores."""

    @property
    def categories(self) -> tuple[str, ...]:
        """What it gives scores for."""
        ...

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The score of each category from which on it counts, fixed on development data."""
        ...

    def scores(self, text: str) -> Mapping[str, float]:
        """Return how sure it is of each category, from 0 to 1."""
        ...

    def reasons(self, text: str) -> tuple[str, ...]:
        """Return short names of what explains the scores; never text."""
        ...


class Reading(NamedTuple):
    """What was found out about a window.

    Attributes:
        scores: how sure that is, by category.
        flagged: the categories that reached their limit, in the order in which they were given.
        reason: what the judge says about it.
        judge: the name of the model that judged; empty for the embedded detector.
        text: what is to stand in the window's place, where the guard's strategy asks for that.
        details: what else the guard found out.
    """

    scores: Mapping[str, float] = EMPTY
    flagged: tuple[str, ...] = ()
    reason: str | None = None
    judge: str = ""
    text: str | None = None
    details: Values = EMPTY


class Verdict(NamedTuple):
    """What was found out, and about which stretch of the text."""

    start: int
    end: int
    reading: Reading


def listed(entries: Iterable[tuple[str, float]], categories: Iterable[str]) -> dict[str, float]:
    """Return the highest score of each category; what is none of them goes under `UNLISTED`."""
    known = {category.casefold(): category for category in categories}
    scores: dict[str, float] = {}
    for name, score in entries:
        category = known.get(name.strip().casefold(), UNLISTED)
        scores[category] = max(score, scores.get(category, 0.0))
    return scores


def whole(judged: Value, flagged: bool, model: str) -> None:  # noqa: FBT001 - what the verdict came to
    """Refuse a verdict from which entries were left out, and that flags nothing: they may have been what it is about.

    Raises:
        JudgeError: it is one.
    """
    if judged.dropped and not flagged:
        raise JudgeError(model, "unreadable", f"{len(judged.dropped)} entries of its verdict could not be read")
