"""The executor: runs a plan. The semantics of steps, forks, choices and meshes, each in one function.

It knows plans and the step boundary, and never asks which stage it runs. Its functions are coroutines that suspend only
where a hook does, so a plan of sync hooks can be driven without an event loop.
"""

from __future__ import annotations

import inspect
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio

from penstock.engine.boundary import (
    after_failure,
    as_failure,
    failure_verdict,
    log,
    passes_through,
    record,
    settle,
    settle_error,
)
from penstock.engine.context import View
from penstock.engine.crew import new_crew
from penstock.engine.delta import Delta, compose_hints, diff, inherit, rebuild
from penstock.engine.errors import MergeConflictError, StepFailedError, UsageError
from penstock.engine.merge import Branch, Merged, describe_place, merge
from penstock.engine.payload import Payload
from penstock.engine.plan import Chain, Choice, Fork, Mesh, Overlap, Placed, Plain, Shadow, Way, plan_steps
from penstock.engine.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.nodes import Condition
    from penstock.engine.plan import Block
    from penstock.engine.state import StageCall


def execute(block: Block, call: StageCall, payload: Payload) -> Awaitable[Payload]:
    """Return the run of a block; its payload carries the verdict, if there was one."""
    return _RUNNERS[type(block)](block, call, payload)


async def _plain(block: Plain, call: StageCall, payload: Payload) -> Payload:
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


async def _chain(block: Chain, call: StageCall, payload: Payload) -> Payload:
    for inner in block.blocks:
        payload = await execute(inner, call, payload)
        if payload.settled:
            break
    return payload


async def _placed(block: Placed, call: StageCall, payload: Payload) -> Payload:
    try:
        if block.timeout is None:
            return await execute(block.block, call, payload)
        with anyio.move_on_after(block.timeout) as scope:
            after = await execute(block.block, call, payload)
            if after.tripwire is not None or not scope.cancel_called:
                return after
        failure = _timed_out(block, call)
    except StepFailedError as error:
        failure = error
    if block.fallback is not None:
        log.warning("%s; its fallback runs in its place", failure)
        return await execute(block.fallback, call, payload)
    if block.on_error is None:
        raise failure
    return after_failure(block.on_error, payload, failure, None)


def _timed_out(block: Placed, call: StageCall) -> StepFailedError:
    cause = TimeoutError(f"no result within {block.timeout} s")
    problem = f"it gave no result within {block.timeout} s"
    failure = StepFailedError(block.path, block.path.rsplit("/", 1)[-1], call.stage.name, problem)
    failure.__cause__ = cause
    if call.run.listening:
        verdict = failure_verdict(failure) if block.on_error == "block" else None
        for step in plan_steps(block.block):
            record(
                call, step, "failed", perf_counter() - (block.timeout or 0.0), tripwire=verdict, error="TimeoutError"
            )
    return failure


async def _shadow(block: Shadow, call: StageCall, payload: Payload) -> Payload:
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
    """Run a shadow: only its records count, failures included."""
    try:
        await execute(block, call, payload)
    except StepFailedError:
        return  # on record already


async def _overlap(block: Overlap, call: StageCall, payload: Payload) -> Payload:
    if call.run.pending is None:
        return await execute(block.block, call, payload)
    call.run.pending.append((block.block, call, payload))
    return payload


# Forks


async def _fork(block: Fork, call: StageCall, payload: Payload) -> Payload:
    return await _fan_out(block.ways, block, call, payload)


async def _fan_out(ways: Sequence[Way], block: Fork | Choice, call: StageCall, payload: Payload) -> Payload:
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
            _skip([way for other, way in enumerate(ways) if ends[other] is None], call)
            return payload.stopped(end.tripwire, end.failure)
    if len(later) == 1:
        ends[later[0]] = await _end_of(ways[later[0]].block, call, base)
    elif later:
        await _beside([ways[index].block for index in later], later, ends, call, base)
    if all(end is base for end in ends):  # nobody did anything
        return payload
    return _join(ways, ends, block, call, payload, base)


async def _beside(
    blocks: Sequence[Block],
    places: Sequence[int],
    ends: list[Payload | StepFailedError | None],
    call: StageCall,
    base: Payload,
) -> None:
    """Run blocks in tasks of their own; the first verdict cancels the others."""
    async with new_crew() as crew:

        async def run(block: Block, place: int) -> None:
            try:
                ends[place] = end = await execute(block, call, base)
            except StepFailedError as error:
                ends[place] = error
            else:
                if end.tripwire is not None:
                    crew.cancel()

        for block, place in zip(blocks, places, strict=True):
            crew.start(run, block, place)


async def _end_of(block: Block, call: StageCall, base: Payload) -> Payload | StepFailedError:
    """Return how one branch ended: with a payload, or a failure that is to be raised."""
    try:
        return await execute(block, call, base)
    except StepFailedError as error:
        return error


