"""What a run and one call of a stage share between steps: state, request context, counters; it knows no executor."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio

from penstock.engine.values.usage import UsageLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.processor.payload import Payload
    from penstock.engine.tasks import BackgroundTasks
    from penstock.engine.values.facts import AnyKey
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Observer
    from penstock.engine.values.tripwire import Record, Tripwire


class NewState(Protocol):
    """Makes a state; no `Callable`, which pyright takes for a method where it is kept in a slot."""

    def __call__(self) -> Value:
        """Return a new state."""
        ...


class StepLike(Protocol):
    """What a context needs to know of the step it is made for."""

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
        """Whether it may ask to be woken in a stream."""
        ...

    @property
    def ends(self) -> bool:
        """Whether it may end a stream before its source does."""
        ...

    @property
    def new_state(self) -> NewState:
        """Makes the step's state for a request."""
        ...


class StageLike(Protocol):
    """What a context needs to know of its stage."""

    @property
    def name(self) -> str:
        """The stage's name."""
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
    """What all stages of one request share. Lives as long as the request.

    Attributes:
        run_id: the run's id.
        request_context: the caller's mapping; whatever a hook sets is seen by later ones.
        states: one object for each step, by path.
        retry_count: how often the model's answer was rejected since the last accepted one.
        step_number: the attempts of the model so far, from 0.
        records: what steps did, where somebody wants to know; else None.
        observers: whom to tell.
        listening: whether anybody wants records.
        shadow: whether this is a state beside the real one, for what changes nothing.
        background: runs what goes on beside, where the run has made room for it.
        verdicts: verdicts of steps that were cut off before they could tell, by path.
        stopped: the verdict that ended the run, if one did.
        pending: overlapping checks wait here for the model call; None where they run in line.
        error_retries: how often the model call of the step at hand was made again because it had failed.
        account: what models took.
        at_end: who wants to be told how the run ended.
    """

    __slots__ = (
        "account",
        "at_end",
        "background",
        "error_retries",
        "listening",
        "observers",
        "pending",
        "records",
        "request_context",
        "retry_count",
        "run_id",
        "shadow",
        "states",
        "step_number",
        "stopped",
        "verdicts",
    )

    def __init__(
        self,
        run_id: str,
        request_context: dict[str, Value],
        records: list[Record] | None,
        observers: Sequence[Observer],
    ) -> None:
        self.run_id = run_id
        self.request_context = request_context
        self.states: dict[str, Value] = {}
        self.retry_count = 0
        self.step_number = 0
        self.records = records
        self.observers = observers
        self.listening = records is not None or bool(observers)
        self.shadow = False
        self.verdicts: dict[str, Tripwire] = {}
        self.background: BackgroundTasks | None = None
        self.stopped: Tripwire | None = None
        self.pending: list[Any] | None = None
        self.error_retries = 0
        self.account = UsageLog()
        self.at_end: list[AtEnd] = []

    def state_of(self, step: StepLike) -> Value:
        """Return the step's state, made on first use."""
        try:
            return self.states[step.path]
        except KeyError:
            return self.states.setdefault(step.path, step.new_state())

    def shadowed(self) -> RunState:
        """Return a state beside this one: what is written to its request context is its own."""
        beside = RunState(self.run_id, dict(self.request_context), self.records, self.observers)
        beside.states = self.states
        beside.account, beside.at_end = self.account, self.at_end  # what is spent beside is spent
        beside.retry_count, beside.step_number = self.retry_count, self.step_number
        beside.shadow = True
        return beside


class StageCall:
    """What the steps of one call of a stage share. Never changed.

    Attributes:
        run: what the whole request shares.
        stage: the stage's row.
        info: what the caller told about this call (usage, error, tool name …), read-only.
        fresh: the ids of the messages that came with this call.
    """

    __slots__ = ("fresh", "info", "run", "stage")

    def __init__(self, run: RunState, stage: StageLike, info: Values, fresh: frozenset[str]) -> None:
        self.run = run
        self.stage = stage
        self.info = info
        self.fresh = fresh

    def shadowed(self) -> StageCall:
        """Return a call beside this one, which changes nothing."""
        return StageCall(self.run.shadowed(), self.stage, self.info, self.fresh)


_LOG = logging.getLogger("penstock")

PATIENCE = 5.0
"""Seconds for all that waits at the end of a run: whoever asked for the run is not to wait for it longer."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended.

    Attributes:
        message_list: the conversation as the run left it.
        tripwire: the verdict that stopped it, if one did.
        completed: whether it came to its end: no verdict, no error, no cancellation.
    """

    message_list: MessageList
    tripwire: Tripwire | None
    completed: bool


AtEnd: TypeAlias = "Callable[[RunEnd], Awaitable[None] | None]"
"""Is told once how a run ended; what it returns to be awaited is given `PATIENCE` seconds."""


async def tell(waiting: list[AtEnd], ended: RunEnd) -> None:
    """Tell everybody, the last first. What one raises is logged, and keeps no other from being told."""
    left: list[Awaitable[None]] = []
    while waiting:
        callback = waiting.pop()
        try:
            more = callback(ended)
        except Exception as error:  # noqa: BLE001 - a run's outcome does not hang on it
            _report(error)
        else:
            if more is not None:
                left.append(more)
    if not left:
        return
    with anyio.move_on_after(PATIENCE, shield=True) as scope:
        for rest in left:
            try:
                await rest
            except Exception as error:  # noqa: BLE001 - see above
                _report(error)
    if scope.cancelled_caught:
        _LOG.warning("what was to be done at the end of a run took longer than %s s, and was cut off", PATIENCE)


def _report(error: Exception) -> None:
    _LOG.warning("what was to be done at the end of a run failed: %s", type(error).__name__)
