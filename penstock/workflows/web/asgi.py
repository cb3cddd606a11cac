"""`StreamedResponse`: sends bytes as they come with ASGI, and ends the request when its client leaves."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, TypeAlias

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping

    from penstock.engine.values.frozen import Value

    Event: TypeAlias = MutableMapping[str, Value]
    Receive: TypeAlias = Callable[[], Awaitable[Event]]
    Send: TypeAlias = Callable[[Event], Awaitable[None]]


class StreamedResponse:
    """A response of an ASGI server: Starlette returns it from an endpoint, and so does FastAPI from ``add_route``.

    When the client leaves, the body is closed at once, also while the model is silent: a task of its own waits for it.
    Nothing is read ahead of the client.

    Args:
        body: the pieces to send, such as ``chat_completions.stream(...)``.
        headers: the headers, such as ``chat_completions.HEADERS``.
        status: the HTTP status.
    """

    def __init__(self, body: AsyncGenerator[bytes], headers: Mapping[str, str], status: int = 200) -> None:
        self.status_code = status
        self._body = body
        self._headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def __call__(self, _scope: Event, receive: Receive, send: Send) -> None:
        """Send the response."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when_client_leaves, receive, tasks.cancel_scope)
            await self._send(send)
            tasks.cancel_scope.cancel()

    async def _send(self, send: Send) -> None:
        async with aclosing(self._body) as pieces:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self._headers})
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cancel_when_client_leaves(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
