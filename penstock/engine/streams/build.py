"""Makes pipes of a plan, for one stream. Which arms are taken is decided here, once, from the step's start.

It knows plans, lanes and pipes. It runs nothing but conditions.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from penstock.engine.execution.boundary import as_failure, failure_verdict, passes_through, record_failure
from penstock.engine.execution.dag import holds
from penstock.engine.execution.join import join_policy, merge_branches, skip
from penstock.engine.graph.plan import (
    PlanBranch,
    PlanDag,
    PlanParallel,
    PlanPolicy,
    PlanSequence,
    PlanShadow,
    PlanSteps,
    offloaded,
    plan_steps,
)
from penstock.engine.merging.rules import BranchChanges
from penstock.engine.processor.context import View
from penstock.engine.processor.payload import NO_CHANGES, Changes, Payload
from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.streams.dag import PLACE, TEXT, DagLane, DagMemberTrack, Family, Member
from penstock.engine.streams.guarded import GuardedPipe
from penstock.engine.streams.hooks import HookPipe, HookStep
from penstock.engine.streams.lanes import ForkLane, GuardLane, HookLane, PassLane, PlacedLane, RowLane, ShadowLane
from penstock.engine.streams.policy import PlacedPipe, ShadowPipe, ShadowWork, StreamPolicy, beside, fed, in_turn
from penstock.engine.streams.steps import Stopped
from penstock.engine.text_guards.guard import text_guard_of
from penstock.engine.values.errors import StepFailedError, UsageError
from penstock.engine.values.frozen import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.engine.graph.nodes import Condition
    from penstock.engine.graph.plan import Block, Call, PlanArm, PlanDagMember
    from penstock.engine.streams.hooks import Pipe
    from penstock.engine.streams.lanes import Lane
    from penstock.engine.streams.steps import StreamCall
    from penstock.engine.values.edits import Edits


class Builder:
    """Makes the pipes of one stream."""

    def __init__(self, shared: StreamCall, clock: Callable[[], float], *, apart: bool = False) -> None:
        self._shared = shared
        self._clock = clock
        self._apart = apart  # each hook in a pipe of its own, so that it is known what was between them

    async def pipes(self, block: Block | None) -> list[Pipe]:
        """Return the pipes of a block, in order."""
        if block is None:
            return []
        if isinstance(block, PlanSteps):
            return list(self._plain(block))
        if isinstance(block, PlanSequence):
            return [pipe for inner in block.blocks for pipe in await self.pipes(inner)]
        if isinstance(block, PlanBranch):
            ways = await self._taken(block)
            if len(ways) <= 1:
                return await self.pipes(ways[0].block if ways else None)
            return [self._guarded(self._fork(ways, block, [await self._lane(way.block) for way in ways]))]
        if isinstance(block, PlanPolicy) and not judges_texts(block):
            return [await self._placed(block)]
        if isinstance(block, PlanShadow):
            return [await self._shadow(block)]
        return [self._guarded(await self._lane(block))]

    def _guarded(self, lane: Lane) -> GuardedPipe:
        return GuardedPipe(lane, self._shared.written)

    def _plain(self, block: PlanSteps) -> Iterator[Pipe]:
        """Yield the pipes of plain steps: guards of texts each by itself, the others in rows."""
        hooks: list[HookStep] = []
        for call in block.calls:
            if text_guard_of(call[0].processor) is None:
                hooks.append(HookStep(self._shared.at_work(call[0]), call[1], waits=call[2]))
                continue
            yield from self._rows(hooks)
            hooks = []
            yield self._guarded(self._step(call))
        yield from self._rows(hooks)

    def _rows(self, hooks: Sequence[HookStep]) -> list[Pipe]:
        rows = [[hook] for hook in hooks] if self._apart else [hooks] if hooks else []
        return [HookPipe(row, self._clock) for row in rows]

    async def _placed(self, block: PlanPolicy) -> Pipe:
        fallback = None if block.fallback is None else await self.pipes(block.fallback)
        inside = Builder(self._shared, self._clock, apart=True)
        return PlacedPipe(await inside.pipes(block.block), self._policy(block), fallback)

    def _policy(self, block: PlanPolicy) -> StreamPolicy:
        return StreamPolicy(block, self._shared)

    def _aside(self, block: PlanShadow) -> tuple[Builder, ShadowWork]:
        """Return what builds a shadow's steps, and what does their work."""
        shared = self._shared.beside()
        background = (
            None if block.sync or self._shared.stage_call.run.shadow else self._shared.stage_call.run.background
        )
        if background is None and not block.sync and not self._shared.stage_call.run.shadow:
            raise UsageError("this workflow has async shadow steps: use `async with workflow.start() as run`")
        work = ShadowWork(background)
        self._shared.closing.append(functools.partial(work.close, shared.close))
        return Builder(shared, self._clock), work

    async def _shadow(self, block: PlanShadow) -> Pipe:
        inner, work = self._aside(block)
        return ShadowPipe(await inner.pipes(block.block), work)

    # Lanes

    async def _lane(self, block: Block) -> Lane:
        """Return the lane of a block whose steps all judge texts, or edit nothing."""
        if isinstance(block, PlanSteps):
            return _row([self._step(call) for call in block.calls])
        if isinstance(block, PlanSequence):
            return _row([await self._lane(inner) for inner in block.blocks])
        if isinstance(block, PlanPolicy):
            fallback = None if block.fallback is None else await self._lane(block.fallback)
            return PlacedLane(await self._lane(block.block), self._policy(block), fallback)
        if isinstance(block, PlanShadow):
            inner, work = self._aside(block)
            return ShadowLane(functools.partial(fed, await inner.pipes(block.block)), work)
        if isinstance(block, PlanParallel):
            return self._fork(block.arms, block, [await self._lane(way.block) for way in block.arms])
        if isinstance(block, PlanDag):
            return await self._mesh(block)
        choice = cast("PlanBranch", block)  # the last kind in a stream: an overlap is for what goes in
        ways = await self._taken(choice)
        lanes = [await self._lane(way.block) for way in ways]
        return lanes[0] if len(lanes) == 1 else self._fork(ways, choice, lanes) if lanes else PassLane()

    def _step(self, call: Call) -> Lane:
        step, hook, waits, _ = call
        guard = text_guard_of(step.processor)
        at_work = self._shared.at_work(step)
        if guard is None:
            return HookLane(at_work, hook, waits=waits)
        scan = offloaded(guard.scan) if waits and not guard.awaits else guard.scan
        return GuardLane(at_work, guard, scan, waits=waits)

    def _fork(self, ways: Sequence[PlanArm], block: PlanParallel | PlanBranch, lanes: Sequence[Lane]) -> Lane:
        waiting = sum(not way.block.sync for way in ways)
        return ForkLane(lanes, _Join(self._shared, ways, block), beside if waiting > 1 else in_turn)

    async def _mesh(self, block: PlanDag) -> Lane:
        """Return the lane of the stops that run; those that do not, are seen through."""
        feeds: list[tuple[int, ...]] = []
        places: dict[int, int] = {}
        stops: list[DagMemberTrack] = []
        known: list[Member] = []
        for index, stop in enumerate(block.members):
            before = tuple(dict.fromkeys(place for source, _ in stop.after for place in feeds[source]))
            if await self._runs(block, index, places):
                lane = PassLane() if stop.arm is None else await self._lane(stop.arm.block)
                places[index] = len(stops)
                stops.append(DagMemberTrack(lane, _nearest(stops, before)))
                known.append(_known(stop, known, before))
                feeds.append((places[index],))
            else:
                feeds.append(before)
                skip([] if stop.arm is None else [stop.arm], self._shared.stage_call)
        join = _Join(self._shared, [stop.arm for stop in block.members if stop.arm is not None], block)
        return DagLane(stops, Family(known, block.merge, join.united, self._shared.payload.message_list))

    async def _runs(self, block: PlanDag, index: int, places: dict[int, int]) -> bool:
        stop = block.members[index]
        view = View(self._shared.stage_call, self._shared.payload)
        for source, when in stop.after:
            if source in places and (
                when is None or await self._holds(when, view, f"{block.path}/{stop.id}[when]", None)
            ):
                return True
        return not stop.after

    # Conditions

    async def _taken(self, block: PlanBranch) -> list[PlanArm]:
        """Return the ways of a branch that are taken, by what is known at the step's start."""
        view = View(self._shared.stage_call, self._shared.payload)
        taken: list[PlanArm | None] = []
        for number, condition in enumerate(block.conditions):
            if await self._holds(condition, view, f"{block.path}[{number}]", block.on_error):
                taken.append(block.arms[number])
                if not block.every:
                    break
        ways = [way for way in (taken or [block.otherwise]) if way is not None]
        known = [way for way in (*block.arms, block.otherwise) if way is not None]
        skip([way for way in known if way not in ways], self._shared.stage_call)
        return ways

    async def _holds(self, condition: Condition, view: View, path: str, on_error: str | None) -> bool:
        """Tell whether a condition holds.

        Raises:
            Stopped: it broke, and the policy is to block.
            StepFailedError: it broke, and it is not.
        """
        try:
            return await holds(condition, view)
        except BaseException as error:
            if passes_through(error):
                raise
            call = self._shared.stage_call
            failure = as_failure(path, path.split("[", 1)[0], call.stage.name, error)
            record_failure(call, failure, on_error)
            if on_error == "block":
                raise Stopped(failure_verdict(failure), failure) from error
            raise failure from error


