"""One connection to the fake provider: reads requests, has them answered, and notes what became of the answers."""

from __future__ import annotations

import contextlib
import socket
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from penstock.testing.provider.encode import encoded
from penstock.testing.provider.received import received
from penstock.testing.provider.sender import CutError, HungUpError, Sender, reset
from penstock.testing.provider.wire import Reply, Wire, error

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value
    from penstock.testing.provider.encode import Encoded
    from penstock.testing.provider.received import Received

_MOST_OF_A_LINE = 65_537
_PLAIN = Wire()


class Connection(BaseHTTPRequestHandler):
    """Reads HTTP as the standard library does.

    Args:
        socket: the connection.
        index: which one it is.
        take: is given each request, and returns what it gets and on which wire.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, socket_: socket.socket, index: int, take: Callable[[Received], tuple[Encoded, Wire]]) -> None:
        self._index = index
        self._take = take
        socket_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(socket_, ("127.0.0.1", index), None)  # type: ignore[arg-type]

    def handle(self) -> None:
        """Answer requests until one side has enough."""
        self.close_connection = False
        with contextlib.suppress(OSError, ValueError):  # a client that goes within a request, or gives it no length
            while not self.close_connection and self._read():
                self._answer()

    def log_message(self, format: str, *args: Value) -> None:  # noqa: A002 - the base calls it so
        """Print nothing: `FakeProvider.requests` has it all."""

    def _read(self) -> bool:
        self.raw_requestline = self.rfile.readline(_MOST_OF_A_LINE)
        return bool(self.raw_requestline) and self.parse_request()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = received(self.command, self.path, self.headers.items(), body, self._index)
        answer, wire = self._taken(request)
        try:
            stays = Sender(self.connection, wire).send(answer)
            self.close_connection = self.close_connection or not stays
        except CutError:
            self._cut(wire)
        except HungUpError:
            self.close_connection = True
            request.hung_up.set()
        finally:
            request.answered.set()

    def _taken(self, request: Received) -> tuple[Encoded, Wire]:
        if "transfer-encoding" in request.headers:
            self.close_connection = True
            return encoded(Reply(error("this server wants a content-length"), 411), _PLAIN), _PLAIN
        return self._take(request)

    def _cut(self, wire: Wire) -> None:
        self.close_connection = True
        if wire.ending == "reset":
            reset(self.connection)
