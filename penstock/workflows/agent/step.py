"""One step of the loop: its stages, the attempt of the model, the verdicts on the answer, and the calls to tools."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import anyio

from penstock.engine.streams.chunk_texts import sent
from penstock.engine.streams.sources import as_chunk, close_source, failure_of
from penstock.engine.tracing.enclosing import EnclosedIterator
from penstock.engine.values.answer_builder import Assembly, usage_of
from penstock.engine.values.call_ids import OF_CALLS, CallIds
from penstock.engine.values.chunks import Chunk, retract_chunk
from penstock.engine.values.errors import PenstockError, UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_items
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.model import FINISH_REASONS
from penstock.engine.values.terms import is_code, is_model, without_repeats
from penstock.engine.values.usage import is_unbilled, usage_payload
from penstock.workflows.agent.approvals import thread_of
from penstock.workflows.agent.client_chunks import is_for_client, keep_data, send_chunks
from penstock.workflows.agent.joined_chunks import JoinedChunks
from penstock.workflows.agent.request import step_request
from penstock.workflows.agent.results import StepResult, calls_of, reasoning_of, text_of
from penstock.workflows.agent.tools import CallRules, ToolStep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.tracing.enclosing import Scope
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelRequest, Usage
    from penstock.engine.values.protocols import Model
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.progress import RequestProgress
    from penstock.workflows.agent.request import RequestTask, StepRequest


class ModelAttempt:
    """One call of a model, or an answer that a processor gave in its place. Lives as long as the step.

    Args:
        run: the run of the request. It gets the usage of the call, however the call ends; not if the provider refused
            the request, or it was not sent: that costs nothing.
        path: the path of the call in the events of the request.
        model: the model to call.
        request: the request to send.
        answer: the answer of a processor, or None.

    Attributes:
        model: the model to call.
        request: the request to send.
        chunks: the chunks that it sent, unprocessed, except that each tool call has an id of its own. Unless a
            processor reads them when the answer has ended, the pieces of a text are joined as they come.
        error: the error that ended it, or None.
        from_cache: whether a processor answered in place of the model.
        usage: the tokens of the call when it has ended; None if unknown, and for an answer of a processor.
        held_calls: the chunks of tool calls that left the stream and wait for `process_tool_call`.
    """

    def __init__(self, run: Run, path: str, model: Model, request: ModelRequest, answer: Value) -> None:
        self.model = model
        self.request = request
        self.chunks: list[Chunk] | JoinedChunks = [] if run.serves("process_llm_response") else JoinedChunks()
        self.error: Exception | None = None
        self.from_cache = answer is not None
        self.usage: Usage | None = None
        self.held_calls: list[Chunk] = []
        self._run = run
        self._path = path
        self._call_ids: CallIds | None = None  # made with the first call
        self._holds_calls = run.judges_calls_late  # their chunks wait for `process_tool_call`
        self._answer = answer
        self._released_end: Values = EMPTY  # of the ``finish`` that left the guards
        self._metadata: Values | None = None  # of the ``response-metadata`` that left the guards

    async def source(self) -> AsyncGenerator[Chunk]:
        """Yield the chunks of the answer. The model is called when the first chunk is requested.

        Raises:
            UsageError: the model, or the processor that answers in its place, sent something that is no chunk.
        """
        yield Chunk("step-start")
        keep = self.chunks.append
        try:
            if self.from_cache:
                for chunk in map(self._with_own_id, _answer_chunks(self._answer)):
                    keep(chunk)
                    yield chunk
            else:
                with self._run.span("model", self._path, self.model.name, request=self.request) as span:
                    stream: AsyncIterator[object] = self._opened(None if span is None else span.scope)
                    failed: BaseException | None = None
                    try:
                        async for sent in stream:
                            chunk = sent if type(sent) is Chunk else as_chunk(sent)
                            keep(chunk := self._with_own_id(chunk) if chunk.type in OF_CALLS else chunk)
                            yield chunk
                    except PenstockError as error:
                        failed = error
                        raise
                    finally:
                        await self._end_call(stream, failed)
                    if span is not None:
                        span.note(**self._details(stream))
            if not self.end:
                yield Chunk("finish", payload={"reason": "other"})
        except BaseException as error:
            self.error = failure_of(error, self.model.name)
            if self.error is error:
                raise
            raise self.error from error

    def _with_own_id(self, chunk: Chunk) -> Chunk:
        """Return a chunk with an id of its own for its tool call, if it belongs to one."""
        if self._call_ids is None:
            self._call_ids = CallIds(lambda: self._run.message_list.call_ids)
        return self._call_ids.own(chunk)

    def _opened(self, scope: Scope | None) -> AsyncIterator[Chunk]:
        """Return the stream of the model, within what observers put around its calls."""
        if scope is None:
            return self.model.stream(self.request)
        with scope():
            return EnclosedIterator(self.model.stream(self.request), scope)

    def _details(self, stream: object) -> dict[str, object]:
        """Return what observers are told of an answer that is complete."""
        reason = _known_reason(self.end)
        told: dict[str, object] = {"finish_reason": reason, "usage": usage_payload(self.usage)}
        if isinstance(stream, EnclosedIterator):
            known = self._terms
            told |= {f"response_{name}": known[name] for name in ("id", "model") if known.get(name)}
            told["first_chunk"] = stream.first_chunk
        return told

    async def _end_call(self, stream: object, failed: BaseException | None) -> None:
        """Close the model's stream and report the usage, unless the call cost nothing."""
        try:
            await close_source(stream)
        finally:
            self.usage = _usage(self.end.get("usage"))
            if failed is None or self.chunks or not is_unbilled(failed):
                self._run.spend(self.model.name, self.usage)

    def note(self, chunk: Chunk) -> bool:
        """Note a chunk that leaves the stream; return whether the client gets it."""
        kind = chunk.type
        if self._holds_calls and kind in OF_CALLS:
            self.held_calls.append(chunk)
            return False
        if kind == "finish":
            self._released_end = chunk.payload
        elif kind == "response-metadata":
            self._metadata = chunk.payload
        return is_for_client(chunk)

    @property
    def end(self) -> Values:
        """The payload of the model's ``finish``; empty if there is none."""
        return next((chunk.payload for chunk in reversed(self.chunks) if chunk.type == "finish"), EMPTY)

    @property
    def called(self) -> bool:
        """Whether the model called a tool, even if the call was removed later."""
        return any(chunk.type == "tool-call" for chunk in self.chunks)

    @property
    def finish_reason(self) -> str:
        """Why the answer ended: from the ``finish`` that left the guards, else the model's if it is a known word."""
        return str(self._released_end.get("reason") or _known_reason(self.end))

    def metadata_of(self, answer: Message | None) -> Values:
        """Return the provider's report about an answer, without what may repeat its text if that was changed."""
        metadata = self._report
        bare = without_repeats(metadata)
        if bare == metadata:
            return metadata
        sent = Assembly()
        for chunk in self.chunks:
            sent.add(chunk)
        same = text_of(answer) == sent.message.text and reasoning_of(answer) == reasoning_of(sent.message)
        return metadata if same else bare

    @property
    def _report(self) -> Values:
        """The provider's report about the answer, after the guards; while they hold it, only id, model and time."""
        end = self._released_end
        known = self._terms if self._metadata is None else self._metadata
        return FrozenDict({**known, **(end.get("provider_terms") or {}), **(end.get("metadata") or {})})

    @property
    def _terms(self) -> Values:
        """The id, the model and the time that the provider reports, if they have the form of such."""
        sent = next((chunk.payload for chunk in self.chunks if chunk.type == "response-metadata"), EMPTY)
        id, model, created = (sent.get(name) for name in ("id", "model", "created"))
        known = {
            "id": id if isinstance(id, str) and is_code(id) else None,
            "model": model if isinstance(model, str) and is_model(model) else None,
            "created": created if isinstance(created, (int, float)) else None,
        }
        return {name: value for name, value in known.items() if value is not None}


