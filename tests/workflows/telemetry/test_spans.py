"""The spans of requests: which there are, in which other one each is, and what they say."""

from __future__ import annotations

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from penstock import (
    Agent,
    InputContext,
    ModelError,
    OutputStepContext,
    PIIDetector,
    Processor,
    RegexFilterProcessor,
    UnicodeNormalizer,
    Workflow,
    processor,
    tool,
)
from penstock.engine import StepFailedError
from penstock.testing import ScriptedModel
from penstock.workflows.telemetry import names
from tests.workflows.telemetry.collected import Collected, events


@processor("process_input", role="guard", edits="nothing")
def stops(ctx: InputContext) -> None:
    """Stop everything."""
    ctx.abort("no", metadata={"secret": "hidden"})


@processor("process_input", edits="nothing", on_error="allow", role="observer")
def notices(ctx: InputContext) -> None:
    """Find something, and let it pass."""
    ctx.flag("rude")
    ctx.note(score=0.5, label="b", many=[1])


@processor("process_input", edits="nothing")
def breaks(ctx: InputContext) -> None:
    """Fail."""
    raise ValueError("a secret")


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


CALLS = {"tool_calls": [{"name": "weather", "args": {"city": "Rome"}}]}


async def test_a_check_is_a_request_with_a_stage_and_its_steps(collected: Collected) -> None:
    """Each in the other."""
    workflow = Workflow("guard").then(PIIDetector(strategy="redact")).then(UnicodeNormalizer())
    await workflow.check("hi", observers=[collected.observer])
    assert collected.tree() == [
        "invoke_workflow guard",
        "  stage process_input",
        "    step pii-detector",
        "    step unicode-normalizer",
    ]
    assert dict(collected.span("invoke_workflow guard").attributes or {}) == {
        names.OPERATION: "invoke_workflow",
        names.WORKFLOW_NAME: "guard",
        names.STATUS: "passed",
        names.RUN_ID: (collected.span("invoke_workflow guard").attributes or {})[names.RUN_ID],
    }


def test_a_check_without_a_loop_is_the_same(collected: Collected) -> None:
    """A request, a stage, a step."""
    Workflow("guard").then(UnicodeNormalizer()).check_sync("hi", observers=[collected.observer])
    assert collected.tree() == ["invoke_workflow guard", "  stage process_input", "    step unicode-normalizer"]


async def test_stages_of_a_run_without_a_beginning_stand_alone(collected: Collected) -> None:
    """Each says to which run it belongs."""
    run = (
        Workflow("w")
        .then(UnicodeNormalizer())
        .start(run_id="run-1", request_context={"thread_id": "t"}, observers=[collected.observer])
    )
    await run.process_input("hi")
    assert collected.tree() == ["stage process_input", "  step unicode-normalizer"]
    found = dict(collected.span("stage process_input").attributes or {})
    assert (found[names.RUN_ID], found[names.CONVERSATION_ID]) == ("run-1", "t")


async def test_a_request_of_an_agent_has_its_steps_models_and_tools(collected: Collected) -> None:
    """A model step holds its stages, the call of the model, and the calls of tools."""
    model = ScriptedModel([CALLS, "It is sunny."], name="openai/gpt-5")
    agent = Agent(
        model, name="Helper", tools=[weather], observers=[collected.observer], processors=[UnicodeNormalizer()]
    )
    await agent.generate("Weather?", thread_id="thread-1")
    assert collected.parents("execute_tool weather") == ["model_step", "invoke_agent Helper"]
    assert [span.name for span in collected.spans if span.name.startswith("chat")] == ["chat gpt-5"] * 2
    assert [collected.above(span) for span in collected.named("chat gpt-5")] == collected.named("model_step")
    assert collected.still_open == []


