"""`GuardProxy`: stands before a server, and serves its clients over stdio and streamable HTTP."""

from __future__ import annotations

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
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response

from penstock.engine.execution.boundary import log
from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.workflows.adapters.mcp.exchange import FLUSH, Exchange, decoded_of, problem
from penstock.workflows.adapters.mcp.logs import logs_without_texts
from penstock.workflows.adapters.mcp.reading import Descriptions, MessageGuard
from penstock.workflows.adapters.mcp.relay import Relay
from penstock.workflows.adapters.mcp.sharing import SharedConnection
from penstock.workflows.agent.options import check_names
from penstock.workflows.hosting import Host, HostOptions, HostSupport
from penstock.workflows.hosting.host import HOST_OPTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, MutableMapping, Sequence
    from typing import BinaryIO, Self, TextIO

    from anyio.abc import TaskGroup, TaskStatus
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from starlette.types import Receive, Scope, Send
    from typing_extensions import Unpack

    from penstock.engine.values.tripwire import Tripwire
    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json, Value
    from penstock.workflows.adapters.mcp.objects import Streams
    from penstock.workflows.adapters.mcp.relay import HeaderMaps


Transport: TypeAlias = "AbstractAsyncContextManager[Streams]"
Server: TypeAlias = "str | Sequence[str] | StdioServerParameters | Callable[[], Transport]"

SUPPORT = HostSupport(
    "mcp.as_proxy",
    frozenset({"process_tool_call", "process_tool_result"}),
    retries=False,
    trusted_instructions=False,
    instead="the adapter of the framework that calls the model",
    logs_partial=False,
)

_LIMITS_EVENTS = "max_sse_event_size" in signature(streamable_http_client).parameters  # from 2.3 on

_MIB = 1024 * 1024
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
LOCAL_HOSTS = tuple(f"{name}{port}" for name in _LOCAL for port in ("", ":*"))
"""The values of the header ``Host`` that are this machine's."""


class ProxyOptions(HostOptions, total=False):
    """The options of `as_proxy`, beside those of every adapter.

    - ``descriptions`` (``result``, ``input`` or ``trusted``; default ``result``): how guards read the server's
      descriptions of itself and its tools, prompts and resources: at ``process_tool_result``, at ``process_input``, or
      not at all. A blocked entry is left out of its list, and a tool that is left out cannot be called.
    - ``scope`` (``session`` or ``call``; default ``session``): the calls that share the state of processors.
    - ``on_block`` (``call`` or ``session``; default ``call``): the reach of a verdict.
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
        hosts = options.get("allowed_hosts", LOCAL_HOSTS)
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
        known: Json = {key: value for key, value in options.items() if key in HOST_OPTIONS}
        self.host = Host(support, processors, **known)
        self._limited = RequestBodyLimitMiddleware(self._handle, self._max_bytes)
        self._headers: HeaderMaps = {}
        self._tools: dict[str, bool] = {}  # shared, since requests without a session have no other place
        self._group: TaskGroup | None = None
        self._sessions: dict[str, _ProxySession] = {}
        self._shared: SharedConnection | None = None
        self._starting = anyio.Lock()

    # The server

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Streams]:
        async with AsyncExitStack() as stack:
            stack.enter_context(logs_without_texts())
            server = self._server
            if isinstance(server, StdioServerParameters):
                yield await stack.enter_async_context(stdio_client(server))
            elif isinstance(server, str):
                timeout = httpx2.Timeout(30, read=None)  # a tool may take long; the client says how long it waits
                client = httpx2.AsyncClient(headers=self._http_headers, timeout=timeout)
                await stack.enter_async_context(client)
                limit: Json = {"max_sse_event_size": self._max_bytes} if _LIMITS_EVENTS else {}
                transport = streamable_http_client(server, http_client=client, **limit)
                yield await stack.enter_async_context(transport)
            else:
                yield await stack.enter_async_context(server())

    def _new_relay(self, client: Streams, session: str) -> Relay:
        guard = MessageGuard(
            self.host,
            descriptions=cast("Descriptions", self._descriptions),
            shares_state=self._shares,
            ends=self._ends,
            context={**self._context, "mcp_session": session},
            on_tripwire=self._on_tripwire,
            tools=self._tools,
        )
        return Relay(guard, client, self._headers)

    # Clients

    async def serve(self, client: TransportStreams, session: str = "") -> bool:
        """Serve one client, with a new connection to the server, until one of them ends.

        Returns whether the client has ended it.

        Args:
            client: the streams of a transport of servers, from the client and to it.
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
            reader = threading.Thread(target=read_lines, args=(source, portal, send), name="penstock-mcp", daemon=True)
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
            await Exchange(self._relay_one, request).serve(send)
            return
        session = self._sessions.get(request.headers.get("mcp-session-id", ""))
        if session is not None and session.user == scope.get("user"):
            await session.transport.handle_request(scope, receive, send)
            if session.transport.is_terminated:
                await self._end_session(session)
        elif "mcp-session-id" in request.headers:
            await problem("Session not found", 404)(scope, receive, send)
        elif len(self._sessions) >= self._max_sessions:
            await problem("Too many open sessions", 503)(scope, receive, send)
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
        """Open a session, if the client asks for one."""
        body = await request.body()
        receive = _replayed(body, request.receive)
        asked = decoded_of(body)
        if not isinstance(asked, dict) or cast("Json", asked).get("method") != "initialize":
            await problem("Bad Request: Missing session ID", 400)(request.scope, receive, send)
            return
        transport = StreamableHTTPServerTransport(uuid4().hex, idle_timeout=self._idle_seconds)
        session = _ProxySession(transport, request.scope.get("user"))
        self._sessions[transport.mcp_session_id or ""] = session
        status = 500

        async def noting(message: MutableMapping[str, Value]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._open_group().start(self._run_session, session)
            await transport.handle_request(request.scope, receive, noting)
        finally:
            if status >= HTTPStatus.BAD_REQUEST:
                await self._end_session(session)

    async def _run_session(self, session: _ProxySession, *, task_status: TaskStatus[None]) -> None:
        transport = session.transport
        try:
            async with transport.connect() as streams:
                task_status.started()
                with transport.idle_scope or anyio.CancelScope():
                    await self.serve(streams, transport.mcp_session_id or "")
                    await anyio.sleep(FLUSH)
        except Exception as error:  # noqa: BLE001 - other sessions go on
            log.error("mcp: a session ended, since the server could not be reached: %s", _said(error))
        finally:
            await self._end_session(session)

    async def _end_session(self, session: _ProxySession) -> None:
        self._sessions.pop(session.transport.mcp_session_id or "", None)
        if not session.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await session.transport.terminate()

    # Requests without a session, as from 2026-07-28 on

    async def _relay_one(self, client: Streams) -> None:
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
class _ProxySession:
    """A session of an HTTP client. Only who opened it may use it."""

    transport: StreamableHTTPServerTransport
    user: object


def first_of(error: BaseException) -> BaseException:
    """Return an error, or the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _said(error: BaseException) -> str:
    first = first_of(error)
    return f"{type(first).__name__}: {first}"


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that gives the body again, and then the next messages."""
    given = False

    async def again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


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


def read_lines(source: BinaryIO, portal: BlockingPortal, send: MemoryObjectSendStream[str]) -> None:
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
