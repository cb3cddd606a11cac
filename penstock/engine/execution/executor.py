"""The executor: runs a plan, with one function for each kind of block.

It works the same for every stage. Its functions are coroutines that suspend only where a hook does, so a plan of sync
hooks runs without an event loop.
"""

from __future__ import annotations

import inspect
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.engine.execution.asking import run_again, run_ask, run_asking, run_attempt, run_behind, run_noted
from penstock.engine.execution.boundary import (
    after_failure,
    apply_error,
    apply_result,
    as_failure,
    cut_off_verdict,
    log,
    open_span,
    passes_through,
    record_failure,
    timed_out,
)
from penstock.engine.execution.dag import DagRun, holds
from penstock.engine.execution.join import join, note_taken, skip
from penstock.engine.execution.offloading import in_worker, is_long, move, must_move, within
from penstock.engine.graph.conditions import truth
from penstock.engine.graph.plan import (
    PlanAgain,
    PlanArm,
    PlanAsk,
    PlanAsking,
    PlanAttempt,
    PlanBehind,
    PlanBranch,
    PlanDag,
    PlanNoted,
    PlanOverlap,
    PlanParallel,
    PlanPolicy,
    PlanSequence,
    PlanShadow,
    PlanSteps,
    PlanViews,
    overlapping_blocks,
    plan_steps,
)
from penstock.engine.processor.context import View
from penstock.engine.processor.payload import Payload
from penstock.engine.tasks import new_task_group, run_without_loop, runs_without_loop
from penstock.engine.text_guards.views import TextViews
from penstock.engine.tracing.span_log import LoggedSpan
from penstock.engine.values.errors import StepFailedError, UsageError
from penstock.engine.values.facts import laid_over
from penstock.engine.workers import TimeLimitError, within_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from penstock.engine.graph.plan import Block
    from penstock.engine.processor.context import Effects
    from penstock.engine.processor.state import StageCall

T = TypeVar("T")

_new = object.__new__
_NO_EFFECTS: Effects | None = None


def execute(block: Block, call: StageCall, payload: Payload) -> Coroutine[object, None, Payload]:
    """Return an awaitable that runs a block; its payload carries the verdict, if there was one."""
    work = _RUNNERS[type(block)]
    if (block.movable or call.limited) and must_move(block, call, payload):
        return in_worker(work, block, call, payload)
    return work(block, call, payload)


async def _run_apart(block: PlanSteps, call: StageCall, payload: Payload) -> Payload:
    """Run steps under a time limit: the sync ones in a worker, the others here."""
    for awaits, calls in groupby(block.calls, key=lambda each: each[2]):
        payload = await execute(PlanSteps(tuple(calls), not awaits), call, payload)
        if payload.finished:
            break
    return payload


async def _run_steps(block: PlanSteps, call: StageCall, payload: Payload) -> Payload:
    if call.limited and not block.sync and not all(awaits for _, _, awaits, _ in block.calls):
        return await _run_apart(block, call, payload)
    spans, span = call.run.spans, None
    for step, hook, awaits, context in block.calls:
        enclosed = None
        if spans is not None:
            span = LoggedSpan("step", step.processor_id, call.span, step.path, call.stage.name, call.run.shadow)
            enclosed = spans.enclosed(span) if spans.encloses else None
        ctx = _new(context)  # and what its `__init__` does, without the cost of calling the class
        ctx._call = call  # pyright: ignore[reportPrivateUsage]
        ctx._step = step  # pyright: ignore[reportPrivateUsage]
        ctx._payload = payload  # pyright: ignore[reportPrivateUsage]
        ctx.effects = _NO_EFFECTS  # a plain None would tell type checkers that there are never any
        try:
            result = hook(ctx) if enclosed is None else enclosed.around(hook, awaits=awaits)(ctx)
            if awaits:
                result = await result
        except BaseException as error:  # noqa: BLE001 - handled by `apply_error`, which lets interrupts pass
            payload = apply_error(call, step, ctx, payload, error, span)
        else:
            if result is None and ctx.effects is None and span is None:
                continue
            payload = apply_result(call, step, ctx, payload, result, span)
        if payload.finished:
            break
    return payload


async def _run_sequence(block: PlanSequence, call: StageCall, payload: Payload) -> Payload:
    for inner in block.blocks:
        payload = await execute(inner, call, payload)
        if payload.finished:
            break
    return payload


async def _run_views(block: PlanViews, call: StageCall, payload: Payload) -> Payload:
    with TextViews():
        return await execute(block.block, call, payload)