async def test_times_of_a_span_are_within_those_of_the_one_around(collected: Collected) -> None:
    """By the wall clock, whose readings are a little apart."""
    agent = Agent(ScriptedModel([CALLS, "Sunny."]), tools=[weather], observers=[collected.observer])
    await agent.generate("Weather?")
    for span in collected.spans:
        above = collected.above(span)
        assert span.start_time <= span.end_time
        if above is not None:
            assert above.start_time - 5_000_000 <= span.start_time
            assert span.end_time <= above.end_time + 5_000_000


async def test_a_model_call_says_what_the_conventions_ask_for(collected: Collected) -> None:
    """Provider, model, settings, tokens, reasons."""
    model = ScriptedModel(["Hello you."], name="bedrock/claude")
    settings = {"temperature": 1, "max_tokens": 50, "stop": ["x"], "seed": True}
    agent = Agent(model, settings=settings, observers=[collected.observer])
    await agent.generate("Hi", thread_id="thread-1")
    span = collected.span("chat claude")
    found = dict(span.attributes or {})
    assert found.pop(names.FIRST_CHUNK) > 0
    assert span.kind is SpanKind.CLIENT
    assert found == {
        names.OPERATION: "chat",
        names.PROVIDER: "aws.bedrock",
        names.REQUEST_MODEL: "claude",
        names.REQUEST_STREAM: True,
        names.CONVERSATION_ID: "thread-1",
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.max_tokens": 50,
        names.STOP_SEQUENCES: ("x",),
        names.INPUT_TOKENS: 1,
        names.OUTPUT_TOKENS: 2,
        names.FINISH_REASONS: ("stop",),
        names.RESPONSE_ID: "answer-1",
        names.RESPONSE_MODEL: "bedrock/claude",
    }
    request = dict(collected.span("invoke_agent agent").attributes or {})
    assert request[names.CONVERSATION_ID] == "thread-1"
    assert request[names.INPUT_TOKENS] == 1
    assert request[names.FINISH_REASON] == "stop"


async def test_a_request_for_an_object_says_so(collected: Collected) -> None:
    """The content type is JSON."""
    agent = Agent(ScriptedModel(["[1]"]), output_type=list[int], observers=[collected.observer])
    assert (await agent.generate("Hi")).object == [1]
    assert (collected.span("chat scripted").attributes or {})[names.OUTPUT_TYPE] == "json"


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("openai/gpt-5", "openai", "gpt-5"),
        ("openrouter/meta/llama", "openrouter", "meta/llama"),
        ("google-vertex:gemini", "gcp.vertex_ai", "gemini"),
        ("scripted", "_OTHER", "scripted"),
        ("odd/", "_OTHER", "odd/"),
    ],
)
def test_the_name_of_a_model_gives_its_provider(name: str, provider: str, model: str) -> None:
    """In the words of the conventions."""
    assert names.model_attributes(name) == {names.PROVIDER: provider, names.REQUEST_MODEL: model}


async def test_a_verdict_is_an_event_of_its_step_and_of_the_request(collected: Collected) -> None:
    """A blocked request is no error; metadata of the verdict stay out."""
    await Workflow("guard").then(stops).check("hi", observers=[collected.observer])
    verdict = {
        names.TRIPWIRE_REASON: "no",
        names.TRIPWIRE_PROCESSOR: "stops",
        names.TRIPWIRE_STAGE: "process_input",
        names.TRIPWIRE_RETRY: False,
    }
    for name, status in (("step stops", "tripped"), ("invoke_workflow guard", "blocked")):
        span = collected.span(name)
        assert events(span, names.TRIPWIRE_EVENT) == [verdict]
        assert (span.attributes or {})[names.STATUS] == status
        assert span.status.status_code is StatusCode.UNSET
    assert "hidden" not in "".join(span.to_json() for span in collected.spans)


