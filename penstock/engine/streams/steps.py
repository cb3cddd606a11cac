"""The steps of one stream: their contexts, effects, records, and how their failures are handled.

A verdict leaves the graph as `Stopped`, which only this package raises and catches.
"""

from __future__ import annotations

import math
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.execution.boundary import (
    after_failure,
    as_failure,
    failure_verdict,
    log,
    passes_through,
    record,
)
from penstock.engine.graph.plan import plan_steps
from penstock.engine.processor.context import OutputStreamContext
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.tasks import call_later
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.tripwire import verdict_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.graph.plan import HookCall, PlanPolicy, PlanStep
    from penstock.engine.processor.state import StageCall
    from penstock.engine.streams.sources import TaskReader
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.facts import AnyKey
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Tripwire

T = TypeVar("T")

_MOST_EDITS = 1000  # on one record, since a stream can be long


class Stopped(Exception):  # noqa: N818 - a verdict, no error
    """Carries a verdict to the `OutputStream`.

    Attributes:
        tripwire: the verdict.
        failure: the failure behind it, if a step failed.
    """

    def __init__(self, tripwire: Tripwire, failure: Exception | None = None) -> None:
        self.tripwire = tripwire
        self.failure = failure
        super().__init__(tripwire.reason)


class StreamCall:
    """State that the steps of one stream share.

    Attributes:
        stage_call: the call of the stage: run and stage.
        payload: the conversation, and the facts, which grow while the stream runs.
        facts: the same facts; hooks see a step's new ones with later chunks.
        steps: the steps, in declared order.
        edited: whether a step changed anything; known when they are closed.
        ending: why a step asked to end the source early; None while none did.
        closing: functions to call at the end of the stream, to close shadows.
        written: data chunks that hooks wrote while they judged texts; they leave with the next release.
        watching: whether a timer runs that looks for steps for which the stream waits for long.
        reader: reads the source while guards look at texts; None if no guard waits.
    """

    __slots__ = (
        "_stop_watching",
        "closing",
        "edited",
        "ending",
        "facts",
        "payload",
        "reader",
        "stage_call",
        "steps",
        "watching",
        "written",
    )

    def __init__(self, stage_call: StageCall, payload: Payload, facts: dict[AnyKey, Value]) -> None:
        self.stage_call = stage_call
        self.payload = payload
        self.facts = facts
        self.steps: list[StreamStep] = []
        self.written: list[Chunk] = []
        self.edited = False
        self.ending: str | None = None
        self.closing: list[Callable[[], None]] = []
        self.watching = False
        self.reader: TaskReader | None = None
        self._stop_watching: Callable[[], None] | None = None

    def open_step(self, step: PlanStep, call: StageCall) -> StreamStep:
        """Return a step for this stream; ``call`` is the call of the stage within the branch that the step is in."""
        made = StreamStep(step, self, call)
        self.steps.append(made)
        return made

    def watch(self) -> None:
        """Look after a while for steps for which the stream waits for long, and again as long as it waits for one."""
        self.watching = True
        self._stop_watching = call_later(LONG, self._look)

    def _look(self) -> None:
        now = monotonic()
        for step in self.steps:
            if now - step.since >= LONG:
                step.warn_slow()
        begun = [step.since for step in self.steps if step.since < math.inf and not step.step.warned_slow]
        self.watching = bool(begun)
        if begun:
            self._stop_watching = call_later(LONG - now + min(begun), self._look)

    def for_shadow(self) -> StreamCall:
        """Return a copy for a shadow: it sees the same, and its facts stay its own."""
        facts = dict(self.facts)
        payload = Payload(self.payload.message_list, facts)
        return StreamCall(self.stage_call.shadowed(), payload, facts)

    def cut_off(self, block: PlanPolicy) -> None:
        """Note that the steps of a block were cut off by a timeout, which is on record already."""
        inside = list(plan_steps(block.block))
        for step in self.steps:
            if step.step in inside:
                step.cut_off(told=step.step.path == block.path)

    def close(self) -> None:
        """Record the effects of each step."""
        for step in self.steps:
            step.close()
            self.edited = self.edited or step.changed
        for close in self.closing:
            close()
        if self._stop_watching is not None:
            self._stop_watching()
        self.steps, self.closing, self._stop_watching = [], [], None


LONG = 10.0
"""Seconds after which the log says that a stream waits for a step."""


