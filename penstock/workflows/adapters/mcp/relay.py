"""`Relay`: the messages between one client and one server, each after its guards.

Ids, tokens and unknown methods pass as they are: there is one connection to the server for each of the client. Checks
run side by side. What belongs to one request leaves in the order in which it came.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, ServerMessageMetadata, SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

from penstock.engine.execution.boundary import log
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.workflows.adapters.mcp.reading import (
    BLOCKED_CODE,
    BLOCKED_TEXT,
    MODERN,
    GuardedCall,
    RefusedError,
    blocked_result,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from anyio.abc import TaskGroup
    from mcp.types import JSONRPCMessage

    from penstock.formats.wire import Json, Value
    from penstock.workflows.adapters.mcp.objects import Streams
    from penstock.workflows.adapters.mcp.reading import MessageGuard

    Id = int | str
    HeaderMaps = dict[str, dict[tuple[str, ...], str]]


M = TypeVar("M", JSONRPCRequest, JSONRPCNotification)

_CANCELLED = "notifications/cancelled"
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
_AT_ONCE = 100
"""How many messages of one side may be checked at once; others wait to be read."""

_PATIENCE = 1.0
"""For how many seconds answers are waited for after the client has closed its side."""

_about: ContextVar[Id | None] = ContextVar("penstock_mcp_about", default=None)
"""The id of the request that a message to the server belongs to; transports that keep contexts give it back."""


@dataclass(eq=False, slots=True)
class _Call:
    """A request of the client that was not answered yet.

    Attributes:
        id: its id.
        guarded: its state in the guards.
        token: the token of its progress.
        metadata: the metadata of the client's transport.
        scope: cancels the check that runs.
        busy: held while one runs.
        sent: whether the server may have it.
        returned: whether the server has answered.
    """

    id: Id
    guarded: GuardedCall
    token: Value
    metadata: object
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    busy: anyio.Lock = field(default_factory=anyio.Lock)
    sent: bool = False
    returned: bool = False

    @asynccontextmanager
    async def check(self) -> AsyncGenerator[None]:
        """Run the block, unless the call is cancelled; then the block ends."""
        self.scope = anyio.CancelScope()
        with self.scope:
            async with self.busy:
                yield


class Relay:
    """One client and one server.

    Args:
        guard: the guards of the session.
        client: the streams of the client's transport; the first one reads from the client.
        headers: the headers of parameters by tool, as servers ask for them over HTTP; shared by sessions.

    Attributes:
        server_gone: whether the server has closed its connection.
    """

    def __init__(self, guard: MessageGuard, client: Streams, headers: HeaderMaps) -> None:
        self.server_gone = False
        self._guard = guard
        self._from_client, self._to_client = client
        self._from_server: Any = None
        self._to_server: Any = None
        self._headers = headers
        self._version: str | None = None
        self._calls: dict[Id, _Call] = {}
        self._asks: dict[Id, str] = {}  # requests of the server, with their methods
        self._answered = anyio.Event()  # that a call was, one after the other
        self._last_sent: dict[Id | None, anyio.Event] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._calls and not self._asks

    async def run(self, server: Streams) -> None:
        """Pass messages on until one side has closed its connection."""
        self._from_server, self._to_server = server
        async with anyio.create_task_group() as group:
            group.start_soon(self._read_client, group)
            await self._read_server()
            self.server_gone = True
            await self.fail()
            group.cancel_scope.cancel()

    async def fail(self, *, reads: bool = False) -> None:
        """Answer the requests that the server will not answer: it has gone.

        Args:
            reads: whether to answer the client's messages of the next moment, too.
        """
        for call in list(self._calls.values()):
            if not call.returned:
                call.scope.cancel()
                async with call.busy:
                    pass  # until the check has ended
                with suppress(*_GONE):
                    await self._answer(call, closed(call.id))
        with suppress(*_GONE), anyio.move_on_after(_PATIENCE if reads else 0):
            async for item in self._from_client:
                message = None if isinstance(item, Exception) else item.message
                if isinstance(message, JSONRPCRequest):
                    await self._to_client.send(SessionMessage(closed(message.id)))

    # From the client to the server

    async def _read_client(self, group: TaskGroup) -> None:
        places = anyio.Semaphore(_AT_ONCE)
        async with anyio.create_task_group() as checks:
            with suppress(*_GONE):
                async for item in self._from_client:
                    if isinstance(item, Exception):
                        log.warning("mcp: the client sent what is no message of the protocol; it was left out")
                        continue
                    await places.acquire()
                    checks.start_soon(self._from_client_safely, item, places)
        with anyio.move_on_after(_PATIENCE):
            while not self.idle:
                await self._answered.wait()
        group.cancel_scope.cancel()

    async def _from_client_safely(self, item: SessionMessage, places: anyio.Semaphore) -> None:
        message = item.message
        with _going_on("client", places):
            if isinstance(message, JSONRPCRequest):
                await self._ask_server(message, item.metadata)
            elif isinstance(message, JSONRPCNotification):
                await self._tell_server(message)
            else:
                await self._answer_server(message)

    async def _ask_server(self, message: JSONRPCRequest, metadata: object) -> None:
        if message.id in self._calls:
            log.warning("mcp: the client used an id twice; the second request was left out")
            return
        meta = (message.params or {}).get("_meta")
        token = meta.get("progressToken") if is_mapping(meta) else None
        guarded = GuardedCall(message.method, str(message.id), modern=is_mapping(meta) and MODERN in meta)
        call = self._calls[message.id] = _Call(message.id, guarded, token, metadata)
        async with call.check():
            try:
                params = await self._guard.asked(call.guarded, message.params)
                if call.guarded.answer is not None:
                    await self._answer(call, JSONRPCResponse(jsonrpc="2.0", id=call.id, result=call.guarded.answer))
                    return
                call.sent = True
                _about.set(call.id)
                await self._send_server(_with_params(message, params))
            except _GONE:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                _note("client", error)
                await self._refuse(call)

    async def _tell_server(self, message: JSONRPCNotification) -> None:
        call: _Call | None = None
        if message.method == _CANCELLED:
            cancelled: Value = (message.params or {}).get("requestId")
            call = self._calls.pop(cancelled, None)
            if call is None:
                return  # it was answered before
            call.scope.cancel()
        try:
            params = await self._guard.told_server(message.method, message.params)
            if call is None or call.sent:
                await self._send_server(_with_params(message, params))
        except RefusedError:
            return
        finally:
            if call is not None:
                await self._drop(call)

    async def _drop(self, call: _Call) -> None:
        """End a call that nobody waits for any more."""
        with suppress(RefusedError):
            async with call.busy:
                await self._guard.close(call.guarded, anyio.get_cancelled_exc_class()())
        unanswered = getattr(call.metadata, "on_request_unanswered", None)
        if unanswered is not None:  # HTTP: the stream of the request must end
            with suppress(*_GONE):
                await unanswered()

    async def _answer_server(self, message: JSONRPCResponse | JSONRPCError) -> None:
        method = self._asks.pop(message.id, None) if message.id is not None else None
        if method is None:
            return
        answer: JSONRPCResponse | JSONRPCError
        try:
            if isinstance(message, JSONRPCResponse):
                result = await self._guard.told_server(method, message.result, str(message.id))
                answer = message.model_copy(update={"result": result or {}})
            else:
                told = message.error.model_dump(exclude_unset=True)
                error = await self._guard.told_server(method, told, str(message.id))
                answer = message.model_copy(update={"error": ErrorData.model_validate(error)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the server gets an answer
            _note("client", error)
            answer = _blocked(message.id)
        await self._send_server(answer)

    async def _send_server(self, message: JSONRPCMessage) -> None:
        headers = self._headers_of(message)
        metadata = ClientMessageMetadata(headers=headers) if headers else None
        await self._to_server.send(SessionMessage(message, metadata))

    def _headers_of(self, message: JSONRPCMessage) -> dict[str, str]:
        """Return the headers that a message has over HTTP."""
        if not isinstance(message, (JSONRPCRequest, JSONRPCNotification)) or message.method == "initialize":
            return {}
        params: Json = message.params or {}
        meta = params.get("_meta")
        version = meta.get(MODERN) if is_mapping(meta) else None
        if not isinstance(version, str):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: message.method}
        name = params.get(NAME_BEARING_METHODS.get(message.method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            arguments = params.get("arguments")
            if message.method == "tools/call" and is_mapping(arguments):
                headers |= mcp_param_headers(self._headers.get(name, {}), arguments)
        return headers

    # From the server to the client

    async def _read_server(self) -> None:
        places = anyio.Semaphore(_AT_ONCE)
        async with anyio.create_task_group() as checks:
            with suppress(*_GONE):
                async for item in self._from_server:
                    if isinstance(item, Exception):
                        log.warning("mcp: the server sent what is no message of the protocol; it was left out")
                        await self._answer_unread(item)
                        continue
                    about = self._about(item.message)
                    before, sent = self._last_sent.get(about), anyio.Event()
                    self._last_sent[about] = sent
                    await places.acquire()
                    checks.start_soon(self._from_server_safely, item.message, about, before, sent, places)

    async def _answer_unread(self, error: Exception) -> None:
        """Answer the call that a message answers which is none of the protocol: no other answer will come."""
        call = self._call(_unread_id(error))
        if call is not None and call.sent:
            call.scope.cancel()
            async with call.busy:
                data = ErrorData(code=INTERNAL_ERROR, message="The server's answer is no message of the protocol.")
                await self._answer(call, JSONRPCError(jsonrpc="2.0", id=call.id, error=data))

    def _about(self, message: JSONRPCMessage) -> Id | None:
        """Return the id of the client's request that a message of the server belongs to; None if there is none."""
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            call = self._call(message.id)
            return None if call is None else call.id
        params: Json = message.params or {}
        token = params.get("progressToken")
        if message.method == "notifications/progress":
            return next((call.id for call in self._calls.values() if call.token == token), None)
        context = getattr(self._from_server, "last_context", None)
        about = context.get(_about) if context is not None else None
        if about in self._calls:
            return about  # type: ignore[no-any-return]
        return next(reversed([call.id for call in self._calls.values() if call.sent]), None)

    async def _from_server_safely(
        self,
        message: JSONRPCMessage,
        about: Id | None,
        before: anyio.Event | None,
        sent: anyio.Event,
        places: anyio.Semaphore,
    ) -> None:
        with _going_on("server", places):
            try:
                if isinstance(message, JSONRPCRequest):
                    await self._ask_client(message, about, before)
                elif isinstance(message, JSONRPCNotification):
                    await self._tell_client(message, about, before)
                else:
                    await self._answer_client(message, before)
            finally:
                sent.set()
                if self._last_sent.get(about) is sent:
                    del self._last_sent[about]

    async def _answer_client(self, message: JSONRPCResponse | JSONRPCError, before: anyio.Event | None) -> None:
        call = self._call(message.id)
        if call is None or call.returned or not call.sent:
            log.debug("mcp: the server answered what nobody waits for; it was left out")
            return
        call.returned = True
        answer: JSONRPCResponse | JSONRPCError
        async with call.check():
            try:
                if isinstance(message, JSONRPCResponse):
                    result = await self._guard.answered(call.guarded, message.result)
                    self._learn(call.guarded.method, result, message.result)
                    answer = message.model_copy(update={"id": call.id, "result": result})
                else:
                    error = await self._guard.failed(call.guarded, message.error.model_dump(exclude_unset=True))
                    answer = message.model_copy(update={"id": call.id, "error": ErrorData.model_validate(error)})
                await _wait(before)
                await self._answer(call, answer)
            except _GONE:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                _note("server", error)
                await _wait(before)
                await self._refuse(call)

    def _call(self, id: Id | None) -> _Call | None:
        """Return the call that an answer belongs to. Some servers return a number as a text; clients allow it."""
        if id is None:
            return None
        return self._calls.get(id) or self._calls.get(coerce_request_id(id))

    def _learn(self, method: str, result: Json, before: Json) -> None:
        """Note what later messages need: the version, and the headers of a tool's parameters."""
        if method == "initialize" and isinstance(before.get("protocolVersion"), str):
            self._version = before["protocolVersion"]
        tools = result.get("tools") if method == "tools/list" else None
        for tool in tools if is_items(tools) else ():
            if is_mapping(tool) and isinstance(tool.get("name"), str):
                schema = tool.get("inputSchema")
                valid = is_mapping(schema) and find_invalid_x_mcp_header(schema) is None
                if valid and (found := x_mcp_header_map(schema)):
                    self._headers[tool["name"]] = found
                else:
                    self._headers.pop(tool["name"], None)

    async def _tell_client(self, message: JSONRPCNotification, about: Id | None, before: anyio.Event | None) -> None:
        if message.method == _CANCELLED:
            cancelled: Value = (message.params or {}).get("requestId")
            self._asks.pop(cancelled, None)
        with suppress(RefusedError):
            params = await self._guard.told_client(message.method, message.params)
            await _wait(before)
            await self._send_client(_with_params(message, params), about)

    async def _ask_client(self, message: JSONRPCRequest, about: Id | None, before: anyio.Event | None) -> None:
        try:
            params = await self._guard.told_client(message.method, message.params, str(message.id))
        except Exception as error:  # noqa: BLE001 - whatever it is, the server gets an answer
            _note("server", error)
            await self._to_server.send(SessionMessage(_blocked(message.id)))
            return
        self._asks[message.id] = message.method
        await _wait(before)
        await self._send_client(_with_params(message, params), about)

    async def _refuse(self, call: _Call) -> None:
        if call.guarded.method == "tools/call":
            result = blocked_result(modern=call.guarded.modern)
            await self._answer(call, JSONRPCResponse(jsonrpc="2.0", id=call.id, result=result), refused=True)
        else:
            await self._answer(call, _blocked(call.id), refused=True)

    async def _answer(self, call: _Call, answer: JSONRPCResponse | JSONRPCError, *, refused: bool = False) -> None:
        """Send the client an answer, once the request of the guards has ended well."""
        try:
            await self._guard.close(call.guarded)
        except RefusedError:
            if not refused:
                await self._refuse(call)
                return
        if self._calls.pop(call.id, None) is call:
            await self._to_client.send(SessionMessage(answer))
        self._answered.set()
        self._answered = anyio.Event()

    async def _send_client(self, message: JSONRPCMessage, about: Id | None) -> None:
        metadata = ServerMessageMetadata(related_request_id=about) if about in self._calls else None
        await self._to_client.send(SessionMessage(message, metadata))


