"""What parallel steps' changes become where they meet, written naively: the oracle that the engine's merge must match.

It shares no algorithm with the engine: it imports values only, and does everything the slow and obvious way.
The rules are those of the design ("What a step sees"); the two ideas behind this file are these.

A text of n characters is a row of 2n + 1 slots: each character, and each gap before, between and behind them. An edit
owns the characters that it takes away and the gaps between these; an insertion owns one gap. Two edits overlap if they
own the same slot, except insertions at one gap, which all stay.

Everything else is compared by identity: messages by their ids, parts by their indexes, facts, metadata and overrides by
their keys. A branch changed what differs from what stood there at the fork.

`tests.engine.interpreter` walks workflows with it; ``python -m tests.engine.judge N`` compares both with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from penstock import Edit, Message
from penstock.engine import Conflict
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.payload import Payload
from penstock.engine.values.frozen import FrozenDict, freeze
from penstock.engine.values.message_list import Entry, MessageList

Edits = tuple[Edit, ...]
Spot = tuple[Any, ...]
"""Where a value stands, by ids, indexes and field names; an item of a mapping by its index, its key under "key"."""

# Texts


def slots(edit: Edit) -> range:
    """Return the slots that an edit owns: gap g is slot 2g, character c is slot 2c + 1."""
    return (
        range(2 * edit.start, 2 * edit.start + 1) if edit.start == edit.end else range(2 * edit.start + 1, 2 * edit.end)
    )


@dataclass(eq=False)
class Char:
    """A character that can be seen after some edits: the slot it stands in, and the edit that wrote it, if one did."""

    char: str
    slot: int
    writer: Edit | None = None


def written(text: str, edits: Sequence[Edit]) -> list[Char]:
    """Return the characters that can be seen after the edits, slot by slot."""
    seen: list[Char] = []
    for slot in range(2 * len(text) + 1):
        for edit in edits:
            if slots(edit)[0] == slot:
                seen += [Char(char, slot, edit) for char in edit.text]
        if slot % 2 and not any(slot in slots(edit) for edit in edits):
            seen.append(Char(text[slot // 2], slot))
    return seen


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return the text after the edits."""
    return "".join(one.char for one in written(text, edits))


def difference(before: str, after: str, step: str, *, hides: bool = False) -> Edits:
    """Return the one edit between two texts: all but what they begin and end with in common."""
    start, end, cut = 0, len(before), len(after)
    while start < min(end, cut) and before[start] == after[start]:
        start += 1
    while start < min(end, cut) and before[end - 1] == after[cut - 1]:
        end, cut = end - 1, cut - 1
    kind: Any = "insert" if start == end else "replace"
    made = Edit(start, end, after[start:cut], kind, step, hides=hides and start < end)
    return (made,) if before != after else ()


def then(text: str, first: Sequence[Edit], second: Sequence[Edit]) -> Edits:
    """Return the edits of the text that do what ``first`` and then ``second``, in positions after ``first``, do.

    Edits that change what an earlier one wrote become one with it. Those beside each other stay apart.
    """
    seen = written(text, first)
    groups: list[tuple[list[Edit], list[Edit]]] = []  # later edits, and the earlier ones that they change
    for new in second:
        news, olds = [new], changed(seen, first, new)
        for group in [group for group in groups if any(_among(old, olds) for old in group[1])]:
            groups.remove(group)
            news, olds = [*group[0], *news], [*group[1], *(old for old in olds if not _among(old, group[1]))]
        groups.append((news, olds))
    made = [(new.start, united(text, seen, news, olds)) for news, olds in groups for new in news[:1]]
    changed_ones = [old for _, olds in groups for old in olds]
    made += [(_first(seen, old) + 0.5, old) for old in first if not _among(old, changed_ones)]
    made.sort(key=lambda one: (slots(one[1])[0], one[0]))
    return tuple(edit for _, edit in made if edit.text or edit.start < edit.end)


def changed(seen: list[Char], edits: Sequence[Edit], new: Edit) -> list[Edit]:
    """Return the edits that a new one changes: it takes of what they wrote, stands within that, or swallows them."""
    taken = seen[new.start : new.end]
    if not taken and 0 < new.start < len(seen) and seen[new.start - 1].writer is seen[new.start].writer:
        taken = seen[new.start : new.start + 1]
    writers = [one.writer for one in taken if one.writer is not None]
    low, high = (taken[0].slot, taken[-1].slot) if taken else (0, 0)
    return [edit for edit in edits if _among(edit, writers) or low < slots(edit)[0] <= slots(edit)[-1] < high]


def united(text: str, seen: list[Char], news: list[Edit], olds: list[Edit]) -> Edit:
    """Return later edits and the earlier ones that they change as one edit of the text."""
    start, end = news[0].start, news[-1].end
    if start == end and not olds:  # an insertion: right before the next character that can be seen
        gap = seen[start].slot // 2 if start < len(seen) else len(text)
        return replace(news[0], start=gap, end=gap)
    mine = [index for index, one in enumerate(seen) if start <= index < end or _among(one.writer, olds)]
    start, end = mine[0], mine[-1] + 1
    owned_slots = {seen[index].slot for index in mine} | {slot for old in olds for slot in slots(old)}
    low, high = min(owned_slots) // 2, (max(owned_slots) + 1) // 2
    if not olds:
        return replace(news[0], start=low, end=high)
    inside = [replace(new, start=new.start - start, end=new.end - start) for new in news]
    words = edited("".join(one.char for one in seen[start:end]), inside)
    # It is a redaction if redactions wrote its words; the words of an edit that is taken away whole are no more.
    gone = [old for old in olds if any(new.start <= _first(seen, old) <= _last(seen, old) < new.end for new in news)]
    speaking = [edit for edit in (*olds, *news) if edit.text and not _among(edit, gone)]
    redacts = any(edit.kind == "redact" for edit in (*olds, *news))
    pure = redacts and all(edit.kind == "redact" for edit in speaking)
    kind: Any = "redact" if pure else "insert" if low == high else "replace"
    return Edit(low, high, words, kind, news[-1].step, any(edit.hidden for edit in (*olds, *news)))


