"""The step boundary: turns the result or the exception of a hook into a payload, a verdict, or a failure.

`TripwireSignal` is caught here and nowhere else. Cancellation by the caller and interrupts pass through: they are
neither verdicts nor failures.
"""

from __future__ import annotations

import inspect
import logging
import sys
import traceback
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from penstock.engine.graph.plan import TO_POLICY, plan_steps
from penstock.engine.merging.changes import followed_by
from penstock.engine.merging.diff import diff, edits_to_record, only_removes
from penstock.engine.processor.payload import NO_CHANGES, Gone, Overrides, Payload, Retry
from penstock.engine.processor.stages import STAGES, WrongReturnError, known_edits
from penstock.engine.tracing.span_log import LoggedSpan, masked
from penstock.engine.values.errors import ConditionError, DetectorError, EditError, StepFailedError, UsageError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.model import JudgeError
from penstock.engine.values.tripwire import Tripwire, TripwireSignal, verdict_in
from penstock.engine.workers import AbandonedError, TimeLimitError

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from penstock.engine.graph.plan import Block, PlanPolicy, PlanStep
    from penstock.engine.processor.context import AnyContext, Effects
    from penstock.engine.processor.payload import Changes, PayloadPath
    from penstock.engine.processor.state import StageCall
    from penstock.engine.tracing.span_log import PlacedEdits, SpanLog
    from penstock.engine.values.texts import KnownEdits
    from penstock.engine.values.tripwire import Status

log = logging.getLogger("penstock")

_QUOTABLE = (WrongReturnError, StepFailedError, DetectorError, ConditionError, EditError, UsageError, TimeLimitError)
"""The errors whose text quotes nothing of what was judged, unless a user's code raised them."""


def apply_result(
    call: StageCall, step: PlanStep, ctx: AnyContext, payload: Payload, result: object, span: LoggedSpan | None
) -> Payload:
    """Return the payload after a hook that returned; ``span`` is None if no records are wanted."""
    effects = ctx.effects
    if effects is not None:
        if effects.tripwire is not None:
            return _tripped(call, step, payload, effects, effects.tripwire, span)
        if effects.question is not None:
            return _asked(call, step, payload, effects, span)
    after, changes = payload, NO_CHANGES
    if result is not None or effects is not None:
        try:
            after = _applied(step, payload, effects, result)
            changes = _changes(step, payload, after, effects, result, listening=span is not None)
        except Exception as error:  # noqa: BLE001 - a result that cannot be applied is the step's failure
            return fail(call, step, payload, error, span, effects)
        if payload.changes is not None:
            after.changes = followed_by(payload.changes, changes)
    if span is not None:
        status: Status = "passed"
        edits: PlacedEdits = ()
        if after is not payload:
            status = "edited" if after.differs(payload) else "passed"
            texts = edits_to_record(payload, changes, step.path)
            edits = [(place, edit) for place, made in texts.items() for edit in made]
        record(call, step, status, span, effects, edits=edits, texts=(payload, after))
    return after


def apply_error(
    call: StageCall, step: PlanStep, ctx: AnyContext, payload: Payload, error: BaseException, span: LoggedSpan | None
) -> Payload:
    """Return the payload after a hook that raised; raise the error again if it is neither verdict nor failure."""
    effects = ctx.effects
    if passes_through(error):
        if effects is not None and effects.tripwire is not None:
            call.run.verdicts[step.path] = effects.tripwire  # in case a timeout is about to end this step
        raise error
    if effects is not None and effects.tripwire is not None:
        return _tripped(call, step, payload, effects, effects.tripwire, span)
    if effects is not None and effects.question is not None:
        return _asked(call, step, payload, effects, span)
    foreign = verdict_in(error)
    if foreign is not None:  # a verdict of a run inside the hook
        return _tripped(call, step, payload, effects, foreign, span)
    return fail(call, step, payload, error, span, effects)


def fail(
    call: StageCall,
    step: PlanStep,
    payload: Payload,
    error: BaseException,
    span: LoggedSpan | None,
    effects: Effects | None = None,
) -> Payload:
    """Return the payload after a failure, according to the step's policy, or raise a `StepFailedError`."""
    failure = as_failure(step.path, step.processor_id, call.stage.name, error)
    verdict = failure_verdict(failure) if step.on_error == "block" else None
    if span is not None:
        record(call, step, "failed", span, effects, tripwire=verdict, error=type(error).__name__)
    return after_failure(step.on_error, payload, failure, verdict, step)


