"""OpenTelemetry: spans and metrics of requests, stages, steps, model calls and tool calls (extra ``otel``)."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