def _among(edit: Edit | None, edits: Iterable[Edit]) -> bool:
    return any(edit is other for other in edits)


def _first(seen: list[Char], edit: Edit) -> int:
    return next((index for index, one in enumerate(seen) if one.writer is edit), -1)


def _last(seen: list[Char], edit: Edit) -> int:
    return max((index for index, one in enumerate(seen) if one.writer is edit), default=-1)


@dataclass(eq=False)
class Owned:
    """An edit and the branches that made it, by number, with the step of each; equal edits of branches are one."""

    edit: Edit
    same: Spot
    makers: list[int] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)


def owned(found: Sequence[Edits]) -> list[Owned]:
    """Return the edits of all branches, each once, by position; insertions at one gap in declared order.

    Where two branches share an insertion, what one of them has in front of it stays in front of it.
    """
    row: list[Owned] = []
    for maker, edits in enumerate(found):
        spans = [(edit.start, edit.end, edit.text) for edit in edits]
        marks = [(*span, spans[:index].count(span)) for index, span in enumerate(spans)]  # it may insert a text twice
        for index, (edit, mark) in enumerate(zip(edits, marks, strict=True)):
            one = next((one for one in row if one.same == mark), None)
            if one is None:
                one = Owned(edit, mark)
                here = [later for later in marks[index + 1 :] if later[:2] == mark[:2]]
                shared = [other for later in here for other in row if other.same == later]
                row.insert(row.index(shared[0]) if shared else len(row), one)
            if edit.kind == "redact" and one.edit.kind != "redact":
                one.edit = edit
            one.makers.append(maker)
            one.steps.append(edit.step)
    return sorted(row, key=lambda one: (slots(one.edit)[0], one.edit.end))


def clusters(edits: list[Owned]) -> list[list[Owned]]:
    """Return the edits in groups: an edit is in a group with all that overlap it."""
    groups: list[list[Owned]] = []
    for one in edits:
        mine = [group for group in groups if any(_overlap(one.edit, other.edit) for other in group)]
        groups = [group for group in groups if group not in mine]
        joined = [*(other for group in mine for other in group), one]
        groups.append([other for other in edits if other in joined])
    return groups


def _overlap(one: Edit, other: Edit) -> bool:
    both_insert = one.start == one.end and other.start == other.end
    return not both_insert and bool(set(slots(one)) & set(slots(other)))


def settled(cluster: list[Owned]) -> Edit | None:
    """Return what overlapping edits become, or None where no rule says: that is a conflict."""
    edits = [one.edit for one in cluster]
    if len(edits) == 1:
        return edits[0]
    start, end = min(edit.start for edit in edits), max(edit.end for edit in edits)
    for edit in edits:
        if not edit.text and (edit.start, edit.end) == (start, end):
            return replace(edit, hides=any(other.hidden for other in edits))
    settles = all(edit.kind == "redact" or edit.start == edit.end for edit in edits)
    return cover(edits) if settles and any(edit.kind == "redact" for edit in edits) else None


def cover(edits: list[Edit]) -> Edit:
    """Return the redaction of all that the edits own, with the words of the widest redaction; of equals, the first."""
    hiding = [edit for edit in edits if edit.kind == "redact"] or [edit for edit in edits if edit.hidden]
    widest = max(hiding, key=lambda edit: edit.end - edit.start)
    start, end = min(edit.start for edit in edits), max(edit.end for edit in edits)
    return replace(widest, start=start, end=end, hides=True)


def _written_over(cluster: list[Owned]) -> bool:
    """Tell whether what is hidden was hidden without a redaction, and by no branch alone: a text may show the rest."""
    if any(one.edit.kind == "redact" for one in cluster):
        return False
    makers = [set(one.makers) for one in cluster if one.edit.hidden]
    return bool(makers) and not set.intersection(*makers)


def merged(found: Sequence[Edits], wanted: Callable[[list[int]], int | None]) -> tuple[Edits, list[list[str]]]:
    """Return the branches' edits as one, and of each conflict that stays one, the steps.

    ``wanted`` says which of the branches in a conflict wins it; but what any of them hides stays hidden.
    """
    made: list[Edit] = []
    conflicts: list[list[str]] = []
    for cluster in clusters(owned(found)):
        one = settled(cluster)
        if one is not None:
            made.append(one)
            continue
        winner = wanted(sorted({maker for one in cluster for maker in one.makers}))
        if winner is None or _written_over(cluster):
            conflicts.append([step for one in cluster for step in one.steps])
            continue
        kept = [one.edit for one in cluster if winner in one.makers]
        let_go = any(one.edit.hidden for one in cluster if winner not in one.makers)
        made += [cover([one.edit for one in cluster])] if let_go else kept
    return tuple(sorted(made, key=lambda edit: (slots(edit)[0], edit.end))), conflicts


# Values


class Nothing:
    """Stands for what a branch took away."""


GONE: Any = Nothing()
WHOLE_FIELDS = ("role", "created_at", "thread_id", "resource_id")
TEXT_FIELDS = ("arguments", "result")
KEYED_FIELDS = ("tools", "model_settings", "provider_options", "active_tools")
FIRST_WINS = [("fields", "answer"), ("fields", "question"), ("fields", "retry")]


