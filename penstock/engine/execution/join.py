"""Merge the payloads of parallel branches into one. This module runs no step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.execution.boundary import after_failure, as_failure, record, record_failure
from penstock.engine.graph.plan import plan_steps
from penstock.engine.merging.changes import followed_by, rebuild
from penstock.engine.merging.diff import branch_changes
from penstock.engine.merging.rules import BranchChanges, describe_place, merge
from penstock.engine.processor.payload import Payload
from penstock.engine.values.errors import MergeConflictError, StepFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.graph.plan import PlanArm, PlanBranch, PlanDag, PlanParallel
    from penstock.engine.processor.payload import Changes
    from penstock.engine.processor.state import StageCall


def join(
    arms: Sequence[PlanArm],
    ends: Sequence[Payload | StepFailedError | None],
    block: PlanParallel | PlanBranch,
    call: StageCall,
    payload: Payload,
    base: Payload,
) -> Payload:
    """Return one payload for parallel branches. A verdict takes precedence over a failure, and a failure over edits.

    Args:
        arms: the branches that ran.
        ends: the payload or failure of each; None for a branch that was cancelled by a verdict.
        block: the block that contains the branches.
        call: the call of the stage.
        payload: the payload before the branches.
        base: the same payload as each branch got it: with a log of edits.

    Raises:
        StepFailedError: a branch failed, or the branches conflict and no guard is concerned.
    """
    failed: StepFailedError | None = None
    done: list[Payload] = []
    for end in ends:
        if isinstance(end, StepFailedError):
            failed = failed or end
        elif end is not None:
            if end.tripwire is not None:
                skip([arm for arm, other in zip(arms, ends, strict=True) if other is None], call)
                return payload.stopped(end.tripwire, end.failure)
            done.append(end)
    if failed is not None:
        raise failed
    changed = [(arm, end) for arm, end in zip(arms, done, strict=True) if end is not base]
    branches = [BranchChanges(arm.name, branch_changes(base, end, arm.id)) for arm, end in changed]
    changes = merge_branches(base, branches, arms, block, call)
    if isinstance(changes, StepFailedError):
        return after_failure(join_policy(changes, arms), payload, changes, None)
    after = changed[0][1] if len(changed) == 1 else rebuild(payload, changes)
    return joined(payload, after, changes, [end for _, end in changed])


def joined(payload: Payload, after: Payload, changes: Changes, ends: Sequence[Payload]) -> Payload:
    """Return the payload after the merged changes, with the data chunks of the branches behind its own."""
    data = payload.data + tuple([chunk for end in ends for chunk in end.data])
    done = any([end.finished for end in ends])  # noqa: C419 - a list is made in half the time of a generator
    logged = None if payload.changes is None else followed_by(payload.changes, changes)
    messages = after.message_list.with_entries(after.message_list.entries)  # they may not be made yet
    return Payload(messages, after.facts, after.fields, data, None, done, logged)


def merge_branches(
    base: Payload,
    branches: Sequence[BranchChanges],
    arms: Sequence[PlanArm],
    block: PlanParallel | PlanBranch | PlanDag,
    call: StageCall,
) -> Changes | StepFailedError:
    """Return the merged changes of all branches, or the failure of the join, which is recorded."""
    try:
        merged = merge(base, branches, block.merge)
    except Exception as error:  # noqa: BLE001 - a merge function of the user's broke
        failure = as_failure(block.path, block.path, call.stage.name, error)
    else:
        if not merged.unresolved:
            return merged.changes
        culprits = list(dict.fromkeys(step for conflict in merged.unresolved for step in conflict.steps))
        places = list(dict.fromkeys(describe_place(conflict.path) for conflict in merged.unresolved))
        failure = MergeConflictError(block.path, call.stage.name, culprits, places)
    record_failure(call, failure, join_policy(failure, arms))
    return failure


def join_policy(failure: StepFailedError, arms: Sequence[PlanArm]) -> str:
    """Return how the failure of a join is handled: ``block`` if a guard is concerned, else ``raise``."""
    guards = {step.path for arm in arms if arm.guards for step in plan_steps(arm.block) if step.role == "guard"}
    guards |= {arm.id for arm in arms if arm.guards}
    concerned = guards & set(failure.culprits) if isinstance(failure, MergeConflictError) else guards
    return "block" if concerned else "raise"


def note_taken(block: PlanBranch, taken: Sequence[int], call: StageCall) -> None:
    """Record which arms of a branch were taken, by number (that of ``otherwise`` is the last), and skip the others."""
    if call.span is not None:
        call.span.taken = tuple(taken)
    arms = (*block.arms, block.otherwise)
    skip([arm for number, arm in enumerate(arms) if arm is not None and number not in taken], call)


def skip(arms: Sequence[PlanArm], call: StageCall) -> None:
    """Record the steps of arms that were not taken, or were cancelled, as skipped."""
    if call.run.spans is not None:
        for arm in arms:
            for step in plan_steps(arm.block):
                record(call, step, "skipped")