def after_failure(
    on_error: str | None,
    payload: Payload,
    failure: StepFailedError,
    verdict: Tripwire | None = None,
    owner: PlanStep | PlanPolicy | None = None,
) -> Payload:
    """Return the payload after a failure: stopped (``block``) or unchanged (``allow``); otherwise raise the failure.

    A stage that handles another failure is not ended by this one: there the payload is unchanged, and the next step
    runs.
    """
    if on_error == "block":
        log.warning("%s%s; what it checks is blocked", failure, _judge_reason(failure))
        return payload.stopped(verdict or failure_verdict(failure), failure)
    if on_error == "allow":
        if owner is not None and not owner.warned_open:  # once for each plan
            owner.warned_open = True
            log.warning("%s; its policy lets the run go on without it (said once)", failure)
        return payload
    if failure.stage in _OUTLIVING and on_error != TO_POLICY:
        log.warning("%s; the next step is asked, and what the stage handles stays as it is", failure)
        return payload
    raise failure from failure.__cause__


_OUTLIVING = frozenset(stage.name for stage in STAGES.values() if stage.outlives_failures)
"""The stages that a failure does not end."""


def _judge_reason(failure: StepFailedError) -> str:
    """Return the reason and the model of a judge's error, which quote no text."""
    cause = failure.__cause__
    return f" ({cause.reason}: {cause.model})" if isinstance(cause, JudgeError) else ""


def as_failure(path: str, processor_id: str, stage: str, error: BaseException) -> StepFailedError:
    """Return an error as a `StepFailedError`; its message does not quote the texts of foreign errors."""
    problem = str(error) if _is_quotable(error) else f"{type(error).__name__} was raised{_origin(error)}"
    failure = StepFailedError(path, processor_id, stage, problem)
    failure.__cause__ = error
    return failure


def _is_quotable(error: BaseException) -> bool:
    """Return whether the text of an error may be shown: Penstock's own code made it, and it quotes no text."""
    if not isinstance(error, _QUOTABLE):
        return False
    return all(frame.f_globals.get("__name__", "").startswith("penstock.") for frame, _ in _raised_in(error))


def _origin(error: BaseException) -> str:
    """Return where an error was raised: file, line and function, which quote no text."""
    return "".join(
        f" ({frame.f_code.co_filename.rsplit('/', 1)[-1]}:{line} in {frame.f_code.co_name})"
        for frame, line in _raised_in(error)
    )


