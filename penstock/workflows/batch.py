"""One stage of a workflow over many inputs: in order, with a bounded number at a time; it knows no file and no screen.

Inputs are drawn one by one and results are handed on as soon as all before them are done, so that what is held does not
grow with the number of inputs. An input that breaks is a result with an error; the rest goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Semaphore, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

import anyio
from anyio import to_thread

from penstock.engine.tasks import run_without_loop
from penstock.engine.values.errors import MessageError

if TYPE_CHECKING:
    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.tripwire import Record
    from penstock.engine.workflow import Workflow

T = TypeVar("T")

CheckStatus = Literal["passed", "edited", "blocked", "failed", "invalid"]
STATUSES: tuple[CheckStatus, ...] = ("passed", "edited", "blocked", "failed", "invalid")

JOBS = 8
"""How many inputs are under way at once by default: enough to hide a model's latency, few enough for its limits."""

HELD_PER_JOB = 4
"""How many results may wait, for each job, behind one that is slower than those after it."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one input asks of the stage.

    Attributes:
        messages: what `Workflow.check` takes.
        details: what else the stage tells its hooks, for example ``tool_name``.
        options: options of `Workflow.start`, for example ``request_context``.
    """

    messages: Any
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Checked(Generic[T]):
    """How one input fared.

    Attributes:
        item: the input.
        outcome: how the stage ended; None if it did not end, because a step broke or the input is malformed.
        error: why it did not end.
        records: what the steps did, up to the error if there is one.
        seconds: how long it took.
    """

    item: T
    outcome: Outcome | None
    error: Exception | None
    records: tuple[Record, ...]
    seconds: float

    @property
    def status(self) -> CheckStatus:
        """In one word: ``failed`` if a step broke and its policy is to raise, ``invalid`` if the input is malformed."""
        if self.outcome is None:
            return "invalid" if isinstance(self.error, MessageError) else "failed"
        if self.outcome.blocked:
            return "blocked"
        edited = any(record.status == "edited" and not record.shadow for record in self.records)
        return "edited" if edited else "passed"


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
    """Check every input and hand the results to ``emit``, in order. Not to be called inside a running event loop.

    Where no step of the stage is async there is nothing to wait for: the inputs are checked one after another, without
    an event loop, and ``jobs`` does not matter.

    Raises:
        WorkflowError: the graph has problems.
    """
    if is_sync(workflow, stage):
        for checked in check_each(workflow, inputs, stage=stage, as_call=as_call):
            emit(checked)
        return

    async def checking() -> None:
        await check_concurrently(workflow, inputs, emit, stage=stage, jobs=jobs, as_call=as_call)

    anyio.run(checking)


def is_sync(workflow: Workflow, stage: str) -> bool:
    """Tell whether nothing in the workflow's plan for the stage can suspend."""
    block = workflow.plans.stage(stage)
    return block is None or block.sync


def check_each(
    workflow: Workflow, inputs: Iterable[T], *, stage: str = "process_input", as_call: AsCall[T] = Call
) -> Iterator[Checked[T]]:
    """Yield how each input fares, without an event loop; for a stage without async steps."""
    for item in inputs:
        yield _check_sync(workflow, item, stage, as_call)


async def check_concurrently(
    workflow: Workflow,
    inputs: Iterable[T],
    emit: Emit[T],
    *,
    stage: str = "process_input",
    jobs: int = JOBS,
    as_call: AsCall[T] = Call,
) -> None:
    """Check inputs, ``jobs`` at a time, and hand the results to ``emit``, in order.

    Inputs are drawn in a worker thread, so that waiting for the next one holds up nobody. What ``emit`` raises ends it
    all and comes out as it was raised.
    """
    window: _Window[T] = _Window(emit, jobs)
    drawing = _Drawing(inputs, jobs)
    try:
        async with anyio.create_task_group() as tasks:
            while True:
                await window.room.acquire()
                item = await drawing.next()
                if item is _END:
                    break
                slot: _Slot[T] = _Slot()
                window.slots.append(slot)
                await window.running.acquire()
                tasks.start_soon(_work, workflow, item, stage, as_call, window, slot, tasks.cancel_scope)
    finally:
        drawing.close()
    broken = window.broken or drawing.broken
    if broken is not None:
        raise broken


