"""Traces of runs: what is in them, where it stands, when it was, and what they must not quote."""

from __future__ import annotations

import copy
import json
import pickle
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from penstock import (
    Chunk,
    Edit,
    InputContext,
    Judge,
    Message,
    OutputStepContext,
    OutputStreamContext,
    Processor,
    TextGuard,
    ToolCallContext,
    Workflow,
    member,
    processor,
)
from penstock.engine import JudgeError, Record, RunEvent, StepFailedError, TextEdits, UsageError
from penstock.engine.run.tracing import NO_TRACE, LazyTrace
from penstock.engine.values.model import Usage
from penstock.testing import ScriptedModel
from penstock.workflows.batch import Call, check_each
from tests.engine.traces import check_trace, shape, span_of
from tests.waiting import cancelled_when_all_wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.engine.tracing.enclosing import CallSite
    from penstock.engine.values.model import ModelRequest

pytestmark = pytest.mark.anyio


@processor(edits="nothing")
def look(ctx: InputContext) -> None:
    """Look at the input."""


@processor(edits="nothing")
def refuse(ctx: InputContext) -> None:
    """Stop the run."""
    ctx.abort("no", metadata={"n": 1})


@processor(edits="spans")
def hide(ctx: InputContext) -> Any:
    """Hide a word, and reword another."""
    found: dict[Any, list[Edit]] = {}
    for place, text in ctx.message_list.texts():
        hidden = [Edit(*one.span(), "[X]", "redact") for one in re.finditer("secret", text)]
        found[place] = [*hidden, *(Edit(*one.span(), "polite", "replace") for one in re.finditer("rude", text))]
    return ctx.message_list.edit_text(found)


def has_x(ctx: Any) -> bool:
    """Whether there is an x."""
    return "x" in ctx.text


def has_y(ctx: Any) -> bool:
    """Whether there is a y."""
    return "y" in ctx.text


class Breaks(Processor):
    """Fails as often as it is told to."""

    edits = "nothing"

    def __init__(self, times: int) -> None:
        self.times = times

    def process_input(self, ctx: InputContext) -> None:
        """Fail."""
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        if ctx.state["n"] <= self.times:
            raise ValueError(ctx.text)


class Listens:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def on_record(self, record: Any) -> None:
        """Do nothing."""

    def on_event(self, event: RunEvent) -> None:
        """Keep it."""
        self.events.append(event)


# What is in a trace


def test_a_trace_has_the_stage_and_its_steps_in_order() -> None:
    """With their paths, as in the records."""
    workflow = Workflow("w").then(look).then(Workflow("inner").then(look, id="deep")).then(hide)
    outcome = workflow.check_sync("a secret", request_context={"thread_id": "t"})
    trace = outcome.trace
    check_trace(trace, outcome.records)
    assert shape(trace) == ["w", ["process_input", ["look"], ["deep"], ["hide"]]]
    assert (trace.status, trace.thread_id, trace.texts, trace.usage) == ("edited", "t", False, None)
    assert span_of(trace, "deep").path == "inner/deep"
    assert [span.status for span in trace.spans] == ["edited", "edited", "passed", "passed", "edited"]
    assert outcome.trace == trace


def test_a_trace_says_which_arms_were_taken_and_which_were_not() -> None:
    """With the labels of the diagram; steps of the others were skipped."""
    workflow = Workflow("w").branch((has_x, refuse), (has_y, look), otherwise=hide)
    trace = workflow.check_sync("say y").trace
    branch = span_of(trace, "branch")
    assert [(arm.label, arm.taken) for arm in branch.arms] == [("has_x", False), ("has_y", True), ("otherwise", False)]
    assert {span.name: span.status for span in trace.spans if span.parent == branch.id} == {
        "refuse": "skipped",
        "hide": "skipped",
        "look": "passed",
    }
    trace = workflow.check_sync("nothing").trace
    assert [arm.taken for arm in span_of(trace, "branch").arms] == [False, False, True]
    assert (span_of(trace, "branch").path, span_of(trace, "branch").stage) == ("branch", "process_input")
    trace = Workflow("w").branch((has_x, look)).check_sync("nothing").trace
    assert [arm.taken for arm in span_of(trace, "branch").arms] == [False, True]


async def test_every_arm_that_holds_is_taken_where_the_branch_takes_all() -> None:
    """And none but the rest where none holds."""
    workflow = Workflow("w").branch((has_x, look), (has_y, hide), otherwise=refuse, match="all")
    arms = span_of((await workflow.check("x and y")).trace, "branch").arms
    assert [arm.taken for arm in arms] == [True, True, False]
    trace = (await workflow.check("none")).trace
    assert [arm.taken for arm in span_of(trace, "branch").arms] == [False, False, True]
    assert (span_of(trace, "branch").status, trace.status) == ("tripped", "blocked")
    assert span_of(trace, "branch").tripwire == trace.tripwire


def test_a_branch_in_a_branch_stands_in_it() -> None:
    """So do its steps."""
    inner = Workflow("inner").branch((has_y, look))
    trace = Workflow("w").branch((has_x, inner)).check_sync("x and y").trace
    assert shape(trace) == ["w", ["process_input", ["branch", ["branch", ["look"]]]]]
    assert [span.path for span in trace.spans if span.kind == "branch"] == ["branch", "inner/branch"]


def test_a_condition_that_fails_is_a_failure_in_its_branch() -> None:
    """Which blocks, or is raised."""

    def broken(ctx: Any) -> bool:
        raise ValueError(ctx.text)

    outcome = Workflow("w").branch((broken, look), on_error="block").check_sync("secret")
    check_trace(outcome.trace, outcome.records)
    assert shape(outcome.trace) == ["w", ["process_input", ["branch", ["branch"]]]]
    assert (span_of(outcome.trace, "branch", "branch").status, outcome.trace.status) == ("tripped", "blocked")
    run = Workflow("w").branch((broken, look)).start_sync(records=True)
    with pytest.raises(StepFailedError):
        run.process_input("secret")
    assert (run.trace.status, span_of(run.trace, "branch", "branch").error) == ("failed", "ValueError")
    assert (span_of(run.trace, "process_input").status, run.trace.tripwire) == ("failed", None)
    check_trace(run.trace, run.records)


