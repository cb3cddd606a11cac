"""Plans with steps that may ask a person: how they are arranged, and the rest of one that is resumed.

A plan without such a step is left as it is. In another, each block behind a step that may ask becomes a `PlanBehind`:
while the step waits for a person, only the guards of that block run. `remaining` gives the part of a plan that has not
finished. The ways that branches and dags have taken are noted beside the paths of steps, as ``<path>//<number or id>``,
so that no condition is asked twice; no path holds ``//``.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.graph.plan import (
    PlanAgain,
    PlanArm,
    PlanAsk,
    PlanAsking,
    PlanAttempt,
    PlanBehind,
    PlanBranch,
    PlanDag,
    PlanDagMember,
    PlanNoted,
    PlanOverlap,
    PlanParallel,
    PlanPolicy,
    PlanSequence,
    PlanShadow,
    PlanSteps,
    PlanViews,
    enforced_steps,
    plan_steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.graph.plan import Block, Call, PlanStep


def with_questions(block: Block | None) -> Block | None:
    """Return a compiled plan, arranged for questions if one of its steps may ask a person."""
    return block if block is None or not _asking(block) else arranged(block, block)


def arranged(plain: Block, left: Block) -> PlanAsking:
    """Return the plan that runs the rest of a compiled one."""
    return PlanAsking(_arranged(left), plain, _paths(left), left.sync)


def _asking(block: Block) -> frozenset[str]:
    """Return the paths of the steps that may ask; those in shadow ask nobody."""
    return frozenset(step.path for step in enforced_steps(block) if step.asks)


def _paths(block: Block) -> tuple[str, ...]:
    return tuple(step.path for step in plan_steps(block))


# Arranging


def _arranged(block: Block) -> Block:
    """Return a block in which everything behind a step that asks waits for it, too."""
    if not _asking(block):
        return block
    if isinstance(block, PlanSteps):
        return _chain(_pieces(block)) if len(block.calls) > 1 else PlanAsk(block, block.sync, block.movable)
    if isinstance(block, PlanSequence):
        return _chain([piece for inner in block.blocks for piece in _pieces(inner)])
    if isinstance(block, PlanPolicy):
        inner = _arranged(block.block)
        return replace(block, block=PlanAttempt(inner, inner.sync, inner.movable))
    if isinstance(block, PlanParallel):
        return replace(block, arms=tuple(replace(arm, block=_arranged(arm.block)) for arm in block.arms))
    if isinstance(block, PlanBranch):
        arms = [_noted_arm(arm, _way(block, number)) for number, arm in enumerate((*block.arms, block.otherwise))]
        return replace(block, arms=tuple(arms[:-1]), otherwise=arms[-1])
    if isinstance(block, PlanDag):
        return replace(block, members=tuple(_arranged_member(block, member) for member in block.members))
    if isinstance(block, (PlanViews, PlanAgain)):
        return replace(block, block=_arranged(block.block))
    return block


def _pieces(block: Block) -> list[Block]:
    """Return a block of steps in pieces, so that each step that may ask stands alone; any other block as it is."""
    if not isinstance(block, PlanSteps):
        return [block]
    found: list[Block] = []
    for asks, calls in groupby(block.calls, key=lambda call: call[0].asks):
        run = list(calls)
        found += [_steps(block, [call]) for call in run] if asks else [_steps(block, run)]
    return found


def _steps(block: PlanSteps, calls: Sequence[Call]) -> PlanSteps:
    """Return a part of a block of steps."""
    sync = not any(awaits for _, _, awaits, _ in calls)
    return PlanSteps(tuple(calls), sync, len(calls) if block.movable else 0)


def _chain(blocks: Sequence[Block]) -> PlanSequence:
    """Return blocks one after another, each of which waits for those before it."""
    made: list[Block] = []
    before: frozenset[str] = frozenset()
    for block in blocks:
        inner = _arranged(block)
        made.append(_behind(block, inner, before) if before else inner)
        before |= _asking(block)
    return _sequence(made)


def _sequence(blocks: Sequence[Block]) -> PlanSequence:
    movable = 0 if any(not block.movable for block in blocks) else sum(block.movable for block in blocks)
    return PlanSequence(tuple(blocks), all(block.sync for block in blocks), movable)


def _behind(plain: Block, block: Block, before: frozenset[str]) -> PlanBehind:
    return PlanBehind(block, only(plain, _is_guard), before, _paths(plain), block.sync, block.movable)


def _is_guard(step: PlanStep) -> bool:
    return step.role == "guard"


def _way(block: PlanBranch, number: int) -> str:
    return f"{block.path}//{number}"


def _noted_arm(arm: PlanArm | None, note: str) -> PlanArm | None:
    return None if arm is None else replace(arm, block=_noted(_arranged(arm.block), note))


def _noted(block: Block, *notes: str) -> PlanNoted:
    return PlanNoted(block, notes, block.sync, block.movable)


def _arranged_member(dag: PlanDag, member: PlanDagMember) -> PlanDagMember:
    """Return a member of a dag that waits for those before it; one without a step of this stage is noted, too."""
    arm = member.arm or PlanArm(member.id, PlanSteps((), sync=True), guards=False)
    block: Block = _noted(_arranged(arm.block), _member_way(dag, member))
    above = [dag.members[index].arm for index in member.ancestors]
    before = frozenset(path for one in above if one is not None for path in _asking(one.block))
    if before:
        block = _behind(arm.block, block, before)
    return replace(member, arm=replace(arm, block=block))


def _member_way(dag: PlanDag, member: PlanDagMember) -> str:
    return f"{dag.path}//{member.id}"


# A part of a plan


def only(block: Block, wanted: Callable[[PlanStep], bool]) -> Block | None:
    """Return a compiled block with some of its steps, whose ends are noted; None if none is left. None is in shadow."""
    if isinstance(block, PlanSteps):
        calls = [call for call in block.calls if wanted(call[0])]
        return _noted(_steps(block, calls), *[call[0].path for call in calls]) if calls else None
    if isinstance(block, PlanAgain):
        return block if any(map(wanted, plan_steps(block))) else None
    if isinstance(block, PlanSequence):
        return _joined([only(inner, wanted) for inner in block.blocks])
    if isinstance(block, PlanPolicy):
        inner = only(block.block, wanted)
        made = _around(block, inner)
        # its fallback runs in place of them all, so they have not to run again
        return _noted(made, *_paths(made)) if made is not None and block.fallback is not None else made
    if isinstance(block, PlanViews):
        return _around(block, only(block.block, wanted))
    if isinstance(block, PlanOverlap):
        return only(block.block, wanted)
    if isinstance(block, PlanParallel):
        return _parallel(block, [_with(arm, only(arm.block, wanted)) for arm in block.arms])
    if isinstance(block, PlanBranch):
        return _branch(block, [None if arm is None else _with(arm, only(arm.block, wanted)) for arm in _arms(block)])
    if isinstance(block, PlanDag):
        members = [
            replace(one, arm=None if one.arm is None else _with(one.arm, only(one.arm.block, wanted)))
            for one in block.members
        ]
        return _dag(block, members)
    return None


def _arms(block: PlanBranch) -> tuple[PlanArm | None, ...]:
    return (*block.arms, block.otherwise)


def _joined(blocks: Iterable[Block | None]) -> Block | None:
    left = [block for block in blocks if block is not None]
    return _sequence(left) if len(left) > 1 else (left[0] if left else None)


def _with(arm: PlanArm, block: Block | None) -> PlanArm | None:
    return None if block is None else replace(arm, block=block, guards=any(map(_is_guard, plan_steps(block))))


def _around(block: PlanPolicy | PlanViews, inner: Block | None) -> Block | None:
    """Return a block around another one; None around nothing."""
    return None if inner is None else replace(block, block=inner)


def _parallel(block: PlanParallel, arms: Sequence[PlanArm | None]) -> Block | None:
    left = tuple(arm for arm in arms if arm is not None)
    return replace(block, arms=left) if len(left) > 1 else (left[0].block if left else None)


def _branch(block: PlanBranch, arms: Sequence[PlanArm | None]) -> PlanBranch | None:
    return replace(block, arms=tuple(arms[:-1]), otherwise=arms[-1]) if any(arms) else None


def _dag(block: PlanDag, members: Sequence[PlanDagMember]) -> PlanDag | None:
    return replace(block, members=tuple(members)) if any(member.arm for member in members) else None


# The rest of a plan


class _Left(NamedTuple):
    """The rest of a block, and whether a step in it has not finished."""

    block: Block | None
    open: bool


def remaining(block: Block, finished: frozenset[str], *, again: bool = False) -> Block | None:
    """Return the rest of a compiled plan: the steps that have not finished, and the guards behind them.

    Those guards are `PlanAgain`: they run again if the payload that they have seen has changed.

    Args:
        block: the plan.
        finished: the paths of the steps that have finished, and the ways that were taken.
        again: whether all guards that have finished are left, also those in front.
    """
    return _left(block, finished, behind=again).block


def _left(block: Block, finished: frozenset[str], *, behind: bool) -> _Left:
    if isinstance(block, PlanSteps):
        return _left_steps(block, finished, behind=behind)
    if isinstance(block, PlanSequence):
        return _left_in_turn(block.blocks, finished, behind=behind)
    if isinstance(block, (PlanPolicy, PlanViews)):
        inner = _left(block.block, finished, behind=behind)
        return _Left(_around(block, inner.block), inner.open)
    if isinstance(block, PlanOverlap):  # the model call that it was queued for is over
        return _left(block.block, finished, behind=behind)
    if isinstance(block, PlanShadow):
        return _Left(None if finished.issuperset(_paths(block)) else block, open=False)
    if isinstance(block, PlanParallel):
        arms = [_left(arm.block, finished, behind=behind) for arm in block.arms]
        made = [_with(arm, left.block) for arm, left in zip(block.arms, arms, strict=True)]
        return _Left(_parallel(block, made), any(left.open for left in arms))
    if isinstance(block, PlanBranch):
        return _left_branch(block, finished, behind=behind)
    if isinstance(block, PlanDag):
        return _left_dag(block, finished, behind=behind)
    return _Left(block, open=True)


def _left_in_turn(blocks: Iterable[Block], finished: frozenset[str], *, behind: bool) -> _Left:
    left: list[Block | None] = []
    opened = False
    for block in blocks:
        inner = _left(block, finished, behind=behind or opened)
        left.append(inner.block)
        opened = opened or inner.open
    return _Left(_joined(left), opened)


def _left_steps(block: PlanSteps, finished: frozenset[str], *, behind: bool) -> _Left:
    pieces: list[Block] = []
    opened = False
    for call in block.calls:
        step, piece = call[0], _steps(block, [call])
        if step.path not in finished:
            pieces.append(piece)
            opened = True
        elif _is_guard(step) and (behind or opened):
            pieces.append(PlanAgain(piece, (step.path,), piece.sync, piece.movable))
    return _Left(_joined(pieces), opened)


def _left_branch(block: PlanBranch, finished: frozenset[str], *, behind: bool) -> _Left:
    left = [None if arm is None else _left(arm.block, finished, behind=behind) for arm in _arms(block)]
    opened = any(one is not None and one.open for one in left)
    arms = [
        None if arm is None or one is None else _with(arm, one.block)
        for arm, one in zip(_arms(block), left, strict=True)
    ]
    taken = [number for number in range(len(arms)) if _way(block, number) in finished]
    if taken:  # it has decided; no condition is asked again
        ways = PlanParallel((), block.merge, block.path, block.stage, block.sync)
        return _Left(_parallel(ways, [arms[number] for number in taken]), opened)
    return _Left(_branch(block, arms), opened)


def _left_dag(block: PlanDag, finished: frozenset[str], *, behind: bool) -> _Left:
    taken = [_member_way(block, member) in finished for member in block.members]
    opened: list[bool] = []
    places: dict[int, int] = {}  # of the members that are left
    members: list[PlanDagMember] = []
    for index, member in enumerate(block.members):
        waits = any(opened[above] for above in member.ancestors)
        left = _Left(None, open=False)
        if member.arm is not None:
            left = _left(member.arm.block, finished, behind=behind or waits)
        opened.append(left.open)
        undecided = not any(taken) or (waits and not taken[index])
        if not (undecided or taken[index]):
            continue  # no way led to it, so none leads on from it
        after = tuple((places[source], when) for source, when in member.after if source in places)
        ancestors = frozenset(places[above] for above in member.ancestors if above in places)
        places[index] = len(members)
        arm = None if member.arm is None else _with(member.arm, left.block)
        members.append(PlanDagMember(member.id, arm, after if undecided else (), ancestors))
    return _Left(_dag(block, members), any(opened))
