"""`DagState`: the payload after any set of members of a dag, merged from the changes of each member.

A set of members is a number with one bit for each member; it contains all members that ran before its members. Two sets
are merged three ways, based on the members that they have in common, so that no change counts twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.engine.merging.changes import (
    MOVED,
    credited,
    followed_by,
    holds_texts,
    notes_on,
    path_of,
    rebuild,
    value_at,
)
from penstock.engine.merging.diff import branch_changes, completed
from penstock.engine.merging.rules import BranchChanges, Pick
from penstock.engine.processor.payload import NO_CHANGES, Changes, Payload
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import StepFailedError
from penstock.engine.values.texts import KeyText, editable_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.processor.payload import PayloadPath
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.texts import TextPlace

MergeBranches: TypeAlias = "Callable[[Payload, Sequence[BranchChanges]], Changes]"
"""Merges what branches changed since a payload, or raises a `StepFailedError`."""


class _SetState(NamedTuple):
    """The payload behind a set of members, a smaller set, and the changes that lead from that set's payload to it."""

    payload: Payload
    below: int
    changes: Changes


class DagState:
    """The ends of a dag's members in one run, and the payloads behind sets of them.

    Args:
        entry: the payload before the dag.
        policy: the dag's merge policy.
        merge: merges branches.
    """

    def __init__(self, entry: Payload, policy: MergePolicy, merge: MergeBranches) -> None:
        self._policy = policy
        self._merge = merge
        self.live = 0
        """The members that ended, as bits."""
        self._closures: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._steps: dict[int, str] = {}
        self._found: dict[int, _SetState | StepFailedError] = {0: _SetState(entry, 0, NO_CHANGES)}

    def add(self, index: int, name: str, step: str, seen: int, end: Payload) -> None:
        """Add the end of a member.

        Args:
            index: the member's place in topological order, which is its bit.
            name: the id by which merge policies refer to it.
            step: the path that its changes are credited to.
            seen: the set of members that ran before it; it began with their payload.
            end: the payload that it left.
        """
        closure = seen | 1 << index
        self.live |= 1 << index
        self._closures[index] = closure
        self._names[index] = name
        self._steps[index] = step
        self._found[closure] = _SetState(end, seen, branch_changes(self.state(seen), end, step))

    def state(self, members: int) -> Payload:
        """Return the payload behind a set of members.

        Raises:
            StepFailedError: their changes cannot be merged.
        """
        return self._state(members).payload

    def changes(self, low: int, high: int) -> Changes:
        """Return what leads from the payload behind a set of members to the one behind a larger set."""
        found = self._state(high)
        if found.below == low:
            return found.changes
        hops = self._hops(low, high)
        total = NO_CHANGES
        for hop in hops:
            total = followed_by(total, hop)
        if total.complete:
            return total
        last = self._steps[_last(high)]
        compared = completed(self.state(low), found.payload, total, last)
        known = [change for hop in hops if hop.complete for change in hop.others.items()]
        return credited(compared, last, {path: change.step for path, change in known})

    def _hops(self, low: int, high: int) -> list[Changes]:
        """Return the changes that lead from the smaller set up to the larger one, one after another."""
        hops: list[Changes] = []
        while low != high:
            found = self._state(high)
            if low & ~found.below:
                hops.append(self._rest(low, high, low & found.below))
                break
            hops.append(found.changes)
            high = found.below
        hops.reverse()
        return hops

    def _rest(self, low: int, high: int, common: int) -> Changes:
        """Return the changes of the larger set that the smaller one lacks, from the changes of each since ``common``.

        Incomplete where keys were renamed, or messages or parts came or went, since that moves the places of others;
        and where a change was undone.
        """
        done, wanted = self.changes(common, low), self.changes(common, high)
        renamed = any(isinstance(place.path[-1], KeyText) for place in (*done.texts, *wanted.texts))
        changed = [path for path in done.others if path[2:] != MOVED]
        if renamed or any(_moves(path) or path not in wanted.others for path in changed):
            return Changes(wanted.texts, notes_on(wanted), complete=False)
        base = self.state(common)
        texts: dict[TextPlace, Edits] = {}
        for place in {**done.texts, **wanted.texts}:
            path = path_of(place)
            if path in done.others or path in wanted.others:
                continue
            text = editable_text(value_at(base, path)) or ""
            left = edit_ops.remainder(done.texts.get(place, ()), wanted.texts.get(place, ()), text)
            if left:
                texts[place] = left
        others = {
            path: change
            for path, change in wanted.others.items()
            if done.others.get(path) != change or path[2:] == MOVED  # moved again, or not: that is not known
        }
        return Changes(texts, others)

    def _state(self, members: int) -> _SetState:
        found = self._found.get(members)
        if found is None:
            try:
                found = self._merged(members)
            except StepFailedError as error:
                found = error
            self._found[members] = found
        if isinstance(found, StepFailedError):
            raise found
        return found

    def _merged(self, members: int) -> _SetState:
        common, groups = self._groups(self._heads(members))
        base = self.state(common)
        branches = [BranchChanges(self._name(group & ~common), self.changes(common, group)) for group in groups]
        changes = self._merge(base, branches)
        seen = rebuild(base, changes)
        done = any(self.state(group).finished for group in groups)
        return _SetState(Payload(seen.message_list, seen.facts, seen.fields, (), None, done), common, changes)

    def _heads(self, members: int) -> list[int]:
        """Return the members of a set that no other member of it ran after."""
        heads: list[int] = []
        while members:
            head = _last(members)
            heads.append(head)
            members &= ~self._closures[head]
        return heads[::-1]

    def _groups(self, heads: list[int]) -> tuple[int, list[int]]:
        """Return sets that together hold the heads and all before them, and what every two sets have in common."""
        common = -1
        for head in heads:
            common &= self._closures[head]
        groups: list[int] = []
        for head in heads:
            closure = self._closures[head]
            touching = [group for group in groups if group & closure & ~common]
            if touching:
                first = groups.index(touching[0])
                groups = [group for group in groups if group not in touching]
                for group in touching:
                    closure |= group
                groups.insert(first, closure)
            else:
                groups.append(closure)
        if len(groups) > 1:
            return common, groups
        united = self._closures[heads[0]]  # each overlaps another in its own way, so one joins after the other
        for head in heads[1:-1]:
            united |= self._closures[head]
            self._state(united)
        last = self._closures[heads[-1]]
        return united & last, [united, last]

    def _name(self, members: int) -> str:
        """Return the id that the policy has for a branch of these members: the picked member's, else the last's."""
        if isinstance(self._policy, Pick):
            wanted = self._policy.branch
            if any(name == wanted and members >> index & 1 for index, name in self._names.items()):
                return wanted
        return self._names[_last(members)]


def _moves(path: PayloadPath) -> bool:
    """Tell whether a change there may move messages, parts or texts."""
    return path[0] == "order" or (path[0] == "messages" and not path[2:]) or holds_texts(path)


def _last(members: int) -> int:
    return members.bit_length() - 1
