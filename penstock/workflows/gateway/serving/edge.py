"""The edge of the gateway: health, metrics, the list of models and reviews, with Starlette."""

from __future__ import annotations

import secrets
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Endpoint

from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.checks.core import add_results, results_heard
from penstock.workflows.gateway.checks.routes import check_routes
from penstock.workflows.gateway.endpoints.registry import ENDPOINTS, closed_because
from penstock.workflows.gateway.http import HttpRequest, UpstreamError
from penstock.workflows.gateway.json_text import read_json
from penstock.workflows.gateway.served import Served
from penstock.workflows.gateway.serving.asgi import headers_of
from penstock.workflows.gateway.serving.metrics import CONTENT_TYPE
from penstock.workflows.gateway.serving.refusals import NotServedError
from penstock.workflows.gateway.serving.reviews import review_endpoints
from penstock.workflows.gateway.tables import is_term
from penstock.workflows.gateway.upstreams.headers import client_key
from penstock.workflows.gateway.upstreams.pool import Trip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Value
    from penstock.workflows.gateway.checks.contract import CheckRoute
    from penstock.workflows.gateway.checks.core import CheckResult
    from penstock.workflows.gateway.serving.asgi import Event, Receive, Scope, Send
    from penstock.workflows.gateway.serving.metrics import GatewayMetrics
    from penstock.workflows.gateway.serving.routes import Route, Routes

_OK = 200


class Shown(Protocol):
    """The parts of a gateway that the edge shows."""

    @property
    def routes(self) -> Routes:
        """The routes in use."""
        ...

    @property
    def metrics(self) -> GatewayMetrics:
        """Its metrics."""
        ...

    def served(self, served: Served) -> None:
        """Log and count a request."""
        ...

    def readiness(self) -> dict[str, str | int | list[str]]:
        """Return whether it takes requests."""
        ...


def edge_app(gateway: Shown) -> Starlette:
    """Return the application for everything but the endpoints.

    Args:
        gateway: the gateway.
    """
    edge = _Edge(gateway)
    return Starlette(
        routes=[
            Endpoint("/healthz", edge.health, methods=["GET"]),
            Endpoint("/readyz", edge.readiness, methods=["GET"]),
            Endpoint("/metrics", edge.metrics, methods=["GET"]),
            Endpoint("/v1/models", edge.models, methods=["GET"]),
            Endpoint("/v1/models/{id:path}", edge.model, methods=["GET"]),
            *review_endpoints(gateway),
            *(Endpoint(route.path, _Check(gateway, route)) for route in check_routes(lambda: _guards(gateway))),
        ],
        exception_handlers={404: _not_found, 405: _not_found},
    )


def _guards(gateway: Shown) -> Workflow:
    """Return the guards of the checks.

    Raises:
        LookupError: there are none any more; `_Check` lets no request here without any.
    """
    found = gateway.routes.checks
    if found is None:
        raise LookupError("the policy of the checks has gone with the last reload")  # so the check fails, and blocks
    return found