async def _run_policy(block: PlanPolicy, call: StageCall, payload: Payload) -> Payload:
    for number in range(block.retries):
        end = await _attempt(block, call.before_retry() if block.own else call, payload, None, number)
        if not isinstance(end, StepFailedError) and end.failure is None:
            return end
        failure = end if isinstance(end, StepFailedError) else end.failure
        verdict = cut_off_verdict(block.block, call)
        if verdict is not None:  # of a step that ran beside the one that failed
            return payload.stopped(verdict)
        _forget_overlapping(block, call)
        log.warning("%s; it is tried again (retry %d of %d)", failure, number + 1, block.retries)
        if block.retry_delay is not None:
            import anyio  # takes long to import, so it is loaded where something waits

            await anyio.sleep(block.waits(number))
    on_error = block.on_error if block.fallback is None else None  # with a fallback, no failure blocks
    end = await _attempt(block, call, payload, on_error, block.retries)
    if isinstance(end, Payload):
        return end
    if block.fallback is not None:
        log.warning("%s; its fallback runs in its place", end)
        return await execute(block.fallback, call, payload)
    return after_failure(block.on_error, payload, end, owner=block)


def _attempt(
    block: PlanPolicy, call: StageCall, payload: Payload, on_error: str | None, number: int
) -> Coroutine[object, None, Payload | StepFailedError]:
    """Return an awaitable that runs a block once, within its time limit: its payload, or its failure."""
    if call.run.spans is None or not block.retries:
        return _try(block, call, payload, on_error)
    return _try_in_span(block, call, payload, on_error, number)


async def _try_in_span(
    block: PlanPolicy, call: StageCall, payload: Payload, on_error: str | None, number: int
) -> Payload | StepFailedError:
    with open_span(call, "attempt", block.path, number) as (span, inner):
        end = await _try(block, inner, payload, on_error)
        if isinstance(end, Payload):
            span.judged(end.tripwire)
        else:
            span.failed(end)
        return end


async def _try(block: PlanPolicy, call: StageCall, payload: Payload, on_error: str | None) -> Payload | StepFailedError:
    started = perf_counter() if call.run.spans is not None else 0.0
    try:
        if block.timeout is None:
            return await execute(block.block, call, payload)
        after = await _run_limited(block.block, block.timeout, call, payload)
    except StepFailedError as error:
        return error
    if after is not None:
        return after
    verdict = cut_off_verdict(block.block, call)
    return timed_out(block, call, started, on_error) if verdict is None else payload.stopped(verdict)


def _forget_overlapping(block: PlanPolicy, call: StageCall) -> None:
    """Drop the checks that a failed attempt has put beside the model call: the next attempt does so again."""
    pending = call.run.pending
    if pending:
        own = {id(inner) for inner in overlapping_blocks(block.block)}
        pending[:] = [entry for entry in pending if id(entry[0]) not in own]


async def _run_limited(block: Block, seconds: float, call: StageCall, payload: Payload) -> Payload | None:
    """Return the payload that a block leaves; None if it takes longer than it may. Sync hooks then run on unheard."""
    if runs_without_loop():
        try:
            return within(seconds, lambda beside: run_without_loop(_limited(block, beside, payload), "a step"), call)
        except TimeLimitError:
            return None
    import anyio  # takes long to import, so it is loaded where something waits

    with within_time(anyio.current_time() + seconds), anyio.move_on_after(seconds) as scope:
        after = await execute(block, call.under_limit(), payload)
        if after.tripwire is not None or not scope.cancel_called:
            return after
    return None


async def _limited(block: Block, call: StageCall, payload: Payload) -> Payload:
    """Run a block; `execute` looks only then whether an event loop runs in this thread."""
    return await execute(block, call, payload)


async def _run_shadow(block: PlanShadow, call: StageCall, payload: Payload) -> Payload:
    if call.run.shadow:  # nested in another shadow, which runs beside already
        await _run_unseen(block.block, call, payload)
        return payload
    beside = call.shadowed()
    if block.sync or runs_without_loop():
        await _run_unseen(block.block, beside, payload)
    else:
        background = call.run.background
        if background is None:
            raise UsageError("this workflow has async shadow steps: use `async with workflow.start() as run`")
        background.start(_run_unseen, block.block, beside, payload)
    return payload


async def _run_unseen(block: Block, call: StageCall, payload: Payload) -> None:
    """Run a shadow. Only its records count, those of failures too. Its errors never reach the run."""
    try:
        await execute(block, call, payload)
    except StepFailedError:
        return  # it is recorded already
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the run
        log.error("a shadow broke (%s); the run goes on", type(error).__name__)


