"""Over the wire: the official exporter sends to a collector of ours, which decodes what arrives."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from penstock import Agent, InputContext, PIIDetector, processor, tool
from penstock.testing import ScriptedModel
from penstock.workflows.telemetry import OpenTelemetryObserver, names
from tests.workflows.telemetry.otlp_receiver import Collector, collector


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


@processor("process_input", edits="nothing", on_error="allow")
def breaks(ctx: InputContext) -> None:
    """Fail."""
    raise ValueError


def attributes(span: Span) -> dict[str, Any]:
    """Return the attributes of a span as they were sent."""
    return {item.key: getattr(item.value, str(item.value.WhichOneof("value"))) for item in span.attributes}


async def ask(found: Collector) -> None:
    """Make a request, and send everything."""
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{found.url}/v1/traces", timeout=2)))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{found.url}/v1/metrics", timeout=2), 1e9)
    meters = MeterProvider([reader], shutdown_on_exit=False)
    agent = Agent(
        ScriptedModel([{"tool_calls": [{"name": "weather", "args": {"city": "Rome"}}]}, "Mail bob@example.com."]),
        tools=[weather],
        processors=[PIIDetector(strategy="redact"), breaks],
        observers=[OpenTelemetryObserver(tracers, meters)],
    )
    result = await agent.generate("Weather?", thread_id="thread-1")
    assert result.status == "success"
    tracers.force_flush(5_000)
    meters.force_flush(5_000)
    tracers.shutdown()
    meters.shutdown(5_000)


async def test_a_collector_gets_spans_in_their_order_and_with_their_parents() -> None:
    """As bytes of OTLP, over HTTP."""
    with collector() as found:
        await ask(found)
    spans = {span.span_id: span for span in found.spans}
    (request,) = [span for span in found.spans if not span.parent_span_id]
    assert request.name == "invoke_agent agent"
    assert {span.trace_id for span in found.spans} == {request.trace_id}
    assert all(span.parent_span_id in spans for span in found.spans if span is not request)
    (executed,) = [span for span in found.spans if span.name == "execute_tool weather"]
    assert spans[executed.parent_span_id].name == "model_step"
    chats = [span for span in found.spans if span.name == "chat scripted"]
    assert [span.kind for span in chats] == [Span.SpanKind.SPAN_KIND_CLIENT] * 2
    assert all(attributes(span)[names.CONVERSATION_ID] == "thread-1" for span in chats)
    (failed,) = [span for span in found.spans if span.name == "step breaks"]
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert attributes(failed)[names.ERROR_TYPE] == "ValueError"
    edited = [event for span in found.spans for event in span.events if event.name == names.EDIT_EVENT]
    assert len(edited) == 1


async def test_a_collector_gets_the_metrics() -> None:
    """With their units."""
    with collector() as found:
        await ask(found)
    units = {metric.name: metric.unit for metric in found.metrics}
    assert units == {
        names.TOKEN_USAGE: "{token}",
        names.OPERATION_DURATION: "s",
        names.TIME_TO_FIRST_CHUNK: "s",
        names.REQUEST_DURATION: "s",
        names.TOOL_DURATION: "s",
        names.STEP_DURATION: "s",
        names.EDIT_COUNT: "{edit}",
        names.FAILURES: "{failure}",
        names.HELD_CHARACTERS: "{character}",
    }


async def test_a_collector_that_refuses_disturbs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    """The exporter logs it, and gives up."""
    with collector() as found, caplog.at_level(logging.CRITICAL):
        found.status = 400
        await ask(found)
    assert found.spans == []
