"""`EmbeddedScores`: an embedded scorer, which reads one text, as a `ScoreDetector`, which reads several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class TextScorer(Protocol):
    """Scores one text at a time, such as `InjectionScorer` and `ModerationScorer`."""

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that it scores."""
        ...

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The score from which on each category counts, chosen on development data."""
        ...

    def scores(self, text: str) -> Mapping[str, float]:
        """Return how sure it is of each category, from 0 to 1."""
        ...


@dataclass(frozen=True)
class EmbeddedScores:
    """A scorer as a detector. It may be used wherever a `ScoreDetector` is asked for.

    Attributes:
        scorer: scores one text.
    """

    scorer: TextScorer

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that it scores."""
        return self.scorer.categories

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The score from which each category counts."""
        return self.scorer.thresholds

    def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        """Return the scores of each text, in order."""
        return [self.scorer.scores(text) for text in texts]
