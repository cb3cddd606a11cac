"""The tools of one step: all calls are judged before the first runs, each result before anybody sees it."""

from __future__ import annotations

import inspect
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import anyio

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze
from penstock.tools.context import ToolContext
from penstock.tools.errors import ToolError
from penstock.workflows.agent.client_chunks import keep_data, passed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, ToolPart
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.options import Approve
    from penstock.workflows.agent.request import Asking, Task


@dataclass(frozen=True, slots=True)
class Work:
    """A call that is to be made.

    Attributes:
        call: the call, as the model made it.
        arguments: what the tool is called with, as the guards left them.
        tool: the tool; None where nothing is to run.
        answer: what stands in for the tool, if a processor said so.
        problem: why it does not run, if it does not.
    """

    call: ToolPart
    arguments: Value
    tool: Tool | None = None
    answer: Value = None
    problem: ToolError | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """How a call ended: with a result, or an error."""

    work: Work
    result: Value = None
    error: ToolError | None = None


class Workshop:
    """Runs the calls of one step. Lives as long as the step's tools do.

    Args:
        group: starts the tasks; it outlives the workshop.
        context: makes what a tool is told of its call.
    """

    def __init__(
        self, group: BackgroundTasks, context: Callable[[ToolPart, Callable[[Chunk], None]], ToolContext]
    ) -> None:
        self._group = group
        self._context = context
        self._news: deque[Chunk | Done] = deque()
        self._something = anyio.Event()
        self._scopes: list[anyio.CancelScope] = []

    async def news(self, works: Sequence[Work]) -> AsyncGenerator[Chunk | Done]:
        """Yield what tools write as it comes, and how each call ended, in the order of the calls.

        Closing it cancels what still runs.
        """
        try:
            for batch in _batches(works):
                left = deque(batch)
                ended: dict[str, Done] = {}
                for work in batch:
                    self._start(work)
                while left:
                    while left and left[0].call.call_id in ended:
                        yield ended.pop(left.popleft().call.call_id)
                    if left:
                        one = await self._next()
                        if isinstance(one, Done):
                            ended[one.work.call.call_id] = one
                        else:
                            yield one
        finally:
            for scope in self._scopes:
                scope.cancel()

    def _start(self, work: Work) -> None:
        if work.tool is None:
            self._tell(Done(work, work.answer, work.problem))
            return
        scope = anyio.CancelScope()
        self._scopes.append(scope)
        self._group.start(self._run, work, work.tool, scope)

    async def _run(self, work: Work, tool: Tool, scope: anyio.CancelScope) -> None:
        done: Done | None = None
        try:
            with scope:
                done = await _used(work, tool, self._context(work.call, self._tell))
        finally:
            self._tell(done or Done(work, error=ToolError(tool.name, "failed", "it was cancelled")))

    def _tell(self, one: Chunk | Done) -> None:
        self._news.append(one)
        self._something.set()

    async def _next(self) -> Chunk | Done:
        while not self._news:
            await self._something.wait()
            self._something = anyio.Event()
        return self._news.popleft()


async def _used(work: Work, tool: Tool, context: ToolContext) -> Done:
    """Use a tool; whatever it raises is how the call ended."""
    try:
        return Done(work, await tool.call(work.arguments, context))
    except ToolError as error:
        return Done(work, error=error)


def _batches(works: Sequence[Work]) -> list[list[Work]]:
    """Return the calls in batches that may run beside each other; a tool that may not has one of its own."""
    batches: list[list[Work]] = []
    beside = False
    for work in works:
        concurrent = work.tool is None or work.tool.concurrent
        if concurrent and beside:
            batches[-1].append(work)
        else:
            batches.append([work])
        beside = concurrent
    return batches


class Desk(NamedTuple):
    """Where calls are decided about.

    Attributes:
        tools: the tools of the step, by name.
        offered: the names of those that the model was offered.
        approve: decides about calls that want approval.
    """

    tools: Mapping[str, Tool]
    offered: frozenset[str]
    approve: Approve | None


async def decided(call: ToolPart, judged: Outcome, desk: Desk) -> Work | None:
    """Return what is to be done about a call; None leaves it to the caller.

    Args:
        call: the call, as the model made it.
        judged: what `process_tool_call` made of it.
        desk: what there is to call, and whom to ask.
    """
    answer = judged.overrides.get("answer")
    if "answer" in judged.overrides:
        return Work(call, judged.arguments, answer=answer)
    tool = desk.tools.get(call.name)
    if tool is None or call.name not in desk.offered:
        known = f"there is no such tool; the tools are {', '.join(sorted(desk.offered)) or 'none'}"
        return Work(call, judged.arguments, problem=ToolError(call.name, "unknown", known))
    if tool.is_external:
        return None
    try:
        tool.read(judged.arguments)
    except ToolError as error:
        return Work(call, judged.arguments, problem=error)
    if tool.wants_approval(judged.arguments):
        verdict = await _asked(desk.approve, replace(call, arguments=judged.arguments))
        if verdict is None:
            return None
        if verdict is not True:
            why = verdict if isinstance(verdict, str) and verdict else "the user did not allow this call"
            return Work(call, judged.arguments, problem=ToolError(call.name, "refused", why))
    return Work(call, judged.arguments, tool)


