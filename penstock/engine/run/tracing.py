"""Makes the `Trace` of a run from its `SpanLog`, on demand.

Expensive parts are computed here and not during the run: labels of arms, statuses that follow from the parts inside,
the tokens of each step, and the texts that a step changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.processor.stages import STAGES
from penstock.engine.tracing.span_log import LoggedSpan, SpanLog, known_log
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.texts import KeyText, editable_texts, part_texts
from penstock.engine.values.usage import total_usage, usage_payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.engine.processor.state import RunState
    from penstock.engine.tracing.span import Span, SpanArm, SpanEdit, SpanText
    from penstock.engine.tracing.span_log import PlacedEdits, Snapshot, SpanObserver
    from penstock.engine.tracing.trace import Trace, TraceStatus
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Status, Tripwire
    from penstock.engine.values.usage import UsageEntry


def open_log(state: RunState, name: str, observers: Sequence[SpanObserver], *, keeps: bool, texts: bool) -> SpanLog:
    """Return a log for the run of a workflow with that name, which keeps records, or only calls observers.

    Raises:
        UsageError: texts are wanted for a trace, but there will be none.
    """
    if texts and not keeps:
        raise UsageError("texts=True adds the texts to the trace, and there is none without records=True; pass both")
    # The log does not hold the state, which holds the log: a cycle would wait for the garbage collector.
    context, usage = state.request_context, state.usage_log
    return SpanLog(state.run_id, name, context, usage, observers, _made_trace, keeps=keeps, with_texts=texts)


def _made_trace(log: SpanLog, span: LoggedSpan | None, tripwire: Tripwire | None) -> Trace:
    """Return the trace of a part of a run, or of the whole run."""
    return _TraceMaker(log, span).trace(tripwire)


class LazyTrace:
    """A trace that is made when it is first asked for. Pickled, it is made at once: the log stays here."""

    __slots__ = ("_log", "_made", "_tripwire")

    def __init__(self, log: SpanLog | None, tripwire: Tripwire | None = None, made: Trace | None = None) -> None:
        self._log = log
        self._tripwire = tripwire
        self._made = made

    def __call__(self) -> Trace:
        """Return the trace.

        Raises:
            UsageError: the run kept no records.
        """
        if self._made is not None:
            return self._made
        log = known_log(self._log)
        made = log.trace(None, self._tripwire)
        if log.root.ended is not None:  # nothing follows
            self._made = made
        return made

    def __reduce__(self) -> tuple[Callable[..., LazyTrace], tuple[None, None, Trace | None]]:
        """Pickle and copy the finished trace."""
        return LazyTrace, (None, None, None if self._log is None or not self._log.keeps else self())


NO_TRACE = LazyTrace(None)
"""The trace of a run that has none."""


class _TraceMaker:
    """Makes one trace: of the whole run, or of the run and one part of it with all that is inside."""

    def __init__(self, log: SpanLog, only: LoggedSpan | None) -> None:
        self._log = log
        begun = log.root.at
        self._spent = _spent(log)
        calls = [_judge_call(entry, step) for step, entries in self._spent.items() for entry in entries]
        # The sort is stable: a parent was begun before.
        self._spans = sorted([*log.spans, *calls], key=lambda span: max(span.at, begun))
        self._whole = only is None
        if only is not None:
            inside = [] if only is log.root else [only]  # everything is in the run, so nothing is in this part of it
            self._spans = [span for span in self._spans if span is log.root or span.is_within(inside)]
        self._inside: dict[LoggedSpan, list[LoggedSpan]] = {span: [] for span in self._spans}
        for span in self._spans:
            if span.parent in self._inside:
                self._inside[span.parent].append(span)
        self._named: dict[str, str] | None = None
        self._ends: dict[LoggedSpan, float] = {}
        self._statuses: dict[LoggedSpan, Status] = {}
        for span in reversed(self._spans):  # what is inside before what is around it
            self._ends[span] = self._end(span)
            self._statuses[span] = self._status(span)

    def trace(self, tripwire: Tripwire | None) -> Trace:
        """Return the trace; ``tripwire`` is the verdict that stopped the run or the part."""
        from penstock.engine.tracing.trace import Trace  # loaded where somebody asks for a trace

        log, root = self._log, self._log.root
        self._statuses[root] = self._run_status(tripwire)
        if not log.with_texts and self._statuses[root] in ("tripped", "failed"):
            self._named = {}  # a client chooses ids: one of them could be what was refused
        numbers = {span: number for number, span in enumerate(self._spans)}
        own = [entry for step, entries in self._spent.items() if step in self._inside for entry in entries]
        total = log.usage_log.spent if self._whole else own
        return Trace(
            run_id=log.run_id,
            workflow=log.name,
            status=_ENDS[self._statuses[root]],
            spans=tuple([self._made(span, numbers) for span in self._spans]),
            started=log.started,
            seconds=self._ends[root] - root.at,
            thread_id=_text(log.thread_id),  # the caller may name it by a number
            texts=log.with_texts,
            tripwire=tripwire,
            usage=_tokens(total),
        )

    # How a part ended, and when

    def _end(self, span: LoggedSpan) -> float:
        """Return when a part ended: not before the parts in it, but a shadow may outlast its stage."""
        all_inside = span.ended is None or span.parent is None or span.shadow
        ends = [self._ends[one] for one in self._inside[span] if all_inside or not one.shadow]
        ended = None if span is self._log.root and not self._whole else span.ended  # the run goes on after a stage
        return max([span.at if ended is None else ended, *ends])

    def _status(self, span: LoggedSpan) -> Status:
        """Return how a part ended; where nothing says so, as the parts in it did."""
        if span.status is not None:
            return span.status
        inside = {self._statuses[one] for one in self._inside[span] if span.shadow or not one.shadow}
        if "tripped" in inside:
            return "tripped"
        details = self._details(span)
        if "error" in details or "abandoned" in details:
            return "failed"
        return "edited" if "edited" in inside else "passed"

    def _details(self, span: LoggedSpan) -> Mapping[str, object]:
        """Return the details of a part; of a run none in the trace of a stage, which they are not about."""
        return span.details if self._whole or span is not self._log.root else EMPTY

    def _run_status(self, tripwire: Tripwire | None) -> Status:
        """Return how the run ended: of its stages' verdicts only one that ended it counts."""
        details = self._details(self._log.root)
        if tripwire is not None:
            return "tripped"
        if "error" in details or details.get("status") in ("failed", "cancelled"):
            return "failed"
        parts = [self._statuses[one] for one in self._inside[self._log.root] if not one.shadow]
        if parts[-1:] == ["failed"] and "status" not in details:  # nobody has ended a run that raised
            return "failed"
        return "edited" if "edited" in parts else "passed"

    # One part

    def _made(self, span: LoggedSpan, numbers: Mapping[LoggedSpan, int]) -> Span:
        from penstock.engine.tracing.span import Span, SpanChunk  # loaded where somebody asks for a trace

        root = self._log.root
        parent = None if span is root else numbers.get(span.parent or root, 0)
        at = max(span.at, root.at if parent is None else self._spans[parent].at)
        step, details = span.kind == "step", self._details(span)
        return Span(
            id=numbers[span],
            parent=parent,
            kind=span.kind,
            name=self._log.name if span is root else span.name,
            path=span.path,
            stage=span.stage,
            at=at - root.at,
            seconds=max(self._ends[span] - at, 0.0),
            status=self._statuses[span],
            processor=span.name if step else "",
            shadow=span.shadow,
            edits=tuple(_edits(span.edits, self._named)) if span.edits else (),
            tripwire=self._tripwire(span),
            error=span.error if step else _text(details.get("error")),
            details=freeze(details if step else _shown(details)),
            flagged=span.flagged,
            arms=_arms(span),
            number=span.number,
            finish_reason=None if step else _text(details.get("finish_reason")),
            usage=self._usage(span),
            texts=_texts(span),
            chunks=tuple([SpanChunk(when - root.at, came, held, went) for when, came, held, went in span.chunks]),
        )

    def _tripwire(self, span: LoggedSpan) -> Tripwire | None:
        """Return the verdict that ended a part; where that follows from the parts inside, the first of those."""
        if span.tripwire is not None or self._statuses[span] != "tripped":
            return span.tripwire
        inside = (self._tripwire(one) for one in self._inside[span] if span.shadow or not one.shadow)
        return next((tripwire for tripwire in inside if tripwire is not None), None)

    def _usage(self, span: LoggedSpan) -> Values | None:
        """Return the tokens of a step, of a model call, or of the agent's call in a model step."""
        if span.kind == "step":
            return _tokens(self._spent.get(span, ()))
        if span.kind == "model_step":
            return next((self._usage(one) for one in self._inside[span] if one.kind == "model"), None)
        return cast("Values | None", span.details.get("usage")) if span.kind == "model" else None


