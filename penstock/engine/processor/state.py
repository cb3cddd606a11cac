"""`RunState` and `StageCall`: state shared by the steps of one run, and of one call of a stage; and how a run ended."""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.engine.tracing.span_log import LoggedSpan
from penstock.engine.values.usage import UsageLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.processor.payload import Payload
    from penstock.engine.processor.questions import StageQuestions
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.tracing.span import SpanKind
    from penstock.engine.tracing.span_log import SpanLog
    from penstock.engine.values.facts import AnyKey
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.judging import JudgeLog
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Tripwire

States: TypeAlias = "dict[str, Value]"
"""The states of processors, by the paths of their steps."""


class NewState(Protocol):
    """Makes a state. A protocol, because pyright takes a `Callable` in a slot for a method."""

    def __call__(self) -> Value:
        """Return a new state."""
        ...


class StepLike(Protocol):
    """The part of a step that its context uses."""

    @property
    def path(self) -> str:
        """The step's path in its workflow."""
        ...

    @property
    def processor_id(self) -> str:
        """The processor's id."""
        ...

    @property
    def provides(self) -> frozenset[AnyKey]:
        """The facts it may put."""
        ...

    @property
    def timed(self) -> bool:
        """Whether it may ask for a call of ``wake`` in a silent stream."""
        ...

    @property
    def ends(self) -> bool:
        """Whether it may end a stream before its source does."""
        ...

    @property
    def asks(self) -> bool:
        """Whether it may ask a person."""
        ...

    @property
    def allows(self) -> bool:
        """Whether its policy lets a run go on if it fails (``on_error="allow"``)."""
        ...

    @property
    def warned_open(self) -> bool:
        """Whether the log has warned that its failures let runs go on."""
        ...

    @warned_open.setter
    def warned_open(self, warned: bool) -> None: ...

    @property
    def new_state(self) -> NewState:
        """Makes the step's state for a request."""
        ...


class StageLike(Protocol):
    """The part of a stage that its context uses."""

    @property
    def name(self) -> str:
        """The stage's name."""
        ...

    @property
    def value(self) -> str:
        """The field of the JSON value that the stage is about; empty where it is about messages."""
        ...

    @property
    def shows(self) -> Callable[[MessageList], tuple[Message, ...]]:
        """Picks the messages that the stage shows."""
        ...

    @property
    def text(self) -> Callable[[Payload, StageCall], str]:
        """Gives the text that the stage is about."""
        ...


class RunState:
    """State shared by all stages of one request. Lives as long as the request.

    Attributes:
        run_id: the run's id.
        request_context: the caller's mapping; whatever a hook sets is seen by later ones.
        states: one object for each step, by path.
        retry_count: how often the model's answer was rejected since the last accepted one.
        step_number: the attempts of the model so far, from 0.
        spans: the log of its parts and steps; None unless it keeps records or has observers.
        shadow: whether this is the copy of the state that shadow steps use.
        background: runs async shadow steps; None outside of the run's ``async with``.
        verdicts: verdicts of steps that were cancelled before they could return them, by path.
        stopped: the verdict that ended the run, if one did.
        pending: checks that wait for the model call; None where they do not overlap it.
        error_retries: how often the failed model call of the current step was made again.
        usage_log: the usage of models.
        judge_log: the verdicts of judges, in a run that may go on elsewhere; else None.
        on_end: the callbacks to call when the run has ended.
    """

    __slots__ = (
        "background",
        "error_retries",
        "judge_log",
        "on_end",
        "pending",
        "request_context",
        "retry_count",
        "run_id",
        "shadow",
        "spans",
        "states",
        "step_number",
        "stopped",
        "usage_log",
        "verdicts",
    )

    def __init__(self, run_id: str, request_context: dict[str, Value]) -> None:
        self.run_id = run_id
        self.request_context = request_context
        self.states: States = {}
        self.retry_count = 0
        self.step_number = 0
        self.spans: SpanLog | None = None
        self.shadow = False
        self.verdicts: dict[str, Tripwire] = {}
        self.background: BackgroundTasks | None = None
        self.stopped: Tripwire | None = None
        self.pending: list[Any] | None = None
        self.error_retries = 0
        self.usage_log = UsageLog()
        self.judge_log: JudgeLog | None = None
        self.on_end: list[OnEnd] = []

    def state_of(self, step: StepLike) -> Value:
        """Return the step's state, made on first use."""
        states = self.states
        path = step.path
        return states[path] if path in states else states.setdefault(path, step.new_state())

    @property
    def parts(self) -> SpanLog | None:
        """The log, if parts other than steps are of interest, too."""
        return self.spans if self.spans is not None and self.spans.has_parts else None

    def shadowed(self) -> RunState:
        """Return a copy for shadow steps: their writes to the request context do not reach the run."""
        beside = RunState(self.run_id, dict(self.request_context))
        beside.states, beside.spans = self.states, self.spans
        beside.judge_log = self.judge_log
        beside.usage_log, beside.on_end = self.usage_log, self.on_end  # what shadow steps spend is spent, too
        beside.retry_count, beside.step_number = self.retry_count, self.step_number
        beside.shadow = True
        return beside

    def for_worker(self) -> RunState:
        """Return a copy for steps in a worker thread: the same, with a log of its own."""
        beside = copy(self)
        beside.spans = None if self.spans is None else self.spans.apart()
        return beside

    def without_log(self) -> RunState:
        """Return a copy without the log, for results that outlive the run."""
        beside = copy(self)
        beside.spans = None
        return beside