async def _run_overlap(block: PlanOverlap, call: StageCall, payload: Payload) -> Payload:
    if call.run.pending is None:
        return await execute(block.block, call, payload)
    call.run.pending.append((block.block, call, payload))
    return payload


# Parallels


async def _run_arms(
    arms: Sequence[PlanArm], block: PlanParallel | PlanBranch, call: StageCall, payload: Payload
) -> Payload:
    """Run arms on one payload and join them: first the sync ones, then the others concurrently."""
    if len(arms) == 1:
        return await execute(arms[0].block, call, payload)
    base = payload.tracked()
    ends: list[Payload | StepFailedError | None] = [None] * len(arms)
    later: list[int] = []
    alone = runs_without_loop()
    for index, arm in enumerate(arms):
        if not (arm.block.sync or alone):
            later.append(index)
            continue
        ends[index] = end = await _end_of(arm.block, call, base)
        if isinstance(end, Payload) and end.tripwire is not None:
            skip([arm for other, arm in enumerate(arms) if ends[other] is None], call)
            return payload.stopped(end.tripwire, end.failure)
    if len(later) == 1:
        ends[later[0]] = await _end_of(arms[later[0]].block, call, base)
    elif later:
        await _run_concurrently([arms[index].block for index in later], later, ends, call, base)
    for reached in ends:
        if reached is not base:
            if callable(block.merge) or alone or not is_long(payload):
                return join(arms, ends, block, call, payload, base)
            return await move(lambda beside: join(arms, ends, block, beside, payload, base), call)
    return payload  # no arm changed anything


async def _run_concurrently(
    blocks: Sequence[Block],
    places: Sequence[int],
    ends: list[Payload | StepFailedError | None],
    call: StageCall,
    base: Payload,
) -> None:
    """Run each block in a separate task, and put its result into ``ends``; the first verdict cancels the others."""
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
                ends[place] = _cancelled_block(block, call)


def _cancelled_block(block: Block, call: StageCall) -> StepFailedError:
    """Return the failure of a branch whose task was cancelled from outside: without a verdict, it has not passed."""
    step = next(plan_steps(block), None)
    if step is None:  # a member of a dag without a step of this stage
        return _cancelled(call.stage.name, call.stage.name, call)
    return _cancelled(step.path, step.processor_id, call)


def _cancelled(path: str, culprit: str, call: StageCall) -> StepFailedError:
    failure = StepFailedError(path, culprit, call.stage.name, "its task was cancelled from outside")
    record_failure(call, failure, None)
    return failure


async def _end_of(block: Block, call: StageCall, base: Payload) -> Payload | StepFailedError:
    """Return the payload of one branch, or the failure that it raised."""
    try:
        return await execute(block, call, base)
    except StepFailedError as error:
        return error


# Branches


def _run_branch(block: PlanBranch, call: StageCall, payload: Payload) -> Coroutine[object, None, Payload]:
    if call.run.spans is not None:
        return _run_branch_in_span(block, call, payload)
    return _run_all_arms(block, call, payload) if block.every else _run_first_arm(block, call, payload)


async def _run_branch_in_span(block: PlanBranch, call: StageCall, payload: Payload) -> Payload:
    with open_span(call, "branch", block.path) as (span, inner):
        span.conditions = block.conditions
        run = _run_all_arms if block.every else _run_first_arm
        end = await run(block, inner, payload)
        span.judged(end.tripwire)
        return end


async def _run_first_arm(block: PlanBranch, call: StageCall, payload: Payload) -> Payload:
    arm = block.otherwise
    view = View(call, payload)
    number = 0
    try:
        for condition in block.conditions:
            said: object = condition(view)
            if said is not True and said is not False:
                said = truth(await said if inspect.isawaitable(said) else said)
            if said:
                arm = block.arms[number]
                break
            number += 1
    except BaseException as error:  # noqa: BLE001 - handled by `_condition_failed`, which lets interrupts pass
        return _condition_failed(block, call, payload, number, error)
    if call.run.spans is not None:
        note_taken(block, [number], call)
    return payload if arm is None else await execute(arm.block, call, payload)


