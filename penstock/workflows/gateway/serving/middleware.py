"""`GatewayMiddleware`: the gateway's endpoints in front of an ASGI application that exists already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway

if TYPE_CHECKING:
    import os

    from penstock.workflows.gateway.serving.asgi import App, Receive, Scope, Send


class GatewayMiddleware:
    """Serves the gateway's endpoints, and hands everything else to the application.

    ::

        app = GatewayMiddleware(app, "gateway.yaml")       # any ASGI application
        app.add_middleware(GatewayMiddleware, gateway="gateway.yaml")  # Starlette, FastAPI

    Health, metrics and the list of models are the application's. Its connections to providers are
    opened and closed with the lifespan of the application.

    Args:
        app: the application.
        gateway: a gateway, or the path of a gateway file.

    Raises:
        PolicyError: the file has problems.
    """

    def __init__(self, app: App, gateway: Gateway | str | os.PathLike[str]) -> None:
        self._app = app
        path = gateway
        self.gateway = path if isinstance(path, Gateway) else Gateway(lambda: read_gateway(path))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] == "http" and self.gateway.serves(scope["path"]):
            await self.gateway(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.gateway.running():
            await self._app(scope, receive, send)
