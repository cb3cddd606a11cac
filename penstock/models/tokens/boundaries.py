"""Where a text may be cut so that the tokens of both pieces add up; it knows no counter.

No encoding of tiktoken's lets a piece hold a letter or digit followed by white space, and what begins with white space
is split without a look back. So the counts before and after such a place add up, whatever follows. The character
heuristic splits there too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOUNDARY = re.compile(r"(?<=[^\W_])(?=[ \t\r\n])")


def boundaries(text: str, start: int = 0) -> Iterator[int]:
    """Yield the places after ``start`` where a letter or digit is followed by a blank, a tab or a line end."""
    for match in _BOUNDARY.finditer(text, start):
        if match.start() > start:
            yield match.start()


def last_boundary(text: str, start: int = 0) -> int:
    """Return the last such place after ``start``, or ``start``."""
    stop = len(text) - 1
    while stop > start:
        if text[stop] in " \t\r\n" and text[stop - 1].isalnum():
            return stop
        stop -= 1
    return start


def slices(text: str, size: int) -> Iterator[str]:
    """Yield the text in pieces of at most ``size`` characters, cut at such places where there are any."""
    start = 0
    while len(text) - start > size:
        window = text[start : start + size]
        stop = last_boundary(window) or size
        yield window[:stop]
        start += stop
    yield text[start:]