async def _asked(approve: Approve | None, call: ToolPart) -> bool | str | None:
    if approve is None:
        return None
    verdict = approve(call)
    return await verdict if inspect.isawaitable(verdict) else verdict


class ToolStep:
    """The tools of one step. Lives as long as they run.

    Attributes:
        verdict: the outcome that stopped it, if one did.
        pending: the calls that are left to the caller.
        answered: how many calls were answered.
    """

    def __init__(self, run: Run, task: Task, ask: Asking, number: int, group: BackgroundTasks) -> None:
        self.verdict: Outcome | None = None
        self.pending: tuple[ToolPart, ...] = ()
        self.answered = 0
        self._run = run
        self._task = task
        self._ask = ask
        self._number = number
        self._group = group

    async def chunks(self, answer: Message | None, calls: Sequence[ToolPart]) -> AsyncGenerator[Chunk]:
        """Yield what leaves while an answer's calls are judged, made, and answered."""
        if answer is None or not calls:
            return
        works: list[Work] = []
        pending: list[ToolPart] = []
        desk = Desk(self._ask.tools, frozenset(tool.name for tool in self._ask.request.tools), self._task.approve)
        judged: list[Outcome] = []
        for call in calls:
            outcome = await self._run.process_tool_call(call.name, call.arguments, call_id=call.call_id)
            if outcome.blocked:
                self.verdict = outcome
                for chunk in outcome.chunks:
                    yield chunk
                return
            judged.append(outcome)
        for call, outcome in zip(calls, judged, strict=True):
            self._note(answer.id, replace(call, arguments=outcome.arguments))
            work = await decided(call, outcome, desk)
            if work is None:
                pending.append(replace(call, arguments=outcome.arguments))
            else:
                works.append(work)
        self.pending = tuple(pending)
        for chunk in await self._let(answer, [chunk for outcome in judged for chunk in outcome.data]):
            yield chunk
        if self.verdict is not None:
            return
        async with aclosing(self._used(answer, works)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _used(self, answer: Message, works: Sequence[Work]) -> AsyncGenerator[Chunk]:
        workshop = Workshop(self._group, self._context)
        async with aclosing(workshop.news(works)) as news:
            async for one in news:
                made = await self._answered(answer, one) if isinstance(one, Done) else await self._let(answer, [one])
                for chunk in made:
                    yield chunk
                if self.verdict is not None:
                    return

    async def _answered(self, answer: Message, done: Done) -> Sequence[Chunk]:
        """Have a result judged, and enter it into the history; return what leaves."""
        call, arguments = done.work.call, done.work.arguments
        failed = done.error is not None
        value = done.result if done.error is None else done.error.for_model
        outcome = await self._run.process_tool_result(
            call.name, value, arguments=arguments, call_id=call.call_id, is_error=failed
        )
        if outcome.blocked:
            self.verdict = outcome
            return outcome.chunks
        self.answered += 1
        result = outcome.result
        if failed:
            error = result if isinstance(result, str) else str(result)
            self._note(answer.id, replace(call, arguments=arguments, state="error", error=error))
            said = {"error": error}
        else:
            self._note(answer.id, replace(call, arguments=arguments, state="result", result=result))
            said = {"result": result}
        payload = freeze({"call_id": call.call_id, "name": call.name, **said})
        kind = "tool-error" if failed else "tool-result"
        chunk = Chunk(kind, id=call.call_id, payload=payload, run_id=self._run.run_id)
        return await self._let(answer, [chunk, *outcome.data])

    def _note(self, answer: str, call: ToolPart) -> None:
        """Put a call as it stands by now into the answer that it belongs to."""
        messages = self._run.message_list
        message = messages.get(answer)
        if message is None:
            return
        parts = tuple(call if _is(part, call) else part for part in message.parts)
        if parts != message.parts:
            self._run.message_list = messages.replace(message.with_parts(parts))

    async def _let(self, answer: Message, chunks: Iterable[Chunk]) -> Sequence[Chunk]:
        """Return what of chunks leaves; note the verdict, if there is one."""
        left = await passed(self._run, chunks)
        if left.blocked:
            self.verdict = left.outcome
        else:
            keep_data(self._run, answer.id, left.let)
        return left.chunks

    def _context(self, call: ToolPart, send: Callable[[Chunk], None]) -> ToolContext:
        return ToolContext(
            call.name,
            call.call_id,
            self._run.run_id,
            self._run.request_context,
            self._run.message_list.all,
            self._number,
            send,
        )


def _is(part: object, call: ToolPart) -> bool:
    """Tell whether a part is that call."""
    return getattr(part, "call_id", None) == call.call_id and getattr(part, "state", None) in ("call", "partial")
