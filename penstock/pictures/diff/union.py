"""Both workflows as one tree: the new one, with what was removed in the place where it stood."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.tracing.display import short
from penstock.pictures.diff.entries import entries_of
from penstock.pictures.diff.fields import FieldChange, differing
from penstock.pictures.diff.matching import Matches, last_part
from penstock.pictures.labels import last

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Sequence
    from penstock.pictures.diff.entries import Entry

What: TypeAlias = Literal["same", "added", "removed", "changed"]


@dataclass(eq=False)
class Line:
    """One entry of the tree: what became of it, and its entries in both workflows."""

    what: What
    new: Entry | None
    old: Entry | None
    fields: tuple[FieldChange, ...] = ()
    inside: list[Line] = field(default_factory=list["Line"])

    @property
    def entry(self) -> Entry:
        """The entry in the new workflow, or in the old one if it was removed."""
        found = self.new or self.old
        assert found is not None  # one of them is always there  # noqa: S101
        return found


def union_of(before: Sequence, after: Sequence) -> Line:
    """Return the tree of two workflows."""
    old, new = entries_of(before), entries_of(after)
    return _Union(Matches(old, new)).line(new)


class _Union:
    def __init__(self, matches: Matches) -> None:
        self._matches = matches

    def line(self, new: Entry) -> Line:
        """Return an entry of the new workflow, with what was removed from it."""
        old = self._matches.old(new)
        if old is None:
            return Line("added", new, None, _only(new, "after"), [self.line(one) for one in new.inside])
        fields = (
            *self._moved(old, new),
            *(() if old.otherwise or new.otherwise else differing(old.leaves, new.leaves)),
        )
        inside = [self.line(one) for one in new.inside]
        made = Line("changed" if fields else "same", new, old, fields, inside)
        self._insert_removed(made, old)
        return made

    def _insert_removed(self, line: Line, old: Entry) -> None:
        """Add what was removed from an entry: each after what stood before it, as far as that is still there."""
        place = 0
        at = {one.new: number for number, one in enumerate(line.inside)}
        gone: list[tuple[int, Line]] = []
        for one in old.inside:
            new = self._matches.new(one)
            if new is None:
                gone.append((place, self.removed(one)))
            elif new in at:
                place = max(place, at[new] + 1)
        for number, (position, removed) in enumerate(gone):
            line.inside.insert(position + number, removed)

    def removed(self, old: Entry) -> Line:
        """Return an entry that was removed, with what was removed from within it."""
        inside = [self.removed(one) for one in old.inside if self._matches.new(one) is None]
        return Line("removed", None, old, _only(old, "before"), inside)

    def _moved(self, old: Entry, new: Entry) -> list[FieldChange]:
        above, over = old.above, new.above
        if above is None or over is None:
            return []
        if self._matches.new(above) is over and new not in self._out_of_order(above, over):
            return []
        return [FieldChange("place", _place(old), _place(new))]

    def _out_of_order(self, old: Entry, new: Entry) -> set[Entry]:
        """Return the fewest entries that must have been moved to get from the old order to the new one."""
        rank = {one: number for number, one in enumerate(old.inside)}
        common = [
            (rank[before], one)
            for one in new.inside
            if (before := self._matches.old(one)) is not None and before in rank
        ]
        kept = _increasing([number for number, _ in common])
        return {one for number, (_, one) in enumerate(common) if number not in kept}


def _increasing(numbers: list[int]) -> set[int]:
    """Return the places of a longest increasing part of a list."""
    ends: list[int] = []
    places: list[int] = []
    before: list[int | None] = []
    for place, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(places[length - 1] if length else None)
        ends[length : length + 1] = [number]
        places[length : length + 1] = [place]
    kept: set[int] = set()
    at = places[-1] if places else None
    while at is not None:
        kept.add(at)
        at = before[at]
    return kept


def _only(entry: Entry, side: Literal["before", "after"]) -> tuple[FieldChange, ...]:
    """Return the properties of an entry that only one workflow has."""
    made = [FieldChange(name, leaf.shown, leaf.shown, only=side) for name, leaf in entry.leaves.items()]
    return (FieldChange("place", _place(entry), _place(entry), only=side), *made)


def _place(entry: Entry) -> str:
    """Return where an entry stands, in words."""
    siblings = entry.above.inside if entry.above else [entry]
    number = siblings.index(entry)
    where = f"after {_name(siblings[number - 1])}" if number else "first"
    around = _around(entry.above) if entry.above else ""
    return f"{where} in {around}" if around else where


def _around(entry: Entry) -> str:
    if entry.kind == "arm" and entry.above is not None:
        said = "otherwise" if entry.arm is None else f"if {condition_label(entry.arm.condition)}"
        return f"{_name(entry.above)}, {said}"
    return "" if entry.kind == "root" else _name(entry)


def _name(entry: Entry) -> str:
    if entry.kind == "arm":
        return "otherwise" if entry.arm is None else f"arm {last_part(entry)}"
    return short(last(entry.path)) if entry.kind != "steps" else "steps"
