"""Scripts that one language alone is written in, of those that an identifier knows. Pure; it knows no model."""

from __future__ import annotations

import re

# Ranges of The Unicode Standard's blocks. A script that several of our languages use is not here.
_BLOCKS = {
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "hy": "\u0530-\u058f",
    "he": "\u0590-\u05ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "or": "\u0b00-\u0b7f",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "th": "\u0e00-\u0e7f",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "ka": "\u10a0-\u10ff\u1c90-\u1cbf",
    "ko": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "km": "\u1780-\u17ff",
}
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_KANA = "\u3041-\u30ff\u31f0-\u31ff"
_ALONE = {code: re.compile(f"[{block}]") for code, block in _BLOCKS.items()}
_ANY = re.compile(f"[{''.join(_BLOCKS.values())}]")
_JAPANESE, _EAST_ASIAN = re.compile(f"[{_KANA}]"), re.compile(f"[{_HAN}{_KANA}]")
_FEWEST_KANA = 0.1  # of Japanese; a Chinese text may quote a word
_LETTER = re.compile(r"[^\W\d_]")
_MOST_OF_IT = 0.8  # of the letters; names and terms in Latin letters stand in texts of every script


def count_letters(text: str) -> int:
    """Return how many letters a text has."""
    return len(_LETTER.findall(text))


def only_language(text: str) -> str | None:
    """Return the language whose script a text is written in, where no other language has it; None where one may."""
    letters = count_letters(text)
    if not letters:
        return None
    east = len(_EAST_ASIAN.findall(text))
    kana = len(_JAPANESE.findall(text))
    if east >= _MOST_OF_IT * letters:
        return "ja" if kana >= _FEWEST_KANA * east else None
    first = _ANY.search(text)
    if first is None:
        return None
    code = next(code for code, block in _ALONE.items() if block.match(first.group()))
    return code if sum(map(str.isalpha, _ALONE[code].findall(text))) >= _MOST_OF_IT * letters else None
