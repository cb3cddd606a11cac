"""`PublicObserver`: how a public `Observer` follows the parts of a run, by records, events and call sites."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.tracing.enclosing import guarded
from penstock.engine.tracing.span_log import SpanObserver
from penstock.engine.workers import call_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.tracing.enclosing import CallSite, Scope
    from penstock.engine.tracing.events import RunEvent
    from penstock.engine.tracing.span_log import LoggedSpan, SpanLog
    from penstock.engine.values.protocols import Observer


class PublicObserver(SpanObserver):
    """A public `Observer`: gets records and events, which are views of the parts, and may enclose calls."""

    def __init__(self, observer: Observer) -> None:
        self._on_record = observer.on_record
        self._on_event: Callable[[RunEvent], None] | None = getattr(observer, "on_event", None)
        self._enclose: Callable[[CallSite], Scope | None] | None = getattr(observer, "enclose", None)
        self.encloses = self._enclose is not None
        self.follows_parts = self.encloses or self._on_event is not None
        self.follows_passed = self.follows_parts or not getattr(observer, "skips_passed", False)

    def start(self, log: SpanLog, span: LoggedSpan) -> Scope | None:
        """Pass the event on, and get a scope if the part is a call into other code."""
        if self._on_event is not None and span.kind != "step":
            guarded(call_back, partial(self._on_event, log.event(span, "start")))  # if it fails, calls are enclosed
        return None if self._enclose is None or span.called is None else self._enclose(log.call_site(span))

    def end(self, log: SpanLog, span: LoggedSpan) -> None:
        """Pass on the record of a step, or the event of another part."""
        if span.kind == "step":
            self._on_record(log.record(span))
        elif self._on_event is not None:
            self._on_event(log.event(span, "end"))
