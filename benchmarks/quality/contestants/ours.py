"""Our detectors, as the guards use them: with their defaults, a long text in windows, its score the highest of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.detection.spans import Span
from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from penstock.detection.windows import Windows


class _Detector(Protocol):
    @property
    def thresholds(self) -> Mapping[str, float]: ...

    def scores(self, text: str) -> Mapping[str, float]: ...


class Windowed:
    """A detector that reads one window at a time."""

    def __init__(self, detector: _Detector, windows: Windows) -> None:
        detector.scores("")  # its tables are loaded now, so that one without them is left out
        self._detector = detector
        self._windows = windows

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The detector's."""
        return self._detector.thresholds

    def scores(self, text: str) -> Mapping[str, float]:
        """Return the highest score of each category."""
        return highest(self._detector.scores(view) for view in self._windows.views(text))


def highest(all_scores: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the highest score of each category."""
    top: dict[str, float] = {}
    for scores in all_scores:
        for category, score in scores.items():
            top[category] = max(score, top.get(category, 0.0))
    return top


class _Personal:
    """Every type that is found without a model."""

    def __init__(self) -> None:
        from penstock.detection.personal_data.detector import PersonalData

        self._detector = PersonalData()

    def find(self, text: str) -> Sequence[Span]:
        """Return what it finds."""
        return self._detector.find(text)


def personal() -> _Personal:
    """Return `PersonalData`."""
    return _Personal()


class _Language:
    """The identifier; ``languages`` None for its default set, ``threshold`` None for its default."""

    def __init__(self, languages: Sequence[str] | None = None) -> None:
        from penstock.detection.language import LanguageIdentifier

        self._detector = LanguageIdentifier(languages) if languages else LanguageIdentifier()

    def identify(self, text: str) -> str | None:
        """Return its guess; None below its threshold."""
        return self._detector.identify(text).code


def language() -> _Language:
    """Return `LanguageIdentifier` with its defaults."""
    return _Language()


def language_among(languages: Sequence[str]) -> _Language:
    """Return `LanguageIdentifier` for those languages only that it knows; for its default set if they are too few."""
    known = [code for code in languages if _is_known(code)]
    return _Language(known if len(known) > 1 else None)


def _is_known(code: str) -> bool:
    try:
        _Language(["de" if code == "en" else "en", code])
    except OptionError:
        return False
    return True


def injection() -> Windowed:
    """Return `InjectionScorer`, and windows as the guards cut what goes to a model."""
    from penstock.detection.injection import InjectionScorer
    from penstock.processors.guards.score_guard import ScoreGuard

    return Windowed(InjectionScorer(), ScoreGuard.input_windows)


class _Moderation(Windowed):
    """Moderation; ``any`` is what the scorer says of all categories together."""

    def scores(self, text: str) -> Mapping[str, float]:
        """Return the highest score of each category, and how likely one of them at least applies."""
        from penstock.detection.moderation import ModerationScorer

        found = super().scores(text)
        return {**found, "any": ModerationScorer.overall(found)}


def moderation() -> Windowed:
    """Return `ModerationScorer`, and windows as the guards cut what goes to a model."""
    from penstock.detection.moderation import ModerationScorer
    from penstock.processors.guards.score_guard import ScoreGuard

    return _Moderation(ModerationScorer(), ScoreGuard.input_windows)
