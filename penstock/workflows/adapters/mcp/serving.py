"""`GuardProxy`: stands before a server, and serves its clients over stdio and streamable HTTP."""

from __future__ import annotations

import json
import threading
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from hmac import compare_digest
from http import HTTPStatus
from inspect import signature
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, get_args
from uuid import uuid4

import anyio
import httpx2
from anyio.from_thread import BlockingPortal
from mcp import StdioServerParameters, stdio_client, stdio_server
from mcp.client.streamable_http import streamable_http_client
from mcp.server.streamable_http import StreamableHTTPServerTransport, check_accept_headers
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response

from penstock.engine.execution.boundary import log
from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.workflows.adapters.mcp.reading import Descriptions, MessageGuard
from penstock.workflows.adapters.mcp.relay import CLOSED_CODE, CLOSED_TEXT, Relay
from penstock.workflows.adapters.mcp.sharing import SharedConnection
from penstock.workflows.agent.options import check_names
from penstock.workflows.hosting import Host, HostOptions, HostSupport
from penstock.workflows.hosting.host import HOST_OPTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
    from typing import BinaryIO, Self, TextIO

    from anyio.abc import TaskGroup, TaskStatus
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from starlette.types import Receive, Scope, Send
    from typing_extensions import Unpack

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.tripwire import Tripwire
    from penstock.engine.workflow import Item
    from penstock.workflows.adapters.mcp.relay import HeaderMaps

Transport: TypeAlias = "AbstractAsyncContextManager[tuple[Any, Any]]"
Server: TypeAlias = "str | Sequence[str] | StdioServerParameters | Callable[[], Transport]"

SUPPORT = HostSupport(
    "mcp.as_proxy",
    frozenset({"process_tool_call", "process_tool_result"}),
    retries=False,
    trusted_instructions=False,
    instead="the adapter of the framework that calls the model",
)

_LIMITS_EVENTS = "max_sse_event_size" in signature(streamable_http_client).parameters  # from 2.3 on

_MIB = 1024 * 1024
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_PING = 15.0
"""Seconds between signs of life on a stream of events."""

_FLUSH = 0.1
"""Seconds for the last answers of a session to leave."""


class ProxyOptions(HostOptions, total=False):
    """The options of `as_proxy`, beside those of every adapter.

    - ``descriptions`` (``result``, ``input`` or ``trusted``; default ``result``): how guards read what the server says
      about itself and its tools, prompts and resources: at ``process_tool_result``, at ``process_input``, or not at
      all. What is blocked is left out of its list, and a tool that is left out cannot be called.
    - ``scope`` (``session`` or ``call``; default ``session``): what shares the state of processors.
    - ``on_block`` (``call`` or ``session``; default ``call``): what a verdict ends.
    - ``on_tripwire`` (callable; default: none): called with each verdict and the method of its message.
    - ``request_context`` (dict; default: empty): values that hooks share. The proxy adds ``mcp_session`` and
      ``mcp_method``.
    - ``env`` (dict; default: none): environment variables for a server that is given as a list, beside a few harmless
      ones of this process, such as ``PATH``.
    - ``headers`` (dict; default: none): headers of each request to a server behind a URL, for example its key. Headers
      of clients are not passed on.
    - ``token`` (str; default: none): what HTTP clients must send as ``Authorization: Bearer …``.
    - ``path`` (str; default ``/mcp``): where HTTP clients find the proxy.
    - ``allowed_hosts``, ``allowed_origins`` (lists of str; default: those of this machine): which values of the headers
      ``Host`` and ``Origin`` are served; ``name:*`` is any port. An empty list of hosts allows all.
    - ``max_bytes`` (int; default 16 MiB): how large a request of an HTTP client, or an event of an HTTP server, may be.
    - ``max_sessions`` (int; default 1000): how many sessions of HTTP clients may be open.
    - ``idle_seconds`` (float; default 1800): when a session of an HTTP client that is not used ends.
    """

    descriptions: Descriptions
    scope: Literal["session", "call"]
    on_block: Literal["call", "session"]
    on_tripwire: Callable[[Tripwire, str], object]
    request_context: dict[str, Value]
    env: Mapping[str, str]
    headers: Mapping[str, str]
    token: str
    path: str
    allowed_hosts: Sequence[str]
    allowed_origins: Sequence[str]
    max_bytes: int
    max_sessions: int
    idle_seconds: float


