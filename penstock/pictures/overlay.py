"""The marks of a trace in a picture: the way of the run, the result and cost of each step, and where it ended.

Several runs of one step (stages, model steps, attempts, chunks) are summed. A picture of an agent shows a step once for
each processor list, so a mark counts the runs in the stages of that list; its path then ends with ``@LIST``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.processor.stages import STAGES
from penstock.engine.tracing.display import at_difference, visible
from penstock.engine.values.frozen import is_mapping
from penstock.pictures.marks import Flow, Mark, MarkAt, Marks, Moment, Passage
from penstock.pictures.timeline import duration, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.tracing.trace import Span, Trace
    from penstock.engine.values.tripwire import Status
    from penstock.pictures.marks import FlowState, MarkKind

_GRAVEST: tuple[Status, ...] = ("tripped", "failed", "edited", "passed", "skipped")
_SHOWN_KINDS = 3
_QUOTED = 160
_QUOTES = 4
_LISTED = 20
"""How many runs and edits of a step a tip lists; the page lists them all."""
_OTHERWISE = "otherwise"


def marks_of(trace: Trace, stage: str | None = None) -> Marks:
    """Return the marks of a run.

    Args:
        trace: the trace of the run.
        stage: count only what happened in this stage; None: all stages.
    """
    spans = [span for span in trace.spans if stage is None or span.stage in ("", stage)]
    stop = _stop(trace)
    history: dict[str, tuple[MarkAt, ...]] = {}
    known: dict[tuple[int, ...], tuple[MarkAt, ...]] = {}
    found: dict[str, list[Span]] = {}
    for span in spans:
        for key in _keys(span) if span.kind == "step" else ():
            found.setdefault(key, []).append(span)
    for key, runs in found.items():
        ids = tuple(span.id for span in runs)
        if ids not in known:  # most steps run in one list only
            known[ids] = _step_marks(runs, stop)
        history[key] = known[ids]
    history.update(_branch_marks(spans))
    steps = {span.id for span in spans if span.kind == "step"}
    model = [span for span in spans if span.kind == "model" and span.parent not in steps]  # not those of judges
    tools = [span for span in spans if span.kind == "tool"]
    for key, calls in (("model", model), ("tools", tools)):
        if calls:
            history[key] = tuple(
                MarkAt(_end(span), _calls_mark(calls[:number])) for number, span in enumerate(calls, 1)
            )
    return Marks(
        "trace",
        {key: marks[-1].mark for key, marks in history.items()},
        tuple(_flows(spans, stop)),
        tuple(_totals(trace)),
        history,
        _passage(model[0]) if model else None,
        _passage(tools[0]) if tools else None,
    )


def _passage(span: Span) -> Passage:
    return Passage(Moment(span.at, span.id, over=False), _end(span))


def _end(span: Span) -> Moment:
    return Moment(span.at + span.seconds, span.id, over=True)


def _keys(span: Span, suffix: str = "") -> tuple[str, ...]:
    path = f"{span.path}{suffix}"
    stage = STAGES.get(span.stage)
    return (path,) if stage is None else (path, f"{path}@{stage.processor_list}")


# Steps


@dataclass(slots=True)
class StepTotal:
    """The sum of the runs of one step; each is added when it has ended."""

    stop: Span | None = None
    """The run of a step that ended the whole run, if one did."""

    worst: Span | None = None
    """The run that ended worst; None if there is none yet."""

    stops: bool = False
    seconds: float = 0.0
    edits: Counter[str] = field(default_factory=Counter[str])
    flagged: dict[str, None] = field(default_factory=dict[str, None])
    tokens: int = 0
    calls: int = 0
    ran: int = 0

    def add(self, span: Span) -> None:
        """Add a run."""
        if self.worst is None or _GRAVEST.index(span.status) < _GRAVEST.index(self.worst.status):
            self.worst = span
        self.stops = self.stops or span is self.stop
        if span.status != "skipped":
            self.ran += 1
        self.seconds += span.seconds
        self.edits.update(edit.replacement if edit.kind == "redact" else "" for edit in span.edits)
        self.flagged.update(dict.fromkeys(span.flagged))
        self.calls += _judged(span)
        self.tokens += _used(span.usage)

    def mark(self, lines: tuple[str, ...] = ()) -> Mark:
        """Return the mark of the runs so far.

        Args:
            lines: lines of the tooltip in a browser.
        """
        if self.worst is None:
            return Mark("skipped", lines=lines)
        kind: MarkKind = self.worst.status
        said = [
            _ended(self.stop if self.stops and self.stop else self.worst, stops=self.stops),
            _edited(self.edits, changed=kind == "edited", shadow=self.worst.shadow),
            f"flagged {', '.join(map(visible, self.flagged))}" if self.flagged else "",
        ]
        cost = [duration(self.seconds), f"{self.ran} runs" if self.ran > 1 else ""]
        cost += [_counted(self.calls, "model call"), _counted(self.tokens, "token")]
        return Mark(kind, _joined(said), _joined(cost if self.ran else []), lines, stops=self.stops)


def _step_marks(runs: list[Span], stop: Span | None) -> tuple[MarkAt, ...]:
    """Return the mark of a step after each of its runs; only the last has lines."""
    total = StepTotal(stop)
    made: list[MarkAt] = []
    for number, span in enumerate(sorted(runs, key=_end), 1):
        total.add(span)
        made.append(MarkAt(_end(span), total.mark(tuple(_details(runs)) if number == len(runs) else ())))
    return tuple(made)


def _ended(span: Span, *, stops: bool) -> str:
    """Return how a step ended, where that is more than that it passed."""
    why = f": {visible(span.tripwire.reason)}" if span.tripwire and span.tripwire.reason else ""
    if span.status == "skipped":
        return "not run"
    if span.status == "tripped":
        if span.shadow:
            return f"would stop the run{why}"
        asked = span.tripwire is not None and span.tripwire.retry and not stops
        return f"asked for a retry{why}" if asked else f"stops the run{why}"
    if span.status == "failed":
        error = f"failed: {span.error}" if span.error else "failed"
        return f"{error}, and stops the run{why}" if stops else f"{error} (shadow)" if span.shadow else error
    return ""


def _edited(edits: Counter[str], *, changed: bool, shadow: bool) -> str:
    """Return the count of edits, and the placeholders of redacted texts."""
    count = edits.total()
    if not count:
        return "changes, but not in texts" if changed else ""
    kinds = [f"{visible(text)}{f' ×{times}' if times > 1 else ''}" for text, times in edits.items() if text]
    more = ["…"] if len(kinds) > _SHOWN_KINDS else []
    named = f" ({', '.join([*kinds[:_SHOWN_KINDS], *more])})" if kinds else ""
    words = "1 edit" if count == 1 else f"{count} edits"
    return f"would make {words}{named}" if shadow else f"{words}{named}"


def _joined(words: Iterable[str]) -> str:
    return " · ".join(filter(None, words))


def _counted(count: int, what: str) -> str:
    """Return a count in words; empty for none."""
    return f"{count:,} {what}{'' if count == 1 else 's'}" if count else ""


def _judged(span: Span) -> int:
    """Return how many model calls a step made to judge."""
    judge: object = span.details.get("judge")
    models = [one for one in judge.values() if is_mapping(one)] if is_mapping(judge) else []
    return sum(_count(one.get("calls")) for one in models)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _details(runs: list[Span]) -> Iterator[str]:
    """Yield the tooltip of a step: each run, and its texts if the trace has them."""
    room = _LISTED
    for span in runs[:_LISTED]:
        how = _ended(span, stops=span.tripwire is not None) or span.status
        yield f"{span.stage}: {how}, {duration(span.seconds)}"
        for edit in span.edits[:room]:
            after = one_line(edit.replacement)
            yield f"  {edit.field} of part {edit.part}, {edit.start}–{edit.end}: {edit.kind} → {after}"
        room = max(room - len(span.edits), 0)
    if len(runs) > _LISTED:
        yield f"… of {len(runs):,} runs"
    if (edits := sum(len(span.edits) for span in runs)) > _LISTED:
        yield f"… of {edits:,} edits"
    texts = [text for span in runs for text in span.texts if text.before != text.after]
    for text in texts[:_QUOTES]:
        before, after = at_difference(text.before, text.after, _QUOTED)
        yield f"before: {before}"
        yield f"after:  {after}"


# Branches, models and totals


def _branch_marks(spans: Iterable[Span]) -> dict[str, tuple[MarkAt, ...]]:
    """Return the marks of arms; one that was taken once stays taken."""
    found: dict[str, tuple[MarkAt, ...]] = {}
    for span in spans:
        if span.kind == "branch":
            for suffix, was in _arms(span):
                for key in _keys(span, suffix):
                    before = found.get(key, ())
                    if not before or (was and before[-1].mark.kind == "skipped"):
                        mark = MarkAt(_passage(span).reached, Mark("passed" if was else "skipped"))
                        found[key] = (*before, mark)
    return found


def _arms(span: Span) -> Iterator[tuple[str, bool]]:
    """Yield each arm of a branch, as the end of its path, and whether it was taken."""
    for number, arm in enumerate(span.arms):
        is_last = number == len(span.arms) - 1 and arm.label == _OTHERWISE
        yield f":{_OTHERWISE}" if is_last else f":{number}", arm.taken


def _calls_mark(spans: list[Span]) -> Mark:
    failed = [span for span in spans if span.status == "failed"]
    words = ["1 call" if len(spans) == 1 else f"{len(spans)} calls"]
    if failed:
        words.append(f"{len(failed)} failed: {', '.join(dict.fromkeys(span.error or 'error' for span in failed))}")
    tokens = sum(_used(span.usage) for span in spans)
    cost = [duration(sum(span.seconds for span in spans)), _counted(tokens, "token")]
    lines = [f"{visible(span.name)}: {span.finish_reason or span.status}, {duration(span.seconds)}" for span in spans]
    kind: MarkKind = "failed" if len(failed) == len(spans) else "passed"
    return Mark(kind, _joined(words), _joined(cost), tuple(lines))


def _used(usage: object) -> int:
    if not is_mapping(usage):
        return 0
    return _count(usage.get("input_tokens")) + _count(usage.get("output_tokens"))


def _totals(trace: Trace) -> Iterator[str]:
    """Yield the words below the picture."""
    steps = [span for span in trace.spans if span.kind == "step"]
    edits = sum(len(span.edits) for span in steps if not span.shadow)
    words = [f"{trace.status} in {duration(trace.seconds)}"]
    if edits:
        words.append("1 edit" if edits == 1 else f"{edits} edits")
    if tokens := _used(trace.usage):
        words.append(_counted(tokens, "token"))
    for kind in ("model", "tool"):
        of_kind = [span for span in trace.spans if span.kind == kind]
        if of_kind:
            calls = f"{len(of_kind)} {kind} {'call' if len(of_kind) == 1 else 'calls'}"
            words.append(f"{calls} in {duration(sum(span.seconds for span in of_kind))}")
    yield f"The run: {', '.join(words)}."
    if (tripwire := trace.tripwire) is not None:
        reason = visible(tripwire.reason) if tripwire.reason else "no reason given"
        yield f"Stopped by {visible(tripwire.processor_id)} at {tripwire.stage.removeprefix('process_')}: {reason}"
    if trace.texts:
        yield "This picture holds texts of the run, under the pointer; take care whom you give it to."


# The way of a run


def _stop(trace: Trace) -> Span | None:
    """Return the span of the step that ended the run before its end; None if it reached its end."""
    if trace.status not in ("blocked", "failed"):
        return None
    steps = [span for span in trace.spans if span.kind == "step" and not span.shadow]
    if (tripwire := trace.tripwire) is None:
        steps = [span for span in steps if span.status == "failed"]
    else:
        of = (tripwire.processor_id, tripwire.stage)
        named = [one for one in steps if one.status in ("tripped", "failed") and (one.processor, one.stage) == of]
        steps = [span for span in steps if span.tripwire == tripwire] or named
    return steps[-1] if steps else None


def _flows(spans: list[Span], stop: Span | None) -> list[Flow]:
    """Return what happened in each stage that ran; stages with the same steps and ends once."""
    by_id = {span.id: span for span in spans}
    flows: dict[int | None, dict[str, FlowState]] = {span.id: {} for span in spans if span.kind == "stage"}
    times: dict[int | None, dict[str, Passage]] = {}
    for span in spans:
        if span.kind not in ("step", "branch"):
            continue
        above = span
        while above.kind != "stage" and above.parent in by_id:
            above = by_id[above.parent]
        place = above.id if above.kind == "stage" else None
        flow, passed = flows.setdefault(place, {}), times.setdefault(place, {})
        if span.kind == "branch":
            chosen = _passage(span).reached
            for suffix, taken in _arms(span):
                flow[f"{span.path}{suffix}"] = "taken" if taken else "skipped"
                passed.setdefault(f"{span.path}{suffix}", Passage(chosen, chosen))
        elif not span.shadow:
            ends = span is stop or span.tripwire is not None
            flow[span.path] = "stopped" if ends else "skipped" if span.status == "skipped" else "taken"
            passed.setdefault(span.path, _passage(span))
    found: dict[tuple[str, frozenset[tuple[str, FlowState]]], Flow] = {}
    for number, flow in flows.items():
        around = None if number is None else by_id[number]
        served = None if around is None else STAGES.get(around.stage)
        serves = served.processor_list if served else ""
        whole = None if around is None else _passage(around)
        alike = serves, frozenset(flow.items())
        first = found.setdefault(alike, Flow(serves, flow, times.get(number, {}), whole))
        if whole and first.whole:
            found[alike] = first._replace(whole=Passage(first.whole.reached, max(first.whole.left, whole.left)))
    return list(found.values())
