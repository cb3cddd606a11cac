"""Runs plans with steps that may ask a person, and suspends their stage while one of them waits for an answer.

A suspension takes effect at the end of the stage. Guards still run, so that questions show guarded texts only; steps
of other roles wait. If a guard edits the payload behind a question, the step is called again with the edited one, so
that its question is about that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.graph.asking import arranged, only, remaining
from penstock.engine.processor.asking import AskingCall
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.questions import SuspendedPayload
from penstock.engine.values.facts import laid_over
from penstock.engine.values.tripwire import Tripwire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.graph.plan import Block, PlanAgain, PlanAsk, PlanAsking, PlanAttempt, PlanBehind, PlanNoted
    from penstock.engine.processor.questions import StageQuestions
    from penstock.engine.processor.state import StageCall

Execute: TypeAlias = "Callable[[Block, StageCall, Payload], Awaitable[Payload]]"


async def run_asking(execute: Execute, block: PlanAsking, call: StageCall, payload: Payload) -> Payload:
    """Run a plan, or the rest of it, until it ends or its questions are about the payload that the stage leaves."""
    asking = AskingCall.of(call)
    questions = asking.questions
    finished = questions.finished
    plan: PlanAsking | None = _left(block, finished) if finished else block
    while True:
        questions.begin(payload, finished)
        end = payload if plan is None else await execute(plan.block, asking, payload)
        if questions.edited and not end.finished:
            end = await _judge_again(execute, block, plan, asking, end)
        if end.finished or not questions.asked or plan is None:
            return end
        done = questions.finished_of(plan.steps)
        if questions.settled(end):
            end = await _behind_checks(execute, asking, end)
            return end if end.finished else _suspended(block, questions, end, done)
        if done == finished:  # its guards edit it each time anew, so no question is about the last one
            return _unsettled(questions, end)
        finished, payload = done, end
        plan = _left(block, finished)


def _left(block: PlanAsking, finished: frozenset[str]) -> PlanAsking | None:
    left = remaining(block.plain, finished)
    return None if left is None else arranged(block.plain, left)


async def _judge_again(
    execute: Execute, block: PlanAsking, plan: PlanAsking | None, call: AskingCall, end: Payload
) -> Payload:
    """Return the payload behind the guards in front of a step that changed it after a person's answer.

    A person's words are judged by every guard of the stage, also by those that had finished before.
    """
    ran = frozenset(() if plan is None else plan.steps)
    finished = call.questions.finished
    guards = remaining(block.plain, call.questions.finished_of(ran), again=True)
    if guards is not None:
        guards = only(guards, lambda step: step.path in finished and step.path not in ran)
    return end if guards is None else await execute(guards, call.unanswered(), end)


async def _behind_checks(execute: Execute, call: AskingCall, end: Payload) -> Payload:
    """Return the payload behind the checks that wait for the model: a verdict of theirs spares the question."""
    pending = call.run.pending or []
    while pending:
        block, own, start = pending[0]
        after = await execute(block, own, start)
        if after.tripwire is not None:
            return end.stopped(after.tripwire, after.failure)
        end = Payload(end.message_list, laid_over(end.facts, start.facts, after.facts), end.fields, end.data)
        del pending[:1]
    return end


def _suspended(block: PlanAsking, questions: StageQuestions, end: Payload, done: frozenset[str]) -> Payload:
    asked = [questions.asked[path][0] for path in block.steps if path in questions.asked]
    ways = sorted(done.difference(block.steps))
    return SuspendedPayload(end, asked, [*(path for path in block.steps if path in done), *ways])


def _unsettled(questions: StageQuestions, end: Payload) -> Payload:
    first = next(iter(questions.asked.values()))[0]
    reason = "the guards of this stage change the subject of a question each time they run"
    return end.stopped(Tripwire(reason, first.processor_id, first.stage, metadata={"suspended": True}))


async def run_behind(execute: Execute, block: PlanBehind, call: StageCall, payload: Payload) -> Payload:
    """Run a block behind steps that may ask; only its guards while one of them waits."""
    questions = call.questions
    if questions is None or not questions.waits(block.before):
        return await execute(block.block, call, payload)
    questions.held.update(block.steps)
    if block.guards is None:
        return payload
    return await execute(block.guards, AskingCall.of(call).held_back(), payload)


async def run_noted(execute: Execute, block: PlanNoted, call: StageCall, payload: Payload) -> Payload:
    """Run a block, and note its end."""
    end = await execute(block.block, call, payload)
    questions = call.questions
    if questions is not None and not end.finished:
        questions.done.update(block.notes)
    return end


async def run_again(execute: Execute, block: PlanAgain, call: StageCall, payload: Payload) -> Payload:
    """Run guards again if the payload has changed since they ran."""
    questions = call.questions
    if questions is None or questions.changed(payload):
        payload = await execute(block.block, call, payload)
    if questions is not None and not payload.finished:
        questions.done.update(block.steps)
    return payload


async def run_attempt(execute: Execute, block: PlanAttempt, call: StageCall, payload: Payload) -> Payload:
    """Run a block under a policy: if it fails, or its time is up, its questions do not count."""
    inner = AskingCall.of(call).apart()
    end = await execute(block.block, inner, payload)
    if call.questions is not None:
        call.questions.add(inner.questions)
    return end


async def run_ask(execute: Execute, block: PlanAsk, call: StageCall, payload: Payload) -> Payload:
    """Run a step that may ask; note whether it changed something after an answer."""
    end = await execute(block.block, call, payload)
    questions = call.questions
    if questions is not None and questions.answers and not end.finished and end.differs(payload):
        questions.edited = True
    return end
