"""Choose the text of a message that is embedded, split it into pieces, and name the vector index of a model."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.detection.windows import Windows
from penstock.engine.values.errors import UsageError
from penstock.engine.values.messages import AudioPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.values.messages import Message


_PREFIX = "penstock_memory_"
_LONGEST = 63  # bytes of a name in PostgreSQL
_DIGITS = 8
_ODD = re.compile(r"[^A-Za-z0-9_]")


def index_name(model: str | None) -> str:
    """Return the name of the vector index for a model: letters, digits and underscores, at most 63.

    A name that is too long is cut, and other characters become underscores; eight digits of a hash are then added, so
    that different models never share an index.
    """
    if not model:
        return f"{_PREFIX}default"
    plain = _ODD.sub("_", model)
    room = _LONGEST - len(_PREFIX)
    if plain == model and len(plain) <= room:
        return _PREFIX + plain
    mark = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_PREFIX}{plain[: room - _DIGITS - 1]}_{mark}"


def checked_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts that are to be embedded, as a list.

    Raises:
        UsageError: it is a single str, whose letters would be embedded, or holds something that is no text.
    """
    if isinstance(texts, str):
        raise UsageError("embed takes a list of texts; put a single text into a list")
    given: list[object] = list(texts)
    odd = next((text for text in given if not isinstance(text, str)), "")
    if not isinstance(odd, str):
        raise UsageError(f"embed takes a list of texts, but one item is of type {type(odd).__name__}")
    return cast("list[str]", given)


# Sentence embedders read 256 to 512 tokens and ignore the rest: 1,000 characters or more in most languages.
_WINDOWS = Windows(least=600, most=1_000, overlap=100)


class TextPiece(NamedTuple):
    """A piece of a text, and the index where it begins."""

    start: int
    text: str


def memory_text(message: Message) -> str:
    """Return the text of a message that is embedded: its text parts and audio transcripts, one a line.

    It is empty if there is none. The same text is used for messages that are stored and for those that are searched
    for. Reasoning, tool calls and results, files and data are left out.
    """
    said = [said_in(part) for part in message.parts if isinstance(part, (TextPart, AudioPart))]
    return "\n".join(text for text in said if text.strip()).strip()


def said_in(part: TextPart | AudioPart) -> str:
    """Return the text of a part, or its transcript."""
    return part.text if isinstance(part, TextPart) else part.transcript or ""


def pieces(text: str) -> Iterator[TextPiece]:
    """Yield a text in pieces of at most 1,100 characters, cut at ends of sentences; a short text is one piece.

    Each piece begins with the last 100 characters of the one before, so that no sentence is lost at a cut. Blank pieces
    are left out.
    """
    start = 0
    for end in _WINDOWS.cuts(text):
        piece = _WINDOWS.view(text, start, end)
        if piece.strip():
            yield TextPiece(max(start - _WINDOWS.overlap, 0), piece)
        start = end
