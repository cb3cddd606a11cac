"""`Exchange`: one request of an HTTP client without a session, from 2026-07-28 on; and errors for such clients."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

import anyio
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic_core import from_json
from starlette.responses import Response

from penstock.workflows.adapters.mcp.relay import closed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.types import JSONRPCMessage
    from starlette.requests import Request
    from starlette.types import Send

    from penstock.formats.wire import Json, Value
    from penstock.workflows.adapters.mcp.objects import MessageSource, Streams

FLUSH = 0.1
"""Seconds for the last answers of a session to leave."""

_PING = 15.0
"""Seconds between signs of life on a stream of events."""


class Exchange:
    """One request without a session: a POST that is answered with JSON, or with events if something comes before."""

    def __init__(self, relay_one: Callable[[Streams], Awaitable[None]], request: Request) -> None:
        self._relay_one = relay_one
        self._request = request
        self._answered = False

    async def serve(self, send: Send) -> None:
        """Answer the POST."""
        request = self._request
        answer = await self._read()
        if not isinstance(answer, JSONRPCRequest):
            await answer(request.scope, request.receive, send)
            return
        to_relay, read = anyio.create_memory_object_stream[SessionMessage](1)
        write, from_relay = anyio.create_memory_object_stream[SessionMessage](0)
        async with to_relay, read, write, from_relay, anyio.create_task_group() as group:
            group.start_soon(self._relayed, read, write)
            group.start_soon(self._watch, answer.id, to_relay, group)
            await to_relay.send(SessionMessage(answer))
            await self._write(answer.id, to_relay, from_relay, send)
            group.cancel_scope.cancel()

    async def _read(self) -> JSONRPCRequest | Response:
        """Return the request, or what to answer in its place."""
        request = self._request
        if request.method != "POST":
            return Response(status_code=405, headers={"Allow": "POST"})
        if not all(check_accept_headers(request)):
            return Response(status_code=406)
        decoded: Value = decoded_of(await request.body())
        if decoded is None:
            return _error(None, -32700, "Parse error")
        try:
            if isinstance(decoded, dict) and "id" not in decoded:
                JSONRPCNotification.model_validate(decoded)
                return Response(status_code=202)  # this protocol has none that a server would act on
            message = JSONRPCRequest.model_validate(decoded)
        except ValueError:
            return _error(None, -32600, "Body must be a single JSON-RPC request or notification object")
        twice = find_duplicated_routing_header(request.headers.items())
        if twice is not None:
            return _error(message.id, -32020, f"{twice} header appears more than once")
        verdict = classify_inbound_request(cast("Json", decoded), headers=dict(request.headers))
        if isinstance(verdict, InboundLadderRejection):
            return _error(message.id, verdict.code, verdict.message, verdict.data)
        return message

    async def _relayed(self, read: MessageSource, write: MemoryObjectSendStream[SessionMessage]) -> None:
        with write:
            await self._relay_one((read, write))

    async def _watch(self, id: int | str, to_relay: MemoryObjectSendStream[SessionMessage], group: TaskGroup) -> None:
        """Cancel the request when the client closes its connection."""
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        if self._answered:
            return
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            params = {"requestId": id}
            cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
            await to_relay.send(SessionMessage(cancelled))
            to_relay.close()
            await anyio.sleep(FLUSH)
        group.cancel_scope.cancel()

    async def _write(
        self,
        id: int | str,
        to_relay: MemoryObjectSendStream[SessionMessage],
        messages: MemoryObjectReceiveStream[SessionMessage],
        send: Send,
    ) -> None:
        """Send the client all messages up to the response."""
        begun = False
        while True:
            message: JSONRPCMessage | None = None
            ended = False
            with anyio.move_on_after(_PING):
                try:
                    message = (await messages.receive()).message
                except anyio.EndOfStream:
                    ended = True
            if ended:
                message = closed(id)
            last = isinstance(message, (JSONRPCResponse, JSONRPCError))
            if last:  # the next request may use the connection
                self._answered = True
                to_relay.close()
                with anyio.move_on_after(FLUSH):
                    async for _ in messages:
                        pass
            if message is not None and last and not begun:
                await _response(message)(self._request.scope, self._request.receive, send)
                return
            if not begun:
                await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
                begun = True
            event = b": ping\r\n\r\n" if message is None else _event(message)
            await send({"type": "http.response.body", "body": event, "more_body": not last})
            if last:
                return


_EVENTS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


def _event(message: JSONRPCMessage) -> bytes:
    said = message.model_dump_json(by_alias=True, exclude_unset=True)
    return f"event: message\r\ndata: {said}\r\n\r\n".encode()


def _response(message: JSONRPCMessage) -> Response:
    status = ERROR_CODE_HTTP_STATUS.get(message.error.code, 200) if isinstance(message, JSONRPCError) else 200
    said = message.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(said, status_code=status, media_type="application/json")


def _error(id: int | str | None, code: int, message: str, data: Value = None) -> Response:
    error = ErrorData(code=code, message=message) if data is None else ErrorData(code=code, message=message, data=data)
    return _response(JSONRPCError(jsonrpc="2.0", id=id, error=error))


def problem(message: str, status: int) -> Response:
    """Return an answer to a request that is refused before it is read."""
    made = _error(None, -32600, message)
    made.status_code = status
    return made


def decoded_of(body: bytes) -> Value:
    """Return the JSON value of a body; None if it is none.

    Half a surrogate pair is refused, too: no transport could write it, and the one to the server would end.
    """
    try:
        return from_json(body)
    except ValueError:
        return None