def differs(one: Any, other: Any) -> bool:
    """Tell whether two values differ; 1 is not True in JSON."""
    return one is not other and (type(one) is not type(other) or bool(one != other))


def inside(value: Any) -> dict[Any, Any] | None:
    """Return what stands within a JSON value: of a mapping keys and items, both by index; None for a plain value."""
    if isinstance(value, dict):
        pairs = list(value.items())
        return {(i, what): pairs[i][n] for i in range(len(pairs)) for n, what in enumerate(("key", "item"))}
    return dict(enumerate(value)) if isinstance(value, tuple) else None


def outside(value: Any, made: dict[Any, Any]) -> Any:
    """Return a value of the same kind with other things within it; keys that became one are numbered."""
    if isinstance(value, tuple):
        return tuple(made.values())
    items: dict[Any, Any] = {}
    for index in range(len(value)):
        name = key = made[index, "key"]
        number = 2
        while name in items:
            name, number = f"{key} ({number})", number + 1
        items[name] = made[index, "item"]
    return FrozenDict(items)


def strings(value: Any, spot: Spot) -> Iterator[tuple[Spot, str]]:
    """Yield every string of a JSON value with its spot."""
    if isinstance(value, str):
        yield spot, value
    for key, item in (inside(value) or {}).items():
        yield from strings(item, (*spot, key))


def texts(payload: Payload) -> dict[Spot, str]:
    """Return every text of the messages, and of a tool's arguments or result, by its spot."""
    found: dict[Spot, str] = {}
    for entry in payload.message_list.entries:
        for index, part in enumerate(entry.message.parts):
            for name in part.texts:
                spot = (
                    "messages",
                    entry.message.id,
                    "parts",
                    len(entry.message.parts),
                    index,
                    type(part).__name__,
                    name,
                )
                found.update(strings(getattr(part, name), spot))
    for name in TEXT_FIELDS:
        found.update(strings(payload.fields.get(name), ("fields", name)))
    return found


@dataclass
class State:
    """A payload, the texts that stood there at the last fork, and the edits by which each came about since.

    ``left`` says of messages which parts a join left, by their indexes at the fork: edits of these stand at their
    places at the fork. ``hidden`` says where text was hidden without an edit that tells which. Both are for steps that
    changed more than texts; what a second such step does is compared with the fork, and then a message in which
    anything was hidden counts as hidden.
    """

    payload: Payload
    fork: dict[Spot, str] = field(default_factory=dict)
    edits: dict[Spot, Edits] = field(default_factory=dict)
    left: dict[str, list[int]] = field(default_factory=dict)
    hidden: frozenset[Spot] = frozenset()
    reshaped: bool | None = None
    """Whether more than texts changed in the messages since the fork; None if nothing did."""
    unsettled: frozenset[Spot] = frozenset()
    """The messages whose parts a step put anew or took out, so that others may stand elsewhere than at the fork; under
    "left" those of which a join left some parts, and where a branch had put them anew."""

    def then(
        self,
        after: Payload,
        edits: dict[Spot, Edits],
        left: dict[str, list[int]],
        hidden: frozenset[Spot],
        unsettled: frozenset[Spot] = frozenset(),
    ) -> State:
        """Return the state after these edits of its texts, and whatever else leads to the payload."""
        made = self._then(after, edits, left, hidden)
        return replace(made, unsettled=self.unsettled | unsettled | resettled(self.payload, after, edits))

    def _then(
        self, after: Payload, edits: dict[Spot, Edits], left: dict[str, list[int]], hidden: frozenset[Spot]
    ) -> State:
        reshapes: bool | None = _shape(self.payload) != _shape(after) or bool(moved_parts(self.payload, after, edits))
        if not reshapes and not any(spot[0] == "messages" for spot in edits):
            reshapes = None
        first = self.reshaped is None
        was, now, made = texts(self.payload), texts(after), dict(self.edits)
        for spot, more in edits.items():
            known = self.edits.get(spot, ())
            if first and spot[0] == "messages":
                made[spot] = more
            elif spot in self.fork and edited(self.fork[spot], known) == was.get(spot):
                made[spot] = then(self.fork[spot], known, more)
            else:  # its message was made anew since the fork: a join compares it
                made.pop(spot, None)
        hidden |= self.hidden
        if first or reshapes is None:
            return State(
                after, self.fork, made, left or self.left, hidden, self.reshaped if reshapes is None else reshapes
            )
        if reshapes or self.reshaped:
            hidden |= {area(spot) for spot in hidden} | hiding(self.edits) | hiding(edits)
        made = {spot: one for spot, one in made.items() if spot in now}
        return State(after, self.fork, made, {}, hidden, reshapes or self.reshaped)

    def completed(self, step: str, before: Payload) -> State:
        """Return the state with edits that lead to each text that stands where it stood, also if none are known.

        ``before`` is the payload at the fork; where parts moved since, no edit leads from one to the other.
        """
        moved = moved_parts(before, self.payload, self.edits)
        made = without(self.edits, moved)
        now = texts(self.payload)
        for spot, was in without(self.fork, moved).items():
            if spot in now and edited(was, made.get(spot, ())) != now[spot]:
                made[spot] = difference(was, now[spot], step, hides=self.hides(spot))
        changed_ones = changed_parts(before, self.payload)
        return replace(self, edits=made, unsettled=frozenset(one for one in self.unsettled if one[1] in changed_ones))

    def hides(self, spot: Spot) -> bool:
        """Tell whether text was hidden there without an edit that tells which."""
        return any(one[: len(spot)] == spot or spot[: len(one)] == one for one in self.hidden)