_OPTIONS = frozenset(ProxyOptions.__annotations__) | HOST_OPTIONS


def as_proxy(*processors: Item, server: Server, **options: Unpack[ProxyOptions]) -> GuardProxy:
    """Return a proxy that guards an MCP server: ``as_proxy(guard, server=["uvx", "mcp-server-time"])``.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        server: the server behind it: a command with its arguments, `StdioServerParameters`, the URL of a server that
            speaks streamable HTTP, or a function that returns a transport, as `mcp.Client` takes one.
        options: see `ProxyOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist, or a processor would read nothing here.
        WorkflowError: the processors cannot run together.
    """
    return GuardProxy(processors, server, **options)


class GuardProxy:
    """Stands before an MCP server. It is an ASGI application, too; made by `as_proxy`.

    Attributes:
        host: the processors.
        token: what HTTP clients must send; None for nothing.
    """

    def __init__(self, processors: Sequence[Item], server: Server, **options: Unpack[ProxyOptions]) -> None:
        name = SUPPORT.adapter
        check_names(name, options, _OPTIONS)
        self._server = _server(server, options.get("env"))
        self._descriptions = one_of(name, "descriptions", options.get("descriptions", "result"), get_args(Descriptions))
        self._shares = one_of(name, "scope", options.get("scope", "session"), ("session", "call")) == "session"
        self._ends = one_of(name, "on_block", options.get("on_block", "call"), ("call", "session")) == "session"
        self._on_tripwire = options.get("on_tripwire")
        self._context = dict(options.get("request_context", {}))
        self._http_headers = dict(options.get("headers", {}))
        self.token = options.get("token")
        self._path = options.get("path", "/mcp")
        self._max_bytes = _positive("max_bytes", options.get("max_bytes", 16 * _MIB))
        self._max_sessions = _positive("max_sessions", options.get("max_sessions", 1000))
        self._idle_seconds = _positive("idle_seconds", options.get("idle_seconds", 1800.0))
        hosts = options.get("allowed_hosts", [*_LOCAL, *(f"{each}:*" for each in _LOCAL)])
        origins = options.get("allowed_origins", [f"{how}://{each}:*" for how in ("http", "https") for each in _LOCAL])
        self._security = TransportSecurityMiddleware(
            TransportSecuritySettings(
                enable_dns_rebinding_protection=bool(hosts),
                allowed_hosts=list(hosts),
                allowed_origins=list(origins),
            )
        )
        support = SUPPORT
        if self._descriptions == "input":
            support = replace(support, stages=support.stages | {"process_input"})
        known: Any = {key: value for key, value in options.items() if key in HOST_OPTIONS}
        self.host = Host(support, processors, **known)
        self._limited = RequestBodyLimitMiddleware(self._handle, self._max_bytes)
        self._headers: HeaderMaps = {}
        self._group: TaskGroup | None = None
        self._sessions: dict[str, _Session] = {}
        self._shared: SharedConnection | None = None
        self._starting = anyio.Lock()

    # The server

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Any, Any]]:
        async with AsyncExitStack() as stack:
            server = self._server
            if isinstance(server, StdioServerParameters):
                yield await stack.enter_async_context(stdio_client(server))
            elif isinstance(server, str):
                timeout = httpx2.Timeout(30, read=None)  # a tool may take long; the client says how long it waits
                client = httpx2.AsyncClient(headers=self._http_headers, timeout=timeout)
                await stack.enter_async_context(client)
                limit: Any = {"max_sse_event_size": self._max_bytes} if _LIMITS_EVENTS else {}
                transport = streamable_http_client(server, http_client=client, **limit)
                yield await stack.enter_async_context(transport)
            else:
                yield await stack.enter_async_context(server())

    def _new_relay(self, client: tuple[Any, Any], session: str) -> Relay:
        guard = MessageGuard(
            self.host,
            descriptions=cast("Descriptions", self._descriptions),
            shares_state=self._shares,
            ends=self._ends,
            context={**self._context, "mcp_session": session},
            on_tripwire=self._on_tripwire,
        )
        return Relay(guard, client, self._headers)

    # Clients

    async def serve(self, client: TransportStreams, session: str = "") -> bool:
        """Serve one client, with a new connection to the server, until one of them ends.

        Returns whether the client has ended it.

        Args:
            client: the streams of a transport of servers: what the client sends, and what is sent to it.
            session: the id of the session, for processors.

        Raises:
            Exception: there is no connection.
        """
        relay = self._new_relay(client, session)
        try:
            async with self._connected() as server:
                await relay.run(server)
        except Exception:
            await relay.fail(reads=True)
            raise
        return not relay.server_gone

    async def serve_stdio(self, stdin: BinaryIO | None = None, stdout: TextIO | None = None) -> bool:
        """Serve one client over stdin and stdout, until it or the server ends. Return whether the client has ended it.

        Args:
            stdin: where the client writes; default: that of the process.
            stdout: where it reads; default: that of the process.

        Raises:
            Exception: the server cannot be started, or cannot be reached.
        """
        source = stdin or open(0, "rb", buffering=0, closefd=False)  # noqa: ASYNC230, SIM115 - it is open already
        out = None if stdout is None else anyio.wrap_file(stdout)
        ended = False
        async with BlockingPortal() as portal:
            send, lines = anyio.create_memory_object_stream[str](0)
            reader = threading.Thread(target=_read, args=(source, portal, send), name="penstock-mcp", daemon=True)
            reader.start()  # a thread of its own, since nothing interrupts a read of stdin
            try:
                async with lines, stdio_server(cast("Any", lines), out) as client:
                    try:
                        ended = await self.serve(client, "stdio")
                    finally:
                        lines.close()
                        await client[0].aclose()
                        await client[1].aclose()
            finally:
                await portal.stop(cancel_remaining=True)
        return ended

    # Clients over HTTP

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Serve HTTP clients in this block. An ASGI server does it by the application's lifespan.

        Where the proxy is mounted in another application, enter this in that application's lifespan.

        Raises:
            UsageError: it is running already.
        """
        if self._group is not None:
            raise UsageError("the proxy is running already; make one for each application")
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                yield self
            finally:
                self._group = None
                group.cancel_scope.cancel()
        self._sessions.clear()
        self._shared = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of an ASGI server.

        Raises:
            UsageError: `running` was not entered.
        """
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            self._open_group()
            await self._limited(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refused = await self._refused(request)
        if refused is not None:
            await refused(scope, receive, send)
            return
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await _Exchange(self, request).serve(send)
            return
        session = self._sessions.get(request.headers.get("mcp-session-id", ""))
        if session is not None and session.user == scope.get("user"):
            await session.transport.handle_request(scope, receive, send)
            if session.transport.is_terminated:
                await self._end_session(session)
        elif "mcp-session-id" in request.headers:
            await _problem("Session not found", 404)(scope, receive, send)
        elif len(self._sessions) >= self._max_sessions:
            await _problem("Too many open sessions", 503)(scope, receive, send)
        else:
            await self._open(request, send)

    def _open_group(self) -> TaskGroup:
        if self._group is None:
            raise UsageError("the proxy does not run: enter its running() in the lifespan of the application")
        return self._group

    async def _refused(self, request: Request) -> Response | None:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if path.rstrip("/") != self._path.rstrip("/"):
            return Response(status_code=404)
        given = request.headers.get("authorization", "")
        if self.token is not None and not compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
        return await self._security.validate_request(request, is_post=request.method == "POST")

    async def _open(self, request: Request, send: Send) -> None:
        """Open a session, if that is what the client asks for."""
        body = await request.body()
        receive = _replayed(body, request.receive)
        asked = _decoded(body)
        if not isinstance(asked, dict) or cast("dict[str, Any]", asked).get("method") != "initialize":
            await _problem("Bad Request: Missing session ID", 400)(request.scope, receive, send)
            return
        transport = StreamableHTTPServerTransport(uuid4().hex, idle_timeout=self._idle_seconds)
        session = _Session(transport, request.scope.get("user"))
        self._sessions[transport.mcp_session_id or ""] = session
        status = 500

        async def noting(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._open_group().start(self._run_session, session)
            await transport.handle_request(request.scope, receive, noting)
        finally:
            if status >= HTTPStatus.BAD_REQUEST:
                await self._end_session(session)

    async def _run_session(self, session: _Session, *, task_status: TaskStatus[None]) -> None:
        transport = session.transport
        try:
            async with transport.connect() as streams:
                task_status.started()
                with transport.idle_scope or anyio.CancelScope():
                    await self.serve(streams, transport.mcp_session_id or "")
                    await anyio.sleep(_FLUSH)
        except Exception as error:  # noqa: BLE001 - other sessions go on
            log.error("mcp: a session ended, since the server could not be reached: %s", _said(error))
        finally:
            await self._end_session(session)

    async def _end_session(self, session: _Session) -> None:
        self._sessions.pop(session.transport.mcp_session_id or "", None)
        if not session.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await session.transport.terminate()

    # Requests without a session, as from 2026-07-28 on

    async def relay_one(self, client: tuple[Any, Any]) -> None:
        """Pass on the messages of one request. A process of a server is shared by all, as its clients would do it."""
        relay = self._new_relay(client, "")
        try:
            if isinstance(self._server, StdioServerParameters):
                shared = await self._shared_process()
                with shared.lane() as server:
                    await relay.run(server)
            else:
                async with self._connected() as server:
                    await relay.run(server)
        except Exception as error:  # noqa: BLE001 - other requests go on
            log.error("mcp: the server could not be reached: %s", _said(error))
            await relay.fail(reads=True)

    async def _shared_process(self) -> SharedConnection:
        """Return the connection to the process that serves requests without a session; start it if there is none.

        Raises:
            Exception: it cannot be started.
        """
        async with self._starting:
            shared = self._shared
            if shared is None or shared.gone:
                started = await self._open_group().start(self._hold)
                if isinstance(started, Exception):
                    raise started
                shared = self._shared = started
            return shared

    async def _hold(self, *, task_status: TaskStatus[SharedConnection | Exception]) -> None:
        """Hold a connection to the server open until the server closes it."""
        begun = False
        try:
            async with self._connected() as streams:
                shared = SharedConnection(streams)
                begun = True
                task_status.started(shared)
                await shared.run()
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            if not begun:
                task_status.started(error)


@dataclass(eq=False)
class _Session:
    """A session of an HTTP client. Only who opened it may use it."""

    transport: StreamableHTTPServerTransport
    user: object


class _Exchange:
    """One request without a session: a POST that is answered with JSON, or with events if something comes before."""

    def __init__(self, proxy: GuardProxy, request: Request) -> None:
        self._proxy = proxy
        self._request = request
        self._answered = False

    async def serve(self, send: Send) -> None:
        """Answer the POST."""
        request = self._request
        answer = await self._read()
        if not isinstance(answer, JSONRPCRequest):
            await answer(request.scope, request.receive, send)
            return
        to_relay, read = anyio.create_memory_object_stream[Any](1)
        write, from_relay = anyio.create_memory_object_stream[Any](0)
        async with to_relay, read, write, from_relay, anyio.create_task_group() as group:
            group.start_soon(self._relayed, (read, write))
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
        decoded: Any = _decoded(await request.body())
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
        verdict = classify_inbound_request(cast("Any", decoded), headers=dict(request.headers))
        if isinstance(verdict, InboundLadderRejection):
            return _error(message.id, verdict.code, verdict.message, verdict.data)
        return message

    async def _relayed(self, client: tuple[Any, Any]) -> None:
        try:
            await self._proxy.relay_one(client)
        finally:
            client[1].close()

    async def _watch(self, id: int | str, to_relay: Any, group: TaskGroup) -> None:
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
            await anyio.sleep(_FLUSH)
        group.cancel_scope.cancel()

    async def _write(self, id: int | str, to_relay: Any, messages: Any, send: Send) -> None:
        """Send the client what comes, up to the response."""
        begun = False
        while True:
            message: Any = None
            ended = False
            with anyio.move_on_after(_PING):
                try:
                    message = (await messages.receive()).message
                except anyio.EndOfStream:
                    ended = True
            if ended:
                error = ErrorData(code=CLOSED_CODE, message=CLOSED_TEXT)
                message = JSONRPCError(jsonrpc="2.0", id=id, error=error)
            last = isinstance(message, (JSONRPCResponse, JSONRPCError))
            if last:  # the next request may use the connection
                self._answered = True
                to_relay.close()
                with anyio.move_on_after(_FLUSH):
                    async for _ in messages:
                        pass
            if last and not begun:
                await _response(message)(self._request.scope, self._request.receive, send)
                return
            if not begun:
                await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
                begun = True
            event = b": ping\r\n\r\n" if message is None else _event(message)
            await send({"type": "http.response.body", "body": event, "more_body": not last})
            if last:
                return


def _said(error: BaseException) -> str:
    """Return what an error says, or the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}"


_EVENTS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


def _event(message: Any) -> bytes:
    said = message.model_dump_json(by_alias=True, exclude_unset=True)
    return f"event: message\r\ndata: {said}\r\n\r\n".encode()


def _response(message: Any) -> Response:
    status = ERROR_CODE_HTTP_STATUS.get(message.error.code, 200) if isinstance(message, JSONRPCError) else 200
    said = message.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(said, status_code=status, media_type="application/json")


def _error(id: int | str | None, code: int, message: str, data: Any = None) -> Response:
    error = ErrorData(code=code, message=message) if data is None else ErrorData(code=code, message=message, data=data)
    return _response(JSONRPCError(jsonrpc="2.0", id=id, error=error))


def _problem(message: str, status: int) -> Response:
    made = _error(None, -32600, message)
    made.status_code = status
    return made


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that gives the body again, and then what comes."""
    given = False

    async def again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _read(source: BinaryIO, portal: BlockingPortal, send: MemoryObjectSendStream[str]) -> None:
    """Pass on the lines of a client, in a thread of its own."""
    with suppress(RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError, CancelledError):
        for line in _lines(source):
            portal.call(send.send, line)
        portal.call(send.aclose)


def _lines(source: BinaryIO) -> Iterator[str]:
    """Yield lines. The end of a line is a line feed, whatever else is in it."""
    pieces: list[bytes] = []
    while piece := source.read(65536):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join((*pieces, end)).decode("utf-8", "replace")
            pieces = []
        pieces.append(rest)
    if any(pieces):
        yield b"".join(pieces).decode("utf-8", "replace")


def _server(given: Server, env: Mapping[str, str] | None) -> str | StdioServerParameters | Callable[[], Transport]:
    if isinstance(given, str):
        if not given.startswith(("http://", "https://")):
            raise OptionError(
                SUPPORT.adapter, "server", given, "a URL, or a command as a list: ['python', 'server.py']"
            )
        return given
    if isinstance(given, StdioServerParameters) or callable(given):
        return given
    command = list(given)
    if not command or not all(isinstance(cast("object", word), str) for word in command):
        raise OptionError(SUPPORT.adapter, "server", given, "a command with its arguments, as a list of str")
    return StdioServerParameters(command=command[0], args=command[1:], env=None if env is None else dict(env))


N = TypeVar("N", int, float)


def _positive(option: str, given: N) -> N:
    if isinstance(given, bool) or not isinstance(cast("object", given), (int, float)) or not 0 < given < inf:
        raise OptionError(SUPPORT.adapter, option, given, "a number above 0")
    return given
