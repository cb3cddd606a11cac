"""`FakeProvider`: its socket, its threads, its connections, and how answers are sent."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Self

from penstock.engine.values.errors import UsageError
from penstock.testing.provider.received import received
from penstock.testing.provider.routing import Routing
from penstock.testing.provider.wire import Reply, Wire, encoded, error, failing
from penstock.testing.turns import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from penstock.engine.values.frozen import Value
    from penstock.testing.provider.received import Received
    from penstock.testing.provider.routing import ScriptItems
    from penstock.testing.provider.wire import Encoded, Gate


_LOOK = 0.01  # seconds between two checks whether the client is still connected, while a gate is closed
_RESET = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)  # linger for no time: closing then sends a reset


class CutError(Exception):
    """The script cuts the connection here."""


class HungUpError(Exception):
    """The client closed the connection before the answer was complete."""


class Sender:
    """Sends one answer over a socket."""

    __slots__ = ("_body_left", "_left", "_socket", "_wire")

    def __init__(self, socket: socket.socket, wire: Wire) -> None:
        self._socket = socket
        self._wire = wire
        self._left = wire.cut_at
        self._body_left = wire.cut_body_at

    def send(self, answer: Encoded) -> bool:
        """Send an answer; return whether the connection can be used again.

        Raises:
            CutError: it was cut, as the script says.
            HungUpError: the client closed the connection.
        """
        status, headers, pieces = answer
        framing = self._framing(headers)
        if framing == "length":
            whole = list(pieces)
            pieces = iter(whole)
            headers = {**headers, "content-length": str(sum(map(len, whole)))}
        else:
            framed = {"chunked": {"transfer-encoding": "chunked"}, "close": {"connection": "close"}}
            headers = {**headers, **framed[framing]}
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
    """Tell whether the client has closed the connection."""
    try:
        readable, _, _ = select.select([socket_], [], [], 0)
        return bool(readable) and socket_.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


_MOST_OF_A_LINE = 65_537
_PLAIN = Wire()


class Connection(BaseHTTPRequestHandler):
    """One connection to the fake provider: reads requests as the standard library does, and answers them.

    Args:
        socket_: the connection.
        index: its number.
        take: returns the answer to a request, and how it is sent.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, socket_: socket.socket, index: int, take: Callable[[Received], tuple[Encoded, Wire]]) -> None:
        self._index = index
        self._take = take
        socket_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(socket_, ("127.0.0.1", index), None)  # type: ignore[arg-type]

    def handle(self) -> None:
        """Answer requests until one side closes the connection."""
        self.close_connection = False
        with contextlib.suppress(OSError, ValueError):  # a client that disconnects within a request, or sends no length
            while not self.close_connection and self._read():
                self._answer()

    def log_message(self, format: str, *args: Value) -> None:  # noqa: A002 - the base calls it so
        """Print nothing: `FakeProvider.requests` has all requests."""

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


_PATIENCE = 5.0  # seconds that a thread may take to end


class FakeProvider:
    """A fake model provider on 127.0.0.1, with real HTTP/1.1 and server-sent events, that answers from a script.

    It serves inside its ``with`` block, from its own threads, so clients can use any event loop, or none::

        with FakeProvider(["Hello", rate_limited(2), Sent("Bye", Wire(cut_at=300))]) as server:
            client = openai.OpenAI(base_url=server.url, api_key="any")

    The endpoints are ``/chat/completions``, ``/embeddings``, ``/moderations`` and ``/models``, below any path.

    Args:
        script: the answers to chat completions, in order: a str, a `Turn` or a mapping of its fields; a `Reply`, which
            is sent unchanged; a `Sent`, which has the faults of a `Wire`; or a callable that gets the request, a
            `Received`, and returns one of those. One callable instead of the list answers all requests.
        repeat_last: whether the last item also answers all further requests. If not, they get a 400.
        embeddings: the same for embeddings. ``embed`` answers for items that are None, and after the last item.
        moderations: the same for moderations, with ``moderate``.
        embed: a function from a text to its vector; by default, texts that share words have similar vectors.
        moderate: a function from a text to its scores by category, 0 to 1, flagged from 0.5. Default: nothing is found.
        models: the names that ``/models`` lists.
        key: the API key that requests must have; None: any key, or none.

    Attributes:
        requests: the requests so far, in the order in which they were read, without keys.
    """

    def __init__(
        self,
        script: ScriptItems = (),
        *,
        repeat_last: bool = False,
        embeddings: ScriptItems = (),
        moderations: ScriptItems = (),
        embed: Callable[[str], Sequence[float]] | None = None,
        moderate: Callable[[str], Mapping[str, float]] | None = None,
        models: Sequence[str] = ("fake-1",),
        key: str | None = None,
    ) -> None:
        others = {"/embeddings": embeddings, "/moderations": moderations}
        self._routing = Routing(
            Script(script, repeat_last=repeat_last),
            others={path: Script(items, repeat_last=False) for path, items in others.items()},
            embed=embed,
            moderate=moderate,
            models=models,
            key=key,
        )
        self.requests: list[Received] = []
        self._problems: list[Exception] = []
        self._listener: socket.socket | None = None
        self._open: dict[socket.socket, threading.Thread] = {}
        self._made = 0
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        """The base URL for clients: ``http://127.0.0.1:<port>/v1``.

        Raises:
            UsageError: it does not serve.
        """
        if self._listener is None:
            raise UsageError("the server has an address only while it serves: with FakeProvider(…) as server")
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    @property
    def connections(self) -> int:
        """How many connections clients have opened so far."""
        return self._made

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        with self._changed:
            return len(self._open)

    def wait_until_idle(self, timeout: float = _PATIENCE) -> bool:
        """Wait until no connection is open, at most ``timeout`` seconds; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def __enter__(self) -> Self:
        """Start serving."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener,), name="fake provider", daemon=True
        )
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving. If no other exception was raised, raise the first one of the script's functions.

        Raises:
            Exception: the first exception that a function of the script raised; its request got a 500.
        """
        self.close()
        if problem is None and self._problems:
            raise self._problems[0]

    def close(self) -> None:
        """Stop serving: all threads end, all connections are closed."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with contextlib.suppress(OSError):  # wakes the acceptor, which then sees that the server is closed
            socket.create_connection(listener.getsockname(), _PATIENCE).close()
        self._acceptor.join(_PATIENCE)
        listener.close()
        with self._changed:
            left = dict(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in left.values():
            thread.join(_PATIENCE)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            if self._listener is None:
                connection.close()
                return
            with self._changed:
                index, self._made = self._made, self._made + 1
                thread = threading.Thread(target=self._serve, args=(connection, index), daemon=True)
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket, index: int) -> None:
        try:
            Connection(connection, index, self._take)
        finally:
            connection.close()
            with self._changed:
                del self._open[connection]
                self._changed.notify_all()

    def _take(self, request: Received) -> tuple[Encoded, Wire]:
        with self._changed:
            self.requests.append(request)
        try:
            return self._routing.answer(request)
        except Exception as problem:  # noqa: BLE001 - an exception of the script; raised again when the server is left
            self._problems.append(problem)
            return encoded(failing(500, f"the script raised {type(problem).__name__}"), Wire()), Wire()