def hiding(edits: dict[Spot, Edits]) -> frozenset[Spot]:
    """Return the messages and fields in which edits hide text."""
    return frozenset(area(spot) for spot, made in edits.items() if any(edit.hidden for edit in made))


def area(spot: Spot) -> Spot:
    """Return where the parts of a message stand, or a field."""
    return spot[:3] if spot[0] == "messages" else spot[:2]


def _shape(payload: Payload) -> object:
    """Return the messages without their texts."""
    return [(entry.message.id, entry.message.metadata, _blank(entry)) for entry in payload.message_list.entries]


def parts_left(before: Payload, after: Payload) -> dict[str, list[int]]:
    """Return the messages from which a step took parts and changed no other, with the indexes of those that it left."""
    now = {entry.message.id: entry.message.parts for entry in after.message_list.entries}
    found: dict[str, list[int]] = {}
    for entry in before.message_list.entries:
        old, new = entry.message.parts, now.get(entry.message.id, ())
        left = _left(old, new)
        if entry.message.id in now and left is not None and len(new) < len(old):
            found[entry.message.id] = left
    return found


def moved_parts(before: Payload, after: Payload, edits: dict[Spot, Edits]) -> set[str]:
    """Return the messages with as many parts as before, of which one stands where another one stood."""
    now = {entry.message.id: entry.message.parts for entry in after.message_list.entries}
    old = {entry.message.id: entry.message.parts for entry in before.message_list.entries}
    return {key for key in old if key in now and _moved(("messages", key, "parts"), old[key], now[key], edits)}


def resettled(before: Payload, after: Payload, edits: dict[Spot, Edits]) -> set[Spot]:
    """Return the messages whose parts stand elsewhere, were taken out, or came."""
    now = {entry.message.id: len(entry.message.parts) for entry in after.message_list.entries}
    old = {entry.message.id: len(entry.message.parts) for entry in before.message_list.entries}
    found = moved_parts(before, after, edits) | {key for key in old if key in now and old[key] != now[key]}
    return {("messages", key) for key in found}


def changed_parts(before: Payload, after: Payload) -> set[str]:
    """Return the messages with other parts than before."""
    now = {entry.message.id: entry.message.parts for entry in after.message_list.entries}
    return {one.message.id for one in before.message_list.entries if now.get(one.message.id) != one.message.parts}


def _moved(spot: Spot, old: tuple[Any, ...], new: tuple[Any, ...], edits: dict[Spot, Edits]) -> bool:
    """Tell whether there are as many parts as before, and one stands where another one stood.

    A part that changed by its edits alone stands where it stood. Any other is looked for where others were changed.
    """
    if len(old) != len(new):
        return False
    told = [_rewritten(part, (*spot, len(old), index), edits) for index, part in enumerate(old)]
    strange = [index for index, part in enumerate(new) if part not in (old[index], told[index])]
    changed_ones = [was for was, now in zip(old, new, strict=True) if was != now]
    return any(new[index] in changed_ones for index in strange)


def without(found: dict[Spot, Any], moved: set[str]) -> dict[Spot, Any]:
    """Return what stands elsewhere than in these messages."""
    return {spot: value for spot, value in found.items() if spot[0] != "messages" or spot[1] not in moved}


def _rewritten(part: Any, spot: Spot, edits: dict[Spot, Edits]) -> Any:
    """Return a part after edits of its texts."""

    def made(value: Any, there: Spot) -> Any:
        if isinstance(value, str):
            return edited(value, edits.get(there, ()))
        within = inside(value)
        return value if within is None else outside(value, {k: made(v, (*there, k)) for k, v in within.items()})

    kind = type(part).__name__
    return replace(part, **{name: made(getattr(part, name), (*spot, kind, name)) for name in part.texts})


def reshaped(before: Payload, after: Payload, edits: dict[Spot, Edits]) -> frozenset[Spot]:
    """Return where parts, or values with texts, changed by more than these edits."""
    found: set[Spot] = set()
    moved = moved_parts(before, after, edits)
    now = {entry.message.id: entry.message for entry in after.message_list.entries}
    for entry in before.message_list.entries:
        old, new = entry.message, now.get(entry.message.id, entry.message)
        if len(old.parts) != len(new.parts) or old.id in moved:
            found.add(("messages", old.id, "parts"))
        elif _parts_shape(old) != _parts_shape(new):
            found |= {
                ("messages", old.id, "parts", len(old.parts), index)
                for index, (was, is_) in enumerate(zip(_parts_shape(old), _parts_shape(new), strict=True))
                if was != is_
            }
    for name in TEXT_FIELDS:
        if _without_strings(before.fields.get(name)) != _without_strings(after.fields.get(name)):
            found.add(("fields", name))
    return frozenset(found)


def forked(payload: Payload) -> State:
    """Return the state with which each branch begins."""
    return State(
        Payload(payload.message_list, payload.facts, payload.fields, (), None, payload.finished), texts(payload)
    )


def edits_of(
    before: Payload, after: Payload, told: dict[Spot, Edits], step: str, hidden: frozenset[Spot]
) -> dict[Spot, Edits]:
    """Return the edits that one step made: those that it told, where these lead to its texts; else what differs.

    ``hidden`` says in which messages and fields it told of edits that hide text.
    """
    was, now = without(texts(before), moved_parts(before, after, told)), texts(after)
    found: dict[Spot, Edits] = {}
    for spot in was:
        if spot in now:
            mine = tuple(replace(edit, step=step) for edit in told.get(spot, ()))
            found[spot] = (
                mine
                if edited(was[spot], mine) == now[spot]
                else difference(was[spot], now[spot], step, hides=area(spot) in hidden)
            )
    return {spot: edits for spot, edits in found.items() if edits}


