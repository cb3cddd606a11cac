"""`TraceDiff`: the differences between two runs of one input.

Spans are the same part of both runs if they have the same kind, stage and path (or name) in the same stage, attempt
and model step, and come for the same time: the second search of a model step is compared with the second.
Ids of runs and messages, which every run makes anew, are not compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.tracing.display import at_difference
from penstock.pictures.diff.fields import FieldChange, Leaf, differing
from penstock.pictures.timeline import LONGEST, duration, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from penstock.engine.tracing.trace import Span, Trace
    from penstock.pictures.diff.fields import Json

VERSION = 1
"""The version of a diff as JSON."""

NOTABLE_SECONDS = 0.001
"""By how many seconds a part must be slower or faster to be listed: less is noise."""

NOTABLE_SHARE = 0.2
"""By which share it must be slower or faster."""

NOTED_SHARE = 0.01
"""From which share a difference in time is given in per cent."""


@dataclass(frozen=True, slots=True)
class SpanDiff:
    """A part that both runs have.

    Attributes:
        place: where it is, for people: ``process_input: mail``.
        before: the span in the first run.
        after: the span in the other run.
        changes: the differences besides the time.
    """

    place: str
    before: Span
    after: Span
    changes: tuple[FieldChange, ...] = ()

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
    """The differences between two runs of one input. It is true if anything differs besides the time.

    Attributes:
        changes: the differences of the run as a whole: ``workflow``, ``status``, ``tripwire``, ``error``,
            ``usage``.
        removed: the parts that only the first run has, with their places.
        added: the parts that only the other run has.
        matched: the parts that both runs have, in the order of the first.
        seconds: how long both runs took.
        with_texts: whether texts were compared: both traces have them.
    """

    __slots__ = ("added", "changes", "matched", "removed", "seconds", "with_texts", "workflow")

    def __init__(self, before: Trace, after: Trace) -> None:
        self.workflow = after.workflow
        self.with_texts = before.texts and after.texts
        self.seconds = (before.seconds, after.seconds)
        old, new = _placed(before.spans), _placed(after.spans)
        shared = _message_ids(before) & _message_ids(after)
        self.changes = tuple(differing(_run_leaves(before, shared), _run_leaves(after, shared)))
        self.removed = tuple(one for key, one in old.items() if key not in new)
        self.added = tuple(one for key, one in new.items() if key not in old)
        self.matched = tuple(
            SpanDiff(place, span, new[key][1], tuple(self._changes(span, new[key][1], shared)))
            for key, (place, span) in old.items()
            if key in new
        )

    def _changes(self, before: Span, after: Span, shared: frozenset[str]) -> Iterator[FieldChange]:
        """Yield the differences between two spans; of their edits and texts only those that one of both has."""
        old, new = (_span_leaves(span, shared, with_texts=self.with_texts) for span in (before, after))
        for change in differing(old, new):
            if change.name in _LISTED:
                items, others = _items(change.before), _items(change.after)
                kept, fresh = _without(items, others, shared), _without(others, items, shared)
                yield replace(change, before=kept, after=fresh)
            else:
                yield change

    @property
    def changed(self) -> tuple[SpanDiff, ...]:
        """The parts that both runs have, and that differ in more than their time."""
        return tuple(one for one in self.matched if one.changes)

    @property
    def slower(self) -> tuple[SpanDiff, ...]:
        """The parts that took longer in the other run, by more than noise; the most first."""
        return tuple(
            sorted((one for one in self.matched if one.notable and one.seconds > 0), key=lambda one: -one.seconds)
        )

    @property
    def faster(self) -> tuple[SpanDiff, ...]:
        """The parts that took less time in the other run, by more than noise; the most first."""
        return tuple(
            sorted((one for one in self.matched if one.notable and one.seconds < 0), key=lambda one: one.seconds)
        )

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


_Key: TypeAlias = tuple["Hashable", ...]

_SCOPES = frozenset({"stage", "model_step", "attempt"})
"""The kinds within which spans are counted; a branch is not, so that a step may move into one."""


def _placed(spans: Sequence[Span]) -> dict[_Key, tuple[str, Span]]:
    """Return the spans with their places, by keys that are the same in another run."""
    found: dict[_Key, tuple[str, Span]] = {}
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
        found[(*key, times[key])] = ": ".join(filter(None, shown)), span
        scopes[span.id] = ((*key, times[key]), shown) if span.kind in _SCOPES else (scope, words)
    return found


def _words(span: Span, times: int) -> str:
    """Return the name of a span within its scope."""
    kind = "" if span.kind in ("stage", "step", "branch") else span.kind.replace("_", " ")
    number = "" if span.number is None else str(span.number)
    name = "" if span.kind in ("model_step", "attempt") else span.path or span.name
    again = f"(#{times})" if times > 1 and not number else ""
    return one_line(" ".join(filter(None, (kind, number, name, again))))


# What differs


_IDS = frozenset({"message", "message_id"})
"""The keys whose values are ids of messages: of edits and texts, and in metadata."""

_SPAN: Mapping[str, Json] = {
    "name": "",
    "processor": "",
    "shadow": False,
    "status": "passed",
    "tripwire": None,
    "error": None,
    "arms": [],
    "flagged": [],
    "details": {},
    "finish_reason": None,
    "usage": None,
}
"""The compared properties of a span, and their values where its JSON leaves them out."""


def _run_leaves(trace: Trace, shared: frozenset[str]) -> dict[str, Leaf]:
    data = cast("dict[str, Json]", trace.to_json())
    data["error"] = next((span.error for span in trace.spans if span.kind == "run"), None)
    return {name: _leaf(data[name], shared) for name in ("workflow", "status", "tripwire", "error", "usage")}


def _span_leaves(span: Span, shared: frozenset[str], *, with_texts: bool) -> dict[str, Leaf]:
    data = cast("dict[str, Json]", span.to_json())
    data["arms"] = [arm.label for arm in span.arms if arm.taken]
    found = {name: _leaf(data.get(name, unset), shared) for name, unset in _SPAN.items()}
    lists = {name: _items(data.get(name, [])) for name in (("edits", "texts") if with_texts else ("edits",))}
    found.update({name: Leaf([*items], sorted(_key(item, shared) for item in items)) for name, items in lists.items()})
    if with_texts:
        came_in, went_out = ("".join(getattr(one, way) for one in span.chunks) for way in ("came_in", "went_out"))
        found.update({"stream in": Leaf(came_in, came_in), "stream out": Leaf(went_out, went_out)})
    return found


def _items(value: Json) -> list[dict[str, Json]]:
    """Return the edits or texts of a span, which are mappings."""
    return cast("list[dict[str, Json]]", value)


def _key(item: Mapping[str, Json], shared: frozenset[str]) -> str:
    """Return the key of an edit or a text for comparisons: its message only counts if both runs have it."""
    return repr({**item, "message": item["message"] in shared and item["message"]})


def _without(items: list[dict[str, Json]], other: list[dict[str, Json]], shared: frozenset[str]) -> list[Json]:
    """Return the items that another list does not have; each of its items stands for one."""
    left = Counter(_key(item, shared) for item in other)
    found: list[Json] = []
    for item in items:
        key = _key(item, shared)
        if left[key]:
            left[key] -= 1
        else:
            found.append(item)
    return found


def _leaf(value: Json, shared: frozenset[str]) -> Leaf:
    return Leaf(value, _comparable(value, shared))


def _comparable(value: Json, shared: frozenset[str]) -> Json:
    """Return a value without the ids of messages that only one of the runs has."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "message_id" or item in shared}
        return {key: _comparable(item, shared) for key, item in kept.items()}
    return [_comparable(item, shared) for item in value] if isinstance(value, list) else value


