"""Run one stage of a workflow on many inputs, concurrently, with the results in the order of the inputs.

Inputs are read one at a time, and a result is passed on as soon as all results before it are, so memory use does
not grow with the number of inputs. An input that fails has a result with an error, and the others still run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Semaphore, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

import anyio
from anyio import to_thread

from penstock.engine.processor.stages import STAGES, STREAM, full_name
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.errors import MessageError, PenstockError
from penstock.workflows.streamed import stream_answer

if TYPE_CHECKING:
    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.run.tracing import LazyTrace
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.tripwire import Record
    from penstock.engine.workflow import Workflow

T = TypeVar("T")

CheckStatus = Literal["passed", "edited", "blocked", "failed", "invalid"]
"""What became of an input; see `Checked.status`."""
STATUSES: tuple[CheckStatus, ...] = ("passed", "edited", "blocked", "failed", "invalid")

CHECKED_STAGES = tuple(name for name, stage in STAGES.items() if not stage.streams and name != "process_api_error")
"""The stages that check an input: all but those that need a source of chunks or an error."""

TEXT_STAGES = (*CHECKED_STAGES, STREAM.name)
"""The same, and the stage of streams, which checks a text that is cut into pieces."""


class StepExitError(PenstockError):
    """A step called ``sys.exit``: that ends its input, not the run, which would seem to be complete."""

    def __init__(self) -> None:
        super().__init__("a step called sys.exit()")


JOBS = 8
"""How many inputs run at once by default: enough to hide the latency of a model, and few enough for its rate limits."""

HELD_PER_JOB = 4
"""How many results per job may wait for a slower one before them."""


@dataclass(frozen=True, slots=True)
class Call:
    """How to run the stage on one input.

    Attributes:
        messages: the messages, as `Workflow.check` takes them.
        details: other arguments of the stage, for example ``tool_name``.
        options: options of `Workflow.start`, for example ``request_context``.
    """

    messages: Any
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Checked(Generic[T]):
    """The result of one input.

    Attributes:
        item: the input.
        outcome: the outcome of the stage; None if it failed, or if the input is malformed.
        error: the error in that case, else None.
        records: what the steps did, up to the error if there is one.
        seconds: how long it took, in seconds.
        released: how many characters left the workflow in the stage of streams; None in any other.
    """

    item: T
    outcome: Outcome | None
    error: Exception | None
    records: tuple[Record, ...]
    seconds: float
    _trace: LazyTrace | None = field(default=None, repr=False, compare=False)
    released: int | None = None

    @property
    def trace(self) -> Trace | None:
        """What the run did, as data, up to the error if there is one; None if it did not begin (a malformed input).

        It is made when it is asked for, and holds texts if the options of the `Call` have ``texts=True``.
        """
        return None if self._trace is None else self._trace()

    @property
    def status(self) -> CheckStatus:
        """``passed``, ``edited``, ``blocked``, ``failed`` or ``invalid``.

        ``failed``: a step failed whose policy is to raise. ``invalid``: the input is malformed. Edits of steps in
        shadow mode do not count.
        """
        if self.outcome is None:
            return "invalid" if isinstance(self.error, MessageError) else "failed"
        if self.outcome.blocked:
            return "blocked"
        edited = any(record.status == "edited" and not record.shadow for record in self.records)
        return "edited" if edited else "passed"

    @property
    def flagged(self) -> tuple[str, ...]:
        """The names of what steps found and let pass, each once; without those of steps in shadow mode."""
        names = (name for record in self.records if not record.shadow for name in record.flagged)
        return tuple(dict.fromkeys(names))


AsCall: TypeAlias = Callable[[T], Call]
Emit: TypeAlias = Callable[[Checked[T]], None]


def check_all(
    workflow: Workflow,
    inputs: Iterable[T],
    emit: Emit[T],
    *,
    stage: str = "process_input",
    jobs: int = JOBS,
    as_call: AsCall[T] = Call,
) -> None:
    """Check every input, and pass the results to ``emit``, in order. Do not call it inside a running event loop.

    If no step of the stage is async, the inputs are checked one after another without an event loop.

    Args:
        workflow: the workflow to run.
        inputs: the inputs, read one at a time.
        emit: called with each result. An exception in it ends the run, and is raised.
        stage: the stage to run.
        jobs: how many inputs run at once, 1 or more, if the stage has async steps.
        as_call: makes a `Call` of an input. Default: the input is the messages.

    Raises:
        WorkflowError: the workflow has problems.
    """
    if is_sync(workflow, stage):
        for checked in check_each(workflow, inputs, stage=stage, as_call=as_call):
            emit(checked)
        return

    async def check() -> None:
        await check_concurrently(workflow, inputs, emit, stage=stage, jobs=jobs, as_call=as_call)

    anyio.run(check)


def is_sync(workflow: Workflow, stage: str) -> bool:
    """Return whether no step of the stage is async. The stage of streams takes an event loop."""
    if full_name(stage) == STREAM.name:
        return False
    block = workflow.plans.stage(full_name(stage))
    return block is None or block.sync


def check_each(
    workflow: Workflow, inputs: Iterable[T], *, stage: str = "process_input", as_call: AsCall[T] = Call
) -> Iterator[Checked[T]]:
    """Yield the result of each input, without an event loop, for a stage without async steps. See `check_all`."""
    for item in inputs:
        yield check_one(workflow, item, stage=stage, as_call=as_call)


def check_one(workflow: Workflow, item: T, *, stage: str = "process_input", as_call: AsCall[T] = Call) -> Checked[T]:
    """Return the result of one input, without an event loop, for a stage without async steps. See `check_all`."""
    started = perf_counter()
    run: Run | None = None
    outcome: Outcome | None = None
    error: Exception | None = None
    try:
        call = as_call(item)
        run = workflow.start(records=True, **call.options)
        outcome = run_without_loop(run.told(run.stage(stage, call.messages, **call.details)), workflow.name)
    except Exception as raised:  # noqa: BLE001 - one input's error is that input's result
        error = raised
    except SystemExit:
        error = StepExitError()
    return _checked(item, outcome, error, run, perf_counter() - started)


async def check_concurrently(
    workflow: Workflow,
    inputs: Iterable[T],
    emit: Emit[T],
    *,
    stage: str = "process_input",
    jobs: int = JOBS,
    as_call: AsCall[T] = Call,
) -> None:
    """Check inputs, ``jobs`` at a time, and pass the results to ``emit``, in order. Arguments as in `check_all`.

    Inputs are read in a thread, so that waiting for the next one blocks no other task. An exception in ``emit`` ends
    the run, and is raised as it is.
    """
    window: _BatchWindow[T] = _BatchWindow(emit, jobs)
    reader = _InputThread(inputs, jobs)
    try:
        async with anyio.create_task_group() as tasks:
            while True:
                await window.room.acquire()
                item = await reader.next()
                if item is _END:
                    break
                slot: _Slot[T] = _Slot()
                window.slots.append(slot)
                await window.running.acquire()
                tasks.start_soon(_check_into, workflow, item, stage, as_call, window, slot, tasks.cancel_scope)
    finally:
        reader.close()
    error = window.error or reader.error
    if error is not None:
        raise error


_END: Any = object()


class _InputThread(Generic[T]):
    """Reads inputs in a daemon thread, some of them ahead. Lives as long as one `check_concurrently`.

    At the end of the program Python waits for the worker threads of anyio, and a thread that waits for a line of stdin
    never ends. So this thread is our own, and the one of anyio waits for it only until it is cancelled.
    """

    def __init__(self, inputs: Iterable[T], ahead: int) -> None:
        self.error: Exception | None = None
        self._inputs = iter(inputs)
        self._wanted = Semaphore(ahead)
        self._ready: SimpleQueue[T] = SimpleQueue()
        Thread(target=self._read, name="penstock inputs", daemon=True).start()

    async def next(self) -> T:
        """Return the next input; `_END` after the last one, or if reading raised (see ``error``)."""
        self._wanted.release()
        with suppress(Empty):  # switching to a worker thread costs more than many steps
            return self._ready.get_nowait()
        try:
            return await to_thread.run_sync(self._ready.get, abandon_on_cancel=True)
        except BaseException:
            self._ready.put(_END)  # wakes the worker thread
            raise

    def close(self) -> None:
        """Let the thread end, unless it waits for an input."""
        self._inputs = iter(())
        self._wanted.release()

    def _read(self) -> None:
        item: T | None = None
        while item is not _END:
            self._wanted.acquire()
            try:
                item = next(self._inputs, cast("T", _END))
            except Exception as error:  # noqa: BLE001 - raised again by the caller
                self.error, item = error, cast("T", _END)
            self._ready.put(item)


@dataclass(slots=True, eq=False)
class _Slot(Generic[T]):
    """The place of one result in the order."""

    checked: Checked[T] | None = None


class _BatchWindow(Generic[T]):
    """The inputs that run or whose results wait, oldest first. Lives as long as one `check_concurrently`."""

    def __init__(self, emit: Emit[T], jobs: int) -> None:
        self.slots: deque[_Slot[T]] = deque()
        self.running = anyio.Semaphore(jobs)
        self.room = anyio.Semaphore(jobs * HELD_PER_JOB)
        self.error: Exception | None = None
        self._emit = emit

    def emit_ready(self) -> None:
        """Emit the results at the front, up to the first that is missing."""
        while self.slots and self.slots[0].checked is not None:
            self._emit(self.slots[0].checked)
            self.slots.popleft()
            self.room.release()


async def _check_into(
    workflow: Workflow,
    item: T,
    stage: str,
    as_call: AsCall[T],
    window: _BatchWindow[T],
    slot: _Slot[T],
    scope: anyio.CancelScope,
) -> None:
    slot.checked = await check_one_async(workflow, item, stage=stage, as_call=as_call)
    window.running.release()
    if window.error is not None:
        return
    try:
        window.emit_ready()
    except Exception as error:  # noqa: BLE001 - raised again, without an exception group, when the tasks have ended
        window.error = error
        scope.cancel()


async def check_one_async(
    workflow: Workflow, item: T, *, stage: str = "process_input", as_call: AsCall[T] = Call
) -> Checked[T]:
    """Return the result of one input, for any stage. See `check_all`.

    In the stage of streams the input is a text; the details of its `Call` are those of `stream_answer`.
    """
    started = perf_counter()
    run: Run | None = None
    outcome: Outcome | None = None
    released: int | None = None
    error: Exception | None = None
    try:
        call = as_call(item)
        run = workflow.start(records=True, **call.options)
        async with run:
            if full_name(stage) == STREAM.name:
                outcome, released = await stream_answer(run, call.messages, **call.details)
            else:
                outcome = await run.stage(stage, call.messages, **call.details)
    except Exception as raised:  # noqa: BLE001 - one input's error is that input's result
        error, outcome = raised, None
    except SystemExit:
        error, outcome = StepExitError(), None
    return replace(_checked(item, outcome, error, run, perf_counter() - started), released=released)


def _checked(item: T, outcome: Outcome | None, error: Exception | None, run: Run | None, seconds: float) -> Checked[T]:
    if run is None:
        return Checked(item, outcome, error, (), seconds)
    if error is not None:
        run.note_end(status="failed", error=type(error).__name__)
    return Checked(item, outcome, error, run.records, seconds, run.lazy_trace)