def closed(id: Id) -> JSONRPCError:
    """Return the answer to a request that the server will not answer: it has gone."""
    error = ErrorData(code=-32000, message="The server has closed the connection.")
    return JSONRPCError(jsonrpc="2.0", id=id, error=error)


_ID = re.compile(r"""^\s*\{.*?"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,256})")""", re.DOTALL)


def _unread_id(error: Exception) -> Id | None:
    """Return the id in a message that could not be parsed, if it is an answer; None if there is none."""
    for each in error.errors(include_url=False) if isinstance(error, ValidationError) else ():
        given: Value = each["input"]
        if each["type"] == "missing" and each["loc"][-1] == "method" and is_mapping(given):  # so it is no request
            found = given.get("id")
            return found if isinstance(found, (int, str)) else None
        if each["type"] == "json_invalid" and isinstance(given, str) and (match := _ID.match(given)) is not None:
            return int(match[1]) if match[1] else match[2]
    return None


def _blocked(id: Id | None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=BLOCKED_CODE, message=BLOCKED_TEXT))


def _with_params(message: M, params: Json | None) -> M:
    return message if params is message.params else message.model_copy(update={"params": params})


@contextmanager
def _going_on(side: str, places: anyio.Semaphore) -> Generator[None]:
    """Handle one message of a side; whatever it raises, others go on."""
    try:
        yield
    except _GONE:  # whoever reads that side sees it
        return
    except Exception as error:  # noqa: BLE001 - other messages go on
        _note(side, error)
    finally:
        places.release()


def _note(side: str, error: Exception) -> None:
    """Log that a message of a side does not pass; of a refusal, the guards have said so."""
    if not isinstance(error, RefusedError):
        log.error("mcp: a message of the %s was left out: %s", side, type(error).__name__)
        log.debug("mcp: it failed", exc_info=error)  # it may quote what was sent


async def _wait(event: anyio.Event | None) -> None:
    if event is not None:
        await event.wait()