async def _run_all_arms(block: PlanBranch, call: StageCall, payload: Payload) -> Payload:
    taken: list[int] = []
    view = View(call, payload)
    for number, condition in enumerate(block.conditions):
        try:
            held = await holds(condition, view)
        except BaseException as error:  # noqa: BLE001 - handled by `_condition_failed`, which lets interrupts pass
            return _condition_failed(block, call, payload, number, error)
        if held:
            taken.append(number)
    taken = taken or [len(block.arms)]
    if call.run.spans is not None:
        note_taken(block, taken, call)
    arms = [arm for number in taken if (arm := (*block.arms, block.otherwise)[number]) is not None]
    return await _run_arms(arms, block, call, payload) if arms else payload


def _condition_failed(
    block: PlanBranch, call: StageCall, payload: Payload, number: int, error: BaseException
) -> Payload:
    """Return the payload after a condition that raised, according to the branch's policy. It never counts as false."""
    if passes_through(error):
        raise error
    failure = as_failure(f"{block.path}[{number}]", block.path, call.stage.name, error)
    record_failure(call, failure, block.on_error)
    return after_failure(block.on_error, payload, failure)


# Dags


async def _run_dag(block: PlanDag, call: StageCall, payload: Payload) -> Payload:
    run = DagRun(block, call, payload, execute)
    if block.sync:
        for index in range(len(block.members)):
            await run.run_member(index)
            if run.stopped is not None:
                break
    else:
        await _run_dag_concurrently(run)
    return run.outcome(payload)


async def _run_dag_concurrently(run: DagRun) -> None:
    """Run the members of a dag, each as soon as those before it have ended."""
    waiting = {index: {source for source, _ in member.after} for index, member in enumerate(run.block.members)}
    begun: set[int] = set()
    async with new_task_group() as group:

        async def visit(index: int) -> None:
            begun.add(index)
            await run.run_member(index)
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
        for index in begun:  # those that have not ended
            member = run.block.members[index]
            if member.arm is None:  # its condition was cancelled: whether the members behind it were to run is unknown
                run.failures[index] = _cancelled(f"{run.block.path}/{member.id}[when]", member.id, run.call)
            else:
                run.failures[index] = _cancelled_block(member.arm.block, run.call)


_RUNNERS: dict[type[object], Callable[[Any, StageCall, Payload], Coroutine[object, None, Payload]]] = {
    PlanSteps: _run_steps,
    PlanSequence: _run_sequence,
    PlanPolicy: _run_policy,
    PlanShadow: _run_shadow,
    PlanOverlap: _run_overlap,
    PlanViews: _run_views,
    PlanParallel: lambda block, call, payload: _run_arms(block.arms, block, call, payload),
    PlanBranch: _run_branch,
    PlanDag: _run_dag,
    PlanAsking: partial(run_asking, execute),
    PlanBehind: partial(run_behind, execute),
    PlanNoted: partial(run_noted, execute),
    PlanAgain: partial(run_again, execute),
    PlanAttempt: partial(run_attempt, execute),
    PlanAsk: partial(run_ask, execute),
}


async def run_overlapping(
    pending: Sequence[tuple[Block, StageCall, Payload]], model: Callable[[], Awaitable[T]], passed: list[int]
) -> tuple[T | None, Payload]:
    """Run checks beside a model call; return its value, and one payload with the facts and data of all checks.

    The first verdict cancels the model and the other checks. A verdict beats a failure of a check, and that beats an
    error of the model call. The place of each check that passes is added to ``passed``, in case the call does not end.
    """
    ends: list[Payload | StepFailedError | None] = [None] * len(pending)
    answers: list[T] = []
    problems: list[Exception] = []
    async with new_task_group() as group:

        async def check(place: int) -> None:
            ends[place] = end = await _end_of(*pending[place])
            if isinstance(end, StepFailedError) or end.tripwire is not None:
                group.cancel()
            else:
                passed.append(place)

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
    problems[:0] = failed or [_cancelled_block(*pending[place][:2]) for place in lost]
    if not answers and not problems:
        problems.append(UsageError("the model call was cancelled from outside, and gave no answer"))
    if problems:
        raise problems[0]
    return answers[0], _added_up(pending, [end for end in ends if isinstance(end, Payload)])


def _added_up(pending: Sequence[tuple[Block, StageCall, Payload]], ends: Sequence[Payload]) -> Payload:
    """Return the payload that the last check started from, with the facts and data of all."""
    start = pending[-1][2]
    facts = start.facts
    for (_, _, begun), end in zip(pending, ends, strict=True):
        facts = laid_over(facts, begun.facts, end.facts)
    return Payload(start.message_list, facts, start.fields, tuple(chunk for end in ends for chunk in end.data))
