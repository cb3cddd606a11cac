"""Answers of the fake provider, including faults, as values; and their bytes: events, JSON, compression."""

from __future__ import annotations

import itertools
import json
import threading
import zlib
from dataclasses import dataclass, field
from email.utils import format_datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from penstock.engine.values.frozen import Value, Values
    from penstock.testing.turns import Turn


JSON = "application/json"
EVENTS = "text/event-stream"


class Gate:
    """Holds an answer back until the test lets it continue: a slow stream without a clock.

    If a `Wire` has one, the answer waits before each of its pieces.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tickets = 0
        self._open = False

    def let(self, pieces: int = 1) -> None:
        """Let a number of pieces pass."""
        with self._changed:
            self._tickets += pieces
            self._changed.notify_all()

    def open(self) -> None:
        """Let everything pass from now on."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def take(self, timeout: float) -> bool:
        """Wait for a piece's turn, at most ``timeout`` seconds; return whether it may pass. The server calls it."""
        with self._changed:
            self._changed.wait_for(lambda: self._open or self._tickets, timeout)
            passes = self._open or self._tickets > 0
            self._tickets -= passes and not self._open
            return passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How an answer is sent. Each field is a fault, or an oddity that the standards allow.

    Attributes:
        stream: whether it is a stream of events; None: as the request asks.
        newline: how the lines of events end: LF, CRLF or CR.
        bom: whether a byte order mark begins the body.
        comments: whether a comment precedes each event, as providers send them to keep a connection alive.
        split_data: whether an event's JSON is spread over several ``data`` lines.
        space: the text after ``data:``.
        done: whether ``[DONE]`` ends the stream.
        break_event: the index of the event of which only the first half of the JSON is sent.
        error_event: an error's JSON, sent as an event after the answer's last event.
        reasoning: the JSON key for reasoning.
        content_type: the content type to send; None: the real one.
        gzip: whether the body is compressed.
        framing: how the end of the body is marked: in chunks, by its length, or by closing the connection. None:
            streams in chunks, the rest by length.
        piece: the most bytes to send at once; None: one event at a time.
        gate: a gate to wait for before each piece.
        cut_at: end the connection after so many bytes, including head and framing.
        cut_body_at: end the connection after so many bytes of the body (compressed, if it is).
        ending: how the connection then ends: ``reset`` (RST), or ``close`` (FIN), as if the answer were complete.
        endless: what replaces the stream's end: nothing (``silence``), the last event again and again
            (``events``), or ``comments``. Such an answer ends when its client hangs up, or the server is closed.
    """

    stream: bool | None = None
    newline: Literal["\n", "\r\n", "\r"] = "\n"
    bom: bool = False
    comments: bool = False
    split_data: bool = False
    space: Literal[" ", ""] = " "
    done: bool = True
    break_event: int | None = None
    error_event: Value = None
    reasoning: str = "reasoning_content"
    content_type: str | None = None
    gzip: bool = False
    framing: Literal["chunked", "length", "close"] | None = None
    piece: int | None = None
    gate: Gate | None = field(default=None, repr=False)
    cut_at: int | None = None
    cut_body_at: int | None = None
    ending: Literal["reset", "close"] = "reset"
    endless: Literal["silence", "events", "comments"] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is sent unchanged.

    Attributes:
        body: bytes; a str is sent as UTF-8, anything else as JSON.
        status: the HTTP status.
        headers: headers besides the content type and length.
        content_type: the body's type; None: JSON, or events if the body is a str or bytes that begin like those.
    """

    body: Value = b""
    status: int = 200
    headers: Values = EMPTY
    content_type: str | None = None

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()

    @property
    def type(self) -> str:
        """The content type."""
        looks_like_events = self.data.lstrip(b"\xef\xbb\xbf").startswith((b"data:", b"event:", b"id:", b":"))
        return self.content_type or (EVENTS if looks_like_events else JSON)


@dataclass(frozen=True, slots=True)
class Sent:
    """An item of a script that is sent in its own way.

    Attributes:
        item: the answer: a str, a turn, a `Reply`; None: the endpoint's usual answer.
        wire: how it is sent.
    """

    item: str | Values | Turn | Reply | None
    wire: Wire


