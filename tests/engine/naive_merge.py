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
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from penstock import Conflict, Edit, Message, TextPart
from penstock.engine.frozen import FrozenDict, freeze
from penstock.engine.message_list import Entry, MessageList
from penstock.engine.merge import Pick
from penstock.engine.payload import Payload

Edits = tuple[Edit, ...]
Spot = tuple[Any, ...]
"""Where a value stands, by ids, indexes and field names; an item of a mapping by its index, its key under "key"."""

# Texts


def slots(edit: Edit) -> range:
    """Return the slots that an edit owns: gap g is slot 2g, character c is slot 2c + 1."""
    return range(2 * edit.start, 2 * edit.start + 1) if edit.start == edit.end else range(2 * edit.start + 1, 2 * edit.end)


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


def difference(before: str, after: str, step: str) -> Edits:
    """Return the one edit between two texts: all but what they begin and end with in common."""
    start, end, cut = 0, len(before), len(after)
    while start < min(end, cut) and before[start] == after[start]:
        start += 1
    while start < min(end, cut) and before[end - 1] == after[cut - 1]:
        end, cut = end - 1, cut - 1
    made = Edit(start, end, after[start:cut], "insert" if start == end else "replace", step)
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
                shared = [o for o in row if o.same in marks[index + 1 :] and o.same[:2] == mark[:2]]
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
        joined = [*sum(mine, []), one]
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
    if any(edit.kind == "redact" for edit in edits):
        if all(edit.kind == "redact" or edit.start == edit.end for edit in edits):
            return cover(edits)
    return None


def cover(edits: list[Edit]) -> Edit:
    """Return the redaction of all that the edits own, with the words of the widest redaction; of equals, the first."""
    hiding = [edit for edit in edits if edit.kind == "redact"] or [edit for edit in edits if edit.hidden]
    widest = max(hiding, key=lambda edit: edit.end - edit.start)
    start, end = min(edit.start for edit in edits), max(edit.end for edit in edits)
    return replace(widest, start=start, end=end, hides=True)


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
        if winner is None:
            conflicts.append([step for one in cluster for step in one.steps])
            continue
        kept = [one.edit for one in cluster if winner in one.makers]
        lost = [one.edit for one in cluster if winner not in one.makers]
        made += [cover([*kept, *lost])] if any(edit.hidden for edit in lost) else kept
    return tuple(sorted(made, key=lambda edit: (slots(edit)[0], edit.end))), conflicts
