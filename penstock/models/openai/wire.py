"""What comes over the wire: server-sent events from bytes, and JSON values of unknown shape.

Events follow the rules of the HTML standard (WHATWG, §9.2), however the bytes are cut.
"""

from __future__ import annotations

import json
from binascii import crc_hqx
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.errors import PenstockError
from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.frozen import Value

    Json: TypeAlias = dict[str, Value]

FORMAT = "openai-chat"
"""The key under which parts keep what only this protocol has; `penstock.engine.formats.openai_chat` reads it."""


def parsed(text: str | bytes) -> Value:
    """Return a JSON value; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def object_of(value: Value) -> Json:
    """Return the value if it is an object, else an empty one."""
    return value if is_mapping(value) else {}


def objects_of(value: Value) -> list[Json]:
    """Return the objects in an array; none for any other value."""
    return [item for item in value if is_mapping(item)] if is_items(value) else []


def text_of(value: Value) -> str:
    """Return the value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def says(value: Value) -> bool:
    """Whether a value holds anything: an object does if one of its values does."""
    if is_mapping(value):
        return any(says(item) for item in value.values())
    return value is not None and value not in ("", [])


def checksum(text: str) -> str:
    """Return enough to see whether a text was edited, and too little (its length and 16 bits) to reconstruct it."""
    return f"{len(text)}:{crc_hqx(text.encode('utf-8', 'surrogatepass'), 0):04x}"


def gather(kept: Json, item: Json, besides: Iterable[str]) -> None:
    """Merge the further keys of an item into what was collected.

    Arrays grow, objects are merged, other values are replaced.
    """
    for key in item.keys() - besides:
        value = item[key]
        if not says(value):
            continue
        before = kept.get(key)
        if is_items(before) and is_items(value):
            kept[key] = [*before, *value]
        elif is_mapping(before) and is_mapping(value):
            merged = dict(before)
            gather(merged, value, ())
            kept[key] = merged
        else:
            kept[key] = value


MOST_OF_AN_EVENT = 32 * 1024 * 1024
"""The default limit of an event, in bytes: an image in base64 fits, a stream that never ends an event does not."""

_BOM = b"\xef\xbb\xbf"
_CR = 13


class EventTooLongError(PenstockError):
    """An event that is longer than allowed.

    Attributes:
        limit: the limit, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"an event of the stream has more than {limit} bytes")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """A server-sent event.

    Attributes:
        data: its data lines, joined by line feeds.
        event: its name; empty if it has none.
        id: the last id of the stream so far.
    """

    data: str
    event: str = ""
    id: str = ""


class SSEReader:
    """Reads events from bytes as they come. By the standard, an event without a blank line after it is dropped.

    A reader lives as long as one stream, and holds at most one event.
    """

    __slots__ = ("_begun", "_bytes", "_data", "_event", "_id", "_limit", "_line", "_skip_lf")

    def __init__(self, limit: int = MOST_OF_AN_EVENT) -> None:
        self._limit = limit
        self._begun = False  # whether the first line was read, which may begin with a byte order mark
        self._skip_lf = False  # whether a carriage return has ended the line before
        self._line = bytearray()
        self._bytes = 0
        self._data: list[str] = []
        self._event = ""
        self._id = ""

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """Yield the events that end within the bytes.

        Raises:
            EventTooLongError: an event is longer than allowed.
        """
        for piece in data.splitlines(keepends=True):  # for bytes, it splits at CR, LF and CRLF only
            yield from self._piece(piece)

    def _piece(self, piece: bytes) -> Iterator[ServerEvent]:
        """Add bytes of one line, with its end if it has come."""
        if self._skip_lf:
            self._skip_lf = False
            if piece == b"\n":
                return
        body = piece.rstrip(b"\r\n")
        self._grow(len(body))
        self._line += body
        if len(body) < len(piece):
            self._skip_lf = piece[-1] == _CR
            event = self._read(self._take())
            if event is not None:
                yield event

    def _grow(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self._limit:
            raise EventTooLongError(self._limit)

    def _take(self) -> str:
        """Return the line that has ended. Invalid UTF-8 becomes U+FFFD.

        A byte order mark at the very start is dropped.
        """
        line = bytes(self._line)
        self._line.clear()
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        return line.decode("utf-8", "replace")

    def _read(self, line: str) -> ServerEvent | None:
        """Add a line; return the event that a blank line ends."""
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name:  # a comment: it keeps a connection alive, and takes no room
            self._bytes -= len(line.encode())
        elif name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        data, event = self._data, self._event
        self._data, self._event, self._bytes = [], "", 0
        return ServerEvent("\n".join(data), event, self._id) if data else None