async def test_edits_are_counted_and_shown_with_their_positions(collected: Collected) -> None:
    """Not with their texts."""
    await (
        Workflow("guard")
        .then(PIIDetector(strategy="redact"))
        .check("Mail bob@example.com", observers=[collected.observer])
    )
    span = collected.span("step pii-detector")
    assert (span.attributes or {})[names.EDITS] == 1
    (edit,) = events(span, names.EDIT_EVENT)
    assert edit.pop(names.EDIT_MESSAGE)
    assert edit == {
        names.EDIT_KIND: "redact",
        names.EDIT_PART: 0,
        names.EDIT_FIELD: "text",
        names.EDIT_START: 5,
        names.EDIT_END: 20,
    }
    assert "bob" not in "".join(span.to_json() for span in collected.spans)


async def test_of_many_edits_only_some_are_shown(collected: Collected) -> None:
    """A backend has limits; the count is right."""
    text = "a@example.com " * 40
    await Workflow("guard").then(PIIDetector(strategy="redact")).check(text, observers=[collected.observer])
    span = collected.span("step pii-detector")
    assert (span.attributes or {})[names.EDITS] == 40
    assert len(events(span, names.EDIT_EVENT)) == 32


async def test_findings_notes_and_shadows_are_attributes(collected: Collected) -> None:
    """Of notes those that are no lists."""
    workflow = Workflow("guard").then(notices).then(stops, mode="shadow")
    await workflow.check("hi", observers=[collected.observer])
    found = dict(collected.span("step notices").attributes or {})
    assert found[names.FLAGGED] == ("rude",)
    assert {key: value for key, value in found.items() if key.startswith(names.DETAIL)} == {
        f"{names.DETAIL}score": 0.5,
        f"{names.DETAIL}label": "b",
    }
    shadow = dict(collected.span("step stops").attributes or {})
    assert (shadow[names.SHADOW], shadow[names.STATUS]) == (True, "tripped")
    assert (collected.span("invoke_workflow guard").attributes or {})[names.STATUS] == "passed"


async def test_a_failure_is_an_error_with_the_name_of_its_type(collected: Collected) -> None:
    """On the step, the stage and the request; the message stays out."""
    with pytest.raises(StepFailedError):
        await Workflow("guard").then(breaks).check("hi", observers=[collected.observer])
    step, request = collected.span("step breaks"), collected.span("invoke_workflow guard")
    assert step.status.status_code is request.status.status_code is StatusCode.ERROR
    assert (step.attributes or {})[names.ERROR_TYPE] == "ValueError"
    assert (request.attributes or {})[names.ERROR_TYPE] == "StepFailedError"
    assert "a secret" not in "".join(span.to_json() for span in collected.spans)


async def test_each_attempt_at_a_step_has_a_span(collected: Collected) -> None:
    """With its number, and the step that it tried in it."""
    failing = [True]

    @processor("process_input", id="shaky")
    async def shaky(ctx: InputContext) -> None:
        if failing and failing.pop():
            raise ValueError

    await Workflow("guard").then(shaky, retries=2).check("hi", observers=[collected.observer])
    attempts = collected.named("attempt shaky")
    assert [(span.attributes or {})[names.NUMBER] for span in attempts] == [0, 1]
    assert [span.status.status_code for span in attempts] == [StatusCode.ERROR, StatusCode.UNSET]
    assert [collected.above(span) for span in collected.named("step shaky")] == attempts


async def test_a_branch_says_which_arm_was_taken(collected: Collected) -> None:
    """Steps of the others are named by an event."""
    workflow = Workflow("guard").branch((lambda ctx: False, stops), otherwise=UnicodeNormalizer())
    await workflow.check("hi", observers=[collected.observer])
    (branch,) = [span for span in collected.spans if span.name.startswith("branch ")]
    assert (branch.attributes or {})[names.ARMS] == (1,)
    assert collected.parents("step unicode-normalizer")[0] == branch.name
    stage = collected.span("stage process_input")
    assert events(stage, names.SKIPPED_EVENT) == [{names.STEP: "stops"}]


