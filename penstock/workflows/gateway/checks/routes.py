"""All contracts as routes, and as an application of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.gateway.checks.core import BODY_LIMIT

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from penstock.workflows.gateway.checks.contract import CheckRoute
    from penstock.workflows.gateway.checks.core import Guards


def check_routes(guards: Guards, *, limit: int = BODY_LIMIT) -> list[CheckRoute]:
    """Return the routes of all contracts.

    Args:
        guards: returns the workflow that a request is checked with. It is called for each request.
        limit: how many bytes a body may have.

    Raises:
        MissingExtraError: the extra ``serve`` is not installed.
    """
    from penstock.workflows.gateway.checks import agentgateway, litellm, moderations, own, portkey  # need an extra

    contracts = (
        own.CONTRACT,
        moderations.CONTRACT,
        litellm.CONTRACT,
        agentgateway.REQUEST,
        agentgateway.RESPONSE,
        portkey.CONTRACT,
    )
    return [route for contract in contracts for route in contract.routes(guards, limit)]


def checks_app(guards: Guards, *, limit: int = BODY_LIMIT) -> Starlette:
    """Return an ASGI application that serves the contracts and nothing else. It asks for no key: put it behind one.

    Args:
        guards: as for `check_routes`.
        limit: as for `check_routes`.

    Raises:
        MissingExtraError: the extra ``serve`` is not installed.
    """
    routes = check_routes(guards, limit=limit)
    from starlette.applications import Starlette

    return Starlette(routes=list(routes))
