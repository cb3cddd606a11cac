"""`Builder`: makes the pipes of one stream from a plan.

Conditions run here, once, when the stream starts; so a branch takes the same arms for the whole stream.
"""

from __future__ import annotations

import functools
import inspect
from copy import copy
from typing import TYPE_CHECKING, cast

from penstock.engine.execution.boundary import as_failure, failure_verdict, passes_through, record_failure
from penstock.engine.execution.dag import holds
from penstock.engine.execution.join import join_policy, merge_branches, note_taken, skip
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
from penstock.engine.streams.combined_tracks import (
    PLACE,
    TEXT,
    DagTrack,
    ParallelTrack,
    PolicyTrack,
    SequenceTrack,
    StreamDag,
    StreamDagMember,
)
from penstock.engine.streams.hooks import AsyncHookPipe, HookPipe, HookStep
from penstock.engine.streams.policy import PolicyPipe, ShadowPipe, ShadowWork, StreamPolicy
from penstock.engine.streams.steps import Stopped
from penstock.engine.streams.text_pipe import TextPipe, earlier_texts
from penstock.engine.streams.tracks import StreamGuard, combined_lane, guard_lane, hook_lane, pass_lane, watch_lane
from penstock.engine.tasks import run_without_loop, runs_without_loop
from penstock.engine.text_guards.text_guard import text_guard_of
from penstock.engine.values.errors import StepFailedError, UsageError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.workers import run_with_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.engine.graph.nodes import Condition
    from penstock.engine.graph.plan import Block, Call, HookCall, PlanArm, PlanDagMember
    from penstock.engine.streams.hooks import Leavable, Pipe
    from penstock.engine.streams.steps import StreamCall, StreamStep
    from penstock.engine.streams.tracks import Lane, Subject, Track
    from penstock.engine.values.edits import Edits


