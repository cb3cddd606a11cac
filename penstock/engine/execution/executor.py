"""The executor: runs a plan. The semantics of steps, forks, choices and meshes, each in one function.

It knows plans and the step boundary, and never asks which stage it runs. Its functions are coroutines that suspend only
where a hook does, so a plan of sync hooks can be driven without an event loop.
"""

from __future__ import annotations

import inspect
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from penstock.engine.execution.boundary import (
    after_failure,
    as_failure,
    cut_off_verdict,
    log,
    passes_through,
    record_failure,
    settle,
    settle_error,
    timed_out,
    truth,
)
from penstock.engine.execution.dag import DagRun, holds
from penstock.engine.execution.join import join, skip
from penstock.engine.graph.plan import (
    PlanArm,
    PlanBranch,
    PlanDag,
    PlanOverlap,
    PlanParallel,
    PlanPolicy,
    PlanSequence,
    PlanShadow,
    PlanSteps,
    plan_steps,
)
from penstock.engine.processor.context import View
from penstock.engine.processor.payload import Payload
from penstock.engine.tasks import new_task_group
from penstock.engine.values.errors import StepFailedError, UsageError
from penstock.engine.values.facts import laid_over

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.graph.plan import Block
    from penstock.engine.processor.state import StageCall

T = TypeVar("T")


def execute(block: Block, call: StageCall, payload: Payload) -> Awaitable[Payload]:
    """Return the run of a block; its payload carries the verdict, if there was one."""
    return _RUNNERS[type(block)](block, call, payload)


async def _plain(block: PlanSteps, call: StageCall, payload: Payload) -> Payload:
    quiet = not call.run.listening
    started = 0.0 if quiet else perf_counter()
    for step, hook, awaits, context in block.calls:
        ctx = context(call, step, payload)
        try:
            result = hook(ctx)
            if awaits:
                result = await result
        except BaseException as error:  # noqa: BLE001 - sorted by `settle_error`, which lets interrupts pass
            payload = settle_error(call, step, ctx, payload, error, started)
        else:
            if result is None and ctx.effects is None and quiet:
                continue
            payload = settle(call, step, ctx, payload, result, started)
        if payload.settled:
            break
        if started:
            started = perf_counter()
    return payload


async def _chain(block: PlanSequence, call: StageCall, payload: Payload) -> Payload:
    for inner in block.blocks:
        payload = await execute(inner, call, payload)
        if payload.settled:
            break
    return payload


async def _placed(block: PlanPolicy, call: StageCall, payload: Payload) -> Payload:
    started = perf_counter() if call.run.listening else 0.0
    try:
        if block.timeout is None:
            return await execute(block.block, call, payload)
        with anyio.move_on_after(block.timeout) as scope:
            after = await execute(block.block, call, payload)
            if after.tripwire is not None or not scope.cancel_called:
                return after
        verdict = cut_off_verdict(block.block, call)
        if verdict is not None:
            return payload.stopped(verdict)
        failure = timed_out(block, call, started)
    except StepFailedError as error:
        failure = error
    if block.fallback is not None:
        log.warning("%s; its fallback runs in its place", failure)
        return await execute(block.fallback, call, payload)
    if block.on_error is None:
        raise failure
    return after_failure(block.on_error, payload, failure, owner=block)


async def _shadow(block: PlanShadow, call: StageCall, payload: Payload) -> Payload:
    if call.run.shadow:  # within a shadow: it runs beside already
        await _watch(block.block, call, payload)
        return payload
    beside = call.shadowed()
    if block.sync:
        await _watch(block.block, beside, payload)
    else:
        background = call.run.background
        if background is None:
            raise UsageError("this workflow has async shadow steps: use `async with workflow.start() as run`")
        background.start(_watch, block.block, beside, payload)
    return payload


async def _watch(block: Block, call: StageCall, payload: Payload) -> None:
    """Run a shadow: only its records count, failures included; nothing that goes wrong in it concerns the run."""
    try:
        await execute(block, call, payload)
    except StepFailedError:
        return  # on record already
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the run
        log.error("a shadow broke (%s); the run goes on", type(error).__name__)


async def _overlap(block: PlanOverlap, call: StageCall, payload: Payload) -> Payload:
    if call.run.pending is None:
        return await execute(block.block, call, payload)
    call.run.pending.append((block.block, call, payload))
    return payload


