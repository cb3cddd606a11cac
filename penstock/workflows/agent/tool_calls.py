"""The tools of one step, as they run: beside each other where they may, each with its own end. They know no stage.

What a tool writes, and how it ends, comes as news in the order in which it happens.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from penstock.tools.context import ToolError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import ToolPart
    from penstock.tools.context import ToolContext
    from penstock.tools.tool import Tool


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