class StageCall:
    """Facts shared by the steps of one call of a stage. Never changed.

    Attributes:
        run: the state of the whole request.
        stage: the stage's row.
        info: the details that the caller gave for this call (usage, error, tool name …), read-only.
        fresh: the ids of the messages that came with this call.
        limited: whether a time limit applies, so that sync steps must run where they can be left.
        retried: whether a step that fails is tried again, so that it must not let a text pass on which it fails.
        span: the part of the run that the steps belong to: the stage, a branch, or an attempt; None without a log.
    """

    __slots__ = ("fresh", "info", "limited", "retried", "run", "span", "stage")

    def __init__(
        self, run: RunState, stage: StageLike, info: Values, fresh: frozenset[str], span: LoggedSpan | None = None
    ) -> None:
        self.run = run
        self.stage = stage
        self.info = info
        self.fresh = fresh
        self.limited = self.retried = False
        self.span = span

    @property
    def questions(self) -> StageQuestions | None:
        """The questions of its steps to persons; None where none of them may (`AskingCall`)."""
        return None

    @property
    def holding(self) -> bool:
        """Whether the steps stand behind one that waits for a person."""
        return False

    def within(self, span: LoggedSpan) -> StageCall:
        """Return a copy of the call for the steps of a part of the run."""
        made = StageCall(self.run, self.stage, self.info, self.fresh, span)
        made.limited, made.retried = self.limited, self.retried
        return made

    def before_retry(self) -> StageCall:
        """Return a copy of the call for a step that is tried again if it fails."""
        made = self._with(self.run)
        made.retried = True
        return made

    def shadowed(self) -> StageCall:
        """Return a copy of the call for shadow steps."""
        return self._with(self.run.shadowed())

    def under_limit(self) -> StageCall:
        """Return a copy of the call for steps under a time limit."""
        made = self._with(self.run)
        made.limited = True
        return made

    def for_worker(self) -> StageCall:
        """Return a copy of the call for steps in a worker thread. Their records are kept apart."""
        return self._with(self.run.for_worker())

    def without_log(self) -> StageCall:
        """Return a copy that names no part of the run."""
        made = self._with(self.run.without_log())
        made.span = None
        return made

    def begin(self, kind: SpanKind, path: str, name: str, number: int | None = None) -> LoggedSpan:
        """Begin a part of the run in this call: a step, a branch, or an attempt."""
        made = LoggedSpan(kind, name, self.span, path, self.stage.name, self.run.shadow)
        made.number = number
        return made

    def _with(self, run: RunState) -> StageCall:
        made = StageCall(run, self.stage, self.info, self.fresh, self.span)
        made.limited, made.retried = self.limited and run is self.run, self.retried
        return made


_LOG = logging.getLogger("penstock")

CALLBACK_SECONDS = 5.0
"""Seconds for all callbacks at the end of a run together, so that the caller does not wait for them longer."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended.

    Attributes:
        message_list: the conversation as the run left it.
        tripwire: the verdict that stopped it, if one did.
        completed: whether it came to its end: no verdict, no error, no cancellation.
        unchecked: whether checks that run beside the model call gave no verdict.
    """

    message_list: MessageList
    tripwire: Tripwire | None
    completed: bool
    unchecked: bool = False


OnEnd: TypeAlias = "Callable[[RunEnd], Awaitable[None] | None]"
"""A callback for the end of a run, sync or async; async ones get `CALLBACK_SECONDS` seconds together."""


async def call_on_end(callbacks: list[OnEnd], end: RunEnd) -> None:
    """Call every callback once, the last first. An error of one is logged, and the others are called all the same."""
    left: list[Awaitable[None]] = []
    while callbacks:
        callback = callbacks.pop()
        try:
            awaitable = callback(end)
        except Exception as error:  # noqa: BLE001 - the outcome of a run does not depend on its callbacks
            _log_failure(error)
        else:
            if awaitable is not None:
                left.append(awaitable)
    if not left:
        return
    import anyio  # takes long to import, so it is loaded where something waits

    with anyio.move_on_after(CALLBACK_SECONDS, shield=True) as scope:
        for rest in left:
            try:
                await rest
            except Exception as error:  # noqa: BLE001 - see above
                _log_failure(error)
    if scope.cancelled_caught:
        _LOG.warning("callbacks at the end of a run took longer than %s s and were cancelled", CALLBACK_SECONDS)


def _log_failure(error: Exception) -> None:
    _LOG.warning("a callback at the end of a run failed: %s", type(error).__name__)
