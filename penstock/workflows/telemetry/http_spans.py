"""`HttpSpans`: a span of OpenTelemetry for each request that the gateway serves, within the trace of its client."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.telemetry.names import SCHEMA_URL, SCOPE

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry.trace import Span, TracerProvider


class HttpSpans:
    """Makes a span of the kind *server* for each request. Runs of guards, and calls of providers, are its children.

    Args:
        tracer_provider: where spans go. Default: the global provider.

    Raises:
        MissingExtraError: the extra ``otel`` is not installed.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError as error:
            raise MissingExtraError("traces of the gateway", "otel") from error
        from penstock import __version__

        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider, SCHEMA_URL)
        self._server = trace.SpanKind.SERVER
        self._extract = propagate.extract
        self._inject = propagate.inject

    @contextmanager
    def request(self, headers: tuple[tuple[str, str], ...], method: str, path: str) -> Generator[HttpSpan]:
        """Open the span of a request; it is the current one within the block.

        Args:
            headers: the headers of the request; ``traceparent`` names its parent.
            method: the method.
            path: the path of the endpoint.
        """
        context = self._extract(dict(headers))
        attributes = {"http.request.method": method, "http.route": path, "url.path": path}
        with self._tracer.start_as_current_span(
            f"{method} {path}",
            context,
            self._server,
            attributes,
            record_exception=False,  # the text of an exception may quote a text
            set_status_on_exception=False,
        ) as span:
            yield HttpSpan(span, self)

    def inject(self, headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Return headers with the context of the current span, in place of the one that came."""
        carrier: dict[str, str] = {}
        self._inject(carrier)
        kept = tuple(one for one in headers if one[0] not in carrier)
        return (*kept, *carrier.items())


class HttpSpan:
    """The span of one request.

    Args:
        span: the span.
        spans: puts its context into headers.
    """

    def __init__(self, span: Span, spans: HttpSpans) -> None:
        self._span = span
        self._spans = spans

    def trace_id(self) -> str:
        """Return the id of its trace; empty if there is none."""
        context = self._span.get_span_context()
        return f"{context.trace_id:032x}" if context.is_valid else ""

    def outgoing(self, headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Return the headers of a request to a provider, with the context of the trace."""
        return self._spans.inject(headers)

    def set(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Set attributes of the span."""
        self._span.set_attributes(attributes)

    def fail(self) -> None:
        """Mark the span as failed."""
        from opentelemetry.trace import StatusCode

        self._span.set_status(StatusCode.ERROR)