class _Check:
    """A check for other products: it needs a policy for them, and a key where clients have keys.

    Refusals are in the form of the product, since some products take an error for a pass.
    """

    def __init__(self, gateway: Shown, route: CheckRoute) -> None:
        self._gateway = gateway
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a check, or refuse it; log and count it."""
        began = time.monotonic()
        served = Served(request_id=f"req-{secrets.token_hex(12)}", endpoint=f"check {self._route.path}")

        async def sent(message: Event) -> None:
            if message["type"] == "http.response.start":
                served.status = message["status"]
            served.bytes_out += len(message.get("body", b""))
            await send(message)

        results: Sequence[CheckResult] = ()
        try:
            with results_heard() as results:
                await self._answer(scope, receive, sent, served)
        finally:
            if not served.error:
                served.outcome = "ok" if served.status in range(200, 400) else "refused" if served.status else "error"
            add_results(served, results)
            served.seconds = time.monotonic() - began
            self._gateway.served(served)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, served: Served) -> None:
        routes = self._gateway.routes
        if routes.checks is None:
            served.outcome, served.error = "refused", "not_found"
            told = self._route.refusal(404, "there are no checks here; name their policy under checks:")
            await told(scope, receive, send)
            return
        try:
            served.client = routes.client(client_key(headers_of(scope)))
        except NotServedError as error:
            served.outcome, served.error = "refused", error.code
            await self._route.refusal(error.status, error.message)(scope, receive, send)
            return
        await self._route.handle(scope, receive, send)


async def _not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    message = f"there is nothing at this path that the gateway could guard; it serves {', '.join(ENDPOINTS)}"
    return _error(NotServedError(status, "not_found", closed_because(request.url.path) or message))


def _error(error: NotServedError) -> Response:
    kind = "invalid_request_error"
    body = {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}
    return JSONResponse(body, error.status, headers=dict(error.headers))


class _Edge:
    """The handlers of the edge."""

    def __init__(self, gateway: Shown) -> None:
        self._gateway = gateway

    async def health(self, request: Request) -> Response:
        """Tell that the process works."""
        del request
        return JSONResponse({"status": "ok"})

    async def readiness(self, request: Request) -> Response:
        """Tell whether the gateway takes requests, and whether its newest files are in use."""
        del request
        told = self._gateway.readiness()
        return JSONResponse(told, 200 if told["status"] == "ready" else 503)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics."""
        del request
        return Response(self._gateway.metrics.page(), headers={"content-type": CONTENT_TYPE})

    async def models(self, request: Request) -> Response:
        """Return the models that this client may use, as its providers list them."""
        try:
            return JSONResponse({"object": "list", "data": await self._models(request)})
        except NotServedError as error:
            return _error(error)

    async def model(self, request: Request) -> Response:
        """Return one of the models that this client may use."""
        try:
            listed = await self._models(request)
        except NotServedError as error:
            return _error(error)
        found = next((model for model in listed if model.get("id") == request.path_params["id"]), None)
        if found is None:
            return _error(NotServedError(404, "model_not_found", "you can use no model of this name"))
        return JSONResponse(found)

    async def _models(self, request: Request) -> list[Value]:
        """Return the models that this client may use.

        Raises:
            NotServedError: the key is unknown, or a provider does not answer, or not with a list.
        """
        routes = self._gateway.routes
        headers = headers_of(request.scope)
        client = routes.client(client_key(headers))
        try:
            return await _models(routes, client, HttpRequest("GET", "/v1/models", headers, query=request.url.query))
        except UpstreamError as error:
            raise NotServedError(error.status, f"upstream_{error.kind}", str(error)) from None


async def _models(routes: Routes, client: str, asked: HttpRequest) -> list[Value]:
    """Return the models that a client may use: of each route, those of its providers that its patterns take.

    Raises:
        UpstreamError: a provider does not answer.
        NotServedError: a provider answers with an error, or no list.
    """
    found: dict[str, Value] = {}
    asked_before: dict[tuple[str, ...], list[Value]] = {}
    for route in routes.routes:
        if route.section.keys and not any(fnmatchcase(client, pattern) for pattern in route.section.keys):
            continue
        names = tuple(provider.name for provider in route.pool.providers)
        if names not in asked_before:
            asked_before[names] = await _listed(route, asked)
        for model in asked_before[names]:
            id = model.get("id") if is_object(model) else None
            if isinstance(id, str) and route.takes_model(id):
                found.setdefault(id, _plain(model))
    return list(found.values())


async def _listed(route: Route, asked: HttpRequest) -> list[Value]:
    async with route.pool.bound(Trip()).send(asked) as reply:
        body = b"".join([piece async for piece in reply.pieces()])
    try:
        value = read_json(body) if reply.status == _OK else None
    except (ValueError, RecursionError):
        value = None
    models = value.get("data") if is_object(value) else None
    if not is_array(models):
        raise NotServedError(502, "no_models", "the provider answers with no list of models")
    return list(models)


_KNOWN = ("id", "object", "type", "created", "created_at", "owned_by", "display_name")


def _plain(model: Value) -> Value:
    """Return the known fields of a model that hold words of a provider only; others may hold any text."""
    return {name: model[name] for name in _KNOWN if _is_plain(model.get(name))}


def _is_plain(value: Value) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and all(map(is_term, value.split(" "))))
