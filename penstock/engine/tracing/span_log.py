"""`LoggedSpan`: one part of a run; and `SpanLog`, which collects the parts of a run and calls the observers.

A run has a log only if it keeps records or has observers. Views are made on demand: `SpanLog.record` makes a `Record`,
`SpanLog.event` a `RunEvent`, and `penstock.engine.run.tracing` a `Trace` of the whole log.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from time import perf_counter, time
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar, cast

from penstock.engine.tracing.enclosing import OBSERVER_FAILED, CallScopes, CallSite, EnclosedCall, guarded, log
from penstock.engine.tracing.events import RunEvent
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze
from penstock.engine.values.tripwire import Record
from penstock.engine.workers import call_back

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.engine.tracing.enclosing import Scope
    from penstock.engine.tracing.span import SpanKind
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Status, Tripwire
    from penstock.engine.values.usage import UsageLog

T = TypeVar("T")

PlacedEdits: TypeAlias = "Sequence[tuple[TextPlace, Edit]]"


class Snapshot(Protocol):
    """The parts of a payload that traces read."""

    @property
    def message_list(self) -> MessageList:
        """The messages."""
        ...

    @property
    def fields(self) -> Values:
        """The other things that the stage lets steps change, by name."""
        ...


class LoggedSpan:
    """One part of a run: begun, and later ended. Records, events and the spans of traces are views of it.

    Rare attributes have a default at the class, and slots hold the others, so that the many spans of steps are cheap.

    Attributes:
        kind: the run, a stage, a step …
        name: the stage, the last id of the path, the processor, the model or the tool.
        parent: the part around it; None for the run.
        path: the path in the workflow, for a step, a branch or an attempt.
        stage: the name of the stage.
        shadow: whether it ran in shadow.
        number: the number of a model step or an attempt.
        at: when it began, by the monotonic clock.
        ended: when it ended; None while it lasts.
        event_path: the path in events.
        status: how it ended; None where that follows from the parts in it.
        tripwire: the verdict, if there was one.
        error: the name of the type of a step's error.
        details: the notes of a step; of another part, the details of its end event.
        flagged: the names of the findings that a step let pass.
        edits: the edits of a step; with their texts only in a log with ``texts``.
        spent: how many usage entries the run had when a step ended.
        conditions: the conditions of a branch, for the labels of its arms.
        taken: the numbers of the arms that were taken; that of the last arm plus one is ``otherwise``.
        texts: the payloads before and after; the second is None where nothing was let through. Only with ``texts``.
        chunks: the chunks of a stream: time, input, held characters, output; only with ``texts``.
        call_id: the id of the tool call that a stage is about; else empty.
        called: the further fields of its `CallSite`, if it is a call into other code; else None.
        scope: makes the context manager for one call; None if no observer encloses calls.
        made: the record of a step, once it was asked for.
    """

    __slots__ = (
        "__dict__",
        "at",
        "ended",
        "kind",
        "made",
        "name",
        "parent",
        "path",
        "shadow",
        "spent",
        "stage",
        "status",
    )

    event_path = ""
    tripwire: Tripwire | None = None
    error: str | None = None
    details: Mapping[str, object] = EMPTY
    flagged: tuple[str, ...] = ()
    edits: PlacedEdits = ()
    number: int | None = None
    conditions: Sequence[object] | None = None
    taken: tuple[int, ...] | None = None
    texts: tuple[Snapshot, Snapshot | None] | None = None
    chunks: Sequence[tuple[float, str, int, str]] = ()
    call_id: str = ""
    called: Values | None = None
    scope: Scope | None = None

    def __init__(
        self,
        kind: SpanKind,
        name: str,
        parent: LoggedSpan | None,
        path: str = "",
        stage: str = "",
        shadow: bool = False,  # noqa: FBT001, FBT002 - a field, no switch
    ) -> None:
        """Begin a part of a run."""
        self.kind: SpanKind = kind
        self.name = name
        self.parent = parent
        self.path = path
        self.stage = stage
        self.shadow = shadow
        self.ended: float | None = None
        self.status: Status | None = None
        self.spent: int | None = None
        self.made: Record | None = None
        self.at = perf_counter()

    def note(self, **details: object) -> None:
        """Add details, which observers get when the part ends."""
        self.details = {**self.details, **details}

    def note_default(self, **details: object) -> None:
        """Add those of the details that it has not got yet."""
        self.details = {**self.details, **details, **self.details}

    def judged(self, tripwire: Tripwire | None) -> None:
        """Note that it ended with a verdict, or with none: then its status follows from the parts in it."""
        self.tripwire = tripwire
        if tripwire is None:
            self.note(status="passed")
        else:
            self.status = "tripped"
            self.note(status="tripped", processor=tripwire.processor_id)

    def failed(self, error: BaseException) -> None:
        """Note the error that ended it. Where an error wraps another, the name is that of the inner one."""
        self.status = "failed"
        self.note(status="failed", error=type(error.__cause__ or error).__name__)

    @property
    def is_uneventful(self) -> bool:
        """Whether it is a step that did nothing: no verdict, failure, edit, finding or note."""
        return (
            self.kind == "step"
            and self.status in ("passed", "skipped")
            and not (self.edits or self.flagged or self.details)
        )

    @property
    def announced(self) -> LoggedSpan | None:
        """The nearest part around it that observers know by its path. Parts that begin in a worker get theirs later."""
        part = self.parent
        while part is not None and not part.event_path:
            part = part.parent
        return part

    def is_within(self, around: Collection[LoggedSpan]) -> bool:
        """Return whether it is one of some parts, or in one of them."""
        span: LoggedSpan | None = self
        while span is not None and span not in around:
            span = span.parent
        return span is not None


class SpanObserver:
    """Follows the parts of one run: each has a start and an end. An error that it raises is logged and changes nothing.

    A step has a start only if an observer encloses its calls. A skipped step, for example, has none.

    Attributes:
        follows_parts: whether it wants to know of parts other than steps.
        follows_passed: whether it wants to know of steps that passed and did nothing.
        encloses: whether it encloses calls.
    """

    follows_parts = True
    follows_passed = True
    encloses = True

    def start(self, log: SpanLog, span: LoggedSpan) -> Scope | None:
        """Handle the start of a part; return a function that makes a context manager for each call within, or None."""
        raise NotImplementedError

    def end(self, log: SpanLog, span: LoggedSpan) -> None:
        """Handle the end of a part."""
        raise NotImplementedError


class SpanLog:
    """The parts of one run in the order in which they were begun, steps in the order of their ends.

    Attributes:
        name: the name of the workflow.
        keeps: whether parts are kept for a trace, or only passed to observers.
        with_texts: whether texts of the client are kept, too.
        has_parts: whether parts other than steps are kept, or told to an observer.
        has_passed: whether steps that passed and did nothing are, too.
        encloses: whether an observer encloses calls.
        root: the run.
        current: the part that stages belong to: the run, or a model step.
        spans: the parts so far.
        usage_log: the usage entries of the run.
        started: when the run began, in seconds since 1970.
        run_id: the id of the run.
    """

    __slots__ = (
        "_apart",
        "_counts",
        "_followers",
        "_make",
        "_observers",
        "_parts",
        "_request_context",
        "current",
        "encloses",
        "has_parts",
        "has_passed",
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
        observers: Sequence[SpanObserver],
        make: Callable[[SpanLog, LoggedSpan | None, Tripwire | None], Trace],
        *,
        keeps: bool,
        with_texts: bool,
    ) -> None:
        """Begin a log; ``make`` makes a trace of it: of one part, or of the whole run."""
        self.run_id = run_id
        self.name = name
        self.keeps = keeps
        self.with_texts = with_texts
        self.encloses = any(one.encloses for one in observers)
        self.usage_log = usage_log
        self.started = time()
        self.root = self.current = LoggedSpan("run", "", None)
        self.spans: list[LoggedSpan] = [self.root]
        self._request_context = request_context
        self._observers = observers
        self._followers = [one for one in observers if one.follows_parts]
        self.has_parts = keeps or bool(self._followers)
        self.has_passed = keeps or any(one.follows_passed for one in observers)
        self._make = make
        self._parts: dict[str, LoggedSpan] = {"": self.root}
        self._counts: dict[str, int] = {}  # by path in events, how often it was given
        self._apart: list[tuple[Callable[[SpanLog, LoggedSpan], None], LoggedSpan]] | None = None

    @property
    def observed(self) -> bool:
        """Whether an observer wants to know of parts other than steps."""
        return bool(self._followers)

    @property
    def thread_id(self) -> str | None:
        """The thread of the request."""
        thread_id: str | None = self._request_context.get("thread_id")
        return thread_id

    def trace(self, span: LoggedSpan | None = None, tripwire: Tripwire | None = None) -> Trace:
        """Return the trace of the whole run, or of one part; ``tripwire`` is the verdict that ended it."""
        return self._make(self, span, tripwire)

    # The parts of the run

    def part(self, kind: SpanKind, path: str, name: str, called: Values | None = None) -> LoggedSpan:
        """Begin a part whose path in events is known: a model step, a model call, or a tool call."""
        span = LoggedSpan(kind, name, self._parts.get(path.rpartition("/")[0], self.root))
        span.event_path, span.called = path, called
        if kind == "model_step":
            span.number = int(path.rpartition("-")[2])
            span.name = path
            self.current = self._parts[path] = span
        self.spans.append(span)
        self.start(span)
        return span

    def begin_stage(self, name: str, called: Values | None = None) -> LoggedSpan:
        """Begin a stage. ``called``: not None if its hooks are called at once, so that observers may enclose them."""
        span = LoggedSpan("stage", name, self.current, stage=name)
        span.called = called
        self.announce(span)
        return span

    def announce(self, span: LoggedSpan) -> None:
        """Add a stage, a branch or an attempt that has begun."""
        if self._apart is not None:
            self._apart.append((SpanLog.announce, span))
            return
        if self.keeps:
            self.spans.append(span)
        if self._followers:
            span.event_path = self._free_path(span)
            self.start(span)

    def _free_path(self, span: LoggedSpan) -> str:
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

    def end(self, span: LoggedSpan) -> None:
        """End a part or a step."""
        if span.ended is None:
            span.ended = perf_counter()
        if span.spent is None:
            span.spent = self.usage_log.count
        if self._apart is not None:
            self._apart.append((SpanLog.end, span))
            return
        if span.kind == "step":
            if self.keeps:
                self.spans.append(span)
        elif self.current is span:
            self.current = self.root
        for observer in self._observers if span.kind == "step" else self._followers:
            try:  # and not `guarded`, which takes time for each step
                call_back(partial(observer.end, self, span))
            except Exception:  # noqa: BLE001 - an observer changes nothing
                log.exception(OBSERVER_FAILED)
        if span.called is not None:
            span.scope = span.called = None  # neither a request nor an observer lives as long as the trace

    # Observers

    def start(self, span: LoggedSpan) -> None:
        """Call the observers at the start of a part or a step, and keep the scopes that they return.

        For a step this happens in the thread that calls its hook, for other parts on the event loop.
        """
        if not self._followers:
            return
        tell = _call if span.kind == "step" else call_back
        told = [guarded(tell, partial(one.start, self, span)) for one in self._followers]
        if self.encloses:
            span.scope = partial(CallScopes, [scope for scope in told if scope is not None])

    def enclosed(self, span: LoggedSpan) -> EnclosedCall | None:
        """Return the `EnclosedCall` for a step's hooks; None if no observer encloses calls."""
        return EnclosedCall(partial(self._step_scope, span)) if self.encloses else None

    def _step_scope(self, span: LoggedSpan) -> Scope:
        span.called = EMPTY
        self.start(span)
        return span.scope or partial(CallScopes, ())

    # Views of a part

    def record(self, span: LoggedSpan) -> Record:
        """Return the record of a step that has ended. It quotes no text."""
        made = span.made
        if made is None:
            at = span.at
            edits = [masked(place, edit) for place, edit in span.edits] if self.with_texts else span.edits
            made = span.made = Record(
                span.path,
                span.name,
                span.stage,
                span.status or "passed",
                span.shadow,
                (span.ended or at) - at,
                tuple(edits) if edits else (),
                span.tripwire,
                span.error,
                span.details,
                span.flagged,
                self.run_id,
                self._request_context.get("thread_id"),
                self.started + at - self.root.at,
            )
        return made

    def records(self) -> tuple[Record, ...]:
        """Return the records of all steps so far, in the order in which the steps ended."""
        return tuple([self.record(span) for span in self.spans if span.kind == "step"])

    def records_in(self, around: Collection[LoggedSpan], before: int) -> tuple[Record, ...]:
        """Return those of the steps in these parts of the run, among the first ``before`` spans of the log."""
        steps = [span for span in self.spans[:before] if span.kind == "step" and span.is_within(around)]
        return tuple(map(self.record, steps))

    def event(self, span: LoggedSpan, phase: Literal["start", "end"]) -> RunEvent:
        """Return the event of a part that has begun or ended."""
        ended = span.at if phase == "start" or span.ended is None else span.ended
        kind = span.kind
        details: Values = EMPTY if phase == "start" else freeze(span.details)
        if span.taken is not None and phase == "end":
            details = FrozenDict({**details, "taken": span.taken})
        return RunEvent(
            "step" if kind == "model_step" else kind,
            phase,
            span.event_path,
            self.run_id,
            self.thread_id,
            self.started + ended - self.root.at,
            ended - span.at,
            "" if kind in ("run", "model_step") else span.path or span.name,
            details,
        )

    def call_site(self, span: LoggedSpan) -> CallSite:
        """Return the call site of a part that is called: a stage, a model or a tool, or the hook of a step."""
        if span.kind == "step":
            around = span.announced
            parent = "" if around is None else around.event_path
            return CallSite("hook", span.path, span.name, span.stage, parent, span.shadow)
        what = cast('Literal["stage", "model", "tool"]', span.kind)
        return CallSite(what, span.event_path, span.name, **(span.called or {}))

    # Worker threads

    def apart(self) -> SpanLog:
        """Return a log for steps in a worker thread; `take_in` adds its entries, unless the worker was abandoned."""
        made = copy(self)
        made._apart = []
        return made

    def take_in(self, apart: SpanLog) -> None:
        """Add the entries of a worker's log, in order."""
        for take, span in apart._apart or ():
            take(self, span)


def _call(function: Callable[[], T]) -> T:
    return function()


def known_log(log: SpanLog | None) -> SpanLog:
    """Return a log that is kept.

    Raises:
        UsageError: the run kept no records.
    """
    if log is None or not log.keeps:
        raise UsageError("there is no trace, because the run kept no records; start it with records=True")
    return log


_MOST_DOTS = 80
"""How many dots stand for a text at most: a step may reword megabytes."""


def masked(place: TextPlace, edit: Edit) -> tuple[TextPlace, Edit]:
    """Return an edit and its place for a record, which quotes no text.

    The replacement of a redaction may be shown. Other replacements become dots, because a later guard may refuse them.
    Keys of a JSON value become stars, because they may contain data that must stay hidden.
    """
    field, *rest = place.path
    if rest:
        place = place._replace(path=(field, *[key if isinstance(key, int) else "*" for key in rest]))
    return place, edit if edit.kind == "redact" else replace(edit, text="·" * min(len(edit.text), _MOST_DOTS))
