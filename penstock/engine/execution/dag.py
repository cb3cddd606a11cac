"""`DagRun` runs the members of a dag in order; `DagState` merges their changes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.execution.boundary import after_failure, as_failure, passes_through, record_failure
from penstock.engine.execution.join import join_policy, joined, merge_branches, skip
from penstock.engine.graph.conditions import truth
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
    """One run of a dag. Sets of members are ints, with a bit for the index of each member.

    Attributes:
        block: the dag's plan.
        state: the merged results of the members that ran.
        ran: by index, whether a member was taken.
        ends: by index, the payload that a member left.
        verdicts: by index, the payload with a member's verdict.
        failures: by index, the failure of a member.
    """

    def __init__(self, block: PlanDag, call: StageCall, payload: Payload, execute: Execute) -> None:
        self.block = block
        self.call = call
        self.state = DagState(payload.tracked(), block.merge, self._merge)
        self.ran: dict[int, bool] = {}
        self.ends: dict[int, Payload] = {}
        self.verdicts: dict[int, Payload] = {}
        self.failures: dict[int, StepFailedError] = {}
        self._execute = execute
        self._ancestors: dict[int, int] = {}
        self._arms = [member.arm for member in block.members if member.arm is not None]

    @property
    def stopped(self) -> Payload | None:
        """The payload with the verdict, if there is one; the first in declared order, whatever ended first."""
        return self.verdicts[min(self.verdicts)] if self.verdicts else None

    async def run_member(self, index: int) -> None:
        """Run one member, whose predecessors have ended."""
        member = self.block.members[index]
        before = self._note_ancestors(index)
        if self.failures.keys() & member.ancestors:
            return  # a predecessor failed; other members go on, since a verdict of theirs beats the failure
        before &= self.state.live
        start = self._add_up(before, index)
        if start is None:
            return
        seen = start.tracked()
        try:
            self.ran[index] = taken = not seen.finished and await self._is_taken(index, seen)
            if not taken:
                skip([] if member.arm is None else [member.arm], self.call)
                return
            end = seen if member.arm is None else await self._execute(member.arm.block, self.call, seen)
        except StepFailedError as error:
            self.failures[index] = error
            return
        if end.tripwire is not None:
            self.verdicts[index] = end
            return
        self.ends[index] = end
        arm = member.arm or PlanArm(member.id, PlanSteps((), sync=True), guards=False)
        self.state.add(index, arm.name, arm.id, before, end)

    def outcome(self, payload: Payload) -> Payload:
        """Return the payload after the dag; ``payload`` is the one before it.

        Raises:
            StepFailedError: a member failed, or members conflict and no guard is concerned.
        """
        stopped = self.stopped
        if stopped is not None:
            return payload.stopped(stopped.tripwire, stopped.failure)
        if self.failures:
            raise self.failures[min(self.failures)]
        live = self.state.live
        end = self._add_up(live, len(self.block.members))
        if end is None:
            return self.outcome(payload)  # a conflict, which is a verdict or a failure now
        made = NO_CHANGES if payload.changes is None else self.state.changes(0, live)
        return joined(payload, end, made, [self.ends[index] for index in sorted(self.ends)])

    def _note_ancestors(self, index: int) -> int:
        """Return all members that come before a member, whether they were taken or not."""
        before = 0
        for source, _ in self.block.members[index].after:
            before |= self._ancestors[source] | 1 << source
        self._ancestors[index] = before
        return before

    def _add_up(self, members: int, behind: int) -> Payload | None:
        """Return the merged result of a set of members, as input of the member ``behind``; None after a conflict."""
        try:
            return self.state.state(members)
        except StepFailedError as error:
            try:
                policy = join_policy(error, self._arms)
                self.verdicts[behind] = after_failure(policy, self.state.state(0), error, None)
            except StepFailedError as failure:
                self.failures[behind] = failure
            return None

    def _merge(self, base: Payload, branches: Sequence[BranchChanges]) -> Changes:
        changes = merge_branches(base, branches, self._arms, self.block, self.call)
        if isinstance(changes, StepFailedError):
            raise changes
        return changes

    # Conditions

    async def _is_taken(self, index: int, seen: Payload) -> bool:
        member = self.block.members[index]
        if not member.after:
            return True
        view = View(self.call, seen)
        for source, when in member.after:
            if self.ran.get(source, False) and (when is None or await self._holds(member.id, when, view)):
                return True
        return False

    async def _holds(self, member_id: str, when: Condition, view: View) -> bool:
        try:
            return await holds(when, view)
        except BaseException as error:
            if passes_through(error):
                raise
            failure = as_failure(f"{self.block.path}/{member_id}[when]", member_id, self.call.stage.name, error)
            record_failure(self.call, failure, None)
            raise failure from error


async def holds(condition: Condition, view: View) -> bool:
    """Return whether a condition holds, sync or async."""
    held = condition(view)
    return truth(await held if inspect.isawaitable(held) else held)
