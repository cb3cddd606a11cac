"""Read the body of a request: bounded in size and time, decompressed."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from penstock.workflows.gateway.http import header_of
from penstock.workflows.gateway.serving.refusals import NotServedError

if TYPE_CHECKING:
    from penstock.workflows.gateway.http import Headers
    from penstock.workflows.gateway.serving.asgi import Receive

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class ClientGoneError(Exception):
    """The client has closed its connection."""


async def read_body(receive: Receive, headers: Headers, *, most: int, seconds: float) -> bytes:
    """Return the body of a request, decompressed.

    Args:
        receive: gives the pieces.
        headers: the headers of the request.
        most: how long it may be, in bytes, before and after decompression.
        seconds: how long the client may take to send it.

    Raises:
        NotServedError: it is too long, comes too slowly, or is compressed in a way that is not read.
        ClientGoneError: the client leaves before its end.
    """
    length = header_of(headers, "content-length")
    if length is not None and length.isdecimal() and (len(length) > 15 or int(length) > most):  # noqa: PLR2004 - digits
        raise _too_long(most)
    encoding = (header_of(headers, "content-encoding") or "identity").strip().lower()
    if encoding != "identity" and encoding not in _WINDOWS:
        raise NotServedError(415, "unsupported_encoding", "this compression is not read; send gzip, deflate, or none")
    body = await _within(seconds, receive, most)
    return body if encoding == "identity" else _decompressed(body, encoding, most)


async def _within(seconds: float, receive: Receive, most: int) -> bytes:
    """Return the body, if it comes in time. A timer costs a third of `asyncio.timeout`, and that a tenth of anyio's."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - coroutines run in tasks
    too_late = False

    def stop() -> None:
        nonlocal too_late
        too_late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, stop)
    try:
        return await _received(receive, most)
    except asyncio.CancelledError:
        if too_late and task.uncancel() == 0:
            raise NotServedError(408, "request_timeout", "the request did not arrive in time") from None
        raise
    finally:
        timer.cancel()


async def _received(receive: Receive, most: int) -> bytes:
    first = await receive()
    if first["type"] == "http.disconnect":
        raise ClientGoneError
    if not first.get("more_body"):
        body: bytes = first.get("body", b"")
        if len(body) > most:
            raise _too_long(most)
        return body
    pieces = bytearray(first.get("body", b""))
    while True:
        if len(pieces) > most:
            raise _too_long(most)
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientGoneError
        pieces += event.get("body", b"")
        if not event.get("more_body"):
            break
    if len(pieces) > most:
        raise _too_long(most)
    return bytes(pieces)


def _decompressed(body: bytes, encoding: str, most: int) -> bytes:
    reader = zlib.decompressobj(_WINDOWS[encoding])
    try:
        made = reader.decompress(body, most + 1)
    except zlib.error:
        raise NotServedError(400, "invalid_encoding", f"the body is no {encoding}, as its header says") from None
    if len(made) > most:
        raise _too_long(most)
    if not reader.eof or reader.unused_data:
        raise NotServedError(400, "invalid_encoding", f"the body is not one whole {encoding} stream")
    return made


def _too_long(most: int) -> NotServedError:
    return NotServedError(413, "request_too_large", f"the body is longer than {most} bytes, the most that is read")