def _raised_in(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return the frame that raised an error, with its line; nothing for one that was never raised."""
    return list(traceback.walk_tb(error.__traceback__))[-1:]


def failure_verdict(failure: StepFailedError) -> Tripwire:
    """Return the verdict for a failure whose policy is to block."""
    cause = failure.__cause__
    facts: dict[str, object] = {"failed": True, "error": type(cause if cause is not None else failure).__name__}
    if isinstance(cause, JudgeError):
        facts |= {"judge": cause.model, "why": cause.reason}
    if isinstance(cause, DetectorError):
        facts |= {"detector": cause.detector, "why": cause.problem}
    reason = f"{failure.processor_id} failed, so what it checks is blocked"
    if isinstance(cause, ConditionError) and _is_quotable(cause):
        facts |= {"why": cause.problem}
        reason = f"{reason}: {cause.problem}"
    return Tripwire(reason, failure.processor_id, failure.stage, False, facts)  # noqa: FBT003


def passes_through(error: BaseException) -> bool:
    """Return whether an error is neither verdict nor failure: an interrupt, or a cancellation from outside."""
    if isinstance(error, (Exception, TripwireSignal)):
        return False
    if isinstance(error, AbandonedError):
        return True
    if isinstance(error, BaseExceptionGroup):
        return any(passes_through(inner) for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    asyncio = sys.modules.get("asyncio")  # where it is not loaded, nothing can raise its error
    if asyncio is not None and isinstance(error, asyncio.CancelledError):
        return _being_cancelled()
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        return True
    trio = sys.modules.get("trio")
    return trio is not None and isinstance(error, trio.Cancelled)


def _being_cancelled() -> bool:
    import asyncio  # takes long to import; here it is loaded already

    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


class RecordTarget(NamedTuple):
    """The subject of a record that is no step: a nested workflow, a join, or a condition."""

    path: str
    processor_id: str


def record(
    call: StageCall,
    step: PlanStep | RecordTarget,
    status: Status,
    span: LoggedSpan | None = None,
    effects: Effects | None = None,
    *,
    edits: PlacedEdits = (),
    texts: tuple[Payload, Payload] | None = None,
    tripwire: Tripwire | None = None,
    error: str | None = None,
    started: float = 0.0,
) -> None:
    """Record the result of a step: end its part of the run, for traces and observers.

    A step that let a text pass unjudged has failed.

    Args:
        call: the call of the stage.
        step: the step, or another subject of the record.
        status: how it ended.
        span: the part of the run that it is; None if it has not begun one. A step in a stream that failed, and goes on,
            may be recorded again.
        effects: the effects of its hook through its context.
        edits: its edits with their texts, which the record does not quote.
        texts: the payloads before and after.
        tripwire: its verdict.
        error: the name of the type of its error.
        started: when it began, by the monotonic clock, if there is no span; 0 if it never did.
    """
    spans = call.run.spans
    if spans is None:
        return
    if span is None or span.ended is not None:
        began = started if span is None else span.at
        span = call.begin("step", step.path, step.processor_id)
        if began:
            span.at = began
        else:
            span.ended = span.at
    span.status = status
    if tripwire is not None:
        span.tripwire = tripwire
    if error is not None:
        span.error = error
    if effects is not None:
        _add_effects(span, effects)
    if spans.with_texts:
        span.edits, span.texts = edits, texts
    elif edits:
        span.edits = [masked(place, edit) for place, edit in edits]
    if spans.has_passed or not span.is_uneventful:
        spans.end(span)


def _add_effects(span: LoggedSpan, effects: Effects) -> None:
    if effects.failure is not None and span.status in ("passed", "edited"):
        span.status, span.error = "failed", effects.failure
    if effects.notes is not None:
        span.details = FrozenDict(effects.notes)
    if effects.flagged is not None:
        span.flagged = tuple(effects.flagged)


@contextmanager
def open_span(
    call: StageCall, kind: Literal["branch", "attempt"], path: str, number: int | None = None
) -> Generator[tuple[LoggedSpan, StageCall]]:
    """Open a part of the run, and end it at the end of the block; yield it, and the call for the steps in it."""
    spans = cast("SpanLog", call.run.spans)
    span = call.begin(kind, path, path.rpartition("/")[2], number)
    spans.announce(span)
    try:
        yield span, call.within(span)
    except BaseException as error:
        span.failed(error)
        raise
    finally:
        spans.end(span)


def record_failure(call: StageCall, failure: StepFailedError, on_error: str | None, started: float = 0.0) -> None:
    """Record the failure of something other than a hook."""
    if call.run.spans is not None:
        verdict = failure_verdict(failure) if on_error == "block" else None
        kind = type(failure.__cause__ or failure).__name__
        target = RecordTarget(failure.step, failure.processor_id)
        record(call, target, "failed", tripwire=verdict, error=kind, started=started)


def cut_off_verdict(block: Block, call: StageCall) -> Tripwire | None:
    """Return the verdict of a step in a block that was cancelled after it aborted; None if there is none."""
    found = [call.run.verdicts.pop(step.path, None) for step in plan_steps(block)]
    return next((verdict for verdict in found if verdict is not None), None)


def timed_out(block: PlanPolicy, call: StageCall, started: float, on_error: str | None) -> StepFailedError:
    """Return the failure of a block that gave no result in time, and record it."""
    cause = TimeoutError(f"no result within {block.timeout} s")
    problem = f"it gave no result within {block.timeout} s"
    failure = StepFailedError(block.path, block.path.rsplit("/", 1)[-1], call.stage.name, problem)
    failure.__cause__ = cause
    record_failure(call, failure, on_error, started)
    return failure


def _tripped(
    call: StageCall,
    step: PlanStep,
    payload: Payload,
    effects: Effects | None,
    tripwire: Tripwire,
    span: LoggedSpan | None,
) -> Payload:
    if span is not None:
        record(call, step, "tripped", span, effects, tripwire=tripwire)
    return payload.stopped(tripwire)


def _asked(call: StageCall, step: PlanStep, payload: Payload, effects: Effects, span: LoggedSpan | None) -> Payload:
    """Note the question of a step, which leaves the payload as it was. In shadow, it is only recorded."""
    question, questions = effects.question, call.questions
    if question is not None and questions is not None and not call.run.shadow:
        if call.holding:
            questions.muted.add(step.path)
        else:
            questions.asked[step.path] = (question, payload)
    if span is not None:
        effects.notes = {**(effects.notes or {}), "suspended": True}
        record(call, step, "skipped", span, effects)
    return payload


def _applied(step: PlanStep, payload: Payload, effects: Effects | None, result: object) -> Payload:
    """Return the payload with a hook's result and effects; the same one if there are none."""
    if result is None:
        if effects is not None and effects.return_check is not None and effects.return_check.derived:
            raise WrongReturnError(
                "it derived a list from ctx.message_list and returned nothing; did you forget to return it?"
            )
        after = payload
    else:
        if not isinstance(result, MessageList) and inspect.isawaitable(result):
            close_awaitable(result)
            raise WrongReturnError("it returned an awaitable; declare the hook `async def`")
        _check_own(effects, result)
        after = step.stage.accept(step.stage, payload, result)
    if effects is None or (effects.facts is None and effects.data is None):
        return after
    facts = after.facts if effects.facts is None else FrozenDict({**after.facts, **effects.facts})
    data = after.data if effects.data is None else (*after.data, *effects.data)
    return Payload(after.message_list, facts, after.fields, data, None, after.finished, after.changes)


def _check_own(effects: Effects | None, result: object) -> None:
    """Refuse a list that was not derived from this call's: an older one would undo later changes."""
    returned = result.messages if isinstance(result, (Overrides, Retry)) else result
    if isinstance(returned, MessageList) and (effects is None or returned.return_check is not effects.return_check):
        raise WrongReturnError(
            "it returned a MessageList that is not derived from this call's ctx.message_list; "
            "do not keep a list from an earlier call"
        )


def _changes(
    step: PlanStep, before: Payload, after: Payload, effects: Effects | None, result: object, *, listening: bool
) -> Changes:
    """Return a step's changes, checked against what its processor declares.

    The payloads are compared once, and only if a join, a record, or the check needs it.
    """
    if after is before:
        return NO_CHANGES
    put = None if effects is None else effects.facts
    unread = not listening and before.changes is None
    if unread and step.edits == "anything":
        return NO_CHANGES
    if result is None:  # what the hook did through its context is no edit
        return NO_CHANGES if unread else diff(before, after, step.path, put=put)
    known = known_edits(result)
    if unread and not _needs_check(step, before, after, known):
        return NO_CHANGES
    changes = diff(before, after, step.path, known, hides=step.role == "guard", put=put)
    _check_claim(step, after, changes, known)
    return changes


def _needs_check(step: PlanStep, before: Payload, after: Payload, known: KnownEdits) -> bool:
    """Return whether a step may have changed more than its processor declares; quick for what changes most often."""
    if step.edits == "nothing":
        return after.differs(before)
    if after.fields is not before.fields:
        return True
    was, now = before.message_list, after.message_list
    return now is not was and not known.complete and not only_removes(was, now)


def _check_claim(step: PlanStep, after: Payload, changes: Changes, known: KnownEdits) -> None:
    """Refuse changes beyond those that the processor declares."""
    if step.edits == "anything" or (step.edits == "spans" and not changes.others):
        return
    if after.finished:  # a `Retry`, which may bring changed messages
        return
    others = {path: change for path, change in changes.others.items() if path[0] != "facts"}
    if step.edits == "nothing":
        allowed, beyond = "nothing", bool(changes.texts or others)
    else:
        allowed = "stretches of text and metadata, and remove messages, and set what Overrides set"
        beyond = not all(
            _is_slight(path, change) or (known.complete and path[0] != "fields") for path, change in others.items()
        )
    if beyond:
        raise WrongReturnError(f"it declares that it edits {allowed}, but it changed more; declare edits='anything'")


def _is_slight(path: PayloadPath, change: object) -> bool:
    """Return whether a change removes something, or sets a key of a message's metadata, or what `Overrides` set."""
    if path[0] == "fields":
        return path[1] in _OVERRIDDEN
    return isinstance(change, Gone) or (path[0] == "messages" and path[2:3] == ("metadata",))


_OVERRIDDEN = frozenset(field.name for field in fields(Overrides)) - {"messages"}


def close_awaitable(awaitable: object) -> None:
    """Close a coroutine that will not be awaited."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
