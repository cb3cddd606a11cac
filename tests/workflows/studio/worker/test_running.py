"""What a worker does with one input at each stage, without a process."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    Agent,
    APIErrorContext,
    InputContext,
    InputStepContext,
    LLMRequestContext,
    LLMResponseContext,
    OutputStepContext,
    Retry,
    Workflow,
    processor,
)
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import MessageError, UsageError, WorkflowError
from penstock.processors.guards import PIIDetector
from penstock.testing import ScriptedModel, Turn
from penstock.workflows.studio.worker.agents import run_agent
from penstock.workflows.studio.worker.live import Live
from penstock.workflows.studio.worker.running import run_workflow

EMAIL = "mail ann@example.com now"
HIDDEN = "mail a*n@*******.com now"


class Events:
    """A channel that keeps the events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def event(self, name: str, data: Any) -> None:
        self.events.append((name, data))

    def of(self, name: str) -> list[Any]:
        return [data for kind, data in self.events if kind == name]


@processor
def first(ctx: InputStepContext) -> None: ...


@processor
def asks(ctx: LLMRequestContext) -> None: ...


@processor
def answered(ctx: LLMResponseContext) -> None: ...


@processor
def again(ctx: APIErrorContext) -> Retry:
    assert "overloaded" in str(ctx.error)
    return Retry()


FLOW = Workflow("all").then(PIIDetector()).then(first).then(asks).then(answered).then(again)


async def run(workflow: Workflow, stage: str, given: Any, context: Any = None) -> tuple[Any, Events]:
    events = Events()
    made = await run_workflow(workflow, {"stage": stage, "input": given, "context": context}, Live(events))  # type: ignore[arg-type]
    return made, events


@pytest.mark.parametrize("stage", [name for name in STAGES if name != "process_api_error"])
async def test_every_stage_runs_on_a_text(stage):
    made, events = await run(FLOW, stage, {"kind": "text", "text": EMAIL})
    assert made["error"] is None
    assert made["status"] in ("edited", "passed")
    assert made["trace"]["spans"][0]["kind"] == "run"
    assert any(span["stage"] == stage for span in events.of("span"))
    if STAGES[stage].streams:
        assert "".join(made["output"]["chunks"]) == HIDDEN


async def test_the_error_of_a_model_is_run():
    made, _ = await run(FLOW, "process_api_error", {"kind": "error", "message": "overloaded", "status": 529})
    assert made["error"] is None
    assert made["trace"]["spans"][-1]["path"] == "again"


async def test_the_arguments_of_a_tool_are_run():
    given = {"kind": "value", "value": {"to": "ann@example.com"}, "tool_name": "send"}
    made, _ = await run(FLOW, "process_tool_call", given)
    assert made["output"]["value"] == {"to": "a*n@*******.com"}


async def test_a_row_of_a_file_is_run_as_the_file_has_it():
    made, _ = await run(FLOW, "process_input", {"kind": "row", "value": {"text": EMAIL, "id": 7}})
    assert made["output"]["text"] == HIDDEN
    made, _ = await run(FLOW, "process_output_stream", {"kind": "row", "value": {"text": EMAIL}})
    assert "".join(made["output"]["chunks"]) == HIDDEN


async def test_the_request_context_reaches_the_hooks():
    @processor
    def tenant(ctx: InputContext) -> None:
        ctx.abort(str(ctx.request_context["tenant"]))

    made, _ = await run(Workflow("w").then(tenant), "process_input", {"kind": "text", "text": "x"}, {"tenant": "a"})
    assert made["output"]["tripwire"]["reason"] == "a"
    assert made["status"] == "blocked"


async def test_a_failure_that_blocks_shows_its_error():
    @processor(on_error="block")
    def broken(ctx: InputContext) -> None:
        raise LookupError("gone")

    made, _ = await run(Workflow("w").then(broken), "process_input", {"kind": "text", "text": "x"})
    assert made["status"] == "blocked"
    assert made["error"]["message"].startswith("step 'broken'")
    assert made["error"]["file"] == __file__
    assert "LookupError: gone" in made["error"]["traceback"]


