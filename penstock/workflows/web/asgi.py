"""Responses with ASGI that end the request when its client leaves: `StreamedResponse`, `WholeResponse`.

With `ResumableResponse` a client may come back for what it missed, to an endpoint that returns `ResumedResponse`.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import anyio

from penstock.engine.values.errors import NoMessageError
from penstock.workflows.web.chat_completions import error_body
from penstock.workflows.web.released import (
    STREAM_HEADER,
    StreamCutError,
    StreamGoneError,
    StreamPosition,
    new_stream_id,
)
from penstock.workflows.web.sse import dumped

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from starlette.responses import Response
else:
    try:
        from starlette.responses import Response  # FastAPI serves only its objects from `@app.post`
    except ImportError:
        Response = object

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping

    from penstock.engine.values.frozen import Value
    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.web.released import ReleasedEvents, ReleasedLog, ReleasedStream
    from penstock.workflows.web.sent import Json

    Event: TypeAlias = MutableMapping[str, Value]
    Receive: TypeAlias = Callable[[], Awaitable[Event]]
    Send: TypeAlias = Callable[[Event], Awaitable[None]]

E = TypeVar("E")
_NO_MESSAGE = "the conversation holds no message to answer; send one of the user"


class _ClientResponse(Response):
    """A response that ends when its client leaves.

    Attributes:
        status_code: the HTTP status.
        raw_headers: the headers.
        background: runs after the response; FastAPI sets it where an endpoint or a dependency has such tasks.
    """

    def __init__(self, headers: Iterable[tuple[str, str]], status: int) -> None:
        self.status_code = status
        self.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self.background: Callable[[], Awaitable[None]] | None = None  # type: ignore[assignment]

    async def __call__(self, _scope: Event, receive: Receive, send: Send) -> None:
        """Send the response."""
        await _while_client_stays(receive, self._send(send))
        if self.background is not None:
            await self.background()

    async def _begin(self, send: Send, *headers: tuple[bytes, bytes]) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": [*self.raw_headers, *headers]}
        await send(start)

    async def _send(self, send: Send) -> None:
        raise NotImplementedError


class StreamedResponse(_ClientResponse):
    """A response of an ASGI server, which an endpoint of Starlette or FastAPI returns.

    When the client leaves, the body is closed at once, also while the model is silent: a task of its own waits for it.
    Nothing is read ahead of the client.

    Args:
        body: the pieces to send, such as ``chat_completions.stream(...)``.
        headers: the headers, such as ``chat_completions.HEADERS``.
        status: the HTTP status.
    """

    def __init__(self, body: AsyncGenerator[bytes], headers: Mapping[str, str], status: int = 200) -> None:
        super().__init__(headers.items(), status)
        self._body = body

    async def _send(self, send: Send) -> None:
        async with aclosing(self._body) as pieces:
            await self._begin(send)
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class WholeResponse(_ClientResponse, Generic[E]):
    """A response with a whole answer, as JSON or, if it is a string, as plain text; used as `StreamedResponse` is.

    When the client leaves, the request ends at once, although nothing of its answer was sent yet. A conversation that
    leaves the agent no message to answer, such as instructions alone, is answered with the status 400. Other exceptions
    of the request are raised to the framework, which answers with its page for the status 500.

    Args:
        request: the request, not awaited yet: ``agent.generate(...)``.
        answer: writes its result, such as ``chat_completions.answer``.
        encoder: a new encoder.
        status: the HTTP status.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _encoder: object) -> type[WholeResponse]:
            """Return the class: FastAPI takes it as an annotation of an endpoint, but not a generic alias."""
            return cls

    def __init__(
        self,
        request: Coroutine[object, object, AgentResult[object]],
        answer: Callable[[AgentResult[object], E], Json | list[Json] | str],
        encoder: E,
        status: int = 200,
    ) -> None:
        super().__init__((), status)
        self._request = request
        self._answer = answer
        self._encoder = encoder

    async def _send(self, send: Send) -> None:
        try:
            written = self._answer(await self._request, self._encoder)
        except NoMessageError:
            self.status_code = 400
            written = error_body(_NO_MESSAGE, "invalid_request_error")
        if isinstance(written, str):
            kind, body = b"text/plain; charset=utf-8", written.encode(errors="replace")
        else:
            kind, body = b"application/json", dumped(written)
        await self._begin(send, (b"content-type", kind), (b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.body", "body": body, "more_body": False})


class ResumableResponse(_ClientResponse):
    """A response like `StreamedResponse`, whose client may come back for what it missed.

    When the client leaves, the request goes on, until it ends or nobody has read its stream for the log's ``grace``.
    Each event has an id; a `ResumedResponse` sends the events behind one. It needs an ASGI server that lets a request
    go on without its client, as uvicorn and hypercorn do.

    Args:
        body: the events to send, such as ``chat_completions.stream(...)``.
        headers: the headers, such as ``chat_completions.HEADERS``; those of plain text are refused.
        log: keeps the events.
        owner: the only one who may come back, such as the id of a user; empty: whoever knows the id of the stream.
        status: the HTTP status.

    Attributes:
        stream_id: the id of the stream, which the header ``x-penstock-stream`` holds, too.
    """

    def __init__(
        self,
        body: AsyncGenerator[bytes],
        headers: Mapping[str, str],
        log: ReleasedLog,
        *,
        owner: str = "",
        status: int = 200,
    ) -> None:
        self.stream_id = new_stream_id()
        super().__init__([*headers.items(), (STREAM_HEADER, self.stream_id)], status)
        self._body = body
        self._stream_headers = tuple(headers.items())
        self._log = log
        self._owner = owner

    async def __call__(self, _scope: Event, receive: Receive, send: Send) -> None:
        """Send the response; go on for a while when the client has left.

        Raises:
            UsageError: the headers are not those of server-sent events.
        """
        stream = self._log.begin(self._stream_headers, self._owner, self.stream_id)
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._send_first, stream, receive, send)
            try:
                await stream.record(self._body)
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group, which would wrap it
                failed = error
        if failed is not None:
            raise failed
        if self.background is not None:
            await self.background()

    async def _send_first(
        self, stream: ReleasedStream, receive: Receive, send: Send, *, task_status: TaskStatus[None]
    ) -> None:
        """Send to the client that asked, as long as it stays, and as the request is not cancelled."""
        with stream.reading() as events, suppress(StreamCutError, OSError):
            task_status.started()
            await _while_client_stays(receive, self._send_events(events, send))

    async def _send_events(self, events: ReleasedEvents, send: Send) -> None:
        await self._begin(send)
        await _send_events(events, send)


class ResumedResponse(_ClientResponse):
    """The rest of a stream for a client that comes back: what it missed, then what follows.

    The client names the last event that it got in the header ``Last-Event-ID`` or as ``?after=``; without either it
    gets the stream from its beginning. Without anything left the status is 204, which stops an ``EventSource``; it is
    404 for streams that are unknown or another owner's, and 410 for those that are not kept any more.

    Args:
        log: keeps the events.
        stream_id: the id of the stream; empty: the id of the event names it.
        owner: who asks; only the owner of the stream may read it.
    """

    def __init__(self, log: ReleasedLog, stream_id: str = "", *, owner: str = "") -> None:
        super().__init__((), 200)
        self._log = log
        self._stream_id = stream_id
        self._owner = owner

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Send the rest of the stream."""
        try:
            position = StreamPosition.asked(scope, self._stream_id)
            async with self._log.resuming(position, self._owner) as events:
                await _while_client_stays(receive, self._send_rest(events, position.stream_id, send))
        except StreamGoneError as error:
            await self._refuse(error, send)
        except StreamCutError:
            return  # without an end of the body, so that the server cuts the connection
        if self.background is not None:
            await self.background()

    async def _send_rest(self, events: ReleasedEvents, stream_id: str, send: Send) -> None:
        if events.is_over:
            self.status_code = 204
            await self._begin(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        headers = [*events.headers, (STREAM_HEADER, stream_id)]
        await self._begin(send, *((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers))
        await _send_events(events, send)

    async def _refuse(self, error: StreamGoneError, send: Send) -> None:
        self.status_code = error.status
        body = dumped(error_body(str(error), "invalid_request_error", "stream_gone"))
        length = str(len(body)).encode()
        await self._begin(send, (b"content-type", b"application/json"), (b"content-length", length))
        await send({"type": "http.response.body", "body": body, "more_body": False})


async def _send_events(events: ReleasedEvents, send: Send) -> None:
    async for event in events:
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _while_client_stays(receive: Receive, sending: Coroutine[object, object, None]) -> None:
    """Send a response; cancel that when the client leaves. Its exceptions are raised unchanged."""
    failed: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_client_leaves, receive, tasks.cancel_scope)
        try:
            await sending
        except Exception as error:  # noqa: BLE001 - raised below, outside of the group, which would wrap it
            failed = error
        tasks.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def _cancel_when_client_leaves(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