class Builder:
    """Makes the pipes and lanes of one stream."""

    def __init__(
        self, shared: StreamCall, clock: Callable[[], float], *, separate: bool = False, limit: float | None = None
    ) -> None:
        self._shared = shared
        self._call = shared.stage_call  # within a branch that is traced, the call for the steps of its arms
        self._clock = clock
        self._separate = separate  # each hook in a pipe of its own, so that what is between them is known
        self._limit = limit  # the time limit of a policy around: sync hooks run where they can be left

    async def pipes(self, block: Block | None) -> list[Pipe]:
        """Return the pipes of a block, in sequence."""
        if block is None:
            return []
        if isinstance(block, PlanSteps):
            return list(self._plain_pipes(block))
        if isinstance(block, PlanSequence):
            return [pipe for inner in block.blocks for pipe in await self.pipes(inner)]
        if isinstance(block, PlanBranch):
            inside, arms = await self._taken(block)
            if len(arms) <= 1:
                return await inside.pipes(arms[0].block if arms else None)
            return [self._text_pipe(self._parallel(arms, block, [await inside._lane(arm.block) for arm in arms]))]
        if isinstance(block, PlanPolicy) and not judges_texts(block):
            return [await self._policy_pipe(block)]
        if isinstance(block, PlanShadow):
            return [await self._shadow(block)]
        return [self._text_pipe(await self._lane(block))]

    def _text_pipe(self, lane: Lane) -> TextPipe:
        return TextPipe(lane, self._shared.written, earlier_texts(self._shared.payload.message_list))

    def _plain_pipes(self, block: PlanSteps) -> Iterator[Pipe]:
        """Yield the pipes of plain steps: one for each text guard, one for the hooks between them."""
        hooks: list[HookStep] = []
        for call in block.calls:
            if text_guard_of(call[0].processor) is None:
                step = self._shared.open_step(call[0], self._call)
                leavable = None if self._limit is None and step.enclosing is None else self._enclosed(step)
                hooks.append(HookStep(step, call[1], call[2], leavable))
                continue
            yield from self._hook_pipes(hooks)
            hooks = []
            yield self._text_pipe(self._step(call))
        yield from self._hook_pipes(hooks)

    def _hook_pipes(self, hooks: Sequence[HookStep]) -> list[Pipe]:
        rows = [[hook] for hook in hooks] if self._separate else [hooks] if hooks else []
        return [(AsyncHookPipe if any(hook.waits for hook in row) else HookPipe)(row, self._clock) for row in rows]

    async def _policy_pipe(self, block: PlanPolicy) -> Pipe:
        fallback = None if block.fallback is None else await self.pipes(block.fallback)
        inside = self._inside(block, separate=True)
        return PolicyPipe(await inside.pipes(block.block), StreamPolicy(block, self._shared), fallback)

    async def _shadow(self, block: PlanShadow) -> ShadowPipe:
        """Return the pipe of a shadow.

        Raises:
            UsageError: it has async steps, and the run is in sync form.
        """
        shared = self._shared.for_shadow()
        run = self._shared.stage_call.run
        at_once = block.sync or run.shadow or runs_without_loop()
        background = None if at_once else run.background
        if background is None and not at_once:
            raise UsageError("this workflow has async shadow steps: use `async with workflow.start() as run`")
        work = ShadowWork(background)
        self._shared.closing.append(functools.partial(work.close, shared.close))
        inside = Builder(shared, self._clock)
        if self._call.span is not None:
            inside._call = shared.stage_call.within(self._call.span)
        return ShadowPipe(await inside.pipes(block.block), work)

    # Lanes

    async def _lane(self, block: Block) -> Lane:
        """Return the lane of a block whose steps all judge texts, or edit nothing."""
        if isinstance(block, PlanSteps):
            return _sequence([self._step(call) for call in block.calls])
        if isinstance(block, PlanSequence):
            return _sequence([await self._lane(inner) for inner in block.blocks])
        if isinstance(block, PlanPolicy):
            return await self._with_policy(block)
        if isinstance(block, PlanShadow):
            shadow = await self._shadow(block)
            return watch_lane(lambda _: shadow.feed, shows_end=True)
        if isinstance(block, PlanParallel):
            return self._parallel(block.arms, block, [await self._lane(arm.block) for arm in block.arms])
        if isinstance(block, PlanDag):
            return await self._dag(block)
        choice = cast("PlanBranch", block)  # the last kind in a stream: an overlap is for input
        inside, arms = await self._taken(choice)
        lanes = [await inside._lane(arm.block) for arm in arms]
        return lanes[0] if len(lanes) == 1 else self._parallel(arms, choice, lanes) if lanes else pass_lane()

    def _step(self, call: Call) -> Lane:
        step, hook, waits, _ = call
        guard = text_guard_of(step.processor)
        stream_step = self._shared.open_step(step, self._call)
        if guard is None:
            hook, waits = self._enclosed(stream_step)(hook, waits=waits)
            return hook_lane(stream_step, hook, waits=waits)
        moved = waits and not guard.awaits
        search = guard.scan if stream_step.enclosing is None else stream_step.enclosing.around_either(guard.scan)
        scan = offloaded(search) if moved else self._leavable(search, waits=waits)[0]
        return guard_lane(StreamGuard(stream_step, guard, scan))

    def _enclosed(self, step: StreamStep) -> Leavable:
        """Return a function that returns a hook of the step as it is called here."""
        if step.enclosing is None:
            return self._leavable

        def leavable(call: HookCall, *, waits: bool) -> tuple[HookCall, bool]:
            return self._leavable(step.enclosed(call, awaits=waits), waits=waits)

        return leavable

    def _inside(self, block: PlanPolicy, *, separate: bool) -> Builder:
        """Return the builder of the steps under a policy."""
        limits = [limit for limit in (self._limit, block.timeout) if limit is not None]
        made = Builder(self._shared, self._clock, separate=separate, limit=min(limits, default=None))
        made._call = self._call
        return made

    def _in_branch(self, block: PlanBranch) -> Builder:
        """Return the builder of the arms of a branch: the same, unless the run is traced."""
        spans, call = self._call.run.spans, self._call
        if spans is None:
            return self
        span = call.begin("branch", block.path, block.path.rpartition("/")[2])
        span.conditions = block.conditions
        spans.announce(span)
        made = copy(self)
        made._call = call.within(span)
        self._shared.closing.append(functools.partial(spans.end, span))
        return made

    def _leavable(self, call: HookCall, *, waits: bool) -> tuple[HookCall, bool]:
        """Return a hook as it is called under a time limit, and whether that waits: in a thread, if it does not."""
        if self._limit is not None and runs_without_loop():
            return functools.partial(_limited, call, self._limit), False
        if self._limit is None or waits:
            return call, waits
        return offloaded(call), True

    async def _with_policy(self, block: PlanPolicy) -> Lane:
        policy = StreamPolicy(block, self._shared)
        lanes = [await self._inside(block, separate=self._separate)._lane(block.block)]
        if block.fallback is not None:
            lanes.append(await self._lane(block.fallback))

        def combine(subject: Subject, tracks: list[Track]) -> Track:
            del subject
            return PolicyTrack(tracks[0], policy, tracks[1] if len(tracks) > 1 else None)

        return combined_lane(lanes, combine)

    def _parallel(self, arms: Sequence[PlanArm], block: PlanParallel | PlanBranch, lanes: Sequence[Lane]) -> Lane:
        merge = _Join(self._shared, arms, block)
        waiting = 0 if runs_without_loop() else sum(not arm.block.sync for arm in arms)
        return combined_lane(
            lanes, lambda subject, tracks: ParallelTrack(subject, tracks, merge, concurrent=waiting > 1)
        )

    async def _dag(self, block: PlanDag) -> Lane:
        """Return the lane of the members that run; where one does not run, its sources feed the members behind it."""
        feeds: list[tuple[int, ...]] = []
        numbers: dict[int, int] = {}
        lanes: list[Lane] = []
        members: list[StreamDagMember] = []
        for index, member in enumerate(block.members):
            before = tuple(dict.fromkeys(number for source, _ in member.after for number in feeds[source]))
            if await self._runs(block, index, numbers):
                numbers[index] = len(members)
                lanes.append(pass_lane() if member.arm is None else await self._lane(member.arm.block))
                members.append(_member(member, members, before))
                feeds.append((numbers[index],))
            else:
                feeds.append(before)
                skip([] if member.arm is None else [member.arm], self._call)
        join = _Join(self._shared, [member.arm for member in block.members if member.arm is not None], block)
        dag = StreamDag(members, block.merge, join.merged, self._shared.payload.message_list)
        return combined_lane(lanes, lambda subject, tracks: DagTrack(subject, tracks, dag))

    async def _runs(self, block: PlanDag, index: int, places: dict[int, int]) -> bool:
        member = block.members[index]
        view = View(self._shared.stage_call, self._shared.payload)
        for source, when in member.after:
            if source in places and (
                when is None or await self._holds(when, view, f"{block.path}/{member.id}[when]", None)
            ):
                return True
        return not member.after

    # Conditions

    async def _taken(self, block: PlanBranch) -> tuple[Builder, list[PlanArm]]:
        """Return the arms of a branch that are taken, given the payload at the start, and their builder."""
        inside = self._in_branch(block)
        view = View(self._shared.stage_call, self._shared.payload)
        taken: list[int] = []
        for number, condition in enumerate(block.conditions):
            if await inside._holds(condition, view, f"{block.path}[{number}]", block.on_error):
                taken.append(number)
                if not block.every:
                    break
        taken = taken or [len(block.arms)]
        note_taken(block, taken, inside._call)
        return inside, [arm for number in taken if (arm := (*block.arms, block.otherwise)[number]) is not None]

    async def _holds(self, condition: Condition, view: View, path: str, on_error: str | None) -> bool:
        """Tell whether a condition holds.

        Raises:
            Stopped: it failed, and the policy is to block.
            StepFailedError: it failed, and the policy is to raise.
        """
        try:
            return await holds(condition, view)
        except BaseException as error:
            if passes_through(error):
                raise
            call = self._call
            failure = as_failure(path, path.split("[", 1)[0], call.stage.name, error)
            record_failure(call, failure, on_error)
            if on_error == "block":
                raise Stopped(failure_verdict(failure), failure) from error
            raise failure from error


