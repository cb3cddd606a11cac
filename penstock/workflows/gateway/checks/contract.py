"""`Contract`: how another product asks for a check, and how it is answered; and the route that serves one over HTTP.

All contracts read their bodies in one way: JSON in UTF-8 with a limit, each key once, no half surrogate pairs. An
error is told in the contract's own form, with its place and without any text of the request.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio

from penstock.engine.execution.boundary import log
from penstock.engine.values.errors import MessageError, MissingExtraError, without_text
from penstock.engine.workers import run_in_worker
from penstock.formats.wire import is_object
from penstock.workflows.gateway.checks.core import BODY_LIMIT
from penstock.workflows.web.client_request import RequestError, read_object
from penstock.workflows.web.sse import dumped

try:
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtraError("penstock.workflows.gateway.checks", "serve") from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.checks.core import Guards


_LONG = 100_000  # bytes from which a body is parsed off the event loop

BAD_REQUEST, TOO_LARGE, FAILED = 400, 413, 500


@dataclass(frozen=True, slots=True)
class CheckReply:
    """An answer: the HTTP status, and the JSON object."""

    body: Json
    status: int = 200


@dataclass(frozen=True, slots=True)
class CheckRefusal:
    """A request that was not checked.

    Attributes:
        status: 400 for a malformed request, 413 for one that is too large, 500 for a failure on our side.
        place: where in the request the problem is, such as ``messages[3].content``; empty for the whole.
        problem: the problem and its cure; it quotes nothing of the request.
    """

    status: int
    place: str
    problem: str

    def __str__(self) -> str:
        """Return place and problem in one sentence."""
        return f"{self.place}: {self.problem}" if self.place else self.problem


Check: TypeAlias = "Callable[[Workflow, Json], Awaitable[CheckReply]]"


class CheckRoute(Route):
    """A route of a contract, which also knows how the contract says no.

    Args:
        path: the path.
        endpoint: answers a request.
        refused: as in `Contract`.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        refused: Callable[[CheckRefusal], CheckReply],
    ) -> None:
        super().__init__(path, endpoint, methods=["POST"])
        self._refused = refused

    def refusal(self, status: int, problem: str) -> Response:
        """Return the answer to a request that is refused before it is checked, such as one without a key.

        Some products take an error for a pass. The answer is in the contract's form, so it is none there.
        """
        return _response(self._refused(CheckRefusal(status, "", problem)))


def _response(reply: CheckReply) -> Response:
    return Response(dumped(reply.body), reply.status, media_type="application/json")


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract.

    Attributes:
        paths: the paths at which it is served.
        check: checks the body of a request; raises `MessageError` if that is malformed.
        refused: returns the answer to a request that was not checked.
        seconds: after how many seconds a request counts as not checked, because the product takes silence for a pass
            soon after that; None: never.
    """

    paths: tuple[str, ...]
    check: Check
    refused: Callable[[CheckRefusal], CheckReply]
    seconds: float | None = None

    def routes(self, guards: Guards, limit: int = BODY_LIMIT) -> list[CheckRoute]:
        """Return its routes.

        Args:
            guards: returns the workflow that a request is checked with.
            limit: how many bytes a body may have.
        """

        async def endpoint(request: Request) -> Response:
            return _response(await self._reply(request, guards, limit))

        return [CheckRoute(path, endpoint, self.refused) for path in self.paths]

    async def _reply(self, request: Request, guards: Guards, limit: int) -> CheckReply:
        with anyio.move_on_after(self.seconds):
            return await self._checked(request, guards, limit)
        problem = f"the check took more than {self.seconds} seconds; the product would take silence for a pass"
        return self.refused(CheckRefusal(FAILED, "", problem))

    async def _checked(self, request: Request, guards: Guards, limit: int) -> CheckReply:
        try:
            body = await _body(request, limit)
            if body is None:
                problem = f"the body has more than {limit} bytes; send less at once, or raise the limit of the server"
                return self.refused(CheckRefusal(TOO_LARGE, "", problem))
            quick = len(body) < _LONG
            given = read_json(body) if quick else await run_in_worker(partial(read_json, body))
            return await self.check(guards(), given)
        except (MessageError, RecursionError) as error:
            return self.refused(refusal_of(error))
        except ClientDisconnect:
            return self.refused(CheckRefusal(BAD_REQUEST, "", "the client left"))
        except Exception as error:  # noqa: BLE001 - whatever failed, the contract says that nothing may pass
            log.error("%s: a check failed with %s", self.paths[0], without_text(error))
            return self.refused(CheckRefusal(FAILED, "", "the check failed; the log of the server says where"))


def refusal_of(error: MessageError | RecursionError) -> CheckRefusal:
    """Return the refusal of a malformed request."""
    if isinstance(error, MessageError):
        return CheckRefusal(BAD_REQUEST, error.place.lstrip("."), error.problem)
    return CheckRefusal(BAD_REQUEST, "body", "it is nested too deep; flatten it")


async def _body(request: Request, limit: int) -> bytes | None:
    """Return the body of a request; None if it is longer than the limit, of which no more is read."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > limit:
        return None
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def read_json(body: bytes) -> Json:
    """Return the JSON object of a body.

    Raises:
        RequestError: it is no JSON object in UTF-8, has a key twice, is nested too deep, or holds half a surrogate
            pair, or a number that is not finite.
    """
    try:
        found: Value = json.loads(body.decode(), object_pairs_hook=_once)
    except RecursionError:
        raise RequestError("body", "it is nested too deep; flatten it") from None
    except ValueError:
        return read_object(body)  # which says what is wrong with it
    checked = read_object(found if is_object(found) else body)
    return found if is_object(found) else checked


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object, each key of which stands there once: of two, readers take a different one."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise RequestError("", "an object has the same key twice; send each key once")
    return made
