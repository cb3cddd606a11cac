"""`Proxy`: one request of a client, from its headers to the end of its reply."""

from __future__ import annotations

import logging
import secrets
import time
import traceback
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from penstock.engine.values.terms import is_model
from penstock.formats.wire import is_object
from penstock.workflows.gateway.exchange import exchange
from penstock.workflows.gateway.http import HttpReply, HttpRequest
from penstock.workflows.gateway.json_text import read_json
from penstock.workflows.gateway.served import Served
from penstock.workflows.gateway.serving.asgi import header_bytes, headers_of, raw_headers
from penstock.workflows.gateway.serving.body import ClientGoneError, read_body
from penstock.workflows.gateway.serving.cache import CachedUpstream
from penstock.workflows.gateway.serving.client_side import ClientSide
from penstock.workflows.gateway.serving.refusals import NotServedError
from penstock.workflows.gateway.serving.shadows import ShadowVerdicts
from penstock.workflows.gateway.serving.tracing import tell
from penstock.workflows.gateway.upstreams.headers import client_key
from penstock.workflows.gateway.upstreams.pool import Trip
from penstock.workflows.web.released import STREAM_HEADER, StreamCutError, StreamGoneError, StreamPosition

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable

    from penstock.workflows.gateway.endpoints.endpoint import Endpoint
    from penstock.workflows.gateway.guards import Guards
    from penstock.workflows.gateway.http import Upstream
    from penstock.workflows.gateway.serving.asgi import Receive, Scope, Send
    from penstock.workflows.gateway.serving.routes import Route, Routes
    from penstock.workflows.gateway.serving.tracing import RequestTrace, Traces

LOG = logging.getLogger("penstock.gateway")

_SIGNS = {"anthropic-messages": b'event: ping\ndata: {"type": "ping"}\n\n'}
_SIGN = b": keep-alive\n\n"
_SIGN_BETWEEN_IDS = b": keep-alive\n"  # OpenAI's client takes an empty line for an event once it has seen an id
_STREAMS = "/streams/"


def endpoint_of_stream(path: str) -> str:
    """Return the path of the endpoint whose streams are resumed at a path; the path itself if there are none."""
    return path.partition(_STREAMS)[0]


@dataclass(slots=True)
class RunningCounts:
    """How many requests run now, and whether new ones are taken.

    Attributes:
        open: how many requests are at work.
        draining: whether no new ones are taken.
        sides: the clients of those whose body was read.
    """

    open: int = 0
    draining: bool = False
    sides: set[ClientSide] = field(default_factory=set[ClientSide])


def _shuts_down() -> NotServedError:
    return NotServedError(503, "shutting_down", "the gateway shuts down; try again", retry_after=1)


