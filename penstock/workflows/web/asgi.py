"""Responses with ASGI that end the request when its client leaves: `StreamedResponse`, `WholeResponse`."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import anyio

from penstock.workflows.web.sse import dumped

if TYPE_CHECKING:
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
    from penstock.workflows.web.sent import Json

    Event: TypeAlias = MutableMapping[str, Value]
    Receive: TypeAlias = Callable[[], Awaitable[Event]]
    Send: TypeAlias = Callable[[Event], Awaitable[None]]

E = TypeVar("E")


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

    When the client leaves, the request ends at once, although nothing of its answer was sent yet. Exceptions of the
    request are raised to the framework, which answers with its page for the status 500.

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
        written = self._answer(await self._request, self._encoder)
        if isinstance(written, str):
            kind, body = b"text/plain; charset=utf-8", written.encode(errors="replace")
        else:
            kind, body = b"application/json", dumped(written)
        await self._begin(send, (b"content-type", kind), (b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.body", "body": body, "more_body": False})


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
