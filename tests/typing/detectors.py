"""Detectors of a user's own, as guards take them: sync and async, with plain tuples and with `Span`."""

from collections.abc import Mapping, Sequence

from penstock import (
    ClassifierProcessor,
    LanguageDetector,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    ScoreDetector,
    SpanDetector,
)
from penstock.models import OnnxScores, OnnxSpans, PresidioSpans
from penstock.models.detectors import EmbeddedScores, Span


class Scores:
    """A sync detector with the simplest attributes."""

    categories = ("spam",)
    thresholds = {"spam": 0.8}  # noqa: RUF012 - what users write

    def scores(self, texts: Sequence[str]) -> list[dict[str, float]]:
        return [{"spam": 0.1} for _ in texts]


class AsyncScores:
    """An async one, with properties."""

    @property
    def categories(self) -> list[str]:
        return ["en"]

    @property
    def thresholds(self) -> Mapping[str, float]:
        return {}

    async def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        return [{} for _ in texts]


class Tuples:
    """Spans as tuples."""

    types = ("name",)

    def find(self, texts: Sequence[str]) -> list[list[tuple[int, int, str, float]]]:
        return [[(0, 1, "name", 1.0)] for _ in texts]


class Spans:
    """Spans as `Span`, async."""

    types: Sequence[str] = ["name"]

    async def find(self, texts: Sequence[str]) -> list[list[Span]]:
        return [[Span(0, 1, "name")] for _ in texts]


score_detectors: list[ScoreDetector] = [Scores(), AsyncScores(), OnnxScores("folder")]
span_detectors: list[SpanDetector] = [Tuples(), Spans(), OnnxSpans("folder"), PresidioSpans()]


def embedded(detector: EmbeddedScores) -> ScoreDetector:
    """Embedded scores are a detector."""
    return detector


def decide(scores: Mapping[str, float], about: object) -> None:
    """Get the scores."""


PIIDetector(detector=Tuples(), combine="confirm")
PIIDetector(detector=Spans(), combine="replace")
ModerationProcessor(detector=Scores(), combine="max")
PromptInjectionDetector(detector=AsyncScores())
LanguageDetector(detector=AsyncScores())
ClassifierProcessor(on_result=decide, detector=Scores())
