"""Edits of a text, as sorted, disjoint spans: apply, compose, merge and compare them.

Merges, streams, records and the viewer all use them. Positions are code points of the text before the edits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.values.errors import EditError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

EditKind = Literal["redact", "replace", "insert"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the span ``[start, end)`` of a text.

    Attributes:
        start: where the span begins, in code points of the text before the edit.
        end: where it ends; at least ``start``.
        text: the text that replaces the span; empty to delete it.
        kind: ``redact`` hides the old text, ``replace`` rewords it, ``insert`` adds text at a point (``start == end``).
        step: the path of the step that made the edit; set by the engine.
        hides: whether the edit must not be dropped although it is not a redaction, because it comes from a guard or is
            the union of a redaction with other edits. Ignored when edits are compared.

    Raises:
        EditError: the span is negative or reversed, or an insert has ``start != end``.
    """

    start: int
    end: int
    text: str = ""
    kind: EditKind = "replace"
    step: str = ""
    hides: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse impossible spans."""
        if not 0 <= self.start <= self.end:
            raise EditError(f"an edit must have 0 <= start <= end, not start={self.start}, end={self.end}")
        if self.kind == "insert" and self.start != self.end:
            raise EditError(f"an edit of kind 'insert' must have start == end, not start={self.start}, end={self.end}")

    @property
    def hidden(self) -> bool:
        """Whether it hides text that must not appear again."""
        return self.kind == "redact" or self.hides


Edits: TypeAlias = tuple[Edit, ...]
"""Edits of one text, sorted by position and disjoint."""


def normalise(edits: Iterable[Edit], text: str) -> Edits:
    """Return the edits sorted and checked against their text, without those that do nothing.

    Raises:
        EditError: two of them overlap, or one reaches beyond the text.
    """
    ordered = in_order([edit for edit in edits if edit.text or edit.start < edit.end])
    at = 0
    for edit in ordered:
        if edit.start < at:
            raise EditError(f"edits overlap at position {edit.start}; combine them into one")
        at = edit.end
    if at > len(text):
        raise EditError(f"an edit ends at {at}, but the text has {len(text)} characters")
    return ordered


_JOINED_AT_ONCE = 1_000  # pieces: to free very many at once is one long step, in which no other thread runs


def apply(text: str, edits: Edits) -> str:
    """Return the text with the edits made; they have to be sorted and disjoint."""
    if not edits:
        return text
    made: list[str] = []
    pieces: list[str] = []
    at = 0
    for edit in edits:
        pieces.append(text[at : edit.start])
        pieces.append(edit.text)
        at = edit.end
        if len(pieces) > _JOINED_AT_ONCE:
            made.append("".join(pieces))
            pieces.clear()
    pieces.append(text[at:])
    return "".join([*made, *pieces] if made else pieces)


def difference(before: str, after: str, step: str = "") -> Edits:
    """Return one edit that leads from a text to another, without common prefix and suffix; none if they are equal."""
    if before == after:
        return ()
    limit = min(len(before), len(after))
    head = _common(limit, lambda size: before[:size] == after[:size])
    rest = limit - head
    tail = _common(rest, lambda size: size == 0 or before[-size:] == after[-size:])
    start, end = head, len(before) - tail
    kind: EditKind = "insert" if start == end else "replace"
    return (Edit(start, end, after[head : len(after) - tail], kind, step),)


def _common(limit: int, same: Callable[[int], bool]) -> int:
    """Return the largest size up to the limit for which ``same`` holds, by bisection (slices compare at C speed)."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(middle) else (low, middle - 1)
    return low


def stamp(edits: Edits, step: str, *, hides: bool = False) -> Edits:
    """Return the edits with the path of the step that made them; those that have one keep it.

    Args:
        edits: the edits.
        step: the path of the step.
        hides: whether every edit that takes text away hides it, as those of a guard do.
    """
    for edit in edits:
        if not edit.step or (hides and edit.kind == "replace" and not edit.hides):
            break
    else:
        return edits
    made: list[Edit] = []
    for edit in edits:
        hiding = edit.hides or (hides and edit.kind == "replace" and edit.start < edit.end)
        made.append(Edit(edit.start, edit.end, edit.text, edit.kind, edit.step or step, hiding))
    return tuple(made)