_END: Any = object()


class _Drawing(Generic[T]):
    """Draws inputs in a daemon thread, some ahead. Lives as long as one `check_concurrently`.

    anyio's own worker threads are waited for when the program ends, and one that waits for a line of stdin never comes
    back. So the one that reads is ours, and anyio's waits for ours only as long as nobody cancels.
    """

    def __init__(self, inputs: Iterable[T], ahead: int) -> None:
        self.broken: Exception | None = None
        self._inputs = iter(inputs)
        self._wanted = Semaphore(ahead)
        self._drawn: SimpleQueue[T] = SimpleQueue()
        Thread(target=self._draw, name="penstock inputs", daemon=True).start()

    async def next(self) -> T:
        """Return the next input; `_END` after the last one, or if drawing it raised (see `broken`)."""
        self._wanted.release()
        with suppress(Empty):  # a hop to a worker thread costs more than many a step
            return self._drawn.get_nowait()
        try:
            return await to_thread.run_sync(self._drawn.get, abandon_on_cancel=True)
        except BaseException:
            self._drawn.put(_END)  # lets the worker go
            raise

    def close(self) -> None:
        """Let the thread end, unless it waits for an input."""
        self._inputs = iter(())
        self._wanted.release()

    def _draw(self) -> None:
        item: T | None = None
        while item is not _END:
            self._wanted.acquire()
            try:
                item = next(self._inputs, cast("T", _END))
            except Exception as error:  # noqa: BLE001 - raised again by whoever draws
                self.broken, item = error, cast("T", _END)
            self._drawn.put(item)


@dataclass(slots=True, eq=False)
class _Slot(Generic[T]):
    """The place of one result in the order."""

    checked: Checked[T] | None = None


class _Window(Generic[T]):
    """What is under way or waits for its turn, oldest first. Lives as long as one `check_concurrently`."""

    def __init__(self, emit: Emit[T], jobs: int) -> None:
        self.slots: deque[_Slot[T]] = deque()
        self.running = anyio.Semaphore(jobs)
        self.room = anyio.Semaphore(jobs * HELD_PER_JOB)
        self.broken: Exception | None = None
        self._emit = emit

    def hand_on(self) -> None:
        """Emit the results at the front, up to the first that is not done."""
        while self.slots and self.slots[0].checked is not None:
            self._emit(self.slots[0].checked)
            self.slots.popleft()
            self.room.release()


async def _work(
    workflow: Workflow,
    item: T,
    stage: str,
    as_call: AsCall[T],
    window: _Window[T],
    slot: _Slot[T],
    scope: anyio.CancelScope,
) -> None:
    slot.checked = await _check(workflow, item, stage, as_call)
    window.running.release()
    if window.broken is not None:
        return
    try:
        window.hand_on()
    except Exception as error:  # noqa: BLE001 - raised again, bare, when the group has ended
        window.broken = error
        scope.cancel()


def _check_sync(workflow: Workflow, item: T, stage: str, as_call: AsCall[T]) -> Checked[T]:
    started = perf_counter()
    run: Run | None = None
    outcome: Outcome | None = None
    broken: Exception | None = None
    try:
        call = as_call(item)
        run = workflow.start(records=True, **call.options)
        outcome = run_without_loop(run.stage(stage, call.messages, **call.details), workflow.name)
    except Exception as error:  # noqa: BLE001 - one input's error is that input's result
        broken = error
    return Checked(item, outcome, broken, run.records if run else (), perf_counter() - started)


async def _check(workflow: Workflow, item: T, stage: str, as_call: AsCall[T]) -> Checked[T]:
    started = perf_counter()
    run: Run | None = None
    outcome: Outcome | None = None
    broken: Exception | None = None
    try:
        call = as_call(item)
        run = workflow.start(records=True, **call.options)
        async with run:
            outcome = await run.stage(stage, call.messages, **call.details)
    except Exception as error:  # noqa: BLE001 - one input's error is that input's result
        broken, outcome = error, None
    return Checked(item, outcome, broken, run.records if run else (), perf_counter() - started)
