"""The one text of a message that is searched for and searched in, and how a long one is cut. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.windows import Windows
from penstock.engine.values.messages import AudioPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.messages import Message


_PREFIX = "penstock_memory_"
_LONGEST = 63  # bytes of a name in PostgreSQL
_DIGITS = 8
_ODD = re.compile(r"[^A-Za-z0-9_]")


def index_name(model: str | None) -> str:
    """Return the name of the index for a model's vectors: letters, digits and underscores, 63 at most.

    A name that does not fit is cut, other characters become underscores, and eight digits of a hash keep what then
    looks alike apart.
    """
    if not model:
        return f"{_PREFIX}default"
    plain = _ODD.sub("_", model)
    room = _LONGEST - len(_PREFIX)
    if plain == model and len(plain) <= room:
        return _PREFIX + plain
    mark = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_PREFIX}{plain[: room - _DIGITS - 1]}_{mark}"


# Sentence embedders read 256 to 512 tokens and forget the rest; that is 1,000 characters and more of most languages.
_WINDOWS = Windows(least=600, most=1_000, overlap=100)


class TextPiece(NamedTuple):
    """A stretch of a text, and where in it the stretch begins."""

    start: int
    text: str


def memory_text(message: Message) -> str:
    """Return what a message says: its text parts and the transcripts of its sounds, a line each; blank if nothing.

    Both sides use it: what is indexed, and what is searched for. Thoughts, tools' traffic, files and data are left out.
    """
    said = [said_in(part) for part in message.parts if isinstance(part, (TextPart, AudioPart))]
    return "\n".join(text for text in said if text.strip()).strip()


def said_in(part: TextPart | AudioPart) -> str:
    """Return the text of a part, or its transcript."""
    return part.text if isinstance(part, TextPart) else part.transcript or ""


def pieces(text: str) -> Iterator[TextPiece]:
    """Yield a text in pieces of at most 1,100 characters, cut at ends of sentences; a short one is one piece.

    Each begins with the last 100 characters of the piece before, so that nothing is cut in two that belongs together.
    Blank pieces are left out.
    """
    start = 0
    for end in _WINDOWS.cuts(text):
        piece = _WINDOWS.view(text, start, end)
        if piece.strip():
            yield TextPiece(max(start - _WINDOWS.overlap, 0), piece)
        start = end
