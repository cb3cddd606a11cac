"""Spans and measurements that a test has collected in memory, and how to ask about them."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from penstock.workflows.telemetry import OpenTelemetryObserver


class Open(SpanProcessor):
    """Knows which spans have begun and not ended."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self.names[span.get_span_context().span_id] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        self.names.pop(span.get_span_context().span_id)


class Collected:
    """An observer with providers of its own, and what it has sent to them."""

    def __init__(self, *, content: bool | None = False, sampler: Sampler | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.opened = Open()
        self.provider.add_span_processor(self.opened)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._reader = InMemoryMetricReader()
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.observer = OpenTelemetryObserver(self.provider, self._meters, content=content)
        self.tracer = self.provider.get_tracer("the test")

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order of their starts."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: (span.start_time, -span.end_time))

    @property
    def still_open(self) -> list[str]:
        """The names of the spans that have begun and not ended, once nobody holds their runs."""
        gc.collect()
        return list(self.opened.names.values())

    def span(self, name: str) -> ReadableSpan:
        """The one span with that name."""
        (found,) = self.named(name)
        return found

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans with that name."""
        return [span for span in self.spans if span.name == name]

    def above(self, span: ReadableSpan) -> ReadableSpan | None:
        """The parent of a span, if it is one of ours."""
        ids = {one.context.span_id: one for one in self.spans}
        return None if span.parent is None else ids.get(span.parent.span_id)

    def parents(self, name: str) -> list[str]:
        """The names of the spans around the one span with that name, the nearest first."""
        found: list[str] = []
        span = self.above(self.span(name))
        while span is not None:
            found.append(span.name)
            span = self.above(span)
        return found

    def tree(self) -> list[str]:
        """The names of all spans, each indented by its depth, in the order of their starts."""
        return [f"{'  ' * len(self._depth(span))}{span.name}" for span in self.spans]

    def _depth(self, span: ReadableSpan) -> list[ReadableSpan]:
        above = self.above(span)
        return [] if above is None else [above, *self._depth(above)]

    def points(self, name: str) -> list[Any]:
        """The data points of a metric; none if it was not measured."""
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return [
            point
            for scope in scopes
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def counted(self, name: str, *about: str) -> dict[tuple[object, ...], float]:
        """What a counter or histogram has counted, by the values of some attributes."""
        found: dict[tuple[object, ...], float] = {}
        for point in self.points(name):
            key = tuple(point.attributes.get(attribute) for attribute in about)
            found[key] = found.get(key, 0) + (point.value if hasattr(point, "value") else point.sum)
        return found


def events(span: ReadableSpan, name: str) -> list[Mapping[str, object]]:
    """The attributes of a span's events with that name."""
    return [dict(event.attributes or {}) for event in span.events if event.name == name]
