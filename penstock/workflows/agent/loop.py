"""The loop of an agent: runs a request from its input to its end, and emits the chunks for the client.

The run decides which messages hooks see, and the effects of a verdict and of a rejected attempt. The loop adds the
chunks ``start`` and ``finish``, which no hook sees, and decides whether another step follows.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.execution.boundary import passes_through
from penstock.engine.values.chunks import Chunk, tripwire_chunk
from penstock.engine.values.errors import ModelError, ReviewError, StepFailedError, StorageError, UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict
from penstock.engine.values.tripwire import TripwireSignal
from penstock.engine.values.usage import total_usage, usage_payload
from penstock.models.conversations import WAITING_CALLS, call_key, has_result, is_decided
from penstock.processors.structure.facts import OBJECT
from penstock.workflows.agent.approvals import thread_of
from penstock.workflows.agent.client_chunks import end_request, send_chunks
from penstock.workflows.agent.progress import RequestProgress
from penstock.workflows.agent.questions import AskedStage
from penstock.workflows.agent.request import offered_tools
from penstock.workflows.agent.results import (
    AgentResult,
    ModelResponse,
    StepResult,
    calls_of,
)
from penstock.workflows.agent.step import ModelStep
from penstock.workflows.agent.tools import CallRules, ToolStep, may_ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message, ToolPart
    from penstock.engine.values.questions import PendingQuestion
    from penstock.engine.values.tripwire import Tripwire
    from penstock.engine.values.usage import UsageEntry
    from penstock.tools.context import ToolError
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.options import Approve
    from penstock.workflows.agent.planned_calls import PlannedCall
    from penstock.workflows.agent.questions import StoredStage
    from penstock.workflows.agent.request import RequestTask
    from penstock.workflows.agent.results import Status
    from penstock.workflows.agent.suspended import Checkpoint, Phase


_LOG = logging.getLogger("penstock.agent")
_BROKE_OFF = "the request broke off, since something that a function of the caller's awaited was cancelled"


class Loop:
    """Runs one request. Lives as long as the request.

    Args:
        run: the run of the request.
        task: the task of the request.
        group: the task group for tools; it must outlive the loop.
        on_step: called with each accepted step, as soon as no later stage can take it back.

    Attributes:
        progress: how far the request has come.
    """

    def __init__(
        self, run: Run, task: RequestTask, group: BackgroundTasks, on_step: Callable[[StepResult], object]
    ) -> None:
        self.run = run
        self.progress = RequestProgress()
        self._task = task
        self._group = group
        self._on_step = on_step
        self._started = False
        self._unreported: list[int] = []  # steps whose answers are still held
        self._finished = False
        self._result_judged = False  # whether the rest of the last stage has run, which waited for persons

    @property
    def earlier_spent(self) -> Sequence[UsageEntry]:
        """The usage entries of the processes in which the request was suspended before."""
        return () if self._task.checkpoint is None else self._task.checkpoint.earlier_spent

    @property
    def over(self) -> bool:
        """Whether the end is decided: by a verdict, an error, or the ``finish`` that is about to leave."""
        return self._finished or self.run.tripwire is not None or self.progress.error is not None

    def check_over(self) -> None:
        """Note that a request whose chunks have stopped without an end has failed: it is no success."""
        if not self.over:
            self.progress.error = UsageError(_BROKE_OFF)
            self.run.abandon()

    async def emit_chunks(self, out: Emitter[Chunk]) -> None:
        """Emit the chunks for the client, up to a ``tripwire``, a ``finish`` or an ``error``.

        An error is not raised here: it is in ``progress``, for the stream to raise after the last chunk.
        """
        run = self.run
        if self._task.checkpoint is not None:
            self._task.checkpoint.open(out)
        try:
            goes_on = await self._begin(out)
            while goes_on:
                goes_on = await self._run_step(ModelStep(run, self._task, self.progress, self._group), out)
            if run.tripwire is None:
                await self._end(out)
            else:
                await self._store_end()
                await self._emit_tripwire(run.tripwire, out)
        except BaseException as caught:
            if out.closed:
                raise
            await self._emit_error(_failure_of(caught), out)

    async def _run_step(self, step: ModelStep, out: Emitter[Chunk], rest: Checkpoint | None = None) -> bool:
        """Run a step, or the rest of one that was suspended; return whether another follows."""
        with self.run.span("model_step", step.path) as span:
            await (step.emit_chunks(out) if rest is None else step.emit_rest(rest, out))
            if span is not None:
                span.note(finish_reason=self.progress.last_reason)
        if step.accepted and not step.held:
            await self._report(len(self.progress.steps) - 1)
        elif step.accepted:
            self._unreported.append(len(self.progress.steps) - 1)
        goes_on = step.goes_on and await self._wants_more(accepted=step.accepted)
        await self._save("step" if goes_on else "end", out)
        return goes_on and self.run.tripwire is None

    async def _emit_error(self, error: Exception, out: Emitter[Chunk]) -> None:
        """Emit the last chunks of a request that failed."""
        run = self.run
        if run.tripwire is not None:  # a concurrent check has ended the run: its verdict counts more than the error
            _LOG.warning("%s was raised while a verdict ended the request", type(error).__name__)
            await self._emit_tripwire(run.tripwire, out)
            await self.give_back()
            return
        self.progress.error = error
        run.abandon()
        await self.give_back()
        if self._started:
            await out.emit(Chunk("error", payload=described(error), run_id=run.run_id))
            if self.progress.finish_reason == "error":  # the model failed, which ended its step
                ended = {"reason": "error", "is_continued": False}
                await out.emit(Chunk("step-finish", payload=ended, run_id=run.run_id))
                await out.emit(self._finish("error"))

    async def _emit_tripwire(self, tripwire: Tripwire, out: Emitter[Chunk]) -> None:
        """Emit the last chunk of a request that a verdict ended, unless the stage that gave it has."""
        if out.last is None or out.last.type != "tripwire":
            await out.emit(tripwire_chunk(tripwire, self.run.run_id))

    async def _begin(self, out: Emitter[Chunk]) -> bool:
        """Judge the input, or take up a request that was suspended; return whether a step follows."""
        checkpoint = self._task.checkpoint
        if checkpoint is not None and checkpoint.goes_on:
            return await self._go_on(checkpoint, out)
        await self._input_judged(await self.run.process_input(self._task.start), out)
        goes_on = self._goes_on and await self._answer_decided(out)
        if goes_on:
            await self._save("step", out)
        return goes_on and self.run.tripwire is None

    @property
    def _goes_on(self) -> bool:
        """Whether the input has passed: no verdict, and no question to a person."""
        return self._started and self.run.tripwire is None and not self.progress.asked

    async def _input_judged(self, outcome: Outcome, out: Emitter[Chunk], answers: Values = EMPTY) -> None:
        """Emit the first chunks, after the verdict on the input; ``answers``: those to earlier questions about it."""
        run = self.run
        if outcome.blocked:
            await out.emit_all(outcome.chunks)
            return
        await self._emit_start(out)
        if outcome.suspended:
            self.progress.asked, self.progress.finish_reason = (AskedStage(outcome, answers),), "other"
            return
        if outcome.data:
            left = await send_chunks(run, outcome.data)
            self.progress.data = left.accepted
            await out.emit_all(left.chunks)

    async def _emit_start(self, out: Emitter[Chunk]) -> None:
        run_id = self.run.run_id
        self._started = True
        await out.emit(Chunk("start", payload=FrozenDict({"run_id": run_id}), run_id=run_id))

    # A request that was suspended

    async def _go_on(self, checkpoint: Checkpoint, out: Emitter[Chunk]) -> bool:
        """Run or refuse the calls that were decided about; return whether a step follows.

        If the agent has changed since, its processors judge the conversation first.
        """
        run, task = self.run, self._task
        checkpoint.restore(run, self.progress, task.start)
        phase = checkpoint.phase
        if phase == "input":
            return await self._answer_input(checkpoint, out)
        if checkpoint.changed and task.judges_again and not await self._judge_again(checkpoint, out):
            return False
        await self._emit_start(out)
        if phase in ("prompt", "request", "answer", "calls"):
            return await self._run_step(ModelStep(run, task, self.progress, self._group), out, checkpoint)
        answer = run.message_list.get(self.progress.pending_in)
        if phase == "result":
            await self._judge_rest(checkpoint, answer, out)
            if not self.progress.pending or self.progress.asked or run.tripwire is not None:
                return False
        elif phase != "tools":
            return phase == "step"
        return answer is not None and await self._answer_open(checkpoint, answer, out)

    async def _judge_rest(self, checkpoint: Checkpoint, answer: Message | None, out: Emitter[Chunk]) -> None:
        """Run the rest of the last stage, which waited for persons; perhaps beside open calls."""
        self._result_judged = True
        waiting = checkpoint.waiting_calls
        self.progress.note_pending([call for call in calls_of(answer) if call.call_id in waiting], answer)
        await end_request(self.run, self.progress, out, *checkpoint.asked())

    async def _answer_open(self, checkpoint: Checkpoint, answer: Message, out: Emitter[Chunk]) -> bool:
        """Run or refuse the open calls of the last answer, as decided; return whether a step follows."""
        task = self._task
        self._result_judged = False
        self.progress.note_pending((), answer)
        results = checkpoint.asked("process_tool_result")
        tools = task.settings["tools"]
        waiting = {one.call.call_id for one in results if one.call is not None}
        calls = [call for call in calls_of(answer) if call.state == "call"]
        calls = [call for call in calls if call.call_id not in waiting]
        inner = await checkpoint.inner_runs(self.run.run_id, calls, tools)
        others = [call for call in calls if call.call_id not in inner]
        known, begun = checkpoint.known_calls(others, tools), checkpoint.interrupted(others, tools)
        allowed = {call.call_id: replace(call, approval="approved") for call in calls if call.call_id in inner}
        decided = {**known.decided, **allowed}
        rules = self._rules_of(decided, frozenset(decided), known.known)
        planned = checkpoint.planned(calls, tools, known.known)
        left = [decided.get(call.call_id, call) for call in calls if call.call_id not in planned]
        again = [call for call in calls if call.call_id in begun or (call.call_id in inner and not checkpoint.changed)]
        judged: dict[str, Values] = {
            call.call_id: FrozenDict(arguments=call.arguments) for call in again
        }  # no tool begins for them
        if not await self._run_open(answer, left, rules, out, results, judged, planned=list(planned.values())):
            return False
        goes_on = await self._wants_more(accepted=True)
        await self._save("step" if goes_on else "end", out)
        return goes_on and self.run.tripwire is None

    async def _judge_again(self, checkpoint: Checkpoint, out: Emitter[Chunk]) -> bool:
        """Let the new processors of a changed agent judge the input; return whether they pass it.

        Raises:
            ReviewError: they ask a person about it.
        """
        run = self.run
        outcome = await run.process_input()
        if outcome.blocked:
            await out.emit_all(outcome.chunks)
            return False
        if outcome.suspended:
            raise ReviewError(
                run.run_id,
                "the new processors of the agent ask a person about the input, and the request is past it; go on with "
                "the old ones, or send the request anew",
            )
        checkpoint.reopen(run)
        return True

    async def _answer_input(self, checkpoint: Checkpoint, out: Emitter[Chunk]) -> bool:
        """Judge the input with the answers of persons; return whether a step follows. Without them it is blocked."""
        (asked,) = checkpoint.asked()
        await self._input_judged(await asked.resume(self.run), out, asked.answers)
        return self._goes_on

    async def _save(self, phase: Phase, out: Emitter[Chunk]) -> None:
        """Store how far a request has come that is stored yet; a guard of the last stage may object to it."""
        progress = self.progress
        waits = progress.pending or progress.asked or progress.inner
        if self._task.checkpoint is not None and not waits and self.run.tripwire is None:
            objects = await self._task.checkpoint.save(self.run, progress, phase)
            if objects is not None:
                await out.emit_all(objects.chunks)

    @property
    def claimed(self) -> bool:
        """Whether the request is stored as one that this process goes on with."""
        return self._task.checkpoint is not None and self._task.checkpoint.claimed

    async def give_back(self) -> None:
        """Let others go on with a request that is stored, since this process does not; a verdict ends it.

        If the store fails, the log says so, and others wait for the lease: the request has its own reason to end.
        """
        checkpoint = self._task.checkpoint
        if checkpoint is None or not checkpoint.claimed:
            return
        try:
            if self.run.tripwire is None:
                await checkpoint.give_back()
            else:
                await checkpoint.end(self.run, self.progress)
        except StorageError as error:
            _LOG.warning("%s was raised, so a stored run stays claimed until its lease ends", type(error).__name__)

    async def _store_end(self) -> None:
        """Store the request if it is suspended, or else that one that was suspended has ended."""
        checkpoint, progress = self._task.checkpoint, self.progress
        if checkpoint is None:
            return
        if self.run.tripwire is not None or not (progress.asked or progress.pending or progress.inner):
            await checkpoint.end(self.run, self.progress)
            return
        if progress.pending:
            progress.note_pending(open_calls(self.run, progress), self.run.message_list.get(progress.pending_in))
        await checkpoint.suspend(self.run, progress, self._task.settings["tools"])
        if progress.asked:  # nobody gets what a person has yet to allow
            self.run.withhold(_unaccepted(progress))

    def _rules_of(
        self,
        decided: Mapping[str, ToolPart],
        asked: frozenset[str],
        known: Mapping[str, tuple[Value, ToolError | None]] = EMPTY,
    ) -> CallRules:
        """Return the rules for the open calls of an answer of an earlier request."""
        task, tools = self._task, self._task.settings["tools"]
        hide = _as_it_is if task.checkpoint is None else task.checkpoint.hiding(self.run)
        return CallRules(
            tools,
            frozenset(offered_tools(tools, task.settings["active_tools"])),
            partial(_decision, decided, task.approve, hide),
            partial(task.approvals.ask, thread_of(self.run)),
            asked,
            known,
        )

    async def _answer_decided(self, out: Emitter[Chunk]) -> bool:
        """Run or refuse the calls about which a person has decided since the last request; return whether it goes on.

        Only messages of this request count, and of these the last answer, so that no decision is used twice. A call
        that has a result already, wherever it stands, does not run again. A call whose approval does not count is one
        without an answer. If another call of the answer goes on, people are asked again about those that its sender may
        not decide about: the stored run that waited for all of them has ended.
        """
        run, task = self.run, self._task
        asked = next((one for one in reversed(task.start.conversation) if one.role == "assistant"), None)
        messages = run.message_list.conversation
        answered = {call_key(part) for one in messages for part in filter(has_result, one.parts)}
        new = [call for call in filter(is_decided, calls_of(asked)) if call_key(call) not in answered]
        answer, calls = _decided_in(messages, {call.call_id for call in new})
        if answer is None or len({call.call_id for call in (*calls, *new)}) < max(len(calls), len(new)):
            return True
        counted, were_asked = self._counted(new)
        decided, refused = await self._first_uses(counted)
        if not decided:
            return True
        calls = [
            replace(call, approval=None, error=None) if call.call_id in refused else call
            for call in calls
            if call.call_id in decided or call.call_id in refused
        ]
        return await self._run_open(answer, calls, self._rules_of(decided, were_asked.intersection(decided)), out)

    async def _run_open(
        self,
        answer: Message,
        calls: Sequence[ToolPart],
        rules: CallRules,
        out: Emitter[Chunk],
        results: Sequence[StoredStage] = (),
        judged: Mapping[str, Values] = EMPTY,
        *,
        planned: Sequence[PlannedCall] = (),
    ) -> bool:
        """Run or refuse open calls of an answer of an earlier request; return whether the request goes on.

        Args:
            answer: the answer.
            calls: the calls to judge.
            rules: what decides whether they run.
            out: where the chunks go.
            results: the results of further calls that waited for persons.
            judged: earlier verdicts of `process_tool_call`, by the ids of calls.
            planned: other calls, which were judged before.
        """
        run = self.run
        tools = ToolStep(run, rules, self.progress, self._group, "approved", self._task.checkpoint)
        tools.take_up(planned)
        await tools.judge(answer, calls, (), out, judged)
        if tools.verdict is not None:
            await out.emit_all(tools.verdict.chunks)
        else:
            await tools.emit_chunks(answer, out, results)
        if tools.verdict is not None:
            return run.tripwire is None
        self.progress.asked, self.progress.inner = tools.asked, tools.inner
        left = [
            call for call in calls_of(run.message_list.get(answer.id)) if call.state == "call" and not is_decided(call)
        ]
        if not (left or tools.asked or tools.inner) or run.message_list.conversation[-1].id != answer.id:
            return True
        waiting = {*tools.inner, *[one.call.call_id for one in tools.asked if one.call is not None]}
        self.progress.note_pending([call for call in left if call.call_id not in waiting], answer)
        self.progress.finish_reason = "tool-calls"
        return False

    def _counted(self, calls: Iterable[ToolPart]) -> tuple[dict[str, ToolPart], frozenset[str]]:
        """Return the calls whose decision counts, and the ids of those about which a person was asked.

        The approval of another call, see `ApprovalLog.use`, counts where a step may ask: it judges the call again.
        """
        task, thread = self._task, thread_of(self.run)
        may_ask_now = self.run.may_ask and not task.asked_only
        decided: dict[str, ToolPart] = {}
        asked: set[str] = set()
        for call in calls:
            rejected = call.approval != "approved"  # which uses up the question, too
            if task.approvals.use(thread, call, asked=rejected or self._was_asked(call)) or rejected:
                asked.add(call.call_id)
            elif not (may_ask_now and task.approvals.use(thread, call, asked=True)):
                continue
            decided[call.call_id] = call
        return decided, frozenset(asked)

    async def _first_uses(self, decided: dict[str, ToolPart]) -> tuple[dict[str, ToolPart], frozenset[str]]:
        """Return the calls whose decision counts here, and the ids of those that their sender may not decide about.

        A rejection ends the stored run, so that nobody approves what the client has refused.
        """
        checkpoint = self._task.checkpoint
        if checkpoint is None:
            return decided, frozenset()
        # before one is taken, which ends the stored run
        refused = frozenset([id for id, call in decided.items() if await checkpoint.refuses(self.run, call)])
        first = {
            id: call for id, call in decided.items() if id not in refused and await checkpoint.counts(self.run, call)
        }
        return first, refused

    def _was_asked(self, call: ToolPart) -> bool:
        """Return whether a person may have been asked about a call, by what its thread and its tool say."""
        task = self._task
        if call_key(call) in self.run.facts.get(WAITING_CALLS, ()):
            return True
        return not task.asked_only and may_ask(task.settings["tools"].get(call.name), call)

    async def _report(self, place: int) -> None:
        """Report a step to the callback."""
        pending = self._on_step(self.progress.current(self.run.message_list)[place])
        if inspect.isawaitable(pending):
            await pending

    async def _wants_more(self, *, accepted: bool) -> bool:
        """Return whether ``max_steps`` and ``stop_when`` allow another step."""
        if not accepted:
            return True
        if self.progress.accepted >= self._task.max_steps:
            return False
        steps = self.progress.current(self.run.message_list)
        for ends in self._task.stop_when:
            verdict = ends(steps)
            if await verdict if inspect.isawaitable(verdict) else verdict:
                return False
        return True

    async def _end(self, out: Emitter[Chunk]) -> None:
        """Judge the result, report the steps whose answers were held, and emit the last chunks."""
        if not (self.progress.asked or self._result_judged):
            await end_request(self.run, self.progress, out)
        if self.run.tripwire is None:
            for place in self._unreported:
                await self._report(place)
            await self._store_end()
            self._finished = True
            await out.emit(self._finish(self.progress.finish_reason))
        else:
            await self._store_end()

    def _finish(self, reason: str | None) -> Chunk:
        usage = usage_payload(total_usage(step.usage for step in self.progress.steps))
        waits = {"suspended": True} if self.progress.asked or self.progress.inner else {}
        payload: Values = FrozenDict({"reason": reason, "usage": usage, "is_continued": False, **waits})
        return Chunk("finish", payload=payload, run_id=self.run.run_id)


def _unaccepted(progress: RequestProgress) -> Sequence[str]:
    """Return the id of the answer that is not accepted, if there is one and nobody has got it."""
    answer = progress.open_answer
    return (answer["id"],) if answer and not answer["accepted"] and not answer["sent"] else ()


def _decided_in(messages: Sequence[Message], decided: Container[str]) -> tuple[Message | None, Sequence[ToolPart]]:
    """Return the last answer with calls that were decided, by their ids, and these calls."""
    for message in reversed(messages):
        calls = [call for call in filter(is_decided, calls_of(message)) if call.call_id in decided]
        if calls and message.role == "assistant":
            return message, calls
    return None, ()


def _as_it_is(value: Value) -> Value:
    return value


def _decision(
    decided: Mapping[str, ToolPart],
    approve: Approve | None,
    hide: Callable[[Value], Value],
    call: ToolPart,
) -> bool | str | Awaitable[bool | str | None] | None:
    """Return the decision about a call in the form that `approve` of an `Agent` returns.

    An approval is one of these very arguments: if guards have changed them since, it has to be asked for again. They
    may have put hidden values back, which a person does not see.
    """
    if call.approval == "rejected":
        return call.error or False
    known = decided.get(call.call_id)
    if known is not None and (call.name, hide(call.arguments)) == (known.name, hide(known.arguments)):
        return True
    return None if approve is None else approve(call)


def _failure_of(error: BaseException) -> Exception:
    """Return an error that ends the request.

    Raises:
        BaseException: the error itself, if it cancels or interrupts the caller's task.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, TripwireSignal) or passes_through(error):
        raise error
    failure = UsageError(_BROKE_OFF)
    failure.__cause__ = error
    return failure


