"""The floor for languages: the script of most letters, and the language that writes most in it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping

MOST: Mapping[str, str] = {
    "LATIN": "en",
    "CYRILLIC": "ru",
    "ARABIC": "ar",
    "DEVANAGARI": "hi",
    "CJK": "zh",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "HANGUL": "ko",
    "GREEK": "el",
    "HEBREW": "he",
    "THAI": "th",
    "BENGALI": "bn",
    "TAMIL": "ta",
    "TELUGU": "te",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "ETHIOPIC": "am",
}
"""The first word of a letter's Unicode name, and the language."""


class Scripts:
    """Counts letters by script."""

    def identify(self, text: str) -> str | None:
        """Return the language; None without letters."""
        seen = Counter(unicodedata.name(each, "").partition(" ")[0] for each in text if each.isalpha())
        known = [script for script, _ in seen.most_common() if script in MOST]
        if "HIRAGANA" in known:
            return "ja"
        return MOST[known[0]] if known else None


def make() -> Scripts:
    """Return the floor."""
    return Scripts()
