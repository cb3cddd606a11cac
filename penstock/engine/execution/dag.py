"""`DagRun`: one run of a dag, stop by stop. It is given what executes a block; `DagState` knows what they add up to."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.execution.boundary import after_failure, as_failure, passes_through, record_failure, truth
from penstock.engine.execution.join import join_policy, joined, settled, skip
from penstock.engine.graph.plan import PlanArm, PlanSteps
from penstock.engine.merging.dag_state import DagState
from penstock.engine.processor.context import View
from penstock.engine.processor.payload import NO_CHANGES
from penstock.engine.values.errors import StepFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.graph.nodes import Condition
    from penstock.engine.graph.plan import Block, PlanDag
    from penstock.engine.merging.rules import BranchChanges
    from penstock.engine.processor.payload import Changes, Payload
    from penstock.engine.processor.state import StageCall

Execute: TypeAlias = "Callable[[Block, StageCall, Payload], Awaitable[Payload]]"


class DagRun:
    """One run of a mesh: what each stop gave."""

    def __init__(self, block: PlanDag, call: StageCall, payload: Payload, execute: Execute) -> None:
        self.block = block
        self.call = call
        self.execute = execute
        self.history = DagState(payload.tracked(), block.merge, self._united)
        self.ran: dict[int, bool] = {}
        self.ends: dict[int, Payload] = {}
        self.verdicts: dict[int, Payload] = {}
        self.failures: dict[int, StepFailedError] = {}
        self._before: dict[int, int] = {}

    @property
    def stopped(self) -> Payload | None:
        """The verdict, if there is one; the first in declared order, whatever ended first."""
        return self.verdicts[min(self.verdicts)] if self.verdicts else None

    def _meet(self, stops: int, behind: int) -> Payload | None:
        """Return what a set of stops adds up to before the stop ``behind`` them, or None after a conflict."""
        try:
            return self.history.state(stops)
        except StepFailedError as error:
            try:
                policy = join_policy(error, self._ways())
                self.verdicts[behind] = after_failure(policy, self.history.state(0), error, None)
            except StepFailedError as failure:
                self.failures[behind] = failure
            return None

    def _united(self, base: Payload, branches: Sequence[BranchChanges]) -> Changes:
        """Return the changes of branches as one; what `DagState` merges with."""
        changes = settled(base, branches, self._ways(), self.block, self.call)
        if isinstance(changes, StepFailedError):
            raise changes
        return changes

    def _ways(self) -> list[PlanArm]:
        return [stop.way for stop in self.block.stops if stop.way is not None]

    def _above(self, index: int) -> int:
        """Return all that a stop comes after, taken or not, as bits."""
        before = 0
        for source, _ in self.block.stops[index].after:
            before |= self._before[source] | 1 << source
        self._before[index] = before
        return before

    def _way(self, index: int) -> PlanArm:
        return self.block.stops[index].way or PlanArm(
            self.block.stops[index].id, PlanSteps((), sync=True), guards=False
        )

    async def visit(self, index: int) -> None:
        """Run one stop, whose predecessors have ended."""
        stop = self.block.stops[index]
        before = self._above(index)
        if self.failures.keys() & stop.ancestors:
            return  # what it waits for failed; others go on, since a verdict of theirs beats the failure
        before &= self.history.live
        met = self._meet(before, index)
        if met is None:
            return
        seen = met.tracked()
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
        way = self._way(index)
        self.history.add(index, way.name, way.id, before, end)

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
        live = self.history.live
        met = self._meet(live, len(self.block.stops))
        if met is None:
            return self.outcome(payload)
        made = NO_CHANGES if payload.changes is None else self.history.changes(0, live)
        return joined(payload, met, made, [self.ends[index] for index in sorted(self.ends)])


async def holds(condition: Condition, view: View) -> bool:
    """Tell whether a condition holds, sync or async."""
    held = condition(view)
    return truth(await held if inspect.isawaitable(held) else held)
