"""Scenarios B and C: verdicts, ordinary errors and wrong returns at each stage; retries with feedback."""

from __future__ import annotations

from typing import Any

from penstock import Message, MessageList, Overrides
from tests.conformance.runtime import rules
from tests.conformance.runtime.driver import Hooks, Talk, camel, chain, conversation, entry_of, shown, told_error
from tests.conformance.runtime.frame import AGENT, SAME, STREAM, Better, Neutral, scenario
from tests.conformance.runtime.projection import project, snake

STOPS = Better(rules.everything_stops_at_a_verdict)
ALL_STAGES = (
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
)


def spy(id: str, log: list[Any], *stages: str, abort: dict[str, Any] | None = None, from_step: int = 0) -> Hooks:
    """Return a processor that logs its hooks, and aborts in one of them."""

    def hook(stage: str) -> Any:
        def called(ctx: Any) -> None:
            log.append(f"{id}.{stage}")
            if abort is not None and snake(abort["stage"]) == stage and ctx.step_number >= from_step:
                ctx.abort(abort["reason"], **abort["options"])

        return called

    return Hooks(id, **{stage: hook(stage) for stage in stages})


async def _aborted(world: Any, given: Any, *, from_step: int = 0) -> Any:
    """Play what B01–B10 have in common: A aborts, Z comes behind it, O is an output processor."""
    log: list[Any] = []
    stage = snake(given["abort"]["stage"])
    output = "outputProcessors" in given
    z = ALL_STAGES[4:] if output else ALL_STAGES[:4]
    items = [spy("A", log, stage, abort=given["abort"], from_step=from_step), spy("Z", log, *z)]
    workflow = chain(*items) if output else chain(*items, spy("O", log, *ALL_STAGES[4:]))

    def tool(**_: Any) -> Any:
        log.append("tool executed")
        return {"answer": 42}

    talk = Talk(world.start(workflow), given["model_turns"], tools={"lookup": tool})
    await talk.play(conversation(given["input"]))
    calls = {"model_calls_when_result_returned": len(talk.calls), "model_calls_after_settling": len(talk.calls)}
    both = {"log": log, **calls, "prompts_after_first": talk.prompts[1:], "result": talk.result()}
    return {"generate": both, "stream": both}


AS_RECORDED = {
    "generate/result/usage": AGENT,
    "generate/result/*": SAME,
    "stream/result": STREAM,
    "*/log": SAME,
    "*/model_calls_*": SAME,
    "*/prompts_after_first": SAME,
}


@scenario("B01", {"generate/result/messages": AGENT, **AS_RECORDED})
async def abort_in_process_input(world: Any, given: Any) -> Any:
    """The model is never called."""
    return await _aborted(world, given)


@scenario("B03", AS_RECORDED)
async def abort_in_a_later_input_step(world: Any, given: Any) -> Any:
    """What was accepted before stays."""
    return await _aborted(world, given, from_step=1)


@scenario("B04", AS_RECORDED)
async def abort_in_llm_request(world: Any, given: Any) -> Any:
    """The model is never called."""
    return await _aborted(world, given)


@scenario("B05", {"generate/result/messages": STOPS, **AS_RECORDED})
async def abort_in_llm_response(world: Any, given: Any) -> Any:
    """The answer is gone from the history too."""
    return await _aborted(world, given)


LEAKS = {
    "generate/result/text": STOPS,
    "generate/result/finishReason": STOPS,
    "generate/result/messages": STOPS,
    "generate/result/steps": STOPS,
    "*/log": STOPS,
    **{pattern: how for pattern, how in AS_RECORDED.items() if pattern != "*/log"},
}


@scenario("B07", LEAKS)
async def abort_in_output_step(world: Any, given: Any) -> Any:
    """The blocked answer is nowhere, and no further hook runs."""
    return await _aborted(world, given)


@scenario(
    "B09",
    {
        "*/log": STOPS,
        "*/model_calls_after_settling": STOPS,
        "*/prompts_after_first": STOPS,
        "generate/result/messages": STOPS,
        "generate/result/usage": AGENT,
        "generate/result/*": SAME,
        "stream/result": STREAM,
        "*/model_calls_*": SAME,
    },
)
async def abort_in_tool_result(world: Any, given: Any) -> Any:
    """Nothing goes on in the background, and the step that called the tool is blocked as a whole."""
    return await _aborted(world, given)