class _Join:
    """Merges the edits of branches over a stretch of text, as their join says."""

    def __init__(self, shared: StreamCall, ways: Sequence[PlanArm], block: PlanParallel | PlanBranch | PlanDag) -> None:
        self._shared = shared
        self._ways = ways
        self._block = block

    def __call__(self, text: str, branches: Sequence[Edits]) -> Edits:
        """Return the edits of all as one.

        Raises:
            Stopped: they conflict, and a guard is concerned.
            StepFailedError: they conflict.
        """
        made = [edits for edits in branches if edits]
        if len(made) <= 1:
            return made[0] if made else ()
        base = Payload(self._shared.payload.message_list, fields=FrozenDict({TEXT: text}))
        named = [
            BranchChanges(way.name, Changes({PLACE: edits}, {}) if edits else NO_CHANGES)
            for way, edits in zip(self._ways, branches, strict=True)
        ]
        return self.united(base, named).texts.get(PLACE, ())

    def united(self, base: Payload, branches: Sequence[BranchChanges]) -> Changes:
        """Return the changes of all as one.

        Raises:
            Stopped: they conflict, and a guard is concerned.
            StepFailedError: they conflict.
        """
        path, call = self._block.path, self._shared.stage_call
        merged = merge_branches(base, branches, self._ways, self._block, call)
        if not isinstance(merged, StepFailedError):
            if not merged.others:
                return merged
            merged = as_failure(path, path, call.stage.name, WrongReturnError("merge= gave something else for a text"))
            record_failure(call, merged, join_policy(merged, self._ways))
        if join_policy(merged, self._ways) == "block":
            raise Stopped(failure_verdict(merged), merged)
        raise merged


