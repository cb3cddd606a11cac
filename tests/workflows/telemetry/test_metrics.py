"""What is counted and measured: verdicts, edits, failures, findings, durations, tokens, held characters."""

from __future__ import annotations

import pytest

from penstock import Agent, InputContext, ModelError, PIIDetector, UnicodeNormalizer, Workflow, processor, tool
from penstock.engine import StepFailedError
from penstock.testing import ScriptedModel
from penstock.workflows.batch import Call, check_all
from penstock.workflows.telemetry import names
from tests.workflows.telemetry.collected import Collected


@processor("process_input", role="guard", edits="nothing")
def stops(ctx: InputContext) -> None:
    """Stop everything."""
    ctx.abort("no")


@processor("process_input", edits="nothing")
def breaks(ctx: InputContext) -> None:
    """Fail."""
    raise ValueError


@processor("process_input", edits="nothing", on_error="allow", role="observer")
def notices(ctx: InputContext) -> None:
    """Find two things, and let them pass."""
    ctx.flag("rude", "loud")


async def test_verdicts_edits_findings_and_failures_are_counted(collected: Collected) -> None:
    """By step, stage, and what they are."""
    guard = Workflow("guard").then(PIIDetector(strategy="redact")).then(notices).then(stops)
    for _ in range(2):
        await guard.check("Mail a@example.com, b@example.com", observers=[collected.observer])
    with pytest.raises(StepFailedError):
        await Workflow("broken").then(breaks).check("hi", observers=[collected.observer])
    assert collected.counted(names.VERDICTS, names.PROCESSOR, names.STAGE, names.TRIPWIRE_RETRY) == {
        ("stops", "process_input", False): 2
    }
    assert collected.counted(names.EDIT_COUNT, names.WORKFLOW, names.STEP, names.EDIT_KIND) == {
        ("guard", "pii-detector", "redact"): 4
    }
    assert collected.counted(names.FLAG_COUNT, names.FLAGGED) == {("rude",): 2, ("loud",): 2}
    assert collected.counted(names.FAILURES, names.STEP, names.ERROR_TYPE) == {("breaks", "ValueError"): 1}
    durations = {
        (point.attributes[names.WORKFLOW_NAME], point.attributes[names.STATUS]): point.count
        for point in collected.points(names.REQUEST_DURATION)
    }
    assert durations == {("guard", "blocked"): 2, ("broken", "failed"): 1}


async def test_the_latency_of_each_step_is_measured(collected: Collected) -> None:
    """Of those that ran; a shadow's is marked."""
    workflow = Workflow("w").then(UnicodeNormalizer()).branch((lambda ctx: False, notices)).then(stops, mode="shadow")
    await workflow.check("hi", observers=[collected.observer])
    counts = {
        (point.attributes[names.STEP].split("/")[-1], point.attributes.get(names.SHADOW)): point.count
        for point in collected.points(names.STEP_DURATION)
    }
    assert counts == {("unicode-normalizer", None): 1, ("stops", True): 1}
    (point,) = [one for one in collected.points(names.STEP_DURATION) if names.SHADOW not in one.attributes]
    assert point.explicit_bounds == names.STEP_BUCKETS
    assert 0 < point.sum < 1


async def test_tokens_and_durations_of_models_follow_the_conventions(collected: Collected) -> None:
    """By operation, provider and model."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    script = [
        {"tool_calls": [{"name": "look", "args": {}}], "usage": {"input_tokens": 7, "output_tokens": 1}},
        {"text": "two words", "usage": {"input_tokens": 9, "output_tokens": 2}},
    ]
    agent = Agent(ScriptedModel(script, name="openai/gpt-5"), tools=[look], observers=[collected.observer])
    await agent.generate("Hi")
    about = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL)
    who = ("chat", "openai", "gpt-5")
    tokens = collected.counted(names.TOKEN_USAGE, *about, names.TOKEN_TYPE)
    assert tokens == {(*who, "input"): 16, (*who, "output"): 3}
    (calls,) = collected.points(names.OPERATION_DURATION)
    assert (calls.count, tuple(calls.attributes[key] for key in about)) == (2, who)
    assert calls.explicit_bounds == names.SECONDS_BUCKETS
    (first,) = collected.points(names.TIME_TO_FIRST_CHUNK)
    assert first.count == 2
    (tools,) = collected.points(names.TOOL_DURATION)
    assert tools.attributes[names.TOOL_NAME] == "look"


async def test_a_failed_model_call_is_measured_with_its_error(collected: Collected) -> None:
    """So a backend can show the rate of errors."""
    agent = Agent(ScriptedModel([{"error": {"status": 500, "message": "no"}}]), observers=[collected.observer])
    with pytest.raises(ModelError):
        await agent.generate("Hi")
    (point,) = collected.points(names.OPERATION_DURATION)
    assert point.attributes[names.ERROR_TYPE] == "ModelError"
    assert collected.points(names.TOKEN_USAGE) == []


@pytest.mark.parametrize(("release", "least"), [("live", 7), ("result", 20)])
async def test_the_most_held_characters_of_a_stream_are_measured(
    collected: Collected, release: str, least: int
) -> None:
    """By guards that wait for more of a text, and for a later stage."""
    workflow = Workflow("w").then(PIIDetector(strategy="redact"))
    async with workflow.start(observers=[collected.observer]) as run:
        source = ["mail bob", "@exam", "ple.com", " or call. "]
        async with run.process_output_stream(source, release=release) as chunks:  # type: ignore[arg-type]
            async for _ in chunks:
                pass
    (held,) = collected.points(names.HELD_CHARACTERS)
    assert held.count == 1
    assert held.sum >= least


async def test_hooks_hold_what_nobody_knows(collected: Collected) -> None:
    """So nothing is measured for them."""

    @processor("process_output_stream", id="keeps")
    def keeps(chunk: object, ctx: object) -> object:
        return chunk

    workflow = Workflow("w").then(keeps)
    async with (
        workflow.start(observers=[collected.observer]) as run,
        run.process_output_stream(["a", "b"]) as chunks,
    ):
        assert [chunk.text async for chunk in chunks if chunk.text] == ["a", "b"]
    assert collected.points(names.HELD_CHARACTERS) == []


def test_a_file_of_inputs_is_a_request_each(collected: Collected) -> None:
    """An observer is an option of each call."""

    def as_call(text: str) -> Call:
        return Call(text, options={"observers": [collected.observer]})

    check_all(Workflow("w").then(UnicodeNormalizer()), ["a", "b"], lambda _: None, as_call=as_call)
    assert len(collected.named("invoke_workflow w")) == 2
    (requests,) = collected.points(names.REQUEST_DURATION)
    assert requests.count == 2
