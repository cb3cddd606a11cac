"""How a linear model reads a text: without disguises, cut into words and signs, each folded; it knows no weights."""

from __future__ import annotations

import re
import unicodedata

from penstock.detection.unicode import disguises

# A word is a run without white space and without the signs that stand by themselves. Letters of other scripts are not
# told apart here: a run of them is a word, whose pairs of letters carry what it says.
_WORD = re.compile(r"[^\s\x00-/:-@\[-`{-\x7f“”„«»…—–‘’、。，！？「」]+|[!-/:-@\[-`{-~“”„«»…—–‘’、。，！？「」]")
_ACCENT = re.compile("[\u0300-\u036f]")


def undisguised(text: str) -> str:
    """Return a text with full-width, styled and look-alike letters as plain ones, without what cannot be seen.

    Honest text in another script is changed as well, in the same way in training as in use.
    """
    return text if text.isascii() and "\x1b" not in text else disguises.read(text).text


def words(text: str) -> list[str]:
    """Cut a text into its words and signs, as they are written."""
    return _WORD.findall(text)


def folded(word: str) -> str:
    """Return a word in small letters, without accents."""
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", word.lower())))