class Proxy:
    """Serves requests at the endpoints.

    Args:
        routes: returns the routes in use.
        counts: counts the requests that run.
        traces: makes spans.
        on_served: gets the record of each request when it has ended.
    """

    def __init__(
        self, routes: Callable[[], Routes], counts: RunningCounts, traces: Traces, on_served: Callable[[Served], None]
    ) -> None:
        self._routes = routes
        self._counts = counts
        self._traces = traces
        self._on_served = on_served

    async def serve(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request.

        Args:
            endpoint: its protocol.
            scope: the request, as ASGI has it.
            receive: gives its body.
            send: sends the reply.
        """
        began = time.monotonic()
        served = Served(request_id=f"req-{secrets.token_hex(12)}", endpoint=endpoint.name)
        headers = headers_of(scope)
        request = HttpRequest(scope["method"], scope["path"], headers, query=scope["query_string"].decode("latin-1"))
        self._counts.open += 1
        try:
            with self._traces.request(headers, request.method, request.path) as trace:
                served.trace_id = trace.trace_id()
                one = _Request(self._routes(), endpoint, request, served, trace, self._counts)
                await one.serve(scope, receive, send)
                tell(trace, served)
        finally:
            self._counts.open -= 1
            served.seconds = time.monotonic() - began
            self._on_served(served)


class _Request:
    """One request. Lives as long as it."""

    def __init__(
        self,
        routes: Routes,
        endpoint: Endpoint,
        request: HttpRequest,
        served: Served,
        trace: RequestTrace,
        counts: RunningCounts,
    ) -> None:
        self._routes = routes
        self._limits = routes.section.limits
        self._endpoint = endpoint
        self._request = request
        self._served = served
        self._trace = trace
        self._counts = counts
        self._body = b""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it, or tell the client why not."""
        limits, served = self._limits, self._served
        resumes = self._routes.released is not None and self._request.method == "GET"
        try:
            client = self._admitted(scope, "GET" if resumes else "POST")
            body = await read_body(receive, self._request.headers, most=limits.body, seconds=limits.receive)
        except ClientGoneError:
            served.outcome = "gone"
            return
        except NotServedError as error:
            await self._plain(send, self._refused(error, close=True))  # the rest of the body was not read
            return
        self._body = body
        served.bytes_in = len(body)
        side = ClientSide(
            scope,
            receive,
            send,
            idle=limits.idle,
            total=limits.total,
            keep_alive=limits.keep_alive,
            sign=self._sign(resumable=resumes),
            farewell=self._farewell,
        )
        self._counts.sides.add(side)
        try:
            async with side:
                await (self._resume(side, scope, client) if resumes else self._answer(side, client))
        finally:
            self._counts.sides.discard(side)
        served.bytes_out = side.sent
        if side.end is not None:
            served.outcome = side.end
            if side.end == "cut" and not side.started:
                await self._plain(send, self._refused(_shuts_down()))
                served.outcome = "cut"
            if side.end == "timeout" and not side.started:
                await self._plain(send, self._refused(NotServedError(504, "timeout", "the request took too long")))
                served.outcome = "timeout"

    def _sign(self, *, resumable: bool) -> bytes:
        """Return the sign of life of a stream."""
        return _SIGNS.get(self._endpoint.name, _SIGN_BETWEEN_IDS if resumable else _SIGN)

    def _admitted(self, scope: Scope, method: str) -> str:
        """Return the name of the client of a request that may be read.

        Raises:
            NotServedError: the gateway takes no requests, or not this one.
        """
        if self._counts.draining and method == "POST":  # the rest of a stream is here, and nowhere else
            raise _shuts_down()
        if self._counts.open > self._limits.requests:
            raise NotServedError(503, "overloaded", "too many requests are at work; try again", retry_after=1)
        if header_bytes(scope) > self._limits.headers:
            raise NotServedError(431, "headers_too_large", f"the headers are longer than {self._limits.headers} bytes")
        if self._request.method != method or (method == "POST" and _STREAMS in self._request.path):
            raise NotServedError(405, "method_not_allowed", "send POST")
        client = self._routes.client(client_key(self._request.headers))
        self._served.client = client
        return client

    async def _answer(self, side: ClientSide, client: str) -> None:
        try:
            route = self._routes.find(self._request.path, client, self._model)
            self._served.route = route.name
            if route.rate is not None:
                by_key = route.section.rate is not None and route.section.rate.by == "key"
                await route.rate.take(client if by_key else "")
            if route.slots is None:
                await self._exchange(side, route, client)
            else:
                async with route.slots.taken():
                    await self._exchange(side, route, client)
        except NotServedError as error:
            await side.reply(self._refused(error))
        except Exception as error:  # noqa: BLE001 - the client is told that it failed, the operator where
            cause = type(error).__name__
            message = "request %s failed: %s at %s"  # without its text, which may quote the request
            LOG.error(message, self._served.request_id, cause, _place(error))  # noqa: TRY400
            if side.started:
                side.cut()
            else:
                await side.reply(self._refused(NotServedError(500, "internal", "the gateway failed")))
            self._served.outcome, self._served.error, self._served.cause = "error", "internal", cause

    async def _resume(self, side: ClientSide, scope: Scope, client: str) -> None:
        """Send the rest of a stream to a client that comes back."""
        served, log = self._served, self._routes.released
        assert log is not None  # noqa: S101 - else nothing is resumed
        served.resumed = served.streamed = True
        named = ("x-penstock-request-id", served.request_id)
        try:
            position = StreamPosition.asked(scope, self._request.path.partition(_STREAMS)[2])
            async with log.resuming(position, client) as events:
                served.status = 204 if events.is_over else 200
                if events.is_over:
                    await side.reply(HttpReply(204, (named,), b""))
                else:
                    headers = (*events.headers, (STREAM_HEADER, position.stream_id), named)
                    await side.reply(HttpReply(200, headers, events))
        except StreamGoneError as error:
            await side.reply(self._refused(NotServedError(error.status, "stream_gone", str(error))))
        except StreamCutError:
            served.outcome = "cut"
            side.cut()

    async def _exchange(self, side: ClientSide, route: Route, client: str) -> None:
        given = self._request
        headers = self._trace.outgoing(given.headers)
        request = HttpRequest(given.method, given.path, headers, self._body, given.query, route.name)
        trip = Trip()
        upstream: Upstream = route.pool.bound(trip)
        cached: CachedUpstream | None = None
        if route.cache is not None:
            cached = CachedUpstream(upstream, route.cache, request, route.guards.fingerprint, client)
            upstream = cached
        guards = self._guards(route, client)
        try:
            async with exchange(self._endpoint, request, guards, upstream) as reply:
                await self._send(side, reply, cached, route)
        except Exception:
            if cached is None or cached.hit is None:
                raise
            self._served.cached = True
            await self._send(side, HttpReply(200, cached.hit.headers, cached.hit.body), cached, route)
        finally:
            self._served.add_trip(trip)
            if self._served.error == "guard_failed" and self._served.reason:
                LOG.error("request %s failed: %s", self._served.request_id, self._served.reason)
            if cached is not None:
                keep = self._served.outcome == "ok" and not self._served.review  # an approval lets one answer pass
                await cached.end(self._kept if keep else None)

    def _guards(self, route: Route, client: str) -> Guards:
        """Return the guards of this request, with the shadows that were drawn for it."""
        context = {"resource_id": client} if client else {}
        made = route.guards.of_request(route.workflow(), context, self._served.add_end)
        if made.workflow is route.guards.workflow:
            return made
        shadows = ShadowVerdicts(route.shadow_names)
        self._served.shadows = shadows.found
        return replace(made, observers=(*made.observers, shadows))

    _kept: tuple[tuple[tuple[str, str], ...], bytes] | None = None

    async def _send(self, side: ClientSide, reply: HttpReply, cached: CachedUpstream | None, route: Route) -> None:
        """Send a reply; remember its bytes, if it may be kept."""
        self._served.status = reply.status
        headers = reply.headers
        if cached is None or cached.hit is not None:
            await self._reply(side, reply, route)
            return
        pieces: list[bytes] = []
        size = 0

        def keep(piece: bytes) -> None:
            nonlocal size
            size += len(piece)
            if size <= most:
                pieces.append(piece)

        most = cached.most_bytes
        await self._reply(side, reply, route, keep)
        if size <= most:
            self._kept = headers, b"".join(pieces)

    async def _reply(
        self, side: ClientSide, reply: HttpReply, route: Route, on_piece: Callable[[bytes], None] | None = None
    ) -> None:
        log = self._routes.released if route.section.resumable else None
        headers = (*reply.headers, ("x-penstock-request-id", self._served.request_id))
        if log is None or isinstance(reply.body, bytes):
            await side.reply(HttpReply(reply.status, headers, reply.body), on_piece)
            return
        stream = log.begin(reply.headers, self._served.client)
        named = HttpReply(reply.status, (*headers, (STREAM_HEADER, stream.id)), b"")
        await side.record(named, stream, _told(reply.body, on_piece), self._sign(resumable=True))

    def _model(self) -> str:
        """Return the model of the request, for its route.

        Raises:
            NotServedError: the body is no JSON object, or two readers could read two models in it.
        """
        try:
            body = read_json(self._body)
        except (ValueError, RecursionError):
            raise NotServedError(400, "invalid_json", "the body is no JSON in UTF-8, or ambiguous") from None
        model = body.get("model") if is_object(body) else None
        if not isinstance(model, str):
            raise NotServedError(400, "missing_model", "the body must be a JSON object with a model")
        if is_model(model):
            self._served.model = model
        return model

    def _farewell(self) -> bytes:
        """Return the events that end a stream when the gateway shuts down."""
        sent, why = self._endpoint.begin(self._served.model), _shuts_down()
        return b"".join(self._endpoint.error_events(why.code, why.message, sent))

    def _refused(self, error: NotServedError, *, close: bool = False) -> HttpReply:
        served = self._served
        served.status, served.outcome, served.error = error.status, "refused", error.code
        closing = (("connection", "close"),) if close else ()
        headers = (*error.headers, *closing, ("x-penstock-request-id", served.request_id))
        return self._endpoint.refused(error.status, error.code, error.message, headers)

    async def _plain(self, send: Send, reply: HttpReply) -> None:
        """Send a reply to a client that nobody watches."""
        body = reply.body if isinstance(reply.body, bytes) else b""
        headers = [*raw_headers(reply.headers), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})
        self._served.bytes_out = len(body)


async def _told(body: AsyncIterable[bytes], on_piece: Callable[[bytes], None] | None) -> AsyncGenerator[bytes]:
    """Yield the pieces of a body, each told to ``on_piece`` when it was taken."""
    async with aclosing(cast("AsyncGenerator[bytes]", body)) as pieces:  # the body of an exchange is a generator
        async for piece in pieces:
            yield piece
            if on_piece is not None:
                on_piece(piece)


def _place(error: BaseException) -> str:
    """Return where an exception was raised: its text may quote a text, so only the place is logged."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
