"""The trace of a request: taken over from the client, and passed on to the provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    from penstock.workflows.gateway.http import Headers
    from penstock.workflows.gateway.served import Served


_SERVER_ERROR = 500


class Traces(Protocol):
    """Makes a span of each request; see `penstock.workflows.telemetry.http_spans`."""

    def request(self, headers: Headers, method: str, path: str) -> AbstractContextManager[RequestTrace]:
        """Open the span of a request; it is the current one within the block."""
        ...


class RequestTrace(Protocol):
    """The span of one request."""

    def trace_id(self) -> str:
        """Return the id of its trace; empty if there is none."""
        ...

    def outgoing(self, headers: Headers) -> Headers:
        """Return the headers of a request to a provider, with the context of the trace."""
        ...

    def set(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Set attributes of the span."""
        ...

    def fail(self) -> None:
        """Mark the span as failed."""
        ...


class NoTraces:
    """Makes no spans: the client's ``traceparent`` goes on to the provider as it came."""

    def request(self, headers: Headers, method: str, path: str) -> NoTraces:
        """Do nothing."""
        del headers, method, path
        return self

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""

    def trace_id(self) -> str:
        """Return an empty id."""
        return ""

    def outgoing(self, headers: Headers) -> Headers:
        """Return the headers as they are."""
        return headers

    def set(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Do nothing."""
        del attributes

    def fail(self) -> None:
        """Do nothing."""


def tell(trace: RequestTrace, served: Served) -> None:
    """Set the attributes of the span of a request that has ended. They hold no text of it."""
    if isinstance(trace, NoTraces):
        return
    known: dict[str, str | int] = {
        "http.response.status_code": served.status,
        "penstock.route": served.route,
        "penstock.outcome": served.outcome,
        "gen_ai.request.model": served.model,
        "penstock.upstream": served.upstream,
        "error.type": served.error,
    }
    trace.set({name: value for name, value in known.items() if value})
    if served.status >= _SERVER_ERROR or served.outcome == "error":
        trace.fail()
