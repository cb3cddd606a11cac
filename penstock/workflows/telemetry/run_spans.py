"""`RunSpans`: the spans of one run, made of its events, its records, and the calls that it makes.

Parts of the run (request, model step, stage, branch, attempt, model call, tool call) begin and end with their
`RunEvent`s. The span of a step begins when its first hook is called and ends with its `Record`.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import contextmanager
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from opentelemetry.context import attach, detach, get_current
from opentelemetry.trace import SpanKind, StatusCode, get_current_span, set_span_in_context

from penstock.engine.tracing.enclosing import MODEL_CALLS
from penstock.engine.values.tripwire import TripwireSignal
from penstock.workflows.telemetry import names
from penstock.workflows.telemetry.attributes import (
    about_step,
    counts_of,
    describe,
    end_attributes,
    request_attributes,
    usage_attributes,
    verdict_attributes,
)
from penstock.workflows.telemetry.content import json_of, messages_json

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from contextvars import Token
    from types import TracebackType
    from typing import Self

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

    from penstock.engine.run.run import Run
    from penstock.engine.tracing.enclosing import CallSite, ModelCalls, Scope
    from penstock.engine.tracing.events import RunEvent
    from penstock.engine.values.tripwire import Record
    from penstock.workflows.telemetry.metrics import Metrics


class _Part:
    """A part of the run that has begun and not ended, and the open spans of its steps."""

    __slots__ = ("about", "hooks", "span")

    def __init__(self, span: Span, about: Mapping[str, AttributeValue]) -> None:
        self.span = span
        self.about = about
        self.hooks: dict[int, _Hook] = {}


class _Hook:
    """The span of a step that has begun and not ended."""

    __slots__ = ("begun", "part", "shadow", "span")

    def __init__(self, span: Span, part: _Part | None, *, shadow: bool, begun: int) -> None:
        self.span = span
        self.part = part
        self.shadow = shadow
        self.begun = begun


class _Current:
    """Makes a span the current one for one call, and has the model calls in it told to the run's observer."""

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


