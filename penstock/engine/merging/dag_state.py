"""What the members of a dag add up to, set by set. It knows ends and changes; nothing runs here.

A set holds with each stop all that ran before it, and is written as the bits of a number. Sets meet in a three-way
merge over what they have in common, so that nothing which both saw is a change of either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.engine.merging.changes import Delta, only_edits, rebuild, text_edits
from penstock.engine.merging.diff import compose_hints, diff
from penstock.engine.merging.rules import Branch, Pick, value_at
from penstock.engine.processor.payload import Payload
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import StepFailedError
from penstock.engine.values.texts import KeyText

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.merging.changes import Change, Hints
    from penstock.engine.merging.rules import MergePolicy

Unite: TypeAlias = "Callable[[Payload, Sequence[Branch]], Delta]"
"""Merges what branches changed since a base, or raises a `StepFailedError`."""


class _Made(NamedTuple):
    """What a set of stops adds up to, a smaller set, and the changes that lead from that one to it."""

    payload: Payload
    below: int
    delta: Delta


class DagState:
    """The ends of the stops of one run of a dag, and what sets of them add up to."""

    def __init__(self, entry: Payload, policy: MergePolicy, unite: Unite) -> None:
        self.policy = policy
        self.unite = unite
        self.live = 0
        """The stops that ended, as bits."""
        self._closures: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._steps: dict[int, str] = {}
        self._known: dict[int, _Made | StepFailedError] = {0: _Made(entry, 0, {})}

    def add(self, index: int, name: str, step: str, seen: int, end: Payload) -> None:
        """Note the end of a stop that began with what the set ``seen`` adds up to.

        ``name`` is what merge policies call it, ``step`` the path that its changes go under.
        """
        closure = seen | 1 << index
        self.live |= 1 << index
        self._closures[index] = closure
        self._names[index] = name
        self._steps[index] = step
        self._known[closure] = _Made(end, seen, diff(self.state(seen), end, step, end.hints or {}))

    def state(self, stops: int) -> Payload:
        """Return what a set of stops adds up to.

        Raises:
            StepFailedError: they cannot be merged.
        """
        return self._made(stops).payload

    def change(self, low: int, high: int) -> Delta:
        """Return what leads from what a set adds up to, to what a larger one does."""
        made = self._made(high)
        if made.below == low:
            return made.delta
        hops, told = self._way(low, high)
        hints: Hints = {}
        makers: Delta = {}
        for hop in hops:
            hints = compose_hints(hints, text_edits(hop))
            makers.update(hop)
        told = told and all(map(only_edits, hops))
        end = made.payload
        seen = Payload(end.message_list, end.facts, end.fields, (), None, end.settled, hints, told)
        delta = diff(self.state(low), seen, self._steps[_last(high)], hints)
        return {place: _credited(change, makers.get(place)) for place, change in delta.items()}

    def _way(self, low: int, high: int) -> tuple[list[Delta], bool]:
        """Return the changes from the one set up to the other, one after another, and whether all places are known."""
        hops: list[Delta] = []
        while low != high:
            made = self._made(high)
            if low & ~made.below:
                rest = self._rest(low, high, low & made.below)
                return [{} if rest is None else rest, *reversed(hops)], rest is not None
            hops.append(made.delta)
            high = made.below
        hops.reverse()
        return hops, True

    def _rest(self, low: int, high: int, common: int) -> Delta | None:
        """Return what is left to do after the lower set, told from what each changed since a set that both hold.

        None where keys were renamed, so that places have moved.
        """
        done, all_done = self.change(common, low), self.change(common, high)
        if any(isinstance(place[-1], KeyText) for delta in (done, all_done) for place in delta):
            return None
        base = self.state(common)
        rest: Delta = {}
        for place in {**done, **all_done}:
            mine, whole = done.get(place, ()), all_done.get(place, ())
            if isinstance(mine, tuple) and isinstance(whole, tuple):
                left = edit_ops.remainder(mine, whole, str(value_at(base, place)))
                if left:
                    rest[place] = left
            elif mine != whole and not isinstance(whole, tuple):
                rest[place] = whole
        return rest

    def _made(self, stops: int) -> _Made:
        known = self._known.get(stops)
        if known is None:
            try:
                known = self._meet(stops)
            except StepFailedError as error:
                known = error
            self._known[stops] = known
        if isinstance(known, StepFailedError):
            raise known
        return known

    def _meet(self, stops: int) -> _Made:
        common, groups = self._groups(self._heads(stops))
        base = self.state(common)
        delta = self.unite(base, [Branch(self._name(group & ~common), self.change(common, group)) for group in groups])
        seen = rebuild(base, delta)
        done = any(self.state(group).settled for group in groups)
        return _Made(Payload(seen.message_list, seen.facts, seen.fields, (), None, done), common, delta)

    def _heads(self, stops: int) -> list[int]:
        """Return the stops of a set that no other in it ran behind."""
        heads: list[int] = []
        while stops:
            head = _last(stops)
            heads.append(head)
            stops &= ~self._closures[head]
        return heads[::-1]

    def _groups(self, heads: list[int]) -> tuple[int, list[int]]:
        """Return sets that together hold what the heads do, and what every two of them have in common."""
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
            self._made(united)
        last = self._closures[heads[-1]]
        return united & last, [united, last]

    def _name(self, stops: int) -> str:
        """Return what the policy is to call a branch of these stops: the member picked, else its last."""
        if isinstance(self.policy, Pick):
            wanted = self.policy.branch
            if any(name == wanted and stops >> index & 1 for index, name in self._names.items()):
                return wanted
        return self._names[_last(stops)]


def _last(stops: int) -> int:
    return stops.bit_length() - 1


def _credited(change: Change, made: Change | None) -> Change:
    """Return the change under the name of the step that made it."""
    if made is None or isinstance(change, tuple) or isinstance(made, tuple) or change.step == made.step:
        return change
    return replace(change, step=made.step)
