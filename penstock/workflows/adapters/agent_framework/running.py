"""Middleware that belongs to the request of an agent's run, or opens a request for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.workflows.hosting import Host, HostRequest

CallNext = Callable[[], Awaitable[None]]


class Bound:
    """Middleware that may belong to the request of an agent's run; without one, each call is its own request."""

    def __init__(self, host: Host, request: HostRequest | None = None) -> None:
        self.host = host
        self.request = request

    def bound(self, request: HostRequest) -> Bound:
        """Return the middleware for one request."""
        return type(self)(self.host, request)


class Closing:
    """Closes a request after an error, and its own one in any case."""

    def __init__(self, request: HostRequest, *, owns: bool) -> None:
        self._request = request
        self._owns = owns

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None or self._owns:
            await self._request.close(error)