async def test_a_step_that_a_verdict_cancels_is_skipped(collected: Collected) -> None:
    """Its span ends, and says so."""
    import anyio

    begun = anyio.Event()

    @processor("process_input", edits="nothing")
    async def waits(ctx: InputContext) -> None:
        begun.set()
        await anyio.sleep_forever()

    @processor("process_input", edits="nothing", role="guard")
    async def trips(ctx: InputContext) -> None:
        await begun.wait()
        ctx.abort("no")

    await Workflow("guard").parallel(waits, trips).check("hi", observers=[collected.observer])
    assert (collected.span("step waits").attributes or {})[names.STATUS] == "skipped"
    assert collected.still_open == []


async def test_a_step_that_takes_too_long_has_failed(collected: Collected) -> None:
    """Its span ends where its time did."""
    import anyio

    @processor("process_input", on_error="allow", edits="nothing")
    async def hangs(ctx: InputContext) -> None:
        await anyio.sleep_forever()

    await Workflow("guard").then(hangs, timeout=0.01).check("hi", observers=[collected.observer])
    span = collected.span("step hangs")
    assert (span.attributes or {})[names.ERROR_TYPE] == "TimeoutError"
    assert span.status.status_code is StatusCode.ERROR
    assert collected.still_open == []


async def test_a_failed_model_call_is_an_error_of_all_around_it(collected: Collected) -> None:
    """With the name of the error's type."""
    agent = Agent(ScriptedModel([{"error": {"status": 500, "message": "the prompt"}}]), observers=[collected.observer])
    with pytest.raises(ModelError):
        await agent.generate("Hi")
    for name in ("chat scripted", "invoke_agent agent"):
        assert collected.span(name).status.status_code is StatusCode.ERROR
    assert (collected.span("chat scripted").attributes or {})[names.ERROR_TYPE] == "ModelError"
    assert "the prompt" not in "".join(span.to_json() for span in collected.spans)
    assert collected.still_open == []


async def test_a_rejected_answer_and_the_next_one_are_two_model_steps(collected: Collected) -> None:
    """The verdict asked for another attempt."""

    class Picky(Processor):
        role = "guard"
        edits = "nothing"

        def process_output_step(self, ctx: OutputStepContext) -> None:
            if ctx.retry_count == 0:
                ctx.abort("again", retry=True)

    agent = Agent(ScriptedModel(["one", "two"]), processors=[Picky()], observers=[collected.observer])
    await agent.generate("Hi")
    first, second = collected.named("model_step")
    assert [(span.attributes or {})[names.FINISH_REASON] for span in (first, second)] == ["retry", "stop"]
    verdicts = [event for span in collected.named("step picky") for event in events(span, names.TRIPWIRE_EVENT)]
    assert [verdict[names.TRIPWIRE_RETRY] for verdict in verdicts] == [True]


async def test_a_stream_is_one_span_for_each_step_that_reads_it(collected: Collected) -> None:
    """However many chunks there are, and with the most characters that were held."""
    agent = Agent(
        ScriptedModel([{"deltas": ["mail bob", "@exam", "ple.com", " or call"]}]),
        output_processors=[PIIDetector(strategy="redact")],
        observers=[collected.observer],
    )
    await agent.generate("Hi")
    streams = [
        span
        for span in collected.named("step pii-detector")
        if (span.attributes or {})[names.STAGE] == "process_output_stream" and (span.attributes or {}).get(names.EDITS)
    ]
    assert len(streams) == 1
    stage = collected.above(streams[0])
    assert stage is not None
    assert (stage.attributes or {})[names.HELD] >= len("bob@example.com")


async def test_a_record_without_its_run_becomes_a_span_of_its_own(collected: Collected) -> None:
    """So records that were kept can be sent later."""
    outcome = await Workflow("guard").then(RegexFilterProcessor(rules=[{"name": "h", "pattern": "h"}])).check("hi")
    with collected.tracer.start_as_current_span("later"):
        for record in outcome.records:
            collected.observer.on_record(record)
    (step,) = [span for span in collected.spans if span.name.startswith("step ")]
    assert collected.parents(step.name) == ["later"]
    assert step.start_time == int(outcome.records[0].started * 1_000_000_000)
