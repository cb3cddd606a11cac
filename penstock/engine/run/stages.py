"""`RunCore`: how any stage of one request is run. It knows plans and the executor, and lives as long as the request.

It keeps the conversation, facts and state from stage to stage, the retry budgets, and the verdict: once a run is
stopped, no hook runs any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias, TypeVar

from penstock.engine.execution.executor import execute, overlapped
from penstock.engine.execution.outcome import ModelOutcome, Outcome
from penstock.engine.graph.plan import waiting_steps
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STAGES
from penstock.engine.processor.state import RunEnd, RunState, StageCall, tell
from penstock.engine.run.conversation import NONE_FRESH, Conversation, taken_in
from penstock.engine.tasks import BackgroundTasks
from penstock.engine.values.errors import UsageError
from penstock.engine.values.facts import laid_over
from penstock.engine.values.frozen import EMPTY, FrozenDict, Value, Values, json_value
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.ports import RANDOM_IDS, SYSTEM_CLOCK
from penstock.engine.values.usage import UsageEntry

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.engine.graph.plan import Block
    from penstock.engine.graph.plans import Plans
    from penstock.engine.processor.stages import Stage
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import Usage
    from penstock.engine.values.ports import Clock, Ids, Observer
    from penstock.engine.values.tripwire import Record, Tripwire

T = TypeVar("T")
Stepping = Coroutine[object, None, Outcome]
Pending: TypeAlias = "tuple[Block, StageCall, Payload]"
"""A check that waits for the model call: what to run, for which call, on what."""


class Held(NamedTuple):
    """An answer that waits for the last stage: its message, its chunks, and those that follow it."""

    message: Message
    chunks: list[Chunk]
    behind: list[Chunk]


_API_ERROR = STAGES["process_api_error"]

MAX_ERROR_RETRIES = 3
"""How often a failed model call is made again by default (the reference's figure, runtime.md §12)."""


class RunCore:
    """One request: its conversation and state, and how any of its stages is run.

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
        observers: Sequence[Observer] = (),
        overlap: bool = False,
        max_processor_retries: int | None = None,
        max_error_retries: int = MAX_ERROR_RETRIES,
        ids: Ids = RANDOM_IDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        _check_retries("max_processor_retries", 0 if max_processor_retries is None else max_processor_retries)
        _check_retries("max_error_retries", max_error_retries)
        self._ledger = Conversation(MessageList(ids=ids, clock=clock), max_processor_retries or 0, max_error_retries)
        self._ready: dict[str, tuple[Block | None, StageCall]] = {}
        self.tripwire: Tripwire | None = None
        self._plans = plans
        self._state = RunState(
            run_id or ids.next(), {} if request_context is None else request_context, [] if records else None, observers
        )
        self._state.pending = [] if overlap else None
        self._shown: list[tuple[int, Sequence[str]]] = []  # texts that are out: how many answers were before, their ids
        self._held: list[Held] = []  # answers that wait for the last stage
        self._stream_mark = 0
        self._abandoned = False

    @property
    def message_list(self) -> MessageList:
        """The conversation as it stands; a host that keeps it may set it."""
        return self._ledger.payload.message_list

    @message_list.setter
    def message_list(self, messages: MessageList) -> None:
        self._ledger.payload = Payload(messages, self._ledger.payload.facts)

    @property
    def facts(self) -> Facts:
        """What steps found out so far, by key."""
        return self._ledger.payload.facts

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
        """How often the model's answer was rejected since the last accepted one."""
        return self._state.retry_count

    @property
    def step_number(self) -> int:
        """The number of the model step at hand, from 0; rejected attempts count."""
        return self._state.step_number

    @property
    def records(self) -> tuple[Record, ...]:
        """What the steps of all stages did, if the run was started with ``records=True``."""
        return tuple(self._state.records or ())

    async def call_model(self, call: Callable[[], Awaitable[T]]) -> ModelOutcome[T]:
        """Call the model, with the checks that overlap beside it; what it gives is held until their verdict.

        Args:
            call: makes the model call; cancelled if a check trips. What it raises comes out, unless a check trips.
        """
        if self.tripwire is not None:
            return ModelOutcome(None, self._stopped(STAGES["process_input"]))
        pending = self._take_pending()
        if not pending:
            return ModelOutcome(await call(), None)
        mark = self._mark()
        try:
            value, end = await overlapped(pending, call)
        except BaseException:
            self._state.pending = pending  # they gave no verdict, so they still have to
            raise
        outcome = self._checked(pending, end, mark)
        return ModelOutcome(None if outcome.blocked else value, outcome)

    def serves(self, stage: str) -> bool:
        """Tell whether any step has that stage."""
        return self._plans.stage(stage) is not None

    @property
    def waits_beside(self) -> bool:
        """Whether something of the workflow may go on beside the model, so that its stream needs tasks of its own."""
        return self._plans.waits_beside

    def is_sync(self, stage: str) -> bool:
        """Tell whether no step of that stage can wait, so that it can run without an event loop."""
        block = self._plans.stage(stage)
        return block is None or block.sync

    def waiting_steps(self, stage: str) -> tuple[str, ...]:
        """Return the paths of the steps for which that stage has to wait."""
        return waiting_steps(self._plans.stage(stage))

    async def __aenter__(self) -> Self:
        """Make room for what goes on beside."""
        if self._plans.shadowed:
            self._state.background = BackgroundTasks()
            await self._state.background.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for shadows, tell who wants to know how it ended, and refuse to end with checks that never ran."""
        background, self._state.background = self._state.background, None
        try:
            if background is not None:
                await background.close(error)
        finally:
            self._forget_held()
            if self._state.at_end:
                completed = error is None and self.tripwire is None and not self._abandoned
                await tell(self._state.at_end, RunEnd(self.message_list, self.tripwire, completed))
        if self._take_pending() and error is None and self.tripwire is None and not self._abandoned:
            raise UsageError("overlapping checks never ran: call the model through run.call_model(...)")

    def spend(self, model: str, usage: Usage | None, *, attempts: int = 1) -> None:
        """Enter what a model took that answered in this run."""
        self._state.account.enter(UsageEntry(model, usage, attempts=attempts))

    @property
    def spent(self) -> tuple[UsageEntry, ...]:
        """What models took in this run so far, judges included."""
        return self._state.account.spent

    # How a stage is run

    async def _run(self, stage: Stage, messages: object, fields: Values, info: Values) -> Outcome:
        block, call = self._ready.get(stage.name) or self._made_ready(stage)
        if self.tripwire is not None:
            return self._stopped(stage).after_verdict()
        if self._state.pending and not stage.overlaps and await self._drained():
            return self._stopped(stage)
        before = start = self._ledger.begin(stage, self._state)
        fresh = NONE_FRESH
        current = before.message_list
        if messages is not None:
            self._ledger.answers(stage, before)
            current, fresh = taken_in(stage, messages, current)
        if fields or current is not before.message_list:
            start = Payload(current, before.facts, fields)
        if info is not EMPTY or fresh is not NONE_FRESH:
            call = StageCall(self._state, stage, info, fresh)
        mark = self._mark()
        end = start if block is None else await execute(block, call, start)
        return self._ended(stage, call, before, end, mark)

    def _mark(self) -> int:
        """Return how many records there are so far."""
        return 0 if self._state.records is None else len(self._state.records)

    def _made_ready(self, stage: Stage) -> tuple[Block | None, StageCall]:
        """Return a stage's plan, and its call where nothing more is told: both the same for the whole run."""
        ready = (self._plans.stage(stage.name), StageCall(self._state, stage, EMPTY, NONE_FRESH))
        self._ready[stage.name] = ready
        return ready

    def _tool(self, stage: Stage, value: dict[str, Value], tool_name: str, call_id: str, **info: Value) -> Stepping:
        checked = FrozenDict({name: json_value(item, name) for name, item in value.items()})
        return self._run(stage, None, checked, FrozenDict(tool_name=tool_name, call_id=call_id, **info))

    def _ended(self, stage: Stage, call: StageCall, before: Payload, end: Payload, mark: int) -> Outcome:
        """Keep what the stage left, or roll it back, and return its outcome."""
        if self.tripwire is not None:  # another call of this run was stopped meanwhile: this one may not pass
            return self._stopped(stage)
        kept = self._state.records
        records = () if kept is None else [record for record in kept[mark:] if record.stage == stage.name]
        if end.tripwire is not None:
            return self._blocked(stage, call, before, end, records)
        if end is not self._ledger.payload:
            self._ledger.keep(stage, before, end)
        if self._state.pending and self._ledger.queued_from is None:
            self._ledger.queued_from = before
        self._ledger.passed(stage, self._state)
        if stage is _API_ERROR and "retry" in end.fields:
            return Outcome(call, end, records, self._ledger.grant_error_retry(self._state))
        return Outcome(call, end, records)

    def _blocked(
        self, stage: Stage, call: StageCall, before: Payload, end: Payload, records: Sequence[Record]
    ) -> Outcome:
        """Roll back what was judged; end the run, unless the model gets another attempt."""
        self._state.verdicts.clear()
        verdict = end.tripwire
        granted = verdict is not None and self._ledger.reject(stage, verdict, self._state)
        if verdict is not None and not granted:
            self._stop(verdict)
        self._ledger.roll_back(stage, self._ledger.queued_from or before, ends=not granted)
        if not granted:
            self._forget_held()
        return Outcome(call, self._ledger.payload.stopped(verdict, end.failure), records, granted)

    def abandon(self) -> None:
        """Give the run up: it is not completed, shadows end, answers that wait for the last stage are taken back."""
        self._abandoned = True
        self._forget_held()
        if self._state.background is not None:
            self._state.background.cancel()

    def _forget_held(self) -> None:
        if self._held:
            waiting = [held.message.id for held in self._held if held.message.id in self.message_list]
            self._held = []
            self.message_list = self.message_list.remove(*waiting)

    # Verdicts and retries

    def _stop(self, tripwire: Tripwire) -> None:
        self.tripwire = self._state.stopped = tripwire
        self._take_pending()
        if self._state.background is not None:
            self._state.background.cancel()

    def _take_pending(self) -> list[Pending]:
        """Return the checks that wait for the model call, which from now on wait no more."""
        pending = self._state.pending or []
        if pending:
            self._state.pending = []
        return pending

    def _checked(self, pending: list[Pending], end: Payload, mark: int) -> Outcome:
        """Return the outcome of the checks that ran beside the model: their verdict and facts count, nothing else."""
        _, call, start = pending[-1]
        stage = STAGES[call.stage.name]
        records = () if self._state.records is None else self._state.records[mark:]
        ledger = self._ledger
        if self.tripwire is not None:
            return self._stopped(stage)
        if end.tripwire is not None:
            return self._blocked(stage, call, ledger.payload, end, records)
        ledger.queued_from = None
        ledger.payload = Payload(ledger.payload.message_list, laid_over(ledger.payload.facts, start.facts, end.facts))
        return Outcome(call, Payload(ledger.payload.message_list, ledger.payload.facts, EMPTY, end.data), records)

    def _stopped(self, stage: Stage) -> Outcome:
        """Return the outcome of a stage after the run was stopped: the same verdict, and nothing ran."""
        return Outcome(self._made_ready(stage)[1], self._ledger.payload.stopped(self.tripwire))

    async def _drained(self) -> bool:
        """Run the checks that were to overlap and did not, since nothing may pass them. Tell whether one trips."""
        ledger = self._ledger
        while self._state.pending:
            block, call, start = self._state.pending[0]
            end = await execute(block, call, start)
            if end.tripwire is not None:
                self._blocked(STAGES[call.stage.name], call, ledger.payload, end, ())
                return True
            ledger.payload = Payload(ledger.payload.message_list, laid_over(self.facts, start.facts, end.facts))
            del self._state.pending[:1]
        ledger.queued_from = None
        return False


def _check_retries(option: str, given: Value) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise UsageError(f"{option} is a number of retries, 0 or more, not {given!r}")
