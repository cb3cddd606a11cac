"""One model step: its stages, the answer, the verdicts about it, and the tools that it calls. It ends no run."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.chunks import Chunk, retract_chunk
from penstock.engine.values.errors import ModelError, StepFailedError, UsageError
from penstock.engine.values.messages import Message, ToolPart
from penstock.workflows.agent.attempt import Attempt
from penstock.workflows.agent.passing import keep_data, passed
from penstock.workflows.agent.prompting import asking
from penstock.workflows.agent.results import StepResult, calls_of, counted, reasoning_of, text_of
from penstock.workflows.agent.tool_step import ToolStep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.frozen import Value, Values
    from penstock.workflows.agent.progress import Progress, Task
    from penstock.workflows.agent.prompting import Asking

_NO_TOOLS = frozenset({"content-filter", "error"})
"""Reasons to stop after which nothing of the answer is done."""


class ModelStep:
    """One model step. Lives as long as it takes.

    Attributes:
        goes_on: whether another step is to follow: the attempt was rejected or failed, or tools have answered.
        accepted: whether its answer was accepted.
        held: whether its answer waits for the verdict about the whole.
    """

    def __init__(self, run: Run, task: Task, progress: Progress, group: BackgroundTasks) -> None:
        self.goes_on = False
        self.accepted = False
        self.held = False
        self._run = run
        self._task = task
        self._progress = progress
        self._group = group
        self._early: Sequence[Chunk] = ()  # what the stages before the answer wrote

    async def chunks(self) -> AsyncGenerator[Chunk]:
        """Yield what leaves; the model is asked, and its tools are used."""
        run, steps = self._run, tuple(self._progress.now(self._run.message_list))
        prepared = await run.process_input_step(steps=steps, **self._task.settings)
        if prepared.blocked:
            for chunk in prepared.chunks:
                yield chunk
            return
        steps = tuple(self._progress.now(run.message_list))  # as the input's processors left them
        ask = asking(prepared, self._task.settings.get("model"))
        request = replace(ask.request, messages=(*prepared.message_list.system, *prepared.message_list.all))
        told: dict[str, Value] = {"model": ask.model, "tools": ask.tools, "model_settings": ask.request.settings}
        asked = await run.process_llm_request(request=request, steps=steps, **told)
        if asked.blocked:
            for chunk in asked.chunks:
                yield chunk
            return
        data = await passed(run, (*prepared.data, *asked.data))
        self._early = data.let
        for chunk in data.chunks:
            yield chunk
        if data.blocked:
            return
        prompt = self._prompt(asked)
        sent = request if prompt == request.messages else replace(request, messages=prompt)
        attempt = Attempt(ask.model, sent, asked.answer, lambda usage: run.spend(ask.model.name, usage))
        known = {message.id for message in run.message_list.response}
        try:
            async with aclosing(self._answered(ask, attempt, steps)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            if len(self._progress.steps) == len(steps):  # given up, or broken, before it was accepted
                self._forget(known)

    def _forget(self, known: Collection[str]) -> None:
        """Take out of the conversation what was said in this step."""
        messages = self._run.message_list
        said = [message.id for message in messages.response if message.id not in known]
        if said:
            self._run.message_list = messages.remove(*said)

    def _prompt(self, asked: Outcome) -> tuple[Message, ...]:
        if not self._task.allow_empty and not any(message.role != "system" for message in asked.messages):
            raise UsageError(
                "there is no message to answer: nothing was given, or processors have removed it all; "
                "allow_empty=True asks the model with its instructions alone"
            )
        return asked.messages

    # The answer

    async def _answered(self, ask: Asking, attempt: Attempt, steps: Sequence[StepResult]) -> AsyncGenerator[Chunk]:
        run = self._run
        info: dict[str, Value] = {
            "steps": steps,
            "model": attempt.model,
            "request": attempt.request,
            "chunks": attempt.chunks,
            "from_cache": attempt.from_cache,
        }
        try:
            stream = run.process_output_stream(attempt.source(), release=self._task.release, last=False, **info)
            async with stream:
                async for chunk in stream:
                    if attempt.leaving(chunk):
                        yield chunk
        except Exception as error:
            if error is not attempt.error:
                raise
            async with aclosing(self._failed(attempt, error)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        judged, answer = stream.outcome, stream.message
        if stream.judged is None and judged is not None and not judged.blocked:
            answer = run.message_list.completed(answer)
            judged = await self._judged(answer, attempt, info)
            for chunk in judged.chunks if judged.blocked else ():
                yield chunk
        if judged is None or judged.blocked:
            self._rejected(ask, attempt, judged)
            return
        message = run.message_list.get(answer.id)
        reason = attempt.finish_reason if stream.judged is None else judged.told.get("finish_reason")
        async with aclosing(self._accepted(ask, attempt, judged, message, str(reason or "other"))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _judged(self, message: Message, attempt: Attempt, info: Values) -> Outcome:
        """Have an answer judged whose chunks are out."""
        run = self._run
        told: dict[str, Value] = {**info, "finish_reason": attempt.finish_reason, "usage": attempt.usage}
        outcome = await run.process_llm_response([message], **told)
        if outcome.blocked:
            return outcome
        outcome = await run.process_output_step(tool_calls=_open(message) or None, **told)
        said = run.message_list.get(message.id)
        if said is not None and not said.parts:  # no provider takes a message that says nothing
            run.message_list = run.message_list.remove(said.id)
        return outcome

    def _rejected(self, ask: Asking, attempt: Attempt, outcome: Outcome | None) -> None:
        """Note an attempt that a verdict took back; nothing of it stays but the names of the tools that it called."""
        self.goes_on = outcome is not None and outcome.retry_granted
        names = [chunk.payload.get("name") for chunk in attempt.chunks if chunk.type == "tool-call"]
        self._progress.steps.append(
            StepResult(
                self._run.step_number,
                finish_reason="retry" if self.goes_on else "other",
                tool_calls=tuple(ToolPart("", str(name)) for name in names if name in ask.tools),
                usage=attempt.usage,
                tripwire=None if outcome is None else outcome.tripwire,
                model=attempt.model.name,
                from_cache=attempt.from_cache,
            )
        )

    async def _failed(self, attempt: Attempt, error: Exception) -> AsyncGenerator[Chunk]:
        """Ask what is to be done about a call that failed; nothing of its answer stays.

        Raises:
            Exception: the error, if the call is not to be made again.
        """
        run, model = self._run, attempt.model
        step = StepResult(run.step_number, finish_reason="error", usage=attempt.usage, model=model.name)
        try:
            outcome = await run.process_api_error(error, model=model, steps=tuple(self._progress.now(run.message_list)))
        except StepFailedError as broken:
            broken.add_note(f"It was asked about: {error if isinstance(error, ModelError) else type(error).__name__}")
            raise
        if outcome.blocked and not outcome.retry_granted:
            self._progress.steps.append(replace(step, finish_reason="other", tripwire=outcome.tripwire))
            for chunk in outcome.chunks:
                yield chunk
            return
        if not outcome.retry_granted:
            self._progress.steps.append(step)
            self._progress.finish_reason = "error"
            raise error
        self._progress.steps.append(replace(step, finish_reason="retry", tripwire=outcome.tripwire))
        if attempt.out:
            yield retract_chunk(attempt.out, run.run_id)
        yield self._end("retry", goes_on=True)
        left = await passed(run, outcome.data)
        for chunk in left.chunks:
            yield chunk
        if outcome.retry is not None and outcome.retry.after:
            await anyio.sleep(outcome.retry.after)
        self.goes_on = not left.blocked

    # What an accepted answer leads to

    async def _accepted(
        self, ask: Asking, attempt: Attempt, judged: Outcome, message: Message | None, reason: str
    ) -> AsyncGenerator[Chunk]:
        run, progress = self._run, self._progress
        progress.steps.append(
            StepResult(
                run.step_number,
                text=text_of(message),
                reasoning=reasoning_of(message),
                finish_reason=reason,
                tool_calls=calls_of(message),
                usage=attempt.usage,
                model=attempt.model.name,
                message_id="" if message is None else message.id,
                metadata=attempt.metadata,
                from_cache=attempt.from_cache,
            )
        )
        left = await passed(run, judged.data)
        keep_data(run, "" if message is None else message.id, left.let, before=(*progress.data, *self._early))
        progress.data = ()
        for chunk in left.chunks:
            yield chunk
        if left.blocked:
            self._taken_back(ask, attempt, left.outcome)
            return
        calls = _open(message) if reason not in _NO_TOOLS else ()
        tools = ToolStep(run, self._task, ask, run.step_number, self._group)
        async with aclosing(tools.chunks(message, calls)) as chunks:
            async for chunk in chunks:
                yield chunk
        if tools.verdict is not None:
            self._taken_back(ask, attempt, tools.verdict)
            return
        progress.accepted += 1
        progress.finish_reason = reason
        progress.pending = tools.pending
        goes_on = not tools.pending and (bool(tools.answered) or (reason == "tool-calls" and attempt.called))
        left = await passed(run, [self._end(reason, goes_on=goes_on, attempt=attempt)])
        for chunk in left.chunks:
            yield chunk
        if left.blocked:
            self._taken_back(ask, attempt, left.outcome)
            return
        self.accepted, self.goes_on = True, goes_on
        self.held = bool(left.let) and not left.chunks

    def _taken_back(self, ask: Asking, attempt: Attempt, outcome: Outcome | None) -> None:
        """Note that an answer which was accepted is rejected after all."""
        self._progress.steps.pop()
        self._rejected(ask, attempt, outcome)

    def _end(self, reason: str, *, goes_on: bool, attempt: Attempt | None = None) -> Chunk:
        usage = None if attempt is None else counted(attempt.usage)
        payload = {"reason": reason, "is_continued": goes_on, "usage": usage}
        return Chunk("step-finish", payload=payload, run_id=self._run.run_id)


def _open(message: Message | None) -> tuple[ToolPart, ...]:
    """Return the calls in an answer that nobody has answered yet."""
    return tuple(call for call in calls_of(message) if call.state == "call")
