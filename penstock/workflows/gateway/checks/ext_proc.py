"""Envoy's external processing: a gRPC service that checks bodies of requests and answers. Needs the extra ``ext-proc``.

Envoy sends each message of one HTTP exchange on one stream, and waits for a reply to each. Bodies are read whole, so
its filter has to buffer them. Everything else is refused with an answer of ours, which Envoy sends at once: pieces of a
body, other encodings, streams of events, and bodies that are no JSON.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Self

from penstock.engine.execution.boundary import log
from penstock.engine.values.errors import MessageError, MissingExtraError, without_text
from penstock.engine.workers import run_in_worker
from penstock.formats.wire import Value, is_array
from penstock.workflows.gateway.checks.answer_bodies import check_answer_body
from penstock.workflows.gateway.checks.contract import read_json, refusal_of
from penstock.workflows.gateway.checks.core import BODY_LIMIT, add_results, results_heard
from penstock.workflows.gateway.checks.request_bodies import check_request_body
from penstock.workflows.gateway.checks.rows import Rows
from penstock.workflows.gateway.served import ACCESS, Served
from penstock.workflows.web.sse import dumped

try:
    grpc: Value = import_module("grpc")
    import_module("grpc.aio")
    with warnings.catch_warnings():  # its classes are generated, for an older Pydantic
        warnings.simplefilter("ignore", DeprecationWarning)
        from envoy_data_plane.envoy.config.core.v3 import HeaderValue, HeaderValueOption
        from envoy_data_plane.envoy.service.ext_proc import v3 as envoy
        from envoy_data_plane.envoy.type.v3 import HttpStatus, StatusCode
except ImportError as error:
    raise MissingExtraError("penstock.workflows.gateway.checks.ext_proc", "ext-proc") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from penstock.engine.values.messages import Message
    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json
    from penstock.workflows.gateway.checks.core import Guards
    from penstock.workflows.gateway.checks.request_bodies import BodyChecked

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
BLOCKED_TEXT = "A guard has blocked this."
_SERVER_ERROR = 500
_LONG = 100_000  # bytes from which a body is parsed off the event loop
_AROUND = 64_000  # bytes of a message of Envoy around a body


class ExtProcServer:
    """The service at an address. It asks for no key and speaks no TLS. Use it with ``async with``.

    Args:
        guards: returns the workflow that an exchange is checked with. It is called once for each.
        address: where it listens, such as ``127.0.0.1:9000``; with the port 0, at a free one.
        limit: how many bytes a body may have.

    Attributes:
        port: the port.

    Raises:
        RuntimeError: the address is in use.
    """

    def __init__(self, guards: Guards, address: str, *, limit: int = BODY_LIMIT) -> None:
        async def process(
            requests: AsyncIterator[envoy.ProcessingRequest], _context: object
        ) -> AsyncIterator[envoy.ProcessingResponse]:
            exchange = _EnvoyExchange(guards)
            async for request in requests:
                yield await exchange.reply(request)

        handler = grpc.stream_stream_rpc_method_handler(
            process, request_deserializer=envoy.ProcessingRequest.parse, response_serializer=bytes
        )
        self._server: Value = grpc.aio.server(options=[("grpc.max_receive_message_length", limit + _AROUND)])
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"Process": handler})])
        self.port: int = self._server.add_insecure_port(address)

    async def __aenter__(self) -> Self:
        """Start it."""
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop it; exchanges have a second to end."""
        await self._server.stop(1)

    async def run(self) -> None:
        """Wait until somebody stops it."""
        await self._server.wait_for_termination()


class _RefusedError(Exception):
    """Carries the answer that Envoy sends instead of the request or the answer."""

    def __init__(self, status: int, text: str, kind: str = "invalid_request_error") -> None:
        self.status = status
        self.body: Json = {"error": {"message": text, "type": kind, "param": None, "code": "guard"}}
        super().__init__(text)


