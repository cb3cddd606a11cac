"""Pairs of parts of two workflows: by path and id first, then by id alone, then by the parts inside.

Steps and workflows have ids. Where one id is given several times (``pii``, ``pii#2``), equal ones are matched first, so
that one that is removed does not make the others look changed. Parallels, branches and dags are those that hold the
same steps.

Where two pairs are equally good, the order in which they are found decides. So the search always starts from the same
one of two workflows, whichever is the old one, and a diff and its reverse find the same pairs.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from penstock.pictures.diff.properties import leaves_of
from penstock.pictures.labels import last

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.pictures.scene import Part

_NAMED = ("step", "workflow")
"""The kinds that have an id of their own; others are known by the parts in them."""

_NUMBER = re.compile(r"#\d+$")


class Matches:
    """The pairs of parts of two workflows, and the properties of all."""

    def __init__(self, before: Part, after: Part) -> None:
        self.new: dict[Part, Part] = {}
        """The new part of each old one; removed parts are missing."""

        self.old: dict[Part, Part] = {}
        """The old part of each new one; added parts are missing."""

        self.leaves = {one: leaves_of(one) for root in (before, after) for one in root.walk()}
        if self._signature(before) <= self._signature(after):
            self._search(before, after)
        else:
            self._search(after, before)
            self.new, self.old = self.old, self.new

    def _search(self, before: Part, after: Part) -> None:
        self._pair(before, after)
        self._nested(before, after)
        self._moved(before, after)
        self._unnamed(before, after)
        self._arms(before)

    def _pair(self, old: Part, new: Part) -> None:
        self.new[old] = new
        self.old[new] = old

    def _free(self, root: Part, kind: str) -> list[Part]:
        """Return the unmatched parts of a kind, those that are less deep first."""
        found: list[Part] = [root]
        for one in found:
            found.extend(one.inside)
        return [one for one in found if one.kind == kind and one not in self.new and one not in self.old]

    def _nested(self, before: Part, after: Part) -> None:
        """Match steps and workflows that have the same id in the same workflow."""
        for old, new in self._grouped(_named_in(before), _named_in(after), lambda one: (one.kind, _base(one))):
            self._pair(old, new)
            if old.kind == "workflow":
                self._nested(old, new)

    def _moved(self, before: Part, after: Part) -> None:
        """Match workflows, then steps, that have the same id in different workflows."""
        while pairs := self._grouped(self._free(before, "workflow"), self._free(after, "workflow"), _base):
            self._pair(*pairs[0])
            self._nested(*pairs[0])
        steps = (self._free(before, "step"), self._free(after, "step"))
        for old, new in self._grouped(*steps, lambda one: (_base(one), self.leaves[one]["processor"].shown)):
            if self.new.get(_workflow_of(old)) is not _workflow_of(new):
                self._pair(old, new)

    def _grouped(
        self, old: Iterable[Part], new: Iterable[Part], key: Callable[[Part], object]
    ) -> list[tuple[Part, Part]]:
        """Return the pairs of parts with the same key; those that repeat in the order that changes least."""
        groups: dict[object, tuple[list[Part], list[Part]]] = {}
        for side, parts in enumerate((old, new)):
            for one in parts:
                groups.setdefault(key(one), ([], []))[side].append(one)
        return [pair for group in groups.values() for pair in self._aligned(*group)]

    def _aligned(self, old: list[Part], new: list[Part]) -> list[tuple[Part, Part]]:
        """Return pairs of parts of one id: equal ones, and in each gap between them the others in order."""
        if len(old) == len(new) == 1:
            return [(old[0], new[0])]
        matcher = SequenceMatcher(None, [*map(self._signature, old)], [*map(self._signature, new)], autojunk=False)
        return [
            pair
            for _, first, stop, begin, end in matcher.get_opcodes()
            for pair in zip(old[first:stop], new[begin:end], strict=False)
        ]

    def _signature(self, part: Part) -> str:
        """Return a text that is the same for parts that are shown the same, with all that is in them."""
        own = ", ".join(f"{name}={leaf.shown!r}" for name, leaf in self.leaves[part].items())
        inside = "; ".join(f"{_base(one)} {self._signature(one)}" for one in part.inside)
        return f"{part.kind}({own})[{inside}]"

    def _unnamed(self, before: Part, after: Part) -> None:
        """Match parts without an id: first those that share the most parts, then those in the same place."""
        for kind in ("steps", "parallel", "branch", "dag"):
            old, new = self._free(before, kind), self._free(after, kind)
            rated = [(self._shared(one, other), one, other) for one in old for other in new]
            for score, one, other in sorted(rated, key=lambda rating: -rating[0]):
                if score > 0 and one not in self.new and other not in self.old:
                    self._pair(one, other)
            for one in self._free(before, kind):
                above = _holder(one)
                for other in self._free(after, kind):
                    over = _holder(other)
                    if path_of(one) == path_of(other) and (not above or not over or self.new.get(above) is over):
                        self._pair(one, other)
                        break

    def _shared(self, one: Part, other: Part) -> float:
        """Return how much of two parts is matched, from 0 to 1; parts directly in them count most."""
        mine, theirs = ({part for part in side.walk() if part.kind in _NAMED} for side in (one, other))
        common = [part for part in mine if self.new.get(part) in theirs]
        near = sum(1 for part in common if _holder(part) is one and _holder(self.new[part]) is other)
        return (len(common) + 2 * near) / (3 * max(len(mine), len(theirs), 1))

    def _arms(self, before: Part) -> None:
        """Match the arms of matched branches: by the parts in them, then by condition, then by place."""
        for old in before.walk():
            if old.kind == "branch" and old in self.new:
                pairs = [
                    (one, other)
                    for one in old.inside
                    for other in self.new[old].inside
                    if one.otherwise == other.otherwise
                ]
                for one, other in sorted(pairs, key=lambda pair: self._likeness(*pair), reverse=True):
                    if one not in self.new and other not in self.old and any(self._likeness(one, other)[:3]):
                        self._pair(one, other)

    def _likeness(self, one: Part, other: Part) -> tuple[bool, float, bool, bool]:
        shared, same_place = self._shared(one, other), last_part(one) == last_part(other)
        if one.otherwise:
            return True, shared, False, same_place
        mine, theirs = self.leaves[one]["condition"], self.leaves[other]["condition"]
        return mine.same(theirs) and shared > 0, shared, mine.shown == theirs.shown, same_place


def path_of(part: Part) -> str:
    """Return the path of a part; that of a sequence without a name is its place in the part above."""
    if part.kind != "steps" or part.above is None:
        return part.path
    return f"{path_of(part.above)}:steps-{part.above.inside.index(part)}"


def last_part(arm: Part) -> str:
    """Return the number of an arm in its branch, or ``otherwise``."""
    return arm.path.rpartition(":")[2]


def _base(part: Part) -> str:
    """Return the id of a part without the number of a repetition; of a member of a dag, the member's."""
    return part.member or _NUMBER.sub("", last(path_of(part)))


def _named_in(part: Part) -> list[Part]:
    """Return the steps and workflows in a workflow, also those in parallels and branches, in declared order."""
    found: list[Part] = []
    for one in part.inside:
        found += [one] if one.kind in _NAMED else _named_in(one)
    return found


def _workflow_of(part: Part) -> Part:
    """Return the workflow that a part is in, also inside parallels and branches."""
    while part.above is not None:
        part = part.above
        if part.kind == "workflow":
            break
    return part


def _holder(part: Part) -> Part | None:
    """Return the part that a part is directly in; for a part in an arm, the branch."""
    above = part.above
    return above.above if above is not None and above.kind == "arm" else above
