"""Scenarios C: retries with feedback: what the model is told, what counts, what is left of a rejected attempt."""

from __future__ import annotations

from typing import Any

from tests.conformance.runtime import rules
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, scenario
from tests.conformance.runtime.projection import project
from tests.conformance.runtime.shapes import entry_of
from tests.conformance.runtime.turns import Mode
from tests.conformance.runtime.verdicts import GONE, LEAKING, ONE, STOPS


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
    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        limit = given["agentOptions"].get("maxProcessorRetries")
        run = world.start(chain(strict(log, [given["reason"]] * 9, **options)), max_processor_retries=limit)
        talk = Talk(run, given["model_turns"], mode=mode, budget=given["callOptions"].get("maxSteps", 5))
        await talk.play(conversation(given["input"]))
        return {"log": log, "model_calls": len(talk.calls), "prompts": talk.prompts, "result": talk.result()}

    return await in_both(play)


RETRIED = {
    "*/result/chunks": Better(rules.a_rejected_attempt_does_not_leave),
    "*/result/*": SAME,
    "*/log": SAME,
    "*/model_calls": SAME,
    "*/prompts": SAME,
}
EXHAUSTED = {
    **{f"*/result/{key}": STOPS for key in (*LEAKING, *GONE) if key != "chunks"},
    "stream/result/status": ONE,
}
HELD = "DESIGN §9: what a later guard is to judge does not leave before"


@scenario("C01", {**EXHAUSTED, **RETRIED})
async def no_budget_no_retry(world: Any, given: Any) -> Any:
    """Without a limit, a request for a retry is a verdict."""
    return await _retried(world, given)


@scenario("C02", RETRIED, overrules=HELD)
async def two_rejections(world: Any, given: Any) -> Any:
    """The rejected answer is gone, the reason reaches the model, the counter counts."""
    return await _retried(world, given)


@scenario("C04", {**EXHAUSTED, **RETRIED})
async def an_exhausted_budget(world: Any, given: Any) -> Any:
    """After the last retry the rejection is a verdict."""
    return await _retried(world, given)


@scenario("C06", RETRIED, overrules=HELD)
async def metadata_of_a_retry(world: Any, given: Any) -> Any:
    """Metadata is kept with the rejected step."""
    return await _retried(world, given, metadata={"score": 0.2})


@scenario("C07", RETRIED, overrules=HELD)
async def a_rejected_tool_call(world: Any, given: Any) -> Any:
    """The tool of a rejected step does not run."""
    return await _retried(world, given)


MORE = Better(rules.retries_do_not_use_up_steps)


@scenario(
    "C10",
    {
        "*/model_calls": MORE,
        "*/result/tripwire*": SAME,
        "*/result/status": SAME,
        "*/result/*": MORE,
        "*/prompts": MORE,
        "*/log/*": SAME,
    },
)
async def retries_beside_steps(world: Any, given: Any) -> Any:
    """Rejected attempts do not use up the step budget."""
    played = await _retried(world, given)
    for told in played.values():
        told["prompts"] = [[entry["text"] for entry in project(prompt)] for prompt in told["prompts"]]
    return played


@scenario(
    "C24",
    {"system_messages_by_call": Better(rules.feedback_is_for_one_retry), "text": SAME, "steps": SAME},
)
async def feedback_for_one_retry(world: Any, given: Any) -> Any:
    """Only the attempt behind a rejection is told of it."""
    run = world.start(chain(strict([], given["reasons"])), max_processor_retries=given["maxProcessorRetries"])
    talk = await Talk(run, given["model_turns"]).play(conversation("Hi"))
    system = [[entry["text"] for entry in prompt if entry["role"] == "system"] for prompt in project(talk.prompts)]
    return {"system_messages_by_call": system, "text": talk.text, "steps": talk.steps}
