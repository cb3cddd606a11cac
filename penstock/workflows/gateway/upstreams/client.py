"""`Client`: requests to providers over aiohttp. It follows no redirect, and bounds time and size of each reply."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import aiohttp

from penstock.engine.tasks import call_later
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.gateway.upstreams.headers import towards_client, towards_provider

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from penstock.workflows.gateway.http import Headers, HttpRequest
    from penstock.workflows.gateway.upstreams.provider import Timeouts, UpstreamProvider

_READ_AHEAD = 32 * 1024  # bytes of a reply that wait in memory for a slow client
_MOST_CONNECTIONS = 1_000
_REDIRECTS = range(300, 400)
_NOT_MODIFIED = 304


class Client:
    """Sends requests to providers over one pool of connections. Enter it before use, in a running event loop.

    Args:
        connections: how many connections may be open at once, to all providers.
    """

    def __init__(self, *, connections: int = _MOST_CONNECTIONS) -> None:
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._timeouts: dict[Timeouts, aiohttp.ClientTimeout] = {}

    async def start(self) -> None:
        """Open the pool. Connections are made when requests need them."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_AHEAD,
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, provider: UpstreamProvider, request: HttpRequest) -> ProviderReply:
        """Send a request to a provider, and return its reply. The caller closes it, whatever happens.

        Args:
            provider: the provider.
            request: the request of a client. Its headers go on as `towards_provider` says.

        Raises:
            UpstreamError: the provider cannot be reached, is silent for too long, or answers with a redirect.
        """
        response = await self._response(provider, request)
        reply = ProviderReply(provider, response)
        if reply.status in _REDIRECTS and reply.status != _NOT_MODIFIED:
            response.close()
            raise UpstreamError("malformed", f"{provider.name} answers with a redirect, which is not followed")
        return reply

    async def _response(self, provider: UpstreamProvider, request: HttpRequest) -> aiohttp.ClientResponse:
        """Return the reply of a provider, of which status and headers were read.

        The errors of aiohttp hold the headers that were sent, and so the key: they do not leave this function, not even
        as the context of another one.
        """
        if self._session is None:
            raise RuntimeError("the client is not started")
        try:
            response = await self._session.request(
                request.method,
                provider.url_of(request.path, request.query),
                data=request.body or None,
                headers=towards_provider(request, provider),
                allow_redirects=False,
                timeout=self._timeout(provider.timeouts),
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it may hold the key
            failure = _failure(provider, error)
        else:
            connection = response.connection
            if connection is not None and connection.protocol is not None:  # its body is not there yet
                connection.protocol.read_timeout = None  # `ProviderReply` has one timer for all pieces
            return response
        raise failure

    def _timeout(self, waits: Timeouts) -> aiohttp.ClientTimeout:
        """Return the limits until the headers are there."""
        found = self._timeouts.get(waits)
        if found is None:
            # `total` bounds a provider that sends its headers byte by byte.
            found = aiohttp.ClientTimeout(total=waits.total, sock_connect=waits.connect, sock_read=waits.first)
            self._timeouts[waits] = found
        return found


class ProviderReply:
    """The reply of a provider, of which the body is still to be read. See `UpstreamReply`.

    One timer looks after a silent provider: to set one for each piece would cost more than to read it.

    Attributes:
        status: the HTTP status.
    """

    __slots__ = ("_cancel", "_provider", "_response", "_since", "_started", "status")

    def __init__(self, provider: UpstreamProvider, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._provider = provider
        self._response = response
        self._started = time.monotonic()
        self._since: float | None = self._started  # when the wait for a piece began; None while nobody waits
        self._cancel: Callable[[], None] | None = None

    def close(self) -> None:
        """End it. A body that was read to its end has given its connection back before."""
        if self._cancel is not None:
            self._cancel()
        self._response.close()

    def _look(self) -> None:
        """End the wait for a piece that takes too long."""
        idle = self._provider.timeouts.idle
        left = idle if self._since is None else self._since + idle - time.monotonic()
        if left > 0:
            self._cancel = call_later(left, self._look)
        else:
            self._response.content.set_exception(aiohttp.SocketTimeoutError())

    @property
    def headers(self) -> Headers:
        """The headers, without those of the connection."""
        return towards_client(self._response.headers.items())

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the body, decompressed, in the pieces in which it comes.

        Raises:
            UpstreamError: the provider breaks the connection, is silent for too long, or sends too much.
        """
        content = self._response.content
        read = content.readany
        left = self._provider.most_bytes
        until = self._started + self._provider.timeouts.total
        failure: UpstreamError | None = None
        if not content.is_eof():
            self._look()
        while True:
            self._since = time.monotonic()
            if self._since > until:
                failure = UpstreamError("timeout", f"{self._provider.name} takes too long", status=504)
                break
            try:
                piece = await read()
            except Exception as error:  # noqa: BLE001 - as in `_response`
                failure = _failure(self._provider, error)
                break
            self._since = None
            if not piece:
                return
            left -= len(piece)
            if left < 0:
                failure = UpstreamError("too_large", f"{self._provider.name} sends more than the gateway takes")
                break
            yield piece
        raise failure


def _failure(provider: UpstreamProvider, error: Exception) -> UpstreamError:
    """Return an error of aiohttp as one of ours, without any of its text."""
    kind = type(error).__name__
    if isinstance(error, (TimeoutError, aiohttp.ServerTimeoutError)):
        return UpstreamError("timeout", f"{provider.name} did not answer in time ({kind})", status=504)
    if isinstance(error, aiohttp.ClientConnectorError):
        return UpstreamError("connect", f"{provider.name} cannot be reached ({kind})")
    if isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, OSError)):
        return UpstreamError("broken", f"{provider.name} broke the connection ({kind})")
    return UpstreamError("malformed", f"{provider.name} sent what cannot be read, or its address is wrong ({kind})")
