"""`Gateway`: the ASGI application of the gateway, with the files that it follows."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.gateway.reviewing import sweep
from penstock.workflows.gateway.served import ACCESS, RecordFile, Served
from penstock.workflows.gateway.serving.edge import edge_app
from penstock.workflows.gateway.serving.metrics import GatewayMetrics
from penstock.workflows.gateway.serving.proxy import LOG, Proxy, RunningCounts, endpoint_of_stream
from penstock.workflows.gateway.serving.reload import FollowedFiles
from penstock.workflows.gateway.serving.routes import RouteState, build_routes
from penstock.workflows.gateway.serving.tracing import NoTraces
from penstock.workflows.gateway.upstreams.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from penstock.engine.values.protocols import Observer
    from penstock.workflows.gateway.config.reading import GatewayDocument
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint
    from penstock.workflows.gateway.serving.asgi import Receive, Scope, Send
    from penstock.workflows.gateway.serving.routes import Routes
    from penstock.workflows.gateway.serving.tracing import Traces


_SWEEP_SECONDS = 3600.0


class Gateway:
    """The gateway as an ASGI application. It answers at its endpoints and its edge, and knows nothing else.

    It opens its connections when its server starts it (``lifespan``), or within `running`.

    Args:
        read: reads the gateway's files. It is called again when one of them changes; while it raises, the last good
            ones stay in use.
        endpoints: the protocols, by path.
        traces: makes spans of requests; None: what clients send as ``traceparent`` goes on as it came.
        observers: see the runs of the guards.
        on_served: gets the record of each request, beside log and metrics.
        look_after: seconds between two looks at the files.

    Attributes:
        counts: how many requests run now.
        metrics: the metrics.
        files: the files that it follows.

    Raises:
        PolicyError: the files have problems.
    """

    def __init__(
        self,
        read: Callable[[], GatewayDocument],
        *,
        endpoints: Mapping[str, Endpoint] = ENDPOINTS,
        traces: Traces | None = None,
        observers: Sequence[Observer] = (),
        on_served: Callable[[Served], None] | None = None,
        look_after: float = 1.0,
    ) -> None:
        self.counts = RunningCounts()
        self.files = FollowedFiles(read, look_after=look_after)
        self.metrics = GatewayMetrics(
            lambda: self.counts.open, lambda: self._is_ready, lambda: self.files.error is None
        )
        self._endpoints = endpoints
        self._observers = tuple(observers)
        self._client = Client()
        self._state = RouteState()
        self._on_served = on_served
        self._records: RecordFile | None = None
        self._proxy = Proxy(lambda: self.routes, self.counts, traces or NoTraces(), self.served)
        self._edge = edge_app(self)
        self._started = False
        self.routes: Routes = self._build(self.files.document)

    @property
    def _is_ready(self) -> bool:
        return self._started and not self.counts.draining

    def readiness(self) -> dict[str, str | int | list[str]]:
        """Return whether it takes requests; and the problems of its files, if the last good ones are in use."""
        status = "ready" if self._is_ready else "draining" if self.counts.draining else "starting"
        told: dict[str, str | int | list[str]] = {"status": status, "open_requests": self.counts.open}
        error = self.files.error
        if error is not None:
            told["files"] = "the last good ones are in use"
            told["problems"] = [str(problem) for problem in error.problems]
        return told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the life of the application."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        endpoint = self._endpoint(scope["path"]) if scope["type"] == "http" else None
        if endpoint is not None:
            await self._proxy.serve(endpoint, scope, receive, send)
        elif scope["type"] == "http":
            await self._edge(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def serves(self, path: str) -> bool:
        """Return whether a path is one of its endpoints."""
        return self._endpoint(path) is not None

    def _endpoint(self, path: str) -> Endpoint | None:
        """Return the endpoint at a path, or the one whose streams are resumed there."""
        found = self._endpoints.get(path)
        if found is None and self.routes.released is not None:
            return self._endpoints.get(endpoint_of_stream(path))
        return found

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Hold its connections open, and follow its files, within the block."""
        await self._client.start()
        path = self.routes.section.log.records
        self._records = None if path is None else RecordFile(path)
        self._started = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.files.follow, self._took, lambda: self.metrics.reloads.add("failed"))
                tasks.start_soon(self._sweep)
                yield
                tasks.cancel_scope.cancel()
        finally:
            self._started = False
            await self._client.close()
            await self._state.close()
            if self._records is not None:
                self._records.close()

    async def _sweep(self) -> None:
        """Delete what waited for operators and is of no use any more, again and again, until it is cancelled."""
        while True:
            reviews, section = self.routes.reviews, self.routes.section.reviews
            if reviews is not None and section is not None:
                try:
                    await sweep(reviews, section.expires_in)
                except Exception as error:  # noqa: BLE001 - a sweep that failed must not be the last
                    LOG.error("old reviews cannot be deleted: %s", type(error).__name__)
            await anyio.sleep(_SWEEP_SECONDS)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            async with self.running():
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
        except OSError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    def _build(self, document: GatewayDocument) -> Routes:
        return build_routes(document, self._client, self._state, self._observers)

    def _took(self, document: GatewayDocument) -> None:
        """Use files that were read again, from the next request on."""
        self.routes = self._build(document)
        LOG.info("the files of the gateway were read again")
        self.metrics.reloads.add("ok")

    def served(self, served: Served) -> None:
        """Log and count a request."""
        self.metrics.add(served)
        if ACCESS.isEnabledFor(logging.INFO):
            ACCESS.info("%s", served)
        if self._records is not None:
            self._records.write(served)
        if self._on_served is not None:
            self._on_served(served)
