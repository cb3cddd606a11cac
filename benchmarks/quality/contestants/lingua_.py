"""Lingua in its low-accuracy mode: the other one takes more than a gigabyte and a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingua import LanguageDetector


class Lingua:
    """Its first guess."""

    def __init__(self, detector: LanguageDetector) -> None:
        self._detector = detector

    def identify(self, text: str) -> str | None:
        """Return what it takes the text for; Bokmål and Nynorsk are Norwegian to the data."""
        found = self._detector.detect_language_of(text)
        code = found.iso_code_639_1.name.lower() if found else None
        return "no" if code in {"nb", "nn"} else code


def make() -> Lingua:
    """Return it with all its languages."""
    from lingua import LanguageDetectorBuilder

    return Lingua(LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build())
