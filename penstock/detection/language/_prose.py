"""What is left of a text when what belongs to no language is taken out: code, addresses, markup, numbers. Pure."""

from __future__ import annotations

import re
import unicodedata

MOST = 16_384
"""How many characters of a text are looked at; a language is known long before that."""

_FENCED = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_INLINE = re.compile(r"`[^`\n]{1,200}+`")
_TAG = re.compile(r"<[/!?]?[A-Za-z][^<>]{0,300}+>|&(?:[a-z]{2,8}|#\d{1,6});")
# ASCII alone, since in scripts without spaces a sentence may follow at once.
_ADDRESS = re.compile(
    r"(?:https?|ftp|file)://[!-~]+|\bwww\.[!-~]+|[A-Za-z0-9_.+-]{1,64}+@[A-Za-z0-9-]{1,64}+\.[A-Za-z0-9.-]{2,64}+"
    r"|(?<![A-Za-z0-9_])@[A-Za-z0-9_]{2,64}+|(?<!\S)[~.]{0,2}/[A-Za-z0-9_.-]{1,64}+(?:/[A-Za-z0-9_.-]{0,64}+)+"
    r"|\b[A-Za-z]:\\[!-~]+"
)
# Flags, identifiers in snake_case and camelCase, words with digits, dotted.names, calls().
_NAME = re.compile(
    r"(?<!\S)(?:--[a-z][a-z0-9-]{0,64}+|-[A-Za-z]{1,2}\b)|(?<![A-Za-z0-9_])(?:[A-Za-z0-9]*(?:_[A-Za-z0-9_]+|[a-z][A-Z][A-Za-z0-9_]*"
    r"|[0-9][A-Za-z0-9_]*)|[A-Za-z]+(?:\.[a-z][A-Za-z0-9]+){1,8}+|[A-Za-z]+\()"
)
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_OTHER = re.compile(r"[^\w\s'’ʼ\-.,;:!?¿¡、。،؟।\u0300-\u036f\u0590-\u08ff\u0900-\u1cff\u200c\u200d]+|[\d_]+")
_CODE_START = re.compile(
    r"\s*(?:#include\b|>>> |\$ |(?:import|from|def|class|elif|except|return|public|private|static|const|let|var|func|"
    r"fn|void|SELECT|INSERT|UPDATE|CREATE)\s.*[=(){};:*,]|(?:for|if|while|else|try|switch)\b.*[({:]\s*$|//|/\*|\*/|[A-Za-z_][\w.]*\([^()]*\)\s*;?\s*$)"
)
_CODE_END = re.compile(r"[;{}]\s*$|\)\s*:\s*$")
_SYMBOL = re.compile(r"[=(){}\[\];<>\\/+&^%$@]")
_FEWEST_SYMBOLS = 3
_SYMBOLS = 0.2  # of what is written in a line of code more is symbols; of prose in languages with any less


def prose(text: str, *, fenced: bool = False) -> str:
    """Return the words of a text, in the form NFKC, with the punctuation that stands between them.

    Args:
        text: the text.
        fenced: whether what is marked as code is read, too; lines that look like code are not, in any case.
    """
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text[:MOST]))
    for pattern in (*(() if fenced else (_FENCED, _INLINE)), _TAG, _ADDRESS):
        text = pattern.sub(" ", text)
    lines = [line for line in text.splitlines() if line.strip() and not _is_code(line)]
    words = _OTHER.sub(" ", _NAME.sub(" ", "\n".join(lines)))
    return " ".join(words.split())


def _is_code(line: str) -> bool:
    """Tell whether a line looks like code: how it begins and ends, and how much of it is symbols.

    One with letters beyond ASCII is read: it says something in a language, and a Greek question ends with ``;``.
    """
    if not line.isascii():
        return False
    written = len(line) - line.count(" ")
    symbols = len(_SYMBOL.findall(line))
    return (
        (symbols >= _FEWEST_SYMBOLS and symbols > _SYMBOLS * written)
        or _CODE_START.match(line) is not None
        or (symbols > 1 and _CODE_END.search(line) is not None)
    )