@scenario(
    "B17",
    {
        **{f"generate/{key}": STOPS for key in ("text", "finishReason", "steps", "messages")},
        "generate/usage": AGENT,
        "generate/*": SAME,
        "stream": STREAM,
    },
)
async def the_smallest_leak(world: Any, given: Any) -> Any:
    """A single guard after the model: its verdict empties the text."""
    a = Hooks("A", process_output_step=lambda ctx: ctx.abort("blocked"))
    talk = await Talk(world.start(chain(a)), given["model_turns"]).play(conversation("Hi"))
    return {"generate": talk.result()}


async def _stopped_at(world: Any, stage: str, *guards: Any) -> Talk:
    """Play a request whose workflow has those hooks at one stage."""
    hooks = [Hooks(id, **{stage: hook}) for id, hook in zip("ABC", guards, strict=False)]
    return await Talk(world.start(chain(*hooks)), [{"text": "hi"}]).play(conversation("Hi"))


@scenario("B11", {"processOutputStream": STREAM, "*": SAME})
async def the_default_reason(world: Any, given: Any) -> Any:
    """Without a reason, the reason names the processor."""
    del given
    stages = [stage for stage in ALL_STAGES if stage != "process_tool_result"]
    talks = {stage: await _stopped_at(world, stage, lambda ctx: ctx.abort()) for stage in stages}
    return {camel(stage): shown(talk.run.tripwire) for stage, talk in talks.items()}


@scenario(
    "B14",
    {
        "processOutputStream": STREAM,
        "*/generate/log": SAME,
        "*/generate/result": Better(rules.the_original_error_is_the_cause),
        "*/stream/log": SAME,
        "*/stream/result": STREAM,
    },
)
async def an_ordinary_error(world: Any, given: Any) -> Any:
    """An error at any stage stops the request, and its original is the cause."""
    turns = [
        {"text": "let me see", "tool_calls": [{"id": "c1", "name": "lookup", "args": {"q": "x"}}]},
        {"text": "done"},
    ]
    found = {}
    for stage in ALL_STAGES:
        log: list[Any] = []

        def broken(_ctx: Any) -> None:
            raise ValueError("boom")

        workflow = chain(Hooks("A", **{stage: broken}), spy("Z", log, stage))
        script = turns if stage == "process_tool_result" else given["model_turns_text"]
        talk = await Talk(world.start(workflow), script).play(conversation("Hi"))
        both = {"log": log, "result": {"threw": told_error(talk.error)} if talk.error else talk.result()}
        found[camel(stage)] = {"generate": both, "stream": both}
    return found


@scenario("B15", {"*/generate/*": SAME, "*/stream/threw": AGENT, "*/stream/*": STREAM})
async def a_foreign_list(world: Any, given: Any) -> Any:
    """A list that does not derive from the context's is refused wherever messages are taken."""
    del given
    other = MessageList([Message.user("foreign")])
    both = {"messages": other, "message_list": other}
    hooks: dict[str, tuple[str, Any]] = {
        "processInput": ("process_input", lambda _ctx: other),
        "processInputStep": ("process_input_step", lambda _ctx: other),
        "processInputStep.object": ("process_input_step", lambda _ctx: Overrides(messages=other)),
        "processInputStep.both": ("process_input_step", lambda _ctx: Overrides(**both)),
        "processOutputStep": ("process_output_step", lambda _ctx: other),
        "processOutputResult": ("process_output_result", lambda _ctx: other),
    }
    found = {}
    for case, (stage, hook) in hooks.items():
        talk = await _stopped_at(world, stage, hook)
        told = told_error(talk.error) if talk.error else {}
        threw = told if told.get("processor") == "A" else None
        found[case] = {"generate": {"threw": threw, "error": None}}
    return found


@scenario(
    "B19",
    {
        "processOutputStream": STREAM,
        "processOutputStep/text": STOPS,
        "processOutputStep/finishReason": STOPS,
        "processOutputResult/text": STOPS,
        "*/*": SAME,
    },
    overrules="DESIGN §6: text of the blocked step is empty everywhere, and the reason to finish is always other",
)
async def the_first_of_two_aborts(world: Any, given: Any) -> Any:
    """In a sequence the first to abort wins, and the second is not called."""
    del given
    found = {}
    for stage in ("process_input", "process_input_step", "process_output_step", "process_output_result"):
        called: list[str] = []

        def guard(id: str, called: list[str] = called) -> Any:
            def abort(ctx: Any) -> None:
                called.append(id)
                ctx.abort(f"from {id}")

            return abort

        talk = await _stopped_at(world, stage, guard("A"), guard("B"))
        found[camel(stage)] = {"called": called, **talk.result()}
    return found