async def test_a_stream_that_is_blocked_gives_nothing_back():
    guard = Workflow("w").then(PIIDetector(strategy="block"))
    made, _ = await run(guard, "process_output_stream", {"kind": "text", "text": EMAIL, "size": 3})
    assert made["status"] == "blocked"
    assert made["output"]["chunks"] == []


@pytest.mark.parametrize(
    ("stage", "given", "error", "words"),
    [
        ("process_tool_call", {"kind": "conversation", "messages": ["x"]}, UsageError, "of the kind value"),
        ("process_input", {"kind": "value", "value": 1}, UsageError, "of the kind text or conversation"),
        ("process_api_error", {"kind": "text", "text": "x"}, UsageError, "of the kind error"),
        ("process_output_stream", {"kind": "conversation", "messages": ["x"]}, UsageError, "takes a text"),
        ("process_input", {"kind": "conversation", "messages": [{"role": "king"}]}, MessageError, "role"),
        ("process_nothing", {"kind": "text", "text": "x"}, UsageError, "unknown stage"),
    ],
)
async def test_an_input_that_cannot_be_read_says_why(stage, given, error, words):
    with pytest.raises(error, match=words):
        await run(FLOW, stage, given)


async def test_a_stage_that_no_step_has_is_an_error():
    with pytest.raises(WorkflowError, match="no step has process_llm_request"):
        await run(Workflow("w").then(PIIDetector()), "process_llm_request", {"kind": "text", "text": "x"})


# Agents


async def ask(agent: Agent, text: str = "Hi") -> tuple[Any, Events]:
    events = Events()
    request = {"input": {"kind": "text", "text": text}, "context": {}}
    return await run_agent(agent, request, Live(events)), events  # type: ignore[arg-type]


async def test_pieces_of_a_text_are_joined_and_nothing_is_lost():
    model = ScriptedModel([Turn(deltas=list("Write to me, as often as you like, at any time of the day."))])
    made, events = await ask(Agent(model))
    told = [chunk["text"] for chunk in events.of("chunk") if chunk["type"] == "text-delta"]
    assert "".join(told) == made["output"]["text"] == "Write to me, as often as you like, at any time of the day."
    assert len(told) < 58


async def test_text_that_is_held_is_told():
    model = ScriptedModel([Turn(deltas=["Write to ann@exa", "mple.com. ", "Soon."])])
    made, events = await ask(Agent(model, processors=[PIIDetector()]))
    assert made["status"] == "edited"
    assert max(held["held"] for held in events.of("held")) > 0
    assert events.of("held")[-1]["held"] == 0


async def test_a_model_that_fails_is_a_result():
    made, _events = await ask(Agent(ScriptedModel([Turn(error={"status": 500, "message": "down"})])))
    assert made["status"] == "failed"
    assert "down" in made["error"]["message"]
    assert made["agent"]["finish_reason"] == "error"
    assert made["trace"]["status"] == "failed"


async def test_an_answer_that_is_blocked_is_a_result():
    agent = Agent(ScriptedModel([EMAIL]), processors=[PIIDetector(strategy="block")])
    made, _ = await ask(agent)
    assert made["status"] == "blocked"
    assert made["output"]["text"] == ""
    assert made["output"]["tripwire"]["processor_id"] == "pii-detector"


async def test_a_model_of_the_request_is_left_as_it_is():
    made, _ = await ask(Agent(lambda context: ScriptedModel(["chosen"])))
    assert made["output"]["text"] == "chosen"


async def test_text_that_is_taken_back_is_told():
    @processor
    def never(ctx: OutputStepContext) -> None:
        ctx.abort("no", retry=ctx.retry_count == 0)

    agent = Agent(ScriptedModel(["one", "two"]), processors=[never], release="live")
    made, events = await ask(agent)
    assert made["status"] == "blocked"
    assert events.of("retract")[0]["ids"]