def _known(stop: PlanDagMember, known: Sequence[Member], before: Sequence[int]) -> Member:
    """Return what a stop that runs is to those it meets; ``before``: the places of those it comes after."""
    above = 0
    for place in before:
        above |= known[place].above | 1 << place
    return Member(stop.id, stop.id, above) if stop.arm is None else Member(stop.arm.name, stop.arm.id, above)


def _row(lanes: Sequence[Lane]) -> Lane:
    return functools.reduce(RowLane, lanes)


def _nearest(stops: Sequence[DagMemberTrack], sources: Sequence[int]) -> tuple[int, ...]:
    """Return the sources that no other of them comes behind: what those leave holds the others' work already."""
    above: set[int] = set()
    waiting = list(sources)
    while waiting:
        for source in stops[waiting.pop()].sources:
            if source not in above:
                above.add(source)
                waiting.append(source)
    return tuple(source for source in sources if source not in above)


def judges_texts(block: Block) -> bool:
    """Tell whether a block can be a lane: its steps judge texts, or edit nothing, and one of them does judge."""
    steps = list(plan_steps(block, fallbacks=True))
    guards = [text_guard_of(step.processor) for step in steps]
    fits = all(guard is not None or step.edits == "nothing" for guard, step in zip(guards, steps, strict=True))
    return fits and any(guard is not None for guard in guards)


def plain_hooks(block: Block | None) -> bool:
    """Tell whether a plan is one row of hooks that take chunks and do not wait."""
    return isinstance(block, PlanSteps) and all(
        not waits and text_guard_of(step.processor) is None and getattr(step.processor, "flush", None) is None
        for step, _, waits, _ in block.calls
    )
