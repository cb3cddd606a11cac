"""`TraceDiff`: what differs between two runs of one input.

Spans are the same part of both runs if they have the same kind, stage and path (or name) in the same stage, attempt
and model step, and are there for the same time: the second search of a model step is compared with the second.
Ids of runs and messages, which every run makes anew, are not compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from penstock.engine.tracing.display import at_difference
from penstock.engine.tracing.span import json_mapping, tripwire_json
from penstock.engine.tracing.timeline import LONGEST, duration, one_line
from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from penstock.engine.tracing.span import Span, SpanEdit, SpanText
    from penstock.engine.tracing.timeline import TraceView
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Tripwire

T = TypeVar("T")

VERSION = 1
"""The version of a diff as JSON."""

NOTABLE_SECONDS = 0.001
"""By how much a part must be slower or faster to be listed, in seconds: less is noise."""

NOTABLE_SHARE = 0.2
"""By which share it must be."""


NOTED_SHARE = 0.01
"""From which share a difference in time is given in per cent."""


@dataclass(frozen=True, slots=True)
class TraceChange:
    """Something that differs, of a run or of one of its parts.

    Attributes:
        name: what it is: ``status``, ``arms``, ``edits``, ``texts``, ``tripwire`` …
        before: its value in the first run, as JSON; of edits and texts those that only the first run has.
        after: its value in the other run.
    """

    name: str
    before: object
    after: object

    def to_json(self) -> dict[str, object]:
        """Return it as a mapping of JSON values."""
        return {"name": self.name, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class SpanDiff:
    """A part that both runs have.

    Attributes:
        place: where it is, for people: ``process_input: mail``.
        before: the span in the first run.
        after: the span in the other run.
        changes: what differs besides the time.
    """

    place: str
    before: Span
    after: Span
    changes: tuple[TraceChange, ...] = ()

    @property
    def seconds(self) -> float:
        """By how many seconds it was slower in the other run; less than 0 if it was faster."""
        return self.after.seconds - self.before.seconds

    @property
    def notable(self) -> bool:
        """Whether the difference in time is more than noise: a millisecond, and a fifth. Both must have run."""
        if "skipped" in (self.before.status, self.after.status):
            return False
        return abs(self.seconds) >= max(NOTABLE_SECONDS, NOTABLE_SHARE * self.before.seconds)

    def to_json(self) -> dict[str, object]:
        """Return it as a mapping of JSON values; the spans by their ids."""
        return {
            "place": self.place,
            "before": self.before.id,
            "after": self.after.id,
            "seconds": [self.before.seconds, self.after.seconds],
            "changes": [change.to_json() for change in self.changes],
        }


class TraceDiff:
    """What differs between two runs of one input. It is true if anything does besides the time.

    Attributes:
        changes: what differs about the run as a whole: ``workflow``, ``status``, ``tripwire``, ``error``,
            ``usage``.
        removed: the parts that only the first run has, with their places.
        added: the parts that only the other run has.
        matched: the parts that both runs have, in the order of the first.
        seconds: how long both runs took.
        with_texts: whether texts were compared: both traces have them.
    """

    __slots__ = ("added", "changes", "matched", "removed", "seconds", "with_texts", "workflow")

    def __init__(self, before: TraceView, after: TraceView) -> None:
        self.workflow = after.workflow
        self.with_texts = before.texts and after.texts
        self.seconds = (before.seconds, after.seconds)
        old, new = _placed(before.spans), _placed(after.spans)
        messages = _messages(before) & _messages(after)
        self.changes = tuple(_differing(before, after, _RUN, messages))
        self.removed = tuple((one.place, one.span) for key, one in old.items() if key not in new)
        self.added = tuple((one.place, one.span) for key, one in new.items() if key not in old)
        self.matched = tuple(
            SpanDiff(one.place, one.span, new[key].span, tuple(self._changes(one.span, new[key].span, messages)))
            for key, one in old.items()
            if key in new
        )

    def _changes(self, before: Span, after: Span, messages: frozenset[str]) -> Iterator[TraceChange]:
        yield from _differing(before, after, _SPAN, messages)
        yield from _only("edits", before.edits, after.edits, lambda edit: _edit_key(edit, messages))
        if self.with_texts:
            yield from _only("texts", before.texts, after.texts, _text_key)
            yield from _differing(before, after, _STREAM, messages)

    @property
    def changed(self) -> tuple[SpanDiff, ...]:
        """The parts that both runs have, and that differ in more than their time."""
        return tuple(one for one in self.matched if one.changes)

    @property
    def slower(self) -> tuple[SpanDiff, ...]:
        """The parts that took longer in the other run, by more than noise; the most first."""
        found = [one for one in self.matched if one.notable and one.seconds > 0]
        return tuple(sorted(found, key=lambda one: -one.seconds))

    @property
    def faster(self) -> tuple[SpanDiff, ...]:
        """The parts that took less time in the other run, by more than noise; the most first."""
        found = [one for one in self.matched if one.notable and one.seconds < 0]
        return tuple(sorted(found, key=lambda one: one.seconds))

    @property
    def same(self) -> bool:
        """Whether nothing differs but the time."""
        return not (self.changes or self.removed or self.added or self.changed)

    def __bool__(self) -> bool:
        """Return whether anything differs besides the time."""
        return not self.same

    def __repr__(self) -> str:
        """Show the counts."""
        counts = f"{len(self.added)} added, {len(self.removed)} removed, {len(self.changed)} changed"
        return f"TraceDiff({self.workflow!r}, {'same' if self.same else counts})"

    def __str__(self) -> str:
        """Return the diff for people."""
        return "\n".join(_text(self))

    def to_json(self) -> dict[str, object]:
        """Return it as a mapping of JSON values, for ``json.dumps``; spans by their ids in their own trace."""
        return {
            "version": VERSION,
            "same": self.same,
            "texts": self.with_texts,
            "seconds": list(self.seconds),
            "changes": [change.to_json() for change in self.changes],
            "removed": [{"place": place, "span": span.id} for place, span in self.removed],
            "added": [{"place": place, "span": span.id} for place, span in self.added],
            "matched": [one.to_json() for one in self.matched],
        }


# Which spans are the same


@dataclass(frozen=True, slots=True)
class _Placed:
    span: Span
    place: str


_Key: TypeAlias = tuple["Hashable", ...]

_SCOPES = frozenset({"stage", "model_step", "attempt"})
"""The kinds within which spans are counted; a branch is not, so that a step may move into one."""


def _placed(spans: Sequence[Span]) -> dict[_Key, _Placed]:
    """Return the spans by what they are known by in another run, with their places."""
    found: dict[_Key, _Placed] = {}
    scopes: dict[int | None, tuple[_Key, tuple[str, ...]]] = {None: ((), ())}
    times: Counter[_Key] = Counter()
    for span in spans:
        scope, words = scopes[span.parent]
        if span.kind == "run":  # what differs there differs in the trace
            scopes[span.id] = (scope, words)
            continue
        name = span.path or ("" if span.kind == "model" else span.name)  # another model does the same
        key = (scope, span.kind, span.stage, name, span.number)
        times[key] += 1
        shown = (*words, _words(span, times[key]))
        found[(*key, times[key])] = _Placed(span, ": ".join(filter(None, shown)))
        scopes[span.id] = ((*key, times[key]), shown) if span.kind in _SCOPES else (scope, words)
    return found


def _words(span: Span, times: int) -> str:
    """Return what a span is called within its scope."""
    kind = "" if span.kind in ("stage", "step", "branch") else span.kind.replace("_", " ")
    number = "" if span.number is None else str(span.number)
    name = "" if span.kind in ("model_step", "attempt") else span.path or span.name
    again = f"(#{times})" if times > 1 and not number else ""
    return one_line(" ".join(filter(None, (kind, number, name, again))))


def _messages(trace: TraceView) -> frozenset[str]:
    """Return the ids of the messages that a trace names."""
    found: set[str] = set()
    for span in trace.spans:
        found.update(edit.message for edit in span.edits)
        found.update(text.message for text in span.texts)
        found.update(_told(span.details))
        found.update(_told(None if span.tripwire is None else span.tripwire.metadata))
    found.update(_told(None if trace.tripwire is None else trace.tripwire.metadata))
    return frozenset(found)


def _told(value: object) -> Iterator[str]:
    """Yield the ids of messages that guards tell in metadata."""
    if is_mapping(value):
        for key, item in value.items():
            if key == _ID and isinstance(item, str):
                yield item
            else:
                yield from _told(item)
    elif is_items(value):
        for item in value:
            yield from _told(item)


def _unnamed(value: object, messages: frozenset[str]) -> object:
    """Return a value without the ids of messages that only one of the runs has."""
    if is_mapping(value):
        return {key: _unnamed(item, messages) for key, item in value.items() if key != _ID or item in messages}
    return [_unnamed(item, messages) for item in value] if is_items(value) else value


_ID = "message_id"
"""The key in metadata whose value is the id of a message."""


# What differs


def _tripwire(tripwire: Tripwire | None) -> object:
    return None if tripwire is None else tripwire_json(tripwire)


def _usage(usage: Values | None) -> object:
    return None if usage is None else json_mapping(usage)


_RUN: Mapping[str, Callable[[TraceView], object]] = {
    "workflow": lambda trace: trace.workflow,
    "status": lambda trace: trace.status,
    "tripwire": lambda trace: _tripwire(trace.tripwire),
    "error": lambda trace: next((span.error for span in trace.spans if span.kind == "run"), None),
    "usage": lambda trace: _usage(trace.usage),
}

_SPAN: Mapping[str, Callable[[Span], object]] = {
    "name": lambda span: span.name,
    "processor": lambda span: span.processor,
    "shadow": lambda span: span.shadow,
    "status": lambda span: span.status,
    "tripwire": lambda span: _tripwire(span.tripwire),
    "error": lambda span: span.error,
    "arms": lambda span: [arm.label for arm in span.arms if arm.taken],
    "flagged": lambda span: list(span.flagged),
    "details": lambda span: json_mapping(span.details),
    "finish_reason": lambda span: span.finish_reason,
    "usage": lambda span: _usage(span.usage),
}

_STREAM: Mapping[str, Callable[[Span], object]] = {
    "stream in": lambda span: "".join(chunk.came_in for chunk in span.chunks),
    "stream out": lambda span: "".join(chunk.went_out for chunk in span.chunks),
}


def _differing(
    before: T, after: T, getters: Mapping[str, Callable[[T], object]], messages: frozenset[str]
) -> Iterator[TraceChange]:
    for name, get in getters.items():
        old, new = get(before), get(after)
        if old != new and _unnamed(old, messages) != _unnamed(new, messages):
            yield TraceChange(name, old, new)


class _Item(Protocol):
    """An edit or a text."""

    def to_json(self) -> Mapping[str, object]: ...


Item = TypeVar("Item", bound=_Item)


def _only(
    name: str, before: Sequence[Item], after: Sequence[Item], key: Callable[[Item], Hashable]
) -> Iterator[TraceChange]:
    """Yield a change with the items that only one of both has."""
    old = _without(before, after, key)
    new = _without(after, before, key)
    if old or new:
        yield TraceChange(name, old, new)


def _without(
    items: Sequence[Item], other: Sequence[Item], key: Callable[[Item], Hashable]
) -> list[Mapping[str, object]]:
    left = Counter(map(key, other))
    found: list[Mapping[str, object]] = []
    for item in items:
        if left[key(item)]:
            left[key(item)] -= 1
        else:
            found.append(item.to_json())
    return found


def _edit_key(edit: SpanEdit, messages: frozenset[str]) -> Hashable:
    message = edit.message if edit.message in messages else None
    return (message, edit.part, edit.field, edit.start, edit.end, edit.kind, edit.replacement)


def _text_key(text: SpanText) -> Hashable:
    return (text.part, text.role, text.before, text.after)


# For people


_JUDGES = frozenset({"step", "attempt"})


def _text(diff: TraceDiff) -> Iterator[str]:
    times = _times(*diff.seconds)
    if diff.same:
        yield f"{one_line(diff.workflow)}: no differences but the time: {times}"
    else:
        counts = f"{len(diff.added)} added, {len(diff.removed)} removed, {len(diff.changed)} changed"
        yield f"{one_line(diff.workflow)}: {counts}; time: {times}"
    for change in diff.changes:
        yield from _change(change, "~ ")
    for sign, spans in (("-", diff.removed), ("+", diff.added)):
        yield from (f"{sign} {place} ({span.status})" for place, span in spans)
    for one in diff.changed:
        yield f"~ {one.place}"
        for change in one.changes:
            if change.name != "tripwire" or one.after.kind in _JUDGES:  # around them, the status says enough
                yield from _change(change, "    ")
    for words, timed in (("slower", diff.slower), ("faster", diff.faster)):
        yield from (f"{words}: {one.place}: {_times(one.before.seconds, one.after.seconds)}" for one in timed)


def _times(before: float, after: float) -> str:
    share = (after - before) / before if before > 0 else 0
    words = f" ({share:+.0%})" if abs(share) >= NOTED_SHARE else ""
    return f"{duration(before)} → {duration(after)}{words}"


def _change(change: TraceChange, indent: str) -> Iterator[str]:
    if change.name in _LISTED and is_items(change.before) and is_items(change.after):
        yield f"{indent}{change.name}:"
        for sign, items in (("-", change.before), ("+", change.after)):
            yield from (f"{indent}  {sign} {one_line(_LISTED[change.name](item))}" for item in items)
    elif is_mapping(change.before) and is_mapping(change.after) and change.name != "tripwire":
        yield from _by_key(change.name, change.before, change.after, indent)
    else:
        yield f"{indent}{change.name}: {_shown(change.before)} → {_shown(change.after)}"


def _by_key(name: str, before: Values, after: Values, indent: str) -> Iterator[str]:
    """Yield a line for each key whose value differs."""
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield f"{indent}{one_line(f'{name}.{key}')}: {_shown(old)} → {_shown(new)}"


def _edit_words(edit: Mapping[str, object]) -> str:
    field = "" if edit["field"] == "text" else f" of {edit['field']}"
    return f"{edit['start']}–{edit['end']}{field}: {edit['kind']} {edit['replacement']}".rstrip()


def _text_words(text: Mapping[str, object]) -> str:
    before, after = at_difference(str(text["before"]), str(text["after"]), LONGEST // 2)
    return f"{text['role']}: {before}" + ("" if text["before"] == text["after"] else f" → {after}")


_LISTED: Mapping[str, Callable[[Mapping[str, object]], str]] = {"edits": _edit_words, "texts": _text_words}


def _shown(value: object) -> str:
    if value is None or value in ([], {}, ""):
        return "none"
    if is_mapping(value) and "reason" in value:
        return one_line(f"{value['processor_id']}: {value['reason']}")
    if is_items(value):
        return one_line(", ".join(map(str, value)))
    return one_line(str(value))