_ENDS: Mapping[Status, TraceStatus] = {
    "passed": "passed",
    "edited": "edited",
    "tripped": "blocked",
    "failed": "failed",
}

_FIELDS = frozenset({"status", "processor", "error", "usage", "finish_reason"})
"""The details that a span has a field for."""


def _shown(details: Mapping[str, object]) -> Mapping[str, object]:
    """Return the details of a part for which a span has no field of its own."""
    shown = {name: value for name, value in details.items() if name not in _FIELDS}
    return {**shown, "status": details["status"]} if details.get("status") in ("cancelled", "suspended") else shown


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _spent(log: SpanLog) -> dict[LoggedSpan, list[UsageEntry]]:
    """Return the usage entries of each step: those under its path since it last ended."""
    entries: dict[str, list[tuple[int, UsageEntry]]] = {}
    for number, entry in enumerate(log.usage_log.spent):
        if entry.by:
            entries.setdefault(entry.by, []).append((number, entry))
    found: dict[LoggedSpan, list[UsageEntry]] = {}
    for span in log.spans if entries else ():
        if span.kind != "step" or span.path not in entries:
            continue
        left = entries[span.path]
        own = [entry for number, entry in left if number < (span.spent or 0)]
        del left[: len(own)]
        if own:
            found[span] = own
    return found


