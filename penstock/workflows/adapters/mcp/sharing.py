"""`SharedConnection`: one connection to a server for many requests that belong to no session.

Each request has a lane of its own. Its id and its tokens are replaced by numbers on the way to the server, and put back
on the way to the client, so that the clients need not know of each other. A message of the server without such a
number, such as a log, may be about anybody's request, so it is left out.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from penstock.engine.values.frozen import is_mapping

if TYPE_CHECKING:
    from collections.abc import Generator

    from mcp.types import JSONRPCMessage, RequestId

    from penstock.formats.wire import Json, Value
    from penstock.workflows.adapters.mcp.objects import MessageSink, Streams

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
"""The key under which a notification says to which subscription it belongs: the id of its request."""

_MOST_WAITING = 1000
"""How many messages may wait in a lane; a request whose client reads none of them is given up."""


class SharedConnection:
    """One connection to a server for many requests.

    Attributes:
        gone: whether the server has closed it.
    """

    def __init__(self, streams: Streams) -> None:
        self.gone = False
        self._from_server, self._to_server = streams
        self._lanes: dict[int, _Lane] = {}
        self._last = 0

    async def run(self) -> None:
        """Give each message to its lane, until the server closes the connection."""
        try:
            with suppress(anyio.ClosedResourceError, anyio.EndOfStream):
                async for item in self._from_server:
                    found = None if isinstance(item, Exception) else self._given_back(item.message)
                    if found is not None:
                        found[0].put(found[1])
        finally:
            self.gone = True
            for lane in self._lanes.values():
                lane.close()

    @contextmanager
    def lane(self) -> Generator[Streams]:
        """Give the streams for one request and what belongs to it."""
        self._last += 1
        lane = _Lane(self._last, self._to_server)
        if self.gone:
            lane.close()
        self._lanes[lane.number] = lane
        try:
            yield lane.incoming, lane
        finally:
            del self._lanes[lane.number]
            lane.close()
            lane.incoming.close()

    def _given_back(self, message: JSONRPCMessage) -> tuple[_Lane, JSONRPCMessage] | None:
        """Return the lane of a message, and the message as its client knows it; None if it belongs to nobody."""
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            lane = None if message.id is None else self._lane(coerce_request_id(message.id))
            return None if lane is None else (lane, message.model_copy(update={"id": lane.id}))
        params: Json = message.params or {}
        lane = self._lane(params.get("progressToken"))
        if lane is not None and message.method == "notifications/progress":
            return lane, message.model_copy(update={"params": {**params, "progressToken": lane.token}})
        meta = params.get("_meta")
        lane = self._lane(meta.get(SUBSCRIPTION)) if is_mapping(meta) else None
        if lane is not None and is_mapping(meta):
            return lane, message.model_copy(update={"params": {**params, "_meta": {**meta, SUBSCRIPTION: lane.id}}})
        return None

    def _lane(self, number: object) -> _Lane | None:
        return self._lanes.get(number) if isinstance(number, int) else None


class _Lane:
    """One request. It is the stream to the server, too.

    Attributes:
        number: replaces its id and its token on the way to the server.
        id: its id.
        token: the token of its progress.
        incoming: the messages for it.
    """

    def __init__(self, number: int, to_server: MessageSink) -> None:
        self.number = number
        self.id: RequestId | None = None
        self.token: Value = None
        self._to_server = to_server
        self._put, self.incoming = anyio.create_memory_object_stream[SessionMessage](_MOST_WAITING)

    def put(self, message: JSONRPCMessage) -> None:
        """Give it a message."""
        try:
            self._put.send_nowait(SessionMessage(message))
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.close()

    async def send(self, item: SessionMessage) -> None:
        """Send a message to the server."""
        message = item.message
        params: Json = getattr(message, "params", None) or {}
        if isinstance(message, JSONRPCRequest):
            self.id = message.id
            meta = params.get("_meta")
            if is_mapping(meta) and "progressToken" in meta:
                self.token = meta["progressToken"]
                params = {**params, "_meta": {**meta, "progressToken": self.number}}
            message = message.model_copy(update={"id": self.number, **({"params": params} if params else {})})
        elif isinstance(message, JSONRPCNotification) and "requestId" in params:
            message = message.model_copy(update={"params": {**params, "requestId": self.number}})
        await self._to_server.send(SessionMessage(message, item.metadata))

    def close(self) -> None:
        """End it: nothing comes any more."""
        self._put.close()