# Forks


async def _fork(block: PlanParallel, call: StageCall, payload: Payload) -> Payload:
    return await _fan_out(block.ways, block, call, payload)


async def _fan_out(
    ways: Sequence[PlanArm], block: PlanParallel | PlanBranch, call: StageCall, payload: Payload
) -> Payload:
    """Run the ways on one payload and join them: those that cannot suspend first, the others beside each other."""
    if len(ways) == 1:
        return await execute(ways[0].block, call, payload)
    base = payload.tracked()
    ends: list[Payload | StepFailedError | None] = [None] * len(ways)
    later: list[int] = []
    for index, way in enumerate(ways):
        if not way.block.sync:
            later.append(index)
            continue
        ends[index] = end = await _end_of(way.block, call, base)
        if isinstance(end, Payload) and end.tripwire is not None:
            skip([way for other, way in enumerate(ways) if ends[other] is None], call)
            return payload.stopped(end.tripwire, end.failure)
    if len(later) == 1:
        ends[later[0]] = await _end_of(ways[later[0]].block, call, base)
    elif later:
        await _beside([ways[index].block for index in later], later, ends, call, base)
    for reached in ends:
        if reached is not base:
            return join(ways, ends, block, call, payload, base)
    return payload  # nobody did anything


async def _beside(
    blocks: Sequence[Block],
    places: Sequence[int],
    ends: list[Payload | StepFailedError | None],
    call: StageCall,
    base: Payload,
) -> None:
    """Run blocks in tasks of their own; the first verdict cancels the others."""
    async with new_task_group() as group:

        async def run(block: Block, place: int) -> None:
            try:
                ends[place] = end = await execute(block, call, base)
            except StepFailedError as error:
                ends[place] = error
            else:
                if end.tripwire is not None:
                    group.cancel()

        for block, place in zip(blocks, places, strict=True):
            group.start(run, block, place)
    if not group.cancelled:
        for block, place in zip(blocks, places, strict=True):
            if ends[place] is None:
                ends[place] = _cut_off(block, call)


def _cut_off(block: Block, call: StageCall) -> StepFailedError:
    """Return the failure of a branch whose task somebody else cancelled: it gave no verdict, so it has not passed."""
    step = next(plan_steps(block))
    return _lost(step.path, step.processor_id, call)


def _lost(path: str, culprit: str, call: StageCall) -> StepFailedError:
    failure = StepFailedError(path, culprit, call.stage.name, "its task was cancelled from outside")
    record_failure(call, failure, None)
    return failure


async def _end_of(block: Block, call: StageCall, base: Payload) -> Payload | StepFailedError:
    """Return how one branch ended: with a payload, or a failure that is to be raised."""
    try:
        return await execute(block, call, base)
    except StepFailedError as error:
        return error


# Choices


async def _choice(block: PlanBranch, call: StageCall, payload: Payload) -> Payload:
    if block.every:
        return await _every(block, call, payload)
    way = block.otherwise
    view = View(call, payload)
    number = 0
    try:
        for condition in block.conditions:
            said: object = condition(view)
            if said is not True and said is not False:
                said = truth(await said if inspect.isawaitable(said) else said)
            if said:
                way = block.ways[number]
                break
            number += 1
    except BaseException as error:  # noqa: BLE001 - sorted by `_unanswered`, which lets interrupts pass
        return _unanswered(block, call, payload, number, error)
    if call.run.listening:
        skip([other for other in (*block.ways, block.otherwise) if other is not None and other is not way], call)
    return payload if way is None else await execute(way.block, call, payload)


async def _every(block: PlanBranch, call: StageCall, payload: Payload) -> Payload:
    taken: list[PlanArm | None] = []
    view = View(call, payload)
    for number, condition in enumerate(block.conditions):
        try:
            held = await holds(condition, view)
        except BaseException as error:  # noqa: BLE001 - sorted by `_unanswered`, which lets interrupts pass
            return _unanswered(block, call, payload, number, error)
        if held:
            taken.append(block.ways[number])
    ways = [way for way in (taken or [block.otherwise]) if way is not None]
    if call.run.listening:
        skip([way for way in (*block.ways, block.otherwise) if way is not None and way not in ways], call)
    return await _fan_out(ways, block, call, payload) if ways else payload


