"""One step of the loop: its stages, the attempt of the model, the verdicts on the answer, and the calls to tools."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.chunks import Chunk, retract_chunk
from penstock.engine.values.errors import NoMessageError, UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.usage import usage_payload
from penstock.workflows.agent.approvals import thread_of
from penstock.workflows.agent.attempts import AnsweredAttempt, ModelAttempt, open_answer
from penstock.workflows.agent.client_chunks import keep_data, send_chunks
from penstock.workflows.agent.late_guards import settled
from penstock.workflows.agent.questions import AskedStage
from penstock.workflows.agent.request import step_request, storable_settings, stored_settings
from penstock.workflows.agent.results import StepResult, calls_of, reasoning_of, text_of
from penstock.workflows.agent.tools import CallRules, ToolStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.streams.stream import OutputStream
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.model import ModelRequest
    from penstock.tools.context import ToolError
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.progress import RequestProgress
    from penstock.workflows.agent.request import RequestTask, StepRequest
    from penstock.workflows.agent.suspended import Checkpoint


_NO_TOOLS = frozenset({"content-filter", "error"})
"""Finish reasons after which the calls of an answer are not run."""


class ModelStep:
    """One step of the loop. Lives as long as the step.

    Attributes:
        path: its path in the events of the request.
        goes_on: whether another step follows: the attempt was rejected or failed and is repeated, or tools answered.
        accepted: whether the answer was accepted.
        held: whether the answer is held until the last stage has checked the whole.
        error: the error of a failed call that is repeated, or None.
    """

    def __init__(self, run: Run, task: RequestTask, progress: RequestProgress, group: BackgroundTasks) -> None:
        self.path = f"step-{len(progress.steps)}"
        self.goes_on = False
        self.accepted = False
        self.held = False
        self.error: Exception | None = None
        self._run = run
        self._task = task
        self._progress = progress
        self._group = group
        self._early: Sequence[Chunk] = ()  # data from the stages before the answer
        self._written: Sequence[Chunk] = ()  # data from `process_input_step` that was not sent yet

    async def emit_chunks(self, out: Emitter[Chunk]) -> None:
        """Call the model, run its tools, and emit the chunks for the client."""
        ready = await self._prepare(out)
        if ready is not None:
            await self._emit_answer(*ready, out)

    async def _prepare(self, out: Emitter[Chunk]) -> tuple[StepRequest, ModelAttempt] | None:
        """Run the stages before the model call; return what to ask, and the call.

        What else these stages leave is dropped here: an answer may take minutes. None: a verdict has stopped the step,
        or it waits for a person.
        """
        run = self._run
        steps = self._progress.current(run.message_list)
        return await self._prompted(await run.process_input_step(steps=steps, **self._task.settings), out)

    async def _prompted(
        self, prepared: Outcome, out: Emitter[Chunk], answers: Values = EMPTY
    ) -> tuple[StepRequest, ModelAttempt] | None:
        """Go on after `process_input_step`; ``answers``: those to its earlier questions."""
        if prepared.suspended:
            prepared = await self._settled(AskedStage(prepared, answers), prepared.overrides)
        if prepared.blocked:
            await out.emit_all(prepared.chunks)
        if prepared.blocked or prepared.suspended:
            return None
        settings: Values = prepared.overrides
        ask = step_request(settings, prepared.message_list, self._task.settings)
        self._written = prepared.data
        asked = await self._run.process_llm_request(**self._told(ask))
        return await self._requested(ask, asked, settings, out)

    async def _requested(
        self, ask: StepRequest, asked: Outcome, settings: Values, out: Emitter[Chunk], answers: Values = EMPTY
    ) -> tuple[StepRequest, ModelAttempt] | None:
        """Go on after `process_llm_request`; ``answers``: those to its earlier questions."""
        run = self._run
        if asked.suspended:
            prompt = None if asked.message_list is run.message_list else asked.message_list
            waits = AskedStage(asked, answers, prompt=prompt)
            asked = await self._settled(waits, {**settings, **asked.overrides})
        if asked.blocked:
            await out.emit_all(asked.chunks)
            return None
        if written := (*self._written, *(() if asked.suspended else asked.data)):
            data = await send_chunks(run, written)
            self._early = data.accepted
            await out.emit_all(data.chunks)
            if data.blocked:
                return None
        if asked.suspended:
            return None
        sent = ask.request
        if asked.message_list is not run.message_list:
            sent = replace(sent, messages=asked.messages)
        sent = self._with_calls_closed(sent)
        if not self._task.allow_empty and all(message.role == "system" for message in sent.messages):
            raise NoMessageError(
                "there is no message to answer: none was given, or processors have removed all of them; "
                "use allow_empty=True to call the model with its instructions only"
            )
        return ask, ModelAttempt(run, f"{self.path}/model", ask.model, sent, asked.answer)

    async def _emit_answer(self, ask: StepRequest, attempt: ModelAttempt, out: Emitter[Chunk]) -> None:
        """Call the model, and run its tools."""
        before, steps = self._run.message_list, self._progress.current(self._run.message_list)
        try:
            answered = await self._answer(ask, attempt, steps, out)
            if answered is not None:
                await self._accept(ask, attempt, *answered, out)
        except BaseException:
            if len(self._progress.steps) == len(steps):  # it ended before its answer was accepted
                known = {message.id for message in before.response}
                self._run.forget([one.id for one in self._run.message_list.response if one.id not in known])
            raise
        finally:
            if len(self._progress.steps) > len(steps):
                self._progress.answering = False

    def _told(self, ask: StepRequest) -> dict[str, Value]:
        """Return the details of a step for the hooks before the model call."""
        steps = self._progress.current(self._run.message_list)
        settings = ask.request.settings
        return {
            "request": ask.request,
            "steps": steps,
            "model": ask.model,
            "tools": ask.tools,
            "model_settings": settings,
        }

    async def _settled(self, asked: AskedStage, settings: Values = EMPTY) -> Outcome:
        """Let the request wait for a person, when the guards of the last stage have read it; return the outcome.

        Args:
            asked: the stage that waits.
            settings: the settings of the step, which the store has to hold.
        """
        run, progress = self._run, self._progress
        (asked, *_), verdict = await settled(run, progress, [asked])
        if verdict is not None or not asked.outcome.suspended:
            return verdict or asked.outcome
        fields = storable_settings(settings, self._task.settings)
        if fields is None:
            return run.refuse_question(asked.outcome)
        progress.asked, progress.finish_reason = (asked._replace(fields=fields),), "other"
        return asked.outcome

    # A step that was suspended

    async def emit_rest(self, checkpoint: Checkpoint, out: Emitter[Chunk]) -> None:
        """Go on with a step that waited for persons, and emit the chunks for the client."""
        if checkpoint.phase not in ("prompt", "request"):
            await self._emit_rest_of_answer(checkpoint, out)
            return
        run, known = self._run, self._task.settings
        (asked,) = checkpoint.asked()
        settings = stored_settings(asked.fields, known)
        if asked.stage == "process_input_step":
            steps = self._progress.current(run.message_list)
            waits = replace(asked, fields=settings)
            ready = await self._prompted(await waits.resume(run, steps=steps), out, asked.answers)
        else:
            answer = {name: settings.pop(name) for name in ("answer",) if name in settings}
            ask = step_request(settings, run.message_list, known)
            waits = replace(asked, fields=FrozenDict(answer))
            outcome = await waits.resume(run, **self._told(ask))
            ready = await self._requested(ask, outcome, FrozenDict(settings), out, asked.answers)
        if ready is not None:
            await self._emit_answer(*ready, out)

    async def _emit_rest_of_answer(self, checkpoint: Checkpoint, out: Emitter[Chunk]) -> None:
        """Go on with an answer that waited for persons, or with the verdicts on its calls."""
        run, known, opened = self._run, self._task.settings, checkpoint.open_answer
        ask = step_request(known, run.message_list, known)
        attempt = AnsweredAttempt(run, f"{self.path}/model", ask, opened)
        message = run.message_list.get(opened["id"])
        if opened["accepted"]:
            calls = _calls_to_run(calls_of(message), opened["reason"])
            rules = self._rules(ask, calls)
            tools = ToolStep(run, rules, self._progress, self._group, self.path, checkpoint)
            held = () if opened["id"] in run.held_answers else attempt.call_chunks
            await tools.judge(message, calls, held, out, checkpoint.judged_calls())
            if tools.verdict is not None:
                await out.emit_all(tools.verdict.chunks)
                self._take_back(ask, attempt, tools.verdict)
                return
            await self._run_tools(ask, attempt, tools, message, opened["reason"], out)
            return
        (asked,) = checkpoint.asked()
        try:
            info = self._told_of(attempt, message)
            outcome = await asked.resume(run, **info)
            answered = await self._answered(ask, attempt, outcome, opened, info, out, asked.answers)
            if answered is not None:
                await self._accept(ask, attempt, *answered, out)
        except BaseException:
            run.withhold((opened["id"],))  # nobody gets an answer that is not accepted
            raise

    def _told_of(self, attempt: ModelAttempt, message: Message | None) -> dict[str, Value]:
        """Return the details of an answer for the hooks that judge it."""
        return {
            "steps": self._progress.current(self._run.message_list),
            "model": attempt.model,
            "request": attempt.request,
            "chunks": attempt.chunks,
            "from_cache": attempt.from_cache,
            "finish_reason": attempt.finish_reason,
            "usage": attempt.usage,
            "tool_calls": _open(calls_of(message)) or None,
        }

    async def _answered(
        self,
        ask: StepRequest,
        attempt: ModelAttempt,
        outcome: Outcome,
        opened: Values,
        info: dict[str, Value],
        out: Emitter[Chunk],
        answers: Values = EMPTY,
    ) -> tuple[Outcome, Message | None, str] | None:
        """Go on with the verdict on an answer about which a person was asked; see `_answer`.

        Args:
            ask: the request of the step.
            attempt: the answer.
            outcome: the outcome of the stage.
            opened: the answer as it is stored; see `open_answer`.
            info: the details for the stage that follows.
            out: where the chunks go.
            answers: the answers to earlier questions of the stage.
        """
        run = self._run
        while True:
            if outcome.suspended:
                outcome = await self._settled(AskedStage(outcome, answers))
                if outcome.suspended:
                    self._progress.open_answer = opened
                    return None
            elif outcome.stage == "process_llm_response" and not outcome.blocked:
                outcome, answers = await run.process_output_step(**info), EMPTY
            else:
                break
        if outcome.blocked:
            self._reject(ask, attempt, outcome)
            if opened["sent"] and isinstance(attempt, AnsweredAttempt):
                await out.emit(retract_chunk(opened["texts"], run.run_id))
            await out.emit_all(outcome.chunks)
            return None
        message = run.message_list.get(opened["id"])
        if message is not None and not message.parts:  # no provider accepts an empty message
            run.message_list = run.message_list.remove(message.id)
        for chunk in () if opened["sent"] else run.send_again(opened["id"], self._task.release):
            if attempt.note(chunk):
                await out.emit(chunk)
        return outcome, run.message_list.get(opened["id"]), opened["reason"]

    def _with_calls_closed(self, request: ModelRequest) -> ModelRequest:
        """Return the request without calls that nobody answered; the conversation itself keeps them."""
        task, messages = self._task, request.messages
        if task.open_calls is None:
            return request
        closer = self._progress.closer
        closed = closer.closed(messages, task.open_calls, separate=task.results_are_messages)
        return request if closed is messages else replace(request, messages=tuple(closed))

    # The answer

    async def _answer(
        self, ask: StepRequest, attempt: ModelAttempt, steps: Sequence[StepResult], out: Emitter[Chunk]
    ) -> tuple[Outcome, Message | None, str] | None:
        """Emit the model's answer as it comes, and judge it.

        Returns:
            The verdict, the answer as it was stored, and why it ended; None if it was rejected, or the call failed.
        """
        run = self._run
        info: dict[str, Value] = {
            "steps": steps,
            "model": attempt.model,
            "request": attempt.request,
            "chunks": attempt.chunks,
            "from_cache": attempt.from_cache,
        }
        before = run.message_list
        stream = run.process_output_stream(attempt.source(), release=self._task.release, last=False, **info)
        try:
            async with stream:
                async for chunk in stream:
                    if chunk.type == "text-delta" or attempt.note(chunk):
                        await out.emit(chunk)
        except Exception as error:
            if error is not attempt.error:
                raise
            await self._handle_error(attempt, error, stream.sent_ids, out)
            return None
        finally:
            self._progress.answering = stream.tripwire is None
        judged, answer = stream.outcome, stream.message
        verdict: Sequence[Chunk] = ()  # the chunks that report it, if they have not left with the stream
        if stream.judged is None and judged is not None and not judged.blocked:
            answer = run.message_list.completed(answer)
            judged = await self._judge(answer, attempt, info)
            verdict = judged.chunks
        if judged is not None and judged.suspended:
            opened = self._opened(attempt, judged, before, stream)
            return await self._answered(ask, attempt, judged, opened, {**info, **judged.details}, out)
        if judged is None or judged.blocked:
            self._reject(ask, attempt, judged)
            await out.emit_all(verdict)
            return None
        reason = attempt.finish_reason if stream.judged is None else judged.details.get("finish_reason")
        return judged, run.message_list.get(answer.id), str(reason or "other")

    def _opened(self, attempt: ModelAttempt, judged: Outcome, before: MessageList, stream: OutputStream) -> Values:
        """Return an answer that waits for a person as it is stored; ``before``: the conversation before it."""
        messages = self._run.message_list
        id = next((one.id for one in reversed(messages.response) if one.id not in before), "")
        if stream.judged is not None:
            reason: str | None = judged.details.get("finish_reason")
            return open_answer(attempt, messages.get(id), str(reason or "other"))
        opened = open_answer(attempt, messages.get(id), attempt.finish_reason)
        return FrozenDict({**opened, "sent": True, "texts": tuple(stream.sent_ids)})

    async def _judge(self, message: Message, attempt: ModelAttempt, info: Values) -> Outcome:
        """Run the stages after the stream on an answer whose chunks have left already."""
        run = self._run
        known = {
            "finish_reason": attempt.finish_reason,
            "usage": attempt.usage,
            "tool_calls": _open(calls_of(message)) or None,
        }
        outcome = await run.judge_step(message, FrozenDict({**info, **known}))
        if outcome.blocked:
            return outcome
        stored = run.message_list.get(message.id)
        if stored is not None and not stored.parts:  # no provider accepts an empty message
            run.message_list = run.message_list.remove(stored.id)
        return outcome

    def _reject(self, ask: StepRequest, attempt: ModelAttempt, outcome: Outcome | None) -> None:
        """Record an attempt that a verdict rejected; only the names of the tools that it called are kept."""
        self.goes_on = outcome is not None and outcome.retry_granted
        names = [chunk.payload.get("name") for chunk in attempt.chunks if chunk.type == "tool-call"]
        self._progress.steps.append(
            StepResult(
                self._run.step_number,
                finish_reason="retry" if self.goes_on else "other",
                tool_calls=tuple(ToolPart("", str(name)) for name in names if name in ask.tools),
                usage=attempt.usage,
                tripwire=None if outcome is None else outcome.tripwire,
                model=attempt.model_name,
                from_cache=attempt.from_cache,
            )
        )

    async def _handle_error(
        self, attempt: ModelAttempt, error: Exception, sent_ids: Sequence[str], out: Emitter[Chunk]
    ) -> None:
        """Ask the error processors about a failed call; nothing of its answer is kept, and sent text is retracted.

        Raises:
            Exception: the error of the call, if it is not to be repeated.
        """
        run, model = self._run, attempt.model
        step = StepResult(run.step_number, finish_reason="error", usage=attempt.usage, model=attempt.model_name)
        outcome = await run.process_api_error(error, model=model, steps=tuple(self._progress.current(run.message_list)))
        if outcome.blocked and not outcome.retry_granted:
            self._progress.steps.append(replace(step, finish_reason="other", tripwire=outcome.tripwire))
            if sent_ids:
                await out.emit(retract_chunk(sent_ids, run.run_id))
            await out.emit_all(outcome.chunks)
            return
        if not outcome.retry_granted:
            self._progress.steps.append(step)
            self._progress.finish_reason = "error"
            raise error
        self._progress.steps.append(replace(step, finish_reason="retry", tripwire=outcome.tripwire))
        self.error = error
        if sent_ids:
            await out.emit(retract_chunk(sent_ids, run.run_id))
        await out.emit(self._end("retry", goes_on=True))
        data = await send_chunks(run, outcome.data)
        await out.emit_all(data.chunks)
        if outcome.retry is not None and outcome.retry.after:
            await anyio.sleep(outcome.retry.after)
        self.goes_on = not data.blocked

    # After an answer was accepted

    def _rules(self, ask: StepRequest, calls: Sequence[ToolPart] = ()) -> CallRules:
        """Return what decides whether the calls of an answer run; ``calls``: those that may have begun before."""
        task = self._task
        on_ask = partial(task.approvals.ask, thread_of(self._run))
        known: Mapping[str, tuple[Value, ToolError | None]] = EMPTY
        if task.checkpoint is not None and calls:
            known = task.checkpoint.interrupted(calls, ask.tools)
        by_caller = task.results_are_messages
        return CallRules(ask.tools, ask.offered, task.approve, on_ask, known=known, caller_runs=by_caller)

    async def _accept(
        self,
        ask: StepRequest,
        attempt: ModelAttempt,
        judged: Outcome,
        message: Message | None,
        reason: str,
        out: Emitter[Chunk],
    ) -> None:
        run, progress, called = self._run, self._progress, calls_of(message)
        progress.steps.append(
            StepResult(
                run.step_number,
                text=text_of(message),
                reasoning=reasoning_of(message),
                finish_reason=reason,
                tool_calls=called,
                usage=attempt.usage,
                model=attempt.model_name,
                message_id="" if message is None else message.id,
                metadata=attempt.metadata_of(message),
                from_cache=attempt.from_cache,
            )
        )
        rules = self._rules(ask, called if isinstance(attempt, AnsweredAttempt) else ())
        tools = ToolStep(run, rules, progress, self._group, self.path, self._task.checkpoint)
        try:
            data = await send_chunks(run, judged.data)
            keep_data(run, "" if message is None else message.id, data.accepted, before=(*progress.data, *self._early))
            progress.data = ()
            if not data.blocked:
                await out.emit_all(data.chunks)
                await tools.judge(message, _calls_to_run(called, reason), attempt.held_calls, out)
        except BaseException:  # not all of its calls were judged and sent, so it was not accepted
            progress.steps.pop()
            raise
        verdict = data.outcome if data.blocked else tools.verdict
        if verdict is not None:
            await out.emit_all(data.chunks if data.blocked else verdict.chunks)
            self._take_back(ask, attempt, verdict)
            return
        await self._run_tools(ask, attempt, tools, message, reason, out)

    async def _run_tools(
        self,
        ask: StepRequest,
        attempt: ModelAttempt,
        tools: ToolStep,
        message: Message | None,
        reason: str,
        out: Emitter[Chunk],
    ) -> None:
        """Run the calls of an accepted answer, and end the step; or let the request wait for persons."""
        run, progress = self._run, self._progress
        if tools.asked:
            opened = open_answer(attempt, message, reason)
            judged = FrozenDict(tools.judged)
            progress.open_answer = FrozenDict({**opened, "accepted": True, "judged": judged})
            progress.note_pending((), message)
            progress.asked, progress.finish_reason = tools.asked, "other"
            return
        await tools.emit_chunks(message, out)
        if tools.verdict is not None:
            self._take_back(ask, attempt, tools.verdict)
            return
        progress.accepted += 1
        progress.finish_reason = reason
        progress.note_pending(tools.pending, message)
        progress.asked, progress.inner = tools.asked, tools.inner
        goes_on = not (tools.pending or tools.asked or tools.inner) and (
            bool(tools.answered) or (reason == "tool-calls" and attempt.called)
        )
        data = await send_chunks(run, [self._end(reason, goes_on=goes_on, attempt=attempt)])
        await out.emit_all(data.chunks)
        if data.blocked:
            self._take_back(ask, attempt, data.outcome)
            return
        self.accepted, self.goes_on = True, goes_on
        self.held = bool(data.accepted) and not data.chunks

    def _take_back(self, ask: StepRequest, attempt: ModelAttempt, outcome: Outcome | None) -> None:
        """Record that an accepted answer is rejected after all."""
        self._progress.steps.pop()
        self._reject(ask, attempt, outcome)

    def _end(self, reason: str, *, goes_on: bool, attempt: ModelAttempt | None = None) -> Chunk:
        usage = None if attempt is None else usage_payload(attempt.usage)
        payload: Values = FrozenDict({"reason": reason, "is_continued": goes_on, "usage": usage})
        return Chunk("step-finish", payload=payload, run_id=self._run.run_id)


def _calls_to_run(calls: Sequence[ToolPart], reason: str) -> Sequence[ToolPart]:
    """Return the calls of an answer that are to be run.

    Raises:
        UsageError: a processor has given one id to several calls: no result could be told apart.
    """
    if len({call.call_id for call in calls}) < len(calls):
        raise UsageError(
            "two tool calls of the answer have one id after the output processors; a processor that adds or changes "
            "calls has to give each its own"
        )
    return _open(calls) if reason not in _NO_TOOLS else ()


def _open(calls: Sequence[ToolPart]) -> tuple[ToolPart, ...]:
    """Return the calls that have no result yet."""
    return tuple([call for call in calls if call.state == "call"])
