"""Server-sent events with the bytes that came, so that an event which nobody changes leaves as it was."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.terms import is_word
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.gateway.words import is_usual_word

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 16 * 2**20
"""The longest event that is read, in bytes. A picture in one event may have several million."""

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\r\n\n|\n\r\n")
_TYPED = re.compile(rb"event: ([A-Za-z0-9_.]++)\ndata: ([^\r\n]*+)\n\n")
_LINES = re.compile(rb"\r\n|\n|\r")


class EventFrame(NamedTuple):
    """One event as it came.

    Attributes:
        raw: its bytes, with the empty line that ends it; empty if they hold more than a type and a line of data, or
            more than words in a comment.
        event: its type; empty if it names none.
        data: the joined lines of its data; None for a comment.
    """

    raw: bytes
    event: str
    data: bytes | None


class Frames:
    """Cuts a stream of bytes into events. Lives as long as the stream.

    Args:
        most: the longest event, in bytes.

    Attributes:
        held: the beginning of an event whose end has not come yet.
    """

    __slots__ = ("_begun", "_most", "_seen", "held")

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.held = b""
        self._seen = 0  # how far an end was looked for in what is held
        self._most = most
        self._begun = False

    def feed(self, piece: bytes) -> Iterator[EventFrame]:
        """Return the events that end in this piece.

        Raises:
            UpstreamError: an event is too long, or its text is no UTF-8.
        """
        if not self.held and piece.endswith(b"\n\n") and piece.find(b"\n\n", 0, -1) < 0 and b"\r" not in piece:
            return iter((self._frame(piece),))  # most pieces are one event
        return self._fed(piece)

    def _fed(self, piece: bytes) -> Iterator[EventFrame]:
        held = self.held + piece if self.held else piece
        if b"\r" not in held:
            *whole, self.held = held.split(b"\n\n")
            for raw in whole:
                yield self._frame(raw + b"\n\n")
            self._check()
            return
        start, search = 0, max(self._seen - 3, 0)
        while (found := _END.search(held, search)) is not None:
            end = found.end()
            if end == len(held) and held[end - 1] == 13:  # noqa: PLR2004 - a CR, whose LF may follow
                break
            yield self._frame(held[start:end])
            start = search = end
        self.held = held[start:]
        self._seen = len(self.held)
        self._check()

    def _check(self) -> None:
        if len(self.held) > self._most:
            raise UpstreamError("too_large", f"an event of the provider is longer than {self._most} bytes")

    def end(self) -> Iterator[EventFrame]:
        """Yield the event that the stream ends in without an empty line, if there is one."""
        held, self.held = self.held, b""
        if held.strip():
            yield self._frame(held)

    def _frame(self, raw: bytes) -> EventFrame:
        """Return an event; the first one may stand behind a mark of the byte order."""
        if self._begun or not raw.startswith(BOM_UTF8):
            self._begun = True
            return frame_of(raw)
        self._begun = True
        frame = frame_of(raw.removeprefix(BOM_UTF8))
        return frame._replace(raw=raw) if frame.raw else frame


def frame_of(raw: bytes) -> EventFrame:
    """Return the event that some bytes say."""
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.find(b"\n", 0, -2) < 0 and b"\r" not in raw:
        return EventFrame(raw, "", raw[6:-2])
    typed = _TYPED.fullmatch(raw)
    if typed is not None and is_usual_word(kind := typed[1].decode()):
        return EventFrame(raw, kind, typed[2])
    event = ""
    data: list[bytes] = []
    others = False
    for line in _LINES.split(raw):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event" and is_word(text := value.decode(errors="replace")):
            event = text
        elif line and (name or data or not all(map(is_word, value.decode(errors="replace").split()))):
            others = True
    if not data and not others:
        return EventFrame(raw, event, None)
    return EventFrame(b"" if others or len(data) != 1 else raw, event, b"\n".join(data) if data else None)


def written(event: str, data: bytes) -> bytes:
    """Return an event as bytes; ``data`` has no line breaks."""
    head = b"event: " + event.encode() + b"\n" if event else b""
    return head + b"data: " + data + b"\n\n"