def _join(
    ways: Sequence[Way],
    ends: Sequence[Payload | StepFailedError | None],
    block: Fork | Choice,
    call: StageCall,
    payload: Payload,
    base: Payload,
) -> Payload:
    """Return the payload where branches meet: a verdict beats a failure, a failure beats edits."""
    tripped = next((end for end in ends if isinstance(end, Payload) and end.tripwire is not None), None)
    if tripped is not None and tripped.tripwire is not None:
        _skip([way for way, end in zip(ways, ends, strict=True) if end is None], call)
        return payload.stopped(tripped.tripwire, tripped.failure)
    failed = next((end for end in ends if isinstance(end, StepFailedError)), None)
    if failed is not None:
        raise failed
    done = [(way, end) for way, end in zip(ways, ends, strict=True) if isinstance(end, Payload)]
    branches = [Branch(way.id, diff(base, end, way.id, end.hints or {})) for way, end in done]
    merged = merge(base, branches, block.merge)
    if merged.unsettled:
        return _conflict(merged, [way for way, _ in done], block, call, payload)
    return _merged(payload, merged.delta, [end for _, end in done])


def _merged(payload: Payload, delta: Delta, ends: Sequence[Payload]) -> Payload:
    after = rebuild(payload, delta)
    data = payload.data + tuple(chunk for end in ends for chunk in end.data)
    settled = any(end.settled for end in ends)
    hints = None if payload.hints is None else compose_from(payload, delta)
    return Payload(after.message_list, after.facts, after.fields, data, None, settled, hints)


def compose_from(payload: Payload, delta: Delta) -> dict[TextPlace, Any]:
    """Return the outer fork's record of text edits with those of a join added."""
    made: dict[TextPlace, Any] = {}
    for place, change in delta.items():
        if isinstance(change, tuple):
            where = TextPlace(place[1], place[3], place[4:]) if place[0] == "messages" else TextPlace("", 0, place[1:])
            made[where] = change
    return compose_hints(payload.hints or {}, made)


def _conflict(
    merged: Merged, ways: Sequence[Way], block: Fork | Choice | Mesh, call: StageCall, payload: Payload
) -> Payload:
    """Fail the join: blocked if one of the culprits is a guard, else raised."""
    culprits = list(dict.fromkeys(step for unsettled in merged.unsettled for step in unsettled.steps))
    places = list(dict.fromkeys(describe_place(unsettled.place) for unsettled in merged.unsettled))
    failure = MergeConflictError(block.path, call.stage.name, culprits, places)
    guards = {step.path for way in ways if way.guards for step in plan_steps(way.block) if step.role == "guard"}
    guards |= {way.id for way in ways if way.guards}
    return after_failure("block" if guards & set(culprits) else "raise", payload, failure, None)


def _skip(ways: Sequence[Way], call: StageCall) -> None:
    """Put on record that ways were not taken, or cut off."""
    if call.run.listening:
        for way in ways:
            for step in plan_steps(way.block):
                record(call, step, "skipped", 0.0)


# Choices


async def _choice(block: Choice, call: StageCall, payload: Payload) -> Payload:
    taken: list[Way | None] = []
    view = View(call, payload)
    number = 0
    try:
        for condition in block.conditions:
            holds = condition(view)
            if holds is not True and holds is not False and inspect.isawaitable(holds):
                holds = await holds
            if holds:
                taken.append(block.ways[number])
                if not block.every:
                    break
            number += 1
    except BaseException as error:
        if passes_through(error):
            raise
        failure = as_failure(f"{block.path}[{number}]", block.path, call.stage.name, error)
        return after_failure(block.on_error, payload, failure, None)
    if not taken:
        taken.append(block.otherwise)
    if call.run.listening:
        _skip([way for way in (*block.ways, block.otherwise) if way is not None and way not in taken], call)
    ways = [way for way in taken if way is not None]
    return await _fan_out(ways, block, call, payload) if ways else payload


async def _holds(condition: Condition, view: View) -> bool:
    holds = condition(view)
    return bool(await holds) if inspect.isawaitable(holds) else bool(holds)


# Meshes


