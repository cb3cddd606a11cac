"""The edits that tidy white space: three ways that keep the layout, and the reference's way that does not. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.edits import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.edits import Edits

Whitespace = Literal["keep", "trim-lines", "collapse-inline", "collapse-all"]

# What JavaScript's trim() removes (ECMA-262, WhiteSpace and LineTerminator), which is not what str.strip() does.
TRIMMED = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

_BLANK = r" \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_NEWLINE = r"(?:\r\n?|\n)"
_LINE_END = rf"(?P<none>(?<![{_BLANK}])[{_BLANK}]+(?=[\r\n]|\Z))"
_INSIDE = rf"(?P<space>(?<=[^{_BLANK}\r\n])[{_BLANK}]{{2,}}(?=[^{_BLANK}\r\n]))"
_ANYWHERE = rf"(?P<space>(?<![{_BLANK}])[{_BLANK}]{{2,}}(?=[^{_BLANK}\r\n]))"
_LINES = rf"(?P<paragraph>(?<![\r\n]){_NEWLINE}(?:[{_BLANK}]*+{_NEWLINE}){{2,}})|(?P<newline>\r\n?)"
_AFTER = {"none": "", "space": " ", "paragraph": "\n\n", "newline": "\n"}
_TIDY = {
    ("trim-lines", True): re.compile(_LINE_END),
    ("trim-lines", False): re.compile(_LINE_END),
    ("collapse-inline", True): re.compile(f"{_LINE_END}|{_INSIDE}"),
    ("collapse-inline", False): re.compile(f"{_LINE_END}|{_ANYWHERE}"),
    ("collapse-all", True): re.compile(f"{_LINES}|{_LINE_END}|{_INSIDE}"),
}
_RUN = re.compile(r"[\r\n]+|[ \t]+")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)


def whitespace_edits(text: str, how: Whitespace, *, keep_layout: bool = True) -> Edits:
    """Return the edits that tidy the text.

    ``trim-lines`` takes blanks from the ends of lines, ``collapse-inline`` also makes runs inside a line one space,
    ``collapse-all`` also makes line ends LF and several blank lines one. With ``keep_layout`` fenced code and
    indentation stay as they are; without it, ``collapse-all`` makes every run of blanks one space and every run of line
    ends one, as the reference does.
    """
    if how == "keep":
        return ()
    if how == "collapse-all" and not keep_layout:
        spans = ((m.start(), m.end(), "\n" if text[m.start()] in "\r\n" else " ") for m in _RUN.finditer(text))
        return tuple(_edits(text, spans))
    fenced = _fences(text) if keep_layout else []
    return tuple(_edits(text, _tidied(text, _TIDY[how, keep_layout], fenced)))


def _tidied(text: str, pattern: re.Pattern[str], fenced: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Yield what the pattern finds outside the fences: start, end, new text."""
    fences = iter([*fenced, (len(text) + 1, len(text) + 1)])
    fence = next(fences)
    for found in pattern.finditer(text):
        while found.start() >= fence[1]:
            fence = next(fences)
        if found.start() < fence[0]:
            yield found.start(), found.end(), _AFTER[found.lastgroup or "none"]


def _edits(text: str, spans: Iterable[tuple[int, int, str]]) -> Iterator[Edit]:
    """Yield the edits for what really changes, as short as they can be."""
    for start, end, after in spans:
        if after and text.startswith(after, start):
            start, after = start + len(after), ""  # noqa: PLW2901 - the first of a run stays
        if start < end:
            yield Edit(start, end, after)


def _fences(text: str) -> list[tuple[int, int]]:
    """Return the spans of fenced code, fences included; one never closed goes on to the end (CommonMark 4.5)."""
    spans: list[tuple[int, int]] = []
    begin, mark = -1, ""
    for line in _FENCE.finditer(text):
        fence, rest = line.group(1), line.group(2)
        if begin < 0:
            if fence[0] == "~" or "`" not in rest:
                begin, mark = line.start(), fence
        elif fence.startswith(mark) and not rest.strip():
            spans.append((begin, line.end()))
            begin = -1
    if begin >= 0:
        spans.append((begin, len(text)))
    return spans


def trim_edits(text: str) -> Edits:
    """Return the edits that take white space from both ends."""
    if not text or (text[0] not in TRIMMED and text[-1] not in TRIMMED):
        return ()
    kept = text.lstrip(TRIMMED)
    start = len(text) - len(kept)
    end = start + len(kept.rstrip(TRIMMED))
    spans = [(0, start), (end, len(text))] if end > start else [(0, len(text))]
    return tuple(Edit(low, high) for low, high in spans if low < high)
