"""The endpoints of requests that wait: operators list them and decide, clients ask how theirs stand."""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING, Protocol, cast, get_args

from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Endpoint

from penstock.engine.values.errors import PenstockError, ReviewError, StorageError
from penstock.engine.values.stored import RunStatus
from penstock.formats.wire import is_object
from penstock.workflows.gateway.claims import AGENT
from penstock.workflows.gateway.json_text import read_json
from penstock.workflows.gateway.reviewing import PREFIX
from penstock.workflows.gateway.served import Served
from penstock.workflows.gateway.serving.asgi import headers_of
from penstock.workflows.gateway.serving.refusals import NotServedError
from penstock.workflows.gateway.upstreams.headers import client_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from penstock.engine.values.frozen import Value
    from penstock.formats.wire import Json
    from penstock.workflows.gateway.serving.routes import Routes
    from penstock.workflows.review.reviews import Reviews
    from penstock.workflows.review.waiting import WaitingRun

LOG = logging.getLogger("penstock.gateway")

_LISTED, _MOST_LISTED = 50, 200
_MOST_BYTES = 1_000_000
_BODIES: dict[str, dict[str, type | None]] = {
    "approve": {"call": str, "arguments": None},
    "reject": {"call": str, "reason": str},
    "answer": {"call": str, "value": None},
}
"""The fields of the bodies of decisions, each with the type of its value; None: any JSON value."""


class Reviewed(Protocol):
    """The parts of a gateway that these endpoints use."""

    @property
    def routes(self) -> Routes:
        """The routes in use."""
        ...

    def served(self, served: Served) -> None:
        """Log and count a request."""
        ...


def review_endpoints(gateway: Reviewed) -> list[Endpoint]:
    """Return the routes of the endpoints."""
    api = _OperatorEndpoints(gateway)
    path = "/v1/reviews/{id}"
    return [
        Endpoint("/v1/reviews", api.logged(api.listed), methods=["GET"]),
        Endpoint(path, api.logged(api.shown), methods=["GET"]),
        Endpoint(f"{path}/status", api.logged(api.status), methods=["GET"]),
        *(
            Endpoint(f"{path}/{verdict}", api.logged(api.decision(verdict)), methods=["POST"])
            for verdict in ("approve", "reject", "answer")
        ),
    ]