class _MeshRun:
    """One run of a mesh: what each stop gave, seen from the mesh's entry."""

    def __init__(self, block: Mesh, call: StageCall, payload: Payload) -> None:
        self.block = block
        self.call = call
        self.entry = payload.tracked()
        self.ran: dict[int, bool] = {}
        self.ends: dict[int, Payload] = {}
        self.deltas: dict[int, Delta] = {}
        self.stopped: Payload | None = None
        self.failure: StepFailedError | None = None
        by_path = {stop.way.id: index for index, stop in enumerate(block.stops) if stop.way is not None}
        for index, stop in enumerate(block.stops):
            if stop.way is not None:
                by_path.update({step.path: index for step in plan_steps(stop.way.block)})
        self.by_path = by_path

    def supersedes(self, later: str, earlier: str) -> bool:
        """Tell whether the one step ran behind the other, and so saw what it did."""
        one, other = self.by_path.get(later), self.by_path.get(earlier)
        return one is not None and other is not None and other in self.block.stops[one].ancestors

    def meet(self, sources: Sequence[int]) -> tuple[Payload, Delta] | None:
        """Return what the given stops add up to, or None after a conflict."""
        live = [index for index in sources if index in self.ends]
        merged = merge(
            self.entry,
            [Branch(self._way(index).id, self.deltas[index]) for index in live],
            self.block.merge,
            self.supersedes,
        )
        if merged.unsettled:
            ways = [stop.way for stop in self.block.stops if stop.way is not None]
            try:
                self.stopped = _conflict(merged, ways, self.block, self.call, self.entry)
            except StepFailedError as error:
                self.failure = self.failure or error
            return None
        seen = rebuild(self.entry, merged.delta)
        settled = any(self.ends[index].settled for index in live)
        hints = compose_from(self.entry, merged.delta)
        return Payload(seen.message_list, seen.facts, seen.fields, (), None, settled, hints), merged.delta

    def _way(self, index: int) -> Way:
        return self.block.stops[index].way or Way(self.block.stops[index].id, Plain((), sync=True), guards=False)

    async def visit(self, index: int) -> None:
        """Run one stop, whose predecessors have ended."""
        stop = self.block.stops[index]
        met = self.meet(sorted(stop.ancestors)) if stop.after else (self.entry, {})
        if met is None:
            return
        seen, seen_delta = met
        try:
            self.ran[index] = taken = not seen.settled and await self._taken(index, seen)
            if not taken:
                _skip([] if stop.way is None else [stop.way], self.call)
                return
            end = seen if stop.way is None else await execute(stop.way.block, self.call, seen)
        except StepFailedError as error:
            self.failure = self.failure or error
            return
        if end.tripwire is not None:
            self.stopped = self.stopped or end
            return
        self.ends[index] = end
        self.deltas[index] = inherit(diff(self.entry, end, self._way(index).id, end.hints or {}), seen_delta)

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
            return await _holds(when, view)
        except BaseException as error:
            if passes_through(error):
                raise
            raise as_failure(f"{self.block.path}/{stop_id}[when]", stop_id, self.call.stage.name, error) from error

    def outcome(self, payload: Payload) -> Payload:
        """Return the payload behind the mesh."""
        if self.stopped is not None and self.stopped.tripwire is not None:
            return payload.stopped(self.stopped.tripwire, self.stopped.failure)
        if self.failure is not None:
            raise self.failure
        met = self.meet(list(self.ends))
        if met is None:
            return self.outcome(payload)
        return _merged(payload, met[1], [self.ends[index] for index in sorted(self.ends)])


async def _mesh(block: Mesh, call: StageCall, payload: Payload) -> Payload:
    run = _MeshRun(block, call, payload)
    if block.sync:
        for index in range(len(block.stops)):
            await run.visit(index)
            if run.stopped is not None or run.failure is not None:
                break
    else:
        await _mesh_beside(run)
    return run.outcome(payload)


async def _mesh_beside(run: _MeshRun) -> None:
    """Run the stops of a mesh, each as soon as those before it have ended."""
    waiting = {index: {source for source, _ in stop.after} for index, stop in enumerate(run.block.stops)}
    async with new_crew() as crew:

        async def visit(index: int) -> None:
            await run.visit(index)
            if run.stopped is not None:
                crew.cancel()
            for other, before in list(waiting.items()):
                before.discard(index)
                if not before and run.stopped is None and run.failure is None:
                    del waiting[other]
                    crew.start(visit, other)

        for index in [index for index, before in waiting.items() if not before]:
            del waiting[index]
            crew.start(visit, index)


_RUNNERS: dict[type[Any], Callable[[Any, StageCall, Payload], Awaitable[Payload]]] = {
    Plain: _plain,
    Chain: _chain,
    Placed: _placed,
    Shadow: _shadow,
    Overlap: _overlap,
    Fork: _fork,
    Choice: _choice,
    Mesh: _mesh,
}


async def overlapped(
    pending: Sequence[tuple[Block, StageCall, Payload]], model: Callable[[], Awaitable[Any]]
) -> tuple[Any, Payload]:
    """Run checks beside a model call; return its value and the payload that the checks add up to.

    The first verdict cancels the model and the other checks; a verdict beats a failure, and a failure the model's.
    """
    ends: list[Payload | StepFailedError | None] = [None] * len(pending)
    value: Any = None
    problem: Exception | None = None
    async with new_crew() as crew:

        async def check(place: int) -> None:
            block, call, payload = pending[place]
            ends[place] = end = await _end_of(block, call, payload)
            if isinstance(end, StepFailedError) or end.tripwire is not None:
                crew.cancel()

        async def answer() -> None:
            nonlocal value, problem
            try:
                value = await model()
            except Exception as error:  # noqa: BLE001 - raised below, once no check has tripped
                problem = error

        for place in range(len(pending)):
            crew.start(check, place)
        crew.start(answer)
    done = [end for end in ends if isinstance(end, Payload)]
    tripped = next((end for end in done if end.tripwire is not None), None)
    if tripped is not None:
        return None, tripped
    failed = next((end for end in ends if isinstance(end, StepFailedError)), None)
    if failed is not None or problem is not None:
        raise failed or problem  # type: ignore[misc]
    facts = {key: fact for end in done for key, fact in end.facts.items()}
    last = done[-1]
    return value, Payload(last.message_list, facts, last.fields, tuple(c for end in done for c in end.data))