def spot_of(payload: Payload, place: Any) -> Spot | None:
    """Return where a text stands that a step edited, as the step names it: message, part and path; None if nowhere."""
    name, *path = place.path
    spot: Spot = ("fields", name)
    value = payload.fields.get(name)
    if place.message_id:
        message = payload.message_list.get(place.message_id)
        if message is None or place.part >= len(message.parts):
            return None
        part = message.parts[place.part]
        spot = ("messages", message.id, "parts", len(message.parts), place.part, type(part).__name__, name)
        value = getattr(part, name, None)
    for key in path:
        is_key = isinstance(key, tuple)  # the key itself is the text
        name = key[0] if is_key else key
        within = inside(value)
        if within is None or (isinstance(value, dict) and name not in value):
            return None
        step = (list(value).index(name), "key" if is_key else "item") if isinstance(value, dict) else name
        spot, value = (*spot, step), within.get(step)
    return spot


def left_over(text: str, done: Edits, whole: Edits) -> Edits:
    """Return what is left to do after some edits of a text, so that all of ``whole`` is done."""
    left: list[Edit] = []
    groups: list[list[Edit]] = []
    for edit in (*done, *whole):
        mine = [group for group in groups if any(_touch(edit, other) for other in group)]
        groups = [
            *(group for group in groups if not any(group is one for one in mine)),
            [*(other for group in mine for other in group), edit],
        ]
    for group in groups:
        start, end = min(edit.start for edit in group), max(edit.end for edit in group)
        was, now = (
            edited(
                text[start:end],
                [replace(e, start=e.start - start, end=e.end - start) for e in edits if _among(e, group)],
            )
            for edits in (done, whole)
        )
        moved = sum(len(e.text) - (e.end - e.start) for e in done if not _among(e, group) and e.end <= start)
        if was != now:
            rest = [edit for edit in whole if _among(edit, group)]
            kind: Any = "redact" if any(e.kind == "redact" for e in rest) else "replace" if was else "insert"
            at, step = start + moved, (rest or group)[-1].step
            left.append(Edit(at, at + len(was), now, kind, step, any(e.hidden for e in rest)))
    return tuple(sorted(left, key=lambda edit: (slots(edit)[0], edit.end)))


def _touch(one: Edit, other: Edit) -> bool:
    beside = one.start <= other.end and other.start <= one.end
    return _overlap(one, other) or (beside and (one.start == one.end or other.start == other.end))


@dataclass
class Way:
    """One branch of a join: its name for policies, its path, where it ended, and who changed what, where it knows."""

    name: str
    path: str
    end: State
    credit: dict[Spot, str] = field(default_factory=dict)


class ConflictError(Exception):
    """Nothing settles what these steps changed."""

    def __init__(self, steps: Iterable[str]) -> None:
        self.steps = set(steps)
        super().__init__(self.steps)


