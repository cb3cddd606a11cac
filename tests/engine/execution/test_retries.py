"""Retries of a step that failed: what is tried again, with what, and what is left of a failed attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import Chunk, InputContext, Key, MessageList, OptionError, Processor, Workflow, WorkflowError, member
from penstock.engine import StepFailedError, UsageError
from penstock.engine.execution import executor
from penstock.engine.execution.offloading import within
from penstock.engine.graph.nodes import Policy
from penstock.engine.graph.plan import LONGEST_DELAY, PlanPolicy, PlanSteps, compile_plan
from tests.waiting import cancelled_when_all_wait

NUMBER = Key[int]("number")


class Flaky(Processor):
    """Fails the first ``failures`` times; each time it edits, puts a fact and writes data first."""

    edits = "spans"
    provides = (NUMBER,)

    def __init__(self, failures: int, **claims: Any) -> None:
        self.failures = failures
        self.seen: list[str] = []
        for name, value in claims.items():
            setattr(self, name, value)

    def process_input(self, ctx: InputContext) -> MessageList:
        """Fail, or mark the text."""
        self.seen.append(ctx.text)
        ctx.put(NUMBER, len(self.seen))
        ctx.writer.write(Chunk("data-seen", payload={"number": len(self.seen)}))
        if len(self.seen) <= self.failures:
            raise ValueError
        return ctx.message_list.map_text(lambda text: f"{text}+")


class AsyncFlaky(Flaky):
    """The same, async; an attempt that fails hangs instead, and says so before."""

    def __init__(self, failures: int, hangs: Callable[[], None] = lambda: None) -> None:
        super().__init__(failures)
        self.hangs = hangs

    async def process_input(self, ctx: InputContext) -> MessageList:
        """Hang, or mark the text."""
        self.seen.append(ctx.text)
        if len(self.seen) <= self.failures:
            self.hangs()
            await anyio.sleep_forever()
        return ctx.message_list.map_text(lambda text: f"{text}+")


class Verdict(Processor):
    """A guard that aborts, and counts."""

    edits = "nothing"
    calls = 0

    def process_input(self, ctx: InputContext) -> None:
        """Abort."""
        self.calls += 1
        ctx.abort("no")


class Streamed(Processor):
    """A step of streams only."""

    def process_output_stream(self, chunk: Chunk, ctx: Any) -> Chunk:
        """Pass it on."""
        return chunk


def test_a_step_that_failed_is_tried_again_with_the_payload_it_was_given() -> None:
    """Its edits, facts and data of failed attempts are dropped; each attempt is on record."""
    step = Flaky(2)
    outcome = Workflow("w").then(step, retries=2).check_sync("a")
    assert outcome.text == "a+"
    assert step.seen == ["a", "a", "a"]
    assert outcome.fact(NUMBER) == 3
    assert [chunk.payload["number"] for chunk in outcome.data] == [3]
    assert [record.status for record in outcome.records] == ["failed", "failed", "edited"]


@pytest.mark.parametrize("on_error", ["block", "raise", "allow", Flaky(0, id="stand-in")])
def test_the_policy_applies_to_the_failure_of_the_last_attempt(on_error: Any) -> None:
    """Whatever it is, and only then."""
    step = Flaky(9)
    workflow = Workflow("w").then(step, retries=2, on_error=on_error)
    if on_error == "raise":
        with pytest.raises(StepFailedError):
            workflow.check_sync("a")
    else:
        outcome = workflow.check_sync("a")
        assert outcome.blocked == (on_error == "block")
        assert outcome.text == {"block": "", "allow": "a"}.get(on_error if isinstance(on_error, str) else "", "a+")
    assert len(step.seen) == 3


def test_a_verdict_is_never_tried_again() -> None:
    """Of a step, and of a step in a nested workflow."""
    for item in (Verdict(), Workflow("n").then(Verdict())):
        outcome = Workflow("w").then(item, retries=3).check_sync("a")
        assert outcome.tripwire is not None
        assert len(outcome.records) == 1


async def test_a_time_limit_holds_for_each_attempt(time_is_up: Callable[[], None]) -> None:
    """One that hangs is left, and tried again."""
    step = AsyncFlaky(2, hangs=time_is_up)
    outcome = await Workflow("w").then(step, retries=2, timeout=0.01).check("a")
    assert outcome.text == "a+"
    assert [record.status for record in outcome.records] == ["failed", "failed", "edited"]
    assert all(record.tripwire is None for record in outcome.records)


def test_a_time_limit_of_a_sync_step_holds_for_each_attempt_without_an_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that hangs in its thread is left there; the next one is in time, however busy the machine is."""
    leave, limits = threading.Event(), iter([0.05, 60.0])
    monkeypatch.setattr(executor, "within", lambda _, *given: within(next(limits), *given))

    class Hangs(Flaky):
        def process_input(self, ctx: InputContext) -> MessageList:
            self.seen.append(ctx.text)
            if len(self.seen) == 1:
                leave.wait(10)
            return ctx.message_list.map_text(lambda text: f"{text}+")

    try:
        assert Workflow("w").then(Hangs(0), retries=1, timeout=0.05).check_sync("a").text == "a+"
    finally:
        leave.set()


async def test_cancellation_by_the_caller_is_never_tried_again() -> None:
    """It leaves at once."""
    step = AsyncFlaky(9)
    async with cancelled_when_all_wait():
        await Workflow("w").then(step, retries=5).check("a")
    assert len(step.seen) == 1


