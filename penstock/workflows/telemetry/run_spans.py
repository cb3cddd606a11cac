"""`RunSpans`: makes OpenTelemetry spans of the parts of one run.

A request, a model step, a stage, a branch, an attempt, a model call and a tool call begin and end with their part. The
span of a step begins when its first hook is called, and ends with the step.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from opentelemetry.context import attach, detach, get_current
from opentelemetry.trace import SpanKind, StatusCode, get_current_span, set_span_in_context

from penstock.engine.tracing.enclosing import MODEL_CALLS
from penstock.engine.tracing.span_log import SpanObserver
from penstock.engine.values.tripwire import TripwireSignal
from penstock.workflows.telemetry import names
from penstock.workflows.telemetry.attributes import (
    about_step,
    call_attributes,
    counts_of,
    describe,
    end_attributes,
    messages_json,
    usage_attributes,
    verdict_attributes,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextvars import Token
    from types import TracebackType
    from typing import Self

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

    from penstock.engine.run.run import Run
    from penstock.engine.tracing.enclosing import ModelCalls, Scope
    from penstock.engine.tracing.events import RunEvent
    from penstock.engine.tracing.span_log import LoggedSpan, SpanLog
    from penstock.engine.values.tripwire import Record
    from penstock.workflows.telemetry.metrics import Metrics


class _Current:
    """Makes a span the current one for one call, and reports model calls in it to the run's observer."""

    __slots__ = ("_own", "_scope", "_token")

    _own: Token[ModelCalls | None]
    _token: Token[Context]

    def __init__(self, scope: _SpanScope) -> None:
        self._scope = scope

    def __enter__(self) -> Self:
        self._token = attach(self._scope.context())
        self._own = MODEL_CALLS.set(self._scope.calls)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        MODEL_CALLS.reset(self._own)
        detach(self._token)


class _SpanScope:
    """Makes the span of a hook, a model call or a tool call current, each time that it is called."""

    __slots__ = ("_last", "_span", "calls")

    def __init__(self, span: Span, calls: ModelCalls) -> None:
        self.calls = calls
        self._span = span
        self._last: tuple[Context, Context] | None = None  # the context outside, and that with the span

    def __call__(self) -> _Current:
        """Return the context manager of one call."""
        return _Current(self)

    def context(self) -> Context:
        """Return the current context with the span; made anew only if the context is another than the last time."""
        outside = get_current()
        last = self._last
        if last is None or last[0] is not outside:
            last = self._last = (outside, set_span_in_context(self._span, outside))
        return last[1]


