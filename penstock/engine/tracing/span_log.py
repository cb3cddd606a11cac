"""`SpanLog`: collects what happens in a run while it runs, and tells observers of its starts and ends.

A run has one only if it keeps records or has observers. Nothing is worked out here that can be worked out later: a
step's `Record` is made when somebody asks for it, and `penstock.engine.run.tracing` then makes a `Trace` of the log.
"""

from __future__ import annotations

import logging
from functools import partial
from time import perf_counter, time
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from penstock.engine.tracing.events import RunEvent
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze
from penstock.engine.values.tripwire import Record
from penstock.engine.workers import call_back

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.engine.tracing.events import EventKind
    from penstock.engine.tracing.span import SpanKind
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Status, Tripwire
    from penstock.engine.values.usage import UsageLog

    RecordFields: TypeAlias = tuple[
        str,
        str,
        str,
        Status,
        bool,
        float,
        tuple[tuple[TextPlace, Edit], ...],
        Tripwire | None,
        str | None,
        Values,
        tuple[str, ...],
        str,
        str | None,
        float,
    ]
    """The fields of a `Record`, in order."""

_LOG = logging.getLogger("penstock")

_TOLD: Mapping[SpanKind, EventKind] = {
    "run": "run",
    "model_step": "step",
    "model": "model",
    "tool": "tool",
    "stage": "stage",
    "branch": "branch",
    "attempt": "attempt",
}
"""What observers are told of, by the kind of the span. Of steps they get the records."""

PlacedEdits: TypeAlias = "Sequence[tuple[TextPlace, Edit]]"


class Snapshot(Protocol):
    """What traces read of a payload."""

    @property
    def message_list(self) -> MessageList:
        """The messages."""
        ...

    @property
    def fields(self) -> Values:
        """The other things that the stage lets steps change, by name."""
        ...


class OpenSpan:
    """One part of a run, other than a step, while it is collected.

    Attributes:
        kind: what it is about.
        name: the stage, the last id of the path, the model or the tool.
        parent: the part around it; None for the run.
        path: the path of the branch, or of what is attempted, in the workflow.
        stage: the name of the stage.
        at: when it began, by the monotonic clock.
        ended: when it ended; None while it lasts.
        event_path: the path in events.
        status: how it ended; None where that follows from the parts in it.
        tripwire: the verdict, if there was one.
        details: what observers are told at the end.
        shadow: whether it ran in shadow.
        number: the number of a model step or an attempt.
        conditions: the conditions of a branch, for the labels of its arms.
        taken: the numbers of the arms that were taken; that of the last arm plus one is ``otherwise``.
        texts: the payloads before and after; the second is None where nothing was let through. Only with ``texts``.
        chunks: what came in, was held and went out; only with ``texts``.
    """

    __slots__ = (
        "at",
        "chunks",
        "conditions",
        "details",
        "ended",
        "event_path",
        "kind",
        "name",
        "number",
        "parent",
        "path",
        "shadow",
        "stage",
        "status",
        "taken",
        "texts",
        "tripwire",
    )

    def __init__(self, kind: SpanKind, name: str, parent: OpenSpan | None, *, path: str = "", stage: str = "") -> None:
        self.kind: SpanKind = kind
        self.name = name
        self.parent = parent
        self.path = path
        self.stage = stage
        self.at = perf_counter()
        self.ended: float | None = None
        self.event_path = ""
        self.status: Status | None = None
        self.tripwire: Tripwire | None = None
        self.details: dict[str, object] = {}
        self.shadow = False
        self.number: int | None = None
        self.conditions: Sequence[object] | None = None
        self.taken: tuple[int, ...] | None = None
        self.texts: tuple[Snapshot, Snapshot | None] | None = None
        self.chunks: list[tuple[float, str, int, str]] | None = None

    def judged(self, tripwire: Tripwire | None) -> None:
        """Note that it ended with a verdict, or with none: then its status follows from the parts in it."""
        self.tripwire = tripwire
        if tripwire is not None:
            self.status = "tripped"
            self.details.update(status="tripped", processor=tripwire.processor_id)
        else:
            self.details["status"] = "passed"

    def failed(self, error: BaseException) -> None:
        """Note the error that ended it. Where an error wraps another, the name is that of the inner one."""
        self.status = "failed"
        self.details.update(status="failed", error=type(error.__cause__ or error).__name__)


