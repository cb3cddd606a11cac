"""Input from the wire: server-sent events from bytes, and JSON values of unknown shape.

Events follow the rules of the HTML standard (WHATWG, §9.2), however the bytes are cut.
"""

from __future__ import annotations

import json
from binascii import crc_hqx
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias, cast

from penstock.engine.values.errors import PenstockError
from penstock.engine.values.frozen import FrozenDict, is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from penstock.engine.values.frozen import Value

    Json: TypeAlias = dict[str, Value]

FORMAT = "openai-chat"
"""The key under which parts keep what only this protocol has; `penstock.formats.openai_chat` reads it."""


_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
"""Reads NaN and infinite numbers as null: JSON has no such numbers, and no reader expects one."""


def parsed(text: str) -> Value:
    """Return a JSON value; None if the text is not JSON.

    pydantic's parser is three times as fast. It refuses halves of surrogate pairs, NaN, and deep nesting: what it
    refuses, the standard library reads.
    """
    from pydantic_core import from_json  # 40 ms at the first answer, and not at import

    with suppress(ValueError, TypeError):
        return from_json(text, allow_inf_nan=False, cache_strings="keys")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _refused(word: str) -> NoReturn:
    raise ValueError(word)


def strict_json(text: str) -> Value:
    """Return a JSON value; None if the text is not JSON, or holds NaN or an infinite number."""
    try:
        return json.loads(text, parse_constant=_refused)
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


_NEVER_REPEATED = frozenset({"logprobs", "tool_calls"})
"""The fields of which each event brings the next entries, equal ones too. Any other list may come whole each time."""


def gather(kept: Json, item: Json, besides: Container[str], *, repeats: bool = True) -> None:
    """Merge the further keys of an item into the collected ones, in time proportional to the item.

    Args:
        kept: the collected keys; it is changed, and shares no list and no object with an item.
        item: the item.
        besides: the keys to leave out.
        repeats: whether a list may come again as a whole.
    """
    for key, value in item.items():
        if value is not None and key not in besides:
            gather_one(kept, key, value, repeats=repeats)


def gather_one(kept: Json, key: str, value: Value, *, repeats: bool = True) -> None:
    """Merge a value into the collected value of its key.

    Lists grow; one that begins with all entries so far is the same list again, as some providers send it with each
    event. Objects are merged, other values are replaced.
    """
    if not isinstance(value, (dict, list, tuple)):
        if says(value):
            kept[key] = value
    elif says(value):
        kept[key] = _merged(kept.get(key), value, repeats=repeats and key not in _NEVER_REPEATED)


def _merged(before: Value, value: Value, *, repeats: bool) -> Value:
    if is_items(before) and is_items(value):
        known = cast("list[Value]", before)
        again = repeats and _begins_with(value, known)
        known += map(_own, islice(value, len(known) if again else 0, None))
        return known
    if is_mapping(before) and is_mapping(value):
        gather(before, value, (), repeats=repeats)
        return before
    return _own(value)


def _begins_with(value: Sequence[Value], before: list[Value]) -> bool:
    """Whether a list repeats the entries so far. Numbers, such as the ids of tokens, are never a repetition."""
    if len(value) < len(before) or (before and isinstance(before[0], (int, float))):
        return False
    return list(value[: len(before)]) == before


def _own(value: Value) -> Value:
    """Return a copy whose lists and objects belong to nobody else."""
    if is_mapping(value):
        return {key: _own(item) for key, item in value.items()}
    return [_own(item) for item in value] if is_items(value) else value


# Text of which half a character came


_HIGH_SURROGATES = ("\ud800", "\udbff")


def well_formed(value: Value) -> Value:
    """Return a frozen JSON value whose texts can be encoded: pairs of surrogates are joined, halves become U+FFFD."""
    if isinstance(value, str):
        return _encodable(value)
    if is_mapping(value):
        return FrozenDict({well_formed(key): well_formed(item) for key, item in value.items()})
    return tuple([well_formed(item) for item in value]) if is_items(value) else value


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class PieceJoiner:
    """Joins characters that were cut in two between pieces of one text: JSON can write half of a surrogate pair."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that is complete, which can be encoded."""
        if not self._held and piece.isascii():
            return piece
        text, self._held = self._held + piece, ""
        if text and _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
            text, self._held = text[:-1], text[-1]
        return _encodable(text)

    def end(self) -> str:
        """Return the replacement for half a character at the end of the text."""
        held, self._held = self._held, ""
        return _encodable(held)


MOST_OF_AN_EVENT = 32 * 1024 * 1024
"""The default limit of an event, in bytes: an image in base64 fits, a stream that never ends an event does not."""

MOST_OF_AN_ANSWER = 128 * 1024 * 1024
"""The default limit of all that comes of one answer, unpacked, in bytes."""

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


class ServerEvent(NamedTuple):
    """A server-sent event. Its id is not kept: no answer can be resumed by it.

    Attributes:
        data: its data lines, joined by line feeds.
        event: its name; empty if it has none.
    """

    data: str
    event: str = ""


class SSEReader:
    """Reads events from bytes as they come. By the standard, an event without a blank line after it is dropped.

    A reader lives as long as one stream, and holds at most one event.
    """

    __slots__ = ("_begun", "_bytes", "_data", "_event", "_limit", "_line", "_skip_lf")

    def __init__(self, limit: int = MOST_OF_AN_EVENT) -> None:
        self._limit = limit
        self._begun = False  # whether the first line was read, which may begin with a byte order mark
        self._skip_lf = False  # whether a carriage return has ended the line before
        self._line = bytearray()  # the beginning of a line that has not ended
        self._bytes = 0
        self._data: list[str] = []
        self._event = ""

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """Yield the events that end within the bytes.

        Raises:
            EventTooLongError: an event is longer than allowed.
        """
        for piece in data.splitlines(keepends=True):  # for bytes, it splits at CR, LF and CRLF only
            if self._skip_lf:
                self._skip_lf = False
                if piece == b"\n":
                    continue
            line = piece.rstrip(b"\r\n")
            self._bytes += len(line)
            if self._bytes > self._limit:
                raise EventTooLongError(self._limit)
            if len(line) == len(piece):
                self._line += line
                continue
            self._skip_lf = piece[-1] == _CR
            if self._line:
                line = bytes(self._line + line)
                self._line.clear()
            if not self._begun:
                self._begun = True
                line = line.removeprefix(_BOM)
            if line:
                self._read(line)
            elif self._data:
                event = ServerEvent("\n".join(self._data), self._event)
                self._forget()
                yield event
            else:
                self._forget()

    def _read(self, line: bytes) -> None:
        """Add a line. Invalid UTF-8 becomes U+FFFD."""
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif name == b"event":
            self._event = value.removeprefix(b" ").decode("utf-8", "replace")
        elif not name:  # a comment: it keeps a connection alive, and takes no room
            self._bytes -= len(line)

    def _forget(self) -> None:
        self._data.clear()
        self._event = ""
        self._bytes = 0
