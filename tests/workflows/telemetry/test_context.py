"""Spans that other code makes are children of ours: in hooks, conditions, judges, models, tools; on both loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from opentelemetry.trace import StatusCode, get_current_span
from pydantic import BaseModel

from penstock import (
    Agent,
    Chunk,
    Context,
    InputContext,
    Judge,
    OutputStreamContext,
    PIIDetector,
    Processor,
    TextGuard,
    Workflow,
    member,
    processor,
    tool,
)
from penstock.engine import Edit, ModelRequest, View
from penstock.engine.tracing.enclosing import model_call
from penstock.testing import ScriptedModel
from penstock.workflows.telemetry import names
from tests.workflows.telemetry.collected import Collected


class Asks(Processor):
    """A step that makes a span of its own, as an HTTP client does."""

    edits = "nothing"

    def __init__(self, collected: Collected, id: str, *, sync: bool = False) -> None:
        self.id = id
        self._collected = collected
        if sync:
            self.process_input = self._look  # type: ignore[method-assign, assignment]

    async def process_input(self, ctx: InputContext) -> None:
        self._look(ctx)

    def _look(self, ctx: InputContext) -> None:
        with self._collected.tracer.start_as_current_span(f"GET {self.id}"):
            pass


class Sync(Processor):
    """The same in a sync hook."""

    edits = "nothing"

    def __init__(self, collected: Collected, id: str) -> None:
        self.id = id
        self._collected = collected

    def process_input(self, ctx: InputContext) -> None:
        with self._collected.tracer.start_as_current_span(f"GET {self.id}"):
            pass


@pytest.mark.parametrize(
    "policy", [{}, {"timeout": 5.0}, {"offload": "thread"}, {"offload": "thread", "timeout": 5.0}, {"mode": "shadow"}]
)
async def test_a_sync_hook_is_the_parent_of_what_it_does(collected: Collected, policy: dict[str, Any]) -> None:
    """On the event loop, in a worker thread, and in shadow."""
    if policy == {"timeout": 5.0}:
        policy = {**policy, "offload": "thread"}
    await Workflow("w").then(Sync(collected, "a"), **policy).check("hi", observers=[collected.observer])
    assert collected.parents("GET a")[0] == "step a"
    assert "stage process_input" in collected.parents("GET a")
    assert not get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("policy", [{}, {"timeout": 5.0}, {"retries": 1}, {"mode": "shadow"}])
async def test_an_async_hook_is_the_parent_of_what_it_does(collected: Collected, policy: dict[str, Any]) -> None:
    """Under any policy."""
    await Workflow("w").then(Asks(collected, "a"), **policy).check("hi", observers=[collected.observer])
    assert collected.parents("GET a")[0] == "step a"


def test_a_hook_that_runs_without_a_loop_is_the_parent_of_what_it_does(collected: Collected) -> None:
    """In `check_sync`, also where a thread limits its time."""
    Workflow("w").then(Sync(collected, "a")).check_sync("hi", observers=[collected.observer])
    assert collected.parents("GET a") == ["step a", "stage process_input", "invoke_workflow w"]


async def test_each_arm_of_a_parallel_has_its_own_parent(collected: Collected) -> None:
    """Although they run at once."""
    workflow = Workflow("w").parallel(*(Asks(collected, id) for id in "abcd"))
    await workflow.check("hi", observers=[collected.observer])
    assert [collected.parents(f"GET {id}")[0] for id in "abcd"] == [f"step {id}" for id in "abcd"]


async def test_each_member_of_a_dag_has_its_own_parent(collected: Collected) -> None:
    """Whatever comes after what."""
    workflow = Workflow("w").dag(
        member(Asks(collected, "a")),
        member(Asks(collected, "b"), after="a"),
        member(Sync(collected, "c"), after="a"),
        member(Asks(collected, "d"), after=("b", "c")),
    )
    await workflow.check("hi", observers=[collected.observer])
    assert [collected.parents(f"GET {id}")[0] for id in "abcd"] == [f"step {id}" for id in "abcd"]


async def test_a_condition_belongs_to_its_stage(collected: Collected) -> None:
    """It is no step."""

    def asks(ctx: View) -> bool:
        with collected.tracer.start_as_current_span("GET condition"):
            return True

    await Workflow("w").branch((asks, Sync(collected, "a"))).check("hi", observers=[collected.observer])
    assert collected.parents("GET condition")[-2:] == ["stage process_input", "invoke_workflow w"]


async def test_a_long_text_in_a_worker_thread_keeps_its_parent(collected: Collected) -> None:
    """Guards of long texts are moved off the event loop."""

    class Moved(Sync):
        offloadable = True

    await Workflow("w").then(Moved(collected, "a")).check("hi " * 5_000, observers=[collected.observer])
    assert collected.parents("GET a")[0] == "step a"


class Verdict(BaseModel):
    """What the judge says."""

    bad: bool


class HTTPModel(ScriptedModel):
    """A model that makes a span for each request, as an instrumented HTTP client does."""

    collected: Collected

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        with self.collected.tracer.start_as_current_span(f"POST {self.name}"):
            pass
        async for chunk in super().stream(request):
            yield chunk


def asking(collected: Collected, script: Any, name: str) -> HTTPModel:
    """Return such a model."""
    made = HTTPModel(script, name=name)
    made.collected = collected
    return made


async def test_the_model_call_of_a_judge_is_a_span_in_the_step_that_asks(collected: Collected) -> None:
    """And holds what its HTTP client does."""
    judge = Judge(asking(collected, ['{"bad": false}'], "openai/small"), Verdict, "Is it bad?")

    @processor("process_input", edits="nothing", id="judged")
    async def judged(ctx: InputContext) -> None:
        await judge.ask(ctx.text, ctx=ctx)

    await Workflow("w").then(judged).check("hi", observers=[collected.observer])
    assert collected.parents("POST openai/small") == [
        "chat small",
        "step judged",
        "stage process_input",
        "invoke_workflow w",
    ]
    found = dict(collected.span("chat small").attributes or {})
    assert found[names.PROVIDER] == "openai"
    assert found[names.OUTPUT_TOKENS] == 2
    assert collected.counted(names.TOKEN_USAGE, names.TOKEN_TYPE)[("output",)] == 2


async def test_a_judge_that_gets_no_answer_is_an_error(collected: Collected) -> None:
    """Its span has the name of the error's type."""
    judge = Judge(ScriptedModel([{"error": {"status": 400, "message": "no"}}]), Verdict, "Is it bad?", retries=0)

    @processor("process_input", edits="nothing", on_error="allow", id="judged")
    async def judged(ctx: InputContext) -> None:
        await judge.ask(ctx.text, ctx=ctx)

    await Workflow("w").then(judged).check("hi", observers=[collected.observer])
    assert (collected.span("chat scripted").attributes or {})[names.ERROR_TYPE] == "ModelError"
    assert collected.still_open == []