def _unanswered(block: PlanBranch, call: StageCall, payload: Payload, number: int, error: BaseException) -> Payload:
    """Return the payload after a condition that broke, as the branch's policy says; never *false*."""
    if passes_through(error):
        raise error
    failure = as_failure(f"{block.path}[{number}]", block.path, call.stage.name, error)
    record_failure(call, failure, block.on_error)
    return after_failure(block.on_error, payload, failure)


# Meshes


async def _mesh(block: PlanDag, call: StageCall, payload: Payload) -> Payload:
    run = DagRun(block, call, payload, execute)
    if block.sync:
        for index in range(len(block.stops)):
            await run.visit(index)
            if run.stopped is not None:
                break
    else:
        await _mesh_beside(run)
    return run.outcome(payload)


async def _mesh_beside(run: DagRun) -> None:
    """Run the stops of a mesh, each as soon as those before it have ended."""
    waiting = {index: {source for source, _ in stop.after} for index, stop in enumerate(run.block.stops)}
    begun: set[int] = set()
    async with new_task_group() as group:

        async def visit(index: int) -> None:
            begun.add(index)
            await run.visit(index)
            begun.discard(index)
            if run.stopped is not None:
                group.cancel()
            for other, before in list(waiting.items()):
                before.discard(index)
                if not before and run.stopped is None:
                    del waiting[other]
                    group.start(visit, other)

        for index in [index for index, before in waiting.items() if not before]:
            del waiting[index]
            group.start(visit, index)
    if not group.cancelled:
        for index in begun:  # begun, and never ended
            stop = run.block.stops[index]
            if stop.way is None:  # it was its condition: nobody knows whether what comes after it was to run
                run.failures[index] = _lost(f"{run.block.path}/{stop.id}[when]", stop.id, run.call)
            else:
                run.failures[index] = _cut_off(stop.way.block, run.call)


_RUNNERS: dict[type[object], Callable[[Any, StageCall, Payload], Awaitable[Payload]]] = {
    PlanSteps: _plain,
    PlanSequence: _chain,
    PlanPolicy: _placed,
    PlanShadow: _shadow,
    PlanOverlap: _overlap,
    PlanParallel: _fork,
    PlanBranch: _choice,
    PlanDag: _mesh,
}


async def overlapped(
    pending: Sequence[tuple[Block, StageCall, Payload]], model: Callable[[], Awaitable[T]]
) -> tuple[T | None, Payload]:
    """Run checks beside a model call; return its value and the payload that the checks add up to.

    The first verdict cancels the model and the other checks; a verdict beats a failure, and a failure the model's.
    """
    ends: list[Payload | StepFailedError | None] = [None] * len(pending)
    answers: list[T] = []
    problems: list[Exception] = []
    async with new_task_group() as group:

        async def check(place: int) -> None:
            ends[place] = end = await _end_of(*pending[place])
            if isinstance(end, StepFailedError) or end.tripwire is not None:
                group.cancel()

        async def answer() -> None:
            try:
                answers.append(await model())
            except Exception as error:  # noqa: BLE001 - raised below, once no check has tripped
                problems.append(error)

        for place in range(len(pending)):
            group.start(check, place)
        group.start(answer)
    for end in ends:
        if isinstance(end, Payload) and end.tripwire is not None:
            return None, end
    lost = [] if group.cancelled else [place for place, end in enumerate(ends) if end is None]
    failed = [end for end in ends if isinstance(end, StepFailedError)]
    problems[:0] = failed or [_cut_off(*pending[place][:2]) for place in lost]
    if not answers and not problems:
        problems.append(UsageError("the model call was cancelled from outside, and gave no answer"))
    if problems:
        raise problems[0]
    return answers[0], _added_up(pending, [end for end in ends if isinstance(end, Payload)])


def _added_up(pending: Sequence[tuple[Block, StageCall, Payload]], ends: Sequence[Payload]) -> Payload:
    """Return the payload of the last check's start, with the facts and data of all."""
    start = pending[-1][2]
    facts = start.facts
    for (_, _, begun), end in zip(pending, ends, strict=True):
        facts = laid_over(facts, begun.facts, end.facts)
    return Payload(start.message_list, facts, start.fields, tuple(chunk for end in ends for chunk in end.data))