class _OperatorEndpoints:
    """The endpoints. A request is logged with its status and who sent it, and nothing of what it is about."""

    def __init__(self, gateway: Reviewed) -> None:
        self._gateway = gateway

    def logged(self, handle: Callable[[Request, Served], Awaitable[Value]]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that answers with JSON, or with an error in words, and is logged and counted."""

        async def endpoint(request: Request) -> Response:
            began = time.monotonic()
            served = Served(request_id=f"req-{secrets.token_hex(12)}", endpoint="reviews", status=200)
            served.review = str(request.path_params.get("id", ""))[:80]
            try:
                return JSONResponse(await handle(request, served), headers={"cache-control": "no-store"})
            except NotServedError as error:
                return _refused(error, served)
            except ReviewError as error:
                return _refused(NotServedError(409, "not_possible", error.problem), served)
            except StorageError as error:  # no traceback: the words of a driver may quote what is stored
                LOG.error("the store of reviews cannot be used: %s", type(error).__name__)  # noqa: TRY400
                return _refused(NotServedError(503, "store_failed", "the store of reviews cannot be used"), served)
            except PenstockError as error:
                return _refused(NotServedError(400, "invalid_request", str(error)), served)
            finally:
                served.seconds = time.monotonic() - began
                self._gateway.served(served)

        return endpoint

    async def listed(self, request: Request, served: Served) -> Value:
        """Return requests: those that wait with the oldest first, others with the newest first."""
        reviews = self._operated(request, served)
        query = request.query_params
        status = query.get("status", "waiting")
        if status not in (*get_args(RunStatus), "all"):
            raise NotServedError(400, "invalid_request", "status is waiting, running, ended or all")
        limit = query.get("limit", str(_LISTED))
        if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit[:9]) <= _MOST_LISTED:
            raise NotServedError(400, "invalid_request", f"limit is a number from 1 to {_MOST_LISTED}")
        page = await reviews.runs(
            status=None if status == "all" else cast("RunStatus", status),
            limit=int(limit),
            after=query.get("after"),
            newest_first=status != "waiting",
        )
        found = [run.to_json() for run in page.items if _is_ours(run)]
        return {"object": "list", "data": found, "following": page.following}

    async def shown(self, request: Request, served: Served) -> Value:
        """Return a request, as the guards left it."""
        return (await self._found(self._operated(request, served), request)).to_json()

    async def status(self, request: Request, served: Served) -> Value:
        """Return how a request of the client stands, and nothing of its content."""
        routes = self._gateway.routes
        served.client = routes.client(client_key(headers_of(request.scope)))
        if routes.reviews is None:
            raise NotServedError(404, "not_found", "no request waits here; name a store under reviews:")
        run = await self._found(routes.reviews, request)
        if (run.resource_id or "") != served.client:
            raise _unknown()
        return {"id": run.run_id, "object": "review", "status": _standing(run, routes.reviews)}

    def decision(self, verdict: str) -> Callable[[Request, Served], Awaitable[Value]]:
        """Return the endpoint of a decision."""

        async def decide(request: Request, served: Served) -> Value:
            reviews = self._operated(request, served)
            run = await self._found(reviews, request)
            body = await _body(request, _BODIES[verdict])
            call, by = body.get("call"), served.client
            if verdict == "approve":
                made = await reviews.approve(run.run_id, call, arguments=body.get("arguments"), by=by)
            elif verdict == "reject":
                made = await reviews.reject(run.run_id, call, reason=body.get("reason", ""), by=by)
            elif call is None or "value" not in body:
                raise NotServedError(400, "invalid_request", "an answer needs a call and a value")
            else:
                made = await reviews.answer(run.run_id, call, body["value"], by=by)
            LOG.info("review %s: %s by the operator %s", run.run_id, verdict, by)
            return made.to_json()

        return decide

    def _operated(self, request: Request, served: Served) -> Reviews:
        """Return the reviews for an operator, whose name goes into the log.

        Raises:
            NotServedError: it is none, or nothing waits here.
        """
        routes = self._gateway.routes
        served.client = routes.operator(client_key(headers_of(request.scope)))
        return cast("Reviews", routes.reviews)

    async def _found(self, reviews: Reviews, request: Request) -> WaitingRun:
        id = request.path_params["id"]
        if not id.startswith(PREFIX):
            raise _unknown()
        try:
            return await reviews.run(id)
        except ReviewError:
            raise _unknown() from None


def _unknown() -> NotServedError:
    return NotServedError(404, "not_found", "there is no request with this number")


def _is_ours(run: WaitingRun) -> bool:
    """Return whether a gateway has stored a request: agents may use the same store."""
    return run.run_id.startswith(PREFIX) and run.agent.startswith(AGENT)


def _standing(run: WaitingRun, reviews: Reviews) -> str:
    if run.status != "waiting":
        return "used" if run.status == "ended" else "in use"
    if reviews.is_over(run.due_at):
        return "expired"
    if any(call.decision is not None and call.decision.verdict == "reject" for call in run.calls):
        return "rejected"
    return "waiting" if run.undecided else "decided"


def _refused(error: NotServedError, served: Served) -> Response:
    served.status, served.outcome, served.error = error.status, "refused", error.code
    body = {"error": {"message": error.message, "type": "invalid_request_error", "param": None, "code": error.code}}
    return JSONResponse(body, error.status, headers=dict(error.headers))


async def _body(request: Request, fields: dict[str, type | None]) -> Json:
    """Return the body of a decision.

    Raises:
        NotServedError: it is too long, no JSON object, or has other fields.
    """
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > _MOST_BYTES:
            raise NotServedError(413, "too_large", f"the body is longer than {_MOST_BYTES} bytes")
    try:
        body: Value = read_json(bytes(read)) if read else {}
    except (ValueError, RecursionError):
        body = None
    if not is_object(body):
        raise NotServedError(400, "invalid_json", "send a JSON object")
    for name, value in body.items():
        if name not in fields:
            known = ", ".join(fields)
            raise NotServedError(400, "invalid_request", f"a field is unknown; the fields are {known}")
        wanted = fields[name]
        if wanted is not None and not isinstance(value, wanted):
            raise NotServedError(400, "invalid_request", f"{name} is a text")
    return body
