"""langdetect, with a fixed seed: it draws lots."""

from __future__ import annotations


class LangDetect:
    """Its first guess."""

    def identify(self, text: str) -> str | None:
        """Return what it takes the text for."""
        from langdetect import detect
        from langdetect.lang_detect_exception import LangDetectException

        try:
            return str(detect(text)).partition("-")[0]
        except LangDetectException:
            return None


def make() -> LangDetect:
    """Return it."""
    from langdetect import DetectorFactory

    DetectorFactory.seed = 0
    return LangDetect()
