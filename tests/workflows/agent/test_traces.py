"""Traces of an agent's requests: model steps, model calls, tool calls, and the stages around them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from penstock import (
    Agent,
    InputContext,
    ModelError,
    OutputStepContext,
    Processor,
    ToolResultContext,
    Workflow,
    processor,
)
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.model import ToolSpec, Usage
from penstock.testing import ScriptedModel
from tests.engine.traces import check_trace, shape, span_of

pytestmark = pytest.mark.anyio

TURN = {"text": "let me see", "tool_calls": [{"id": "c", "name": "use", "args": {"q": "zqargument"}}]}


def use(q: str) -> str:
    """Use it."""
    return "zqresult"


@processor(edits="nothing")
def look(ctx: InputContext) -> None:
    """Look at the input."""


class Manners(Processor):
    """Rejects the first answer that is rude, and judges with a model."""

    edits = "nothing"

    def process_output_step(self, ctx: OutputStepContext) -> None:
        """Judge."""
        ctx.spend("judge", Usage(7, 1))
        if "rude" in ctx.text:
            ctx.abort("be polite", retry=True)

    def process_tool_result(self, ctx: ToolResultContext) -> None:
        """Look."""


def checked(result: Any) -> Any:
    """The trace of a result, which is well-formed."""
    check_trace(result.trace, result.records)
    return result.trace


async def test_a_trace_has_every_part_of_a_request() -> None:
    """Stages stand in their model step, and the calls of models and tools beside them."""
    model = ScriptedModel([TURN, "done"])
    agent = Agent(model, tools=[use], processors=[Workflow("w").then(look).then(Manners())], id="helper")
    result = await agent.generate("zqquestion", records=True, thread_id="t")
    trace = checked(result)
    assert (trace.workflow, trace.status, trace.thread_id, trace.run_id) == ("helper", "passed", "t", result.run_id)
    root, stage, first, second = shape(trace)
    assert (root, stage) == ("helper", ["process_input", ["look"]])
    assert [first[0], *(part[0] for part in first[1:])] == [
        "step-0",
        "process_input_step",
        "scripted",
        "process_output_step",
        "use",
        "process_tool_result",
    ]
    assert [second[0], *(part[0] for part in second[1:])] == [
        "step-1",
        "process_input_step",
        "scripted",
        "process_output_step",
    ]
    assert [(span.kind, span.number, span.finish_reason) for span in trace.spans if span.number is not None] == [
        ("model_step", 0, "tool-calls"),
        ("model_step", 1, "stop"),
    ]
    steps = {span.id for span in trace.spans if span.kind == "step"}
    called = [span for span in trace.spans if span.kind == "model" and span.parent not in steps]
    assert [(span.name, span.finish_reason) for span in called] == [("scripted", "tool-calls"), ("scripted", "stop")]
    assert [dict(span.usage or {}) for span in called] == [
        dict(span_of(trace, f"step-{n}").usage or {}) for n in (0, 1)
    ]
    assert next(span.usage for span in trace.spans if span.name == "manners") == {
        "input_tokens": 7,
        "output_tokens": 1,
        "requests": 1,
    }
    assert trace.usage is not None
    assert trace.usage["input_tokens"] == 14 + sum((span.usage or {})["input_tokens"] for span in called)
    assert span_of(trace, "use").kind == "tool"
    quoted = json.dumps(trace.to_json()) + str(trace)
    assert not any(word in quoted for word in ("zq", "let me see", "done"))


async def test_the_texts_are_in_a_trace_if_they_are_asked_for() -> None:
    """Those of the question, the answer and the tool."""
    agent = Agent(ScriptedModel([TURN, "done"]), tools=[use], processors=[Manners(), look])
    trace = checked(await agent.generate("zqquestion", records=True, texts=True))
    quoted = json.dumps(trace.to_json())
    assert trace.texts
    assert all(word in quoted for word in ("zqquestion", "zqresult", "let me see", "done"))
    assert [span.chunks[0].came_in for span in trace.spans if span.chunks] == ["let me see", "done"]
    with pytest.raises(UsageError, match="pass both"):
        await agent.generate("x", texts=True)
    with pytest.raises(OptionError, match="True or False"):
        await agent.generate("x", texts="yes")  # type: ignore[arg-type]


async def test_an_attempt_that_was_rejected_is_a_step_that_tripped() -> None:
    """The request goes on."""
    agent = Agent(ScriptedModel(["rude", "kind"]), processors=[Manners()])
    trace = checked(await agent.generate("x", records=True))
    assert [(span.number, span.status) for span in trace.spans if span.kind == "model_step"] == [
        (0, "tripped"),
        (1, "passed"),
    ]
    assert (trace.status, trace.tripwire) == ("passed", None)
    assert span_of(trace, "step-0").tripwire is not None
    trace = checked(await agent.generate("x", records=True, model=ScriptedModel(["rude"] * 2)))
    assert trace.status == "blocked"
    assert trace.tripwire is not None
    assert trace.tripwire.reason == "be polite"


async def test_a_stream_has_a_trace_however_it_ends() -> None:
    """Read to its end, left early, cancelled, or failed."""
    agent = Agent(ScriptedModel(["a longer answer"] * 4, repeat_last=True), processors=[look])
    async with agent.stream("x", records=True) as stream:
        result = await stream.result
    assert checked(result).status == "passed"
    async with agent.stream("x", records=True, texts=True) as stream:
        async for chunk in stream:
            if chunk.type == "text-delta":
                break
    trace = checked(await stream.result)
    assert (trace.status, dict(trace.spans[0].details)) == ("failed", {"status": "cancelled"})
    async with agent.stream("x", records=True) as stream:
        stream.cancel()
        result = await stream.result
    assert checked(result).status == "failed"
    failing = Agent(ScriptedModel([{"error": {"status": 500, "message": "zqsecret"}}]), processors=[look])
    with pytest.raises(ModelError):
        async with failing.stream("x", records=True) as stream:
            _ = [chunk async for chunk in stream]
    trace = checked(stream._result)
    assert (trace.status, trace.spans[0].error) == ("failed", "ModelError")
    assert (span_of(trace, "scripted").status, span_of(trace, "scripted").error) == ("failed", "ModelError")
    assert "zqsecret" not in json.dumps(trace.to_json())


async def test_a_request_that_waits_for_its_caller_has_a_trace() -> None:
    """It says that it was suspended."""
    tool = ToolSpec("use", {"type": "object", "properties": {"q": {"type": "string"}}})
    agent = Agent(ScriptedModel([TURN]), tools=[tool], processors=[look])
    result = await agent.generate("x", records=True)
    assert result.status == "suspended"
    assert dict(checked(result).spans[0].details) == {"status": "suspended"}


async def test_a_tool_that_fails_is_a_failed_call() -> None:
    """The kind of its error is told, and nothing of its text."""

    def breaks(q: str) -> str:
        """Break."""
        raise ValueError(q)

    agent = Agent(ScriptedModel([TURN, "done"]), tools={"use": breaks}, processors=[look])
    trace = checked(await agent.generate("x", records=True))
    assert (span_of(trace, "use").status, span_of(trace, "use").error) == ("failed", "failed")
    assert trace.status == "passed"


async def test_a_result_has_no_trace_without_records() -> None:
    """And one with a trace can be pickled."""
    agent = Agent(ScriptedModel(["ok"], repeat_last=True), processors=[look])
    result = await agent.generate("x")
    with pytest.raises(UsageError, match="records=True"):
        _ = result.trace
    assert pickle.loads(pickle.dumps(result)).text == "ok"  # noqa: S301 - our own
    result = await agent.generate("x", records=True)
    assert pickle.loads(pickle.dumps(result)).trace == result.trace  # noqa: S301 - our own
    assert result.trace is result.trace


async def test_a_callback_at_the_end_sees_the_trace_so_far() -> None:
    """The request is still open then."""
    seen: list[Any] = []
    agent = Agent(ScriptedModel(["ok"]), processors=[look])
    await agent.generate("x", records=True, on_finish=lambda result: seen.append(checked(result)))
    assert seen[0].status == "passed"


async def test_concurrent_tools_have_spans_of_their_own() -> None:
    """Both in their step."""
    calls = [{"id": name, "name": "use", "args": {"q": name}} for name in "ab"]
    agent = Agent(ScriptedModel([{"text": "", "tool_calls": calls}, "done"]), tools=[use], processors=[look])
    trace = checked(await agent.generate("x", records=True))
    tools = [span for span in trace.spans if span.kind == "tool"]
    assert [span.parent for span in tools] == [span_of(trace, "step-0").id] * 2


def test_a_request_without_a_loop_has_a_trace() -> None:
    """The sync forms pass the options on."""
    agent = Agent(ScriptedModel(["ok"], repeat_last=True), processors=[look])
    assert checked(agent.generate_sync("x", records=True, texts=True)).texts
