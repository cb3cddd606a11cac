"""`Run`: one request on its way through the stages.

A run owns the `Conversation` (messages, facts, roll-back, retry budgets) and the answers that wait for a verdict
(`HeldAnswers`). Once a verdict has ended the run, no hook is called any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, TypeVar, get_args

from penstock.engine.execution.boundary import log
from penstock.engine.execution.executor import execute, run_overlapping
from penstock.engine.execution.offloading import is_long_value
from penstock.engine.execution.outcome import ModelOutcome, Outcome, no_records
from penstock.engine.graph.asking import arranged
from penstock.engine.graph.plan import PlanAsking, needs_loop, waiting_steps
from penstock.engine.processor.asking import AskingCall
from penstock.engine.processor.payload import NO_FACTS, Payload
from penstock.engine.processor.questions import StageQuestions, SuspendedPayload
from penstock.engine.processor.stages import STAGES, STREAM, full_name
from penstock.engine.processor.state import RunEnd, RunState, StageCall, States, call_on_end
from penstock.engine.run.conversation import MAX_ERROR_RETRIES, NO_IDS, Conversation, add_input, check_settings
from penstock.engine.run.held_answers import (
    HeldAnswers,
    Release,
    edited_chunks,
    info_of,
    open_calls,
    texts_of,
    whole_chunks,
)
from penstock.engine.run.suspended import SuspendedStage, SuspendedStages, before_messages, resumed_call
from penstock.engine.run.tracing import NO_TRACE, LazyTrace, open_log
from penstock.engine.tasks import BackgroundTasks, must_take_turn, runs_without_loop, take_turn
from penstock.engine.tracing.observers import PublicObserver
from penstock.engine.tracing.span_log import SpanObserver, known_log
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, Value, Values, freeze, json_value
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import Message
from penstock.engine.values.protocols import RANDOM_IDS, SYSTEM_CLOCK
from penstock.engine.values.usage import UsageEntry
from penstock.engine.workers import AbandonedError, run_in_worker

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from penstock.engine.execution.outcome import GetRecords
    from penstock.engine.graph.plan import Block
    from penstock.engine.graph.plan_cache import Hold, Plans
    from penstock.engine.processor.stages import Stage
    from penstock.engine.streams.sources import Source
    from penstock.engine.streams.stream import OutputStream
    from penstock.engine.tracing.chunk_log import HeldMeter
    from penstock.engine.tracing.span_log import LoggedSpan, SpanLog
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.judging import JudgeLog
    from penstock.engine.values.message_list import Messages
    from penstock.engine.values.model import Usage
    from penstock.engine.values.protocols import Clock, Ids, Observer
    from penstock.engine.values.tripwire import Record, Tripwire

T = TypeVar("T")
Stepping = Coroutine[object, None, Outcome]
_RELEASES = get_args(Release)
Pending: TypeAlias = "tuple[Block, StageCall, Payload]"
"""A check that waits for the model call: what to run, for which call, on what."""


class Run:
    """One request. Made by `Workflow.start`; call its stages in the order in which a request passes them.

    ``async with`` is required if the workflow has async shadow steps, and allowed in any case.

    With ``may_suspend=True``, a stage in which a step asks a person (``ctx.suspend``) ends with a suspended outcome,
    and `resume_stage` goes on with it. Without it, such a stage is blocked. Names of stages allow it in these alone.

    Attributes:
        tripwire: the verdict that ended the run, if one did.
    """

    def __init__(
        self,
        plans: Plans,
        *,
        request_context: dict[str, Value] | None = None,
        run_id: str | None = None,
        records: bool = False,
        texts: bool = False,
        observers: Sequence[Observer] = (),
        agent: str = "",
        overlap: bool = False,
        max_processor_retries: int | None = None,
        max_error_retries: int = MAX_ERROR_RETRIES,
        ids: Ids = RANDOM_IDS,
        clock: Clock = SYSTEM_CLOCK,
        states: States | None = None,
        facts: Facts = NO_FACTS,
        may_suspend: bool | Collection[str] = False,
        judge_log: JudgeLog | None = None,
    ) -> None:
        self.tripwire: Tripwire | None = None
        self._may_suspend = STAGES.keys() if may_suspend is True else may_suspend or ()
        self._suspended: SuspendedStages | None = None  # made with the first stage that waits
        self._plans = plans
        self._agent = agent
        retries = self._retries = 0 if max_processor_retries is None else max_processor_retries
        usual = ids is RANDOM_IDS and clock is SYSTEM_CLOCK and not facts
        begin = _NOTHING_SAID if usual else Payload(MessageList(ids=ids, clock=clock), facts)
        self._conversation = Conversation(begin, retries, max_error_retries)
        self._answers = HeldAnswers()
        self._bare_calls: dict[str, StageCall] = {}
        self._state = RunState(run_id or ids.next(), {} if request_context is None else request_context)
        self._state.pending = [] if overlap else None
        self._state.judge_log = judge_log
        if states is not None:
            self._state.states = states  # the caller shares them among its runs
        self._abandoned = False
        self._accepted: set[int] = set()  # the ids of checks that wait again, since their call failed, and have passed
        if records or observers or texts:
            watching = self._observers(observers) if observers else ()
            self._state.spans = open_log(self._state, plans.name, watching, keeps=records, texts=texts)

    @property
    def name(self) -> str:
        """The name of the workflow; in a request of an agent, its id."""
        return self._plans.name

    @property
    def agent(self) -> str:
        """The name of the agent whose request it is; empty if there is none."""
        return self._agent

    @property
    def message_list(self) -> MessageList:
        """The current conversation. A host that stores the conversation itself may set it."""
        return self._conversation.payload.message_list

    @message_list.setter
    def message_list(self, messages: MessageList) -> None:
        self._conversation.messages = messages

    @property
    def facts(self) -> Facts:
        """The facts that steps have put so far, by key."""
        return self._conversation.payload.facts

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._state.run_id

    @property
    def request_context(self) -> dict[str, Value]:
        """The caller's mapping for this request."""
        return self._state.request_context

    @property
    def retry_count(self) -> int:
        """How many answers of the model were rejected since the last accepted one."""
        return self._state.retry_count

    @property
    def step_number(self) -> int:
        """The number of the current model step, from 0; rejected attempts count."""
        return self._state.step_number

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of the steps of all stages; empty unless the run was started with ``records=True``."""
        spans = self._state.spans
        return () if spans is None else spans.records()

    @property
    def trace(self) -> Trace:
        """The run so far, as data.

        Raises:
            UsageError: the run was started without ``records=True``.
        """
        return known_log(self._state.spans).trace(None, self.tripwire)

    @property
    def lazy_trace(self) -> LazyTrace:
        """The trace for a result that outlives the run, made on demand."""
        spans = self._state.spans
        return NO_TRACE if spans is None else LazyTrace(spans, self.tripwire)

    @property
    def spent(self) -> tuple[UsageEntry, ...]:
        """The usage entries of this run so far. Calls of judges are included."""
        return self._state.usage_log.spent

    def spend(self, model: str, usage: Usage | None, *, attempts: int = 1) -> None:
        """Record the tokens of a model call of this run.

        Args:
            model: the model's name.
            usage: the tokens; None if they are not known.
            attempts: how many calls the tokens were used in.
        """
        self._state.usage_log.enter(UsageEntry(model, usage, attempts=attempts))

    def span(
        self, kind: Literal["model_step", "model", "tool"], path: str, name: str = "", **called: Value
    ) -> AbstractContextManager[LoggedSpan | None]:
        """Open a part of the request for traces and observers, and end it at the end of the block.

        It gives the part, to which details can be added; None without traces and observers.

        Args:
            kind: its subject.
            path: its path in events, for example ``step-0/model``; see `RunEvent`.
            name: the name of the model or the tool.
            called: the further fields of the `CallSite`: ``request``, or ``call_id`` and ``arguments``.
        """
        spans = self._state.parts
        return _UNTOLD if spans is None else _part_of(spans, kind, path, name, called or None)

    def note_end(self, **details: object) -> None:
        """Add details to the end of the run for traces and observers: ``status``, ``finish_reason``, ``usage``."""
        if self._state.spans is not None:
            self._state.spans.root.note(**details)

    # A run that goes on elsewhere

    @property
    def states(self) -> States:
        """The states of processors so far, by the paths of their steps."""
        return self._state.states

    @property
    def plans(self) -> Plans:
        """Its workflow, compiled."""
        return self._plans

    def standing(self) -> Values:
        """Return the rest of its budgets, so that another run can `restore` it: frozen values and messages."""
        return self._conversation.standing()

    def restore(
        self,
        messages: MessageList,
        facts: Facts,
        standing: Values,
        states: States,
        *,
        last_answer: str = "",
        answering: bool = False,
    ) -> None:
        """Continue where another run stood: after its input, after an accepted answer, or in a step.

        Args:
            messages: the conversation.
            facts: the facts by key.
            standing: the other run's `standing`.
            states: the states of processors by the paths of their steps; the others begin with a new one.
            last_answer: the id of the last answer; empty if there is none.
            answering: whether the last answer is not accepted yet, or the model was about to be called for it.
        """
        payload = Payload(messages, facts)
        self._conversation.restore(payload, standing, last_answer, self._state, answering=answering)
        self._state.states.update(states)

    @property
    def held_answers(self) -> tuple[str, ...]:
        """The ids of accepted answers whose chunks wait for the last stage."""
        return self._answers.held

    def send_again(self, answer: str, release: Release = "auto") -> Sequence[Chunk]:
        """Return the chunks of a judged answer that another process has not sent; none if they wait for the last stage.

        Args:
            answer: the id of its message.
            release: as for `process_output_stream`.
        """
        message = self.message_list.get(answer)
        if message is None:
            return ()
        chunks = whole_chunks(message, self.run_id)
        if self._hold_until(release) == "result":
            self._answers.hold(message, chunks)
            return ()
        self._answers.note_sent(len(self.message_list.response) - 1, texts_of(chunks))
        self._answers.let_go(answer, len(chunks))
        return chunks

    @property
    def judges_late(self) -> bool:
        """Whether guards of the last stage have yet to read the answers of the run."""
        return self._plans.late_guards is not None

    async def judge_unreleased(self, **info: Value) -> tuple[Outcome, frozenset[str]]:
        """Run the guards of the last stage on the answers so far, so that a run that waits can be stored.

        Nobody is asked. A verdict ends the run.

        Args:
            info: the details of `process_output_result`.

        Returns:
            The outcome, and the paths of the steps that need not read the same answers again; see `resume_stage`.
        """
        stage, block = STAGES["process_output_result"], self._plans.late_guards
        if block is None:
            return Outcome(self._bare_call(stage), self._conversation.payload), frozenset()
        before = self._conversation.payload
        call = AskingCall.of(StageCall(self._state, stage, FrozenDict(info), NO_IDS)).held_back()
        end = await execute(block, call, before)
        if end.tripwire is not None:
            return self._blocked(stage, call, before, end, no_records), frozenset()
        self._conversation.keep(stage, before, end)
        done = frozenset(call.questions.done - call.questions.muted)
        return Outcome(call, end, no_records, edited=end.differs(before)), done

    def refuse_question(self, outcome: Outcome, verdict: Tripwire | None = None) -> Outcome:
        """Block a suspended stage, since nobody can be asked, or nobody has answered in time; return its outcome.

        Args:
            outcome: its outcome.
            verdict: the verdict; None: that nobody can be asked.
        """
        stage = STAGES[outcome.stage]
        waiting = None if self._suspended is None else self._suspended.find(stage, outcome.details)
        if waiting is None or self._suspended is None:
            return outcome
        self._suspended.remove(waiting)
        end = waiting.end.stopped(verdict or waiting.end.tripwire)
        return self._blocked(stage, waiting.call, waiting.origin, end, no_records)

    def withhold(self, answers: Iterable[str]) -> None:
        """Take answers that a person has yet to allow out of the conversation; the store has them.

        Args:
            answers: the ids of their messages; held answers are taken out, too.
        """
        gone = {*answers, *self._answers.drop()}
        self.message_list = self.message_list.remove(*[id for id in gone if id in self.message_list])

    def _observers(self, given: Iterable[Observer]) -> list[SpanObserver]:
        """Return the observers of this run: the given ones, or those that their ``for_run`` returns."""
        found: list[SpanObserver] = []
        for one in given:
            for_run: Callable[[Run], Observer | SpanObserver] | None = getattr(one, "for_run", None)
            try:
                own = one if for_run is None else for_run(self)
                found.append(own if isinstance(own, SpanObserver) else PublicObserver(own))
            except Exception:  # noqa: BLE001 - an observer changes nothing
                log.exception("an observer failed; the run goes on without it")
        return found

    def serves(self, stage: str) -> bool:
        """Return whether any step has that stage."""
        return self._plans.stage(stage) is not None

    @property
    def may_ask(self) -> bool:
        """Whether a step may ask a person about calls of tools."""
        return self._plans.asks

    @property
    def judges_calls_late(self) -> bool:
        """Whether a processor judges tool calls, but not the stream that they come in."""
        return self._plans.judges_calls_late

    @property
    def has_shadow_steps(self) -> bool:
        """Whether steps run in shadow, so that the run has to be entered and left in one task."""
        return self._plans.shadowed

    @property
    def runs_beside_model(self) -> bool:
        """Whether steps may run beside the model call, so that its stream needs separate tasks."""
        return self._plans.runs_beside_model

    @property
    def releases(self) -> Hold:
        """When the chunks of an answer may leave with ``release="auto"``: ``live``, ``step`` or ``result``."""
        return self._plans.release

    def is_sync(self, stage: str) -> bool:
        """Return whether the stage can run without an event loop, because none of its steps has to wait there."""
        return not needs_loop(self._plans.stage(stage))

    def waiting_steps(self, stage: str) -> tuple[str, ...]:
        """Return the paths of the steps that are async in that stage."""
        return waiting_steps(self._plans.stage(stage))

    # The life of a run

    async def __aenter__(self) -> Self:
        """Start a task group for shadow steps."""
        if self._state.spans is not None:
            self._state.spans.start(self._state.spans.root)
        if self._plans.shadowed:
            self._state.background = BackgroundTasks()
            await self._state.background.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for shadow steps, and call the callbacks of `Context.on_end`.

        Raises:
            UsageError: checks that overlap the model call have never run.
        """
        background, self._state.background = self._state.background, None
        try:
            if background is not None:
                await background.close(error)
        finally:
            self._drop_held()
            if self._state.on_end:
                waits = self._suspended is not None and bool(self._suspended.waiting)
                completed = error is None and self.tripwire is None and not (self._abandoned or waits)
                unchecked = any(id(check) not in self._accepted for check in self._state.pending or ())
                await call_on_end(self._state.on_end, RunEnd(self.message_list, self.tripwire, completed, unchecked))
            if self._state.spans is not None:
                self._close_log(self._state.spans, error)
        if self._take_pending() and error is None and self.tripwire is None and not self._abandoned:
            raise UsageError("overlapping checks never ran: call the model through run.call_model(...)")

    def told(self, stepping: Stepping) -> Stepping:
        """Return a stage that is the whole run, with the start and end of the run for traces and observers.

        ``async with`` does the same for a run of several stages.
        """
        spans = self._state.spans
        return stepping if spans is None else self._tell_around(spans, stepping)

    async def _tell_around(self, spans: SpanLog, stepping: Stepping) -> Outcome:
        spans.start(spans.root)
        try:
            outcome = await stepping
        except BaseException as error:
            self._close_log(spans, error)
            raise
        self._close_log(spans, None)
        return outcome

    def _close_log(self, spans: SpanLog, error: BaseException | None) -> None:
        ends = "blocked" if self.tripwire is not None else "failed" if error is not None else "passed"
        status = "cancelled" if self._abandoned and error is None else ends
        if error is not None:
            spans.root.note_default(error=type(error).__name__)
        spans.root.note_default(status=status)
        spans.end(spans.root)

    def abandon(self) -> None:
        """Abandon the run: it does not count as completed, shadow steps end, and held answers are dropped."""
        self._abandoned = True
        self._drop_held()
        if self._state.background is not None:
            self._state.background.cancel()

    def releasable(self, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
        """Return which of these chunks, which belong to no answer, may leave now: all, unless an answer is held.

        In that case they leave behind it, when `process_output_result` has judged it. Chunks of tool results are not
        held: they are sent with the answer.
        """
        return self._answers.hold_behind(chunks)

    def drop_unsent(self, sent: int) -> None:
        """Remove the answers of which not everything was sent, because the reader of released chunks has left.

        A stream does it by itself. Who sends the chunks of `process_output_result` does it.

        Args:
            sent: how many of the released chunks were sent.
        """
        unsent = self._answers.unsent(sent)
        if unsent:
            self.forget(unsent)

    def forget(self, messages: Iterable[str]) -> None:
        """Remove answers that nobody got, and the facts put since the model was asked for the first of them.

        Args:
            messages: the ids of their messages; none for an answer that has begun and is not in the conversation yet.
        """
        self._conversation.forget(messages)

    # The stages. Each returns an awaitable of its `Outcome`; messages default to the run's own.

    def process_input(self, messages: Messages | MessageList | None = None) -> Stepping:
        """Run `process_input` on the caller's messages, before the agent's loop."""
        return self._run(STAGES["process_input"], messages, EMPTY, EMPTY)

    def process_input_step(
        self,
        messages: Messages | MessageList | None = None,
        *,
        steps: Iterable[object] | None = None,
        **settings: Value,
    ) -> Stepping:
        """Run `process_input_step` before a model call. ``settings``: model, tools, tool_choice, active_tools, ….

        `Outcome.overrides` holds the settings as the steps left them.
        """
        stage = STAGES["process_input_step"]
        return self._run(stage, messages, check_settings(stage, settings), FrozenDict(steps=steps))

    def process_llm_request(self, prompt: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_llm_request` on the provider prompt. Its changes apply to this call only."""
        return self._run(STAGES["process_llm_request"], prompt, EMPTY, FrozenDict(info))

    def process_api_error(self, error: BaseException, **info: Value) -> Stepping:
        """Run `process_api_error` after a failed model call. `Outcome.retry` tells whether to call the model again."""
        return self._run(STAGES["process_api_error"], None, EMPTY, FrozenDict(error=error, **info))

    def process_output_stream(
        self,
        source: Source,
        *,
        release: Release = "auto",
        held: bool = False,
        last: bool = True,
        sync: bool = False,
        **info: Value,
    ) -> OutputStream:
        """Run `process_output_stream` on a model's chunks as they come. Enter the returned stream, and iterate over it.

        Closing it closes the source. A verdict sends one ``tripwire`` chunk (or, before another attempt, one
        ``step-finish`` with the reason ``retry``) and ends it. If the source raises, the chunks that were held are
        judged as the end of their text and sent, and the error follows.

        Args:
            source: chunks, from a sync or async iterable; a str is a piece of text.
            release: when chunks may leave. ``live``: as soon as the steps of this stage have judged them; what a later
                stage rejects is retracted. ``step``: once `process_output_step` has judged the answer, which then runs
                within the stream. ``result``: once `process_output_result` has. ``auto``: live, unless a later guard
                has no stream stage.
            held: whether the caller itself lets nothing leave before the later stages have judged it, so that ``live``
                logs no warning.
            last: whether an answer that calls no tools ends the run, so that what is held for `process_output_result`
                is judged at once. If not, it leaves when that stage is called, in its outcome's ``chunks``.
            sync: whether it is driven without an event loop; set by `SyncRun`.
            info: further details for the stages that run within the stream: ``steps``, ``usage`` …

        Raises:
            UsageError: the source is not an iterable, or ``release`` is none of those words.
        """
        hold = self._hold_until(release, held=held)
        return self._stream(source, hold, info, last=last, sync=sync, answers=True)

    def process_output_chunks(self, source: Source) -> OutputStream:
        """Run `process_output_stream` on chunks that belong to no answer, such as a tool's; no other stage runs."""
        return self._stream(source, "live", {})

    def _stream(
        self,
        source: Source,
        hold: Hold,
        info: dict[str, Value],
        *,
        last: bool = True,
        sync: bool = False,
        answers: bool = False,
    ) -> OutputStream:
        from penstock.engine.streams.stream import OutputStream  # loaded where an answer is streamed

        host = self._AnswerStream(self, info, last=last, sync=sync, answers=answers)
        return OutputStream(host, self._plans.stream, source, hold, sync=sync)

    def process_llm_response(self, messages: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_llm_response` when the model's stream has ended; ``chunks``, ``model``, ``from_cache``."""
        return self._run(STAGES["process_llm_response"], messages, EMPTY, FrozenDict(info))

    def process_output_step(self, messages: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_output_step` on a response, before its tools run.

        ``info``: ``finish_reason``, ``tool_calls``, ``usage``, ``steps``.
        """
        return self._run(STAGES["process_output_step"], messages, EMPTY, FrozenDict(info))

    def process_tool_call(
        self, tool_name: str, arguments: Value, *, call_id: str = "", steps: Iterable[object] | None = None
    ) -> Stepping:
        """Run `process_tool_call` before a tool runs; `Outcome.arguments`, or `Outcome.answer` in the tool's place."""
        stage = STAGES["process_tool_call"]
        return self._tool(stage, arguments, steps, tool_name=tool_name, call_id=call_id)

    def process_tool_result(
        self,
        tool_name: str,
        result: Value,
        *,
        arguments: Value = None,
        call_id: str = "",
        is_error: bool = False,
        steps: Iterable[object] | None = None,
    ) -> Stepping:
        """Run `process_tool_result` before a result enters the history; `Outcome.result`.

        ``is_error``: the tool failed, and the result is the text of its error.
        """
        stage = STAGES["process_tool_result"]
        info: dict[str, Value] = {"arguments": arguments, "is_error": is_error}
        return self._tool(stage, result, steps, tool_name=tool_name, call_id=call_id, **info)

    def process_output_result(self, messages: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_output_result` once at the end; ``finish_reason``, ``usage``, ``steps``."""
        return self._run(STAGES["process_output_result"], messages, EMPTY, FrozenDict(info))

    async def judge_step(self, answer: Message, info: Values) -> Outcome:
        """Run the stages that judge the answer of a step; the last one runs even if no step has it: it accepts."""
        judging = [
            stage for stage in STAGES.values() if stage.judges == "step" and (stage.accepts or self.serves(stage.name))
        ]
        outcome = await self._run(judging[0], answer, EMPTY, info)
        for stage in judging[1:]:
            if not (outcome.blocked or outcome.suspended):
                outcome = await self._run(stage, None, EMPTY, info)
        return outcome

    def stage(self, name: str, messages: Value = None, **details: Value) -> Stepping:
        """Run the stage of that name; for the tools' stages ``messages`` are the arguments or the result.

        Raises:
            UsageError: there is no such stage, or it handles a stream.
        """
        name = full_name(name)
        if name not in STAGES:
            raise UsageError(f"unknown stage {name!r}; the stages are {', '.join(STAGES)}")
        stage = STAGES[name]
        if stage.streams:
            raise UsageError(f"{name} handles a stream; use async with run.{name}(source) as chunks")
        method: Callable[..., Stepping] = getattr(self, name)
        if stage.value:
            return method(details.pop("tool_name", "tool"), messages, **details)
        return method(messages, **details)

    # How a stage is run

    async def _run(self, stage: Stage, messages: object, fields: Values, info: Values) -> Outcome:
        block = self._plans.stage(stage.name)
        if block is not None and block.movable and must_take_turn():
            await take_turn()
        if self.tripwire is not None or (self._suspended is not None and self._suspended.refuse(stage, info)):
            return self._stopped(stage).after_verdict()
        if self._state.pending and not stage.overlaps and await self._drained():
            return self._stopped(stage)
        before = start = self._conversation.begin(stage, self._state)
        fresh = NO_IDS
        current = before.message_list
        if messages is not None:
            if stage.judges == "step":
                self._conversation.begin_answer(current)
            if isinstance(messages, (str, Message, MessageList)) or runs_without_loop() or not is_long_value(messages):
                current, fresh = add_input(stage, messages, current)
            else:
                current, fresh = await run_in_worker(partial(add_input, stage, messages, current))
        if fields or current is not before.message_list:
            start = Payload(current, before.facts, fields)
        spans = self._state.parts
        if spans is not None and block is not None:
            span = spans.begin_stage(stage.name, EMPTY)
            if stage.value:
                span.call_id = info.get("call_id", "")
            call = StageCall(self._state, stage, info, fresh, span)
            return await self._run_in_span(spans, span, block, call, before, start)
        bare = info is EMPTY and fresh is NO_IDS
        call = self._bare_call(stage) if bare else StageCall(self._state, stage, info, fresh)
        end = start if block is None else await execute(block, call, start)
        return self._ended(stage, call, before, end, edited=end.differs(start))

    async def _run_in_span(
        self, spans: SpanLog, span: LoggedSpan, block: Block, call: StageCall, before: Payload, start: Payload
    ) -> Outcome:
        """Run a stage as a part of the run for traces and observers, within the scopes of the observers.

        Args:
            spans: the log of the run.
            span: the part, which has begun.
            block: the steps of the stage.
            call: the call of the stage.
            before: the payload before the messages and settings of this call.
            start: the payload with them.
        """
        stage = STAGES[call.stage.name]
        try:
            with nullcontext() if span.scope is None else span.scope():
                end = await execute(block, call, start)
            outcome = self._ended(stage, call, before, end, edited=end.differs(start))
            if spans.with_texts:
                span.texts = (start, None if outcome.blocked else end)
            span.judged(outcome.tripwire)
            if outcome.suspended:
                span.note(suspended=True)
        except BaseException as error:
            span.failed(error)
            if spans.with_texts:
                span.texts = (start, None)
            raise
        finally:
            spans.end(span)
        return outcome

    async def _tool(self, stage: Stage, value: Value, steps: Iterable[object] | None, **info: Value) -> Outcome:
        def read() -> tuple[Value, Values]:
            return json_value(value, stage.value), FrozenDict({**freeze(info), "steps": steps})

        quick = runs_without_loop() or not is_long_value([value, info])
        frozen, details = read() if quick else await run_in_worker(read)
        return await self._run(stage, None, FrozenDict({stage.value: frozen}), details)

    def _records(self, *calls: StageCall) -> GetRecords:
        """Return what gives the records of the steps that have ended in these calls."""
        spans = self._state.spans
        if spans is None:
            return no_records
        return partial(spans.records_in, [call.span for call in calls if call.span is not None], len(spans.spans))

    def _bare_call(self, stage: Stage) -> StageCall:
        """Return a call of a stage without messages and details, the same for the whole run."""
        call = self._bare_calls.get(stage.name)
        if call is None:
            call = self._bare_calls[stage.name] = StageCall(self._state, stage, EMPTY, NO_IDS)
        return call

    def _ended(self, stage: Stage, call: StageCall, before: Payload, end: Payload, *, edited: bool) -> Outcome:
        """Keep the stage's result, or roll it back, and return its outcome.

        Args:
            stage: the stage.
            call: the call of the stage.
            before: the payload before the messages and settings of this call.
            end: the payload that the steps left.
            edited: whether they changed messages or fields.
        """
        if self.tripwire is not None:  # another call of this run was stopped meanwhile: this one may not pass
            return self._stopped(stage)
        records = self._records(call)
        if end.tripwire is not None:
            return self._blocked(stage, call, before, end, records)
        conversation = self._conversation
        if end is not conversation.payload:
            conversation.keep(stage, before, end)
        if self._state.pending and conversation.queued_from is None:
            conversation.queued_from = before
        conversation.passed(stage, self._state)
        if stage.retries == "call" and "retry" in end.fields:
            return Outcome(call, end, records, conversation.grant_error_retry(self._state))
        outcome = Outcome(call, end, records, edited=edited)
        return outcome.with_stream((), self._answers.release(end.message_list)) if stage.judges == "result" else outcome

    def _blocked(self, stage: Stage, call: StageCall, before: Payload, end: Payload, records: GetRecords) -> Outcome:
        """Roll back the rejected attempt; end the run, unless the model gets another attempt."""
        questions = call.questions
        origin = before if questions is None or questions.origin is None else questions.origin
        if isinstance(end, SuspendedPayload) and stage.name in self._may_suspend:
            return self._suspend(stage, call, before, origin, end, records)
        before = origin
        self._state.verdicts.clear()
        verdict = end.tripwire
        granted = verdict is not None and self._conversation.reject(stage, verdict, self._state)
        if verdict is not None and not granted:
            if verdict.retry:
                self._explain_no_retry(stage, verdict)
            self.stop(verdict)
        self._conversation.roll_back(stage, self._conversation.queued_from or before, ends=not granted)
        if not granted:
            self._drop_held()
        outcome = Outcome(call, self._conversation.payload.stopped(verdict, end.failure), records, granted)
        if not stage.retracts:
            return outcome
        if granted:
            self._answers.keep(outcome.message_list)
        accepted = 0 if stage.takes_back == "run" else len(outcome.message_list.response)
        return outcome.with_stream(self._answers.retract(accepted))

    # Stages that wait for persons

    def _suspend(
        self,
        stage: Stage,
        call: StageCall,
        before: Payload,
        origin: Payload,
        end: SuspendedPayload,
        records: GetRecords,
    ) -> Outcome:
        """Keep the guarded payload of a suspended stage, and return its outcome; nothing of it is accepted yet."""
        log.info("%s: %s asks a person in %s", self._plans.name, end.questions[0].processor_id, stage.name)
        self._conversation.queued_from = None  # the checks that waited for the model have run
        self._conversation.keep(stage, before, end)
        if self._suspended is None:
            self._suspended = SuspendedStages()
        self._suspended.add(stage, SuspendedStage(call, end, origin))
        return Outcome(call, end.opened(), records)

    def resume_stage(
        self,
        name: str,
        answers: Mapping[str, Value],
        finished: Iterable[str],
        messages: Value = None,
        *,
        fresh: Iterable[str] = (),
        **details: Value,
    ) -> Stepping:
        """Go on with a suspended stage: run the steps that are not finished, with the answers of persons.

        It works on the conversation and the facts of the run as they stand. If a step changes them, the guards behind
        it run again; if it does so after an answer, those in front of it do, too. The stage may be suspended again.

        Args:
            name: the name of the stage.
            answers: the answers by the ids of their questions, those of earlier calls for the same stage included.
                A question without an answer is asked again.
            finished: the `Outcome.finished` of the suspended outcome.
            messages: the arguments or the result, for a stage of tools; the prompt, for `process_llm_request`.
            fresh: the `Outcome.fresh` of the suspended outcome.
            details: what else the stage takes, such as ``tool_name``, ``call_id``, or the settings of
                `process_input_step`. In the run that was suspended, ``messages``, ``fresh`` and ``details`` default to
                what the stage was called with, as its guards left it; name the ``call_id`` if several calls wait.

        Raises:
            UsageError: there is no such stage, or it handles a stream.
        """
        stage = STAGES.get(full_name(name), STREAM)
        if stage is STREAM:
            raise UsageError(
                f"{name!r} is no stage that can be suspended; {', '.join(STAGES)} are, but not {STREAM.name}"
            )
        now = self._conversation.payload
        waiting = None if self._suspended is None else self._suspended.find(stage, details)
        call, start = resumed_call(self._state, stage, waiting, now, messages, frozenset(fresh), details)
        origin = before_messages(now, call.fresh) if waiting is None else waiting.origin
        questions = StageQuestions(FrozenDict(answers), finished, origin)
        return self._resumed(stage, waiting, AskingCall.of(call, questions), now, start)

    async def _resumed(
        self, stage: Stage, waiting: SuspendedStage | None, call: AskingCall, before: Payload, start: Payload
    ) -> Outcome:
        if self.tripwire is not None:
            return self._stopped(stage).after_verdict()
        if waiting is not None and self._suspended is not None:
            self._suspended.remove(waiting)
        block = self._plans.stage(stage.name)
        if block is not None and call.questions.finished and not isinstance(block, PlanAsking):
            block = arranged(block, block)  # it asks nobody, and a part of it has run
        spans = self._state.parts
        try:
            if spans is not None and block is not None:
                span = spans.begin_stage(stage.name, EMPTY)
                if stage.value:
                    span.call_id = call.info.get("call_id", "")
                return await self._run_in_span(spans, span, block, call.within(span), before, start)
            end = start if block is None else await execute(block, call, start)
            return self._ended(stage, call, before, end, edited=end.differs(start))
        except BaseException:
            if waiting is not None and self._suspended is not None:
                self._suspended.add(stage, waiting)  # it still waits, and can be resumed again
            raise

    def _explain_no_retry(self, stage: Stage, verdict: Tripwire) -> None:
        """Log why an attempt that a verdict asks for is not made."""
        if stage.retries is None:
            why = f"{stage.name} cannot retry"
        else:
            why = f"the limit is reached: max_processor_retries={self._retries}"
        log.info("%s asked for another attempt (retry=True); none is made: %s", verdict.processor_id, why)

    def stop(self, tripwire: Tripwire) -> None:
        """End the run with a verdict; no hook is called any more. Its reason is not logged: it may quote a text."""
        if self.tripwire is None:
            log.info("%s: %s blocked in %s", self._plans.name, tripwire.processor_id, tripwire.stage)
        self.tripwire = self._state.stopped = tripwire
        self._take_pending()
        if self._state.background is not None:
            self._state.background.cancel()

    def _stopped(self, stage: Stage) -> Outcome:
        """Return the outcome of a stage after the run was stopped: the same verdict, and nothing ran."""
        return Outcome(self._bare_call(stage), self._conversation.payload.stopped(self.tripwire))

    def _drop_held(self) -> None:
        """Take back the answers that are held."""
        dropped = self._answers.drop()
        if dropped:
            self.forget(dropped)

    # Checks that overlap the model call

    async def call_model(self, call: Callable[[], Awaitable[T]]) -> ModelOutcome[T]:
        """Call the model, with the checks that overlap beside it; its value is held until their verdict.

        Args:
            call: makes the model call; cancelled if a check trips. Its exception is raised, unless a check trips.
        """
        if self.tripwire is not None:
            return ModelOutcome(None, self._stopped(STAGES["process_input"]))
        if not self._state.pending:
            return ModelOutcome(await call(), None)
        value, outcome = await self._run_with_checks(call)
        return ModelOutcome(None if outcome.blocked else value, outcome)

    async def _run_with_checks(self, call: Callable[[], Awaitable[T]]) -> tuple[T | None, Outcome]:
        """Run the checks that wait beside a call; return its value, and the outcome of the checks."""
        pending = self._take_pending()
        passed: list[int] = []
        try:
            with self._beside(pending) as checks:
                value, end = await run_overlapping(checks, call, passed)
        except BaseException:
            self._state.pending = pending  # the call may be made again, and they with it
            self._accepted = {id(pending[place]) for place in passed}
            raise
        return value, self._checked(checks, end)

    @contextmanager
    def _beside(self, pending: Sequence[Pending]) -> Generator[Sequence[Pending]]:
        """Open a part of the run for the checks of each stage that wait; yield the checks within them."""
        spans = self._state.parts
        if spans is None:
            yield pending
            return
        opened: dict[str, LoggedSpan] = {}
        for _, call, start in pending:
            name = call.stage.name
            if name not in opened:
                opened[name] = spans.begin_stage(name)
                opened[name].note(overlap=True)
                opened[name].texts = (start, start) if spans.with_texts else None
        try:
            yield [(block, call.within(opened[call.stage.name]), start) for block, call, start in pending]
        except BaseException as error:
            for span in opened.values():
                span.failed(error)
            raise
        finally:
            for span in opened.values():
                spans.end(span)

    def _take_pending(self) -> list[Pending]:
        """Return the checks that wait for the model call, and let them wait no more."""
        pending = self._state.pending or []
        if pending:
            self._state.pending = []
        return pending

    def _checked(self, pending: Sequence[Pending], end: Payload) -> Outcome:
        """Return the outcome of the checks that ran beside the model: their verdict and facts count, nothing else."""
        _, call, start = pending[-1]
        stage = STAGES[call.stage.name]
        records = self._records(*(each[1] for each in pending))
        conversation = self._conversation
        if self.tripwire is not None:
            return self._stopped(stage)
        if end.tripwire is not None:
            return self._blocked(stage, call, conversation.payload, end, records)
        conversation.queued_from = None
        conversation.add_facts(start.facts, end.facts)
        return Outcome(call, Payload(self.message_list, self.facts, EMPTY, end.data), records)

    async def _drained(self) -> bool:
        """Run the checks that still wait for the model, since nothing may pass them; return whether one trips."""
        while self._state.pending:
            with self._beside(self._state.pending[:1]) as checks:
                block, call, start = checks[0]
                end = await execute(block, call, start)
            if end.tripwire is not None:
                self._blocked(STAGES[call.stage.name], call, self._conversation.payload, end, no_records)
                return True
            self._conversation.add_facts(start.facts, end.facts)
            del self._state.pending[:1]
        self._conversation.queued_from = None
        return False

    # Answers that are streamed

    def _hold_until(self, release: Release, *, held: bool = False) -> Hold:
        if release not in _RELEASES:
            raise UsageError(f"release must be one of {', '.join(_RELEASES)}, not {release!r}")
        needed = self._plans.release
        if release == "auto":
            return needed
        if release == "live" and needed != "live" and not held and not self._plans.warned_live:
            self._plans.warned_live = True
            log.warning(
                "%s: answers leave before process_output_%s has judged them; what it rejects is retracted (said once)",
                self._plans.name,
                needed,
            )
        return release

    class _AnswerStream:
        """The run as the stream of one answer uses it; a `StreamHost`. It stands within `Run`, whose parts it uses."""

        __slots__ = ("_answers", "_before", "_call", "_info", "_last", "_run", "_span", "_sync", "has_checks")

        _call: StageCall
        _before: Payload
        _span: LoggedSpan | None

        def __init__(self, run: Run, info: dict[str, Value], *, last: bool, sync: bool, answers: bool) -> None:
            self._run = run
            self._answers = answers
            self._info = info
            self._last = last
            self._sync = sync
            self._span = None
            self.has_checks = bool(run._state.pending)

        @property
        def tripwire(self) -> Tripwire | None:
            return self._run.tripwire

        async def run_checks(self) -> Outcome:
            run = self._run
            if self._sync:  # nothing runs beside the stream, so the checks run before it
                await run._drained()
                return run._stopped(STAGES["process_input"])
            return (await run._run_with_checks(_nothing))[1]

        def begin(self) -> tuple[StageCall, Payload]:
            run = self._run
            self._call = StageCall(run._state, STREAM, EMPTY, NO_IDS)
            spans = run._state.parts
            if spans is not None and (run.serves(STREAM.name) or spans.with_texts):
                self._span = spans.begin_stage(STREAM.name)
                self._call = self._call.within(self._span)
            self._before = run._conversation.begin(STREAM, run._state)
            if self._answers:
                run._conversation.begin_answer(self._before.message_list)
            return self._call, self._before

        def passed(self, end: Payload, sent: Sequence[str], *, edited: bool) -> Outcome:
            if sent:
                self._run._answers.note_sent(len(self._before.message_list.response), sent)
            return self._judged(self._run._ended(STREAM, self._call, self._before, end, edited=edited))

        def _judged(self, outcome: Outcome) -> Outcome:
            if self._span is not None:
                self._span.judged(outcome.tripwire)
            return outcome

        def stopped(self, tripwire: Tripwire, failure: Exception | None) -> Outcome:
            run = self._run
            if run.tripwire is not None:
                return self._judged(run._stopped(STREAM))
            end = self._before.stopped(tripwire, failure)
            return self._judged(run._blocked(STREAM, self._call, self._before, end, run._records(self._call)))

        def left(self, sent: int) -> None:
            self._run.drop_unsent(sent)

        def chunk_log(self) -> HeldMeter | None:
            spans = self._run._state.spans
            if spans is None or not (spans.with_texts or spans.observed):
                return None
            from penstock.engine.streams.builder import plain_hooks  # loaded where an answer is streamed
            from penstock.engine.tracing.chunk_log import ChunkLog, HeldMeter  # loaded where somebody asks

            if spans.with_texts:
                return ChunkLog()
            return None if plain_hooks(self._run._plans.stage(STREAM.name)) else HeldMeter()

        def closed(self, error: BaseException | None, log: HeldMeter | None) -> None:
            span, spans = self._span, self._run._state.spans
            if span is None or spans is None:
                return
            from penstock.engine.tracing.chunk_log import ChunkLog  # loaded where somebody asks

            if log is not None and spans.observed:
                span.note(held=log.most)
            if isinstance(log, ChunkLog):
                span.chunks = log.entries
            if error is not None and not isinstance(error, (GeneratorExit, AbandonedError)):
                span.failed(error)
            elif "status" not in span.details:  # nobody read it to its end
                span.status = "failed"
                span.note(status="failed", abandoned=True)
            spans.end(span)

        async def judge(
            self, answer: Message, hold: Hold, held: list[Chunk]
        ) -> tuple[Outcome, Message | None, list[Chunk]]:
            run = self._run
            earlier = len(run.message_list.response)
            answer = run.message_list.completed(answer)
            info = FrozenDict({**info_of(answer, held), **self._info})
            try:
                outcome = await run.judge_step(answer, info)
            except BaseException:  # no verdict, so it is not sent
                run.forget((answer.id,))
                raise
            if outcome.blocked or outcome.suspended:
                return outcome, None, []
            after = outcome.message_list.get(answer.id)
            leaving = edited_chunks(held, answer, after)
            if (
                after is not None and not after.parts
            ):  # it was judged, but no provider takes a message that says nothing
                run.message_list = run.message_list.remove(after.id)
            if hold == "step":
                run._answers.note_sent(earlier, texts_of(leaving))
                run._answers.let_go(answer.id, len(leaving))
                return outcome, after, leaving
            judged = answer if after is None else after  # one that was removed still has an end that is sent
            run._answers.hold(judged, leaving)
            if not self._last or (after is not None and open_calls(after)):
                return outcome, after, []
            try:
                outcome = await run._run(STAGES["process_output_result"], None, EMPTY, info)
            except BaseException:
                run._drop_held()
                raise
            if outcome.suspended:
                return outcome, None, []
            return outcome, outcome.message_list.get(answer.id), [] if outcome.blocked else list(outcome.chunks)


_NOTHING_SAID = Payload(MessageList())
"""The defaults of a run without ids or a clock of its own."""

_UNTOLD = nullcontext()
"""The part of a run that no observer sees and no trace holds: its context manager does nothing."""


@contextmanager
def _part_of(
    spans: SpanLog, kind: Literal["model_step", "model", "tool"], path: str, name: str, called: Values | None
) -> Generator[LoggedSpan]:
    """Open a part of a run in its log, and end it at the end of the block."""
    span = spans.part(kind, path, name, called)
    try:
        yield span
    except (GeneratorExit, AbandonedError):  # the caller gave the part up
        span.note_default(abandoned=True)
        raise
    except BaseException as error:
        span.note_default(error=type(error).__name__)
        raise
    finally:
        spans.end(span)


async def _nothing() -> None:
    """Return at once: stands in for a model call where the checks run beside a stream."""