def _message_ids(trace: Trace) -> frozenset[str]:
    """Return the ids of the messages that a trace names."""
    return frozenset(_ids_in(cast("Json", trace.to_json())))


def _ids_in(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (item for key, item in value.items() if key in _IDS and isinstance(item, str))
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _ids_in(item)


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


def _change(change: FieldChange, indent: str) -> Iterator[str]:
    before, after = change.before, change.after
    if change.name in _LISTED:
        yield f"{indent}{change.name}:"
        for sign, items in (("-", before), ("+", after)):
            yield from (f"{indent}  {sign} {one_line(_LISTED[change.name](item))}" for item in _items(items))
    elif isinstance(before, dict) and isinstance(after, dict) and change.name != "tripwire":
        for key in dict.fromkeys([*before, *after]):
            old, new = before.get(key), after.get(key)
            if old != new:
                yield f"{indent}{one_line(f'{change.name}.{key}')}: {_shown(old)} → {_shown(new)}"
    else:
        yield f"{indent}{change.name}: {_shown(before)} → {_shown(after)}"


def _edit_words(edit: Mapping[str, Json]) -> str:
    field = "" if edit["field"] == "text" else f" of {edit['field']}"
    return f"{edit['start']}–{edit['end']}{field}: {edit['kind']} {edit['replacement']}".rstrip()


def _text_words(text: Mapping[str, Json]) -> str:
    before, after = at_difference(str(text["before"]), str(text["after"]), LONGEST // 2)
    return f"{text['role']}: {before}" + ("" if text["before"] == text["after"] else f" → {after}")


_LISTED: Mapping[str, Callable[[Mapping[str, Json]], str]] = {"edits": _edit_words, "texts": _text_words}


def _shown(value: Json) -> str:
    if value is None or value in ([], {}, ""):
        return "none"
    if isinstance(value, dict) and "reason" in value:
        return one_line(f"{value['processor_id']}: {value['reason']}")
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else str(value))