def _judge_call(entry: UsageEntry, step: LoggedSpan) -> LoggedSpan:
    """Return the part that a request of a step to a model is, such as that of a judge; it lies within the step."""
    made = LoggedSpan("model", entry.model, step, stage=step.stage, shadow=step.shadow)
    made.ended = entry.ended if step.ended is None else min(entry.ended, step.ended)
    made.at = max(entry.ended - entry.seconds, step.at)
    made.status = "passed" if entry.error is None else "failed"
    if entry.error is not None:
        made.note(error=entry.error)
    if entry.attempts > 1:
        made.note(attempts=entry.attempts)
    made.note(usage=_tokens([entry]))
    return made


def _tokens(entries: Sequence[UsageEntry]) -> Values | None:
    """Return the tokens of usage entries by name; None if none are known."""
    known = [entry.usage for entry in entries if entry.usage is not None]
    return usage_payload(total_usage(known)) if known else None


def _arms(span: LoggedSpan) -> tuple[SpanArm, ...]:
    """Return the arms of a branch with the labels that the diagram has."""
    if span.conditions is None:
        return ()
    from penstock.engine.graph.condition_words import condition_label  # takes long to import
    from penstock.engine.tracing.span import SpanArm

    taken = span.taken or ()
    labels = [*map(condition_label, span.conditions), "otherwise"]
    return tuple([SpanArm(label, number in taken) for number, label in enumerate(labels)])


def _edits(placed: PlacedEdits, named: dict[str, str] | None) -> Iterator[SpanEdit]:
    from penstock.engine.tracing.span import SpanEdit

    for place, edit in placed:
        field = ".".join([item.key if isinstance(item, KeyText) else str(item) for item in place.path])
        message = place.message_id
        if named is not None and message:
            message = named.setdefault(message, f"message-{len(named) + 1}")
        yield SpanEdit(message, place.part, field, edit.start, edit.end, edit.kind, edit.text)


# Texts, in traces that have them


def _texts(span: LoggedSpan) -> tuple[SpanText, ...]:
    """Return the texts of a part: of a stage all that it was given, of a step those that it changed."""
    if span.texts is None:
        return ()
    from penstock.engine.tracing.span import SpanText

    stage, whole = STAGES[span.stage], span.kind != "step"
    before, after = span.texts
    shows: Callable[[MessageList], Sequence[Message]] = stage.shows if whole else _every
    was = dict(_texts_of(before, shows, stage.value))
    now = {} if after is None else dict(_texts_of(after, _every, stage.value))
    places = list(was)
    if after is not None:
        known = was if not whole else dict(_texts_of(before, _every, stage.value))
        places += [place for place in now if place not in known]
    return tuple(
        [
            SpanText(message, part, role, old, new)
            for place in places
            if (old := was.get(place, "")) != (new := now.get(place, "")) or whole
            for message, part, role, _ in [place]
        ]
    )


_TextKey = tuple[str, int, str, tuple[object, ...]]


def _every(messages: MessageList) -> Sequence[Message]:
    return [entry.message for entry in messages.entries]


def _texts_of(
    payload: Snapshot, shows: Callable[[MessageList], Sequence[Message]], value: str
) -> Iterator[tuple[_TextKey, str]]:
    """Yield the texts of a payload by message, part, role and path; of a tool's stage the strings of its value."""
    if value:
        for path, text in editable_texts(payload.fields.get(value), (value,)):
            if not isinstance(path[-1], KeyText):
                yield ("", 0, "tool", path), text
        return
    for message in shows(payload.message_list):
        for number, part in enumerate(message.parts):
            for path, text in part_texts(part, editable_texts):
                if not isinstance(path[-1], KeyText):
                    yield (message.id, number, message.role, path), text
