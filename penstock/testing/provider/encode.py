"""Makes bytes of what is to be sent: events as server-sent events, JSON, compression, faults in the text.

It knows no socket: how bytes are framed, held back and cut is the sender's.
"""

from __future__ import annotations

import itertools
import json
import zlib
from typing import TYPE_CHECKING, TypeAlias

from penstock.testing.provider.wire import EVENTS, JSON, Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.engine.values.frozen import Values
    from penstock.testing.provider.wire import Wire

_BOM = b"\xef\xbb\xbf"
_GZIP = 31  # zlib's way of asking for gzip's own frame

Encoded: TypeAlias = "tuple[int, dict[str, str], Iterator[bytes]]"
"""An HTTP answer: status, headers, and the body in the pieces it goes out in; it may never end."""


def encoded(answer: Reply | Iterable[Values], wire: Wire) -> Encoded:
    """Return what a reply, or the events of a stream, are on this wire."""
    if isinstance(answer, Reply):
        headers = {"content-type": answer.type, **{name.lower(): str(told) for name, told in answer.headers.items()}}
        return answer.status, _headers(headers, wire), _body(_pieces_of(answer, wire), wire)
    return 200, _headers({"content-type": f"{EVENTS}; charset=utf-8"}, wire), _body(_events(answer, wire), wire)


def _headers(made: Mapping[str, str], wire: Wire) -> dict[str, str]:
    type = {} if wire.content_type is None else {"content-type": wire.content_type}
    return {**made, **type, **({"content-encoding": "gzip"} if wire.gzip else {})}


def _pieces_of(reply: Reply, wire: Wire) -> Iterator[bytes]:
    """Yield a reply's body: events one by one, anything else whole."""
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