def _known_reason(end: Values) -> str:
    """Return the reason in the payload of a ``finish`` that no guard has read; ``other`` if it is no known word."""
    reason = end.get("reason")
    return reason if reason in FINISH_REASONS else "other"


def _usage(reported: Value) -> Usage | None:
    """Return the usage that the model reported; None if that is no usage: the answer does not fail for it."""
    try:
        return usage_of(reported)
    except TypeError:
        return None


def _answer_chunks(answer: Value) -> Sequence[Chunk]:
    """Return the answer of a processor as chunks.

    Raises:
        UsageError: it is not a str, message or list of chunks.
    """
    if isinstance(answer, str):
        answer = Message.assistant(answer)
    if isinstance(answer, Message):
        calls = any(part.type == "tool" for part in answer.parts)
        return [*sent(answer), Chunk("finish", payload={"reason": "tool-calls" if calls else "stop"})]
    if is_items(answer) and all(isinstance(chunk, Chunk) for chunk in answer):
        return cast("Sequence[Chunk]", answer)
    kind = type(answer).__name__
    raise UsageError(f"process_llm_request answered with a {kind}; Answer(...) takes a str, a message, or chunks")


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

    async def emit_chunks(self, out: Emitter[Chunk]) -> None:
        """Call the model, run its tools, and emit the chunks for the client."""
        prepared = await self._prepare(out)
        if prepared is None:
            return
        ask, attempt, steps = prepared
        before = self._run.message_list
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

    async def _prepare(self, out: Emitter[Chunk]) -> tuple[StepRequest, ModelAttempt, Sequence[StepResult]] | None:
        """Run the stages before the model call; return what to ask, the call, and the steps so far.

        What else these stages leave is dropped here: an answer may take minutes. None: a verdict has stopped the step.
        """
        run, steps = self._run, self._progress.current(self._run.message_list)
        prepared = await run.process_input_step(steps=steps, **self._task.settings)
        if prepared.blocked:
            await out.emit_all(prepared.chunks)
            return None
        steps = self._progress.current(run.message_list)  # the input processors may have changed them
        ask = step_request(prepared, self._task.settings)
        info: dict[str, Value] = {"model": ask.model, "tools": ask.tools, "model_settings": ask.request.settings}
        asked = await run.process_llm_request(request=ask.request, steps=steps, **info)
        if asked.blocked:
            await out.emit_all(asked.chunks)
            return None
        if written := (*prepared.data, *asked.data):
            data = await send_chunks(run, written)
            self._early = data.accepted
            await out.emit_all(data.chunks)
            if data.blocked:
                return None
        sent = ask.request
        if asked.message_list is not prepared.message_list:
            sent = replace(sent, messages=asked.messages)
        sent = self._with_calls_closed(sent)
        if not self._task.allow_empty and all(message.role == "system" for message in sent.messages):
            raise UsageError(
                "there is no message to answer: none was given, or processors have removed all of them; "
                "use allow_empty=True to call the model with its instructions only"
            )
        return ask, ModelAttempt(run, f"{self.path}/model", ask.model, sent, asked.answer), steps

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
        if judged is None or judged.blocked:
            self._reject(ask, attempt, judged)
            await out.emit_all(verdict)
            return None
        reason = attempt.finish_reason if stream.judged is None else judged.details.get("finish_reason")
        return judged, run.message_list.get(answer.id), str(reason or "other")

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
                model=attempt.model.name,
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
        step = StepResult(run.step_number, finish_reason="error", usage=attempt.usage, model=model.name)
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

    def _rules(self, ask: StepRequest) -> CallRules:
        """Return what decides whether the calls of an answer run."""
        on_ask = partial(self._task.approvals.ask, thread_of(self._run))
        return CallRules(ask.tools, ask.offered, self._task.approve, on_ask)

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
                model=attempt.model.name,
                message_id="" if message is None else message.id,
                metadata=attempt.metadata_of(message),
                from_cache=attempt.from_cache,
            )
        )
        tools = ToolStep(run, self._rules(ask), progress, self._group, self.path, self._task.checkpoint)
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
        await tools.emit_chunks(message, out)
        if tools.verdict is not None:
            self._take_back(ask, attempt, tools.verdict)
            return
        progress.accepted += 1
        progress.finish_reason = reason
        progress.note_pending(tools.pending, message)
        goes_on = not tools.pending and (bool(tools.answered) or (reason == "tool-calls" and attempt.called))
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