class RunSpans:
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
        self._parts: dict[str, _Part] = {}
        self._stages: dict[str, Span] = {}  # by name, the span of the last one
        self._hooks: dict[tuple[str, str, bool], deque[_Hook]] = {}

    # Parts of the run

    def on_event(self, event: RunEvent) -> None:
        """Begin or end the span of a part."""
        if event.phase == "start":
            self._begin(event)
        else:
            self._end(event)

    def _begin(self, event: RunEvent) -> None:
        name, about, kind = self._described(event)
        above = None if event.parent is None else self._part_of(event.parent)
        more: dict[str, AttributeValue] = {names.RUN_ID: event.run_id} if above is None else {}
        if event.thread_id is not None and (above is None or event.what == "model"):
            more[names.CONVERSATION_ID] = str(event.thread_id)
        span = self._tracer.start_span(
            name,
            None if above is None else set_span_in_context(above.span),
            kind,
            {**about, **more},
            start_time=_nanoseconds(event.at),
        )
        self._parts[event.path] = _Part(span, about)
        if event.what == "stage":
            self._stages[event.name] = span

    def _described(self, event: RunEvent) -> tuple[str, dict[str, AttributeValue], SpanKind]:
        """Return the name, the attributes and the kind of the span of a part."""
        about: dict[str, AttributeValue]
        number = event.path.rpartition("-")[2].partition("#")[0]  # a path that is there already is numbered
        match event.what:
            case "run":
                operation = names.INVOKE_AGENT if self._agent else names.INVOKE_WORKFLOW
                own = self._agent or self._workflow
                about = {names.OPERATION: operation, names.AGENT_NAME if self._agent else names.WORKFLOW_NAME: own}
                return f"{operation} {own}", about, SpanKind.INTERNAL
            case "model":
                about = {names.OPERATION: names.CHAT, **names.model_attributes(event.name)}
                return f"{names.CHAT} {about[names.REQUEST_MODEL]!s}", about, SpanKind.CLIENT
            case "tool":
                about = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: event.name, names.TOOL_TYPE: "function"}
                return f"{names.EXECUTE_TOOL} {event.name}", about, SpanKind.INTERNAL
            case "step":
                return names.MODEL_STEP, {names.NUMBER: int(number)}, SpanKind.INTERNAL
            case "stage":
                return f"{names.STAGE_SPAN} {event.name}", {names.STAGE: event.name}, SpanKind.INTERNAL
            case "branch":
                return f"{names.BRANCH_SPAN} {event.name}", {names.STEP: event.name}, SpanKind.INTERNAL
            case _:
                about = {names.STEP: event.name, names.NUMBER: int(number)}
                return f"{names.ATTEMPT_SPAN} {event.name}", about, SpanKind.INTERNAL

    def _end(self, event: RunEvent) -> None:
        part = self._parts.pop(event.path, None)
        if part is None:
            return
        try:
            for hook in list(part.hooks.values()):
                if not hook.shadow:
                    self._end_unrecorded(hook)
            self._describe_end(event, part.span)
            self._measure(event, part)
        finally:
            part.span.end(_nanoseconds(event.at))

    def _measure(self, event: RunEvent, part: _Part) -> None:
        about = {key: value for key, value in part.about.items() if isinstance(value, (str, bool, int, float))}
        error = event.details.get("error")
        failed = {} if error is None else {names.ERROR_TYPE: str(error)}
        if event.what == "model":
            self._metrics.add_model_call(about, event.seconds, event.details)
            first = event.details.get("first_chunk")
            if isinstance(first, float):
                self._metrics.add_first_chunk(about, first)
        elif event.what == "tool":
            self._metrics.add_tool_call({**about, **failed}, event.seconds)
        elif event.what == "run":
            status = str(event.details.get("status") or "")
            self._metrics.add_request({**about, names.STATUS: status, **failed}, event.seconds)
        held = event.details.get("held")
        if isinstance(held, int):
            self._metrics.add_held(held, self._workflow)

    def _describe_end(self, event: RunEvent, span: Span) -> None:
        """Add what is known at the end of a part."""
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

    def _part_of(self, path: str) -> _Part | None:
        """Return the open part with that path, or the nearest one around it."""
        while path and path not in self._parts:
            path = path.rpartition("/")[0]
        return self._parts.get(path)

    # Steps

    def on_record(self, record: Record) -> None:
        """End the span of a step, and count what it did. What has no span yet, such as a join, gets one."""
        waiting = self._hooks.get((record.step, record.stage, record.shadow))
        hook = waiting.popleft() if waiting else None
        if record.status == "skipped" and hook is None:
            span = self._stages.get(record.stage) or get_current_span()
            if span.is_recording():
                span.add_event(names.SKIPPED_EVENT, {names.STEP: record.step})
            return
        span = hook.span if hook is not None else self._span_of(record)
        if hook is not None and hook.part is not None:
            hook.part.hooks.pop(id(hook), None)
        end = _nanoseconds(record.started + record.seconds)
        try:
            if span.is_recording():
                describe(span, record)
            self._metrics.add_record(record, self._workflow)
        finally:
            span.end(end if hook is None else max(end, hook.begun))

    def _span_of(self, record: Record) -> Span:
        stage = self._stages.get(record.stage) or get_current_span()
        about = about_step(record.step, record.processor_id, record.stage, shadow=record.shadow)
        name = f"{names.STEP_SPAN} {record.step}"
        start = _nanoseconds(record.started)
        return self._tracer.start_span(name, set_span_in_context(stage), attributes=about, start_time=start)

    def enclose(self, site: CallSite) -> Scope | None:
        """Return what makes the span of a hook, a model call or a tool call the current one."""
        if site.what == "hook":
            hook = self._begin_hook(site)
            return None if hook is None else _SpanScope(hook.span, self.model_call)
        part = self._parts.get(site.path)
        if part is None:
            return None
        if part.span.is_recording():
            if site.request is not None:
                part.span.set_attributes(request_attributes(site.request, content=self._content))
            if site.what == "tool":
                part.span.set_attribute(names.TOOL_CALL_ID, site.call_id)
                if self._content:
                    part.span.set_attribute(names.TOOL_ARGUMENTS, json_of(site.arguments))
        return _SpanScope(part.span, self.model_call)

    def _begin_hook(self, site: CallSite) -> _Hook | None:
        """Begin the span of a step; None in a worker thread that was left: its step has ended."""
        part = self._parts.get(site.parent)
        if part is None and not site.shadow:
            return None
        above = self._stages.get(site.stage) if part is None else part.span
        begun = time_ns()
        span = self._tracer.start_span(
            f"{names.STEP_SPAN} {site.path}",
            None if above is None else set_span_in_context(above),
            attributes=about_step(site.path, site.name, site.stage, shadow=site.shadow),
            start_time=begun,
        )
        hook = _Hook(span, part, shadow=site.shadow, begun=begun)
        if part is not None:
            part.hooks[id(hook)] = hook
        self._hooks.setdefault((site.path, site.stage, site.shadow), deque()).append(hook)
        return hook

    def _end_unrecorded(self, hook: _Hook) -> None:
        """End the span of a step that was cancelled, so that it has no record."""
        for waiting in self._hooks.values():
            if hook in waiting:
                waiting.remove(hook)
        hook.span.set_attribute(names.STATUS, "cancelled")
        hook.span.end()

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
        """End what is still open: the run was abandoned without an end."""
        for waiting in self._hooks.values():
            for hook in waiting:
                hook.span.end()
        for part in self._parts.values():
            part.span.end()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
