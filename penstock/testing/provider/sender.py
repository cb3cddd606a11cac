"""Puts an answer on a socket: framing, holding back, and cutting off. It knows bytes, no JSON."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing.provider.encode import Encoded
    from penstock.testing.provider.wire import Gate, Wire

_LOOK = 0.01  # seconds between two looks at whether the client is still there, while a gate is shut
_RESET = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)  # linger for no time at all: what is closed so is reset


class CutError(Exception):
    """The script wants the connection to end here."""


class HungUpError(Exception):
    """The client has closed the connection before its answer was whole."""


class Sender:
    """Sends one answer over a socket, in the way a wire says."""

    __slots__ = ("_body_left", "_left", "_socket", "_wire")

    def __init__(self, socket: socket.socket, wire: Wire) -> None:
        self._socket = socket
        self._wire = wire
        self._left = wire.cut_at
        self._body_left = wire.cut_body_at

    def send(self, answer: Encoded) -> bool:
        """Send an answer; tell whether the connection may be used again.

        Raises:
            CutError: it was cut off, as the wire says.
            HungUpError: the client has gone.
        """
        status, headers, pieces = answer
        framing = self._framing(headers)
        if framing == "length":
            whole = list(pieces)
            pieces = iter(whole)
            headers = {**headers, "content-length": str(sum(map(len, whole)))}
        else:
            told = {"chunked": {"transfer-encoding": "chunked"}, "close": {"connection": "close"}}
            headers = {**headers, **told[framing]}
        self._send(_head(status, headers))
        self._send_body(pieces, chunked=framing == "chunked")
        return framing != "close"

    def _framing(self, headers: dict[str, str]) -> str:
        wire = self._wire
        if wire.framing is not None and not (wire.endless and wire.framing == "length"):
            return wire.framing
        return "chunked" if wire.endless or "event-stream" in headers["content-type"] else "length"

    def _send_body(self, pieces: Iterator[bytes], *, chunked: bool) -> None:
        if self._body_left == 0:
            raise CutError
        for piece in pieces:
            if self._wire.gate is not None:
                self._wait_at(self._wire.gate)
            kept = piece[: self._body_left]
            self._send(b"%x\r\n%b\r\n" % (len(kept), kept) if chunked else kept)
            if self._body_left is not None:
                self._body_left -= len(kept)
                if not self._body_left:
                    raise CutError
        if self._wire.endless:
            self._wait_for_the_end()
        if chunked:
            self._send(b"0\r\n\r\n")

    def _send(self, data: bytes) -> None:
        kept = data[: self._left]
        try:
            self._socket.sendall(kept)
        except OSError:
            raise HungUpError from None
        if self._left is not None:
            self._left -= len(kept)
            if not self._left:
                raise CutError

    def _wait_at(self, gate: Gate) -> None:
        while not gate.take(_LOOK):
            if _gone(self._socket):
                raise HungUpError

    def _wait_for_the_end(self) -> None:
        """Wait until the client hangs up, or the server is closed."""
        with contextlib.suppress(OSError):
            while self._socket.recv(1024):
                pass
        raise HungUpError


def reset(socket_: socket.socket) -> None:
    """Close a connection so that the other side gets a reset, and not an end."""
    socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _gone(socket_: socket.socket) -> bool:
    """Tell whether the other side has closed the connection."""
    try:
        readable, _, _ = select.select([socket_], [], [], 0)
        return bool(readable) and socket_.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
