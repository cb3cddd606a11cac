"""Whatever happens to the request, every span ends; whatever happens to the telemetry, the request goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import get_current_span

from penstock import Agent, InputContext, PIIDetector, Processor, UnicodeNormalizer, Workflow, processor, tool
from penstock.engine import Record
from penstock.engine.tracing.span_log import LoggedSpan, SpanLog
from penstock.engine.values.errors import MissingExtraError
from penstock.engine.values.frozen import EMPTY
from penstock.testing import ScriptedModel
from penstock.workflows.telemetry import OpenTelemetryObserver, names
from penstock.workflows.telemetry.run_spans import RunSpans
from tests.waiting import cancelled_when_all_wait
from tests.workflows.telemetry.collected import Collected

CALL = {"tool_calls": [{"name": "weather", "args": {}}]}


async def test_a_cancelled_check_leaves_no_span_open(collected: Collected) -> None:
    """Its steps were cancelled, so they have no records."""

    @processor("process_input", edits="nothing")
    async def hangs(ctx: InputContext) -> None:
        await anyio.sleep_forever()

    async with cancelled_when_all_wait():
        await Workflow("w").then(hangs).parallel(hangs, UnicodeNormalizer()).check("hi", observers=[collected.observer])
    assert collected.still_open == []
    assert (collected.span("step hangs").attributes or {})[names.STATUS] == "cancelled"
    assert not get_current_span().get_span_context().is_valid


async def test_a_cancelled_request_leaves_no_span_open(collected: Collected) -> None:
    """Neither of the model nor of the tool that ran."""
    begun = anyio.Event()

    @tool
    async def weather() -> str:
        """Hang."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    agent = Agent(ScriptedModel([CALL]), tools=[weather], observers=[collected.observer])
    async with anyio.create_task_group() as group:
        group.start_soon(agent.generate, "Hi")
        await begun.wait()
        group.cancel_scope.cancel()
    assert collected.named("execute_tool weather")
    assert collected.still_open == []


@pytest.mark.parametrize("chunks", [0, 1, 3])
@pytest.mark.parametrize("guards", [[], [PIIDetector(strategy="redact")]])
async def test_an_abandoned_stream_leaves_no_span_open(
    collected: Collected, guards: list[Processor], chunks: int
) -> None:
    """However far it was read."""
    agent = Agent(
        ScriptedModel([{"deltas": ["a "] * 10}]),
        output_processors=guards,
        observers=[collected.observer],
    )
    async with agent.stream("Hi") as stream:
        reader = stream.text_stream if chunks > 1 and not guards else stream.full_stream
        for _ in range(chunks):
            await anext(reader)  # type: ignore[call-overload]
    assert (collected.span("invoke_agent agent").attributes or {})[names.STATUS] == "cancelled"
    assert collected.still_open == []
    assert not get_current_span().get_span_context().is_valid


async def test_a_run_that_is_dropped_leaves_no_span_open(collected: Collected) -> None:
    """Nobody told it that it was over."""
    run = Workflow("w").then(UnicodeNormalizer()).start(observers=[collected.observer])
    await run.__aenter__()
    await run.process_input("hi")
    del run
    assert collected.still_open == []
    assert collected.span("invoke_workflow w")


async def test_a_hook_that_outlives_its_time_limit_leaves_no_span_open(collected: Collected) -> None:
    """Its thread goes on, and ends nothing that has ended."""
    release, ended = threading.Event(), threading.Event()

    class Slow(Processor):
        on_error = "allow"
        edits = "nothing"

        def process_input(self, ctx: InputContext) -> None:
            release.wait(5)
            ended.set()

    workflow = Workflow("w").then(Slow(), timeout=0.02, offload="thread").then(UnicodeNormalizer())
    await workflow.check("hi", observers=[collected.observer])
    assert collected.still_open == []
    release.set()
    await anyio.to_thread.run_sync(ended.wait, 5)
    assert [span.name for span in collected.spans if span.name.startswith("step ")] == [
        "step slow",
        "step unicode-normalizer",
    ]


