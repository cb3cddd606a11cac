"""How a linear model reads a text: folded to one form, then cut into words and signs. Pure; it knows no weights."""

from __future__ import annotations

import re
import unicodedata

from penstock.processors.unicode import disguises

# A word is a run without white space and without the signs that stand by themselves. Letters of other scripts are not
# told apart here: a run of them is a word, whose pairs of letters carry what it says.
_WORD = re.compile(r"[^\s\x00-/:-@\[-`{-\x7f“”„«»…—–‘’、。，！？「」]+|[!-/:-@\[-`{-~“”„«»…—–‘’、。，！？「」]")
_ACCENT = re.compile("[\u0300-\u036f]")


def folded(text: str) -> str:
    """Return a text in small letters, disguises and accents undone.

    Full-width, styled and look-alike letters read as the plain ones they stand for, and what cannot be seen is gone.
    Honest text in another script is folded as well, in the same way in training as in use.
    """
    if text.isascii() and "\x1b" not in text:
        return text.lower()
    decomposed = unicodedata.normalize("NFD", disguises.read(text).text.lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


def words(text: str) -> list[str]:
    """Cut a folded text into its words and signs."""
    return _WORD.findall(text)