def compose(first: Edits, second: Edits) -> Edits:
    """Return edits that do what ``first`` and then ``second`` (in positions of the text after ``first``) do.

    Edits of ``second`` that change what ``first`` wrote are united with it; insertions beside it stay separate.
    """
    if not first or not second:
        return first or second
    result: list[Edit] = []
    shift = 0  # position after `first` minus position before it, up to where the walk stands
    i = j = 0
    while i < len(first) or j < len(second):
        ahead = first[i] if i < len(first) else None
        later = second[j] if j < len(second) else None
        if ahead is not None and (later is None or _clear_of(ahead, later, shift, ahead_first=True)):
            result.append(ahead)
            shift += len(ahead.text) - (ahead.end - ahead.start)
            i += 1
        elif later is not None and (ahead is None or _clear_of(ahead, later, shift, ahead_first=False)):
            result.append(shifted(later, -shift))
            j += 1
        else:
            united, i, j, shift = _unite(first, second, i, j, shift)
            if united.text or united.start < united.end:  # what was inserted may be gone again
                result.append(united)
    return tuple(result)


def _clear_of(ahead: Edit, later: Edit, shift: int, *, ahead_first: bool) -> bool:
    """Tell whether two edits do not overlap, and ``ahead`` (of the first edits) lies before ``later``, or after it."""
    start = ahead.start + shift
    end = start + len(ahead.text)
    return end <= later.start if ahead_first else later.end <= start


def _unite(first: Edits, second: Edits, i: int, j: int, shift: int) -> tuple[Edit, int, int, int]:
    """Unite the touching edits from ``first[i]`` and ``second[j]`` on into one, in positions before ``first``."""
    taken_first: list[Edit] = [first[i]]
    taken_second: list[Edit] = []
    begin = min(first[i].start + shift, second[j].start)
    after = shift + len(first[i].text) - (first[i].end - first[i].start)
    reach = first[i].end + after  # how far the union goes, in positions between the two
    i += 1
    grew = True
    while grew:
        grew = False
        while j < len(second) and second[j].start < reach:
            taken_second.append(second[j])
            reach = max(reach, second[j].end)
            j, grew = j + 1, True
        while i < len(first) and first[i].start + after < reach:
            taken_first.append(first[i])
            after += len(first[i].text) - (first[i].end - first[i].start)
            reach = max(reach, first[i].end + after)
            i, grew = i + 1, True
    start, end = begin - shift, reach - after
    text = _rewrite(taken_first, taken_second, start, end, begin)
    redacts = _only_redacted(taken_first, taken_second, shift)
    kind: EditKind = "redact" if redacts else "insert" if start == end else "replace"
    step = taken_second[-1].step if taken_second else taken_first[-1].step
    return Edit(start, end, text, kind, step, _hides(taken_first) or _hides(taken_second)), i, j, after


def _hides(edits: Iterable[Edit]) -> bool:
    return any(edit.hidden for edit in edits)


def shifted(edit: Edit, by: int) -> Edit:
    """Return an edit moved by a number of characters."""
    return Edit(edit.start + by, edit.end + by, edit.text, edit.kind, edit.step, edit.hides)


def _only_redacted(first: Sequence[Edit], second: Sequence[Edit], shift: int) -> bool:
    """Tell whether redactions wrote all text of the union; other text might quote text that a sibling hides."""
    if not any(edit.kind == "redact" for edit in (*first, *second)):
        return False
    for edit in first:
        start = edit.start + shift
        end = start + len(edit.text)
        shift += len(edit.text) - (edit.end - edit.start)
        covered = any(later.start <= start and end <= later.end for later in second)
        if edit.text and edit.kind != "redact" and not covered:
            return False
    return all(edit.kind == "redact" or not edit.text for edit in second)


def _rewrite(first: Sequence[Edit], second: Sequence[Edit], start: int, end: int, begin: int) -> str:
    """Return the text of a union. Edits cover all of its span, so the text before is not needed."""
    width = end - start
    hole = "\0" * width  # stands for the text before; no character of it can survive where the union is covered
    middle = apply(hole, tuple(Edit(e.start - start, e.end - start, e.text, e.kind) for e in first))
    return apply(middle, tuple(Edit(e.start - begin, e.end - begin, e.text, e.kind) for e in second))