def described(error: Exception) -> dict[str, object]:
    """Return the client's view of an error: its type, and a text of our own.

    The text of an error may quote the request or the answer: a provider's often does, and no guard has read it. The
    caller of the request gets the error itself.
    """
    payload: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, ModelError):
        status = error.status if isinstance(error.status, int) else None
        why = "" if status is None else f" with the HTTP status {status}"
        message = f"the model call failed{why}; the provider's message is in the exception that the request raised"
        return {**payload, "message": message, "status": status}
    if isinstance(error, StepFailedError):  # where it failed is for the log only
        return {**payload, "message": f"{error.processor_id!r} failed in {error.stage}"}
    return {**payload, "message": "the request failed; the exception that it raised says why"}


def make_result(
    run: Run,
    progress: RequestProgress,
    status: Status | None,
    unfinished: str = "",
    earlier: Sequence[UsageEntry] = (),
) -> AgentResult:
    """Return the result of a request.

    Args:
        run: the run of the request.
        progress: how far it has come.
        status: ``cancelled``, which the loop does not know; None: find out.
        unfinished: the client's part of the text of an answer that was cancelled before it ended.
        earlier: the usage entries of the processes in which the request was suspended before.
    """
    steps = progress.current(run.message_list)
    pending = open_calls(run, progress)
    how = status or _status(run, progress, pending)
    reasons = {"blocked": "other", "cancelled": "aborted", "failed": "error"}
    return AgentResult(
        run.message_list,
        "".join([step.text for step in steps]) + (unfinished if how == "cancelled" and progress.answering else ""),
        run.facts.get(OBJECT) if how == "success" else None,
        run.tripwire,
        how,
        reasons.get(how, progress.finish_reason),
        steps,
        total_usage(step.usage for step in steps),
        _response(run, steps),
        pending if how == "suspended" else (),
        questions_of(progress),
        run.facts,
        run.records,
        (*earlier, *run.spent),
        run.run_id,
        progress.error,
        run.lazy_trace,
    )


def open_calls(run: Run, progress: RequestProgress) -> tuple[ToolPart, ...]:
    """Return the calls without a result, as they are in the conversation now."""
    if not progress.pending:
        return ()
    waiting = {call.call_id for call in progress.pending}
    answer = run.message_list.get(progress.pending_in)
    return tuple(call for call in calls_of(answer) if call.state == "call" and call.call_id in waiting)


def questions_of(progress: RequestProgress) -> tuple[PendingQuestion, ...]:
    """Return what persons are asked, by processors of the agent and of those that it waits for."""
    own = [question for one in progress.asked for question in one.outcome.questions]
    return (*own, *[question for one in progress.inner.values() for question in one.questions])


def _status(run: Run, progress: RequestProgress, pending: tuple[ToolPart, ...]) -> Status:
    if run.tripwire is not None:
        return "blocked"
    if progress.error is not None:
        return "failed"
    return "suspended" if pending or progress.asked or progress.inner else "success"


def _response(run: Run, steps: tuple[StepResult, ...]) -> ModelResponse:
    said = next((step.metadata for step in reversed(steps) if step.metadata), EMPTY)
    return ModelResponse(said.get("id"), said.get("model"), said.get("created"), said, run.message_list.response)
