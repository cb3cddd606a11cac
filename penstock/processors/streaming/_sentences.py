"""Where sentences end in a text that comes in pieces. It knows punctuation, no language.

An end is known once it is known what follows: ``3.`` may go on as ``3.14``, and a quote may close behind a full stop.
Abbreviations are not told apart: taking one for an end cuts a text once more, and loses nothing.
"""

from __future__ import annotations

import re

_MARKS = ".!?…"  # end a sentence where white space follows
_WIDE = "。！？"  # end one by themselves: Chinese and Japanese put no space behind them
_CLOSERS = "\"')]}*_»”’›」』）】》"

_CLOSING = re.escape(_CLOSERS)
# A run of wide marks is tried from its beginning only, and nothing is given back: the search stays linear.
_END = re.compile(
    rf"[{re.escape(_MARKS)}][{_CLOSING}]*+(?=\s)"
    rf"|(?<![{_WIDE}])[{_WIDE}]++[{_CLOSING}]*+(?=[^{_WIDE}{_CLOSING}])"
    r"|\n"
)


def last_end(text: str, pending: str = "") -> int | None:
    """Return where the last sentence that ends in a piece of text ends there; None if none does.

    White space behind a sentence belongs to the next one; a line's end ends one itself.

    Args:
        text: the piece.
        pending: what `pending_after` told of the text before.
    """
    last = None
    for found in _END.finditer(text):
        last = found.end()
    if last is None and pending:
        rest = text.lstrip(_CLOSERS)
        if rest and (rest[0] not in _WIDE if pending in _WIDE else rest[0].isspace()):
            return len(text) - len(rest)
    return last


def pending_after(text: str, pending: str = "") -> str:
    """Return the mark that ends a text if what follows allows it; empty if there is none.

    Args:
        text: a piece, not empty.
        pending: what was told of the text before.
    """
    bare = text.rstrip(_CLOSERS)
    if not bare:
        return pending
    return bare[-1] if bare[-1] in _MARKS + _WIDE else ""
