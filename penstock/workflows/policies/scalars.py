"""The meaning of a plain scalar of a YAML file, by the core schema of YAML 1.2.2 (chapter 10.3.2).

YAML 1.1, which most Python libraries read, takes ``no`` for False, ``12:30:00`` for 45000 and ``010`` for 8. Here the
first two are text, and the last one is 10.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Plain: TypeAlias = "str | int | float | bool | None"
"""The value of a scalar."""

_WORDS: dict[str, bool | float | None] = {
    "": None,
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_WHOLE = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS = 1_000


def plain_value(text: str) -> Plain:
    """Return the value of a plain scalar: None, a bool, a number, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MOST_DIGITS:  # Python refuses to read longer numbers, and nobody writes them
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    return float(text) if _DECIMAL.fullmatch(text) else text


def is_plain_text(text: str) -> bool:
    """Return whether a plain scalar with that text would be read as that text, by YAML 1.1 and 1.2 alike."""
    return bool(_SAFE.fullmatch(text)) and plain_value(text) == text and text.lower() not in _WORDS_OF_1_1


_SAFE = re.compile(r"[A-Za-z_./][\w./*@+-]*(?: [\w./*@+-]+)*")
_WORDS_OF_1_1 = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
