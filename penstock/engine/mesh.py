"""`MeshRun`: one run of a dag, each change carried back to the entry. It is given what executes a block."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.boundary import after_failure, as_failure, passes_through, record_failure
from penstock.engine.changes import Delta, inherit, only_edits
from penstock.engine.context import View
from penstock.engine.delta import diff
from penstock.engine.errors import StepFailedError
from penstock.engine.joins import hints_after, join_policy, joined, settled, skip
from penstock.engine.merge import Branch, undone
from penstock.engine.payload import Payload
from penstock.engine.plan import Plain, Way, plan_steps
from penstock.engine.rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.nodes import Condition
    from penstock.engine.plan import Block, Mesh
    from penstock.engine.state import StageCall

Execute: TypeAlias = "Callable[[Block, StageCall, Payload], Awaitable[Payload]]"


class MeshRun:
    """One run of a mesh: what each stop gave, seen from the mesh's entry."""

    def __init__(self, block: Mesh, call: StageCall, payload: Payload, execute: Execute) -> None:
        self.block = block
        self.call = call
        self.execute = execute
        self.entry = payload.tracked()
        self.ran: dict[int, bool] = {}
        self.ends: dict[int, Payload] = {}
        self.deltas: dict[int, Delta] = {}
        self.verdicts: dict[int, Payload] = {}
        self.failures: dict[int, StepFailedError] = {}
        by_path = {stop.way.id: index for index, stop in enumerate(block.stops) if stop.way is not None}
        for index, stop in enumerate(block.stops):
            if stop.way is not None:
                by_path.update({step.path: index for step in plan_steps(stop.way.block)})
        self.by_path = by_path

    @property
    def stopped(self) -> Payload | None:
        """The verdict, if there is one; the first in declared order, whatever ended first."""
        return self.verdicts[min(self.verdicts)] if self.verdicts else None

    def supersedes(self, later: str, earlier: str) -> bool:
        """Tell whether the one step ran behind the other, and so saw what it did."""
        one, other = self.by_path.get(later), self.by_path.get(earlier)
        return one is not None and other is not None and other in self.block.stops[one].ancestors

    def meet(self, sources: Sequence[int], behind: int) -> tuple[Payload, Delta] | None:
        """Return what the given stops add up to before the stop ``behind`` them, or None after a conflict."""
        live = [index for index in sources if index in self.ends]
        ways = [stop.way for stop in self.block.stops if stop.way is not None]
        branches = [Branch(self._way(index).name, self.deltas[index]) for index in live]
        delta = settled(self.entry, branches, ways, self.block, self.call, self.supersedes)
        if isinstance(delta, StepFailedError):
            try:
                self.verdicts[behind] = after_failure(join_policy(delta, ways), self.entry, delta, None)
            except StepFailedError as error:
                self.failures[behind] = error
            return None
        seen = rebuild(self.entry, delta)
        done = any(self.ends[index].settled for index in live)
        hints = hints_after(self.entry, delta)
        edits_only = only_edits(delta)
        met = Payload(seen.message_list, seen.facts, seen.fields, (), None, done, hints, edits_only)
        return met, delta

    def _way(self, index: int) -> Way:
        return self.block.stops[index].way or Way(self.block.stops[index].id, Plain((), sync=True), guards=False)

    async def visit(self, index: int) -> None:
        """Run one stop, whose predecessors have ended."""
        stop = self.block.stops[index]
        if self.failures.keys() & stop.ancestors:
            return  # what it waits for failed; others go on, since a verdict of theirs beats the failure
        nothing: Delta = {}
        met = self.meet(sorted(stop.ancestors), index) if stop.after else (self.entry, nothing)
        if met is None:
            return
        seen, seen_delta = met
        try:
            self.ran[index] = taken = not seen.settled and await self._taken(index, seen)
            if not taken:
                skip([] if stop.way is None else [stop.way], self.call)
                return
            end = seen if stop.way is None else await self.execute(stop.way.block, self.call, seen)
        except StepFailedError as error:
            self.failures[index] = error
            return
        if end.tripwire is not None:
            self.verdicts[index] = end
            return
        self.ends[index] = end
        name = self._way(index).id
        made = inherit(diff(self.entry, end, name, end.hints or {}), seen_delta)
        self.deltas[index] = made | undone(self.entry, end, made, seen_delta, name)

    async def _taken(self, index: int, seen: Payload) -> bool:
        stop = self.block.stops[index]
        if not stop.after:
            return True
        view = View(self.call, seen)
        for source, when in stop.after:
            if self.ran.get(source, False) and (when is None or await self._asked(stop.id, when, view)):
                return True
        return False

    async def _asked(self, stop_id: str, when: Condition, view: View) -> bool:
        try:
            return await holds(when, view)
        except BaseException as error:
            if passes_through(error):
                raise
            failure = as_failure(f"{self.block.path}/{stop_id}[when]", stop_id, self.call.stage.name, error)
            record_failure(self.call, failure, None)
            raise failure from error

    def outcome(self, payload: Payload) -> Payload:
        """Return the payload behind the mesh."""
        stopped = self.stopped
        if stopped is not None:
            return payload.stopped(stopped.tripwire, stopped.failure)
        if self.failures:
            raise self.failures[min(self.failures)]
        met = self.meet(sorted(self.ends), len(self.block.stops))
        if met is None:
            return self.outcome(payload)
        return joined(payload, met[1], [self.ends[index] for index in sorted(self.ends)])


async def holds(condition: Condition, view: View) -> bool:
    """Tell whether a condition holds, sync or async."""
    held = condition(view)
    return bool(await held) if inspect.isawaitable(held) else bool(held)