@pytest.mark.parametrize("on_error", ["block", "raise"])
def test_a_nested_workflow_is_tried_again_as_a_whole(on_error: str) -> None:
    """Also if the step that failed in it would block; the edits of the steps before it are dropped."""
    first, second = Flaky(0, id="first"), Flaky(1, id="second", on_error=on_error)
    outcome = Workflow("w").then(Workflow("n").then(first).then(second), retries=1).check_sync("a")
    assert outcome.text == "a++"
    assert first.seen == ["a", "a"]
    assert second.seen == ["a+", "a+"]


def test_a_nested_workflow_that_keeps_failing_ends_as_its_step_says() -> None:
    """Blocked, where the step blocks."""
    outcome = Workflow("w").then(Workflow("n").then(Flaky(9, on_error="block")), retries=1).check_sync("a")
    assert outcome.blocked
    assert outcome.failure is not None


@pytest.mark.parametrize("shape", ["parallel", "branch", "dag"])
def test_every_way_to_place_a_step_takes_retries(shape: str) -> None:
    """Each step is tried again by itself."""
    step = Flaky(1)
    made = {
        "parallel": lambda: Workflow("w").parallel(step, Quiet(), retries=1),
        "branch": lambda: Workflow("w").branch((lambda _: True, Workflow("n").then(step, retries=1))),
        "dag": lambda: Workflow("w").dag(member(step, retries=1)),
    }[shape]()
    assert made.check_sync("a").text == "a+"
    assert step.seen == ["a", "a"]


class Quiet(Processor):
    """A guard that says nothing."""

    edits = "nothing"

    def process_input(self, ctx: InputContext) -> None:
        """Look."""


async def test_a_verdict_beside_a_failure_is_not_tried_again() -> None:
    """Of parallel guards: one has failed, the other was cancelled for it, and had judged."""
    judge = AsyncVerdict()
    inner = Workflow("n").parallel(AsyncBroken(), judge)
    outcome = await Workflow("w").then(inner, retries=3).check("a")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "no"
    assert judge.calls == 1


class AsyncBroken(Quiet):
    """Fails as soon as others have begun."""

    on_error = "block"

    async def process_input(self, ctx: InputContext) -> None:
        """Fail."""
        await anyio.lowlevel.checkpoint()
        raise ValueError


class AsyncVerdict(Quiet):
    """Has judged when it is cancelled."""

    calls = 0

    async def process_input(self, ctx: InputContext) -> None:
        """Abort."""
        self.calls += 1
        try:
            await anyio.sleep_forever()
        finally:
            ctx.abort("no")


async def test_a_check_beside_the_model_is_waited_for_once() -> None:
    """A failed attempt's overlapping checks are dropped with it."""
    seen: list[str] = []

    class Beside(Quiet):
        async def process_input(self, ctx: InputContext) -> None:
            seen.append(ctx.text)

    inner = Workflow("n").then(Beside(), overlap="model").then(Flaky(2))

    async def model() -> str:
        return "hi"

    async with Workflow("w").then(inner, retries=2).start(overlap=True) as run:
        await run.process_input("a")
        assert (await run.call_model(model)).value == "hi"
    assert seen == ["a"]


async def test_the_delay_doubles_up_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `retry_delay` nothing waits."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    await Workflow("w").then(Flaky(3), retries=3).check("a")
    assert slept == []
    await Workflow("w").then(Flaky(3), retries=3, retry_delay=0.25).check("a")
    assert slept == [0.25, 0.5, 1.0]
    block = compile_plan(Workflow("w").then(Flaky(0), retries=1, retry_delay=1).root, "process_input")
    assert isinstance(block, PlanPolicy)
    assert [block.waits(number) for number in (5, 6, 5000)] == [32, LONGEST_DELAY, LONGEST_DELAY]
    longer = PlanPolicy(block.block, "", block.stage, None, None, None, sync=False, retries=1, retry_delay=90.0)
    assert longer.waits(3) == 90.0


def test_a_workflow_that_waits_between_attempts_needs_an_event_loop() -> None:
    """Without a delay it stays sync; the error names the step."""
    workflow = Workflow("w").then(Flaky(0), retries=1, retry_delay=1)
    with pytest.raises(UsageError, match="flaky"):
        workflow.start_sync().process_input("a")
    assert workflow.check_sync("a").text == "a+"  # it runs in a loop of its own


@pytest.mark.parametrize(
    "options",
    [{"retries": -1}, {"retries": True}, {"retries": 1.5}, {"retries": None}, {"retry_delay": 1}]
    + [{"retries": 1, "retry_delay": bad} for bad in (0, -1, float("nan"), float("inf"), True, "1")],
)
def test_values_that_are_not_allowed_are_refused(options: Any) -> None:
    """Before anything runs."""
    with pytest.raises(OptionError, match="retr"):
        Policy(**options)


def test_retries_of_a_step_of_streams_only_are_refused() -> None:
    """Of a step, and of a workflow that has no other steps."""
    for item in (Streamed(), Workflow("n").then(Streamed())):
        with pytest.raises(WorkflowError, match="retries=1 has no effect in process_output_stream"):
            Workflow("w").then(item, retries=1).validate()


def test_a_plan_without_retries_and_the_stream_have_no_policy_around_the_step() -> None:
    """Nothing is paid for what is not asked for."""

    class Both(Streamed):
        def process_input(self, ctx: InputContext) -> None:
            """Look."""

    root = Workflow("w").then(Both(), retries=2).root
    assert isinstance(compile_plan(root, "process_output_stream"), PlanSteps)
    assert isinstance(compile_plan(root, "process_input"), PlanPolicy)
    assert isinstance(compile_plan(Workflow("w").then(Both()).root, "process_input"), PlanSteps)
    nested = Workflow("w").then(Workflow("n").then(Both()), retries=2).root
    assert isinstance(compile_plan(nested, "process_output_stream"), PlanSteps)