class _EnvoyExchange:
    """One HTTP request and its answer, with one policy."""

    def __init__(self, guards: Guards) -> None:
        self._policy = guards
        self._chosen: Workflow | None = None
        self._asked: Sequence[Message] = ()

    async def reply(self, request: envoy.ProcessingRequest) -> envoy.ProcessingResponse:
        """Return the reply to a message of Envoy. One with a body has a line in the access log."""
        body = request.request_body or request.response_body
        if body is None:
            return await self._told(request, Served())
        began = time.monotonic()
        side = "request" if request.request_body is not None else "response"
        served = Served(endpoint=f"check ext_proc {side}", status=200, bytes_in=len(body.body))
        with results_heard() as results:
            try:
                return await self._told(request, served)
            finally:
                add_results(served, results)
                served.seconds = time.monotonic() - began
                ACCESS.info("%s", served)

    async def _told(self, request: envoy.ProcessingRequest, served: Served) -> envoy.ProcessingResponse:
        """Return the reply to a message of Envoy, or the answer in its place, whose status is noted."""
        try:
            return await self._reply(request)
        except _RefusedError as error:
            refused = error
        except (MessageError, RecursionError) as error:
            refused = _RefusedError(400, str(refusal_of(error)))
        except Exception as error:  # noqa: BLE001 - whatever failed, nothing may pass
            log.error("%s: a check failed with %s", SERVICE, without_text(error))
            refused = _RefusedError(500, "The check failed.", "server_error")
            served.cause = type(error).__name__
        served.status = refused.status
        served.outcome = "refused" if refused.status < _SERVER_ERROR else "error"
        return _immediate(refused)

    @property
    def _guards(self) -> Workflow:
        if self._chosen is None:
            self._chosen = self._policy()
        return self._chosen

    async def _reply(self, request: envoy.ProcessingRequest) -> envoy.ProcessingResponse:
        if request.request_headers is not None:
            _refuse_encoded(request.request_headers)
            plain = envoy.HeaderMutation(remove_headers=["accept-encoding"])  # so that the answer can be read
            common = envoy.CommonResponse(header_mutation=plain)
            return envoy.ProcessingResponse(request_headers=envoy.HeadersResponse(response=common))
        if request.response_headers is not None:
            _refuse_encoded(request.response_headers)
            if "text/event-stream" in _header(request.response_headers, "content-type"):
                raise _RefusedError(502, "The answer is streamed, and cannot be checked here.", "server_error")
            return envoy.ProcessingResponse(response_headers=envoy.HeadersResponse(response=envoy.CommonResponse()))
        if request.request_body is not None:
            made = await self._request(_whole(request.request_body))
            return envoy.ProcessingResponse(request_body=_body_response(made))
        if request.response_body is not None:
            made = await self._answer(_whole(request.response_body))
            return envoy.ProcessingResponse(response_body=_body_response(made))
        if request.request_trailers is not None:
            return envoy.ProcessingResponse(request_trailers=envoy.TrailersResponse())
        if request.response_trailers is not None:
            return envoy.ProcessingResponse(response_trailers=envoy.TrailersResponse())
        raise _RefusedError(500, "Envoy has sent a message of an unknown kind.", "server_error")

    async def _request(self, body: bytes) -> bytes | None:
        """Return the body of a request as the guards left it; None if that is the given one."""
        if not body:
            return None
        given = await _read(body)
        if given.get("stream"):
            raise _RefusedError(400, "stream: an answer that is streamed cannot be checked here; set it to false")
        checked = await check_request_body(self._guards, given)
        self._asked = _messages(given)
        return _written(checked, given)

    async def _answer(self, body: bytes) -> bytes | None:
        """Return the body of an answer as the guards left it; None if that is the given one."""
        if not body:
            return None
        given = await _read(body)
        return _written(await check_answer_body(self._guards, given, asked=self._asked), given)


def _refuse_encoded(headers: envoy.HttpHeaders) -> None:
    """Refuse a body that guards cannot read.

    Raises:
        _RefusedError: it is compressed.
    """
    if _header(headers, "content-encoding") not in ("", "identity"):
        raise _RefusedError(415, "content-encoding: a compressed body cannot be checked; send it uncompressed")


def _header(headers: envoy.HttpHeaders, name: str) -> str:
    """Return the value of a header in lower case; empty if it is missing."""
    listed = headers.headers.headers if headers.headers is not None else ()
    for header in listed:
        if header.key.lower() == name:
            return (header.raw_value.decode("latin-1") or header.value).strip().lower()
    return ""


def _whole(body: envoy.HttpBody) -> bytes:
    """Return a body.

    Raises:
        _RefusedError: it is a piece of one.
    """
    if not body.end_of_stream:
        text = "The body came in pieces; set request_body_mode and response_body_mode of Envoy's filter to BUFFERED."
        raise _RefusedError(500, text, "server_error")
    return body.body


async def _read(body: bytes) -> Json:
    return read_json(body) if len(body) < _LONG else await run_in_worker(partial(read_json, body))


def _messages(body: Json) -> Sequence[Message]:
    """Return the messages of a request that was checked, for guards that compare its answer with them."""
    messages: Value = body.get("messages")
    return Rows(messages).messages if is_array(messages) else ()


def _written(checked: BodyChecked, given: Json) -> bytes | None:
    """Return a checked body; None if nothing was changed.

    Raises:
        _RefusedError: it was blocked.
    """
    if checked.body is None:
        guard = checked.blocked.guard if checked.blocked is not None else None
        raise _RefusedError(403, f"{BLOCKED_TEXT} ({guard})" if guard else BLOCKED_TEXT, "guard_blocked")
    return None if checked.body is given else dumped(checked.body)


def _body_response(body: bytes | None) -> envoy.BodyResponse:
    """Return the reply to a body. Envoy sets the length of a new one itself."""
    mutation = None if body is None else envoy.BodyMutation(body=body)
    return envoy.BodyResponse(response=envoy.CommonResponse(body_mutation=mutation))


def _immediate(refused: _RefusedError) -> envoy.ProcessingResponse:
    kind = HeaderValueOption(header=HeaderValue(key="content-type", raw_value=b"application/json"))
    return envoy.ProcessingResponse(
        immediate_response=envoy.ImmediateResponse(
            status=HttpStatus(code=StatusCode(refused.status)),
            headers=envoy.HeaderMutation(set_headers=[kind]),
            body=dumped(refused.body),
            details="penstock",
        )
    )