async def test_a_judge_that_waits_too_long_is_an_error(collected: Collected) -> None:
    """The error is that of the limit, not that by which the call was cancelled."""

    class Silent(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            await anyio.sleep_forever()
            async for chunk in super().stream(request):
                yield chunk

    judge = Judge(Silent([]), Verdict, "Is it bad?", retries=0, timeout=0.01)

    @processor("process_input", edits="nothing", on_error="allow", id="judged")
    async def judged(ctx: InputContext) -> None:
        await judge.ask(ctx.text, ctx=ctx)

    await Workflow("w").then(judged).check("hi", observers=[collected.observer])
    assert (collected.span("chat scripted").attributes or {})[names.ERROR_TYPE] == "TimeoutError"
    assert collected.still_open == []


async def test_a_verdict_within_a_model_call_is_no_error(collected: Collected) -> None:
    """The call was cut off, as its caller wanted."""

    @processor("process_input", edits="nothing", role="guard", id="hasty")
    def hasty(ctx: InputContext) -> None:
        with model_call("m"):
            ctx.abort("no")

    await Workflow("w").then(hasty).check("hi", observers=[collected.observer])
    assert collected.span("chat m").status.status_code is StatusCode.UNSET
    assert collected.parents("chat m")[0] == "step hasty"


async def test_a_model_of_an_agent_is_the_parent_of_its_requests(collected: Collected) -> None:
    """The span is current only while the model is asked for a chunk."""
    agent = Agent(asking(collected, [{"deltas": ["a", "b"]}], "m"), observers=[collected.observer])
    async with agent.stream("Hi") as stream:
        async for _ in stream:
            assert not get_current_span().get_span_context().is_valid
    assert collected.parents("POST m") == ["chat m", "model_step", "invoke_agent agent"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_tool_is_the_parent_of_what_it_does(collected: Collected, kind: str) -> None:
    """In a worker thread, and on the event loop."""

    @tool(name="weather")
    def here() -> str:
        """Tell the weather."""
        with collected.tracer.start_as_current_span("GET weather"):
            return "sunny"

    @tool(name="weather")
    async def there() -> str:
        """Tell the weather."""
        with collected.tracer.start_as_current_span("GET weather"):
            return "sunny"

    calls = {"tool_calls": [{"name": "weather", "args": {}, "id": "call-7"}]}
    agent = Agent(
        ScriptedModel([calls, "ok"]), tools=[here if kind == "sync" else there], observers=[collected.observer]
    )
    await agent.generate("Hi")
    assert collected.parents("GET weather") == ["execute_tool weather", "model_step", "invoke_agent agent"]
    found = dict(collected.span("execute_tool weather").attributes or {})
    assert (found[names.TOOL_CALL_ID], found[names.TOOL_TYPE]) == ("call-7", "function")
    assert names.TOOL_ARGUMENTS not in found


class StreamHook(Processor):
    """Looks at each chunk, and at the end."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        if chunk.type == "text-delta":
            with self._collected.tracer.start_as_current_span(f"chunk {chunk.text}"):
                pass
        return chunk

    def flush(self, ctx: OutputStreamContext) -> None:
        with self._collected.tracer.start_as_current_span("flush"):
            pass


class AsyncStreamHook(Processor):
    """The same, async."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        if chunk.type == "text-delta":
            with self._collected.tracer.start_as_current_span(f"chunk {chunk.text}"):
                pass
        return chunk


class AsyncGuard(TextGuard):
    """A text guard that asks somebody."""

    reach = 5

    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    async def find(self, text: str, ctx: Context, *, final: bool) -> list[Edit]:
        with self._collected.tracer.start_as_current_span("find"):
            return []

    def hold(self, text: str, start: int) -> int:
        return len(text)


@pytest.mark.parametrize("hook", [StreamHook, AsyncStreamHook])
async def test_a_hook_in_a_stream_is_the_parent_of_what_it_does(
    collected: Collected, hook: type[StreamHook | AsyncStreamHook]
) -> None:
    """And nothing is current while the reader has a chunk."""
    workflow = Workflow("w").then(hook(collected))
    async with (
        workflow.start(observers=[collected.observer]) as run,
        run.process_output_stream(["a", "b"]) as chunks,
    ):
        async for _ in chunks:
            assert not get_current_span().get_span_context().is_valid
    (step,) = [span for span in collected.spans if span.name.startswith("step ")]
    made = ["chunk a", "chunk b", *(["flush"] if hook is StreamHook else [])]
    assert [collected.parents(name)[:2] for name in made] == [[step.name, "stage process_output_stream"]] * len(made)


@pytest.mark.parametrize("policy", [{}, {"timeout": 5.0, "on_error": "block"}])
async def test_a_text_guard_in_a_stream_is_the_parent_of_what_it_does(
    collected: Collected, policy: dict[str, Any]
) -> None:
    """Also under a time limit, and beside another guard."""
    workflow = Workflow("w").parallel(AsyncGuard(collected), PIIDetector(strategy="redact"), **policy)
    async with (
        workflow.start(observers=[collected.observer]) as run,
        run.process_output_stream(["one ", "two"]) as chunks,
    ):
        async for _ in chunks:
            assert not get_current_span().get_span_context().is_valid
    finds = collected.named("find")
    assert finds
    assert {above.name for span in finds if (above := collected.above(span))} == {"step async-guard"}


async def test_a_request_is_a_child_of_the_span_around_it(collected: Collected) -> None:
    """That of a web framework, for example."""
    with collected.tracer.start_as_current_span("GET /chat") as span:
        await Workflow("w").then(Asks(collected, "a")).check("hi", observers=[collected.observer])
        assert get_current_span() is span
    assert collected.parents("invoke_workflow w") == ["GET /chat"]


def test_requests_without_await_are_children_too(collected: Collected) -> None:
    """One runs in a loop of its own, the other in a thread of its own."""
    agent = Agent(ScriptedModel(["ok"], repeat_last=True), observers=[collected.observer])
    with collected.tracer.start_as_current_span("one"):
        agent.generate_sync("Hi")
    with collected.tracer.start_as_current_span("two"), agent.stream_sync("Hi") as stream:
        assert "".join(stream.text_stream) == "ok"
    above = [collected.above(span) for span in collected.named("invoke_agent agent")]
    assert [span and span.name for span in above] == ["one", "two"]
    assert collected.still_open == []


async def test_a_workflow_in_a_hook_is_a_child_of_that_hook(collected: Collected) -> None:
    """With one observer for both."""
    inner = Workflow("inner").then(Asks(collected, "a"))

    @processor("process_input", edits="nothing", id="outside")
    async def outside(ctx: InputContext) -> None:
        await inner.check(ctx.text, observers=[collected.observer])

    await Workflow("w").then(outside).check("hi", observers=[collected.observer])
    assert collected.parents("invoke_workflow inner")[0] == "step outside"
