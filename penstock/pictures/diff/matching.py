"""Which entry of one workflow is which of another: by path and id first, then by id alone, then by what is inside.

Steps and workflows have ids. Where one id is given several times (``pii``, ``pii#2``), equal ones are matched first, so
that one that is removed does not make the others look changed. Parallels, branches and dags are those that hold the
same steps.

Where two pairs are equally good, the order in which they are found decides. So the search always starts from the same
one of two workflows, whichever is the old one: what is added on the way there is what is removed on the way back.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from penstock.pictures.diff.entries import NAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.pictures.diff.entries import Entry


class Matches:
    """The pairs of entries of two workflows."""

    def __init__(self, before: Entry, after: Entry) -> None:
        self._new: dict[Entry, Entry] = {}
        self._old: dict[Entry, Entry] = {}
        if signature(before) <= signature(after):
            self._search(before, after)
        else:
            self._search(after, before)
            self._new, self._old = self._old, self._new

    def _search(self, before: Entry, after: Entry) -> None:
        self._pair(before, after)
        self._nested(before, after)
        self._moved(before, after)
        self._unnamed(before, after)
        self._arms(before)

    def new(self, old: Entry) -> Entry | None:
        """Return what an entry of the old workflow has become; None if it was removed."""
        return self._new.get(old)

    def old(self, new: Entry) -> Entry | None:
        """Return what an entry of the new workflow was; None if it was added."""
        return self._old.get(new)

    def _pair(self, old: Entry, new: Entry) -> None:
        self._new[old] = new
        self._old[new] = old

    def _free(self, root: Entry, *kinds: str) -> list[Entry]:
        return [one for one in root.all() if one.kind in kinds and one not in self._new and one not in self._old]

    def _nested(self, before: Entry, after: Entry) -> None:
        """Match steps and workflows that have the same id in the same workflow."""
        for old, new in self._grouped(_named_in(before), _named_in(after), lambda one: (one.kind, one.base)):
            self._pair(old, new)
            if old.kind == "workflow":
                self._nested(old, new)

    def _moved(self, before: Entry, after: Entry) -> None:
        """Match workflows, then steps, that have the same id in different workflows."""
        while True:
            old, new = self._free(before, "workflow"), self._free(after, "workflow")
            pairs = self._grouped(old, new, lambda one: one.base)
            if not pairs:
                break
            self._pair(*pairs[0])
            self._nested(*pairs[0])
        steps = (self._free(before, "step"), self._free(after, "step"))
        for old_step, new_step in self._grouped(*steps, lambda one: (one.base, one.leaves["processor"].shown)):
            if self._new.get(_workflow_of(old_step)) is not _workflow_of(new_step):
                self._pair(old_step, new_step)

    def _grouped(
        self, old: Iterable[Entry], new: Iterable[Entry], key: Callable[[Entry], object]
    ) -> list[tuple[Entry, Entry]]:
        """Return the pairs of entries with the same key; those that repeat in the order that changes least."""
        groups: dict[object, tuple[list[Entry], list[Entry]]] = {}
        for side, entries in enumerate((old, new)):
            for one in entries:
                groups.setdefault(key(one), ([], []))[side].append(one)
        return [pair for group in groups.values() for pair in _aligned(*group)]

    def _unnamed(self, before: Entry, after: Entry) -> None:
        """Match what has no id, first with what holds the most of the same, then with what stands in its place."""
        for kind in ("steps", "parallel", "branch", "dag"):
            old, new = self._free(before, kind), self._free(after, kind)
            rated = [(self._shared(one, other), one, other) for one in old for other in new]
            for score, one, other in sorted(rated, key=lambda rating: -rating[0]):
                if score > 0 and one not in self._new and other not in self._old:
                    self._pair(one, other)
            self._alike(self._free(before, kind), self._free(after, kind))

    def _shared(self, one: Entry, other: Entry) -> float:
        """Return how much of two entries is matched, from 0 to 1; what is directly in them counts most."""
        mine, theirs = _within(one), _within(other)
        common = [entry for entry in mine if self._new.get(entry) in theirs]
        near = sum(1 for entry in common if _holder(entry) is one and _holder(self._new[entry]) is other)
        return (len(common) + 2 * near) / (3 * max(len(mine), len(theirs), 1))

    def _alike(self, old: list[Entry], new: list[Entry]) -> None:
        for one in old:
            for other in new:
                if other not in self._old and one.path == other.path and self._place(one, other):
                    self._pair(one, other)
                    break

    def _place(self, one: Entry, other: Entry) -> bool:
        above, over = _holder(one), _holder(other)
        return above is None or over is None or self._new.get(above) is over

    def _arms(self, before: Entry) -> None:
        """Match the arms of matched branches: by what is in them, then by condition, then by place."""
        for old in before.all():
            new = self._new.get(old)
            if new is not None and old.kind == "branch":
                self._arms_of(old.inside, new.inside)

    def _arms_of(self, old: list[Entry], new: list[Entry]) -> None:
        pairs = [(one, other) for one in old for other in new if one.otherwise == other.otherwise]
        rated = sorted(pairs, key=lambda pair: self._likeness(*pair), reverse=True)
        for one, other in rated:
            if one not in self._new and other not in self._old and any(self._likeness(one, other)[:3]):
                self._pair(one, other)

    def _likeness(self, one: Entry, other: Entry) -> tuple[bool, float, bool, bool]:
        same = not one.otherwise and one.leaves["condition"].same(other.leaves["condition"])
        named = not one.otherwise and one.leaves["condition"].shown == other.leaves["condition"].shown
        shared = self._shared(one, other)
        return one.otherwise or (same and shared > 0), shared, named, last_part(one) == last_part(other)


def last_part(arm: Entry) -> str:
    """Return the number of an arm in its branch, or ``otherwise``."""
    return arm.path.rpartition(":")[2]


def _aligned(old: list[Entry], new: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Return pairs of entries of one id: equal ones, and in each gap between them the others in order."""
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    matcher = SequenceMatcher(None, [signature(one) for one in old], [signature(one) for one in new], autojunk=False)
    return [
        pair
        for _, first, stop, begin, end in matcher.get_opcodes()
        for pair in zip(old[first:stop], new[begin:end], strict=False)
    ]


def signature(entry: Entry) -> str:
    """Return a text that is the same for entries that are shown the same, with all that is in them."""
    own = ", ".join(f"{name}={leaf.shown!r}" for name, leaf in entry.leaves.items())
    return f"{entry.kind}({own})[{'; '.join(f'{one.base} {signature(one)}' for one in entry.inside)}]"


def _named_in(entry: Entry) -> list[Entry]:
    """Return the steps and workflows in a workflow, also those in parallels and branches, in declared order."""
    found: list[Entry] = []
    for one in entry.inside:
        found += [one] if one.kind in NAMED else _named_in(one)
    return found


def _workflow_of(entry: Entry) -> Entry:
    """Return the workflow that an entry is in, also inside parallels and branches."""
    while entry.above is not None:
        entry = entry.above
        if entry.kind == "workflow":
            break
    return entry


def _within(entry: Entry) -> set[Entry]:
    return {one for one in entry.all() if one.kind in NAMED}


def _holder(entry: Entry) -> Entry | None:
    """Return what an entry is directly in, where that is not an arm."""
    above = entry.above
    return above.above if above is not None and above.kind == "arm" else above