def _limited(call: HookCall, seconds: float, *given: object) -> object:
    """Call a hook without an event loop, and leave it when its time is up."""

    def finished() -> object:
        made = call(*given)
        return run_without_loop(made, "a step") if inspect.iscoroutine(made) else made

    return run_with_limit(finished, seconds)


class _Join:
    """Merges the edits of branches to a text, by the join's policy."""

    def __init__(self, shared: StreamCall, arms: Sequence[PlanArm], block: PlanParallel | PlanBranch | PlanDag) -> None:
        self._shared = shared
        self._arms = arms
        self._block = block

    def __call__(self, text: str, branches: Sequence[Edits]) -> Edits:
        """Return the edits of all branches as one.

        Raises:
            Stopped: they conflict, and one of them is a guard's.
            StepFailedError: they conflict.
        """
        made = [edits for edits in branches if edits]
        if len(made) <= 1:
            return made[0] if made else ()
        base = Payload(self._shared.payload.message_list, fields=FrozenDict({TEXT: text}))
        named = [
            BranchChanges(arm.name, Changes({PLACE: edits}, {}) if edits else NO_CHANGES)
            for arm, edits in zip(self._arms, branches, strict=True)
        ]
        return self.merged(base, named).texts.get(PLACE, ())

    def merged(self, base: Payload, branches: Sequence[BranchChanges]) -> Changes:
        """Return the changes of all branches as one.

        Raises:
            Stopped: they conflict, and one of them is a guard's.
            StepFailedError: they conflict.
        """
        path, call = self._block.path, self._shared.stage_call
        merged = merge_branches(base, branches, self._arms, self._block, call)
        if not isinstance(merged, StepFailedError):
            if not merged.others:
                return merged
            merged = as_failure(path, path, call.stage.name, WrongReturnError("merge= returned no text for a text"))
            record_failure(call, merged, join_policy(merged, self._arms))
        if join_policy(merged, self._arms) == "block":
            raise Stopped(failure_verdict(merged), merged)
        raise merged


