"""The loop of an agent: it drives a run from its input to its end, and yields what leaves.

What hooks see, what a verdict stops and what a rejected attempt leaves behind is the run's. The loop's own are the
chunks ``start`` and ``finish``, which no hook sees, and when it goes on.
"""

from __future__ import annotations

import inspect
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk, tripwire_chunk
from penstock.engine.values.errors import ModelError, PenstockError, StepFailedError
from penstock.workflows.agent.passing import is_for_client, keep_data, passed
from penstock.workflows.agent.progress import Progress
from penstock.workflows.agent.results import counted, summed
from penstock.workflows.agent.step import ModelStep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.workflows.agent.progress import Task
    from penstock.workflows.agent.results import StepResult

_LOG = logging.getLogger("penstock.agent")


class Loop:
    """One request to an agent. Lives as long as the request.

    Args:
        run: the run that it drives.
        task: what it is to do.
        group: where tools run; it outlives the loop.
        told: is told each step that was accepted, once no later stage can take it back.

    Attributes:
        progress: how far it has come.
    """

    def __init__(self, run: Run, task: Task, group: BackgroundTasks, told: Callable[[StepResult], object]) -> None:
        self.run = run
        self.progress = Progress()
        self._task = task
        self._group = group
        self._told = told
        self._started = False
        self._waiting: list[int] = []  # the steps that nobody was told of yet
        self._finished = False

    @property
    def over(self) -> bool:
        """Whether how it ends is settled: by a verdict, an error, or the ``finish`` that is about to leave."""
        return self._finished or self.run.tripwire is not None or self.progress.error is not None

    async def chunks(self) -> AsyncGenerator[Chunk]:
        """Yield all that leaves, up to a ``tripwire`` or the ``finish``; of an error the end tells, and `progress`."""
        told = False
        try:
            async with aclosing(self._run()) as chunks:
                async for chunk in chunks:
                    told = chunk.type == "tripwire"
                    yield chunk
        except Exception as error:  # noqa: BLE001 - raised by whoever reads, once all has left
            if self.run.tripwire is not None:  # of a check beside it: a verdict is worth more than an error
                _LOG.warning("%s was raised while a verdict ended the request", type(error).__name__)
                if not told:
                    yield tripwire_chunk(self.run.tripwire, self.run.run_id)
                return
            self.progress.error = error
            self.run.abandon()
            if self._started:
                run_id = self.run.run_id
                yield Chunk("error", payload=_described(error), run_id=run_id)
                if self.progress.finish_reason == "error":  # it is the model that failed, and ended its step
                    yield Chunk("step-finish", payload={"reason": "error", "is_continued": False}, run_id=run_id)
                    yield self._finish("error")

    async def _run(self) -> AsyncGenerator[Chunk]:
        run = self.run
        outcome = await run.process_input(self._task.start)
        if outcome.blocked:
            for chunk in outcome.chunks:
                yield chunk
            return
        self._started = True
        yield Chunk("start", payload={"run_id": run.run_id}, run_id=run.run_id)
        left = await passed(run, outcome.data)
        self.progress.data = left.let
        for chunk in left.chunks:
            yield chunk
        goes_on = run.tripwire is None
        while goes_on:
            step = ModelStep(run, self._task, self.progress, self._group)
            async with aclosing(step.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
            if step.accepted and not step.held:
                await self._tell(len(self.progress.steps) - 1)
            elif step.accepted:
                self._waiting.append(len(self.progress.steps) - 1)
            goes_on = step.goes_on and await self._wants_more(accepted=step.accepted)
        if run.tripwire is None:
            async with aclosing(self._ended()) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _tell(self, place: int) -> None:
        """Tell whoever listens of a step."""
        told = self._told(self.progress.now(self.run.message_list)[place])
        if inspect.isawaitable(told):
            await told

    async def _wants_more(self, *, accepted: bool) -> bool:
        """Tell whether the budget of steps, and whoever may end the run, let it go on."""
        if not accepted:
            return True
        if self.progress.accepted >= self._task.max_steps:
            return False
        steps = self.progress.now(self.run.message_list)
        for ends in self._task.stop_when:
            verdict = ends(steps)
            if await verdict if inspect.isawaitable(verdict) else verdict:
                return False
        return True

    async def _ended(self) -> AsyncGenerator[Chunk]:
        """Have the whole judged, and tell that it has ended."""
        run, progress = self.run, self.progress
        steps = progress.now(run.message_list)
        usage = summed(step.usage for step in steps)
        known = [message.id for message in run.message_list.response]
        try:
            outcome = await run.process_output_result(finish_reason=progress.finish_reason, usage=usage, steps=steps)
        except BaseException:  # of what the last stage has not judged, nothing stays
            said = {step.message_id for step in progress.steps}
            run.message_list = run.message_list.remove(*said.intersection(known))
            raise
        for chunk in filter(is_for_client, outcome.chunks):
            yield chunk
        if outcome.blocked:
            return
        progress.renamed(known, [message.id for message in outcome.message_list.response])
        for place in self._waiting:
            await self._tell(place)
        left = await passed(run, outcome.data)
        keep_data(run, progress.last_answer, left.let)
        for chunk in left.chunks:
            yield chunk
        if not left.blocked:
            self._finished = True
            yield self._finish(progress.finish_reason)

    def _finish(self, reason: str | None) -> Chunk:
        usage = counted(summed(step.usage for step in self.progress.steps))
        return Chunk(
            "finish", payload={"reason": reason, "usage": usage, "is_continued": False}, run_id=self.run.run_id
        )


def _described(error: Exception) -> dict[str, object]:
    """Return what a client is told of an error: the text of ours, which never quotes; of others only the kind."""
    told: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, ModelError):
        return {**told, "message": error.problem, "status": error.status}
    if isinstance(error, StepFailedError):  # where in whose code it broke is for the log
        return {**told, "message": f"{error.processor_id!r} failed in {error.stage}"}
    return {**told, "message": str(error)} if isinstance(error, PenstockError) else told