def test_attempts_are_numbered_and_hold_the_steps() -> None:
    """One that failed, and the one that passed; a step without retries has none."""
    outcome = Workflow("w").then(Breaks(1), retries=2).then(look, on_error="allow").check_sync("secret")
    trace = outcome.trace
    check_trace(trace, outcome.records)
    assert shape(trace) == ["w", ["process_input", ["breaks", ["breaks"]], ["breaks", ["breaks"]], ["look"]]]
    attempts = [span for span in trace.spans if span.kind == "attempt"]
    assert [(span.number, span.status, span.error) for span in attempts] == [
        (0, "failed", "ValueError"),
        (1, "passed", None),
    ]
    assert trace.status == "passed"


def test_a_fallback_stands_behind_the_attempts() -> None:
    """It is no attempt."""
    outcome = Workflow("w").then(Breaks(9), retries=1, on_error=hide).check_sync("a secret")
    check_trace(outcome.trace, outcome.records)
    assert shape(outcome.trace) == [
        "w",
        ["process_input", ["breaks", ["breaks"]], ["breaks", ["breaks"]], ["breaks.fallback"]],
    ]
    assert outcome.trace.status == "edited"


async def test_no_attempt_blocks_where_a_fallback_follows() -> None:
    """Not the last one that takes too long, either."""

    @processor(edits="nothing")
    async def slow(ctx: InputContext) -> None:
        await anyio.sleep(5)

    for retries in (0, 1):
        outcome = await Workflow("w").then(slow, timeout=0.01, retries=retries, on_error=look).check("x")
        assert not outcome.blocked
        assert [span.tripwire for span in outcome.trace.spans if span.error == "TimeoutError"] == [None] * (
            1 if not retries else 4
        )


def test_a_verdict_in_an_attempt_trips_it() -> None:
    """It is not tried again."""
    trace = Workflow("w").then(refuse, retries=2).check_sync("x").trace
    assert shape(trace) == ["w", ["process_input", ["refuse", ["refuse"]]]]
    assert [span.status for span in trace.spans] == ["tripped"] * 4
    assert trace.tripwire is not None
    assert trace.tripwire.metadata == {"n": 1}


async def test_concurrent_steps_overlap_in_time_and_have_one_parent() -> None:
    """Each waits for the other, so they ran at the same time."""
    met = anyio.Event()

    class Waits(Processor):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            if ctx.state is not None and self.id == "second":
                met.set()
            await met.wait()

    first, second = Waits(), Waits()
    first.id, second.id = "first", "second"
    outcome = await Workflow("w").parallel(first, second, look).check("x")
    trace = outcome.trace
    check_trace(trace, outcome.records)
    one, two = span_of(trace, "first"), span_of(trace, "second")
    assert one.parent == two.parent == span_of(trace, "process_input").id
    assert one.at <= two.at + two.seconds
    assert two.at <= one.at + one.seconds