class Join:
    """What branches become where they meet."""

    def __init__(self, base: Payload, ways: Sequence[Way], policy: Any) -> None:
        self.base, self.policy = base, policy
        self.moved = {way.path: moved_parts(base, way.end.payload, way.end.edits) for way in ways}
        self.ways = [replace(w, end=replace(w.end, edits=without(w.end.edits, self.moved[w.path]))) for w in ways]
        self.culprits: set[str] = set()
        self.edits: dict[Spot, Edits] = {}
        self.left: dict[str, list[int]] = {}
        self.hidden: set[Spot] = set()
        self.unsettled: set[Spot] = set()
        self.credit: dict[Spot, str] = {}

    def state(self) -> State:
        """Return the payload of all branches' changes, and the edits that lead there.

        Raises:
            ConflictError: nothing says what some of them become.
        """
        ends = [(way, way.end.payload) for way in self.ways]
        messages = self.messages(self.base.message_list, [(way, end.message_list) for way, end in ends])
        facts = self.mapping(("facts",), self.base.facts, [(way, end.facts) for way, end in ends])
        names = dict.fromkeys([*self.base.fields, *(name for _, end in ends for name in end.fields)])
        fields = {n: self.field(n, self.base.fields.get(n), [(w, e.fields.get(n)) for w, e in ends]) for n in names}
        if self.culprits:
            raise ConflictError(self.culprits)
        data = self.base.data + tuple(chunk for _, end in ends for chunk in end.data)
        done = any(end.finished for _, end in ends)
        after = Payload(messages, facts, FrozenDict(fields), data, None, done)
        hidden, unsettled = frozenset(self.hidden), frozenset(self.unsettled)
        return State(after, texts(self.base), self.edits, self.left, hidden, unsettled=unsettled)

    # Who wins

    def wanted(self, candidates: list[Way]) -> Way | None:
        """Return the branch that the policy wants to win a conflict."""
        if self.policy in ("first", "last"):
            return candidates[0 if self.policy == "first" else -1]
        name = self.policy.branch if isinstance(self.policy, Pick) else None
        return next((way for way in candidates if way.name == name), None)

    def whole(self, spot: Spot, before: Any, found: list[tuple[Way, Any]]) -> Any:
        """Return what a value becomes that is taken whole; ``found``: the branches that changed it, and to what."""
        values = [value for _, value in found]
        if not found:
            return before
        for way, _ in found:
            self.credit.setdefault(spot, way.credit.get(spot, way.path))
        if any(value is GONE for value in values):
            return GONE
        if all(value == values[0] for value in values) or spot in FIRST_WINS:
            for way, value in found[::-1]:
                self.taken(spot, way, value)
            return values[0]
        return self.conflict(spot, before, found)

    def conflict(self, spot: Spot, before: Any, found: list[tuple[Way, Any]]) -> Any:
        """Return what the policy says; it may not let a redaction go, unless it is a function."""
        below = {way.path: [e for s, e in way.end.edits.items() if s[: len(spot)] == spot] for way, _ in found}

        def hides(way: Way) -> bool:
            return way.end.hides(spot) or any(e.hidden for edits in below[way.path] for e in edits)

        if callable(self.policy):
            given = {way.name: value for way, value in found}
            value = freeze(self.policy(Conflict(spot, before, FrozenDict(given))))
            self.compare(spot, before, value, hides=any(hides(way) for way, _ in found))
            return value
        winner = self.wanted([way for way, _ in found])
        lost = [way for way, _ in found if way is not winner and hides(way)]
        if winner is not None and not lost:
            return next(self.taken(spot, way, value) for way, value in found if way is winner)
        for way, value in found:
            steps = {edit.step for edits in below[way.path] for edit in edits}
            fewer = spot[2:] == ("parts",) and len(value) < len(before) and _left(before, value) is not None
            if fewer or spot[1] in way.end.left:
                steps.add(way.credit.get((*spot, "left"), way.path))
            elif not steps:
                steps.add(way.credit.get(spot, way.path))
            self.culprits |= steps
        return before

    def compare(self, spot: Spot, before: Any, value: Any, *, hides: bool) -> None:
        """Note what a merge function changed: edits of texts where the parts are of the same kinds as before."""
        self.credit[spot] = "merge"
        self.unsettled |= {spot[:2]} if spot[2:] == ("parts",) else set()
        others = spot[2:] != ("parts",) or _moved(spot, before, value, {})
        if others or [_part_shape(part) for part in before] != [_part_shape(part) for part in value]:
            self.hidden |= {spot} if hides else set()
            return
        for index, (was, now) in enumerate(zip(before, value, strict=True)):
            there = (*spot, len(before), index, type(was).__name__)
            for name in was.texts:
                new = dict(strings(getattr(now, name), (*there, name)))
                for leaf, text in strings(getattr(was, name), (*there, name)):
                    if text != new[leaf]:
                        self.edits[leaf] = difference(text, new[leaf], "merge", hides=hides)

    def taken(self, spot: Spot, way: Way, value: Any) -> Any:
        """Return a value as one branch left it, by the edits which that one made there."""
        self.edits.update({other: edits for other, edits in way.end.edits.items() if other[: len(spot)] == spot})
        self.hidden |= {spot} if way.end.hides(spot) else set()
        self.unsettled |= {one for one in way.end.unsettled if spot[2:] == ("parts",) and one[1] == spot[1]}
        self.credit[spot] = way.credit.get(spot, way.path)
        return value

    # Keys

    def mapping(self, spot: Spot, before: Any, ends: list[tuple[Way, Any]]) -> Any:
        """Return a mapping that merges key by key."""
        made: dict[Any, Any] = {}
        for key in dict.fromkeys([*before, *(key for _, end in ends for key in end)]):
            was = before.get(key, GONE)
            found = [(way, end.get(key, GONE)) for way, end in ends if differs(was, end.get(key, GONE))]
            value = self.whole((*spot, key), was, found)
            if value is not GONE:
                made[key] = value
        return FrozenDict(made)

    def field(self, name: str, before: Any, ends: list[tuple[Way, Any]]) -> Any:
        """Return an override, or a tool's arguments or result."""
        spot = ("fields", name)
        if name in TEXT_FIELDS:
            return self.json(spot, before, ends)
        found = [(way, end) for way, end in ends if differs(before, end)]
        if name == "active_tools" and before is not None:
            every = [(way, dict.fromkeys(end or (), True)) for way, end in ends]
            return tuple(self.mapping(spot, dict.fromkeys(before, True), every))
        if name == "active_tools" and found:  # all were active before; two restrictions leave what both allow
            return tuple(one for one in found[0][1] if all(one in end for _, end in found))
        if name in KEYED_FIELDS and found:
            return self.mapping(spot, before or {}, [(way, end or {}) for way, end in ends]) or before
        return self.whole(spot, before, found)

    # Texts

    def text(self, spot: Spot, before: str, ends: list[tuple[Way, str]]) -> str:
        """Return what a text becomes: the branches' edits, slot by slot."""
        found: list[tuple[Way, Edits]] = []
        for way, now in ends:
            edits = way.end.edits.get(spot, ())
            if edited(before, edits) != now:
                edits = difference(before, now, way.path, hides=way.end.hides(spot))
            if edits:
                found.append((way, edits))
        ways = [way for way, _ in found]

        def winner(makers: list[int]) -> int | None:
            way = self.wanted([ways[maker] for maker in makers])
            return None if way is None else ways.index(way)

        made, conflicts = merged([edits for _, edits in found], winner)
        if conflicts and callable(self.policy):
            given = FrozenDict({way.name: edited(before, edits) for way, edits in found})
            after = self.policy(Conflict(spot, before, given))
            hides = any(edit.hidden for _, edits in found for edit in edits)
            made, conflicts = difference(before, after, "merge", hides=hides), []
        self.culprits |= {step for steps in conflicts for step in steps}
        if made:
            self.edits[spot] = made
        return edited(before, made)

    def json(self, spot: Spot, before: Any, ends: list[tuple[Way, Any]]) -> Any:
        """Return a JSON value whose strings are text; one of another shape is taken whole."""
        touched = [
            (way, now)
            for way, now in ends
            if differs(before, now) or any(other[: len(spot)] == spot for other in way.end.edits)
        ]
        within = inside(before)
        if isinstance(before, str) and all(isinstance(now, str) for _, now in touched):
            return self.text(spot, before, touched)
        if within is not None and all(self.same_shape(spot, before, now, way) for way, now in touched):
            below = {key: [(way, (inside(now) or {})[key]) for way, now in touched] for key in within}
            return outside(before, {key: self.json((*spot, key), item, below[key]) for key, item in within.items()})
        return self.whole(spot, before, touched)

    def same_shape(self, spot: Spot, before: Any, now: Any, way: Way) -> bool:
        """Tell whether a value has the same items as before, though they may have been edited."""
        if not isinstance(before, dict) or not isinstance(now, dict) or len(before) != len(now):
            return isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now)
        renamed = [(was, key) for was, key in zip(before, now, strict=True) if was != key]
        keys = [(*spot, (index, "key")) for index in range(len(before))]
        return not renamed or any(key in way.end.edits for key in keys)

    # Messages

    def messages(self, before: MessageList, ends: list[tuple[Way, MessageList]]) -> MessageList:
        """Return the conversation: messages by their ids; what one branch removed is gone."""
        found = [(way, {entry.message.id: entry for entry in end.entries}) for way, end in ends]
        made: dict[str, Entry] = {}
        for entry in before.entries:
            key = entry.message.id
            if all(key in end for _, end in found):
                made[key] = self.entry(entry, [(way, end[key]) for way, end in found])
        known = [entry.message.id for entry in before.entries]
        orders = []
        for way, end in found:
            order = tuple(key for key in end if key in known)
            if order != tuple(key for key in known if key in end):
                orders.append((way, order))
        order = self.whole(("order",), tuple(known), orders)
        entries = {key: made[key] for key in order if key in made}
        return before.with_entries(self.with_new(entries, known, found))

    def with_new(
        self, old: dict[str, Entry], known: list[str], found: list[tuple[Way, dict[str, Entry]]]
    ) -> list[Entry]:
        """Return the messages with the new ones, each behind the one that it followed in its branch."""
        fresh = dict.fromkeys(key for _, end in found for key in end if key not in known)
        added: dict[str, Entry] = {}
        behind: dict[str, list[str | None]] = {}
        for key in fresh:
            told = [(way, end[key]) for way, end in found if key in end]
            chosen = told[0][1]
            if any(entry != chosen for _, entry in told):
                message = self.conflict(("messages", key), None, [(way, entry.message) for way, entry in told])
                if message is None:
                    continue
                chosen = next((e for _, e in told if e.message == message), chosen._replace(message=message))
            added[key] = chosen
            way = next(way for way, entry in told if entry == chosen or callable(self.policy))
            order = [None, *next(end for other, end in found if other is way)]
            previous = order[order.index(key) - 1]
            behind[key] = [previous, *(known[: known.index(previous)][::-1] if previous in known else ())]
            self.credit["messages", key] = way.credit.get(("messages", key), way.path)
        result = list(old.values())
        here = {key: next((k for k in before if k in old or k in added), None) for key, before in behind.items()}

        def place(anchor: str | None) -> list[Entry]:
            return [entry for key in added if here[key] == anchor for entry in (added[key], *place(key))]

        return [*place(None), *(one for entry in result for one in (entry, *place(entry.message.id)))]

    def entry(self, before: Entry, ends: list[tuple[Way, Entry]]) -> Entry:
        """Return what one message becomes."""
        spot, old = ("messages", before.message.id), before.message
        from_where = [(way, tuple(end[1:])) for way, end in ends if differs(before[1:], end[1:])]
        source, tag = self.whole(("sources", old.id), tuple(before[1:]), from_where)
        now = [(way, end.message) for way, end in ends]
        made: dict[str, Any] = {
            "metadata": self.mapping((*spot, "metadata"), old.metadata, [(w, m.metadata) for w, m in now])
        }
        for name in WHOLE_FIELDS:
            changed_ones = [(way, getattr(m, name)) for way, m in now if differs(getattr(old, name), getattr(m, name))]
            made[name] = self.whole((*spot, name), getattr(old, name), changed_ones)
        made["parts"] = self.parts(spot, old, now)
        return Entry(replace(old, **made), source, tag)

    def parts(self, spot: Spot, old: Message, ends: list[tuple[Way, Message]]) -> tuple[Any, ...]:
        """Return the parts of a message: by index, some taken out; new ones are taken whole."""
        count = len(old.parts)
        known = [(way, m, way.end.left.get(old.id) or _left(old.parts, m.parts)) for way, m in ends]
        known = [(way, m, None if old.id in self.moved[way.path] else kept) for way, m, kept in known]
        touched = [(w, m.parts) for w, m in ends if m.parts != old.parts or any(s[:2] == spot for s in w.end.edits)]
        left = [(way, m, kept) for way, m, kept in known if kept is not None]
        if len(left) < len(known):
            return self.whole((*spot, "parts"), old.parts, touched)  # type: ignore[no-any-return]
        if any(_may_show(old, one, other) for one in left for other in left if one is not other):
            whole = [(replace(way, end=way.end.completed(way.path, self.base)), parts) for way, parts in touched]
            return self.conflict((*spot, "parts"), old.parts, whole)  # type: ignore[no-any-return]
        if any(_unsettled(old, way, message) for way, message, _ in left):
            self.unsettled |= {spot, ("left", old.id)}
        made: list[Any] = []
        kept_ones: list[int] = []
        for index, part in enumerate(old.parts):
            there = (*spot, "parts", count, index)
            having = [(way, m, kept) for way, m, kept in left if index in kept]
            gone = next((way for way, _, kept in left if index not in kept), None)
            if gone is not None:
                self.credit[there] = gone.credit.get(there, gone.path)
            if len(having) == len(left):
                same = [
                    (way, m.parts[kept.index(index)])
                    for way, m, kept in left
                    if len(m.parts) == count or old.id in way.end.left
                ]
                made.append(self.part(there, part, same))
                kept_ones.append(index)
            elif any(way.end.hides(there) for way, _, _ in left) or any(
                e.hidden for way, _, _ in having for s, edits in way.end.edits.items() if s[:5] == there for e in edits
            ):
                self.hidden.add((*spot, "parts"))
        if len(made) < count:
            self.left[old.id] = kept_ones
            way = next(way for way, _, kept in left if len(kept) < count)
            self.credit[(*spot, "parts", "left")] = way.credit.get((*spot, "parts", "left"), way.path)
        return tuple(made)

    def part(self, spot: Spot, before: Any, ends: list[tuple[Way, Any]]) -> Any:
        """Return one part: field by field, its texts by their edits; one of another kind is taken whole."""
        touched = [(w, p) for w, p in ends if differs(before, p) or any(s[: len(spot)] == spot for s in w.end.edits)]
        if any(type(part) is not type(before) for _, part in touched):
            return self.whole(spot, before, touched)
        made: dict[str, Any] = {}
        for item in fields(before):
            was, there = getattr(before, item.name), (*spot, type(before).__name__, item.name)
            found = [(way, getattr(part, item.name)) for way, part in touched]
            if item.name in before.texts:
                made[item.name] = self.json(there, was, found)
            else:
                made[item.name] = self.whole(there, was, [(way, now) for way, now in found if differs(was, now)])
        return replace(before, **made)