class StreamStep:
    """One step in one stream.

    Attributes:
        step: the step.
        ctx: its context, one for the whole stream.
        changed: whether it changed anything so far.
        enclosing: encloses the calls of its hooks; None if no observer wants that.
        since: when the stream began to wait for the step, in seconds of `time.monotonic`; infinity while it does not.
    """

    __slots__ = ("_call", "_done", "_edits", "_shared", "_span", "changed", "ctx", "enclosing", "since", "step")

    def __init__(self, step: PlanStep, shared: StreamCall, call: StageCall) -> None:
        self.step = step
        self._shared = shared
        self._call = call
        self.ctx: OutputStreamContext = OutputStreamContext(call, step, shared.payload)
        self.changed = False
        self.since = math.inf
        self._edits: tuple[tuple[TextPlace, Edit], ...] = ()
        self._done = False
        spans = call.run.spans
        self._span = None if spans is None else call.begin("step", step.path, step.processor_id)
        self.enclosing = None if spans is None or self._span is None else spans.enclosed(self._span)

    def enclosed(self, hook: HookCall, *, awaits: bool = False) -> HookCall:
        """Return one of the step's functions as observers want it called."""
        return hook if self.enclosing is None else self.enclosing.around(hook, awaits=awaits)

    async def watched(self, waiting: Awaitable[T]) -> T:
        """Wait for a hook; say so in the log, once, if the stream has waited for it for `LONG` seconds."""
        self.since = self.watched_since()
        try:
            return await waiting
        finally:
            self.since = math.inf

    def watched_since(self) -> float:
        """Return the time for `since`, and have it watched from now on."""
        if not self._shared.watching:
            self._shared.watch()
        return monotonic()

    def warn_slow(self) -> None:
        """Say in the log, once, that the stream waits for the step."""
        if not self.step.warned_slow:
            self.step.warned_slow = True
            log.warning(
                "%s has held a stream for %g seconds and still does; place it with timeout= if it may hang (said once)",
                self.step.path,
                LONG,
            )

    async def looked(self, waiting: Awaitable[T]) -> T:
        """Wait for a guard that looks at a text, as `watched` does; the source may be read meanwhile."""
        reader = self._shared.reader
        if reader is None:
            return await self.watched(waiting)
        reader.look_begins()
        try:
            return await self.watched(waiting)
        finally:
            reader.look_ends()

    @property
    def has_more_text(self) -> bool:
        """Whether another piece of text has come already."""
        reader = self._shared.reader
        return reader is not None and reader.has_more_text()

    def take_effects(self) -> list[Chunk]:
        """Apply the hook's effects through its context; return the data chunks that it wrote.

        Raises:
            Stopped: it aborted.
            WrongReturnError: it derived a message list, which has no effect in a stream.
        """
        self._shared.ending = self._shared.ending or self.ctx.end
        effects = self.ctx.effects
        if effects is None:
            return []
        if effects.tripwire is not None:
            raise self._stopped(effects.tripwire)
        if effects.facts is not None:
            self._shared.facts.update(effects.facts)
            effects.facts = None
        if effects.return_check is not None and effects.return_check.derived:
            effects.return_check = None
            raise WrongReturnError(
                "it derived a list from ctx.message_list, which has no effect in a stream; return chunks instead"
            )
        written, effects.data = effects.data, None
        return written or []

    def keep_written(self) -> None:
        """Apply the effects of judging a text; data chunks leave with the next release."""
        if self.ctx.effects is not None:
            self._shared.written.extend(self.take_effects())

    def broke(self, error: BaseException) -> None:
        """Handle an exception of a hook. Returns if the step's policy lets the stream go on without the step.

        Raises:
            Stopped: it is a verdict, or a failure that blocks.
            StepFailedError: it is a failure, and the policy is to raise.
        """
        effects = self.ctx.effects
        if passes_through(error):
            if effects is not None and effects.tripwire is not None:  # for a timeout that is about to end this step
                self._call.run.verdicts[self.step.path] = effects.tripwire
            self.cut_off(told=False)
            raise error
        if isinstance(error, Stopped):
            raise error
        verdict = effects.tripwire if effects is not None and effects.tripwire is not None else verdict_in(error)
        if verdict is not None:
            raise self._stopped(verdict) from error
        step = self.step
        failure = as_failure(step.path, step.processor_id, self._call.stage.name, error)
        blocked = failure_verdict(failure) if step.on_error == "block" else None
        self._record("failed", blocked, type(error).__name__)
        after = after_failure(step.on_error, self._shared.payload, failure, blocked, step)
        if after.tripwire is not None:
            raise Stopped(after.tripwire, failure) from error

    def stamp(self, edits: Edits) -> Edits:
        """Return edits under the name of the step; those of a guard hide the replaced text."""
        return edit_ops.stamp(edits, self.step.path, hides=self.step.role == "guard")

    def note_edits(self, place: TextPlace, edits: Edits) -> None:
        """Keep edits for the record."""
        self.changed = True
        if self._span is not None and len(self._edits) < _MOST_EDITS:
            self._edits += tuple([(place, edit) for edit in edits])

    def cut_off(self, *, told: bool) -> None:
        """Note that it was cut off, as by a timeout: its record does not say *passed*, but may say *edited*."""
        self._done = self._done or told or not self.changed

    def close(self) -> None:
        """Record its effects, unless they are on record already."""
        if not self._done:
            self._record("edited" if self.changed else "passed")

    def _stopped(self, tripwire: Tripwire) -> Stopped:
        self._record("tripped", tripwire)
        return Stopped(tripwire)

    def _record(self, status: Value, tripwire: Tripwire | None = None, error: str | None = None) -> None:
        self._done = True
        if self._span is not None:
            edits, self._edits = self._edits, ()
            effects = self.ctx.effects
            record(self._call, self.step, status, self._span, effects, edits=edits, tripwire=tripwire, error=error)