class StepSpan:
    """One step that has ended. Small, since there are many; its record is made when it is first asked for.

    Attributes:
        parent: the part of the run that it stands in.
        at: when it began, by the monotonic clock.
        ended: when it ended.
        spent: how many usage entries the run had then.
        edits: its edits with their texts; only with ``texts``.
        texts: the payloads before and after; only with ``texts``.
    """

    __slots__ = ("_fields", "_record", "at", "edits", "ended", "parent", "spent", "texts")

    def __init__(self, fields: RecordFields, parent: OpenSpan | None, at: float, ended: float, spent: int) -> None:
        """Describe a step; ``fields`` are those of its record."""
        self._fields = fields
        self._record: Record | None = None
        self.parent = parent
        self.at = at
        self.ended = ended
        self.spent = spent
        self.edits: PlacedEdits | None = None
        self.texts: tuple[Snapshot, Snapshot] | None = None

    @property
    def record(self) -> Record:
        """What it did."""
        if self._record is None:
            self._record = Record(*self._fields)
        return self._record

    @property
    def shadow(self) -> bool:
        """Whether it ran in shadow."""
        return self.record.shadow


AnySpan: TypeAlias = OpenSpan | StepSpan


class HasParent(Protocol):
    """A part of a run, of whatever kind."""

    @property
    def parent(self) -> HasParent | None:
        """The part around it."""
        ...


def is_within(span: HasParent | None, around: Collection[HasParent]) -> bool:
    """Return whether a part is one of some others, or in one of them."""
    while span is not None and span not in around:
        span = span.parent
    return span is not None


