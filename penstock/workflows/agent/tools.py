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
from penstock.engine.values.errors import NestingError
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.tools.context import ToolContext, ToolError
from penstock.workflows.agent.client_chunks import judged_chunks, keep_data, send_chunks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.tracing.span_log import LoggedSpan
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, ToolPart
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.options import Approve
    from penstock.workflows.agent.progress import RequestProgress
    from penstock.workflows.agent.results import StepResult
    from penstock.workflows.agent.suspended import Checkpoint


AGENT_DEPTH: ContextVar[int] = ContextVar("penstock.agent_depth", default=0)
"""How many agents' tools the current task runs within."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call and what to do about it.

    Attributes:
        call: the call, as the model made it.
        arguments: the arguments for the tool, after the guards.
        tool: the tool to run; None if nothing is to run.
        answer: the answer of a processor in place of the tool, if there is one.
        problem: why the call does not run, or None.
    """

    call: ToolPart
    arguments: Value
    tool: Tool | None = None
    answer: Value = None
    problem: ToolError | None = None


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
    """

    def __init__(
        self,
        group: BackgroundTasks,
        context: Callable[[ToolPart, Callable[[Chunk], None]], ToolContext],
        span: Callable[[PlannedCall], AbstractContextManager[LoggedSpan | None]],
    ) -> None:
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
    """

    tools: Mapping[str, Tool]
    offered: frozenset[str]
    approve: Approve | None
    on_ask: Callable[[ToolPart], object]
    asked: frozenset[str] = frozenset()
    known: Mapping[str, tuple[Value, ToolError | None]] = EMPTY


async def plan_call(call: ToolPart, judged: Outcome, rules: CallRules) -> PlannedCall | None:
    """Return what to do about a call, or None if the caller has to answer it.

    Args:
        call: the call, as the model made it.
        judged: the outcome of `process_tool_call`.
        rules: the tools, and who approves calls.
    """
    asked = judged.asks
    if (judged.answered and not asked) or call.call_id in rules.known:
        answer, problem = (judged.answer, None) if judged.answered and not asked else rules.known[call.call_id]
        return PlannedCall(call, judged.arguments, None, answer, problem)
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
        self._judged: list[tuple[ToolPart, Outcome]] = []  # the calls, and what `process_tool_call` said
        self._run = run
        self._rules = rules
        self._number = run.step_number
        self._progress = progress
        self._path = path
        self._group = group
        self._checkpoint = checkpoint

    async def judge(
        self, answer: Message | None, calls: Sequence[ToolPart], held: Sequence[Chunk], out: Emitter[Chunk]
    ) -> None:
        """Run `process_tool_call` on the calls of an answer, store them as it left them, and emit their chunks.

        The chunks of a verdict are not emitted.

        Args:
            answer: the answer.
            calls: its calls that are to be run.
            held: the chunks of its calls that wait for `process_tool_call`.
            out: where the chunks go.
        """
        for call in calls:
            outcome = await self._run.process_tool_call(
                call.name, call.arguments, call_id=call.call_id, steps=self._steps()
            )
            if outcome.blocked:
                self.verdict = outcome
                return
            self._judged.append((call, outcome))
        left = [replace(call, arguments=outcome.arguments) for call, outcome in self._judged]
        for call in left:
            self._store("" if answer is None else answer.id, call)
        await out.emit_all(judged_chunks(held, left, self._run.run_id))

    async def emit_chunks(self, answer: Message | None, out: Emitter[Chunk]) -> None:
        """Run the calls of an answer that were judged, add the results, and emit the chunks for the client."""
        if answer is None or not self._judged:
            return
        planned = await self._plan(answer)
        asked = [approval_request(call, self._run.run_id) for call in self.pending if call.approval == "requested"]
        data = [chunk for _, outcome in self._judged for chunk in outcome.data]
        await out.emit_all(await self._send(answer, [*data, *asked]))
        await self._run_calls(answer, planned if self.verdict is None else (), out)

    async def _plan(self, answer: Message) -> list[PlannedCall]:
        """Return the calls that run here, and note those that the caller answers, or has to approve."""
        planned: list[PlannedCall] = []
        pending: list[ToolPart] = []
        for call, outcome in self._judged:
            plan = await plan_call(call, outcome, self._rules)
            if plan is not None:
                planned.append(plan)
                continue
            asks = not self._rules.tools[call.name].is_external or outcome.asks
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
            await checkpoint.begin(self._run, progress, [plan.call.call_id for plan in planned if plan.tool])
        runner = ToolRunner(self._group, self._context, self._span)
        async with aclosing(runner.events(planned)) as events:
            async for event in events:
                if isinstance(event, FinishedCall):
                    if event.error is not None and isinstance(event.error.__cause__, NestingError):
                        raise event.error.__cause__  # the model would only call the tool again
                    chunks = await self._finish(answer, event)
                else:
                    chunks = await self._send(answer, [event])
                if checkpoint is not None and self.verdict is None and isinstance(event, FinishedCall):
                    await checkpoint.save(self._run, progress, "tools")
                await out.emit_all(chunks)
                if self.verdict is not None:
                    return

    async def _finish(self, answer: Message, done: FinishedCall) -> Sequence[Chunk]:
        """Check a result and add it to the conversation; return the chunks for the client."""
        call, arguments = done.plan.call, done.plan.arguments
        failed = done.error is not None
        value = done.result if done.error is None else done.error.for_model
        outcome = await self._run.process_tool_result(
            call.name, value, arguments=arguments, call_id=call.call_id, is_error=failed, steps=self._steps()
        )
        if outcome.blocked:
            self.verdict = outcome
            return outcome.chunks
        self.answered += 1
        result = outcome.result
        if failed:
            error = result if isinstance(result, str) else str(result)
            ended = replace(call, arguments=arguments, state="error", error=error)
            ending = {"error": error}
        else:
            ended = replace(call, arguments=arguments, state="result", result=result)
            ending = {"result": result}
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