def _unsettled(old: Message, way: Way, now: Message) -> bool:
    """Tell whether a branch may have moved parts, though each seems to stand where it stood."""
    if len(now.parts) < len(old.parts):
        return old.id in way.end.left and ("left", old.id) in way.end.unsettled
    return ("messages", old.id) in way.end.unsettled and now.parts != old.parts


def _may_show(old: Message, one: tuple[Way, Message, list[int]], other: tuple[Way, Message, list[int]]) -> bool:
    """Tell whether one branch may have moved a part in which the other hid text.

    Of each: the branch, the message as it left it, and the indexes of the parts that are left.
    """
    way, message, kept = one
    if not _unsettled(old, way, message):
        return False
    for index, part in enumerate(old.parts):
        there = ("messages", old.id, "parts", len(old.parts), index)
        mine, others = ({s: e for s, e in end.edits.items() if s[:5] == there} for end in (way.end, other[0].end))
        if index in kept and not mine and not differs(part, message.parts[kept.index(index)]):
            continue
        if any(edit.hidden for edits in others.values() for edit in edits):
            return True
        there_now = other[1].parts[other[2].index(index)] if index in other[2] else GONE
        if there_now != _rewritten(part, there, others) and other[0].end.hides(there):
            return True
    return False


def _left(old: tuple[Any, ...], new: tuple[Any, ...]) -> list[int] | None:
    """Return which of the parts are left; None if there are others."""
    if len(old) == len(new):
        return list(range(len(old)))
    left: list[int] = []
    for index, part in enumerate(old):
        if len(left) < len(new) and part == new[len(left)]:
            left.append(index)
    return left if len(left) == len(new) else None