def _member(member: PlanDagMember, members: Sequence[StreamDagMember], before: Sequence[int]) -> StreamDagMember:
    """Return a member that runs after those with the numbers ``before``."""
    above = 0
    for number in before:
        above |= members[number].above | 1 << number
    name, path = (member.id, member.id) if member.arm is None else (member.arm.name, member.arm.id)
    # A source above another source feeds it already, so what that one leaves holds the work of both.
    sources = tuple(number for number in before if not any(members[other].above >> number & 1 for other in before))
    return StreamDagMember(name, path, above, sources)


def _sequence(lanes: Sequence[Lane]) -> Lane:
    return functools.reduce(
        lambda first, second: combined_lane([first, second], lambda _, tracks: SequenceTrack(*tracks)), lanes
    )


def judges_texts(block: Block) -> bool:
    """Tell whether a block can be a lane: its steps are text guards or edit nothing, and one is a text guard."""
    steps = list(plan_steps(block, fallbacks=True))
    guards = [text_guard_of(step.processor) for step in steps]
    fits = all(guard is not None or step.edits == "nothing" for guard, step in zip(guards, steps, strict=True))
    return fits and any(guard is not None for guard in guards)


def plain_hooks(block: Block | None) -> bool:
    """Tell whether a plan is one sequence of hooks that are sync and have no `flush`."""
    return isinstance(block, PlanSteps) and all(
        not waits and text_guard_of(step.processor) is None and getattr(step.processor, "flush", None) is None
        for step, _, waits, _ in block.calls
    )
