"""Both workflows as one tree: the new one, with the removed parts in their old places."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.tracing.display import short
from penstock.pictures.diff.fields import FieldChange, differing
from penstock.pictures.diff.matching import Matches, last_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pictures.scene import Part

What: TypeAlias = Literal["same", "added", "removed", "changed"]


@dataclass(eq=False)
class DiffLine:
    """One part of the tree: what became of it, and the part in both workflows."""

    what: What
    new: Part | None
    old: Part | None
    fields: tuple[FieldChange, ...] = ()
    inside: list[DiffLine] = field(default_factory=list["DiffLine"])

    @property
    def part(self) -> Part:
        """The part in the new workflow, or in the old one if it was removed."""
        found = self.new or self.old
        assert found is not None  # one of them is always there  # noqa: S101
        return found

    def walk(self) -> Iterator[DiffLine]:
        """Yield it and all lines below it, from above to below."""
        waiting: list[DiffLine] = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.inside))

    @property
    def touched(self) -> bool:
        """Whether it or anything in it differs."""
        return any(one.what != "same" for one in self.walk())


def union_of(before: Part, after: Part) -> DiffLine:
    """Return the tree of two workflows."""
    return _Union(Matches(before, after)).line(after)


class _Union:
    def __init__(self, matches: Matches) -> None:
        self._matches = matches

    def line(self, new: Part) -> DiffLine:
        """Return the line of a part of the new workflow, with the parts that were removed from it."""
        old = self._matches.old.get(new)
        inside = [self.line(one) for one in new.inside]
        if old is None:
            return DiffLine("added", new, None, self._only(new, "after"), inside)
        leaves = self._matches.leaves
        others = () if old.otherwise or new.otherwise else differing(leaves[old], leaves[new])
        fields = (*self._moved(old, new), *others)
        made = DiffLine("changed" if fields else "same", new, old, fields, inside)
        self._insert_removed(made, old)
        return made

    def _insert_removed(self, line: DiffLine, old: Part) -> None:
        """Add the parts that were removed from a part, each behind its old neighbour if that is still there."""
        place = 0
        at = {one.new: number for number, one in enumerate(line.inside)}
        gone: list[tuple[int, DiffLine]] = []
        for one in old.inside:
            new = self._matches.new.get(one)
            if new is None:
                gone.append((place, self.removed(one)))
            elif new in at:
                place = max(place, at[new] + 1)
        for number, (position, removed) in enumerate(gone):
            line.inside.insert(position + number, removed)

    def removed(self, old: Part) -> DiffLine:
        """Return the line of a removed part, with the parts that were removed with it."""
        inside = [self.removed(one) for one in old.inside if one not in self._matches.new]
        return DiffLine("removed", None, old, self._only(old, "before"), inside)

    def _only(self, part: Part, side: Literal["before", "after"]) -> tuple[FieldChange, ...]:
        """Return the properties of a part that only one workflow has."""
        leaves = self._matches.leaves[part].items()
        made = [FieldChange(name, leaf.shown, leaf.shown, only=side) for name, leaf in leaves]
        return (FieldChange("place", _place(part), _place(part), only=side), *made)

    def _moved(self, old: Part, new: Part) -> list[FieldChange]:
        above, over = old.above, new.above
        if above is None or over is None:
            return []
        if self._matches.new.get(above) is over and new not in self._out_of_order(above, over):
            return []
        return [FieldChange("place", _place(old), _place(new))]

    def _out_of_order(self, old: Part, new: Part) -> set[Part]:
        """Return the fewest parts that must have been moved to get from the old order to the new one."""
        rank = {one: number for number, one in enumerate(old.inside)}
        common = [
            (rank[before], one)
            for one in new.inside
            if (before := self._matches.old.get(one)) is not None and before in rank
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


def _place(part: Part) -> str:
    """Return where a part stands, in words."""
    siblings = part.above.inside if part.above else [part]
    number = siblings.index(part)
    where = f"after {_name(siblings[number - 1])}" if number else "first"
    above = part.above
    if above is None or above.kind == "root":
        return where
    around = f"{_name(above.above)}, {above.label}" if above.kind == "arm" and above.above else _name(above)
    return f"{where} in {around}"


def _name(part: Part) -> str:
    if part.kind == "arm":
        return "otherwise" if part.otherwise else f"arm {last_part(part)}"
    return short(part.id) if part.kind != "steps" else "steps"