OVERRIDES = {
    "active_tools",
    "model",
    "model_settings",
    "provider_options",
    "response_format",
    "tool_choice",
    "tools",
}


def beyond_claim(claim: str, before: Payload, after: Payload, edits: dict[Spot, Edits]) -> bool:
    """Tell whether a step changed more than it declares.

    "spans" are texts, metadata, messages taken out, and overrides.
    """
    if claim == "anything":
        return False
    if claim == "nothing":
        return bool(edits) or _shown(before) != _shown(after)
    old = {entry.message.id: _blank(entry) for entry in before.message_list.entries}
    new = {entry.message.id: _blank(entry) for entry in after.message_list.entries}
    kept = {key: old[key] for key in old if key in new}
    same_fields = all(
        _without_strings(before.fields.get(name)) == _without_strings(after.fields.get(name))
        if name in TEXT_FIELDS
        else before.fields.get(name) == after.fields.get(name)
        for name in {**before.fields, **after.fields}
        if name not in OVERRIDES
    )
    return list(kept.items()) != list(new.items()) or not same_fields


def _shown(payload: Payload) -> tuple[Any, ...]:
    return payload.message_list.entries, payload.fields


def _blank(entry: Entry) -> Any:
    """Return a message without texts and metadata, so that the rest can be compared."""
    message = entry.message
    whole = [getattr(message, name) for name in WHOLE_FIELDS]
    return entry.source, entry.tag, whole, _parts_shape(message)


def _parts_shape(message: Message) -> list[Any]:
    """Return the parts of a message without their texts."""
    return [_part_shape(part) for part in message.parts]


def _part_shape(part: Any) -> Any:
    items = [(item.name, getattr(part, item.name)) for item in fields(part)]
    return type(part), [(name, _without_strings(value) if name in part.texts else value) for name, value in items]


def _without_strings(value: Any) -> Any:
    if isinstance(value, str):
        return ""
    within = inside(value)
    return value if within is None else {key: _without_strings(item) for key, item in within.items()}
