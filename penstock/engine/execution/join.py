"""Joins: where branches meet, their ends become one payload. It knows ends and merges; nothing runs here."""

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
    ways: Sequence[PlanArm],
    ends: Sequence[Payload | StepFailedError | None],
    block: PlanParallel | PlanBranch,
    call: StageCall,
    payload: Payload,
    base: Payload,
) -> Payload:
    """Return the payload where branches meet: a verdict beats a failure, a failure beats edits."""
    tripped = next((end for end in ends if isinstance(end, Payload) and end.tripwire is not None), None)
    if tripped is not None and tripped.tripwire is not None:
        skip([way for way, end in zip(ways, ends, strict=True) if end is None], call)
        return payload.stopped(tripped.tripwire, tripped.failure)
    failed = next((end for end in ends if isinstance(end, StepFailedError)), None)
    if failed is not None:
        raise failed
    done = [(way, end) for way, end in zip(ways, ends, strict=True) if isinstance(end, Payload)]
    branches = [BranchChanges(way.name, branch_changes(base, end, way.id)) for way, end in done]
    changes = settled(base, branches, [way for way, _ in done], block, call)
    if isinstance(changes, StepFailedError):
        return after_failure(join_policy(changes, ways), payload, changes, None)
    return joined(payload, rebuild(payload, changes), changes, [end for _, end in done])


def joined(payload: Payload, after: Payload, changes: Changes, ends: Sequence[Payload]) -> Payload:
    """Return the payload as it is after the merged changes, and the branches' data behind its own."""
    data = payload.data + tuple(chunk for end in ends for chunk in end.data)
    done = any(end.settled for end in ends)
    logged = None if payload.changes is None else followed_by(payload.changes, changes)
    return Payload(after.message_list, after.facts, after.fields, data, None, done, logged)


def settled(
    base: Payload,
    branches: Sequence[BranchChanges],
    ways: Sequence[PlanArm],
    block: PlanParallel | PlanBranch | PlanDag,
    call: StageCall,
) -> Changes | StepFailedError:
    """Return the changes of all branches as one, or the failure of the join, which then is on record."""
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
    record_failure(call, failure, join_policy(failure, ways))
    return failure


def join_policy(failure: StepFailedError, ways: Sequence[PlanArm]) -> str:
    """Return what the failure of a join means: it blocks if a guard is concerned, else it raises."""
    guards = {step.path for way in ways if way.guards for step in plan_steps(way.block) if step.role == "guard"}
    guards |= {way.id for way in ways if way.guards}
    concerned = guards & set(failure.culprits) if isinstance(failure, MergeConflictError) else guards
    return "block" if concerned else "raise"


def skip(ways: Sequence[PlanArm], call: StageCall) -> None:
    """Put on record that ways were not taken, or cut off."""
    if call.run.listening:
        for way in ways:
            for step in plan_steps(way.block):
                record(call, step, "skipped", 0.0)
