"""The tools of one step: all calls are judged before the first runs, each result before anybody sees it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze
from penstock.tools.context import ToolContext
from penstock.workflows.agent.approval import Desk, decided
from penstock.workflows.agent.passing import keep_data, passed
from penstock.workflows.agent.tool_calls import Done, Workshop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.messages import Message, ToolPart
    from penstock.workflows.agent.progress import Task
    from penstock.workflows.agent.prompting import Asking
    from penstock.workflows.agent.tool_calls import Work


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
