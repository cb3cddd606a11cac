"""`ClientSide`: the client of one exchange. It may leave, stop reading, or need a sign of life.

Timers and the cancellation of the own task are asyncio's; a task group and a cancel scope for each request would cost
as much as the rest of the way through the gateway.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable
    from types import TracebackType

    from penstock.workflows.gateway.http import HttpReply
    from penstock.workflows.gateway.serving.asgi import ConnectionWatch, Receive, Scope, Send
    from penstock.workflows.web.released import ReleasedStream

from penstock.workflows.gateway.http import StreamedBody
from penstock.workflows.gateway.serving.asgi import ABORT, WATCH, raw_headers

_NO_CONTENT = 204

End = Literal["gone", "stalled", "timeout", "cut"]
"""Why an exchange ended early: the client left, or did not read; it took too long; or the gateway shuts down."""


class ClientSide:
    """The client's side of an exchange, while that runs. The task that enters it is cancelled when the client leaves.

    Args:
        scope: the request.
        receive: tells that the client leaves; the body was read.
        send: sends to it.
        idle: how long it may not read while there is something to send, in seconds.
        total: how long the exchange may take, in seconds.
        keep_alive: after how many seconds without a byte a stream gets a sign of life.
        sign: the sign of life of a stream of events.
        farewell: returns the events that end a stream which the gateway cuts.

    Attributes:
        end: why the exchange ended early; None if it did not.
        started: whether the reply has begun.
        sent: how many bytes of the body were sent.
    """

    __slots__ = (
        "_farewell", "_idle", "_keep_alive", "_last", "_life", "_reader", "_receive", "_scope", "_send", "_sending",
        "_sign", "_signs", "_task", "_timer", "_until", "_watcher", "end", "sent", "started",
    )  # fmt: skip

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        idle: float,
        total: float,
        keep_alive: float,
        sign: bytes = b": keep-alive\n\n",
        farewell: Callable[[], bytes] = bytes,
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._idle = idle
        self._until = time.monotonic() + total
        self._keep_alive = keep_alive
        self._sign = sign
        self._farewell = farewell
        self._last = time.monotonic()
        self._life: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._sending = False
        self._signs = False
        self.end: End | None = None
        self.started = False
        self.sent = 0

    async def __aenter__(self) -> Self:
        """Watch the client."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - coroutines run in tasks
        loop = asyncio.get_running_loop()
        self._task = task
        watch: ConnectionWatch | None = self._scope.get("extensions", {}).get(WATCH)
        if watch is None:
            self._watcher = loop.create_task(self._watch())
        elif not watch.add(self._gone):
            self._gone()
        self._timer = loop.call_later(self._pause(), self._look)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Stop watching. The cancellation that this object asked for ends here."""
        watch: ConnectionWatch | None = self._scope.get("extensions", {}).get(WATCH)
        if watch is not None:
            watch.discard(self._gone)
        watcher, self._watcher = self._watcher, None  # it holds this object: without the cycle, all goes at once
        if watcher is not None:
            watcher.cancel()
        self._timer.cancel()
        if self.end is None:
            return False
        if self.end == "cut" and self._signs and not self._sending:
            await self._piece(self._farewell(), more=True)
            await self._piece(b"", more=False)
        elif self.started:
            self.cut()
            await asyncio.sleep(0)  # the server notices that the connection is gone
        ours = self._task.uncancel() == 0
        return ours and isinstance(error, asyncio.CancelledError)

    async def reply(self, reply: HttpReply, on_piece: Callable[[bytes], None] | None = None) -> None:
        """Send a reply.

        Args:
            reply: the reply.
            on_piece: gets each piece of the body behind the client.
        """
        headers = raw_headers(reply.headers)
        body = reply.body
        if isinstance(body, bytes):
            if reply.status != _NO_CONTENT:
                headers.append((b"content-length", str(len(body)).encode()))
            await self._start(reply.status, headers)
            await self._piece(body, more=False)
            if on_piece is not None:
                on_piece(body)
            return
        await self._start(reply.status, headers)
        self._signs = any(name == "content-type" and "event-stream" in value for name, value in reply.headers)
        await self._stream(body, on_piece)

    async def record(self, reply: HttpReply, stream: ReleasedStream, body: AsyncGenerator[bytes], sign: bytes) -> None:
        """Send a stream that goes on for a while when the client leaves or does not read, since it may come back.

        Args:
            reply: status and headers.
            stream: records what is sent.
            body: the pieces of the body.
            sign: its sign of life.
        """
        await self._start(reply.status, raw_headers(reply.headers))
        self._signs, self._sign = True, sign
        with ExitStack() as leaving:
            events = leaving.enter_context(stream.reading())
            reader = self._reader = asyncio.get_running_loop().create_task(self._stream(events, None))
            reader.add_done_callback(lambda _: leaving.close())
            try:
                if not await stream.record(body):
                    self.end = "gone"
                await asyncio.wait([reader])
            finally:
                reader.cancel()
                await asyncio.wait([reader])
                if not reader.cancelled():
                    reader.exception()  # the stream was cut; asyncio logs an error that nobody has looked at

    async def _stream(self, body: AsyncIterable[bytes], on_piece: Callable[[bytes], None] | None) -> None:
        async def send(piece: bytes) -> None:
            await self._piece(piece, more=True)
            if on_piece is not None:
                on_piece(piece)

        if isinstance(body, StreamedBody):
            body.send = self._next_piece if on_piece is None else send
        async for piece in body:
            await send(piece)
        self._signs = False
        await self._piece(b"", more=False)

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _next_piece(self, piece: bytes) -> None:
        """Send a piece of a stream, as `_piece` does, without a further call: almost all bytes go this way."""
        self._last = time.monotonic()
        self._sending = True
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        self._sending = False
        self.sent += len(piece)

    async def _piece(self, piece: bytes, *, more: bool) -> None:
        self._last = time.monotonic()
        self._sending = True
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})
        self._sending = False
        self.sent += len(piece)

    # Watching

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def _gone(self) -> None:
        self._stop("gone")

    def _stop(self, why: End) -> None:
        if self._reader is not None and why in ("gone", "stalled"):
            self._reader.cancel()
            self._signs = self._sending = False
            self.cut()
        elif self.end is None:
            self.end = why
            self._task.cancel()

    def shut(self) -> None:
        """End the exchange, because the gateway shuts down."""
        self._stop("cut")

    def _pause(self) -> float:
        return max(min(self._keep_alive, self._idle, self._until - time.monotonic()) / 2, 0.01)

    def _look(self) -> None:
        now = time.monotonic()
        if now > self._until:
            self._stop("timeout")
        elif self._sending and now - self._last > self._idle:
            self._stop("stalled")
        if self.end is None:
            loop = asyncio.get_running_loop()
            if self._signs and not self._sending and now - self._last > self._keep_alive:
                self._last = now
                self._life = loop.create_task(self._live())
            self._timer = loop.call_later(self._pause(), self._look)

    async def _live(self) -> None:
        """Send a sign of life. Pieces are whole events, so that it stands between two of them."""
        if self._signs:
            await self._send({"type": "http.response.body", "body": self._sign, "more_body": True})

    def cut(self) -> None:
        """Cut the connection, if our server serves it: its client sees that the reply is not whole."""
        abort = self._scope.get("extensions", {}).get(ABORT)
        if abort is not None:
            abort()