def merge(branches: Sequence[Edits]) -> tuple[Edits, list[Edits]]:
    """Merge the edits that parallel branches made to one text, all in positions of that text.

    Different insertions at one point all stay, in the order of ``branches``. Equal edits of several branches count
    once. Overlapping redactions become their union, with the replacement of the widest one. Insertions within a
    redaction, and whatever lies within a deletion, are dropped. `unite_overlaps` has rules of its own for the findings
    of one guard.

    Returns:
        The merged edits, and the clusters of overlapping edits that no rule resolves (empty if there are none).
    """
    filled = [edits for edits in branches if edits]
    if len(filled) <= 1:
        return (filled[0] if filled else ()), []
    ordered = in_order([edit for edits in filled for edit in edits])
    for one, other in pairwise(ordered):
        if one.end > other.start or one.start >= other.end:
            break
    else:
        return ordered, []  # nothing overlaps, and no two insertions are at one point
    ordered = in_order(_distinct(filled))
    merged: list[Edit] = []
    conflicts: list[Edits] = []
    for cluster in _clusters(ordered):
        resolved = _resolve(cluster)
        if resolved is None:
            conflicts.append(tuple(cluster))
        else:
            merged.extend(resolved)
    return tuple(merged), conflicts


def unite_overlaps(found: Sequence[Edit]) -> Edits:
    """Return the sorted edits that one guard made to one text as disjoint ones.

    They may overlap where the guard searched a text in parts and as a whole. These rules are for one guard alone;
    `merge` has those for parallel branches. If nothing overlaps, every edit stays, also equal insertions at one point.
    Otherwise:

    - Equal edits count once, as a redaction if one of them is a redaction.
    - Different insertions at one point all stay, in the order of ``found``. Edits that only touch stay, too.
    - A deletion that covers all edits it overlaps with takes their place.
    - Overlapping redactions become one over their union, with the text of the widest one, or of the first of several as
      wide. Insertions within it are dropped.

    Raises:
        EditError: other edits overlap.
    """
    if all(one.end <= other.start for one, other in pairwise(found)):
        return tuple(found)
    once: dict[tuple[int, int, str], Edit] = {}
    for edit in found:
        known = once.setdefault((edit.start, edit.end, edit.text), edit)
        if edit.kind == "redact" and known.kind != "redact":
            once[edit.start, edit.end, edit.text] = edit
    return tuple(_united(cluster) for cluster in _clusters(in_order(once.values())))


def _united(cluster: list[Edit]) -> Edit:
    """Return the edit that takes the place of overlapping ones of one guard; a single one stays.

    Raises:
        EditError: they are not all redactions, and no deletion covers them.
    """
    if len(cluster) == 1:
        return cluster[0]
    start, end = min(edit.start for edit in cluster), max(edit.end for edit in cluster)
    for edit in cluster:
        if not edit.text and (edit.start, edit.end) == (start, end):
            return replace(edit, hides=any(other.hidden for other in cluster))
    if any(edit.kind != "redact" and edit.start < edit.end for edit in cluster):
        raise EditError("a guard returned edits that overlap; return disjoint edits")
    redactions = [edit for edit in cluster if edit.kind == "redact"]
    widest = max(redactions, key=lambda edit: edit.end - edit.start)
    return Edit(start, end, widest.text, "redact", widest.step, hides=True)


def _distinct(branches: Sequence[Edits]) -> Iterable[Edit]:
    """Return each edit once. Of equal edits, a redaction is preferred.

    Insertions at one point all stay: in declared order of the branches, and several of one branch in its order. Equal
    ones of one branch count as many times as the branch has them.
    """
    seen: dict[_Mark, Edit] = {}
    points: dict[tuple[int, int], list[_Mark]] = {}
    for edits in branches:
        for point, marks in _by_point(edits, seen).items():
            points[point] = _woven(points.get(point, []), marks)
    return [seen[mark] for marks in points.values() for mark in marks]


_Mark = tuple[int, int, str, int]
"""What equal edits of branches have in common: span, text, and the number of such an edit within its branch."""


def _by_point(edits: Edits, seen: dict[_Mark, Edit]) -> dict[tuple[int, int], list[_Mark]]:
    """Return the marks of a branch's edits by point, in its order, and add the edits to ``seen``."""
    points: dict[tuple[int, int], list[_Mark]] = {}
    counts: dict[tuple[int, int, str], int] = {}
    for edit in edits:
        span = (edit.start, edit.end, edit.text)
        counts[span] = counts.get(span, 0) + 1
        mark = (*span, counts[span])
        if mark not in seen or (edit.kind == "redact" and seen[mark].kind != "redact"):
            seen[mark] = edit
        points.setdefault(_position(edit), []).append(mark)
    return points


