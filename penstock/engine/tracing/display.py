"""Text for a terminal or another place of fixed width: control characters made visible, columns, wrapping."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from penstock.engine.values.edits import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

_PICTURES = 0x2400
"""The code point of the first of Unicode's control pictures, which stand in the order of the control characters."""

LABEL = 60
"""The length of a label that takes one line, in characters; longer ones are cut."""

_FIRST_WIDE = 0x1100
"""Below this code point no character takes two columns."""


def visible(text: str) -> str:
    """Return the text with a visible sign for each character that is not printable: ``␊``, ``␛``, ``⟨U+202E⟩``."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _sign(ord(one)) for one in text)


def _sign(code: int) -> str:
    return chr(_PICTURES + code) if code < ord(" ") else f"⟨U+{code:04X}⟩"


def whole(text: str) -> str:
    """Return the visible text; ``?`` where nothing of it can be seen."""
    return visible(text).strip() or "?"


def short(text: str, limit: int = LABEL) -> str:
    """Return the visible text, cut to the length of a label."""
    seen = whole(text)
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(one: str) -> int:
    if unicodedata.combining(one):
        return 0
    return 2 if ord(one) >= _FIRST_WIDE and unicodedata.east_asian_width(one) in "WF" else 1


def shortened(text: str, limit: int) -> str:
    """Return the text, cut to a number of columns; ``…`` stands for the rest."""
    if columns(text) <= limit:
        return text
    return f"{_head(text, limit - 1)}…" if limit > 0 else ""


def wrapped(text: str, limit: int) -> Iterator[str]:
    """Yield the lines of a text, broken between words where that is possible; ``limit`` is at least 2 columns."""
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if columns(joined) <= limit:
            line = joined
            continue
        if line:
            yield line
        line = word
        while columns(line) > limit:
            head = _head(line, limit)
            yield head
            line = line[len(head) :]
    if line:
        yield line


def _head(text: str, limit: int) -> str:
    """Return as much as fits of a text that is wider than the limit."""
    taken = index = 0
    while (taken := taken + _columns_of(text[index])) <= limit:
        index += 1
    return text[:index]


_CONTEXT = 20
"""How many characters are kept before the place where two texts begin to differ."""


def at_difference(before: str, after: str, limit: int) -> tuple[str, str]:
    """Return both texts, visible and cut to a number of columns, so that the difference between them is shown."""
    made = difference(before, after)
    start = max(0, made[0].start - _CONTEXT) if made and max(len(before), len(after)) > limit else 0
    return _from(before, start, limit), _from(after, start, limit)


def _from(text: str, start: int, limit: int) -> str:
    head = "…" if start else ""
    return shortened(head + visible(text[start : start + limit + 1]), limit)
