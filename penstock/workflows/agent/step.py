"""One model step: its stages, the answer, the verdicts about it, and the tools that it calls. It ends no run."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import anyio

from penstock.engine.streams.resending import sent
from penstock.engine.streams.sources import close_source
from penstock.engine.values.answers import usage_of
from penstock.engine.values.chunks import Chunk, retract_chunk
from penstock.engine.values.errors import ModelError, StepFailedError, UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_items
from penstock.engine.values.messages import Message, ToolPart
from penstock.workflows.agent.client_chunks import is_for_client, keep_data, passed
from penstock.workflows.agent.request import asking
from penstock.workflows.agent.results import StepResult, calls_of, counted, reasoning_of, text_of
from penstock.workflows.agent.tools import ToolStep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelRequest, Usage
    from penstock.engine.values.ports import Model
    from penstock.workflows.agent.request import Asking, Progress, Task


_BLOCKS = frozenset({"text-delta", "reasoning-delta"})


class Attempt:
    """One call of a model, or what stands in for it. Lives as long as the step.

    Args:
        model: see below.
        request: see below.
        answer: what a processor answered in its place, if one did.
        spent: is told the tokens that the call took, or None, once it is over: however it ended, if anything came.

    Attributes:
        model: who is asked.
        request: what it is sent.
        chunks: what it sent, unprocessed.
        error: what it failed with, if it did.
        from_cache: whether a processor answered in its place.
        out: the ids of the texts of which something has left, in order.
    """

    def __init__(
        self, model: Model, request: ModelRequest, answer: Value, spent: Callable[[Usage | None], None]
    ) -> None:
        self.model = model
        self.request = request
        self.chunks: list[Chunk] = []
        self.error: Exception | None = None
        self.from_cache = answer is not None
        self.out: dict[str, None] = {}
        self._answer = answer
        self._spent = spent
        self._left: Values = EMPTY  # the end that left
        self._said: Values | None = None  # what left of what the provider says before the answer

    async def source(self) -> AsyncGenerator[Chunk]:
        """Yield the answer's chunks; the model is asked when the first is wanted."""
        yield Chunk("step-start")
        keep = self.chunks.append
        try:
            if self.from_cache:
                for chunk in _stands_in(self._answer):
                    keep(chunk)
                    yield chunk
            else:
                stream = self.model.stream(self.request)
                try:
                    async for chunk in stream:
                        keep(chunk)
                        yield chunk
                finally:
                    if self.chunks:
                        self._spent(self.usage)
                    await close_source(stream)
            if not self.end:
                yield Chunk("finish", payload={"reason": "other"})
        except Exception as error:
            self.error = error
            raise

    def leaving(self, chunk: Chunk) -> bool:
        """Note a chunk that leaves the stream; tell whether it is for the client."""
        kind = chunk.type
        if kind in _BLOCKS:
            self.out[chunk.id] = None
        elif kind == "finish":
            self._left = chunk.payload
        elif kind == "response-metadata":
            self._said = chunk.payload
        return is_for_client(chunk)

    @property
    def end(self) -> Values:
        """What the model's end says; empty if it has not ended."""
        return next((chunk.payload for chunk in reversed(self.chunks) if chunk.type == "finish"), EMPTY)

    @property
    def called(self) -> bool:
        """Whether the model called a tool, whatever has become of the call."""
        return any(chunk.type == "tool-call" for chunk in self.chunks)

    @property
    def finish_reason(self) -> str:
        """Why the answer ended: as the end that left says, else as the model's does; ``other`` if neither does."""
        return str(self._left.get("reason") or self.end.get("reason") or "other")

    @property
    def usage(self) -> Usage | None:
        """The tokens that it took; None if nobody says, and for what stood in for it: it took none."""
        return None if self.from_cache else usage_of(self.end.get("usage"))

    @property
    def metadata(self) -> Values:
        """What the provider says about the answer, as the guards let it leave; of one that is held its names only."""
        said, end = self._said, self._left
        if said is None:
            told = next((chunk.payload for chunk in self.chunks if chunk.type == "response-metadata"), EMPTY)
            said = {name: told[name] for name in ("id", "model", "created") if name in told}
        return FrozenDict({**said, **(end.get("provider_terms") or {}), **(end.get("metadata") or {})})


def _stands_in(answer: Value) -> Sequence[Chunk]:
    """Return the chunks of what a processor answered in the model's place.

    Raises:
        UsageError: it is no answer.
    """
    if isinstance(answer, str):
        answer = Message.assistant(answer)
    if isinstance(answer, Message):
        calls = any(part.type == "tool" for part in answer.parts)
        return [*sent(answer), Chunk("finish", payload={"reason": "tool-calls" if calls else "stop"})]
    if is_items(answer) and all(isinstance(chunk, Chunk) for chunk in answer):
        return cast("Sequence[Chunk]", answer)
    kind = type(answer).__name__
    raise UsageError(f"process_llm_request answered with {kind}; Answer(...) takes a str, a message, or chunks")


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