async def test_a_nested_workflow_that_takes_too_long_leaves_no_span_open(
    collected: Collected, time_is_up: Callable[[], None]
) -> None:
    """The record is that of the workflow; its steps were cut off."""

    @processor("process_input", edits="nothing")
    async def hangs(ctx: InputContext) -> None:
        time_is_up()
        await anyio.sleep_forever()

    inner = Workflow("inner").then(UnicodeNormalizer()).then(hangs)
    await Workflow("w").then(inner, timeout=0.02, on_error="block").check("hi", observers=[collected.observer])
    assert (collected.span("step inner/hangs").attributes or {})[names.STATUS] == "cancelled"
    assert (collected.span("step inner").attributes or {})[names.ERROR_TYPE] == "TimeoutError"
    assert collected.still_open == []


async def test_a_shadow_may_end_after_its_stage(collected: Collected) -> None:
    """Its span does, too, and holds what it does."""

    @processor("process_input", edits="nothing", id="late")
    async def late(ctx: InputContext) -> None:
        await anyio.sleep(0.02)
        with collected.tracer.start_as_current_span("GET late"):
            pass

    await Workflow("w").then(late, mode="shadow").check("hi", observers=[collected.observer])
    assert collected.parents("GET late") == ["step late", "stage process_input", "invoke_workflow w"]
    assert (collected.span("step late").attributes or {})[names.STATUS] == "passed"


async def test_a_shadow_may_begin_in_its_stage_and_end_after_it(collected: Collected) -> None:
    """The end of the stage does not end it."""
    begun = anyio.Event()

    @processor("process_input", edits="nothing", id="late")
    async def late(ctx: InputContext) -> None:
        begun.set()
        await anyio.sleep(0.02)
        ctx.note(done=True)

    @processor("process_input", edits="nothing")
    async def waits(ctx: InputContext) -> None:
        await begun.wait()

    await Workflow("w").then(late, mode="shadow").then(waits).check("hi", observers=[collected.observer])
    assert (collected.span("step late").attributes or {})[f"{names.DETAIL}done"] is True
    assert collected.span("step late").end_time > collected.span("stage process_input").end_time


@pytest.mark.rest
async def test_a_hundred_requests_at_once_share_an_observer(collected: Collected) -> None:
    """Even if they share an id; each span stays in its own request."""

    class Named(Processor):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            await anyio.lowlevel.checkpoint()
            with collected.tracer.start_as_current_span(f"GET {ctx.text}"):
                await anyio.lowlevel.checkpoint()

    agent = Agent(ScriptedModel(["ok"], repeat_last=True), processors=[Named()], observers=[collected.observer])

    async def ask(number: int) -> None:
        with collected.tracer.start_as_current_span(f"request {number}"):
            await agent.generate(str(number), run_id="the same")

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(ask, number)
    for number in range(100):
        assert collected.parents(f"GET {number}") == [
            "step named",
            "stage process_input",
            "invoke_agent agent",
            f"request {number}",
        ]
    assert collected.still_open == []
    assert len({span.context.trace_id for span in collected.spans}) == 100


async def test_without_sampling_only_the_metrics_are_left() -> None:
    """And the request is what it was."""
    collected = Collected(sampler=ALWAYS_OFF, content=True)
    outcome = (
        await Workflow("w").then(PIIDetector(strategy="redact")).check("a@example.com", observers=[collected.observer])
    )
    assert "example.com" not in outcome.text
    assert collected.spans == []
    assert collected.counted(names.EDIT_COUNT) == {(): 1}


async def test_after_the_provider_is_shut_down_requests_go_on(collected: Collected) -> None:
    """At the end of a program, for example."""
    collected.provider.shutdown()
    agent = Agent(ScriptedModel(["ok"]), observers=[collected.observer])
    assert (await agent.generate("Hi")).text == "ok"


