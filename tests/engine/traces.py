"""What every trace must be, whatever the run did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.engine import Record
from penstock.engine.tracing.trace import Span, Trace

ROUNDING = 1e-6


def check_trace(trace: Trace, records: Iterable[Record] | None = None) -> None:
    """A tree in the order of its starts, each part within the one around it; a step for each record, and no other."""
    spans = {span.id: span for span in trace.spans}
    assert list(spans) == list(range(len(trace.spans)))
    root = trace.spans[0]
    assert (root.kind, root.parent, root.at, root.name) == ("run", None, 0.0, trace.workflow)
    assert abs(root.seconds - trace.seconds) < ROUNDING
    for before, span in zip(trace.spans, trace.spans[1:], strict=False):
        assert span.at >= before.at - ROUNDING
        assert span.parent is not None
        assert span.parent < span.id
        _check_within(spans[span.parent], span)
    assert Trace.from_json(trace.to_json()) == trace
    assert (trace.tripwire is not None) == (trace.status == "blocked")
    if not trace.texts:
        assert not any(span.texts or span.chunks for span in trace.spans)
    if records is not None:
        check_steps(trace, records)


def _check_within(around: Span, span: Span) -> None:
    assert span.seconds >= 0
    assert span.at >= around.at - ROUNDING
    if not span.shadow or around.kind == "run":
        assert span.at + span.seconds <= around.at + around.seconds + ROUNDING
    if around.kind != "run" and around.stage:
        assert span.stage == around.stage
    assert around.kind not in ("model", "tool")
    assert around.kind != "step" or span.kind == "model"


def check_steps(trace: Trace, records: Iterable[Record]) -> None:
    """The spans of steps say what the records say."""
    steps = [span for span in trace.spans if span.kind == "step"]
    said = [(one.path, one.stage, one.status, one.shadow, one.tripwire, one.error, one.flagged) for one in steps]
    kept = [(one.step, one.stage, one.status, one.shadow, one.tripwire, one.error, one.flagged) for one in records]
    assert sorted(said, key=repr) == sorted(kept, key=repr)
    if not trace.texts:
        edits = sorted((edit.start, edit.end, edit.kind, edit.replacement) for one in steps for edit in one.edits)
        known = [edit for record in records for _, edit in record.edits]
        assert edits == sorted((edit.start, edit.end, edit.kind, edit.text) for edit in known)


def shape(trace: Trace) -> list[Any]:
    """The names of a trace as a tree: ``[name, child, [child, …]]``."""
    made: dict[int | None, list[Any]] = {None: []}
    for span in trace.spans:
        made[span.id] = [span.name]
        made[span.parent].append(made[span.id])
    return made[None][0]


def span_of(trace: Trace, name: str, kind: str = "") -> Span:
    """The first span of that name."""
    return next(span for span in trace.spans if span.name == name and kind in ("", span.kind))