@scenario(
    "B20",
    {
        "variants/*/options": Neutral("what was given"),
        "variants/*/keys": Neutral("how its fields are spelled"),
        "variants/*/*": SAME,
    },
)
async def the_fields_of_a_tripwire(world: Any, given: Any) -> Any:
    """Reason, retry and metadata come out as they were given."""
    found = []
    for options in given["variants"]:
        talk = await _stopped_at(world, "process_input", lambda ctx, options=options: ctx.abort("r", **options))
        found.append(talk.result())
    return {"variants": found}


# Retries


def strict(log: list[Any], reasons: list[str], **options: Any) -> Hooks:
    """Return a guard that rejects answers that begin with "bad", and logs what it is told."""
    left = iter(reasons)

    def judge(ctx: Any) -> None:
        told = {
            "retryCount": ctx.retry_count,
            "stepNumber": ctx.step_number,
            "text": ctx.text,
            "steps_len": len(ctx.steps),
        }
        log.append(["A.processOutputStep", {**told, "messages": [entry_of(message) for message in ctx.messages]}])
        if ctx.text.startswith("bad"):
            ctx.abort(next(left), retry=True, **options)

    return Hooks("A", process_output_step=judge)


async def _retried(world: Any, given: Any, **options: Any) -> Any:
    log: list[Any] = []
    limit = given["agentOptions"].get("maxProcessorRetries")
    run = world.start(chain(strict(log, [given["reason"]] * 9, **options)), max_processor_retries=limit)
    talk = Talk(run, given["model_turns"], budget=given["callOptions"].get("maxSteps", 5))
    await talk.play(conversation(given["input"]))
    both = {"log": log, "model_calls": len(talk.calls), "prompts": talk.prompts, "result": talk.result()}
    return {"generate": both, "stream": both}


RETRIED = {
    "*/result/usage": AGENT,
    "generate/result/*": SAME,
    "stream/result": STREAM,
    "*/log": SAME,
    "*/model_calls": SAME,
    "*/prompts": SAME,
}
EXHAUSTED = {f"generate/result/{key}": STOPS for key in ("text", "finishReason", "steps", "messages")}


@scenario("C01", {**EXHAUSTED, **RETRIED})
async def no_budget_no_retry(world: Any, given: Any) -> Any:
    """Without a limit, a request for a retry is a verdict."""
    return await _retried(world, given)


@scenario("C02", RETRIED)
async def two_rejections(world: Any, given: Any) -> Any:
    """The rejected answer is gone, the reason reaches the model, the counter counts."""
    return await _retried(world, given)


@scenario("C04", {**EXHAUSTED, **RETRIED})
async def an_exhausted_budget(world: Any, given: Any) -> Any:
    """After the last retry the rejection is a verdict."""
    return await _retried(world, given)


@scenario("C06", RETRIED)
async def metadata_of_a_retry(world: Any, given: Any) -> Any:
    """Metadata is kept with the rejected step."""
    return await _retried(world, given, metadata={"score": 0.2})


@scenario("C07", RETRIED)
async def a_rejected_tool_call(world: Any, given: Any) -> Any:
    """The tool of a rejected step does not run."""
    return await _retried(world, given)


MORE = Better(rules.retries_do_not_use_up_steps)


@scenario(
    "C10",
    {
        "generate/model_calls": MORE,
        "generate/result/tripwire": SAME,
        "generate/result/usage": AGENT,
        "generate/result/*": MORE,
        "generate/prompts": MORE,
        "generate/log/*": SAME,
        "stream": STREAM,
    },
)
async def retries_beside_steps(world: Any, given: Any) -> Any:
    """Rejected attempts do not use up the step budget."""
    played = await _retried(world, given)
    generate = played["generate"]
    texts = [[entry["text"] for entry in project(prompt)] for prompt in generate["prompts"]]
    return {"generate": {**generate, "prompts": texts}}


@scenario(
    "C24",
    {"system_messages_by_call": Better(rules.feedback_is_for_one_retry), "text": AGENT, "steps": SAME},
)
async def feedback_for_one_retry(world: Any, given: Any) -> Any:
    """Only the attempt behind a rejection is told of it."""
    run = world.start(chain(strict([], given["reasons"])), max_processor_retries=given["maxProcessorRetries"])
    talk = await Talk(run, given["model_turns"]).play(conversation("Hi"))
    system = [[entry["text"] for entry in prompt if entry["role"] == "system"] for prompt in project(talk.prompts)]
    return {"system_messages_by_call": system, "steps": talk.result()["steps"]}
