"""How wide words are, and words as lines of a label: at spaces where they can be, and cut only after several lines."""

from __future__ import annotations

import re
import unicodedata

from penstock.engine.tracing.display import columns

TITLE_COLUMNS, TITLE_LINES = 28, 3
NOTE_COLUMNS, NOTE_LINES = 36, 3
LABEL_COLUMNS, LABEL_LINES = 30, 4
"""The most columns and lines of a title, of a note below it, and of a condition on an arrow."""

_WIDE = 0x3000
"""Where the wide scripts begin in Unicode."""

_OVER = 4
"""How much longer than its lines a text is looked at; marks that take no column need room."""

_PIECES = re.compile(r" +|(?:[^ \w]|_)*[^\W_]*(?:[^ \w]|_)?")
"""Where a line may break: at spaces; and in a long word after a sign that parts it."""


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the most that a text is likely to take, in pixels; no font is read."""
    return sum(map(_ems, text)) * size * (1.08 if bold else 1.0)


def _ems(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF" or ord(char) >= _WIDE:
        return 1.05
    return 0.85 if char in "mwMW@%…—⟨⟩" else 0.6


def wrapped(text: str, wide: int, lines: int) -> tuple[str, ...]:
    """Return a text as lines, each without spaces around it.

    Args:
        text: the text, of visible characters.
        wide: the most columns of a line.
        lines: the most lines; if they do not suffice, the last one ends with ``…``.
    """
    made = [""]
    for piece in _pieces(text[: _OVER * wide * lines], wide):
        if columns(made[-1] + piece.rstrip()) > wide and made[-1].strip():
            made.append("")
        if len(made) > lines:
            break
        made[-1] += piece if made[-1] else piece.lstrip()
    kept = [line.strip() for line in made[:lines]]
    if len(made) > lines:
        kept[-1] = f"{_cut(kept[-1], wide - 1)}…"
    return tuple(line for line in kept if line) or ("",)


def title_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a title."""
    return wrapped(text, TITLE_COLUMNS, TITLE_LINES)


def label_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a condition."""
    return wrapped(text, LABEL_COLUMNS, LABEL_LINES)


def note_lines(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines of the notes below a title; each note begins a line."""
    return tuple(line for note in notes for line in wrapped(note, NOTE_COLUMNS, NOTE_LINES))


def _pieces(text: str, wide: int) -> list[str]:
    """Return the pieces between which a line may break; none is wider than a line."""
    pieces: list[str] = []
    for word in re.findall(r"\S+ *| +", text):
        parts = [word] if columns(word.rstrip()) <= wide else [part for part in _PIECES.findall(word) if part]
        for part in parts:
            while columns(part.rstrip()) > wide:
                start = _cut(part, wide)
                pieces.append(start)
                part = part[len(start) :]  # noqa: PLW2901 - what is left of it
            pieces.append(part)
    return pieces


def _cut(text: str, wide: int) -> str:
    """Return as much of the start of a text as a width holds, and at least one character with its marks."""
    end = 1
    while end < len(text) and (columns(text[: end + 1]) <= wide or unicodedata.combining(text[end])):
        end += 1
    return text[:end]