def error(message: str, type: str = "invalid_request_error", code: str | None = None) -> Values:
    """Return the body of an error, in OpenAI's form."""
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def failing(status: int = 500, message: str = "The server had an error", *, code: str | None = None) -> Reply:
    """Return an answer with an error."""
    return Reply(error(message, "server_error" if status >= 500 else "invalid_request_error", code), status)  # noqa: PLR2004


def rate_limited(wait: float | datetime | None = None, message: str = "Rate limit reached") -> Reply:
    """Return a 429. ``wait`` is its retry-after: seconds, a time (sent as an HTTP date), or None."""
    value = format(wait, "g") if isinstance(wait, int | float) else wait and format_datetime(wait, usegmt=True)
    headers = {"retry-after": value} if value else {}
    return Reply(error(message, "requests", "rate_limit_exceeded"), 429, headers)


def recorded(exchange: Values) -> Reply:
    """Return a recorded answer: ``response`` (JSON, or the text of events), ``status``, ``content_type``."""
    body = exchange["response"]
    type = exchange.get("content_type") or None
    data = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return Reply(data, int(exchange.get("status", 200)), EMPTY, type)


_BOM = b"\xef\xbb\xbf"
_GZIP = 31  # zlib's value for gzip's format

Encoded: TypeAlias = "tuple[int, dict[str, str], Iterator[bytes]]"
"""An HTTP answer: status, headers, and the pieces of the body; it may never end."""


def encoded(answer: Reply | Iterable[Values], wire: Wire) -> Encoded:
    """Return a reply, or the events of a stream, as bytes."""
    if isinstance(answer, Reply):
        headers = {"content-type": answer.type, **{name.lower(): str(value) for name, value in answer.headers.items()}}
        return answer.status, _headers(headers, wire), _body(_pieces_of(answer, wire), wire)
    return 200, _headers({"content-type": f"{EVENTS}; charset=utf-8"}, wire), _body(_events(answer, wire), wire)


def _headers(made: Mapping[str, str], wire: Wire) -> dict[str, str]:
    type = {} if wire.content_type is None else {"content-type": wire.content_type}
    return {**made, **type, **({"content-encoding": "gzip"} if wire.gzip else {})}


def _pieces_of(reply: Reply, wire: Wire) -> Iterator[bytes]:
    """Yield a reply's body: events one by one, any other body as a whole."""
    data = reply.data
    if reply.type.startswith(JSON) and wire.break_event is not None:
        data = data[: len(data) // 2]
    events = data.split(b"\n\n") if reply.type.startswith(EVENTS) else [data]
    yield from (event + b"\n\n" for event in events[:-1])
    if events[-1]:
        yield events[-1]


def _events(events: Iterable[Values], wire: Wire) -> Iterator[bytes]:
    for index, event in enumerate(events if wire.error_event is None else [*events, wire.error_event]):
        data = json.dumps(event, indent=1 if wire.split_data else None)
        yield _event(data[: len(data) // 2] if index == wire.break_event else data, wire)
    if wire.done and wire.endless is None:
        yield _event("[DONE]", wire)


def _event(data: str, wire: Wire) -> bytes:
    comment = [": keep-alive", ""] if wire.comments else []
    lines = [*comment, *(f"data:{wire.space}{line}" for line in data.split("\n")), "", ""]
    return wire.newline.join(lines).encode()


def _body(pieces: Iterator[bytes], wire: Wire) -> Iterator[bytes]:
    whole = _endless(pieces, wire) if wire.endless else pieces
    marked = itertools.chain([_BOM], whole) if wire.bom else whole
    packed = _compressed(marked) if wire.gzip else marked
    return (part for piece in packed for part in _cut_up(piece, wire.piece))


def _endless(pieces: Iterator[bytes], wire: Wire) -> Iterator[bytes]:
    last = f": keep-alive{wire.newline * 2}".encode()
    for piece in pieces:
        yield piece
        last = piece if wire.endless == "events" else last
    while wire.endless != "silence":
        yield last


def _compressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield each piece compressed, so that it can be read before the next one comes."""
    packer = zlib.compressobj(wbits=_GZIP)
    for piece in pieces:
        yield packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


def _cut_up(piece: bytes, length: int | None) -> Iterator[bytes]:
    step = length or max(len(piece), 1)
    return (piece[start : start + step] for start in range(0, len(piece), step))
