"""`GatewayProtocol`: uvicorn's HTTP/1.1 with limits for headers: how long they are, and how long they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.workflows.gateway.serving.asgi import ABORT, WATCH

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from uvicorn.protocols.http.flow_control import FlowControl

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Watch:
    """The `ConnectionWatch` of one connection.

    Args:
        flow: pauses and resumes reading from it. While it is paused, nobody notices that the client leaves.
    """

    __slots__ = ("_flow", "_is_gone", "_told")

    def __init__(self, flow: FlowControl) -> None:
        self._flow = flow
        self._is_gone = False
        self._told: set[Callable[[], None]] = set()

    def add(self, on_gone: Callable[[], None]) -> bool:
        """Call a function when the connection is gone; return whether it is open now."""
        if not self._is_gone:
            self._told.add(on_gone)
            self._flow.resume_reading()  # as `receive` does
        return not self._is_gone

    def discard(self, on_gone: Callable[[], None]) -> None:
        """Call it no more."""
        self._told.discard(on_gone)

    def gone(self) -> None:
        """Tell that the connection is gone."""
        self._is_gone = True
        told, self._told = self._told, set()
        for one in told:
            one()


class GatewayProtocol(HttpToolsProtocol):
    """One connection of a client. Subclasses of it hold the limits of one server.

    Attributes:
        header_bytes: how long the headers of a request may be; a read more is accepted.
        header_seconds: how long a client may take to send them.
    """

    header_bytes: ClassVar[int] = 32_000
    header_seconds: ClassVar[float] = 20.0
    _waiting: asyncio.TimerHandle | None = None
    _watch: _Watch
    _seen = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._watch = _Watch(self.flow)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._got()
        super().connection_lost(exc)
        self._watch.gone()

    def on_message_begin(self) -> None:
        """Offer to cut the connection, and to tell when it is gone."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort, WATCH: self._watch}  # type: ignore[dict-item]
        if self._waiting is None:
            self._expect()

    def on_headers_complete(self) -> None:
        """Hand the request on."""
        self._got()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Read, unless the headers are too long."""
        if self._waiting is not None:
            self._seen += len(data)
            if self._seen > self.header_bytes + len(data):
                self._end(_TOO_LONG)
                return
        super().data_received(data)

    def _expect(self) -> None:
        self._seen = 0
        self._waiting = self.loop.call_later(self.header_seconds, self._end, _TOO_SLOW)

    def _got(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end(self, reply: bytes) -> None:
        self._got()
        if self.transport.is_closing():
            return
        if self._seen:  # whoever sent nothing asked nothing
            self.transport.write(reply)
        self.transport.close()
