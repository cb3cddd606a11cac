"""`OpenTelemetryObserver`: sends spans and metrics of runs to OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.telemetry.names import SCHEMA_URL, SCOPE, is_wanted

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from penstock.engine.run.run import Run
    from penstock.engine.values.tripwire import Record
    from penstock.workflows.telemetry.run_spans import RunSpans


class OpenTelemetryObserver:
    """An observer that makes a span of each request, stage, step, model call and tool call, and measures them.

    Pass it in ``observers=[…]`` to an `Agent`, `Workflow.check` or `Workflow.start`. One observer serves any number of
    concurrent requests. While a hook, a model or a tool is called, its span is the current one, so that spans of HTTP
    clients and databases become its children. A request is a child of the span that is current where it starts.

    Args:
        tracer_provider: where spans go. Default: the global provider at the time of the first run.
        meter_provider: where measurements go. Default: the global provider at that time.
        content: whether spans have texts: the prompt as it is sent to the model, the arguments of tool calls, and the
            conversation as a request leaves it. All of these are texts after the guards. None: only if the environment
            variable ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``true``, ``SPAN_ONLY`` or
            ``SPAN_AND_EVENT``.

    Raises:
        MissingExtraError: the extra ``otel`` is not installed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool | None = None,
    ) -> None:
        try:
            from opentelemetry.metrics import get_meter
            from opentelemetry.trace import get_tracer
        except ImportError as error:
            raise MissingExtraError("OpenTelemetryObserver", "otel") from error
        from penstock import __version__
        from penstock.workflows.telemetry.metrics import Metrics
        from penstock.workflows.telemetry.run_spans import RunSpans

        self._tracer = get_tracer(SCOPE, __version__, tracer_provider, SCHEMA_URL)
        self._metrics = Metrics(get_meter(SCOPE, __version__, meter_provider, SCHEMA_URL))
        self._content = is_wanted(content)
        self._spans = RunSpans

    def for_run(self, run: Run) -> RunSpans:
        """Return the observer of one run."""
        return self._spans(self._tracer, self._metrics, run, content=self._content)

    def on_record(self, record: Record) -> None:
        """Make a span of the record of an ended run, as a child of the current span, and count its results."""
        self._spans(self._tracer, self._metrics, None, content=False).add_record(record)