async def test_siblings_that_a_verdict_cancels_leave_closed_spans() -> None:
    """Also branches and attempts in them."""

    @processor(edits="nothing")
    async def hangs(ctx: InputContext) -> None:
        await anyio.sleep_forever()

    @processor(edits="nothing")
    async def refuses(ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()
        ctx.abort("no")

    slow = Workflow("slow").branch((lambda ctx: True, Workflow("deep").then(hangs, retries=2)))
    told = Listens()
    async with Workflow("w").parallel(slow, refuses).start(records=True, observers=[told]) as run:
        await run.process_input("x")
    check_trace(run.trace, run.records)
    assert run.trace.status == "blocked"
    assert [span.status for span in run.trace.spans if span.kind in ("branch", "attempt")] == ["failed", "failed"]
    starts = sorted(event.path for event in told.events if event.phase == "start")
    assert starts == sorted(event.path for event in told.events if event.phase == "end")


def test_members_of_a_dag_stand_in_the_stage() -> None:
    """Those that do not run were skipped."""
    dag = Workflow("w").dag(member(look, id="a"), member(hide, id="b", after={"a": has_x}), member(look, id="c"))
    outcome = dag.check_sync("none")
    check_trace(outcome.trace, outcome.records)
    assert {span.path: span.status for span in outcome.trace.spans if span.kind == "step"} == {
        "a": "passed",
        "b": "skipped",
        "c": "passed",
    }


async def test_a_shadow_says_so_and_changes_nothing() -> None:
    """In place, and in the background, where it may outlast the stage."""

    @processor(edits="nothing")
    async def later(ctx: InputContext) -> None:
        await anyio.sleep(0.01)
        ctx.abort("no")

    shadowed = Workflow("inner").branch((has_x, later)).then(look)
    outcome = await Workflow("w").then(hide, mode="shadow").then(shadowed, mode="shadow").check("secret x")
    trace = outcome.trace
    check_trace(trace, outcome.records)
    assert trace.status == span_of(trace, "process_input").status == "passed"
    assert {span.name: (span.status, span.shadow) for span in trace.spans if span.shadow} == {
        "hide": ("edited", True),
        "branch": ("tripped", True),
        "later": ("tripped", True),
    }
    assert span_of(trace, "later").tripwire is not None


async def test_steps_in_worker_threads_stand_where_they_belong() -> None:
    """Under a time limit a nested workflow of sync steps runs in a worker, with its branches and attempts."""
    threads: set[int] = set()

    @processor(edits="nothing")
    def there(ctx: InputContext) -> None:
        threads.add(threading.get_ident())

    told = Listens()
    inner = Workflow("inner").branch((has_x, there)).then(Breaks(1), retries=1)
    async with Workflow("w").then(inner, timeout=5).start(records=True, observers=[told]) as run:
        await run.process_input("x")
    check_trace(run.trace, run.records)
    assert shape(run.trace) == [
        "w",
        ["process_input", ["branch", ["there"]], ["breaks", ["breaks"]], ["breaks", ["breaks"]]],
    ]
    assert threads != {threading.get_ident()}
    assert [event.path for event in told.events if event.phase == "start"] == [
        "",
        "process_input",
        "process_input/branch",
        "process_input/breaks-0",
        "process_input/breaks-1",
    ]


def test_what_a_worker_does_after_its_time_is_in_no_trace() -> None:
    """Without an event loop, too."""
    go_on = threading.Event()

    @processor(edits="nothing")
    def slow(ctx: InputContext) -> None:
        go_on.wait()

    before = {*threading.enumerate()}
    outcome = (
        Workflow("w").then(Workflow("inner").then(slow).then(look), timeout=0.05, on_error="block").check_sync("x")
    )
    [worker] = {*threading.enumerate()} - before
    go_on.set()
    worker.join()
    check_trace(outcome.trace, outcome.records)
    assert shape(outcome.trace) == ["w", ["process_input", ["inner"]]]
    assert [span.error for span in outcome.trace.spans] == [None, None, "TimeoutError"]
    assert (outcome.trace.status, outcome.trace.spans[-1].status) == ("blocked", "failed")


def test_the_tokens_of_judges_stand_with_their_steps() -> None:
    """Of each time that a step ran, and of all together."""

    class Judge(Processor):
        edits = "nothing"

        def process_input(self, ctx: InputContext) -> None:
            ctx.spend("m", Usage(10, 1))

        def process_output_step(self, ctx: OutputStepContext) -> None:
            ctx.spend("m", Usage(20, 2))
            ctx.spend("m", None)

    run = Workflow("w").then(Judge()).then(look).start_sync(records=True)
    first = run.process_input("x")
    run.process_output_step([Message.assistant("y")])
    run.run.spend("agent", Usage(100, 5))
    found = [span.usage and span.usage["input_tokens"] for span in run.trace.spans if span.kind == "step"]
    assert found == [10, None, 20]
    assert run.trace.usage is not None
    assert (run.trace.usage["input_tokens"], run.trace.usage["output_tokens"]) == (130, 8)
    assert first.trace.usage == {"input_tokens": 10, "output_tokens": 1, "requests": 1}
    calls = [span for span in run.trace.spans if span.kind == "model"]
    assert [run.trace.spans[span.parent or 0].stage for span in calls] == [
        "process_input",
        "process_output_step",
        "process_output_step",
    ]
    assert [span.usage and span.usage["input_tokens"] for span in calls] == [10, 20, None]
    assert len([span for span in first.trace.spans if span.kind == "model"]) == 1


async def test_the_requests_of_a_judge_are_parts_of_its_step() -> None:
    """Each with its time; an answer that is no verdict is no failed request."""

    class SlowModel(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            await anyio.sleep(0.01)
            async for chunk in super().stream(request):
                yield chunk

    judge = Judge(SlowModel(["no verdict", "none either", "nor this"]), bool, "Is it rude?", retries=2)

    @processor(edits="nothing")
    async def asks(ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()
        with suppress(JudgeError):
            await judge.ask(ctx.text, ctx=ctx)

    outcome = await Workflow("w").then(asks).check("hello")
    check_trace(outcome.trace, outcome.records)
    step, *calls = outcome.trace.spans[-4:]
    assert step.kind == "step"
    for call in calls:
        assert (call.kind, call.parent, call.name, call.stage) == ("model", step.id, "scripted", "process_input")
        assert (call.status, call.error, dict(call.details)) == ("passed", None, {})
        assert 0.009 <= call.seconds <= step.seconds
    begun = [step.at, *(call.at for call in calls)]
    assert begun == sorted(begun)
    assert calls[0].at + calls[0].seconds <= calls[1].at


async def test_a_failed_request_of_a_judge_is_seen() -> None:
    """By the type of its error; a trace does not quote the provider. The step passed, since a later request did."""

    class Late(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            if len(self.requests) == 1:
                self.requests.append(request)
                await anyio.sleep_forever()
            async for chunk in super().stream(request):
                yield chunk

    usage = {"input_tokens": 3, "output_tokens": 2}
    failed = {"error": {"status": 503, "message": "overloaded by hello"}}
    model = Late([failed, {"text": "[false]", "usage": usage}, {"text": '{"verdict": false}', "usage": usage}])
    judge = Judge(model, bool, "Is it rude?", timeout=0.05, retries=3, backoff=lambda _attempt: 0.0)

    @processor(edits="nothing")
    async def asks(ctx: InputContext) -> None:
        assert not (await judge.ask(ctx.text, ctx=ctx)).verdict

    outcome = await Workflow("w").then(asks).check("hello")
    check_trace(outcome.trace, outcome.records)
    step, *calls = outcome.trace.spans[2:]
    assert [(call.status, call.error) for call in calls] == [
        ("failed", "ModelError"),
        ("failed", "TimeoutError"),
        ("passed", None),
        ("passed", None),
    ]
    assert [call.usage and call.usage["input_tokens"] for call in calls] == [None, None, 3, 3]
    assert (step.status, step.usage and step.usage["input_tokens"], outcome.trace.status) == ("passed", 6, "passed")
    assert "overloaded" not in json.dumps(outcome.trace.to_json())
    assert str(outcome.trace).count("model scripted") == 4
    assert "failed: TimeoutError" in str(outcome.trace)


def test_a_hook_tells_of_a_failed_request_of_its_own() -> None:
    """With what it caught."""

    @processor(edits="nothing")
    def asks(ctx: InputContext) -> None:
        ctx.spend("m", None, attempts=2, error=ConnectionError("refused by hello"))

    outcome = Workflow("w").then(asks).check_sync("hello")
    call = outcome.trace.spans[-1]
    assert (call.kind, call.status, call.error, dict(call.details)) == (
        "model",
        "failed",
        "ConnectionError",
        {"attempts": 2},
    )
    assert "hello" not in json.dumps(outcome.trace.to_json())


# Runs


async def test_an_outcome_has_the_trace_of_its_stage_and_a_run_that_of_all() -> None:
    """With the run around it."""
    workflow = Workflow("w").then(look).then(refuse_answers)
    async with workflow.start(records=True, run_id="r") as run:
        first = await run.process_input("x")
        second = await run.process_output_step([Message.assistant("bad")])
        third = await run.process_output_result()
    assert shape(first.trace) == ["w", ["process_input", ["look"]]]
    assert shape(second.trace) == ["w", ["process_output_step", ["refuse-answers"]]]
    assert shape(run.trace) == ["w", ["process_input", ["look"]], ["process_output_step", ["refuse-answers"]]]
    assert (first.trace.status, second.trace.status, run.trace.status) == ("passed", "blocked", "blocked")
    assert third.trace.status == "blocked"  # the verdict that had ended the run
    assert shape(third.trace) == ["w"]
    assert {trace.run_id for trace in (first.trace, run.trace)} == {"r"}
    for trace in (first.trace, second.trace, third.trace):
        check_trace(trace)
    check_trace(run.trace, run.records)


@processor(edits="nothing", id="refuse-answers")
def refuse_answers(ctx: OutputStepContext) -> None:
    """Stop on what is bad."""
    if "bad" in ctx.text:
        ctx.abort("bad", retry=True)


async def test_what_comes_after_a_stage_is_not_in_its_trace() -> None:
    """Neither the error that ends the run nor its time."""
    with suppress(ValueError):
        async with Workflow("w").then(look).start(records=True) as run:
            outcome = await run.process_input("x")
            trace = outcome.trace
            await anyio.sleep(0.02)
            raise ValueError("later")
    assert (run.trace.status, run.trace.spans[0].error) == ("failed", "ValueError")
    assert run.trace.seconds > 0.02
    assert outcome.trace == trace
    assert (trace.status, trace.spans[0].error) == ("passed", None)


async def test_a_retry_is_no_end_of_the_run() -> None:
    """The stage tripped, and the run went on."""
    async with Workflow("w").then(refuse_answers).start(records=True, max_processor_retries=1) as run:
        await run.process_input("x")
        await run.process_input_step()
        assert (await run.process_output_step([Message.assistant("bad")])).retry_granted
        await run.process_input_step()
        await run.process_output_step([Message.assistant("good")])
    trace = run.trace
    check_trace(trace, run.records)
    assert [span.status for span in trace.spans if span.kind == "stage"] == ["tripped", "passed"]
    assert (trace.status, trace.tripwire) == ("passed", None)


async def test_checks_beside_the_model_stand_in_a_stage_of_their_own() -> None:
    """Which lasts as long as they do, whether they pass, trip, fail, or run late."""

    @processor(edits="nothing")
    async def beside(ctx: InputContext) -> None:
        await anyio.sleep(0.01)
        if "x" in ctx.text:
            ctx.abort("no")
        if "boom" in ctx.text:
            raise ValueError

    async def model() -> str:
        await anyio.lowlevel.checkpoint()
        return "answer"

    workflow = Workflow("w").then(beside, overlap="model").then(look, overlap="model")
    for text, status in (("dog", "passed"), ("fox", "blocked"), ("boom", "failed")):
        run = workflow.start(records=True, overlap=True)
        try:
            async with run:
                await run.process_input(text)
                await run.call_model(model)
        except StepFailedError:
            pass
        check_trace(run.trace, run.records)
        first, (name, *checks) = shape(run.trace)[1:]
        assert [dict(span.details) for span in run.trace.spans if span.kind == "stage"] == [{}, {"overlap": True}]
        assert (first, name, sorted(checks)) == (["process_input"], "process_input", [["beside"], ["look"]])
        assert run.trace.status == status
    async with workflow.start(records=True, overlap=True, texts=True) as run:
        await run.process_input("dog")
        await run.process_output_step([Message.assistant("late")])
    check_trace(run.trace, run.records)
    assert [span.name for span in run.trace.spans if span.kind == "stage"] == ["process_input"] * 3


async def test_a_run_that_nobody_entered_or_left_has_a_trace() -> None:
    """It ends with its last part."""
    run = Workflow("w").then(look).start(records=True)
    assert (run.trace.status, len(run.trace.spans)) == ("passed", 1)
    outcome = await run.process_input("x")
    check_trace(run.trace, run.records)
    check_trace(outcome.trace, outcome.records)
    assert run.trace.seconds > 0


async def test_a_run_that_was_cancelled_has_a_trace() -> None:
    """Every part of it is closed."""

    @processor(edits="nothing")
    async def hangs(ctx: InputContext) -> None:
        await anyio.sleep_forever()

    run = Workflow("w").branch((lambda ctx: True, hangs)).start(records=True)
    async with cancelled_when_all_wait(), run:
        await run.process_input("x")
    check_trace(run.trace, run.records)
    assert (run.trace.status, span_of(run.trace, "process_input").status) == ("failed", "failed")


def test_there_is_no_trace_without_records() -> None:
    """The error says what to pass."""
    run = Workflow("w").then(look).start_sync()
    outcome = run.process_input("x")
    for asked in (lambda: outcome.trace, lambda: run.trace, NO_TRACE):
        with pytest.raises(UsageError, match="records=True"):
            asked()
    run = Workflow("w").then(look).start_sync(observers=[Listens()])
    run.process_input("x")
    with pytest.raises(UsageError, match="records=True"):
        _ = run.trace
    with pytest.raises(UsageError, match="pass both"):
        Workflow("w").then(look).start(texts=True)


def test_a_stage_that_no_step_has_is_in_no_trace() -> None:
    """Only the run is."""
    run = Workflow("w").then(look).start_sync(records=True)
    assert shape(run.process_output_step([Message.assistant("y")]).trace) == ["w"]


def test_a_lazy_trace_is_made_once_and_can_be_pickled() -> None:
    """The log does not go with it."""
    checked = next(iter(check_each(Workflow("w").then(look), ["x"])))
    again = pickle.loads(pickle.dumps(checked._trace))  # noqa: S301 - our own
    assert again() == checked.trace
    assert again() is again()
    assert copy.copy(NO_TRACE)._made is None
    assert isinstance(again, LazyTrace)


def pickled(outcome: Any) -> Any:
    """The outcome as another process gets it."""
    return pickle.loads(pickle.dumps(outcome))  # noqa: S301 - our own


def test_an_outcome_can_be_pickled_with_its_trace() -> None:
    """Conditions and observers cannot, and are not in it."""
    workflow = Workflow("w").branch((lambda ctx: "x" in ctx.text, look)).then(hide)
    outcome = workflow.check_sync("a secret x", request_context={"thread_id": "t"})
    for again in (pickled(outcome), copy.copy(outcome), copy.deepcopy(outcome)):
        assert again.trace == outcome.trace
        assert (again.text, again.records) == (outcome.text, outcome.records)
    bare = workflow.start_sync().process_input("x")
    with pytest.raises(UsageError, match="records=True"):
        _ = pickled(bare).trace


def test_a_thread_may_be_named_by_a_number() -> None:
    """In a trace it is a text, as the schema says."""
    trace = Workflow("w").then(look).check_sync("x", request_context={"thread_id": 5}).trace
    assert trace.thread_id == "5"
    check_trace(trace)


def test_rows_that_fail_have_a_trace() -> None:
    """Up to the error; a row that never ran has none."""
    rows = check_each(
        Workflow("w").then(Breaks(1)), ["x", 7, "y"], as_call=lambda row: Call(row, options={"texts": True})
    )
    failed, invalid, _ = rows
    check_trace(failed.trace, failed.records)
    assert (failed.status, failed.trace.status, failed.trace.spans[0].error) == ("failed", "failed", "StepFailedError")
    assert failed.trace.texts
    assert (invalid.status, invalid.trace.status) == ("invalid", "failed")


# Events


def says_once(ctx: Any) -> bool:
    """Whether one message came."""
    return len(ctx.messages) == 1


async def test_observers_are_told_of_stages_branches_and_attempts() -> None:
    """With what came of them; each has a path of its own."""
    told = Listens()
    workflow = Workflow("w").branch((says_once, look)).then(Breaks(1), retries=1).then(refuse_answers)
    async with workflow.start(observers=[told], run_id="r", request_context={"thread_id": "t"}) as run:
        await run.process_input("x")
        await run.process_input("again")
        await run.process_output_step([Message.assistant("bad")])
    ends = {event.path: event for event in told.events if event.phase == "end"}
    assert list(ends) == [
        "process_input/branch",
        "process_input/breaks-0",
        "process_input/breaks-1",
        "process_input",
        "process_input#2/branch",
        "process_input#2/breaks-0",
        "process_input#2",
        "process_output_step",
        "",
    ]
    assert {event.what for event in told.events} == {"run", "stage", "branch", "attempt"}
    assert ends["process_input/branch"].details == {"status": "passed", "taken": (0,)}
    assert ends["process_input#2/branch"].details["taken"] == (1,)
    assert ends["process_input/breaks-0"].details == {"status": "failed", "error": "ValueError"}
    assert ends["process_output_step"].details == {"status": "tripped", "processor": "refuse-answers"}
    assert (ends[""].details["status"], ends[""].parent) == ("blocked", None)
    assert ends["process_input/branch"].parent == "process_input"
    assert {(event.run_id, event.thread_id) for event in told.events} == {("r", "t")}
    assert all(event.at > 1e9 and event.seconds >= 0 for event in told.events)
    assert [event.name for event in told.events[:3]] == ["", "process_input", "branch"]


async def test_a_path_that_an_id_looks_like_is_given_once() -> None:
    """A branch that runs twice, and one that is called like its second run."""
    told = Listens()
    workflow = Workflow("w").branch((has_x, look)).branch((has_x, look))
    async with workflow.start(observers=[told]) as run:
        await run.process_input("x")
        await run.process_input("x")
    starts = [event.path for event in told.events if event.phase == "start"]
    assert len(starts) == len(set(starts)) == 7


async def test_an_error_ends_the_run_for_observers() -> None:
    """Its name is told."""
    told = Listens()
    with pytest.raises(StepFailedError):
        async with Workflow("w").then(Breaks(1)).start(observers=[told]) as run:
            await run.process_input("secret")
    assert told.events[-1].details == {"status": "failed", "error": "StepFailedError"}
    run = Workflow("w").then(look).start(observers=[told])
    async with run:
        run.abandon()
    assert told.events[-1].details == {"status": "cancelled"}
    assert "secret" not in repr(told.events)


# Texts


def quoted(trace: Any) -> str:
    """Everything that a trace says."""
    return json.dumps(trace.to_json()) + str(trace) + repr(trace)


def test_a_trace_quotes_no_text_unless_it_is_asked_to() -> None:
    """Redactions are shown as they are; what replaces other text is dots."""
    workflow = Workflow("w").then(hide)
    outcome = workflow.check_sync("a secret and rude word")
    assert not any(word in quoted(outcome.trace) for word in ("secret", "polite", "rude", " word"))
    edits = span_of(outcome.trace, "hide").edits
    assert [(edit.start, edit.end, edit.kind, edit.replacement, edit.field) for edit in edits] == [
        (2, 8, "redact", "[X]", "text"),
        (13, 17, "replace", "······", "text"),
    ]
    told = workflow.check_sync("a secret and rude word", texts=True)
    assert told.trace.texts
    assert [edit.replacement for edit in span_of(told.trace, "hide").edits] == ["[X]", "polite"]
    for name in ("process_input", "hide"):
        texts = [(text.role, text.part, text.before, text.after) for text in span_of(told.trace, name).texts]
        assert texts == [("user", 0, "a secret and rude word", "a [X] and polite word")]
    assert [edit.text for record in told.records for _, edit in record.edits] == ["[X]", "······"]  # as ever


def test_a_text_that_was_reworded_is_few_dots() -> None:
    """However long it is: a trace without texts stays small."""

    @processor(edits="anything")
    def shout(ctx: InputContext) -> Any:
        texts = ctx.message_list.texts()
        return ctx.message_list.edit_text({place: [Edit(0, len(text), "A" * 9_999)] for place, text in texts})

    outcome = Workflow("w").then(shout).check_sync("a" * 9_999)
    assert [edit.replacement for edit in span_of(outcome.trace, "shout").edits] == ["·" * 80]
    told = Workflow("w").then(shout).check_sync("a" * 9_999, texts=True)
    assert [len(edit.replacement) for edit in span_of(told.trace, "shout").edits] == [9_999]


def test_the_ids_of_messages_are_numbers_where_one_could_be_what_was_refused() -> None:
    """A client chooses them: a guard blocks an address in one, and the trace must not tell it."""

    def blocks(_: Any) -> bool:
        return blocked

    messages = [Message.user("a secret", id="ann@example.com"), Message.user("a secret", id="b")]
    for stop in (refuse, Breaks(1)):
        for blocked, ids in ((False, ["ann@example.com", "b"]), (True, ["message-1", "message-2"])):
            run = Workflow("w").then(hide).branch((blocks, stop)).start_sync(records=True)
            with suppress(StepFailedError):
                run.process_input(messages)
            assert [edit.message for edit in span_of(run.trace, "hide").edits] == ids
            assert ("ann@example.com" in quoted(run.trace)) is not blocked
    told = Workflow("w").then(hide).then(refuse).check_sync(messages, texts=True).trace
    assert [edit.message for edit in span_of(told, "hide").edits] == ["ann@example.com", "b"]


def test_the_texts_of_a_stage_are_all_that_it_was_given() -> None:
    """Those of a step only what it changed, added and removed; what was blocked has nothing behind it."""

    @processor(edits="anything")
    def rearrange(ctx: InputContext) -> Any:
        return ctx.message_list.remove("m0").add(Message.user("new", id="m9"))

    messages = [Message.user("first", id="m0"), Message.user("second", id="m1")]
    trace = Workflow("w").then(look).then(rearrange).check_sync(messages, texts=True).trace
    stage = span_of(trace, "process_input")
    assert [(text.message, text.before, text.after) for text in stage.texts] == [
        ("m0", "first", ""),
        ("m1", "second", "second"),
        ("m9", "", "new"),
    ]
    changed = span_of(trace, "rearrange").texts
    assert [(text.message, text.before, text.after) for text in changed] == [("m0", "first", ""), ("m9", "", "new")]
    assert span_of(trace, "look").texts == ()
    blocked = Workflow("w").then(hide).then(refuse).check_sync("a secret", texts=True).trace
    assert [(text.before, text.after) for text in span_of(blocked, "process_input").texts] == [("a secret", "")]
    run = Workflow("w").then(Breaks(1)).start_sync(records=True, texts=True)
    with pytest.raises(StepFailedError):
        run.process_input("a secret")
    assert [(text.before, text.after) for text in span_of(run.trace, "process_input").texts] == [("a secret", "")]


def test_arguments_of_tools_are_texts() -> None:
    """They are in a trace only if texts are; keys are stars without them."""

    class Hides(Processor):
        edits = "spans"

        def process_tool_call(self, ctx: ToolCallContext) -> Any:
            return TextEdits({("arguments", "who"): [Edit(0, 3, "Bob", "replace")]})

    workflow = Workflow("w").then(Hides())
    arguments = {"who": "Ada", "n": 1}
    trace = workflow.check_sync(arguments, stage="process_tool_call", tool_name="t").trace
    assert not any(word in quoted(trace) for word in ("Ada", "Bob", "who"))
    assert [edit.field for span in trace.spans for edit in span.edits] == ["arguments.*"]
    trace = workflow.check_sync(arguments, stage="process_tool_call", tool_name="t", texts=True).trace
    assert [edit.field for span in trace.spans for edit in span.edits] == ["arguments.who"]
    _, stage, step = [[(text.role, text.before, text.after) for text in span.texts] for span in trace.spans]
    assert stage == [("tool", "Ada", "Bob"), ("tool", "1", "1")]  # guards can replace numbers, too
    assert step == [("tool", "Ada", "Bob")]


async def test_async_checks_without_a_loop_pass_texts_on() -> None:
    """`check_sync` opens a loop for them."""

    @processor(edits="nothing")
    async def waits(ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()

    trace = await anyio.to_thread.run_sync(lambda: Workflow("w").then(waits).check_sync("secret", texts=True).trace)
    assert "secret" in quoted(trace)


# Streams


class Guard(TextGuard):
    """Hides a word."""

    id = "guard"
    edits = "spans"
    reach = 6

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Find it."""
        return [Edit(*found.span(), "[X]", "redact") for found in re.finditer("secret", text)]


class Upper(Processor):
    """Writes in capitals, chunk by chunk."""

    edits = "spans"

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Change one."""
        return chunk.with_text(chunk.text.upper()) if chunk.text else chunk


PIECES = ["a sec", "ret wo", "rd here", ", and more"]


async def read(workflow: Workflow, pieces: Any = PIECES, *, leave: int = 99, **options: Any) -> Any:
    """A run whose stream was read, up to so many chunks."""
    release = options.pop("release", "auto")
    async with (
        workflow.start(records=True, **options) as run,
        run.process_output_stream(pieces, release=release) as chunks,
    ):
        count = 0
        async for _ in chunks:
            count += 1
            if count == leave:
                break
    return run


async def test_a_stream_is_a_stage_with_its_steps() -> None:
    """Without its texts."""
    run = await read(Workflow("w").then(Guard()).then(Upper()))
    check_trace(run.trace, run.records)
    assert shape(run.trace) == ["w", ["process_output_stream", ["guard"], ["upper"]]]
    assert [span.status for span in run.trace.spans[1:]] == ["edited", "edited", "edited"]
    assert not any(word in quoted(run.trace) for word in ("secret", "SECRET", "more"))
    assert span_of(run.trace, "process_output_stream").chunks == ()


async def test_the_log_of_a_stream_says_what_came_was_held_and_left() -> None:
    """Chunk by chunk; all that came and all that left is in it."""
    run = await read(Workflow("w").then(Guard()), texts=True)
    stage = span_of(run.trace, "process_output_stream")
    assert [chunk.came_in for chunk in stage.chunks] == [*PIECES, ""]
    assert "".join(chunk.went_out for chunk in stage.chunks) == "a [X] word here, and more"
    assert [(chunk.held, chunk.went_out) for chunk in stage.chunks] == [
        (5, ""),
        (9, "a "),  # the word, and what follows it
        (5, "[X] word"),
        (5, " here, and"),
        (0, " more"),
    ]
    assert all(one.at <= two.at for one, two in zip(stage.chunks, stage.chunks[1:], strict=False))
    assert [edit.replacement for edit in span_of(run.trace, "guard").edits] == ["[X]"]
    check_trace(run.trace, run.records)


async def test_the_log_of_plain_hooks_says_what_left() -> None:
    """Those that pass everything on hold nothing; what they keep is known by what has not left."""
    run = await read(Workflow("w").then(Upper()), texts=True)
    chunks = span_of(run.trace, "process_output_stream").chunks
    assert [(chunk.came_in, chunk.held, chunk.went_out) for chunk in chunks] == [
        (piece, 0, piece.upper()) for piece in PIECES
    ]

    class Keeps(Processor):
        edits = "anything"

        def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Any:
            ctx.state["kept"] = ctx.state.get("kept", "") + chunk.text
            return None if chunk.text else chunk

        def flush(self, ctx: OutputStreamContext) -> Any:
            return Chunk("text-delta", ctx.state.pop("kept", ""), "t")

    run = await read(Workflow("w").then(Keeps(), on_error="block"), texts=True)
    chunks = span_of(run.trace, "process_output_stream").chunks
    assert [chunk.held for chunk in chunks] == [5, 11, 18, 28, 0]
    assert chunks[-1].went_out == "".join(PIECES)
    run = await read(Workflow("w").then(Guard(), timeout=5).then(Upper(), mode="shadow"), texts=True)
    assert span_of(run.trace, "process_output_stream").chunks[0].held == 5
    check_trace(run.trace, run.records)


async def test_an_answer_that_is_held_leaves_at_the_end() -> None:
    """All of it is held until the later stage has judged it."""
    workflow = Workflow("w").then(refuse_answers)
    run = await read(workflow, texts=True, release="step")
    check_trace(run.trace, run.records)
    chunks = span_of(run.trace, "process_output_stream").chunks
    assert [chunk.held for chunk in chunks] == [5, 11, 18, 28, 0]
    assert [chunk.went_out for chunk in chunks] == ["", "", "", "", "".join(PIECES)]
    run = await read(workflow, ["bad"], texts=True, release="step")
    assert not any(chunk.went_out for chunk in span_of(run.trace, "process_output_stream").chunks)
    assert run.trace.status == "blocked"
    assert span_of(run.trace, "process_output_step").status == "tripped"


@pytest.mark.rest
async def test_a_stream_takes_its_arms_once() -> None:
    """Its branches end with it, and hold the steps of their arms."""

    @processor(edits="nothing")
    def watch(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        return chunk

    every = Workflow("every").branch((lambda ctx: True, Guard()), (lambda ctx: True, watch), match="all")
    workflow = Workflow("w").branch((lambda ctx: False, Upper()), (lambda ctx: True, every), otherwise=watch)
    for used in (workflow, Workflow("w").then(workflow, timeout=5), Workflow("w").then(workflow, mode="shadow")):
        told = Listens()
        run = await read(used, observers=[told])
        check_trace(run.trace, run.records)
        outer, inner = [span for span in run.trace.spans if span.kind == "branch"]
        assert [arm.taken for arm in outer.arms] == [False, True, False]
        assert [arm.taken for arm in inner.arms] == [True, True, False]
        assert inner.parent == outer.id
        assert {span.name for span in run.trace.spans if span.parent == inner.id} == {"guard", "watch"}
        starts = sorted(event.path for event in told.events if event.phase == "start")
        assert starts == sorted(event.path for event in told.events if event.phase == "end")


async def test_a_stream_that_trips_fails_or_is_left_has_a_closed_span() -> None:
    """It says how it ended."""

    @processor(edits="nothing")
    def stops(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        if "here" in chunk.text:
            ctx.abort("no")
        return chunk

    async def broken() -> Any:
        yield "a"
        raise ValueError("secret")

    run = await read(Workflow("w").then(stops), texts=True)
    assert (run.trace.status, span_of(run.trace, "process_output_stream").status) == ("blocked", "tripped")
    check_trace(run.trace, run.records)
    run = await read(Workflow("w").then(Guard()), leave=1, texts=True)
    stage = span_of(run.trace, "process_output_stream")
    assert (stage.status, stage.details) == ("failed", {"abandoned": True})
    check_trace(run.trace, run.records)
    run = Workflow("w").then(Guard()).start(records=True)
    with pytest.raises(ValueError, match="secret"):
        async with run, run.process_output_stream(broken()) as chunks:
            _ = [chunk async for chunk in chunks]
    stage = span_of(run.trace, "process_output_stream")
    assert (stage.status, stage.error, run.trace.status) == ("failed", "ValueError", "failed")
    check_trace(run.trace, run.records)
    assert "secret" not in quoted(run.trace)


async def test_a_condition_of_a_stream_that_fails_is_in_its_branch() -> None:
    """As in other stages."""

    def broken(ctx: Any) -> bool:
        raise ValueError

    workflow = Workflow("w").branch((broken, Guard()), on_error="block")
    run = await read(workflow)
    check_trace(run.trace, run.records)
    assert shape(run.trace) == ["w", ["process_output_stream", ["branch", ["branch"]]]]
    assert run.trace.status == "blocked"


def test_a_sync_stream_has_a_log_too() -> None:
    """It runs without an event loop."""
    run = Workflow("w").then(Guard()).start_sync(records=True, texts=True)
    with run.process_output_stream(PIECES) as chunks:
        left = "".join(chunk.text for chunk in chunks)
    stage = span_of(run.trace, "process_output_stream")
    assert "".join(chunk.went_out for chunk in stage.chunks) == left == "a [X] word here, and more"
    check_trace(run.trace, run.records)
    assert chunks.outcome is not None
    check_trace(chunks.outcome.trace, chunks.outcome.records)


async def test_a_stream_that_no_step_judges_is_in_the_trace_only_for_its_texts() -> None:
    """Where they were asked for, its chunks are there."""
    assert shape((await read(Workflow("w").then(look))).trace) == ["w"]
    run = await read(Workflow("w").then(look), texts=True)
    chunks = span_of(run.trace, "process_output_stream").chunks
    assert [(chunk.came_in, chunk.held, chunk.went_out) for chunk in chunks] == [(one, 0, one) for one in PIECES]


async def test_a_stream_with_timers_has_a_log() -> None:
    """Its source is read in a task of its own."""

    class Timed(Processor):
        edits = "nothing"
        timed = True

        def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
            ctx.wake_after(0.001)
            return chunk

        def wake(self, ctx: OutputStreamContext) -> None:
            """Do nothing."""

    async def slow() -> Any:
        for piece in PIECES:
            await anyio.sleep(0.003)
            yield piece

    run = await read(Workflow("w").then(Timed()), slow(), texts=True)
    chunks = span_of(run.trace, "process_output_stream").chunks
    assert [chunk.came_in for chunk in chunks if chunk.came_in] == PIECES
    assert "".join(chunk.went_out for chunk in chunks) == "".join(PIECES)
    check_trace(run.trace, run.records)


class Records:
    """Keeps the records that it gets."""

    def __init__(self, *, skips_passed: bool) -> None:
        self.skips_passed = skips_passed
        self.got: list[tuple[str, str, str]] = []

    def on_record(self, record: Record) -> None:
        self.got.append((record.step, record.stage, record.status))


@processor(edits="nothing")
def finds(ctx: InputContext) -> None:
    """Flag a finding."""
    ctx.flag("found")


@processor(edits="nothing")
def notes(ctx: InputContext) -> None:
    """Note a detail."""
    ctx.note(seen=1)


@pytest.mark.parametrize("beside", [False, True])
async def test_an_observer_may_skip_steps_that_did_nothing(beside: bool) -> None:
    """It gets all others: edits, verdicts and failures; beside another observer it gets all."""

    @processor("process_output_step", edits="nothing", on_error="allow")
    def breaks(ctx: OutputStepContext) -> None:
        del ctx
        raise ZeroDivisionError

    everything, some = Records(skips_passed=False), Records(skips_passed=True)
    flow = Workflow("flow").then(look).then(finds).then(notes).then(hide).then(breaks).then(refuse)
    for observers in ((everything,), (everything, some) if beside else (some,)):
        async with flow.start(observers=observers) as run:
            await run.process_output_step([Message.assistant("an answer")])
            await run.process_input("a secret")
    found = everything.got if not beside else everything.got[: len(everything.got) // 2]
    eventful = [one for one in found if one[2] != "passed" or one[0] in ("finds", "notes")]
    assert {one[2] for one in eventful} == {"passed", "edited", "failed", "tripped"}
    assert len(eventful) < len(found)
    assert some.got == (found if beside else eventful)


class Events(Records):
    """Gets events, too."""

    def __init__(self) -> None:
        super().__init__(skips_passed=True)
        self.parts: list[str] = []

    def on_event(self, event: RunEvent) -> None:
        self.parts.append(event.what)


class Encloses(Records):
    """Encloses calls, too."""

    def __init__(self) -> None:
        super().__init__(skips_passed=True)
        self.parts: list[str] = []

    def enclose(self, site: CallSite) -> None:
        self.parts.append(site.what)


@pytest.mark.parametrize("kind", [Events, Encloses])
async def test_an_observer_that_follows_all_parts_gets_the_records_of_all_steps(kind: type[Events | Encloses]) -> None:
    """Each part that it knows has an end, whether it skips steps that did nothing or not."""
    observer = kind()
    async with Workflow("flow").then(look).start(observers=[observer]) as run:
        await run.process_input("a text")
    assert observer.got == [("look", "process_input", "passed")]
    assert "stage" in observer.parts