def _woven(known: list[_Mark], more: list[_Mark]) -> list[_Mark]:
    """Merge two lists: new items stand before the next item that both have, else at the end."""
    if not known:
        return more
    woven = list(known)
    for index, mark in enumerate(more):
        if mark not in woven:
            following = next((other for other in more[index + 1 :] if other in woven), None)
            woven.insert(len(woven) if following is None else woven.index(following), mark)
    return woven


def in_order(edits: Iterable[Edit]) -> Edits:
    """Return the edits by position; insertions at one point keep the order they came in."""
    given = tuple(edits)
    start = end = 0
    for edit in given:  # most are in order, and to sort many is one long step, in which no other thread runs
        if edit.start < start or (edit.start == start and edit.end < end):
            return tuple(sorted(given, key=_position))
        start, end = edit.start, edit.end
    return given


def _position(edit: Edit) -> tuple[int, int]:
    return (edit.start, edit.end)


def _clusters(ordered: Edits) -> Iterable[list[Edit]]:
    """Split sorted edits (at least one) where none overlap; an insertion belongs to one that strictly contains it."""
    cluster: list[Edit] = []
    reach = -1
    for edit in ordered:
        if cluster and edit.start >= reach:
            yield cluster
            cluster = []
        cluster.append(edit)
        reach = max(reach, edit.end) if len(cluster) > 1 else edit.end
    yield cluster


def _resolve(cluster: list[Edit]) -> list[Edit] | None:
    """Return the edits that replace a cluster of overlapping ones, or None where no rule resolves it."""
    if len(cluster) == 1:
        return cluster
    redactions = [edit for edit in cluster if edit.kind == "redact"]
    others = [edit for edit in cluster if edit.kind != "redact"]
    start = min(edit.start for edit in cluster)
    end = max(edit.end for edit in cluster)
    deletion = next((e for e in cluster if not e.text and e.start == start and e.end == end), None)
    if deletion is not None:
        return [replace(deletion, hides=any(edit.hidden for edit in cluster))]
    if redactions and all(edit.start == edit.end for edit in others):
        return [cover(cluster)]
    return None


def cover(cluster: Sequence[Edit]) -> Edit:
    """Return one edit that hides the whole span of a cluster, with the replacement of its widest redaction."""
    hiding = [edit for edit in cluster if edit.hidden]
    widest = max(hiding, key=lambda edit: (edit.kind == "redact", edit.end - edit.start))
    start, end = min(edit.start for edit in cluster), max(edit.end for edit in cluster)
    return Edit(start, end, widest.text, widest.kind, widest.step, hides=True)


def remainder(done: Edits, whole: Edits, text: str) -> Edits:
    """Return the edits that lead from the text after ``done`` to that after ``whole``; both are edits of ``text``."""
    left: list[Edit] = []
    shift = 0
    marked = sorted(
        [*((e, 0) for e in done), *((e, 1) for e in whole)], key=lambda item: (*_position(item[0]), item[1])
    )
    for start, end, group in _side_by_side(marked):
        mine = tuple(edit for edit, which in group if which == 0)
        both = tuple(edit for edit, which in group if which == 1)
        was, now = _within(text, mine, start, end), _within(text, both, start, end)
        if was != now:
            at = start + shift
            kind: EditKind = "redact" if any(e.kind == "redact" for e in both) else "replace" if was else "insert"
            step = both[-1].step if both else mine[-1].step
            left.append(Edit(at, at + len(was), now, kind, step, _hides(both)))
        shift += len(was) - (end - start)
    return tuple(left)


def _side_by_side(marked: Sequence[tuple[Edit, int]]) -> Iterable[tuple[int, int, list[tuple[Edit, int]]]]:
    """Split sorted edits of two kinds into groups that overlap or, where one has no width, touch."""
    group: list[tuple[Edit, int]] = []
    start = reach = 0
    for edit, which in marked:
        pointed = edit.start == edit.end or any(other.start == other.end for other, _ in group)
        if group and (edit.start > reach or (edit.start == reach and not pointed)):
            yield start, reach, group
            group = []
        if not group:
            start, reach = edit.start, edit.end
        group.append((edit, which))
        reach = max(reach, edit.end)
    if group:
        yield start, reach, group


def _within(text: str, edits: Edits, start: int, end: int) -> str:
    """Return a span of the text after the edits in it."""
    return apply(text[start:end], tuple(Edit(e.start - start, e.end - start, e.text, e.kind) for e in edits))