class Failing(SpanExporter):
    """An exporter whose backend is gone."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise ConnectionError


async def test_an_exporter_that_fails_changes_nothing(collected: Collected, caplog: pytest.LogCaptureFixture) -> None:
    """The SDK logs it."""
    collected.provider.add_span_processor(SimpleSpanProcessor(Failing()))
    with caplog.at_level(logging.CRITICAL):
        outcome = await Workflow("w").then(UnicodeNormalizer()).check("hi", observers=[collected.observer])
    assert outcome.text == "hi"
    assert len(collected.spans) == 3


class Hanging(SpanExporter):
    """An exporter whose backend does not answer."""

    def __init__(self) -> None:
        self.answered = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.answered.wait(10)
        return SpanExportResult.SUCCESS


async def test_an_exporter_that_hangs_delays_nothing(collected: Collected) -> None:
    """In a thread of its own, as in production."""
    hanging = Hanging()
    collected.provider.add_span_processor(BatchSpanProcessor(hanging, schedule_delay_millis=1, max_export_batch_size=1))
    with anyio.fail_after(60):
        for _ in range(5):
            await Workflow("w").then(UnicodeNormalizer()).check("hi", observers=[collected.observer])
    hanging.answered.set()
    collected.provider.shutdown()


class Broken(SpanProcessor):
    """A processor of spans that fails at each start."""

    def on_start(self, span: object, parent_context: object = None) -> None:
        raise RuntimeError


async def test_a_broken_pipeline_of_spans_changes_nothing(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in a stage nor in a stream nor in a tool; the log says so."""

    @tool
    def weather() -> str:
        """Tell the weather."""
        return "sunny"

    collected.provider.add_span_processor(Broken())
    agent = Agent(
        ScriptedModel([CALL, "sunny"]),
        tools=[weather],
        processors=[UnicodeNormalizer()],
        observers=[collected.observer],
    )
    with caplog.at_level(logging.ERROR):
        assert (await agent.generate("Hi")).text == "sunny"
    assert "an observer failed; the run goes on" in caplog.text


async def test_metrics_that_fail_leave_no_span_open(
    collected: Collected, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The two have nothing to do with each other."""
    from penstock.workflows.telemetry.metrics import Metrics

    def fails(*_: object) -> None:
        raise RuntimeError

    for name in ("add_record", "add_request"):
        monkeypatch.setattr(Metrics, name, fails)
    with caplog.at_level(logging.CRITICAL):
        outcome = await Workflow("w").then(UnicodeNormalizer()).check("hi", observers=[collected.observer])
    assert outcome.text == "hi"
    assert collected.tree() == ["invoke_workflow w", "  stage process_input", "    step unicode-normalizer"]
    assert collected.still_open == []


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the observer is made, not when the package is imported."""
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.metrics", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[otel\]"):
        OpenTelemetryObserver()


def watched(collected: Collected) -> tuple[RunSpans, SpanLog]:
    """The observer of a run, and the log of that run, which does not know of it."""
    run = Workflow("w").then(UnicodeNormalizer()).start(records=True)
    log = run._state.spans
    assert log is not None
    return collected.observer.for_run(run), log


def test_the_end_of_a_part_without_a_beginning_ends_nothing(collected: Collected) -> None:
    """Its start may have failed; a step in it then has no span."""
    spans, log = watched(collected)
    stage = LoggedSpan("stage", "process_input", log.root, stage="process_input")
    spans.end(log, stage)
    assert spans.start(log, LoggedSpan("step", "a", stage, "a", "process_input")) is None
    assert collected.spans == []


def test_what_a_lost_run_was_doing_ends_with_it(collected: Collected) -> None:
    """The step that was running, and the stage around it."""
    spans, log = watched(collected)
    stage = LoggedSpan("stage", "process_input", log.root, stage="process_input")
    step = LoggedSpan("step", "a", stage, "a", "process_input")
    stage.event_path, step.called = "process_input", EMPTY
    assert spans.start(log, stage) is None
    assert spans.start(log, step) is not None
    del spans
    assert collected.still_open == []
    assert collected.parents("step a") == ["stage process_input"]


def test_the_end_of_a_run_that_is_gone_ends_its_span(collected: Collected) -> None:
    """Without what only the run knows."""
    spans, log = watched(collected)
    spans.start(log, log.root)
    log.root.ended = log.root.at + 1
    spans.end(log, log.root)
    span = collected.span("invoke_workflow w")
    assert span.start_time is not None
    assert span.end_time == span.start_time + 1_000_000_000


def test_a_skipped_step_without_a_span_around_is_not_mentioned(collected: Collected) -> None:
    """There is nothing to add an event to."""
    collected.observer.on_record(Record("a", "a", "process_input", "skipped"))
    assert collected.spans == []
    assert collected.points(names.STEP_DURATION) == []
