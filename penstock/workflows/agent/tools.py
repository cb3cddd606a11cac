"""The tools of one step: check all calls, decide which may run, run them, and check each result."""

from __future__ import annotations

import inspect
from collections import deque
from contextlib import aclosing, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import anyio

from penstock.engine.streams.chunk_texts import approval_request
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import NestingError, ReviewError
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.tools.context import ToolContext, ToolError
from penstock.workflows.agent.client_chunks import judged_chunks, keep_data, send_chunks
from penstock.workflows.agent.late_guards import settled
from penstock.workflows.agent.nested import OUTER, InnerWaitsError, inner_agent
from penstock.workflows.agent.planned_calls import PlannedCall
from penstock.workflows.agent.questions import (
    AskedStage,
    StoredStage,
    details_of,
    judged_call,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.tracing.span_log import LoggedSpan
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message, ToolPart
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.nested import OuterRequest
    from penstock.workflows.agent.options import Approve
    from penstock.workflows.agent.progress import RequestProgress
    from penstock.workflows.agent.results import StepResult
    from penstock.workflows.agent.suspended import Checkpoint


AGENT_DEPTH: ContextVar[int] = ContextVar("penstock.agent_depth", default=0)
"""How many agents' tools the current task runs within."""


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call that has ended, with a result or an error."""

    plan: PlannedCall
    result: Value = None
    error: ToolError | None = None


class ToolRunner:
    """Runs the calls of one step, concurrently where the tools allow it. Lives as long as they run.

    Args:
        group: the task group to run in; it must outlive the runner.
        context: makes the context of a call, given the call and a function that sends a chunk.
        span: tells observers of a call while it lasts.
        outer: the request, for tools that are agents; None if it is not stored.
    """

    def __init__(
        self,
        group: BackgroundTasks,
        context: Callable[[ToolPart, Callable[[Chunk], None]], ToolContext],
        span: Callable[[PlannedCall], AbstractContextManager[LoggedSpan | None]],
        outer: OuterRequest | None = None,
    ) -> None:
        self._outer = outer
        self._group = group
        self._context = context
        self._span = span
        self._events: deque[Chunk | FinishedCall] = deque()
        self._arrived = anyio.Event()
        self._scopes: list[anyio.CancelScope] = []

    async def events(self, planned: Sequence[PlannedCall]) -> AsyncGenerator[Chunk | FinishedCall]:
        """Run calls; yield the chunks that tools write at once, and the finished calls in the order of the calls.

        Closing the generator cancels the tools that still run.
        """
        try:
            for batch in _batches(planned):
                left = deque(batch)
                ended: dict[str, FinishedCall] = {}
                for plan in batch:
                    self._start(plan)
                while left:
                    while left and left[0].call.call_id in ended:
                        yield ended.pop(left.popleft().call.call_id)
                    if left:
                        one = await self._next()
                        if isinstance(one, FinishedCall):
                            ended[one.plan.call.call_id] = one
                        else:
                            yield one
        finally:
            for scope in self._scopes:
                scope.cancel()

    def _start(self, plan: PlannedCall) -> None:
        if plan.tool is None:
            self._put(FinishedCall(plan, plan.answer, plan.problem))
            return
        self._scopes.append(self._group.start(self._run, plan, plan.tool))

    async def _run(self, plan: PlannedCall, tool: Tool) -> None:
        done = FinishedCall(plan, error=ToolError(tool.name, "failed", "it was cancelled"))
        AGENT_DEPTH.set(AGENT_DEPTH.get() + 1)  # of this task only
        OUTER.set(self._outer)
        try:
            with self._span(plan) as span:
                with nullcontext() if span is None or span.scope is None else span.scope():
                    done = await _run_tool(plan, tool, self._context(plan.call, self._put))
                if done.error is not None and span is not None:
                    span.note(error=done.error.kind)
        finally:
            self._put(done)

    def _put(self, one: Chunk | FinishedCall) -> None:
        self._events.append(one)
        self._arrived.set()

    async def _next(self) -> Chunk | FinishedCall:
        while not self._events:
            await self._arrived.wait()
            self._arrived = anyio.Event()
        return self._events.popleft()


async def _run_tool(plan: PlannedCall, tool: Tool, context: ToolContext) -> FinishedCall:
    """Run a tool; a `ToolError` is its result."""
    try:
        return FinishedCall(plan, await tool.call(plan.arguments, context))
    except ToolError as error:
        return FinishedCall(plan, error=error)


def _batches(planned: Sequence[PlannedCall]) -> list[list[PlannedCall]]:
    """Return the calls in batches that may run concurrently; a tool that may not is alone in its batch."""
    batches: list[list[PlannedCall]] = []
    concurrent_before = False
    for plan in planned:
        concurrent = plan.tool is None or plan.tool.concurrent
        if concurrent and concurrent_before:
            batches[-1].append(plan)
        else:
            batches.append([plan])
        concurrent_before = concurrent
    return batches


class JudgedCall(NamedTuple):
    """The verdict of `process_tool_call` on a call that it has not blocked.

    Attributes:
        fields: what it left: ``arguments``, and an ``answer`` in place of the tool, or a ``question`` about it.
        data: the data chunks that its steps wrote.
    """

    fields: Values
    data: Sequence[Chunk] = ()

    @property
    def asks(self) -> bool:
        """Whether a person is to be asked about the call; see `Outcome.asks`."""
        return "question" in self.fields and "answer" not in self.fields

    @property
    def answered(self) -> bool:
        """Whether a step gave an answer in place of the tool."""
        return "answer" in self.fields

    @property
    def answer(self) -> Value:
        """That answer."""
        return self.fields.get("answer")

    @property
    def arguments(self) -> Value:
        """The arguments, as edited."""
        return self.fields.get("arguments")


class CallRules(NamedTuple):
    """What decides whether a call runs.

    Attributes:
        tools: the tools of the step, by name.
        offered: the names of the tools that the model was offered.
        approve: decides on calls that need approval.
        on_ask: called with each call that a person is asked about.
        asked: the ids of decided calls about which a person was asked. The approval of another one counts only if a
            step asks about it now: a client could approve what nobody asked about.
        known: results that the application gave, or why a call does not run, by the ids of calls.
        caller_runs: whether the caller runs the tools, so that a person is also asked about one that is not known here.
    """

    tools: Mapping[str, Tool]
    offered: frozenset[str]
    approve: Approve | None
    on_ask: Callable[[ToolPart], object]
    asked: frozenset[str] = frozenset()
    known: Mapping[str, tuple[Value, ToolError | None]] = EMPTY
    caller_runs: bool = False


async def plan_call(call: ToolPart, judged: JudgedCall, rules: CallRules) -> PlannedCall | None:
    """Return what to do about a call, or None if the caller has to answer it.

    Args:
        call: the call, as the model made it.
        judged: the verdict of `process_tool_call`.
        rules: the tools, and who approves calls.
    """
    asked = judged.asks
    if judged.answered or call.call_id in rules.known:
        answer, problem = (judged.answer, None) if judged.answered else rules.known[call.call_id]
        return PlannedCall(call, judged.arguments, None, answer, problem)
    if asked and rules.caller_runs:
        return None
    tool = rules.tools.get(call.name)
    if tool is None or call.name not in rules.offered:
        known = f"there is no such tool; the tools are {', '.join(sorted(rules.offered)) or 'none'}"
        return PlannedCall(call, judged.arguments, problem=ToolError(call.name, "unknown", known))
    if tool.is_external:
        return None
    try:
        tool.read(judged.arguments)
    except ToolError as error:
        return PlannedCall(call, judged.arguments, problem=error)
    if call.approval == "approved" and not asked and call.call_id not in rules.asked:
        return None
    if asked or call.approval is not None or tool.wants_approval(judged.arguments):
        verdict = await _approval(rules.approve, replace(call, arguments=judged.arguments))
        if verdict is None:
            return None
        if verdict is not True:
            why = verdict if isinstance(verdict, str) and verdict else "the user did not allow this call"
            return PlannedCall(call, judged.arguments, problem=ToolError(call.name, "refused", why))
    return PlannedCall(call, judged.arguments, tool)


def may_ask(tool: Tool | None, call: ToolPart) -> bool:
    """Return whether a person may have been asked about a call; True if it cannot run anyway, as `plan_call` says."""
    if tool is None or tool.is_external:
        return True
    try:
        tool.read(call.arguments)
    except ToolError:
        return True
    return tool.wants_approval(call.arguments)


async def _approval(approve: Approve | None, call: ToolPart) -> bool | str | None:
    if approve is None:
        return None
    verdict = approve(call)
    return await verdict if inspect.isawaitable(verdict) else verdict


class ToolStep:
    """The tools of one step. Lives as long as they run.

    Attributes:
        verdict: the outcome that stopped the step, or None.
        pending: the calls that the caller has to answer.
        answered: how many calls have a result.
        asked: the stages about calls or results that wait for persons.
        inner: the agents that wait for people, by the ids of the calls that run them.
    """

    def __init__(
        self,
        run: Run,
        rules: CallRules,
        progress: RequestProgress,
        group: BackgroundTasks,
        path: str,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.verdict: Outcome | None = None
        self.pending: tuple[ToolPart, ...] = ()
        self.answered = 0
        self.asked: tuple[AskedStage, ...] = ()
        self.inner: Mapping[str, InnerWaitsError] = EMPTY
        self._judged: list[tuple[ToolPart, JudgedCall]] = []  # the calls, and what `process_tool_call` said
        self._taken_up: Sequence[PlannedCall] = ()
        self._run = run
        self._rules = rules
        self._number = run.step_number
        self._progress = progress
        self._path = path
        self._group = group
        self._checkpoint = checkpoint

    async def judge(
        self,
        answer: Message | None,
        calls: Sequence[ToolPart],
        held: Sequence[Chunk],
        out: Emitter[Chunk],
        earlier: Mapping[str, StoredStage | Values] = EMPTY,
    ) -> None:
        """Run `process_tool_call` on the calls of an answer, store them as it left them, and emit their chunks.

        The chunks of a verdict are not emitted. If a step asks a person, no call runs: `asked` holds the questions.

        Args:
            answer: the answer.
            calls: its calls that are to be run.
            held: the chunks of its calls that wait for `process_tool_call`.
            out: where the chunks go.
            earlier: by ids of calls, the verdicts of an earlier process, or the stages that waited for persons there.
        """
        left: list[ToolPart] = []
        for call in calls:
            known = earlier.get(call.call_id)
            if known is not None and not isinstance(known, StoredStage):
                self._judged.append((call, JudgedCall(known)))
                left.append(replace(call, arguments=known["arguments"]))
                continue
            outcome = await self._judge_call(call, known)
            if outcome.blocked:
                self.verdict = outcome
                return
            answers = EMPTY if known is None else known.answers
            left.append(replace(call, arguments=outcome.arguments))
            if outcome.suspended:
                self.asked = (*self.asked, AskedStage(outcome, answers, left[-1], outcome.overrides))
            else:
                self._judged.append((call, JudgedCall(outcome.overrides, outcome.data)))
        for call in left:
            self._store("" if answer is None else answer.id, call)
        if self.asked and await self._still_asks(answer):
            return
        await out.emit_all(judged_chunks(held, left, self._run.run_id))

    def take_up(self, planned: Sequence[PlannedCall]) -> None:
        """Set calls that were judged by a process that has ended, in place of `judge`."""
        self._taken_up = planned

    def _judge_call(self, call: ToolPart, asked: StoredStage | None) -> Awaitable[Outcome]:
        if asked is not None:
            return asked.resume(self._run, **details_of(call), steps=self._steps())
        return self._run.process_tool_call(call.name, call.arguments, call_id=call.call_id, steps=self._steps())

    @property
    def judged(self) -> Mapping[str, Values]:
        """The verdicts of `process_tool_call` on calls, by their ids."""
        return {call.call_id: judged.fields for call, judged in self._judged}

    async def _still_asks(self, answer: Message | None) -> bool:
        """Return whether persons are still asked when the guards of the last stage have read the answer."""
        id = "" if answer is None else answer.id
        asked, self.verdict = await settled(self._run, self._progress, self.asked, id)
        self.asked = tuple(one for one in asked if one.outcome.suspended)
        passed = [one for one in asked if not one.outcome.suspended]
        for one in passed if self.verdict is None else ():
            if one.call is not None:
                self._judged.append((one.call, JudgedCall(one.outcome.overrides)))
        return bool(self.asked) or self.verdict is not None

    async def emit_chunks(
        self, answer: Message | None, out: Emitter[Chunk], results: Sequence[StoredStage] = ()
    ) -> None:
        """Run the calls of an answer that were judged, add the results, and emit the chunks for the client.

        Results that a step asks a person about are in `asked`.

        Args:
            answer: the answer.
            out: where the chunks go.
            results: the results of further calls that waited for persons in an earlier process.
        """
        if answer is None or not (self._judged or self._taken_up or results):
            return
        planned = [*self._taken_up, *await self._plan(answer)]
        asked = [approval_request(call, self._run.run_id) for call in self.pending if call.approval == "requested"]
        data = [chunk for _, outcome in self._judged for chunk in outcome.data]
        await out.emit_all(await self._send(answer, [*data, *asked]))
        await self._run_calls(answer, planned if self.verdict is None else (), out)
        await self._judge_results(answer, results, out)

    async def _plan(self, answer: Message) -> list[PlannedCall]:
        """Return the calls that run here, and note those that the caller answers, or has to approve."""
        planned: list[PlannedCall] = []
        pending: list[ToolPart] = []
        for call, outcome in self._judged:
            plan = await plan_call(call, outcome, self._rules)
            if plan is not None:
                planned.append(plan)
                continue
            asks = outcome.asks or not self._rules.tools[call.name].is_external
            left = replace(call, arguments=outcome.arguments, approval="requested" if asks else None)
            if asks:
                self._rules.on_ask(left)
            self._store(answer.id, left)
            pending.append(left)
        self.pending = tuple(pending)
        return planned

    async def _run_calls(self, answer: Message, planned: Sequence[PlannedCall], out: Emitter[Chunk]) -> None:
        checkpoint, progress = self._checkpoint, self._progress
        if checkpoint is not None:
            progress.pending_in = answer.id
            self.verdict = await checkpoint.begin(self._run, progress, planned)
            if self._stopped:
                await self._emit_verdict(out)
                return
        outer = None if checkpoint is None else checkpoint.outer_request(self._run)
        runner = ToolRunner(self._group, self._context, self._span, outer)
        async with aclosing(runner.events(planned)) as events:
            async for event in events:
                if isinstance(event, FinishedCall):
                    cause = None if event.error is None else event.error.__cause__
                    if isinstance(cause, NestingError):
                        raise cause  # the model would only call the tool again
                    if isinstance(cause, ReviewError) and inner_agent(event.plan.tool) is not None:
                        raise cause  # another process goes on with the agent
                    if isinstance(cause, InnerWaitsError):
                        self.inner = {**self.inner, event.plan.call.call_id: cause}
                        continue
                    chunks = await self._finish(answer, event)
                else:
                    chunks = await self._send(answer, [event])
                objects = None
                if checkpoint is not None and self.verdict is None and isinstance(event, FinishedCall):
                    objects = await checkpoint.save(self._run, progress, "tools")
                await out.emit_all(chunks if objects is None else objects.chunks)
                self.verdict = objects if self.verdict is None else self.verdict
                if self._stopped:
                    return

    async def _emit_verdict(self, out: Emitter[Chunk]) -> None:
        if self.verdict is not None:
            await out.emit_all(self.verdict.chunks)

    async def _finish(self, answer: Message, done: FinishedCall) -> Sequence[Chunk]:
        """Check a result and add it to the conversation; return the chunks for the client."""
        call, arguments = done.plan.call, done.plan.arguments
        failed = done.error is not None
        value = done.result if done.error is None else done.error.for_model
        outcome = await self._run.process_tool_result(
            call.name, value, arguments=arguments, call_id=call.call_id, is_error=failed, steps=self._steps()
        )
        ended = replace(call, arguments=arguments, state="error" if failed else "result")
        return await self._add_result(answer, ended, outcome)

    async def _judge_results(self, answer: Message, results: Sequence[StoredStage], out: Emitter[Chunk]) -> None:
        """Add the results that waited for persons; note those that still do."""
        for one in results:
            if not self._stopped and one.call is not None:
                outcome = await one.resume(self._run, **details_of(one.call), steps=self._steps())
                await out.emit_all(await self._add_result(answer, one.call, outcome, one.answers))
        if not self.asked or self.verdict is not None:
            return
        asked, self.verdict = await settled(self._run, self._progress, self.asked, answer.id)
        if self._stopped:
            await self._emit_verdict(out)
            return
        self.asked = ()
        for each in asked:
            if each.call is not None and not self._stopped:
                await out.emit_all(await self._add_result(answer, each.call, each.outcome, each.answers))

    @property
    def _stopped(self) -> bool:
        return self.verdict is not None

    async def _add_result(
        self, answer: Message, ended: ToolPart, outcome: Outcome, answers: Values = EMPTY
    ) -> Sequence[Chunk]:
        """Add a judged result to the conversation; return the chunks for the client.

        Args:
            answer: the answer with the call.
            ended: the call with its result.
            outcome: the outcome of `process_tool_result`.
            answers: the answers to its earlier questions.
        """
        if outcome.blocked:
            self.verdict = outcome
            return outcome.chunks
        ended = judged_call(ended, outcome)
        if outcome.suspended:
            self.asked = (*self.asked, AskedStage(outcome, answers, ended, value_of(ended)))
            return ()
        self.answered += 1
        call, failed = ended, ended.state == "error"
        ending = {"error": ended.error} if failed else {"result": ended.result}
        payload = freeze({"call_id": call.call_id, "name": call.name, **ending})
        kind = "tool-error" if failed else "tool-result"
        chunk = Chunk(kind, id=call.call_id, payload=payload, run_id=self._run.run_id)
        chunks = await self._send(answer, [chunk, *outcome.data])
        self._store(answer.id, ended)  # not before the guards of the stream have seen it
        return chunks

    def _store(self, answer: str, call: ToolPart) -> None:
        """Replace a call in its answer with its current state."""
        messages = self._run.message_list
        message = messages.get(answer)
        if message is None:
            return
        parts = tuple(call if _is_same_call(part, call) else part for part in message.parts)
        if parts != message.parts:
            self._run.message_list = messages.replace(message.with_parts(parts))

    async def _send(self, answer: Message, chunks: Iterable[Chunk]) -> Sequence[Chunk]:
        """Send chunks through the guards of the stream, and return those that leave; note a verdict."""
        sent = await send_chunks(self._run, chunks)
        if sent.blocked:
            self.verdict = sent.outcome
        else:
            keep_data(self._run, answer.id, sent.accepted)
        return sent.chunks

    def _span(self, plan: PlannedCall) -> AbstractContextManager[LoggedSpan | None]:
        call = plan.call
        path = f"{self._path}/tool-{call.call_id}"
        return self._run.span("tool", path, call.name, call_id=call.call_id, arguments=plan.arguments)

    def _steps(self) -> tuple[StepResult, ...]:
        return self._progress.current(self._run.message_list)

    def _context(self, call: ToolPart, send: Callable[[Chunk], None]) -> ToolContext:
        return ToolContext(
            call.name,
            call.call_id,
            self._run.run_id,
            self._run.request_context,
            self._run.message_list.conversation,
            self._number,
            send,
            self._steps(),
        )


def _is_same_call(part: object, call: ToolPart) -> bool:
    """Return whether a part is this call, without a result."""
    return getattr(part, "call_id", None) == call.call_id and getattr(part, "state", None) in ("call", "partial")