class SpanLog:
    """The parts of one run in the order in which they were begun, steps in the order of their ends.

    Attributes:
        name: the name of the workflow.
        keeps: whether parts are kept for a trace, or only told to observers.
        with_texts: whether texts of the client are kept, too.
        root: the run.
        current: the part that stages belong to: the run, or a model step.
        spans: the parts so far.
        usage_log: what the models of the run took.
        started: when the run began, in seconds since 1970.
        run_id: the id of the run.
    """

    __slots__ = (
        "_apart",
        "_counts",
        "_make",
        "_observers",
        "_parts",
        "_request_context",
        "current",
        "keeps",
        "name",
        "root",
        "run_id",
        "spans",
        "started",
        "usage_log",
        "with_texts",
    )

    def __init__(
        self,
        run_id: str,
        name: str,
        request_context: Mapping[str, Value],
        usage_log: UsageLog,
        observers: Sequence[Callable[[RunEvent], None]],
        make: Callable[[SpanLog, OpenSpan | None, Tripwire | None], Trace],
        *,
        keeps: bool,
        with_texts: bool,
    ) -> None:
        """Begin a log; ``make`` makes a trace of it: of one part, or of the whole run."""
        self.run_id = run_id
        self.name = name
        self.keeps = keeps
        self.with_texts = with_texts
        self.usage_log = usage_log
        self.started = time()
        self.root = self.current = OpenSpan("run", "", None)
        self.spans: list[AnySpan] = [self.root]
        self._request_context = request_context
        self._observers = observers
        self._make = make
        self._parts: dict[str, OpenSpan] = {"": self.root}
        self._counts: dict[str, int] = {}  # by path in events, how often it was given
        self._apart: list[tuple[AnySpan, Literal["start", "end"]]] | None = None

    @property
    def tells(self) -> bool:
        """Whether an observer wants events."""
        return bool(self._observers)

    @property
    def thread_id(self) -> str | None:
        """The thread of the request."""
        thread_id: str | None = self._request_context.get("thread_id")
        return thread_id

    def trace(self, span: OpenSpan | None = None, tripwire: Tripwire | None = None) -> Trace:
        """Return the trace of the whole run, or of one part; ``tripwire`` is the verdict that ended it."""
        return self._make(self, span, tripwire)

    def records(self) -> tuple[Record, ...]:
        """Return the records of all steps so far, in the order in which the steps ended."""
        return tuple([span.record for span in self.spans if isinstance(span, StepSpan)])

    def records_in(self, around: Collection[OpenSpan], before: int) -> tuple[Record, ...]:
        """Return those of the steps in these parts of the run, among the first ``before`` spans of the log."""
        steps = (span for span in self.spans[:before] if isinstance(span, StepSpan))
        return tuple([span.record for span in steps if is_within(span, around)])

    # Parts of the run

    def open_run(self) -> None:
        """Tell observers that the run has begun."""
        if self._observers:
            self._tell(self.root, "start")

    def part(self, kind: SpanKind, path: str, name: str) -> OpenSpan:
        """Begin a part whose path in events is known: a model step, a model call, or a tool call."""
        span = OpenSpan(kind, name, self._parts.get(path.rpartition("/")[0], self.root))
        span.event_path = path
        if kind == "model_step":
            span.number = int(path.rpartition("-")[2])
            span.name = path
            self.current = self._parts[path] = span
        self.spans.append(span)
        if self._observers:
            self._tell(span, "start")
        return span

    def begin(self, kind: SpanKind, parent: OpenSpan | None, name: str, *, path: str = "", stage: str = "") -> OpenSpan:
        """Begin a stage, a branch, or an attempt; ``parent``: the part around it, None for the one at hand."""
        return self.announce(OpenSpan(kind, name, parent or self.current, path=path, stage=stage))

    def announce(self, span: OpenSpan) -> OpenSpan:
        """Take in a part that has begun."""
        if self._apart is not None:
            self._apart.append((span, "start"))
            return span
        if self.keeps:
            self.spans.append(span)
        if self._observers:
            span.event_path = self._free_path(span)
            self._tell(span, "start")
        return span

    def _free_path(self, span: OpenSpan) -> str:
        """Return a path in events that no other part of the run has."""
        above = "" if span.parent is None else span.parent.event_path
        own = span.name if span.number is None else f"{span.name}-{span.number}"
        path = free = f"{above}/{own}" if above else own
        number = self._counts.get(path, 0)
        while free in self._counts:
            number += 1
            free = f"{path}#{number}"
        self._counts[path] = max(number, 1)
        self._counts.setdefault(free, 1)
        return free

    def end(self, span: OpenSpan) -> None:
        """End a part."""
        span.ended = perf_counter()
        self.tell_end(span)
        if self.current is span:
            self.current = self.root

    def tell_end(self, span: OpenSpan) -> None:
        """Tell observers of the end of a part."""
        if self._apart is not None:
            self._apart.append((span, "end"))
        elif self._observers:
            self._tell(span, "end")

    def add_step(self, made: StepSpan) -> None:
        """Take in the span of a step that has ended."""
        if self._apart is not None:
            self._apart.append((made, "end"))
        elif self.keeps:
            self.spans.append(made)

    # Worker threads

    def apart(self) -> SpanLog:
        """Return a log for steps in a worker thread; `take_in` adds what it holds, unless the worker was left."""
        made = SpanLog(
            self.run_id,
            self.name,
            self._request_context,
            self.usage_log,
            (),
            self._make,
            keeps=self.keeps,
            with_texts=self.with_texts,
        )
        made.root, made.current, made._apart = self.root, self.current, []
        return made

    def take_in(self, apart: SpanLog, publish: Callable[[StepSpan], None]) -> None:
        """Add what a log of a worker holds, in order; ``publish`` is called for each step."""
        for span, what in apart._apart or ():
            if isinstance(span, StepSpan):
                publish(span)
            elif what == "start":
                self.announce(span)
            else:
                self.tell_end(span)

    # Observers

    def _tell(self, span: OpenSpan, phase: Literal["start", "end"]) -> None:
        seconds = 0.0 if span.ended is None else span.ended - span.at
        details: Values = EMPTY if phase == "start" else freeze(dict(span.details))
        if span.taken is not None and phase == "end":
            details = FrozenDict({**details, "taken": span.taken})
        at = self.started + (span.at if span.ended is None else span.ended) - self.root.at
        name = span.path or span.name
        if span.kind in ("run", "model_step"):
            name = ""
        event = RunEvent(
            _TOLD[span.kind], phase, span.event_path, self.run_id, self.thread_id, at, seconds, name, details
        )
        for on_event in self._observers:
            try:
                call_back(partial(on_event, event))
            except Exception:  # noqa: BLE001 - an observer changes nothing
                _LOG.exception("an observer failed; the run goes on")