class RunSpans(SpanObserver):
    """The observer of one run.

    Args:
        tracer: makes the spans.
        metrics: counts and measures.
        run: the run; None for records of a run that has ended.
        content: whether spans have texts.
    """

    def __init__(self, tracer: Tracer, metrics: Metrics, run: Run | None, *, content: bool) -> None:
        self._tracer = tracer
        self._metrics = metrics
        self._run = None if run is None else weakref.ref(run)
        self._workflow = "" if run is None else run.name
        self._agent = "" if run is None else run.agent
        self._content = content
        self._open: dict[LoggedSpan, Span] = {}  # those that have begun and not ended
        self._stages: dict[str, Span] = {}  # by name, the span of the last one

    def start(self, log: SpanLog, span: LoggedSpan) -> Scope | None:
        """Start the span of a part or a step; return the scope that makes it the current one.

        A step in an abandoned worker thread gets no span, because the part around it has ended.
        """
        if span.kind == "step":
            above = self._open.get(span.announced or log.root)
            if above is None and not span.shadow:
                return None
            began = self._start_step(log, span, above or self._stages.get(span.stage))
        else:
            began = self._start_part(log, span)
        self._open[span] = began
        if span.called is None:
            return None
        if began.is_recording():
            began.set_attributes(call_attributes(span.called, content=self._content))
        return _SpanScope(began, self.model_call)

    def _start_step(self, log: SpanLog, span: LoggedSpan, above: Span | None) -> Span:
        return self._tracer.start_span(
            f"{names.STEP_SPAN} {span.path}",
            None if above is None else set_span_in_context(above),
            attributes=about_step(span.path, span.name, span.stage, shadow=span.shadow),
            start_time=_nanoseconds(log, perf_counter()),  # of its first call; in a stream it may have waited for that
        )

    def _start_part(self, log: SpanLog, span: LoggedSpan) -> Span:
        around = span.parent
        while around is not None and around not in self._open:
            around = around.parent
        above = None if around is None else self._open[around]
        name, about, kind = self._described(span)
        more: dict[str, AttributeValue] = {names.RUN_ID: log.run_id} if above is None else {}
        if log.thread_id is not None and (above is None or span.kind == "model"):
            more[names.CONVERSATION_ID] = str(log.thread_id)
        began = self._tracer.start_span(
            name,
            None if above is None else set_span_in_context(above),
            kind,
            {**about, **more},
            start_time=_nanoseconds(log, span.at),
        )
        if span.kind == "stage":
            self._stages[span.name] = began
        return began

    def _described(self, span: LoggedSpan) -> tuple[str, dict[str, AttributeValue], SpanKind]:
        """Return the name, the attributes and the kind of the span of a part."""
        about: dict[str, AttributeValue]
        match span.kind:
            case "run":
                operation = names.INVOKE_AGENT if self._agent else names.INVOKE_WORKFLOW
                own = self._agent or self._workflow
                about = {names.OPERATION: operation, names.AGENT_NAME if self._agent else names.WORKFLOW_NAME: own}
                return f"{operation} {own}", about, SpanKind.INTERNAL
            case "model":
                about = {names.OPERATION: names.CHAT, **names.model_attributes(span.name)}
                return f"{names.CHAT} {about[names.REQUEST_MODEL]!s}", about, SpanKind.CLIENT
            case "tool":
                about = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: span.name, names.TOOL_TYPE: "function"}
                return f"{names.EXECUTE_TOOL} {span.name}", about, SpanKind.INTERNAL
            case "model_step":
                return names.MODEL_STEP, {names.NUMBER: span.number or 0}, SpanKind.INTERNAL
            case "stage":
                return f"{names.STAGE_SPAN} {span.name}", {names.STAGE: span.name}, SpanKind.INTERNAL
            case "branch":
                return f"{names.BRANCH_SPAN} {span.path}", {names.STEP: span.path}, SpanKind.INTERNAL
            case _:
                about = {names.STEP: span.path, names.NUMBER: span.number or 0}
                return f"{names.ATTEMPT_SPAN} {span.path}", about, SpanKind.INTERNAL

    def end(self, log: SpanLog, span: LoggedSpan) -> None:
        """End the span of a part or a step, and measure it."""
        began = self._open.pop(self._begun(span), None)
        ended = _nanoseconds(log, span.at if span.ended is None else span.ended)
        if span.kind == "step":
            self._end_step(log.record(span), began, ended)
        elif began is not None:
            event = log.event(span, "end")
            try:
                self._end_cancelled(span)
                self._describe_end(event, began)
                self._measure(event, span)
            finally:
                began.end(ended)

    def _begun(self, span: LoggedSpan) -> LoggedSpan:
        """Return the part under which a span began: the record of a step that was cut off comes with a new part."""
        if span.kind != "step" or span in self._open:
            return span
        key = (span.path, span.stage, span.shadow)
        steps = (one for one in list(self._open) if one.kind == "step")
        return next((one for one in steps if (one.path, one.stage, one.shadow) == key), span)

    def _end_cancelled(self, around: LoggedSpan) -> None:
        """End the spans of the steps of a part that were cancelled, so that they have no records."""
        for step in [one for one in list(self._open) if one.kind == "step" and not one.shadow]:
            if step.announced is around:
                began = self._open.pop(step)
                began.set_attribute(names.STATUS, "cancelled")
                began.end()

    def _measure(self, event: RunEvent, span: LoggedSpan) -> None:
        about = {
            key: value for key, value in self._described(span)[1].items() if isinstance(value, (str, bool, int, float))
        }
        error = event.details.get("error")
        failed = {} if error is None else {names.ERROR_TYPE: str(error)}
        if event.what == "model":
            self._metrics.add_model_call(about, event.seconds, event.details)
            first = event.details.get("first_chunk")
            if isinstance(first, float):
                self._metrics.first_chunk.record(first, about)
        elif event.what == "tool":
            self._metrics.tool.record(event.seconds, {**about, **failed})
        elif event.what == "run":
            status = str(event.details.get("status") or "")
            self._metrics.add_request({**about, names.STATUS: status, **failed}, event.seconds)
        held = event.details.get("held")
        if isinstance(held, int):
            self._metrics.add_held(held, self._workflow)

    def _describe_end(self, event: RunEvent, span: Span) -> None:
        """Add the details of the end of a part."""
        if not span.is_recording():
            return
        span.set_attributes(end_attributes(event))
        error = event.details.get("error")
        if error is not None:
            span.set_attribute(names.ERROR_TYPE, str(error))
            span.set_status(StatusCode.ERROR)
        if event.what == "run":
            self._describe_run(span)

    def _describe_run(self, span: Span) -> None:
        """Add the verdict that ended the run, and the conversation if texts are wanted."""
        run = None if self._run is None else self._run()
        if run is None:
            return
        if run.tripwire is not None:
            span.add_event(names.TRIPWIRE_EVENT, verdict_attributes(run.tripwire))
        if self._content:
            messages = run.message_list
            answers = {message.id for message in messages.response}
            given = [message for message in messages.conversation if message.id not in answers]
            span.set_attribute(names.INPUT_MESSAGES, messages_json(given))
            span.set_attribute(names.OUTPUT_MESSAGES, messages_json(messages.response))

    def add_record(self, record: Record) -> None:
        """Make a span of the record of an ended run, as a child of the current span, and count its results."""
        self._end_step(record, None, int((record.started + record.seconds) * _SECOND))

    def _end_step(self, record: Record, began: Span | None, ended: int) -> None:
        """End the span of a step, and count its results. A step without a hook call, such as a join, gets one now."""
        if record.status == "skipped" and began is None:
            around = self._stages.get(record.stage) or get_current_span()
            if around.is_recording():
                around.add_event(names.SKIPPED_EVENT, {names.STEP: record.step})
            return
        span = began or self._span_of(record)
        try:
            if span.is_recording():
                describe(span, record)
            self._metrics.add_record(record, self._workflow)
        finally:
            span.end(ended)

    def _span_of(self, record: Record) -> Span:
        stage = self._stages.get(record.stage) or get_current_span()
        about = about_step(record.step, record.processor_id, record.stage, shadow=record.shadow)
        name = f"{names.STEP_SPAN} {record.step}"
        start = int(record.started * _SECOND)
        return self._tracer.start_span(name, set_span_in_context(stage), attributes=about, start_time=start)

    # Model calls of hooks

    @contextmanager
    def model_call(self, name: str, details: dict[str, object]) -> Generator[None]:
        """Make a span of a model call that a hook makes. ``details`` are read at its end."""
        about: dict[str, AttributeValue] = {names.OPERATION: names.CHAT, **names.model_attributes(name)}
        span = self._tracer.start_span(f"{names.CHAT} {about[names.REQUEST_MODEL]!s}", None, SpanKind.CLIENT, about)
        started = perf_counter()
        try:
            with _SpanScope(span, self.model_call)():
                yield
        except BaseException as error:
            details["error"] = type(error).__name__
            span.set_attribute(names.ERROR_TYPE, type(error).__name__)
            if not isinstance(error, TripwireSignal):
                span.set_status(StatusCode.ERROR)
            raise
        finally:
            usage = counts_of(details.get("usage"))
            details["usage"] = usage
            plain = {key: value for key, value in about.items() if isinstance(value, str)}
            self._metrics.add_model_call(plain, perf_counter() - started, details)
            span.set_attributes(usage_attributes(usage))
            span.end()

    def __del__(self) -> None:
        """End the spans that are still open: the run was dropped without an end."""
        for began in self._open.values():
            began.end()


_SECOND = 1_000_000_000
"""The nanoseconds of a second."""


def _nanoseconds(log: SpanLog, at: float) -> int:
    """Return a time of the monotonic clock in nanoseconds since 1970; a later one is never earlier."""
    return int(log.started * _SECOND) + int((at - log.root.at) * _SECOND)
